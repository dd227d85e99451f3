"""kubernetes.Quantity as CEL sees it: the exact value, and which of upstream's two representations holds it.

`resource.Quantity` keeps a value either as an int64 with a power of ten or as a decimal of any size. Both mean the
same number, and yet CEL can tell them apart: `isInteger` and `asInteger` know only the first, and
`asApproximateFloat` rounds differently. The number itself is `core.quantity.Quantity`.

One thing is left out: upstream's comparison turns its left side into a decimal in place if the right side is one, so
that `isInteger` of the same variable is false afterwards. Here a comparison changes nothing.
"""

import re
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from drabridge.core import quantity as exact
from drabridge.core.cel.values import CelError, Opaque

_SYNTAX: Final = re.compile(
    r"(?P<number>[+-]?0*(?P<digits>[0-9]*)(?:\.(?P<fraction>[0-9]*))?)(?P<suffix>[eEinumkKMGTP]*[+-]?[0-9]*)"
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"  # upstream's text
)
_NANO: Final = -9
_INT64_DIGITS: Final = 18
_MAX_INT64: Final = 2**63 - 1
_MIN_INT64: Final = -(2**63)
_WHOLE_DIGITS: Final = 40
_FLOAT_DIGITS: Final = 800


@dataclass(frozen=True, slots=True, eq=False)
class Quantity(Opaque):
    """A quantity. Upstream's int64 is `exact` / 10^`scale` if `fast`, else the unscaled value of its decimal.

    `derived` says that it is the result of a sum or difference. Upstream returns those by pointer and cannot compare
    with a pointer on the right: that side is an error.
    """

    type_name: ClassVar[str] = "kubernetes.Quantity"
    go_type: ClassVar[str] = "cel.Quantity"

    exact: exact.Quantity
    scale: int
    fast: bool
    derived: bool = False
    whole: int | None = None
    """The value if it is an integer of moderate size, which makes comparisons cheap; else None."""

    def __str__(self) -> str:
        return str(self.exact)

    def equals(self, other: Any) -> bool:
        """Whether it is the same number. Raises CelError unless other is a quantity that upstream holds by value."""
        if not isinstance(other, Quantity) or other.derived:
            raise CelError("no such overload")
        return compare(self, other) == 0


@dataclass(frozen=True, slots=True)
class _Scan:
    """What upstream's parser decides before it computes: the power of ten and the representation."""

    scale: int
    fast: bool


def parse(text: str) -> Quantity:
    """Read a quantity. Raises CelError with upstream's text where `resource.ParseQuantity` fails."""
    scan = _scan(text)
    try:
        value = exact.Quantity.parse(text)
    except ValueError as error:  # longer than core.quantity takes
        raise CelError(str(error)) from error
    if scan.fast:
        return _quantity(value, scan.scale, fast=True)
    if value.mantissa == 0:
        return _quantity(value, scan.scale, fast=False)
    capped = value.format is exact.Format.BINARY_SI and value.as_int() in {_MAX_INT64, -_MAX_INT64}
    return _quantity(value, 0 if capped else _NANO, fast=False)


def is_quantity(text: str) -> bool:
    """Whether `parse` would take it."""
    try:
        _scan(text)
    except CelError:
        return False
    return True


def from_int(value: int) -> Quantity:
    """The int as upstream adds and subtracts it: with an exponent as suffix."""
    number = replace(exact.Quantity.parse(str(value)), format=exact.Format.DECIMAL_EXPONENT)
    return _quantity(number, 0, fast=True)


def compare(left: Quantity, right: Quantity) -> int:
    """-1, 0 or 1."""
    mine, others = left.whole, right.whole
    if mine is not None and others is not None:
        return (mine > others) - (mine < others)
    if left.exact == right.exact:
        return 0
    return -1 if left.exact < right.exact else 1


def sign(value: Quantity) -> int:
    """-1, 0 or 1."""
    mantissa = value.exact.mantissa
    return (mantissa > 0) - (mantissa < 0)


def is_integer(value: Quantity) -> bool:
    """Whether upstream's int64 representation holds it, as an int64 without a fraction."""
    return _int64(value) is not None


def as_integer(value: Quantity) -> int:
    """The value. Raises CelError unless `is_integer`."""
    number = _int64(value)
    if number is None:
        raise CelError("cannot convert value to integer")
    return number


def as_approximate_float(value: Quantity) -> float:
    """The unscaled value times a power of ten, in floating point: what is lost depends on the representation."""
    try:
        unscaled = float(_unscaled(value))
    except OverflowError:
        unscaled = float("inf") * sign(value)
    return unscaled if value.scale == 0 else unscaled * _pow10(value.scale)


def add(left: Quantity, right: Quantity) -> Quantity:
    """The sum. Raises CelError for sums of too many digits."""
    if left.fast and right.fast:
        return _add_fast(left, right)
    return _derive(_sum(left.exact, right.exact), min(left.scale, right.scale), fast=False)


def sub(left: Quantity, right: Quantity) -> Quantity:
    """The difference. Raises CelError for differences of too many digits."""
    opposite = replace(right, exact=replace(right.exact, mantissa=-right.exact.mantissa))
    if left.fast and right.fast:
        # Upstream negates an int64, and the smallest has no opposite.
        total = _add_fast(left, right if _unscaled(right) == _MIN_INT64 else opposite)
        if total.fast:
            return total
    return _derive(_sum(left.exact, opposite.exact), min(left.scale, right.scale), fast=False)


def _scan(text: str) -> _Scan:
    match = _SYNTAX.fullmatch(text) if text else None
    if match is None:
        raise CelError(_FORMAT_WRONG)
    digits, fraction, suffix = match["digits"] or "0", match["fraction"] or "", match["suffix"]
    binary = _BINARY.get(suffix)
    exponent = _exponent(suffix) if binary is None else 0
    scale = _int32(exponent - len(fraction))
    if binary is None:
        precision = _INT64_DIGITS - len(digits) - len(fraction)
    else:  # whole numbers only; ten bits are about three digits
        precision = -1 if fraction else 14 - len(digits) - binary * 3 // 10
    if precision >= 0 and scale >= _NANO:
        return _Scan(scale, fast=True)
    if not match["number"].strip("+-."):
        raise CelError("unable to parse numeric part of quantity")
    return _Scan(scale, fast=False)


def _exponent(suffix: str) -> int:
    """The power of ten of a suffix that is not binary."""
    if suffix in _DECIMAL:
        return _DECIMAL[suffix]
    if suffix[:1] in {"e", "E"} and suffix[1:].lstrip("+-").isdigit():  # the syntax allows no second sign
        power = int(suffix[1:])
        if _MIN_INT64 <= power <= _MAX_INT64:
            return _int32(power)
    raise CelError("unable to parse quantity's suffix")


def _add_fast(left: Quantity, right: Quantity) -> Quantity:
    """Add two int64 with upstream's rules for the scale; what overflows becomes a decimal."""
    if not right.exact.mantissa:
        value = left.exact if left.exact.mantissa else replace(left.exact, format=right.exact.format)
        return _derive(value, left.scale, fast=True)
    if not left.exact.mantissa:
        return _derive(right.exact, right.scale, fast=True)
    scale = min(left.scale, right.scale)
    value = _sum(left.exact, right.exact)
    fits = all(
        number.exponent + len(str(number.mantissa)) - scale <= _WHOLE_DIGITS
        and _MIN_INT64 <= number.mantissa * 10 ** (number.exponent - scale) <= _MAX_INT64
        for number in (left.exact, right.exact, value)
    )
    return _derive(value, scale, fast=fits)


def _sum(left: exact.Quantity, right: exact.Quantity) -> exact.Quantity:
    try:
        return left + right
    except OverflowError as error:
        raise CelError(str(error)) from error


def _unscaled(value: Quantity) -> int:
    """Upstream's integer. Raises OverflowError where no float is that large."""
    power = value.exact.exponent - value.scale
    if value.exact.mantissa and power > _FLOAT_DIGITS:
        raise OverflowError
    return value.exact.mantissa * 10**power if value.exact.mantissa else 0


def _int64(value: Quantity) -> int | None:
    if not value.fast or value.scale < 0:
        return None
    if value.whole is None:  # a fast value of scale 0 or more is an integer, so this one is too large
        return None
    return value.whole if _MIN_INT64 <= value.whole <= _MAX_INT64 else None


def _derive(value: exact.Quantity, scale: int, *, fast: bool) -> Quantity:
    return replace(_quantity(value, scale, fast=fast), derived=True)


def _quantity(value: exact.Quantity, scale: int, *, fast: bool) -> Quantity:
    moderate = 0 <= value.exponent <= _WHOLE_DIGITS
    return Quantity(value, scale, fast, whole=value.mantissa * 10**value.exponent if moderate else None)


def _int32(value: int) -> int:
    """Keep 32 bits, as Go code does that counts scales in int32."""
    return (value + 2**31) % 2**32 - 2**31


def _pow10(power: int) -> float:
    """10^power as Go's math.Pow10 computes it: from two tables, so that some results are off by a bit."""
    tens, ones = divmod(abs(power), 32)
    if power > 308:
        return float("inf")
    if power < -323:
        return 0.0
    if power >= 0:
        return float(f"1e{32 * tens}") * float(f"1e{ones}")
    return float(f"1e-{32 * tens}") / float(f"1e{ones}")
