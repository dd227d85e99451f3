"""What an allocation comes to: it fits, it does not fit here, or the budget ended before that was known.

Broken input is neither: it is an exception (`core.errors.InvalidInput`, and here `AllocationError`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drabridge.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Allocated:
    """It fits. `results` holds one AllocationResult (resource.k8s.io/v1, as JSON) a claim, in the claims' order."""

    results: tuple[Mapping[str, Any], ...]
    steps: int


@dataclass(frozen=True, slots=True)
class Unfit:
    """It does not fit on this node. `error` is upstream's text if it reports one that concerns this node only."""

    steps: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Undecided:
    """The budget or the caller ended the search. The node is out for now; nothing is known about it."""

    steps: int
    cause: str

    @property
    def error(self) -> str:
        """Upstream's text for a call that was cut short."""
        return f"filter operation aborted: {self.cause}"


class AllocationError(InvalidInput):
    """Something about the claims, the classes or the slices makes an answer impossible, on every node.

    `upstream` is the text with which upstream's allocator ends the call.
    """

    def __init__(self, obj: str, path: str, upstream: str, cure: str) -> None:
        super().__init__(obj, path, upstream, cure)
        self.upstream = upstream
