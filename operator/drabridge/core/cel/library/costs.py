"""What calls cost at run time, by the rules of upstream's cost tracker.

The factors and the order of the floating point operations are those of apiserver's `CostEstimator.CallCost`, of the
trackers in cel-go's `ext` and of cel-go's own `CostTracker`; rounding depends on them. A cost is asked for failed calls
as well: the result is then the error, which has no size.
"""

import math
from typing import Any, Final

from drabridge.core.cel.declarations import Cost
from drabridge.core.cel.values import Opaque

STRING_FACTOR: Final = 0.1
"""Units for a character that is traversed."""

REGEX_FACTOR: Final = 0.25
"""Units for a character of a pattern."""

LIST_BASE: Final = 10
"""Units for a list that is created."""

MAX_TEXT: Final = 10_000_000
"""Characters that a call may produce: one traversal of more costs all that an expression may cost (1,000,000 units)."""


def size(value: Any) -> int:
    """Characters, bytes, elements or entries; 1 for what has no size."""
    if value.__class__ is str:  # nearly always
        return len(value)
    if isinstance(value, str | bytes | list | tuple | dict):
        return len(value)
    return value.size() if isinstance(value, Opaque) else 1


def traversal(value: Any) -> int:
    """What it costs to visit all of a value: lists and maps by their elements, text by its bytes."""
    if isinstance(value, str):
        return int((len(value) if value.isascii() else len(value.encode("utf-8", "replace"))) * STRING_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * STRING_FACTOR)
    if isinstance(value, list | tuple):
        return sum(map(traversal, value))
    if isinstance(value, dict):
        return sum(traversal(key) + traversal(item) for key, item in value.items())
    return 1


def free(*_: Any) -> int:
    """Nothing: for `or` and `orValue`, which upstream turns into branches."""
    return 0


def traverse_target(target: Any, *_: Any) -> int:
    """One visit of all of the first argument."""
    return traversal(target)


def scan_target(target: Any, *_: Any) -> int:
    """The first argument's text, once."""
    return math.ceil(size(target) * STRING_FACTOR)


def scan_target_twice(target: Any, *_: Any) -> int:
    """The first argument's text, read and written."""
    return math.ceil(size(target) * 2 * STRING_FACTOR)


def scan_result_twice(*values: Any) -> int:
    """The result's text, read and written."""
    return math.ceil(size(values[-1]) * 2 * STRING_FACTOR)


def match_pattern(target: Any, pattern: Any, *_: Any) -> int:
    """A regular expression: text times pattern. Empty text still costs."""
    return match_pattern_of(size(pattern), target)


def match_pattern_of(pattern_size: int, target: Any) -> int:
    """A regular expression of so many characters, applied to the target."""
    return math.ceil((1.0 + size(target)) * STRING_FACTOR) * math.ceil(pattern_size * REGEX_FACTOR)


def allocate(units: float) -> int:
    """A call that creates a list, and so many units for its work."""
    return int(units) + 1 + LIST_BASE


def allocate_result(*values: Any) -> int:
    """A call that creates the list it returns."""
    return allocate(size(values[-1]))


def compare_elements(elements: Any) -> int:
    """Each element with each other, twice; text costs a little more."""
    count = size(elements)
    first = elements[0] if isinstance(elements, list | tuple) and elements else None
    factor = 2.0 + STRING_FACTOR if isinstance(first, str | bytes) else 2.0
    return allocate(count * count * factor)


def product(factor: float) -> Cost:
    """The sizes of two arguments multiplied, times the factor."""
    return lambda left, right, *_: 1 + int(size(left) * size(right) * factor)
