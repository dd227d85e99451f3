"""The memory of failures: states that are the same up to a renaming of devices fail the same way.

The same descriptions say which components are interchangeable in a state, so that one of them need be tried.

A state's key says what the rest of the search can see of it: how many devices of each role are free, what is left of
counters and shared devices, what the constraints have seen. A key must never be the same for two states that differ in
any of that; parts of varying length are tuples of their own.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from drabridge.core.allocation.components import Component, components_of
from drabridge.core.allocation.groups import GroupState
from drabridge.core.allocation.problem import Goal, Problem
from drabridge.core.allocation.roles import Roles
from drabridge.core.allocation.stage import Stage

Turns = Sequence[tuple[Goal, ...] | None]


class Memory:
    """Makes the keys of one search."""

    def __init__(
        self, problem: Problem, stage: Stage, roles: Roles, turns: Turns, *, limited: bool, components: bool
    ) -> None:
        self._stage = stage
        self._roles = roles
        self._sets = problem.counters.sets
        self._limited = limited
        self._later = self._wanted_later(turns)
        self._seeing = self._constraints_later(turns)
        self._admins = self._admins_later(turns)
        self._types: list[list[Component]] | None = None
        if components and not roles.ordered and not stage.touchy:
            types = components_of(problem, stage, roles)
            self._types = types if any(len(found) > 1 for found in types) else None

    def _wanted_later(self, turns: Turns) -> list[int]:
        """By turn: the devices that a request after it can use, or fail on."""
        found = []
        wanted = 0
        for goals in reversed(turns):
            found.append(wanted)
            for goal in goals or ():
                wanted |= goal.ok | goal.errors | goal.fixed_mask
        return found[::-1]

    def _constraints_later(self, turns: Turns) -> list[tuple[int, ...]]:
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
    def _admins_later(turns: Turns) -> list[bool]:
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
        views = self._views(turn, goal, slot, start)
        if goal.fixed is not None:
            start = goal.fixed[slot]
        parts: list[Any] = [turn, goal.want.index, slot, stage.taken[goal.want.claim] if self._limited else 0]
        seen = [stage.constraints[number] for number in self._seeing[turn]]
        if self._types is None:
            parts.append(tuple([tuple([(mask & view).bit_count() for view in views]) for mask in self._roles.masks]))
            parts.append(tuple(seen))
            parts.append((tuple(stage.left), tuple(stage.groups)))
            parts.append(tuple([self._shares(mask, start) for mask in self._roles.masks]) if stage.shares else ())
        else:
            parts.append(tuple([state is None for state in seen]))
            for components in self._types:
                states = [self._state(component, views, start, self._seeing[turn]) for component in components]
                states.sort()
                parts.append(tuple(states))
        return tuple(parts)

    def twins(self, position: int, turn: int, goal: Goal, slot: int, start: int) -> int:
        """Return the devices that stand for a device in components of the same type and state, its own left out."""
        bit = 1 << position
        for components in self._types or ():
            for own in components if len(components) > 1 else ():
                for place, mask in enumerate(own.masks):
                    if mask & bit:
                        return self._twins(own, place, components, (turn, goal, slot, start))
        return 0

    def _twins(self, own: Component, place: int, components: list[Component], at: tuple[int, Goal, int, int]) -> int:
        turn, _, _, start = at
        views, seeing = self._views(*at), self._seeing[turn]
        state = self._state(own, views, start, seeing)
        found = 0
        for component in components:
            if component is not own and self._state(component, views, start, seeing) == state:
                found |= component.masks[place]
        return found

    def _views(self, turn: int, goal: Goal, slot: int, start: int) -> list[int]:
        """Return bitsets whose sizes, role by role, are all that matters of single devices."""
        stage = self._stage
        free = ~(stage.picked | stage.dedicated)
        busy = stage.busy(goal)
        if goal.fixed is None:
            now = (goal.ok | goal.errors) & ~busy >> start << start
            views = [now & free]
        else:
            now = goal.fixed_mask >> goal.fixed[slot] << goal.fixed[slot]
            views = [now & free, now & busy]
        if goal.want.is_admin:
            views.append(now & ~free & ~busy)
        views.append(free & self._later[turn])
        if self._admins[turn]:
            views.append(stage.mine[goal.want.claim])
        return views

    def _state(self, component: Component, views: list[int], start: int, seeing: tuple[int, ...]) -> Any:
        stage = self._stage
        masks = component.masks
        counts = tuple([(mask & view).bit_count() for mask in masks for view in views])
        left: Any = ()
        if component.sets:
            left = tuple([
                (tuple([stage.left[counter] for counter in self._sets[number]]), _ordered(stage.groups[number]))
                for number in component.sets
            ])  # fmt: skip
        current = 0
        for place, (number, element) in enumerate(component.values):
            if number in seeing and _holds(stage.constraints[number], element):
                current |= 1 << place
        shares = tuple([self._shares(mask, start) for mask in masks]) if stage.shares else ()
        return counts, left, current, shares

    def _shares(self, mask: int, start: int) -> tuple[tuple[bool, tuple[int, ...]], ...]:
        """What has been taken of the shared devices of a role, whichever of them it was."""
        stage = self._stage
        mask &= stage.share_mask
        if not mask:
            return ()
        return tuple(
            sorted(
                (position >= start, stage.amounts[position])
                for position, times in stage.shares.items()
                if times and mask >> position & 1
            )
        )


def _ordered(state: GroupState) -> tuple[bool, tuple[str, ...]]:
    """Write a set of groups so that it can be sorted."""
    return (False, ()) if state is None else (True, tuple(sorted(state)))


def _holds(state: Any, element: tuple[str, Any]) -> bool:
    """Whether a constraint has seen a value."""
    if state is None:
        return False
    if isinstance(state, frozenset):
        return element in state
    return bool(state[0] == element[0] and element[1] in state[1])
