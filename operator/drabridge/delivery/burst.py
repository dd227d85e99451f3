"""Whether Pods come so fast that what only tells about them had better wait.

A claim lets a Pod run; the allocation bound back, events and counts in statuses let people know. Where many Pods come
at once, API server and operator have claims first, and the Pods run sooner.
"""

from __future__ import annotations

from collections import deque

from drabridge.kube.clock import SYSTEM, Clock

MANY = 20
"""Claims within a second that make a burst."""

TOLD_WITHIN = 5.0
"""Seconds after which people are told even though the burst lasts."""


class Burst:
    """Counts claims."""

    def __init__(self, clock: Clock = SYSTEM) -> None:
        self._clock = clock
        self._claims: deque[float] = deque(maxlen=MANY)

    def claimed(self) -> None:
        """Count a claim that was made, or was seen for the first time, now."""
        self._claims.append(self._clock.monotonic())

    def lasts(self) -> bool:
        """Whether one goes on."""
        return len(self._claims) == MANY and self._clock.monotonic() - self._claims[0] < 1.0
