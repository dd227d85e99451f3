"""The run-time cost of the standard library, as cel-go's cost tracker counts it (interpreter/runtimecost.go)."""

from __future__ import annotations

import math
from typing import Any, Final

from drabridge.core.cel.values import Opaque, Optional

LIMIT: Final = 1_000_000
"""CELSelectorExpressionMaxCost of resource.k8s.io: what one evaluation may cost."""

LIST_CREATION: Final = 10
MAP_CREATION: Final = 30
MESSAGE_CREATION: Final = 40

INTERRUPT_EVERY: Final = 100
"""Rounds of loops between two questions whether to go on."""

_TRAVERSAL: Final = 0.1
_PATTERN: Final = 0.25


def size(value: Any) -> int:
    """The size that cost goes by; 1 for what has none."""
    if value.__class__ is str:  # nearly always
        return len(value)
    if isinstance(value, str | bytes | list | tuple | dict):
        return len(value)
    if isinstance(value, Optional):
        return size(value.value) if value.present else 1
    return value.size() if isinstance(value, Opaque) else 1


def tenth(count: float) -> int:
    """What it costs to look at so many characters."""
    return math.ceil(count * _TRAVERSAL)


TENTHS: Final = tuple(tenth(count) for count in range(1024))
"""`tenth` of small counts; the factor is a binary fraction, so that 30 characters cost 4."""


def equality(a: Any, b: Any, *_: Any) -> int:
    """Look at the smaller one."""
    return tenth(min(size(a), size(b)))


def equals(a: Any, b: Any, *_: Any) -> int:
    """`==`, which Kubernetes prices at one unit for its own types on the left."""
    return 1 if isinstance(a, Opaque) else equality(a, b)


def concatenation(a: Any, b: Any, *_: Any) -> int:
    """Copy both."""
    return tenth(size(a) + size(b))


def first(a: Any, *_: Any) -> int:
    """Traverse the first argument."""
    return tenth(size(a))


def second(_: Any, b: Any, *__: Any) -> int:
    """Traverse the second argument."""
    return tenth(size(b))


def membership(_: Any, b: Any, *__: Any) -> int:
    """Look at each element."""
    return size(b)


def match(text: Any, pattern: Any, *_: Any) -> int:
    """Run a regular expression over a text."""
    return tenth(1.0 + size(text)) * math.ceil(size(pattern) * _PATTERN)


def search(text: Any, part: Any, *_: Any) -> int:
    """Look for a text in another."""
    return tenth(size(text)) * tenth(size(part))
