"""Roles: devices that no request, constraint or counter of this search can tell apart.

A role is coarser than a class of the shape: two kinds of devices that differ in an attribute play the same role if
every request judges them alike. It is finer where something is in use. Exchanging two free devices of one role turns a
solution into a solution, which is what symmetry and the memory of failures stand on; `docs/allocation.md` has the proof
and the exceptions, all of which end here in roles of one device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from drabridge.core.allocation import constraints as rules
from drabridge.core.allocation.demand import MOST_RESULTS
from drabridge.core.allocation.kinds import Attribute
from drabridge.core.allocation.problem import DerivedFailure, Goal, Problem
from drabridge.core.allocation.stage import Stage
from drabridge.core.allocation.verdicts import Failed, Refused, Verdict

Element = tuple[str, Any]
"""One value of an attribute, with its type."""


@dataclass(frozen=True, slots=True)
class Values:
    """What a constraint sees of the devices that may serve a (sub)request."""

    masks: dict[Element, int]
    """Value -> bitset of the devices that have it."""
    odd: int
    """Bitset of the devices with a value that is none here: a list, or nothing known."""
    failing: int
    """Bitset of the devices on which a derived attribute fails."""


class Roles:
    """The roles of one search. `numbers` gives the role of each position, `masks` the positions of each role."""

    def __init__(self, problem: Problem, stage: Stage) -> None:
        self._problem = problem
        self._stage = stage
        self._values: dict[tuple[int, int], Values] = {}
        self.vacuous = self._vacuous()
        """(claim, constraint) of distinctAttributes that no two devices can violate."""
        self.unreachable = frozenset(_too_large(problem))
        """Numbers of the wants that are too large in any case: the search turns back before their first device."""
        self.breaks = {
            goal.want.index: self._breaks(goal)
            for goal in problem.flat_goals
            if goal.fixed and goal.want.constraints and goal.want.index not in self.unreachable
        }
        """By want: the places at which its walk over a fixed list may end in an error."""
        self.raising = frozenset(goal.want.index for goal in problem.flat_goals if self._may_raise(goal))
        """Numbers of the wants in whose turn an error may come up."""
        self.ordered = any(
            self.values(goal, constraint).odd for goal in problem.flat_goals for constraint in goal.want.constraints
        ) or any(amount < 0 for takes in problem.counters.takes for _, amount in takes)
        """Whether the order matters in which a constraint sees devices."""
        self.splitters = self._splitters()
        """Bitsets of devices that are told apart from others for what they are, whatever they look like."""
        self.masks = self._masks()

    def values(self, goal: Goal, constraint: int) -> Values:
        """Return the values that a constraint sees of a (sub)request's devices."""
        key = (goal.want.index, constraint)
        found = self._values.get(key)
        if found is None:
            found = self._values[key] = self._collect(goal, constraint)
        return found

    def _collect(self, goal: Goal, constraint: int) -> Values:
        problem = self._problem
        lists = problem.demand.features.list_type_attributes
        masks: dict[Element, int] = {}
        odd = failing = 0
        usable = goal.ok if goal.fixed is None else goal.ok | sum(1 << position for position in goal.fixed)
        for class_, mask in enumerate(problem.shape.masks):
            mine = mask & usable
            if not mine:
                continue
            try:
                value = problem.value(goal.want, constraint, class_)
            except DerivedFailure:
                failing |= mine
                continue
            if value is None:
                continue
            if not lists and (value.is_list or not value.kind):
                odd |= mine
                continue
            for element in rules.tagged(value):
                masks[element] = masks.get(element, 0) | mine
        return Values(masks, odd, failing)

    def _vacuous(self) -> frozenset[tuple[int, int]]:
        found = []
        for number, claim in enumerate(self._problem.demand.claims):
            for index, constraint in enumerate(claim.constraints):
                if not constraint.is_match and self._is_vacuous(number, index):
                    found.append((number, index))
        return frozenset(found)

    def _is_vacuous(self, claim: int, index: int) -> bool:
        holders: dict[Element, int] = {}
        for goal in self._problem.flat_goals:
            if goal.want.claim != claim or index not in goal.want.constraints:
                continue
            values = self.values(goal, index)
            if values.odd or values.failing:
                return False
            for element, mask in values.masks.items():
                holders[element] = holders.get(element, 0) | mask
        shared = self._stage.share_mask
        return all(mask & (mask - 1) == 0 and not mask & shared for mask in holders.values())

    def _may_raise(self, goal: Goal) -> bool:
        if goal.want.index in self.unreachable:
            return False
        hidden = 0 if goal.want.is_admin else self._stage.dedicated
        if goal.errors & ~hidden:
            return True
        if any(self.values(goal, constraint).failing for constraint in goal.want.constraints):
            return True
        return bool(self.breaks.get(goal.want.index))

    def _breaks(self, goal: Goal) -> tuple[int, ...]:
        """Say where the walk over a fixed list may break a constraint: places in the list.

        Where it breaks depends on what earlier requests of the claim have left in the constraints. One value leads to
        one place. With several left, a distinctAttribute breaks at the first of their places, and the elements that a
        matchAttribute still allows break at the last: no other places come up.
        """
        fixed = goal.fixed or ()
        end = next((place for place, position in enumerate(fixed) if not goal.ok >> position & 1), len(fixed))
        found: set[int] = set()
        for index in goal.want.constraints:
            left: dict[Element | None, None] = {None: None}
            for other in self._problem.flat_goals[: goal.want.index]:
                if other.want.claim == goal.want.claim and index in other.want.constraints:
                    left.update(dict.fromkeys(self.values(other, index).masks))
            found |= {self._break(goal, index, fixed[:end], element) for element in left}
        return tuple(sorted(found - {end}))

    def _break(self, goal: Goal, index: int, walk: tuple[int, ...], left: Element | None) -> int:
        """Return the place at which a walk breaks one constraint that has seen a value; the end if it does not."""
        lists = self._problem.demand.features.list_type_attributes
        is_match = self._problem.demand.claims[goal.want.claim].constraints[index].is_match
        rule = rules.RULES[is_match, lists]
        state: rules.State = None
        if left is not None:
            state = rule(None, Attribute(left[0], frozenset((left[1],)), False))
        for place, position in enumerate(walk):
            try:
                value = self._problem.value(goal.want, index, self._problem.shape.class_of[position])
            except DerivedFailure:
                return place
            state = rules.REFUSED if value is None else rule(state, value)
            if state is rules.REFUSED:
                return place
        return len(walk)

    # Roles

    def _masks(self) -> tuple[int, ...]:
        shape = self._problem.shape
        if self.ordered:
            return tuple(1 << position for position in range(len(shape.class_of)))
        merged: dict[Any, int] = {}
        for class_, mask in enumerate(shape.masks):
            key = self._descriptor(class_)
            merged[key] = merged.get(key, 0) | mask
        masks = list(merged.values())
        for splitter in self.splitters:
            masks = [part for mask in masks for part in (mask & splitter, mask & ~splitter) if part]
        return tuple(masks)

    def _descriptor(self, class_: int) -> Any:
        """Write down everything by which this search can tell a class of devices from others."""
        problem = self._problem
        home, kind = problem.shape.classes[class_]
        counters = problem.counters
        judged = tuple([self._judged(goal, class_) for goal in problem.flat_goals])
        shared = self._stage.is_shared_class(class_)
        sizes = tuple([capacity.value.nano for capacity in kind.capacities]) if shared else None
        return judged, home, counters.takes[class_], counters.groups[class_], shared, sizes

    def _judged(self, goal: Goal, class_: int) -> Any:
        verdict = goal.verdicts[class_]
        judged = standing(verdict)
        if judged in _OUT:
            return judged
        charge = goal.charges[class_]
        values = tuple([self._seen(goal, constraint, class_) for constraint in goal.want.constraints])
        return judged, charge.amounts if charge is not None and self._stage.is_shared_class(class_) else None, values

    def _seen(self, goal: Goal, constraint: int, class_: int) -> Attribute | bool | str | None:
        """Return what tells devices apart for a constraint: if all values differ anyway, only whether there is one."""
        try:
            value = self._problem.value(goal.want, constraint, class_)
        except DerivedFailure as failure:
            return f"{failure.before}{failure.after}"
        return value is not None if (goal.want.claim, constraint) in self.vacuous else value

    def _splitters(self) -> list[int]:
        stage = self._stage
        found = [self._problem.shape.elsewhere, stage.dedicated, stage.shared_in_use]
        found.extend(1 << position for position, _ in self._problem.shape.broken)
        by_amounts: dict[Any, int] = {}
        for position, amounts in stage.in_use.items():
            key = tuple(sorted(amounts.items()))
            by_amounts[key] = by_amounts.get(key, 0) | 1 << position
        found.extend(by_amounts.values())
        for goal in self._problem.flat_goals:
            # The device at which a walk breaks has to be free, but needs no capacity: that is tested after constraints.
            found.extend(
                sum(1 << position for position in (goal.fixed or ())[:end])
                for place in self.breaks.get(goal.want.index, ())
                for end in (place, place + 1)
            )
        return [mask for mask in found if mask]


def _too_large(problem: Problem) -> Iterator[int]:
    """Give the wants that exceed the claim's limit even if the earlier requests take as few devices as they can."""
    for claim in problem.goals:
        taken = 0
        for request in claim:
            for goal in request:
                if goal.need > MOST_RESULTS - taken:
                    yield goal.want.index
            taken += min((goal.need for goal in request), default=0)


_OUT: Final = frozenset({"n", "e", "f"})


def standing(verdict: Verdict) -> str:
    """Return one letter: no, selector error, capacity error, barred (in lists of All only), ok."""
    if verdict.selected is not None:
        return "e" if isinstance(verdict.selected, Failed) else "n"
    if isinstance(verdict.charged, Failed):
        return "f"
    if isinstance(verdict.charged, Refused):
        return "n"
    return "o" if verdict.barred is None else "b"
