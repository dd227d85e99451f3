"""Components: roles that hang together by a counter set or by the value of a constraint: a card, a PCIe root.

Components of one type are interchangeable as a whole, so that the memory of failures need not know which of them is in
which state, only how many are. Sets and values are numbered inside a component; two components are of one type if they
are spelt the same that way. Where the spelling depends on an order that is not unique, equal components may get two
types, which costs memory and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from drabridge.core.allocation.problem import Goal, Problem
from drabridge.core.allocation.roles import Element, Roles, Values, standing
from drabridge.core.allocation.stage import Stage


@dataclass(frozen=True, slots=True)
class Component:
    """Bitsets of its roles, numbers of its counter sets, and (constraint number, element) of its values."""

    type: Any
    masks: tuple[int, ...]
    sets: tuple[int, ...]
    values: tuple[tuple[int, Element], ...]


Link = tuple[str, Any]
"""What ties roles together: ("set", number) or ("value", (constraint number, element))."""


def components_of(problem: Problem, stage: Stage, roles: Roles) -> list[list[Component]]:
    """Return the components by type, in a fixed order."""
    found: dict[Any, list[Component]] = {}
    for members in _connected(problem, stage, roles):
        component = _spelt(problem, stage, roles, members)
        found.setdefault(component.type, []).append(component)
    return list(found.values())


def _connected(problem: Problem, stage: Stage, roles: Roles) -> Iterable[list[int]]:
    """Group the numbers of the roles by what they share."""
    parents = list(range(len(roles.masks)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = parents[parents[number]]
            number = parents[number]
        return number

    first: dict[Link, int] = {}
    for number, mask in enumerate(roles.masks):
        for link in _links(problem, stage, roles, mask):
            parents[root(number)] = root(first.setdefault(link, number))
    groups: dict[int, list[int]] = {}
    for number in range(len(roles.masks)):
        groups.setdefault(root(number), []).append(number)
    return groups.values()


def _links(problem: Problem, stage: Stage, roles: Roles, mask: int) -> list[Link]:
    class_ = problem.shape.class_of[(mask & -mask).bit_length() - 1]
    found: list[Link] = [("set", number) for number in _sets(problem, class_)]
    for goal in problem.flat_goals:
        for _, values in _seen(stage, roles, goal, mask):
            found.extend(("value", value) for value in values)
    return found


def _sets(problem: Problem, class_: int) -> list[int]:
    """The counter sets that a class of devices draws on, in the order of its entries."""
    return list(dict.fromkeys(number for number, _ in problem.counters.groups[class_]))


def _seen(stage: Stage, roles: Roles, goal: Goal, mask: int) -> list[tuple[int, list[tuple[int, Element]]]]:
    """Return (constraint, its values on these devices) for one goal, without constraints that hold anyway."""
    claim = goal.want.claim
    found = []
    for index in goal.want.constraints:
        if (claim, index) not in roles.vacuous:
            number = stage.constraint_number(claim, index)
            masks = roles.values(goal, index).masks
            found.append((index, [(number, element) for element, holders in masks.items() if holders & mask]))
    return found


def _spelt(problem: Problem, stage: Stage, roles: Roles, members: list[int]) -> Component:
    masks = [roles.masks[number] for number in members]
    plain = [_plain(problem, stage, roles, mask) for mask in masks]
    order = sorted(range(len(masks)), key=lambda place: repr(plain[place]))
    sets: dict[int, int] = {}
    values: dict[tuple[int, Element], int] = {}
    spelling = []
    for place in order:
        mask = masks[place]
        class_ = problem.shape.class_of[(mask & -mask).bit_length() - 1]
        drawn = [(sets.setdefault(number, len(sets)), groups) for number, groups in problem.counters.groups[class_]]
        seen = [
            (goal.want.index, index, tuple([values.setdefault(value, len(values)) for value in found]))
            for goal in problem.flat_goals
            for index, found in _seen(stage, roles, goal, mask)
        ]
        spelling.append((plain[place], tuple(drawn), tuple(seen)))
    names = tuple([tuple([problem.counters.names[i] for i in problem.counters.sets[number]]) for number in sets])
    kinds = tuple([number for number, _ in values])
    return Component(
        (tuple(spelling), names, kinds), tuple([masks[place] for place in order]), tuple(sets), tuple(values)
    )


def _plain(problem: Problem, stage: Stage, roles: Roles, mask: int) -> Any:
    """Write a role down without naming sets and values."""
    position = (mask & -mask).bit_length() - 1
    class_ = problem.shape.class_of[position]
    _, kind = problem.shape.classes[class_]
    shared = stage.is_shared_class(class_)
    counters = problem.counters
    amounts = tuple(
        [
            (number, counters.names[counter], amount)
            for number, drawn in enumerate(_sets(problem, class_))
            for counter, amount in sorted(counters.takes[class_])
            if counter in counters.sets[drawn]
        ]
    )
    judged = tuple(
        [
            (
                standing(goal.verdicts[class_]),
                shared and _amounts(goal, class_),
                tuple([_standing_of(roles.values(goal, index), position) for index in goal.want.constraints]),
            )
            for goal in problem.flat_goals
        ]
    )
    return (
        judged,
        amounts,
        shared and tuple([capacity.value.nano for capacity in kind.capacities]),
        tuple([splitter >> position & 1 for splitter in roles.splitters]),
    )


def _standing_of(values: Values, position: int) -> tuple[bool, bool]:
    """Whether a constraint fails on a device, and whether it finds a value there."""
    return bool(values.failing >> position & 1), any(mask >> position & 1 for mask in values.masks.values())


def _amounts(goal: Goal, class_: int) -> tuple[int, ...] | None:
    charge = goal.charges[class_]
    return None if charge is None else charge.amounts
