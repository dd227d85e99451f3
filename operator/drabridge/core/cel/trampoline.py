"""Recursion that does not use Python's stack.

Hostile expressions are nested as deep as the grammar allows, and nobody knows how deep the caller is. A recursive
function is written as a generator that yields the generators of the calls it needs the results of.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")

Step = Generator[Any, Any, T]
"""A recursive call: `result = yield call(...)` inside of another one."""


def run(call: Step[T]) -> T:
    """Run a recursive call to its result. An exception ends it and all its callers."""
    stack: list[Step[Any]] = [call]
    result: Any = None
    while True:
        try:
            stack.append(stack[-1].send(result))
            result = None
        except StopIteration as finished:
            stack.pop()
            result = finished.value
            if not stack:
                returned: T = result
                return returned
