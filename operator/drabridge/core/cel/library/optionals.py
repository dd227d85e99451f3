"""The functions of CEL's optional types. Their syntax and macros belong to the parser."""

from typing import Any, Final

from drabridge.core.cel import operators, work
from drabridge.core.cel.declarations import Library, Overload
from drabridge.core.cel.library.costs import free
from drabridge.core.cel.library.declaring import function, member
from drabridge.core.cel.types import BOOL, list_of, optional_of, parameter
from drabridge.core.cel.values import NONE, CelError, Opaque, Optional, Timestamp, TypeValue

_V: Final = parameter("V")
_OPTIONAL: Final = optional_of(_V)
_LIST: Final = list_of(_V)
_OPTIONALS: Final = list_of(_OPTIONAL)
_FIRST_INSTANT: Final = operators.MIN_SECONDS * operators.SECOND


def of(value: Any) -> Optional:
    """The value, present."""
    return Optional(True, value)


def of_non_zero_value(value: Any) -> Optional:
    """The value, present unless it is its type's zero: false, 0, empty, null, the year 1."""
    return NONE if _is_zero(value) else Optional(True, value)


def none() -> Optional:
    """No value."""
    return NONE


def value_of(optional: Optional) -> Any:
    """The value. Raises CelError if there is none."""
    if not optional.present:
        raise CelError("optional.none() dereference")
    return optional.value


def has_value(optional: Optional) -> bool:
    """Whether there is a value."""
    return optional.present


def first_present(optional: Optional, other: Optional) -> Optional:
    """The first of two that has a value. The compiler evaluates the other one only if need be."""
    return optional if optional.present else other


def value_or(optional: Optional, default: Any) -> Any:
    """The value, or the default. The compiler evaluates the default only if need be."""
    return optional.value if optional.present else default


def first(elements: Any) -> Optional:
    """The first element, if there is one."""
    return Optional(True, elements[0]) if elements else NONE


def last(elements: Any) -> Optional:
    """The last element, if there is one."""
    return Optional(True, elements[-1]) if elements else NONE


_STEPS_PER_ELEMENT: Final = 20


def unwrap(optionals: Any) -> list[Any]:
    """The values of those that have one. Raises CelError for an element that is no optional."""
    work.spend(len(optionals) * _STEPS_PER_ELEMENT)
    values = []
    for optional in optionals:
        if not isinstance(optional, Optional):
            raise CelError(f"value {operators.text(optional)} is not optional")
        if optional.present:
            values.append(optional.value)
    return values


def _is_zero(value: Any) -> bool:
    if isinstance(value, Opaque):
        return value.is_zero()
    if isinstance(value, Optional | TypeValue):
        return False
    if isinstance(value, Timestamp):
        return value.nanoseconds == _FIRST_INSTANT
    nanoseconds = getattr(value, "nanoseconds", None)
    return nanoseconds == 0 if nanoseconds is not None else not value


LIBRARY: Final = Library(
    "cel.lib.optional",
    (
        function("optional.of", Overload("optional_of", (_V,), _OPTIONAL, of)),
        function("optional.ofNonZeroValue", Overload("optional_ofNonZeroValue", (_V,), _OPTIONAL, of_non_zero_value)),
        function("optional.none", Overload("optional_none", (), _OPTIONAL, none)),
        function("value", member("optional_value", (_OPTIONAL,), _V, value_of)),
        function("hasValue", member("optional_hasValue", (_OPTIONAL,), BOOL, has_value)),
        function(
            "or", member("optional_or_optional", (_OPTIONAL, _OPTIONAL), _OPTIONAL, first_present, free), by_name=free
        ),
        function("orValue", member("optional_orValue_value", (_OPTIONAL, _V), _V, value_or, free), by_name=free),
        function("last", member("list_last", (_LIST,), _OPTIONAL, last)),
        function("first", member("list_first", (_LIST,), _OPTIONAL, first)),
        function("optional.unwrap", Overload("optional_unwrap", (_OPTIONALS,), _LIST, unwrap)),
        function("unwrapOpt", member("optional_unwrapOpt", (_OPTIONALS,), _LIST, unwrap)),
    ),
)
