"""Pods that kube-scheduler was shown nodes for, and that it has not asked to bind yet.

There is no reserve call in the extender's protocol, so which node a Pod goes to is known only where one has a better
score than all others; else it may be any.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

UNDERWAY_MAX = 5.0
"""Seconds after which a Pod is not waited for: its volumes take long, or it failed in another plugin."""


@dataclass(frozen=True, slots=True)
class _Underway:
    devices: int
    node: str | None
    since: float


@dataclass(slots=True)
class Underway:
    """Times are of any clock that only goes forward, in seconds."""

    _pods: dict[str, _Underway] = field(default_factory=dict)

    def expect(self, uid: str, devices: int, node: str | None, now: float) -> None:
        """A Pod will take so many devices: on that node, or on some."""
        self._pods.pop(uid, None)  # the oldest come first
        self._pods[uid] = _Underway(devices, node, now)

    def arrived(self, uid: str) -> None:
        """The Pod is being bound, or fits nowhere."""
        self._pods.pop(uid, None)

    def sought(self, uid: str, now: float) -> Callable[[str], int]:
        """How many devices others than this Pod may take on a node."""
        while self._pods and (oldest := next(iter(self._pods))) and self._pods[oldest].since + UNDERWAY_MAX < now:
            del self._pods[oldest]
        anywhere = 0
        there: dict[str, int] = {}
        for other, pod in self._pods.items():
            if other == uid:
                continue
            if pod.node is None:
                anywhere += pod.devices
            else:
                there[pod.node] = there.get(pod.node, 0) + pod.devices
        return lambda node: anywhere + there.get(node, 0)
