"""How CEL's values stand in Python, and the one error that evaluation raises.

| CEL | Python |
|---|---|
| bool, int, string, bytes, null | bool, int (within int64), str, bytes, None |
| uint, double | Uint (an int), float |
| list, map | list or tuple; dict (keys bool, int, Uint, str as CEL keys: `1`, `1u` and `1.0` are one key) |
| timestamp, duration | Timestamp, Duration: exact nanoseconds |
| type, optional | TypeValue, Optional |
| Quantity, Semver, URL, IP, CIDR, format | classes of the library that owns them |

Python's True == 1 and 1 == 1.0 are not CEL's, so equality is `operators.equal`, never `==` on foreign values.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar


class Uint(int):
    """A uint64. Arithmetic is done by `operators`, which check the range."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class Timestamp:
    """google.protobuf.Timestamp: nanoseconds since 1970 in UTC, years 1 to 9999.

    `offset` are the minutes east of UTC that it was written with; only string() shows them.
    """

    nanoseconds: int
    offset: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """google.protobuf.Duration: nanoseconds within int64."""

    nanoseconds: int


@dataclass(frozen=True, slots=True)
class TypeValue:
    """The value of a type's name, as `type(1)` gives it."""

    name: str


@dataclass(frozen=True, slots=True)
class Optional:
    """An optional_type: `present` tells a value from none, since null is a value."""

    present: bool
    value: Any = None

    def __hash__(self) -> int:
        """As a key, one with a value is like no other one: upstream's maps hold pointers."""
        return id(self) if self.present else 0


NONE = Optional(False)


class CelError(Exception):
    """An evaluation error, with cel-go's text: "no such key: x", "no such overload", "divide by zero"."""


class Stopped(Exception):
    """An evaluation that ended before it had a result; no operator absorbs it."""


class Opaque:
    """Base of the values that a library owns (Quantity, Semver, IP, …): what the engine has to know of them."""

    __slots__ = ()

    type_name: ClassVar[str]
    """CEL's name of the type: "kubernetes.Quantity"."""

    go_type: ClassVar[str]
    """The name of cel-go's type, which shows in some error texts: "cel.Semver"."""

    hashable: ClassVar[bool] = True
    """Whether upstream can look the value up in a constant set; `semver in ['x']` is an internal error there."""

    is_text: ClassVar[bool] = True
    """Whether a field of type string takes the value, as its text."""

    def equals(self, other: Any) -> bool:
        """CEL's `self == other` for any other value; raises CelError where the types must not be compared."""
        raise NotImplementedError

    def size(self) -> int:
        """Return the size that cost goes by, as upstream's Sizer gives it."""
        return 1

    def is_zero(self) -> bool:
        """Whether `optional.ofNonZeroValue` takes it for nothing."""
        return False
