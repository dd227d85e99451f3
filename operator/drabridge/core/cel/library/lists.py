"""cel-go's list library, version 3: slice, flatten, sort, sortBy (by its function), range, reverse, distinct."""

from functools import cmp_to_key
from typing import Any, Final

from drabridge.core.cel import operators, work
from drabridge.core.cel.declarations import Function, Library, Overload
from drabridge.core.cel.library.costs import allocate, allocate_result, compare_elements, size
from drabridge.core.cel.library.declaring import function, member
from drabridge.core.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    parameter,
)
from drabridge.core.cel.values import CelError, Duration, Stopped, Timestamp

COMPARABLE: Final = (INT, UINT, DOUBLE, BOOL, DURATION, TIMESTAMP, STRING, BYTES)
"""Types that have an order, in upstream's order of overloads."""

_T: Final = list_of(parameter("T"))
_MAX_RANGE: Final = 1_000_000
_INSERTION_SORT: Final = 12


def slice_of(elements: Any, start: int, end: int) -> list[Any]:
    """The elements from start to before end. Raises CelError for a range that is not in the list."""
    call = f"cannot slice({start}, {end})"
    if start < 0 or end < 0:
        raise CelError(f"{call}, negative indexes not supported")
    if start > end:
        raise CelError(f"{call}, start index must be less than or equal to end index")
    if len(elements) < end:
        raise CelError(f"{call}, list is length {len(elements)}")
    return list(elements[start:end])


def flatten(elements: Any, *levels: int) -> list[Any]:
    """The elements, those of lists among them in their place, so many levels deep.

    Upstream calls it with anything. Raises CelError for what is no list, and for a negative depth.
    """
    if not isinstance(elements, list | tuple):
        arguments = "int" if levels else ""
        raise CelError(f"{operators.NO_OVERLOAD}: {operators.type_text(elements)}.flatten({arguments})")
    depth = _depth(levels[0]) if levels else 1
    if depth < 0:
        raise CelError("level must be non-negative")
    work.spend((len(elements) + 1) * work.COMPARISON)
    flat: list[Any] = []
    for element in elements:
        if depth and isinstance(element, list | tuple):
            flat += flatten(element, depth - 1)
        else:
            flat.append(element)
    return flat


def _depth(value: Any) -> int:
    """The argument of flatten(), which upstream takes for an int without a look."""
    if value.__class__ is not int:
        go_type = "*types.Err" if isinstance(value, CelError) else operators.go_type(value)
        raise Stopped(f"internal error: interface conversion: ref.Val is {go_type}, not types.Int")
    depth: int = value
    return depth


def is_comparable(value: Any) -> bool:
    """Whether a value's type has an order."""
    return isinstance(value, bool | int | float | str | bytes | Timestamp | Duration)


def sort(elements: Any) -> Any:
    """The elements in their order. Raises CelError as `sort_by_associated_keys` does."""
    if isinstance(elements, str | Timestamp | Duration):  # upstream takes the function for a method of theirs
        raise CelError(operators.NO_OVERLOAD)
    if not isinstance(elements, list | tuple):
        raise CelError(f"{operators.NO_OVERLOAD}: sort")
    return sort_by_associated_keys(elements, elements)


def sort_by_associated_keys(elements: Any, keys: Any) -> Any:
    """The elements in the order of the keys at the same place. Raises CelError for keys without a common order.

    Elements of equal keys keep their order. Upstream's sort is not stable beyond 12 elements. Upstream calls it with
    anything.
    """
    if not isinstance(elements, list | tuple) or not isinstance(keys, list | tuple):
        raise CelError(f"{operators.NO_OVERLOAD}: @sortByAssociatedKeys")
    if len(elements) != len(keys):
        raise CelError(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
            f"but got {len(elements)} and {len(keys)} elements respectively"
        )
    if not keys:
        return elements
    if not is_comparable(keys[0]):
        raise CelError("list elements must be comparable")
    name = operators.type_name(keys[0])
    if any(operators.type_name(key) != name for key in keys):
        raise CelError("list elements must have the same type")
    return [elements[place] for place in _order(keys)]


def _order(keys: Any) -> list[int]:
    places = list(range(len(keys)))
    if len(places) > _INSERTION_SORT:
        return sorted(places, key=cmp_to_key(lambda a, b: _less(keys[b], keys[a]) - _less(keys[a], keys[b])))
    # Step by step as upstream: NaN is less than nothing, so that the result depends on what was compared with what.
    for end in range(1, len(places)):
        place = end
        while place and _less(keys[places[place]], keys[places[place - 1]]):
            places[place - 1], places[place] = places[place], places[place - 1]
            place -= 1
    return places


def _less(left: Any, right: Any) -> bool:
    try:
        return operators.compare(left, right) < 0
    except CelError:
        return False


def numbers(count: int) -> list[int]:
    """0, 1, …: so many. Raises CelError for a negative count, and beyond a million."""
    if count < 0:
        raise CelError(f"lists.range: size must be non-negative, got {count}")
    if count > _MAX_RANGE:
        raise CelError(f"lists.range: size {count} exceeds maximum allowed ({_MAX_RANGE})")
    return list(range(count))


def reverse(elements: Any) -> list[Any]:
    """The elements, last first."""
    return list(reversed(elements))


def distinct(elements: Any) -> list[Any]:
    """The elements without those that equal one before."""
    unique: list[Any] = []
    for element in elements:
        if not operators.contained(element, unique):
            unique.append(element)
    return unique


def _flatten_cost(elements: Any, *rest: Any) -> int:
    depth = float(_depth(rest[0])) if len(rest) > 1 else 1.0
    return allocate(size(elements) * (depth if depth >= 0 else 1.0))


def _sort_cost(elements: Any, *_: Any) -> int:
    return compare_elements(elements)


def _sort_by_cost(_elements: Any, keys: Any, *_: Any) -> int:
    return compare_elements(keys)


def _sort_overload(element: Type) -> Overload:
    return member(f"list_{element}_sort", (list_of(element),), list_of(element), sort, _sort_cost, guarded=False)


def _sort_by_overload(key: Type) -> Overload:
    return member(
        f"list_{key}_sortByAssociatedKeys",
        (_T, list_of(key)),
        _T,
        sort_by_associated_keys,
        _sort_by_cost,
        guarded=False,
    )


_SORT: Final[tuple[Function, ...]] = (
    function("sort", *map(_sort_overload, COMPARABLE)),
    function("@sortByAssociatedKeys", *map(_sort_by_overload, COMPARABLE)),
)

LIBRARY: Final = Library(
    "cel.lib.ext.lists",
    (
        function("slice", member("list_slice", (_T, INT, INT), _T, slice_of, allocate_result)),
        function(
            "flatten",
            member("list_flatten", (list_of(_T),), _T, flatten, _flatten_cost, guarded=False),
            member("list_flatten_int", (list_of(DYN), INT), list_of(DYN), flatten, _flatten_cost, guarded=False),
        ),
        *_SORT,
        function("lists.range", Overload("lists_range", (INT,), list_of(INT), numbers, cost=allocate_result)),
        function("reverse", member("list_reverse", (_T,), _T, reverse, allocate_result)),
        function("distinct", member("list_distinct", (_T,), _T, distinct, _sort_cost)),
    ),
)
