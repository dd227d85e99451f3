"""Kubernetes' list library, version 1: isSorted, sum, min, max, indexOf, lastIndexOf, includes."""

from typing import Any, Final

from drabridge.core.cel import operators
from drabridge.core.cel.declarations import Function, Library
from drabridge.core.cel.library.costs import traverse_target
from drabridge.core.cel.library.declaring import function, member
from drabridge.core.cel.library.lists import COMPARABLE, is_comparable
from drabridge.core.cel.types import BOOL, DOUBLE, DURATION, DYN, INT, UINT, list_of, parameter
from drabridge.core.cel.values import CelError, Duration, Uint

_A: Final = parameter("A")
_NAMES: Final = {
    kind: str(kind).rsplit(".", maxsplit=1)[-1].lower() for kind in COMPARABLE
}  # overloads are called "duration", not "google.protobuf.Duration"
_ZEROS: Final = {INT: 0, UINT: Uint(0), DOUBLE: 0.0, DURATION: Duration(0)}


def is_sorted(elements: Any) -> bool:
    """Whether no element is greater than the next one. What cannot be compared is not greater."""
    kinds = set(map(type, elements))
    if kinds in ({int}, {str}):  # Python orders these as CEL does, only faster
        return list(elements) == sorted(elements)
    previous: Any = None
    for place, element in enumerate(elements):
        _check_comparable([element])
        if place and _order(previous, element) > 0:
            return False
        previous = element
    return True


def smallest(elements: Any) -> Any:
    """The first of the smallest elements. Raises CelError for an empty list."""
    return _extreme(elements, "min", 1)


def largest(elements: Any) -> Any:
    """The first of the largest elements. Raises CelError for an empty list."""
    return _extreme(elements, "max", -1)


def index_of(elements: Any, item: Any) -> int:
    """Where the item is first, or -1."""
    return next((place for place, element in enumerate(elements) if _same(element, item)), -1)


def last_index_of(elements: Any, item: Any) -> int:
    """Where the item is last, or -1."""
    return next((place for place in reversed(range(len(elements))) if _same(elements[place], item)), -1)


def includes(target: Any, item: Any) -> bool:
    """Whether the item is in the list; a target that is no list is taken for a list of one."""
    if isinstance(target, list | tuple):
        return any(_same(element, item) for element in target)
    return _same(target, item)


def _sum(zero: Any) -> Any:
    def total(elements: Any) -> Any:
        value = zero
        for element in elements:
            value = operators.add(value, element)
        return value

    return total


def _extreme(elements: Any, name: str, worse: int) -> Any:
    if not elements:
        raise CelError(f"{name} called on empty list")
    _check_comparable(elements)
    best = elements[0]
    for element in elements:
        if _order(best, element) == worse:
            best = element
    return best


def _check_comparable(elements: Any) -> None:
    if not all(map(is_comparable, elements)):
        raise CelError(operators.NO_OVERLOAD)


def _order(left: Any, right: Any) -> int:
    try:
        return operators.compare(left, right)
    except CelError:
        return 0


def _same(left: Any, right: Any) -> bool:
    try:
        return operators.equal(left, right)
    except CelError:
        return False


def _functions() -> tuple[Function, ...]:
    return (
        function(
            "isSorted",
            *(
                member(f"list_{name}_is_sorted_bool", (list_of(kind),), BOOL, is_sorted, traverse_target)
                for kind, name in _NAMES.items()
            ),
            by_name=traverse_target,
        ),
        function(
            "sum",
            *(
                member(f"list_{_NAMES[kind]}_sum_{_NAMES[kind]}", (list_of(kind),), kind, _sum(zero), traverse_target)
                for kind, zero in _ZEROS.items()
            ),
            by_name=traverse_target,
        ),
        *(
            function(
                title,
                *(
                    member(f"list_{name}_{title}_{name}", (list_of(kind),), kind, call, traverse_target)
                    for kind, name in _NAMES.items()
                ),
                by_name=traverse_target,
            )
            for title, call in (("max", largest), ("min", smallest))
        ),
        function(
            "indexOf",
            member("list_a_index_of_int", (list_of(_A), _A), INT, index_of, traverse_target),
            by_name=traverse_target,
        ),
        function(
            "lastIndexOf",
            member("list_a_last_index_of_int", (list_of(_A), _A), INT, last_index_of, traverse_target),
            by_name=traverse_target,
        ),
        function(
            "includes",
            member("list_includes_dyn_dyn", (DYN, DYN), BOOL, includes, traverse_target),
            by_name=traverse_target,
        ),
    )


LIBRARY: Final = Library("kubernetes.lists", _functions())
