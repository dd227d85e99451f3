"""CEL's operators on Python values: equality, order, arithmetic, size, look-up, as cel-go's common/types has them.

All raise CelError with cel-go's text. What is not said in the specification (which operand's type decides, when an
error is taken for "different") follows cel-go, since Kubernetes' users see its answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from drabridge.core.cel import work
from drabridge.core.cel.types import Type
from drabridge.core.cel.values import CelError, Duration, Opaque, Optional, Stopped, Timestamp, TypeValue, Uint

MIN_INT: Final = -(2**63)
MAX_INT: Final = 2**63 - 1
MAX_UINT: Final = 2**64 - 1
MIN_SECONDS: Final = -62135596800
MAX_SECONDS: Final = 253402300799
SECOND: Final = 1_000_000_000

LONGEST_LIST: Final = 1 << 17
"""Elements of a list made by `+`. Upstream concatenates lazily, so that doubling a list is free there; more elements
than this cannot be looked at within the cost limit anyway."""

NO_OVERLOAD: Final = "no such overload"

_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    tuple: "list",
    dict: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    Optional: "optional_type",
}

_GO_TYPES: Final = {
    "bool": "types.Bool",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "string": "types.String",
    "bytes": "types.Bytes",
    "null_type": "types.Null",
    "list": "*types.baseList",
    "map": "*types.baseMap",
    "google.protobuf.Timestamp": "types.Timestamp",
    "google.protobuf.Duration": "types.Duration",
    "type": "*types.Type",
    "optional_type": "*types.Optional",
}


class GrowingList(list[Any]):
    """An accumulator that starts empty: `+` appends to it in place, as cel-go's mutable list does."""

    __slots__ = ()


class GrowingMap(dict[Any, Any]):
    """An accumulator that starts empty: insertion is in place."""

    __slots__ = ()


class NativeMap(dict[Any, Any]):
    """A map that upstream keeps as Go's values; others are of CEL's values, which cannot all be looked up."""

    __slots__ = ()


class DefaultMap(NativeMap):
    """A map whose look-up answers unknown keys with an empty map, while `in`, size and iteration know only real keys.

    k8s.io/dynamic-resource-allocation/cel makes `device.attributes` and `device.capacity` of it.
    """

    __slots__ = ()

    def __missing__(self, key: Any) -> dict[Any, Any]:
        return EMPTY_MAP


EMPTY_MAP: Final[dict[Any, Any]] = {}


def type_name(value: Any) -> str:
    """CEL's name of a value's type."""
    cls = value.__class__
    if (name := _NAMES.get(cls)) is not None:
        return name
    if isinstance(value, Opaque):
        return value.type_name
    for base, name in ((dict, "map"), (list, "list")):
        if isinstance(value, base):
            return name
    raise CelError(f"unsupported conversion to ref.Val: ({cls.__name__})")


def type_text(value: Any) -> str:
    """CEL's name of a value's type with its parameters, which cel-go does not know at run time."""
    name = type_name(value)
    return name + {"list": "(dyn)", "map": "(dyn, dyn)", "optional_type": "(dyn)"}.get(name, "")


def go_type(value: Any) -> str:
    """Go's name of a value's type, which two of cel-go's messages show."""
    return value.go_type if isinstance(value, Opaque) else _GO_TYPES[type_name(value)]


def fits(declared: Type, value: Any) -> bool:
    """Whether a value may be passed as an argument of a declared type: containers are judged by their first element."""
    if declared.name in ("dyn", "google.protobuf.Any") or declared.is_parameter:
        return True
    if declared.name != type_name(value):
        return False
    if declared.name == "list" and value:
        return fits(declared.args[0], value[0])
    if declared.name == "map" and value:
        key, element = next(iter(value.items()))
        return fits(declared.args[0], key) and fits(declared.args[1], element)
    return True


def can_be_added(value: Any) -> bool:
    """Whether cel-go's type has a method Add, which one of its messages depends on."""
    return isinstance(value, int | float | str | bytes | Timestamp | Duration) and value.__class__ is not bool


def no_such_overload(function: str, *arguments: Any) -> CelError:
    """Make the error of a function that has no overload for the arguments it got at run time."""
    return CelError(f"{NO_OVERLOAD}: {function}({', '.join(map(type_name, arguments))})")


# Equality


def equal(a: Any, b: Any) -> bool:
    """CEL's `a == b`: numbers across their types, other types only with their own."""
    cls = a.__class__
    if cls is str or cls is bool or cls is bytes:
        return bool(a == b) if b.__class__ is cls else False
    if a is None or b is None:
        return a is b
    if isinstance(a, Opaque):
        return a.equals(b)
    if isinstance(a, int | float):
        return _numbers_equal(a, b)
    if isinstance(a, list | tuple):
        return isinstance(b, list | tuple) and _lists_equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and _maps_equal(a, b)
    if cls is Optional:
        return b.__class__ is Optional and _optionals_equal(a, b)
    return bool(b.__class__ is cls and a == b)


def _numbers_equal(a: float, b: Any) -> bool:
    if not isinstance(b, int | float) or b.__class__ is bool:
        return False
    if isinstance(a, int) and isinstance(b, int):
        return int(a) == int(b)
    if math.isnan(a) or math.isnan(b):
        return False
    return order_numbers(a, b) == 0


def _lists_equal(a: Any, b: Any) -> bool:
    return len(a) == len(b) and _all_equal(zip(a, b, strict=True))


def _maps_equal(a: dict[Any, Any], b: dict[Any, Any]) -> bool:
    if len(a) != len(b):
        return False
    return _all_equal(((Optional(True, value), find(b, key)) for key, value in a.items()), 8 * work.COMPARISON)


def _all_equal(pairs: Iterable[tuple[Any, Any]], steps: int = work.COMPARISON) -> bool:
    compared = 1
    try:
        for x, y in pairs:
            compared += 1
            if not _not_different(x, y):
                return False
        return True
    finally:
        work.spend(compared * steps)


def _not_different(a: Any, b: Any) -> bool:
    # Inside of containers an error of the comparison counts as "the same" upstream.
    if a.__class__ is str or a.__class__ is bytes:
        work.spend(len(a) // _COMPARED_AT_ONCE)
    try:
        return equal(a, b)
    except CelError:
        return True


_COMPARED_AT_ONCE: Final = 64
"""Characters of a text that are compared within a step."""


def _optionals_equal(a: Optional, b: Optional) -> bool:
    if not a.present or not b.present:
        return a.present == b.present
    return equal(a.value, b.value)


def differ(a: Any, b: Any) -> bool:
    """CEL's `a != b`: true as well where `==` is an error."""
    try:
        return not equal(a, b)
    except CelError:
        return True


# Order


def order_numbers(a: Any, b: Any) -> int:
    """Compare two numbers of any numeric types, none of which is NaN: -1, 0 or 1.

    Integers meet doubles as doubles, but within the integer type's range only, as cel-go does it.
    """
    if isinstance(a, int) and isinstance(b, int):
        return (a > b) - (a < b)
    if isinstance(a, int):
        return -order_numbers(b, a)
    if isinstance(b, int):
        low, high = (0.0, float(MAX_UINT)) if b.__class__ is Uint else (float(MIN_INT), float(MAX_INT))
        if a < low:
            return -1
        if a > high:
            return 1
    x, y = float(a), float(b)
    return (x > y) - (x < y)


def compare(a: Any, b: Any) -> int:
    """Order two values: -1, 0 or 1. Raises CelError for types without an order, mixed types and NaN."""
    cls = a.__class__
    if isinstance(a, int | float) and cls is not bool:
        if not isinstance(b, int | float) or b.__class__ is bool:
            if cls is float and math.isnan(a):
                raise CelError("NaN values cannot be ordered")
            raise CelError(NO_OVERLOAD)
        if a != a or b != b:  # noqa: PLR0124 -- the test for NaN that works for huge integers, too
            raise CelError("NaN values cannot be ordered")
        return order_numbers(a, b)
    if cls not in _ORDERED or b.__class__ is not cls:
        raise CelError(NO_OVERLOAD)
    if cls is str and not (a.isascii() and b.isascii()):
        # Go compares bytes of UTF-8, which is the order of code points.
        a, b = a.encode("utf-8", "surrogatepass"), b.encode("utf-8", "surrogatepass")
    order: int = (a > b) - (a < b)
    return order


_ORDERED: Final = frozenset({str, bytes, bool, Timestamp, Duration})


def _comparison(symbol: str, holds: Callable[[int], bool]) -> Callable[[Any, Any], bool]:
    function = f"_{symbol}_"

    def compared(a: Any, b: Any) -> bool:
        if isinstance(a, Opaque) or a is None or a.__class__ in _UNORDERED or isinstance(a, list | tuple | dict):
            raise CelError(f"{NO_OVERLOAD}: {function}")
        return holds(compare(a, b))

    return compared


_UNORDERED: Final = frozenset({TypeValue, Optional})

less = _comparison("<", lambda order: order < 0)
less_equals = _comparison("<=", lambda order: order <= 0)
greater = _comparison(">", lambda order: order > 0)
greater_equals = _comparison(">=", lambda order: order >= 0)


# Arithmetic


def _int(value: int) -> int:
    if MIN_INT <= value <= MAX_INT:
        return value
    raise CelError("integer overflow")


def _uint(value: int) -> Uint:
    if 0 <= value <= MAX_UINT:
        return Uint(value)
    raise CelError("unsigned integer overflow")


def _without(symbol: str, a: Any) -> CelError:
    """Make the error for a left operand whose type lacks the operator.

    cel-go asks strings, timestamps and durations once more, as receivers, and they answer without naming the function.
    """
    if a.__class__ in (str, Timestamp, Duration):
        return CelError(NO_OVERLOAD)
    return CelError(f"{NO_OVERLOAD}: {symbol}")


def add(a: Any, b: Any) -> Any:
    """CEL's `a + b`."""
    cls = a.__class__
    if isinstance(a, list | tuple):
        if not isinstance(b, list | tuple):
            raise CelError(NO_OVERLOAD)
        return _concatenate(a, b)
    if cls is Timestamp or cls is Duration:
        return _add_times(a, b)
    if cls not in _ADDABLE:
        raise _without("_+_", a)
    if b.__class__ is not cls:
        raise CelError(NO_OVERLOAD)
    if cls is int:
        return _int(a + b)
    if cls is Uint:
        return _uint(int(a) + int(b))
    return a + b


_ADDABLE: Final = frozenset({int, Uint, float, str, bytes})


def _concatenate(a: Any, b: Any) -> Any:
    grows = a.__class__ is GrowingList
    if len(b) > 1 or not grows:  # what loops make element by element is paid for
        if not a and not grows:
            return b
        if not b:
            return a
        if len(a) + len(b) > LONGEST_LIST:
            raise CelError(f"list of more than {LONGEST_LIST} elements")
        work.spend(len(b) if grows else len(a) + len(b))
    if grows:
        a.extend(b)
        return a
    return [*a, *b]


def _add_times(a: Any, b: Any) -> Any:
    if a.__class__ is Duration and b.__class__ is Duration:
        return _duration(a.nanoseconds + b.nanoseconds)
    if {a.__class__, b.__class__} == {Timestamp, Duration}:
        return _timestamp(a.nanoseconds + b.nanoseconds, (a if a.__class__ is Timestamp else b).offset)
    raise CelError(NO_OVERLOAD)


def _duration(nanoseconds: int) -> Duration:
    return Duration(_int(nanoseconds))


def _timestamp(nanoseconds: int, offset: int) -> Timestamp:
    if MIN_SECONDS <= nanoseconds // SECOND <= MAX_SECONDS:
        return Timestamp(nanoseconds, offset)
    raise CelError("timestamp overflow")


def subtract(a: Any, b: Any) -> Any:
    """CEL's `a - b`."""
    cls = a.__class__
    if cls is Timestamp:
        if b.__class__ is Timestamp:
            return _duration(a.nanoseconds - b.nanoseconds)
        if b.__class__ is Duration:
            return _timestamp(a.nanoseconds + _int(-b.nanoseconds), a.offset)
        raise CelError(NO_OVERLOAD)
    if cls is not Duration and cls not in _NUMBERS:
        raise _without("_-_", a)
    if b.__class__ is not cls:
        raise CelError(NO_OVERLOAD)
    if cls is Duration:
        return _duration(a.nanoseconds - b.nanoseconds)
    if cls is int:
        return _int(a - b)
    if cls is Uint:
        return _uint(int(a) - int(b))
    return a - b


_NUMBERS: Final = frozenset({int, Uint, float})


def multiply(a: Any, b: Any) -> Any:
    """CEL's `a * b`."""
    cls = _same_number("_*_", a, b)
    if cls is int:
        return _int(a * b)
    if cls is Uint:
        return _uint(int(a) * int(b))
    return a * b


def divide(a: Any, b: Any) -> Any:
    """CEL's `a / b`: integers towards zero, doubles as IEEE 754 has it."""
    cls = _same_number("_/_", a, b)
    if cls is float:
        return _divide_doubles(a, b)
    if b == 0:
        raise CelError("division by zero")
    quotient = abs(int(a)) // abs(int(b))
    if cls is Uint:
        return Uint(quotient)
    return _int(quotient if (a < 0) == (b < 0) else -quotient)


def _divide_doubles(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def modulo(a: Any, b: Any) -> Any:
    """CEL's `a % b`: the sign is that of a."""
    cls = a.__class__
    if cls is not int and cls is not Uint:
        raise _without("_%_", a)
    if b.__class__ is not cls:
        raise CelError(NO_OVERLOAD)
    if b == 0:
        raise CelError("modulus by zero")
    if a == MIN_INT and b == -1:
        raise CelError("integer overflow")
    rest = abs(int(a)) % abs(int(b))
    return Uint(rest) if cls is Uint else (-rest if a < 0 else rest)


def _same_number(symbol: str, a: Any, b: Any) -> Any:
    cls = a.__class__
    if cls not in _NUMBERS:
        raise _without(symbol, a)
    if b.__class__ is not cls:
        raise CelError(NO_OVERLOAD)
    return cls


def negate(a: Any) -> Any:
    """CEL's `-a`."""
    cls = a.__class__
    if cls is int:
        return _int(-a)
    if cls is float:
        return -a
    if cls is Duration:
        return _duration(-a.nanoseconds)
    if cls is bool:
        raise CelError(NO_OVERLOAD)
    raise _without("-_", a)


def negation(a: Any) -> bool:
    """CEL's `!a`."""
    if a.__class__ is bool:
        return not a
    raise CelError(NO_OVERLOAD)


# Containers


def size(a: Any) -> int:
    """Count code points, bytes, elements or entries."""
    if isinstance(a, str | bytes | list | tuple | dict):
        return len(a)
    if a.__class__ in (Timestamp, Duration):
        raise CelError(NO_OVERLOAD)
    raise CelError(f"{NO_OVERLOAD}: size")


def contained(element: Any, container: Any) -> bool:
    """CEL's `element in container`; an error of a comparison means "not this one"."""
    if isinstance(container, dict):
        return key_present(container, element)
    if isinstance(container, list | tuple):
        return _among(element, container)
    raise CelError(NO_OVERLOAD)


def _among(element: Any, container: Any) -> bool:
    compared = 1
    try:
        for other in container:
            compared += 1
            if _same(element, other):
                return True
        return False
    finally:
        long = len(element) // _COMPARED_AT_ONCE if element.__class__ is str or element.__class__ is bytes else 0
        work.spend(compared * (work.COMPARISON + long))


def _same(a: Any, b: Any) -> bool:
    try:
        return equal(a, b)
    except CelError:
        return False


_NOTHING: Final = Optional(False)


def find(container: dict[Any, Any], key: Any) -> Optional:
    """Look a key up in a map: 1 and 1u are one key, true is none of them. A DefaultMap finds every key."""
    if key_present(container, key):
        return Optional(True, container[key])
    return Optional(True, EMPTY_MAP) if container.__class__ is DefaultMap else _NOTHING


def key_present(container: dict[Any, Any], key: Any) -> bool:
    """Whether a map has a key, by CEL's equality of keys. Raises Stopped where upstream's look-up panics."""
    cls = key.__class__
    if cls is str:
        return key in container
    if cls is bool or isinstance(key, int | float):
        # Python takes True, 1 and 1.0 for one key. Maps with keys of several kinds do not pass the checker, so that one
        # key tells of all. A double finds an equal integer, but an integer finds no double.
        if not container or key not in container:
            return False
        stored = next(iter(container)).__class__
        return (stored is bool) is (cls is bool) and (stored is not float or cls is float)
    if unhashable(key):
        if container and not isinstance(container, NativeMap):
            raise Stopped(f"internal error: runtime error: hash of unhashable type {go_type(key)}")
        return False
    return not isinstance(key, list | tuple | dict) and key in container


def unhashable(key: Any) -> bool:
    """Whether Go cannot hash a key."""
    return isinstance(key, bytes) or (isinstance(key, Opaque) and not key.hashable)


def _no_such_key(key: Any) -> CelError:
    if key.__class__ is str:
        work.spend(len(key) // 8)
    return CelError(f"no such key: {text(key)}")


def index(container: Any, key: Any) -> Any:
    """CEL's `container[key]` and `container.key`."""
    if isinstance(container, dict):
        if key.__class__ is str:
            try:
                return container[key]
            except KeyError:
                raise _no_such_key(key) from None
        found = find(container, key)
        if found.present:
            return found.value
        raise _no_such_key(key)
    if isinstance(container, list | tuple):
        position = list_index(key)
        if 0 <= position < len(container):
            return container[position]
        raise CelError(f"index out of bounds: {text(key)}")
    raise _no_such_key(key)


def index_if_present(container: Any, key: Any) -> Optional:
    """CEL's `container[?key]`: none where there is nothing, also for values that have no keys at all."""
    if isinstance(container, dict):
        return find(container, key)
    if isinstance(container, list | tuple):
        position = list_index(key)
        return Optional(True, container[position]) if 0 <= position < len(container) else _NOTHING
    return _NOTHING


def list_index(key: Any) -> int:
    """Turn a number into an index. Raises CelError for a fraction and for what is no number."""
    if key.__class__ is int:
        return int(key)
    if key.__class__ is Uint and key <= MAX_INT:
        return int(key)
    if key.__class__ is float and key.is_integer() and MIN_INT < key < MAX_INT:
        return int(key)
    if key.__class__ in (Uint, float):
        raise CelError(f"unsupported index value {text(key)} in list")
    raise CelError(f"unsupported index type '{type_name(key)}' in list")


def insert(target: Any, key: Any, value: Any) -> Any:
    """Add an entry to the accumulator of transformMap. Raises CelError if the key is there already."""
    if key_present(target, key):
        raise CelError(f"insert failed: key {text(key)} already exists")
    if target.__class__ is not GrowingMap:
        target = dict(target)
    target[key] = value
    return target


def insert_all(target: Any, entries: Any) -> Any:
    """Add the entries of a map to the accumulator of transformMapEntry."""
    for key, value in entries.items():
        target = insert(target, key, value)
    return target


def elements(container: Any) -> Iterator[Any]:
    """Iterate over a list's elements or a map's keys."""
    if isinstance(container, dict | list | tuple):
        return iter(tuple(container) if container.__class__ in (GrowingList, GrowingMap) else container)
    raise CelError(f"got '{go_type(container)}', expected iterable type")


def entries(container: Any) -> Iterator[tuple[Any, Any]]:
    """Iterate over index and element of a list, or key and value of a map."""
    if isinstance(container, dict):
        return iter(container.items())
    if isinstance(container, list | tuple):
        return enumerate(container)
    raise CelError(f"unsupported comprehension range type: {go_type(container)}")


# Text


def text(value: Any) -> str:
    """Write a value as Go's %v does in cel-go's messages."""
    if isinstance(value, int | float | None):
        return _scalar_text(value)
    if isinstance(value, bytes):
        return f"[{' '.join(map(str, value))}]"
    if isinstance(value, list | tuple):
        work.spend(len(value) * work.WRITING)
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, dict):
        work.spend(len(value) * work.WRITING)
        return f"{{{', '.join(f'{text(k)}: {text(v)}' for k, v in value.items())}}}"
    if isinstance(value, TypeValue):
        return value.name
    if isinstance(value, Optional):
        return f"optional({text(value.value)})" if value.present else "optional.none()"
    return str(value)


def _scalar_text(value: Any) -> str:
    if value is None:
        return "NULL_VALUE"
    if value.__class__ is bool:
        return "true" if value else "false"
    return str(int(value)) if isinstance(value, int) else double_text(value)


def double_text(value: float) -> str:
    """Write a double as Go's %g does: the shortest digits, with an exponent below 1e-4 and from 1e6 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    digits, exponent = _shortest(abs(value))
    if exponent < -4 or exponent >= 6:
        fraction = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
    return sign + plain_digits(digits, exponent)


def _shortest(value: float) -> tuple[str, int]:
    """Return the shortest digits that give the double back, and the exponent of the first."""
    mantissa, _, power = f"{value!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    exponent = int(power or 0) + len(whole) - 1
    if not digits.strip("0"):
        return "0", 0
    exponent -= len(whole + fraction) - len(digits)
    return digits.rstrip("0"), exponent


def plain_digits(digits: str, exponent: int) -> str:
    """Write digits with a decimal point: ("123", 1) is 12.3."""
    if exponent < 0:
        return f"0.{'0' * (-exponent - 1)}{digits}"
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    fraction = digits[exponent + 1 :]
    return f"{whole}.{fraction}" if fraction else whole


def decimal_text(value: float) -> str:
    """Write a finite double without an exponent, as strconv.FormatFloat(value, 'f', -1, 64) does."""
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    return sign + plain_digits(*_shortest(abs(value)))
