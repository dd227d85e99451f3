"""cel-go's set library: lists taken for sets."""

from typing import Any, Final

from drabridge.core.cel import operators
from drabridge.core.cel.declarations import Function, Library, Overload
from drabridge.core.cel.library.costs import product
from drabridge.core.cel.library.declaring import function
from drabridge.core.cel.types import BOOL, list_of, parameter

_LISTS: Final = (list_of(parameter("T")), list_of(parameter("T")))


def contains(elements: Any, others: Any) -> bool:
    """Whether each of the others is an element."""
    return all(operators.contained(other, elements) for other in others)


def equivalent(elements: Any, others: Any) -> bool:
    """Whether each list contains the other."""
    return contains(elements, others) and contains(others, elements)


def intersects(elements: Any, others: Any) -> bool:
    """Whether one element is in both."""
    return any(operators.contained(element, others) for element in elements)


def _sets(name: str, call: Any, factor: float) -> Function:
    return function(f"sets.{name}", Overload(f"list_sets_{name}_list", _LISTS, BOOL, call, cost=product(factor)))


LIBRARY: Final = Library(
    "cel.lib.ext.sets",
    (_sets("contains", contains, 1), _sets("equivalent", equivalent, 2), _sets("intersects", intersects, 1)),
)
