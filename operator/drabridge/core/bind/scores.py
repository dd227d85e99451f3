"""Which of the nodes that fit are preferred: the `prioritize` answer of an extender, 0 to 10 a node.

kube-scheduler looks at the next Pods before it has the last ones bound. Where those may take the last devices of a
node, the next one had better go elsewhere: it would find them gone at its bind call, and wait a second or more before
it is tried again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from drabridge.core.cluster import ClusterView
from drabridge.core.policy import Strategy

SCORE_MAX: Final = 10
"""MaxExtenderPriority of k8s.io/kube-scheduler/extender/v1."""


@dataclass(frozen=True, slots=True)
class Room:
    """Devices of one node: all that are its own, those in use, and those that Pods on their way may take there."""

    devices: int
    used: int
    sought: int = 0

    def has(self, asked: int) -> bool:
        """Whether so many are left whatever those Pods take. True where nothing is known of devices of its own."""
        return self.devices == 0 or self.used + self.sought + asked <= self.devices


@dataclass(frozen=True, slots=True)
class Scores:
    """The score of each node, and the one node that has the best one, if it is one."""

    by_node: Mapping[str, int]
    best: str | None


def strategy_of(names: Iterable[str], cluster: ClusterView) -> Strategy:
    """The strategy for a Pod that asks for these names: of several policies, that of the smallest name that has one."""
    for name in sorted(names):
        policy = cluster.policies.get(name)
        if policy is not None and policy.strategy is not Strategy.FIRST_FIT:
            return policy.strategy
    return Strategy.FIRST_FIT


def scores(strategy: Strategy, asked: int, rooms: Mapping[str, Room]) -> Scores:
    """Score nodes for a Pod that asks for so many devices.

    A node that may be full before the Pod gets there has 0, others 1 or more. If they are all like that, one is picked
    that fewer are after.
    """
    roomy = {name: room for name, room in rooms.items() if room.has(asked)}
    if rooms and not roomy:
        best = min(rooms, key=lambda name: rooms[name].sought)
        return Scores({name: SCORE_MAX if name == best else 0 for name in rooms}, best)
    found = {name: _score(strategy, room) for name, room in roomy.items()}
    most = max(found.values(), default=0)
    best_ones = [name for name, each in found.items() if each == most]
    return Scores({name: found.get(name, 0) for name in rooms}, best_ones[0] if len(best_ones) == 1 else None)


def _score(strategy: Strategy, room: Room) -> int:
    if strategy is Strategy.FIRST_FIT or room.devices == 0:
        return 1
    taken = min(room.used + room.sought, room.devices)
    share = taken if strategy is Strategy.PACK else room.devices - taken
    return 1 + share * (SCORE_MAX - 1) // room.devices
