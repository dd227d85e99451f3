"""Which of the nodes that fit are preferred: the `prioritize` answer of an extender, 0 to 10 a node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from drabridge.core.cluster import ClusterView
from drabridge.core.policy import Strategy

SCORE_MAX: Final = 10
"""MaxExtenderPriority of k8s.io/kube-scheduler/extender/v1."""


def strategy_of(names: Iterable[str], cluster: ClusterView) -> Strategy:
    """The strategy for a Pod that asks for these names: of several policies, that of the smallest name that has one."""
    for name in sorted(names):
        policy = cluster.policies.get(name)
        if policy is not None and policy.strategy is not Strategy.FIRST_FIT:
            return policy.strategy
    return Strategy.FIRST_FIT


def score(strategy: Strategy, used: int, devices: int) -> int:
    """The score of a node that has so many devices, so many of them in use."""
    if strategy is Strategy.FIRST_FIT or devices == 0:
        return 0
    in_use = min(used, devices)
    share = in_use if strategy is Strategy.PACK else devices - in_use
    return share * SCORE_MAX // devices
