"""What one compilation or evaluation does without paying for it in upstream's units, counted and bounded.

Upstream joins lists lazily, shares the parts of nested values, and charges for a regular expression by its length.
Here these take time that the limit on costs does not bound. So such work is counted in steps, whoever does it: each
evaluation begins anew, and what it does depends on the expression and the device only.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

from drabridge.core.cel.values import Stopped

STEPS: Final = 100_000_000
"""Steps of one compilation or one evaluation. A step is 5 ns at worst on the machine this was measured on."""

COMPARISON: Final = 60
"""Steps to compare one element of a list, and to begin with a list."""

WRITING: Final = 200
"""Steps to write one element of a list or map as text."""


class Overworked(Stopped):
    """An evaluation that did too much of what is not paid for. No operator absorbs it."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: lists, nested values or regular expressions take too much work")


class Work:
    """The steps that are left, and what has been prepared in this evaluation."""

    __slots__ = ("left", "prepared")

    def __init__(self, steps: int = STEPS) -> None:
        self.left = steps
        self.prepared: dict[Any, Any] = {}


_CURRENT: ContextVar[Work | None] = ContextVar("work", default=None)


def begin(steps: int = STEPS) -> None:
    """Begin a compilation or an evaluation in this thread or task."""
    _CURRENT.set(Work(steps))


def prepared() -> dict[Any, Any]:
    """What this evaluation keeps for later; forgotten at the next one."""
    work = _CURRENT.get()
    return {} if work is None else work.prepared


def spend(steps: int) -> None:
    """Count work. Raises Overworked. Outside of an evaluation there is no limit."""
    work = _CURRENT.get()
    if work is not None:
        work.left -= steps
        if work.left < 0:
            raise Overworked
