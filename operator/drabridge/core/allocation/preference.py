"""The order of a node's devices under a strategy: a pure function of what is in use.

A device is as full as the fullest capacity of it, if it is shared, or the fullest counter of its counter sets. Devices
that are neither shared nor partitions are empty or out of the question, so that their order stays upstream's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drabridge.core.allocation.problem import Problem
from drabridge.core.allocation.stage import Stage
from drabridge.core.allocation.strategy import Strategy
from drabridge.core.allocation.use import NodeUse

_FULL: Final = 1_000
"""Fractions are counted in thousandths."""


def preferred(strategy: Strategy, problem: Problem, use: NodeUse) -> tuple[int, ...] | None:
    """Return the positions in the order in which they are to be tried; None for upstream's order."""
    if strategy is Strategy.FIRST_FIT:
        return None
    stage = Stage(problem, use)
    fullness = _by_class(problem, stage)
    class_of = problem.shape.class_of
    shared = {position: _of_share(problem, stage, position) for position in stage.in_use}
    sizes = _sizes(problem)

    def key(position: int) -> tuple[int, int, int]:
        class_ = class_of[position]
        full = max(fullness.get(class_, 0), shared.get(position, 1 if use.shared >> position & 1 else 0))
        return (-full, sizes[class_], position) if strategy is Strategy.PACK else (full, 0, position)

    order = tuple(sorted(range(len(class_of)), key=key))
    return None if order == tuple(range(len(order))) else order


def _by_class(problem: Problem, stage: Stage) -> Mapping[int, int]:
    """How full the counter sets of each class of partitions are."""
    counters = problem.counters
    found = {}
    for class_, joined in enumerate(counters.groups):
        parts = [
            (counters.available[counter] - stage.left[counter]) * _FULL // counters.available[counter]
            for number, _ in joined
            for counter in counters.sets[number]
            if counters.available[counter] > 0
        ]
        if parts:
            found[class_] = max(parts)
    return found


def _of_share(problem: Problem, stage: Stage, position: int) -> int:
    """How full a shared device is."""
    capacities = problem.shape.classes[problem.shape.class_of[position]][1].capacities
    rest = stage.rest(position)
    parts = [
        (capacity.value.nano - left) * _FULL // capacity.value.nano
        for capacity, left in zip(capacities, rest, strict=True)
        if capacity.value.nano > 0
    ]
    return max(parts, default=1)


def _sizes(problem: Problem) -> list[int]:
    """How much of its counter sets each class takes: the smallest partition that serves keeps the others whole."""
    counters = problem.counters
    return [
        max(
            [
                amount * _FULL // counters.available[counter]
                for counter, amount in takes
                if counters.available[counter] > 0
            ],
            default=_FULL,
        )
        for takes in counters.takes
    ]
