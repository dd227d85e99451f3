"""Bounds: proofs that no assignment exists below a state of the search.

They reason about the requests from the current one on, up to the first in whose turn an error may come up: the search
gets there only through an assignment of those before it, so that a proof about them is a proof that there is no hit.
Everything that a bound leaves out (compatibility groups, who shares what) only makes it weaker, never wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from drabridge.core.allocation import constraints as rules
from drabridge.core.allocation.demand import MOST_RESULTS
from drabridge.core.allocation.flow import Network
from drabridge.core.allocation.problem import Goal, Problem
from drabridge.core.allocation.roles import Element, Roles
from drabridge.core.allocation.stage import Stage
from drabridge.core.allocation.techniques import Techniques

_SCALE: Final = 1 << 90
"""What counters of different sizes are scaled to, so that they can be added up: well above any amount."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to meet a request: so many of these devices."""

    goal: Goal
    need: int
    candidates: int
    is_loose: bool = False
    """It stands for the way to an error as well, which no constraint hinders."""


Entry = tuple[Way, ...]
"""A request that is still to be met, by one of several ways."""


class Bounds:
    """The bounds of one search."""

    def __init__(
        self,
        problem: Problem,
        stage: Stage,
        roles: Roles,
        turns: Sequence[tuple[Goal, ...] | None],
        techniques: Techniques,
    ) -> None:
        self._problem = problem
        self._stage = stage
        self._roles = roles
        self._turns = turns
        self._techniques = techniques
        self._consuming = [
            (mask, problem.counters.takes[problem.shape.class_of[(mask & -mask).bit_length() - 1]])
            for mask in roles.masks
            if problem.counters.consumes[problem.shape.class_of[(mask & -mask).bit_length() - 1]]
        ]
        self._counting = bool(self._consuming) and not any(
            amount < 0 for _, takes in self._consuming for _, amount in takes
        )
        self.limited = any(
            sum(max(goal.need for goal in goals) for goals in claim) > MOST_RESULTS for claim in problem.goals if claim
        )
        """Whether how many devices a claim has can decide what it may still get."""
        self.usable = techniques.bounds and not (roles.raising and any(map(_turns_back, problem.goals)))

    def hopeless(self, turn: int, goal: Goal, slot: int, start: int) -> bool:
        """Whether it is proven that nothing is found with the slot and all that comes after it."""
        if not self.usable:
            return False
        blocked = self._blocked()
        first = self._current(goal, slot, start, blocked)
        if first is None:
            return False
        entries: list[Entry] = []
        for entry in self._entries(turn, first, blocked):
            if not entry:
                return True
            entries.append(entry)
        return self._combined(entries)

    # Single requests

    def _entries(self, turn: int, first: Way, blocked: int) -> Iterator[Entry]:
        yield self._possible((first,))
        claim = first.goal.want.claim
        for goals in self._turns[turn + 1 :]:
            if goals is None:
                continue
            raising = [goal for goal in goals if goal.want.index in self._roles.raising]
            if any(goal.fixed is None for goal in raising):
                return
            yield self._possible(
                self._to_break(goal, claim, blocked) if goal in raising else self._later(goal, claim, blocked)
                for goal in goals
            )
            if raising:
                return

    def _possible(self, ways: Iterable[Way]) -> Entry:
        """Keep the ways that have enough devices."""
        counting = self._techniques.count_bound
        return tuple(way for way in ways if not counting or way.candidates.bit_count() >= way.need)

    def _current(self, goal: Goal, slot: int, start: int, blocked: int) -> Way | None:
        """Return what the current request still needs; None if an error may come up in its turn."""
        busy = self._stage.busy(goal)
        if goal.fixed is not None:
            if goal.want.index in self._roles.raising:
                return None
            rest = goal.fixed[slot:]
            candidates = goal.fixed_mask & ~((1 << goal.fixed[slot]) - 1) & goal.ok & ~busy if rest else 0
            return Way(goal, len(rest), self._refined(goal, candidates, blocked, current=True))
        candidates = goal.ok & ~busy >> start << start
        if goal.want.index in self._roles.raising:
            if goal.errors & ~busy >> start:
                return None
            if any(self._roles.values(goal, index).failing & candidates for index in goal.want.constraints):
                return None
        return Way(goal, goal.need - slot, self._refined(goal, candidates, blocked, current=True))

    def _later(self, goal: Goal, claim: int, blocked: int) -> Way:
        candidates = self._free(goal, claim)
        if goal.fixed is not None:
            candidates &= goal.fixed_mask
        dead = goal.fixed == () or goal.want.index in self._roles.unreachable  # All of nothing always fails
        need = len(self._problem.shape.class_of) + 1 if dead else goal.need
        current = goal.want.claim == claim
        return Way(goal, need, self._refined(goal, candidates, blocked, current=current))

    def _to_break(self, goal: Goal, claim: int, blocked: int) -> Way:
        """Say what a walk over a fixed list needs at least: the devices up to the first place where it may break."""
        place = self._roles.breaks[goal.want.index][0]
        walked = (goal.fixed or ())[: place + 1]
        candidates = self._free(goal, claim) & sum(1 << position for position in walked)
        return Way(goal, len(walked), candidates & ~blocked, is_loose=True)

    def _free(self, goal: Goal, claim: int) -> int:
        """The devices that a later request may have, as far as they are free."""
        if not goal.want.is_admin:
            return goal.ok & ~(self._stage.picked | self._stage.dedicated)
        return goal.ok & ~self._stage.mine[claim] if goal.want.claim == claim else goal.ok

    def _blocked(self) -> int:
        """The devices whose own consumption is more than what is left."""
        if not self._counting or not self._techniques.counter_bound:
            return 0
        left = self._stage.left
        blocked = 0
        for mask, takes in self._consuming:
            if any(left[counter] < amount for counter, amount in takes):
                blocked |= mask
        return blocked & ~self._paid

    @property
    def _paid(self) -> int:
        paid = self._stage.shared_in_use
        for position in self._stage.shares:
            if self._stage.shares[position]:
                paid |= 1 << position
        return paid & self._stage.share_mask

    def _refined(self, goal: Goal, candidates: int, blocked: int, *, current: bool) -> int:
        candidates &= ~blocked
        stage = self._stage
        for positions in (stage.amounts, stage.in_use):
            for position in positions:
                if candidates >> position & 1 and not stage.fits_amounts(goal, position):
                    candidates &= ~(1 << position)
        if self._roles.ordered:
            return candidates
        for index in goal.want.constraints:
            state = stage.constraints[stage.constraint_number(goal.want.claim, index)] if current else None
            candidates &= self._allowed(goal, index, state)
        return candidates

    def _allowed(self, goal: Goal, index: int, state: rules.State) -> int:
        """The devices that a constraint still lets a request have, given what it has seen."""
        techniques, masks = self._techniques, self._roles.values(goal, index).masks
        if self._is_match(goal, index):
            if not techniques.match_bound:
                return -1
            elements = masks if state is None else _matching(state)
        else:
            if not techniques.distinct_bound:
                return -1
            if state is not None:
                # A device is out if any of its elements is used; one with several is taken by its used ones here.
                used = free = 0
                for element, mask in masks.items():
                    if element in state:
                        used |= mask
                    else:
                        free |= mask
                return free & ~used
            elements = masks
        allowed = 0
        for element in elements:
            allowed |= masks.get(element, 0)
        return allowed

    def _is_match(self, goal: Goal, index: int) -> bool:
        return self._problem.demand.claims[goal.want.claim].constraints[index].is_match

    # All requests together

    def _combined(self, entries: list[Entry]) -> bool:
        """Whether the requests cannot be met together."""
        if self._contradicts(entries):
            return True
        if self._roles.ordered or not self._techniques.match_bound:
            return False
        return any(self._unmatched(entries, claim, index) for claim, index in self._open_matches(entries))

    def _open_matches(self, entries: list[Entry]) -> list[tuple[int, int]]:
        """Return (claim, constraint) of the matchAttributes whose value is still to be chosen."""
        found: dict[tuple[int, int], None] = {}
        stage = self._stage
        for entry in entries:
            for way in entry:
                want = way.goal.want
                for index in want.constraints:
                    state = stage.constraints[stage.constraint_number(want.claim, index)]
                    if self._is_match(way.goal, index) and not way.is_loose and not _is_single(state):
                        found[want.claim, index] = None
        return list(found)

    def _unmatched(self, entries: list[Entry], claim: int, index: int) -> bool:
        """Whether there is no value that all requests could have in common."""
        elements: dict[Element, None] = {}
        covered = [entry for entry in entries if all(way.need and _is_covered(way, claim, index) for way in entry)]
        if not covered or (len(entries) == 1 and min(way.need for way in covered[0]) < 2):
            return False
        for way in covered[0]:
            for element, mask in self._roles.values(way.goal, index).masks.items():
                if mask & way.candidates:
                    elements[element] = None
        for element in elements:
            restricted = self._restricted(entries, claim, index, element)
            if restricted is not None and not self._contradicts(restricted):
                return False
        return True

    def _restricted(self, entries: list[Entry], claim: int, index: int, element: Element) -> list[Entry] | None:
        """Leave only devices with one value to the requests that a constraint covers; None if one gets too few."""
        found = []
        for entry in entries:
            ways = []
            for way in entry:
                if _is_covered(way, claim, index):
                    candidates = way.candidates & self._roles.values(way.goal, index).masks.get(element, 0)
                    if candidates.bit_count() >= way.need:
                        ways.append(Way(way.goal, way.need, candidates))
                else:
                    ways.append(way)
            if not ways:
                return None
            found.append(tuple(ways))
        return found

    def _contradicts(self, entries: list[Entry]) -> bool:
        techniques = self._techniques
        if techniques.counter_bound and self._counting and self._overdraws(entries):
            return True
        if techniques.distinct_bound and not self._roles.ordered and self._collides(entries):
            return True
        if techniques.match_bound and not self._roles.ordered and len(entries) > 1 and self._crowds(entries):
            return True
        if techniques.flow_bound and techniques.counter_bound and self._sides and self._unpaired(entries):
            return True
        return techniques.flow_bound and self._overflows(entries)

    def _crowds(self, entries: list[Entry]) -> bool:
        """Whether requests that each want several devices of one value outnumber the room that the values have.

        Of m devices with a value, at most m // k requests can have k or more of them.
        """
        by_attribute: dict[str, list[tuple[Entry, dict[Element, int]]]] = {}
        for entry in entries:
            if any(way.goal.want.is_admin for way in entry):
                continue
            for name, masks in self._matched(entry).items():
                by_attribute.setdefault(name, []).append((entry, masks))
        for found in by_attribute.values():
            smallest = min(way.need for entry, _ in found for way in entry)
            if len(found) < 2 or smallest < 2:
                continue
            union = 0
            holders: dict[Element, int] = {}
            for entry, masks in found:
                union |= _united(entry)[0]
                for element, mask in masks.items():
                    holders[element] = holders.get(element, 0) | mask
            room = sum((mask & union).bit_count() // smallest for mask in holders.values())
            if not union & self._stage.share_mask and room < len(found):
                return True
        return False

    def _matched(self, entry: Entry) -> dict[str, dict[Element, int]]:
        """Return attribute -> value -> devices, for the attributes that match whichever way an entry is met."""
        found: dict[str, dict[Element, int]] | None = None
        for way in entry:
            mine: dict[str, dict[Element, int]] = {}
            for index in way.goal.want.constraints if not way.is_loose else ():
                if self._is_match(way.goal, index):
                    name = self._problem.demand.claims[way.goal.want.claim].constraints[index].attribute
                    mine[name] = self._roles.values(way.goal, index).masks
            if found is None:
                found = mine
            else:
                found = {name: _merged(masks, mine[name]) for name, masks in found.items() if name in mine}
        return found or {}

    def _overdraws(self, entries: list[Entry]) -> bool:
        """Whether the requests take more than is left, whatever weight a counter is given."""
        merged: dict[tuple[int, int], tuple[int, int]] = {}
        for number, entry in enumerate(entries):
            candidates, need = _united(entry)
            # Requests with admin access of several claims may have the same device, and each pays for it.
            key = candidates, number if any(way.goal.want.is_admin for way in entry) else -1
            count, wanted = merged.get(key, (0, 0))
            merged[key] = count + 1, wanted + need
        free = self._stage.share_mask
        for weights, scales in self._weights:
            budget = sum([scale * max(self._stage.left[counter], 0) for counter, scale in scales])
            for (candidates, _), (count, wanted) in merged.items():
                budget -= self._cheapest(candidates, wanted - count * (candidates & free).bit_count(), weights)
                if budget < 0:
                    return True
        return False

    @staticmethod
    def _cheapest(candidates: int, wanted: int, weights: list[tuple[int, int]]) -> int:
        """The least that so many of the candidates weigh. `weights` are (weight, devices), lightest first."""
        total = 0
        for weight, mask in weights:
            if wanted <= 0:
                break
            count = min((candidates & mask).bit_count(), wanted)
            total += count * weight
            wanted -= count
        return total

    @cached_property
    def _weights(self) -> list[tuple[list[tuple[int, int]], list[tuple[int, int]]]]:
        """Ways to weigh counters: (weight, devices) of each role, lightest first, and (counter, scale)."""
        counters = self._problem.counters
        scalings: list[dict[int, int]] = [
            {index: _SCALE // value for index, value in enumerate(counters.available) if value > 0}
        ]
        names: dict[str, list[int]] = {}
        for index, name in enumerate(counters.names):
            names.setdefault(name, []).append(index)
        if len(names) > 1:
            scalings.extend(dict.fromkeys(indices, 1) for indices in names.values())
        found = []
        shared = self._stage.share_mask
        everything = (1 << len(self._problem.shape.class_of)) - 1
        for scaling in scalings:
            by_weight: dict[int, int] = {}
            rest = everything & ~shared
            for mask, takes in self._consuming:
                weight = sum(amount * scaling.get(counter, 0) for counter, amount in takes)
                by_weight[weight] = by_weight.get(weight, 0) | (mask & rest)
            for mask, _ in self._consuming:
                rest &= ~mask
            by_weight[0] = by_weight.get(0, 0) | rest
            found.append((sorted(by_weight.items()), list(scaling.items())))
        return found

    def _collides(self, entries: list[Entry]) -> bool:
        """Whether the requests that a distinctAttribute covers need more values than there are."""
        constraints: dict[tuple[int, int], list[Entry]] = {}
        for entry in entries:
            shared: set[tuple[int, int]] | None = None
            for way in entry:
                mine = {
                    (way.goal.want.claim, index)
                    for index in way.goal.want.constraints
                    if not way.is_loose and not self._is_match(way.goal, index)
                }
                shared = mine if shared is None else shared & mine
            for key in (shared or set()) - self._roles.vacuous:
                constraints.setdefault(key, []).append(entry)
        return any(self._lacks_values(covered, index) for (_, index), covered in sorted(constraints.items()))

    def _lacks_values(self, covered: list[Entry], index: int) -> bool:
        numbers: dict[Element, int] = {}
        wanted = []
        for entry in covered:
            found: set[int] = set()
            for way in entry:
                for element, mask in self._roles.values(way.goal, index).masks.items():
                    if mask & way.candidates:
                        found.add(numbers.setdefault(element, len(numbers)))
            wanted.append((min(way.need for way in entry), sorted(found)))
        total = sum(need for need, _ in wanted)
        if total > len(numbers):
            return True
        if all(len(found) == len(numbers) for _, found in wanted):
            return False
        network = Network(2 + len(wanted) + len(numbers))
        first = 2 + len(wanted)
        for entry_number, (need, found_values) in enumerate(wanted, 2):
            network.arc(0, entry_number, need)
            for value in found_values:
                network.arc(entry_number, first + value, 1)
        for value in range(len(numbers)):
            network.arc(first + value, 1, 1)
        return network.largest_flow() < total

    def _overflows(self, entries: list[Entry]) -> bool:
        """Whether the devices do not go round."""
        merged: dict[int, list[int]] = {}
        ways: dict[int, list[Way]] = {}
        for entry in entries:
            if any(way.goal.want.is_admin for way in entry):
                continue
            candidates, need = _united(entry)
            merged.setdefault(candidates, []).append(need)
            ways.setdefault(candidates, []).extend(entry)
        if not merged or (len(merged) == 1 and not self._consuming and sum(map(len, merged.values())) == 1):
            return False
        groups = self._groups(list(merged))
        capacities = [
            self._capacity(mask, home, [way for found in ways.values() for way in found]) for mask, home in groups
        ]
        homes = sorted({home for _, home in groups if home >= 0})
        network = Network(2 + len(merged) + len(groups) + len(homes))
        first_group = 2 + len(merged)
        first_home = first_group + len(groups)
        for number, (candidates, needs) in enumerate(merged.items(), 2):
            network.arc(0, number, sum(needs))
            for place, (mask, _) in enumerate(groups):
                if mask & candidates:
                    network.arc(number, first_group + place, mask.bit_count() * len(needs))
        for place, (_, home) in enumerate(groups):
            end = 1 if home < 0 else first_home + homes.index(home)
            network.arc(first_group + place, end, capacities[place])
        for place, home in enumerate(homes):
            network.arc(first_home + place, 1, self._room(home, [mask for mask, at in groups if at == home]))
        return network.largest_flow() < sum(sum(needs) for needs in merged.values())

    @cached_property
    def _sides(self) -> dict[int, bool]:
        """Counter set -> whether it is on the left, if devices draw on two sets, one on either side; else empty."""
        neighbours: dict[int, set[int]] = {}
        for mask, _ in self._consuming if self._counting else ():
            drawn = self._drawn(mask)
            if len(drawn) > 2:
                return {}
            for number in drawn:
                neighbours.setdefault(number, set()).update(drawn - {number})
        return _sides_of(neighbours) if any(neighbours.values()) else {}

    def _drawn(self, mask: int) -> set[int]:
        """The counter sets that the devices of a role draw on."""
        class_ = self._problem.shape.class_of[(mask & -mask).bit_length() - 1]
        return {number for number, _ in self._problem.counters.groups[class_]}

    def _unpaired(self, entries: list[Entry]) -> bool:
        """Whether there is no way to give all requests devices with room on both sides."""
        shared = self._stage.share_mask
        union = wanted = 0
        for entry in entries:
            candidates, need = _united(entry)
            if candidates & shared or any(way.goal.want.is_admin for way in entry):
                continue
            union |= candidates
            wanted += need
        pairs: dict[tuple[int, int], int] = {}
        rest = union
        for mask, _ in self._consuming:
            if mask & union:
                drawn = self._drawn(mask)
                left = next((number for number in drawn if self._sides[number]), -1)
                right = next((number for number in drawn if not self._sides[number]), -1)
                pairs[left, right] = pairs.get((left, right), 0) | (mask & union)
                rest &= ~mask
        network = Network(2 + len(self._sides))
        places = {number: 2 + place for place, number in enumerate(self._sides)}
        for number, place in places.items():
            room = self._room(number, [mask for pair, mask in pairs.items() if number in pair])
            network.arc(*((0, place) if self._sides[number] else (place, 1)), room)
        for (left, right), mask in pairs.items():
            network.arc(places.get(left, 0), places.get(right, 1), mask.bit_count())
        return network.largest_flow() + rest.bit_count() < wanted

    def _groups(self, candidates: list[int]) -> list[tuple[int, int]]:
        """Split the candidates by who may have them and by the counter set that they draw on (-1: none)."""
        union = 0
        for mask in candidates:
            union |= mask
        parts = [union]
        for mask in candidates:
            parts = [piece for part in parts for piece in (part & mask, part & ~mask) if piece]
        shared = self._stage.share_mask
        if union & shared:
            parts = [piece for part in parts for piece in (part & shared, part & ~shared) if piece]
        if not self._counting or not self._techniques.counter_bound:
            return [(part, -1) for part in parts]
        found = []
        for part in parts:
            rest = part
            if not part & shared:
                for home, mask in self._homes:
                    if rest & mask:
                        found.append((rest & mask, home))
                        rest &= ~mask
            if rest:
                found.append((rest, -1))
        return found

    @cached_property
    def _homes(self) -> list[tuple[int, int]]:
        """Counter set -> the devices whose first consumption is from it."""
        counters = self._problem.counters
        set_of = {counter: number for number, span in enumerate(counters.sets) for counter in span}
        found: dict[int, int] = {}
        for mask, takes in self._consuming:
            if takes:
                home = set_of[takes[0][0]]
                found[home] = found.get(home, 0) | mask
        return list(found.items())

    def _room(self, home: int, masks: list[int]) -> int:
        """How many of the devices fit into a counter set at most: the smallest first, counter by counter."""
        union = 0
        for mask in masks:
            union |= mask
        room = union.bit_count()
        for counter in self._problem.counters.sets[home]:
            room = min(room, self._fitting(counter, union))
        return room

    def _fitting(self, counter: int, union: int) -> int:
        left = self._stage.left[counter]
        count = 0
        for amount, mask in self._by_amount.get(counter, ()):
            here = (mask & union).bit_count()
            if amount:
                here = min(here, max(left, 0) // amount)
                left -= here * amount
            count += here
            if amount and here < (mask & union).bit_count():
                return count
        return count

    @cached_property
    def _by_amount(self) -> dict[int, list[tuple[int, int]]]:
        """Counter -> (amount, devices that take it), smallest first; devices that take nothing come with 0."""
        found: dict[int, dict[int, int]] = {}
        for counter in range(len(self._problem.counters.available)):
            amounts = found[counter] = {}
            for mask, takes in self._consuming:
                amount = dict(takes).get(counter, 0)
                amounts[amount] = amounts.get(amount, 0) | mask
        return {counter: sorted(amounts.items()) for counter, amounts in found.items()}

    def _capacity(self, mask: int, home: int, ways: list[Way]) -> int:
        """How many picks devices are good for."""
        if home >= 0 or not mask & self._stage.share_mask:
            return mask.bit_count()
        total = 0
        while mask:
            bit = mask & -mask
            mask ^= bit
            total += self._picks(bit.bit_length() - 1, bit, ways)
        return total

    def _picks(self, position: int, bit: int, ways: list[Way]) -> int:
        """How often a shared device can be picked, each time by the most modest request."""
        class_ = self._problem.shape.class_of[position]
        # All tests capacity after constraints, so that none of it is needed to get to an error.
        charges = [None if way.is_loose else way.goal.charges[class_] for way in ways if way.candidates & bit]
        rest = self._stage.rest(position)
        most = len(ways) * 2 + 1
        known = [charge.amounts for charge in charges if charge is not None]
        if len(known) < len(charges) or not known:
            return most
        for index, left in enumerate(rest):
            smallest = min(amounts[index] for amounts in known)
            if smallest > 0:
                most = min(most, max(left, 0) // smallest)
        return most


def _turns_back(claim: tuple[tuple[Goal, ...], ...]) -> bool:
    """Whether a claim may come to a request that is too large whichever way it is met: that is no plain failure."""
    most = 0
    for goals in claim:
        if goals and min(goal.need for goal in goals) > MOST_RESULTS - most:
            return True
        most += max((goal.need for goal in goals), default=0)
    return False


def _is_covered(way: Way, claim: int, index: int) -> bool:
    """Whether a constraint decides which devices a way may have."""
    return not way.is_loose and way.goal.want.claim == claim and index in way.goal.want.constraints


def _merged(one: dict[Element, int], other: dict[Element, int]) -> dict[Element, int]:
    return {element: one.get(element, 0) | other.get(element, 0) for element in {**one, **other}}


def _sides_of(neighbours: dict[int, set[int]]) -> dict[int, bool]:
    """Put each number on a side so that no neighbours are on one; empty if that cannot be done."""
    sides: dict[int, bool] = {}
    for start in sorted(neighbours):
        queue = [start]
        sides.setdefault(start, True)
        for number in queue:
            for other in sorted(neighbours[number]):
                if sides.get(other) is sides[number]:
                    return {}
                if other not in sides:
                    sides[other] = not sides[number]
                    queue.append(other)
    return sides


def _united(entry: Entry) -> tuple[int, int]:
    """Return the devices that any of the ways can use, and the least that one of them needs."""
    candidates = 0
    for way in entry:
        candidates |= way.candidates
    return candidates, min(way.need for way in entry)


def _matching(state: rules.State) -> list[Element]:
    """Return the values that a matchAttribute still allows."""
    kind, values = state[0], state[1]
    return [(kind, value) for value in values]


def _is_single(state: rules.State) -> bool:
    """Whether a matchAttribute is down to one value."""
    return state is not None and len(state[1]) == 1
