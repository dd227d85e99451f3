"""The state of a search: what is picked, charged and constrained so far, and the way back.

Every change is recorded on a trail of (list, index, old value); undoing is unwinding the trail to a mark.
"""

from __future__ import annotations

from typing import Any, Final

from drabridge.core.allocation.amounts import Charge
from drabridge.core.allocation.groups import GroupState, folded, joined
from drabridge.core.allocation.problem import Goal, Problem
from drabridge.core.allocation.use import NodeUse, amounts_by_position

_NOTHING: Final = (0, ())


class Stage:
    """What one search has done so far on one node."""

    def __init__(self, problem: Problem, use: NodeUse) -> None:
        shape, demand = problem.shape, problem.demand
        features = demand.features
        self._problem = problem
        self._use = use
        self._class_of = shape.class_of
        self._shared_kinds = features.consumable_capacity
        self._with_groups = features.compatibility_groups
        self._with_counters = any(problem.counters.consumes)
        self.picked = 0
        """Devices that ordinary requests cannot have any more, because this search picked them."""
        self.mine = [0] * len(demand.claims)
        """By claim: devices that it has picked, which its admin requests cannot have again."""
        self.taken = [0] * len(demand.claims)
        """By claim: how many devices it has."""
        self.share_mask = self._shared_mask()
        """Devices that may be allocated more than once."""
        self.shared_in_use = use.shared
        """Devices of which something is in use, though not all."""
        self.dedicated = use.dedicated
        """Devices that are in use as a whole."""
        if not demand.faults.shares_forgotten:
            self.dedicated |= use.shared & ~self.share_mask
        self._trail: list[tuple[Any, Any, Any]] = []
        self._picks: list[tuple[int, int, int]] = []
        self._offsets: list[int] = []
        total = 0
        for claim in demand.claims:
            self._offsets.append(total)
            total += len(claim.constraints)
        self.constraints: list[Any] = [None] * total
        self.in_use = amounts_by_position(use) if use.amounts else {}
        self.amounts: dict[int, tuple[int, ...]] = {}
        """By position: what this search has taken of the capacities of a shared device."""
        self.shares: dict[int, int] = {}
        """By position: how often this search has picked a shared device."""
        self.left: list[int] = []
        self.groups: list[GroupState] = []
        self.touchy: frozenset[int] = frozenset()
        """Blocks in which every counter has to be looked at, not only those that a device consumes."""
        if self._with_counters:
            self._fold()

    def _shared_mask(self) -> int:
        mask = 0
        if self._shared_kinds:
            shape = self._problem.shape
            for (_, kind), positions in zip(shape.classes, shape.masks, strict=True):
                if kind.is_shared:
                    mask |= positions
        return mask

    def _fold(self) -> None:
        """Take from the counters what allocated devices consume, and join them to the groups."""
        counters = self._problem.counters
        self.left = list(counters.available)
        self.groups = [None] * len(counters.sets)
        rest = self._use.dedicated | self._use.shared
        while rest:
            bit = rest & -rest
            rest ^= bit
            class_ = self._class_of[bit.bit_length() - 1]
            for counter, amount in counters.takes[class_]:
                self.left[counter] -= amount
            for number, groups in counters.groups[class_]:
                self.groups[number] = folded(self.groups[number], groups)
        if self._use.remote:
            self._fold_remote()
        if self._problem.demand.faults.overallocated_counter_blocks_pool:
            self.touchy = frozenset(
                index
                for index, block in enumerate(counters.blocks)
                if any(self.left[counter] < 0 for counter in block) or index in self._negative()
            )

    def _negative(self) -> set[int]:
        """Blocks with a device that gives instead of taking, which no driver should publish."""
        counters = self._problem.counters
        return {
            home
            for (home, _), takes in zip(self._problem.shape.classes, counters.takes, strict=True)
            if any(amount < 0 for _, amount in takes)
        }

    def _fold_remote(self) -> None:
        counters = self._problem.counters
        names: dict[tuple[int, str], int] = {}
        for index, block in enumerate(self._problem.shape.blocks):
            for name, _ in block.counter_sets:
                names[index, name] = len(names)
        for index, kinds in self._use.remote:
            block = self._problem.shape.blocks[index]
            keys = {name: [counter for counter, _ in values] for name, values in block.counter_sets}
            for kind in kinds:
                for consumption in kind.consumes:
                    number = names[index, consumption.counter_set]
                    first = counters.sets[number].start
                    for counter, amount in consumption.counters.items():
                        self.left[first + keys[consumption.counter_set].index(counter)] -= amount
                    self.groups[number] = folded(self.groups[number], consumption.groups)

    # Looking

    def busy(self, goal: Goal) -> int:
        """The devices that a request cannot have because they are in use, or picked in this search."""
        return self.mine[goal.want.claim] if goal.want.is_admin else self.picked | self.dedicated

    def constraint_number(self, claim: int, index: int) -> int:
        """The place of a claim's constraint in `constraints`."""
        return self._offsets[claim] + index

    def is_share(self, position: int) -> bool:
        """Whether a device is one that may be allocated more than once."""
        return bool(self.share_mask >> position & 1)

    def is_shared_class(self, class_: int) -> bool:
        """Whether the devices of a class may be allocated more than once."""
        return self._shared_kinds and self._problem.shape.classes[class_][1].is_shared

    def is_paid(self, position: int) -> bool:
        """Whether a device is a shared one whose counters are paid already."""
        return self.is_share(position) and bool(self._use.shared >> position & 1 or self.shares.get(position))

    def fits_amounts(self, goal: Goal, position: int) -> bool:
        """Whether enough is left of the capacities of a device."""
        charge = goal.charges[self._class_of[position]]
        if charge is None:
            return True
        picked = self.amounts.get(position)
        in_use = self.in_use.get(position)
        if picked is None and in_use is None:
            return True
        capacities = self._problem.shape.classes[self._class_of[position]][1].capacities
        for index, capacity in enumerate(capacities):
            total = charge.amounts[index]
            if picked is not None:
                total += picked[index]
            if in_use is not None:
                total += in_use.get(capacity.name, 0)
            if total > capacity.value.nano:
                return False
        return True

    def rest(self, position: int) -> list[int]:
        """What is left of each capacity of a device."""
        picked, in_use = self.amounts.get(position), self.in_use.get(position, {})
        capacities = self._problem.shape.classes[self._class_of[position]][1].capacities
        return [
            capacity.value.nano - in_use.get(capacity.name, 0) - (picked[index] if picked else 0)
            for index, capacity in enumerate(capacities)
        ]

    # Changing

    def mark(self) -> int:
        """Where the trail ends now, for `undo`."""
        return len(self._trail)

    def set(self, values: Any, index: Any, value: Any) -> None:
        """Set an element so that it can be undone."""
        self._trail.append((values, index, values[index]))
        values[index] = value

    def undo(self, mark: int) -> None:
        """Undo what was set since a mark."""
        trail = self._trail
        while len(trail) > mark:
            values, index, old = trail.pop()
            values[index] = old

    def charge(self, position: int) -> bool:
        """Take a device's groups and counters. What was taken before a refusal is undone with the mark."""
        if not self._with_counters:
            return True
        class_ = self._class_of[position]
        counters = self._problem.counters
        if not counters.consumes[class_]:
            return True
        if self.is_paid(position):
            return True
        if self._with_groups and not self._join(counters.groups[class_]):
            return False
        return self._pay(class_)

    def _join(self, entries: tuple[tuple[int, frozenset[str]], ...]) -> bool:
        for number, groups in entries:
            fits, state = joined(self.groups[number], groups)
            if not fits:
                return False
            if state is not self.groups[number]:
                self.set(self.groups, number, state)
        return True

    def _pay(self, class_: int) -> bool:
        left = self.left
        for counter, amount in self._problem.counters.takes[class_]:
            rest = left[counter] - amount
            if rest < 0 and not self.touchy:
                return False
            self.set(left, counter, rest)
        if self.touchy:
            home = self._problem.shape.classes[class_][0]
            block = self._problem.counters.blocks[home]
            if home in self.touchy:
                return all(left[counter] >= 0 for counter in block)
            return all(left[counter] >= 0 for counter, _ in self._problem.counters.takes[class_])
        return True

    def pick(self, goal: Goal, position: int, mark: int) -> None:
        """Give a device to a claim. `mark` is where its charges begin on the trail."""
        claim = goal.want.claim
        self._picks.append((mark, self.picked, self.mine[claim]))
        self.taken[claim] += 1
        if self.is_share(position):
            charge = goal.charges[self._class_of[position]] or Charge((), ())
            before = self.amounts.get(position) or (0,) * len(charge.amounts)
            self.amounts[position] = tuple(a + b for a, b in zip(before, charge.amounts, strict=True))
            self.shares[position] = self.shares.get(position, 0) + 1
        else:
            self.picked |= 1 << position
            self.mine[claim] |= 1 << position

    def unpick(self, goal: Goal, position: int) -> None:
        """Take the device back that was given last."""
        claim = goal.want.claim
        mark, picked, mine = self._picks.pop()
        self.taken[claim] -= 1
        if self.is_share(position):
            charge = goal.charges[self._class_of[position]] or Charge((), ())
            self.shares[position] -= 1
            if self.shares[position]:
                after = self.amounts[position]
                self.amounts[position] = tuple(a - b for a, b in zip(after, charge.amounts, strict=True))
            else:
                del self.shares[position], self.amounts[position]
        self.picked, self.mine[claim] = picked, mine
        self.undo(mark)
