"""The memory of failures: states that are the same up to a renaming of devices fail the same way.

A state's key says what the rest of the search can see of it: how many devices of each role are free, what is left of
counters and shared devices, what the constraints have seen. A key must never be the same for two states that differ in
any of that; parts of varying length are tuples of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from drabridge.core.allocation.problem import Goal, Problem
from drabridge.core.allocation.roles import Roles
from drabridge.core.allocation.stage import Stage


class Memory:
    """Makes the keys of one search."""

    def __init__(
        self, problem: Problem, stage: Stage, roles: Roles, turns: Sequence[tuple[Goal, ...] | None], *, too_large: bool
    ) -> None:
        self._problem = problem
        self._stage = stage
        self._roles = roles
        self._too_large = too_large
        self._later = self._wanted_later(turns)
        self._seeing = self._constraints_later(turns)
        self._admins = self._admins_later(turns)
        self._shared = [mask for mask in roles.masks if mask & stage.share_mask]

    def _wanted_later(self, turns: Sequence[tuple[Goal, ...] | None]) -> list[tuple[int, ...]]:
        """By turn: the roles that a request after it can use, or fail on."""
        found: list[tuple[int, ...]] = []
        wanted = 0
        for goals in reversed(turns):
            found.append(tuple([mask for mask in self._roles.masks if mask & wanted]))
            for goal in goals or ():
                wanted |= goal.ok | goal.errors | goal.fixed_mask
        return found[::-1]

    def _constraints_later(self, turns: Sequence[tuple[Goal, ...] | None]) -> list[tuple[int, ...]]:
        """By turn: the constraints that it or a later one of its claim adds to."""
        found: list[tuple[int, ...]] = []
        seen: set[int] = set()
        for goals in reversed(turns):
            if goals is None:
                seen = set()
            for goal in goals or ():
                seen |= {
                    self._stage.constraint_number(goal.want.claim, index)
                    for index in goal.want.constraints
                    if (goal.want.claim, index) not in self._roles.vacuous
                }
            found.append(tuple(sorted(seen)))
        return found[::-1]

    @staticmethod
    def _admins_later(turns: Sequence[tuple[Goal, ...] | None]) -> list[bool]:
        """By turn: whether it or a later one of its claim asks for admin access."""
        found: list[bool] = []
        admin = False
        for goals in reversed(turns):
            admin = False if goals is None else admin or any(goal.want.is_admin for goal in goals)
            found.append(admin)
        return found[::-1]

    def key(self, turn: int, goal: Goal, slot: int, start: int) -> Hashable:
        """Return what the search can see from a slot on."""
        stage = self._stage
        claim = goal.want.claim
        free = ~(stage.picked | stage.dedicated)
        now = (goal.ok | goal.errors) & ~stage.busy(goal) >> start << start
        parts: list[Any] = [turn, goal.want.index, slot]
        if goal.fixed is None:
            masks = self._roles.masks
            parts.append(tuple([(mask & now & free).bit_count() for mask in masks]))
            if goal.want.is_admin:
                parts.append(tuple([(mask & now & ~free).bit_count() for mask in masks]))
        else:
            busy = stage.busy(goal)
            parts.append(tuple([busy >> place & 1 for place in goal.fixed[slot:]]))
            start = goal.fixed[slot]
        parts.append(tuple([(mask & free).bit_count() for mask in self._later[turn]]))
        if self._admins[turn]:
            mine = stage.mine[claim]
            parts.append(tuple([(mask & mine).bit_count() for mask in self._roles.masks]))
        parts.append(tuple([stage.constraints[number] for number in self._seeing[turn]]))
        if stage.left:
            parts.append((tuple(stage.left), tuple(stage.groups)))
        if stage.shares:
            parts.append(self._amounts(start))
        if self._too_large:
            parts.append(stage.taken[claim])
        return tuple(parts)

    def _amounts(self, start: int) -> Hashable:
        """What has been taken of shared devices, whichever of a role it was."""
        stage = self._stage
        found = []
        for position, times in stage.shares.items():
            if times:
                bit = 1 << position
                role = next(number for number, mask in enumerate(self._shared) if mask & bit)
                found.append((role, position >= start, stage.amounts[position]))
        return tuple(sorted(found))
