"""The search: depth first over claims, requests, entries of prioritized lists and slots (section 9 of the behaviour).

The answer is the first hit in upstream's order, a hit being a complete assignment or an error. What may be skipped, and
why the answer stays the same, is said in `docs/allocation.md`; who decides it are `bounds` and `memory`.

The stack is a list: a Pod may ask for more devices than Python may nest calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from drabridge.core.allocation import constraints as rules
from drabridge.core.allocation.bounds import Bounds
from drabridge.core.allocation.demand import MOST_RESULTS
from drabridge.core.allocation.memory import Memory
from drabridge.core.allocation.problem import (
    DerivedFailure,
    Goal,
    Problem,
    constraint_failure,
    derived_failure,
    failure_at,
)
from drabridge.core.allocation.roles import Roles
from drabridge.core.allocation.stage import Stage
from drabridge.core.allocation.techniques import Techniques
from drabridge.core.allocation.use import NodeUse

INTERRUPT_EVERY: Final = 64
"""Steps between two questions to the caller whether to go on."""


class End(Enum):
    """How a part of the search ended."""

    FOUND = "Found"
    FAILED = "Failed"
    TOO_LARGE = "TooLarge"
    """The claim would get more devices than it may have: the entries of lists chosen so far are to blame."""


@dataclass(frozen=True, slots=True)
class Pick:
    """A device for a slot."""

    goal: Goal
    position: int


@dataclass(frozen=True, slots=True)
class Solution:
    """A complete assignment: the picks in order, and by claim and request the goal that was met."""

    picks: tuple[Pick, ...]
    chosen: tuple[tuple[Goal, ...], ...]


class OutOfBudget(Exception):
    """The search is not decided. `cause` says what ended it."""

    def __init__(self, steps: int, cause: str) -> None:
        super().__init__(cause)
        self.steps = steps
        self.cause = cause


class _Guide:
    """What a search knows once it has failed for the first time: before, nothing is worth its price."""

    def __init__(self, search: Search) -> None:
        problem, stage, techniques = search.problem, search.stage, search.techniques
        self.roles = Roles(problem, stage)
        self.bounds = Bounds(problem, stage, self.roles, search.turns, techniques)
        self.memory = Memory(
            problem, stage, self.roles, search.turns, limited=self.bounds.limited, components=techniques.components
        )
        self.failures: dict[Hashable, End] = {}
        self.remembers = techniques.memory
        self.exchanges = techniques.components

    def alike(self, frame: _Slot, stage: Stage) -> int:
        """The devices that a slot's device stands for: what fails with it fails with them."""
        position, goal = frame.position, frame.goal
        bit = 1 << position
        mask = next(mask for mask in self.roles.masks if mask & bit)
        if self.exchanges:
            mask |= self.memory.twins(position, frame.turn, goal, frame.slot, frame.start)
        if goal.want.is_admin:
            mask &= stage.picked if stage.picked & bit else ~stage.picked
        if mask & stage.share_mask and stage.amounts:
            taken = stage.amounts.get(position)
            for other, amounts in stage.amounts.items():
                if amounts != taken:
                    mask &= ~(1 << other)
            if taken is not None:
                mask &= sum(1 << other for other, amounts in stage.amounts.items() if amounts == taken)
        return mask


class _List:
    """A prioritized list whose entries are tried one after the other."""

    __slots__ = ("entry", "too_large", "turn")

    def __init__(self, turn: int) -> None:
        self.turn = turn
        self.entry = 0
        self.too_large = True


class _Slot:
    """A slot of a request: `rest` are the candidates that are still to be tried."""

    __slots__ = ("goal", "guided", "key", "position", "rest", "slot", "start", "turn")

    def __init__(self, turn: int, goal: Goal, slot: int, start: int, rest: int) -> None:
        self.turn = turn
        self.goal = goal
        self.slot = slot
        self.start = start
        self.rest = rest
        self.key: Hashable = None
        self.guided = False
        self.position = -1


class _Boundary:
    """The end of a claim: what is too large behind it is a plain failure before it."""

    __slots__ = ()


_BOUNDARY: Final = _Boundary()


class Search:
    """One search on one node. `run` may be called once."""

    def __init__(
        self,
        problem: Problem,
        use: NodeUse,
        techniques: Techniques,
        budget: int | None = None,
        interrupt: Callable[[], str | None] | None = None,
    ) -> None:
        self.problem = problem
        self.techniques = techniques
        self.stage = Stage(problem, use)
        self.steps = 0
        self._limit = budget
        self._interrupt = interrupt
        self._checkpoint = INTERRUPT_EVERY if interrupt is not None else (budget if budget is not None else 1 << 62)
        self.turns = self._turns()
        self._stack: list[_List | _Slot | _Boundary] = []
        self._guide: _Guide | None = None
        self._guided = techniques != Techniques.none()
        self._rules = rules.RULES

    def _turns(self) -> list[tuple[Goal, ...] | None]:
        """The requests of all claims in order; None is the end of a claim."""
        found: list[tuple[Goal, ...] | None] = []
        for claim in self.problem.goals:
            found.extend(claim)
            found.append(None)
        return found

    def run(self) -> Solution | None:
        """Return the first complete assignment; None if there is none.

        Raises Fatal for an error that comes first, OutOfBudget if nobody knows.
        """
        end = self._enter(0)
        stack = self._stack
        while end is not End.FOUND:
            if not stack:
                return None
            frame = stack[-1]
            end = self._descend(frame) if end is None else self._return(frame, end)
        return self._solution()

    def _solution(self) -> Solution:
        picks = tuple(Pick(frame.goal, frame.position) for frame in self._stack if isinstance(frame, _Slot))
        entries = {frame.turn: frame.entry - 1 for frame in self._stack if isinstance(frame, _List)}
        chosen: list[list[Goal]] = [[]]
        for turn, goals in enumerate(self.turns):
            if goals is None:
                chosen.append([])
            else:
                chosen[-1].append(goals[entries.get(turn, 0)])
        return Solution(picks, tuple(tuple(goals) for goals in chosen[:-1]))

    def _count(self) -> None:
        self.steps += 1
        if self.steps >= self._checkpoint:
            self._check()

    def _check(self) -> None:
        if self._limit is not None and self.steps > self._limit:
            raise OutOfBudget(self.steps, f"not decided within {self._limit} steps")
        if self._interrupt is not None:
            cause = self._interrupt()
            if cause is not None:
                raise OutOfBudget(self.steps, cause)
            self._checkpoint = self.steps + INTERRUPT_EVERY

    # Going down

    def _enter(self, turn: int) -> End | None:
        """Begin with a turn. Returns None if there is something to try now, on top of the stack."""
        while True:
            self._count()
            if turn == len(self.turns):
                return End.FOUND
            goals = self.turns[turn]
            if goals is None:
                self._stack.append(_BOUNDARY)
                turn += 1
                continue
            if goals[0].want.request.is_list:
                self._stack.append(_List(turn))
                return None
            return self._enter_slot(turn, goals[0], 0, 0, counted=True)

    def _enter_slot(self, turn: int, goal: Goal, slot: int, start: int, *, counted: bool = False) -> End | None:
        if not counted:
            self._count()
        if slot == goal.need and goal.fixed != ():
            return self._enter(turn + 1)
        if goal.need - slot > MOST_RESULTS - self.stage.taken[goal.want.claim]:
            return End.TOO_LARGE
        if goal.fixed is None:
            rest = (goal.ok | goal.errors) & ~self.stage.busy(goal) >> start << start
        else:
            rest = 1 << goal.fixed[slot] if goal.fixed else 0
        if not rest:
            return End.FAILED
        key: Hashable = None
        guide = self._guide
        if guide is not None:
            if guide.remembers:
                key = guide.memory.key(turn, goal, slot, start)
                if (end := guide.failures.get(key)) is not None:
                    return end
            if guide.bounds.hopeless(turn, goal, slot, start):
                return End.FAILED
        frame = _Slot(turn, goal, slot, start, rest)
        frame.key = key
        frame.guided = guide is not None
        self._stack.append(frame)
        return None

    def _leave(self, frame: _Slot, end: End) -> End:
        """Give a slot up, and remember that."""
        self._stack.pop()
        if frame.key is not None and self._guide is not None:
            self._guide.failures[frame.key] = end
        return end

    def _learn(self, frame: _Slot) -> bool:
        """After a device has failed in a slot: drop those that are like it. Returns whether the rest is hopeless."""
        if not self._guided or frame.goal.fixed is not None:
            return False
        guide = self._guide = self._guide or _Guide(self)
        if self.techniques.classes:
            frame.rest &= ~guide.alike(frame, self.stage)
        if frame.guided or not frame.rest:
            return False
        frame.guided = True
        if guide.remembers:
            frame.key = guide.memory.key(frame.turn, frame.goal, frame.slot, frame.start)
            if frame.key in guide.failures:
                return True
        return guide.bounds.hopeless(frame.turn, frame.goal, frame.slot, frame.start)

    def _descend(self, frame: _List | _Slot | _Boundary) -> End | None:
        """Try the next thing of the topmost frame."""
        if isinstance(frame, _Slot):
            return self._next_device(frame)
        if isinstance(frame, _List):
            return self._next_entry(frame)
        return None

    def _next_entry(self, frame: _List) -> End | None:
        goals = self.turns[frame.turn]
        assert goals is not None  # noqa: S101 -- a list's turn is a request
        if frame.entry == len(goals):
            self._stack.pop()
            return End.TOO_LARGE if frame.too_large else End.FAILED
        goal = goals[frame.entry]
        frame.entry += 1
        return self._enter_slot(frame.turn, goal, 0, 0)

    def _next_device(self, frame: _Slot) -> End | None:
        goal = frame.goal
        stage = self.stage
        if goal.fixed is not None:
            return self._only_device(frame)
        while frame.rest:
            bit = frame.rest & -frame.rest
            frame.rest ^= bit
            position = bit.bit_length() - 1
            if goal.errors & bit:
                raise failure_at(self.problem, goal, position)
            mark = stage.mark()
            if stage.fits_amounts(goal, position) and stage.charge(position) and self._constrain(goal, position):
                frame.position = position
                stage.pick(goal, position, mark)
                return self._enter_slot(frame.turn, goal, frame.slot + 1, position + 1)
            stage.undo(mark)
            if self._guide is not None and self.techniques.classes and frame.rest:
                frame.position = position
                frame.rest &= ~self._guide.alike(frame, stage)
        return self._leave(frame, End.FAILED)

    def _only_device(self, frame: _Slot) -> End | None:
        """Take the one device that allocationMode All has for the slot."""
        goal, stage = frame.goal, self.stage
        position = frame.rest.bit_length() - 1
        if frame.rest:
            frame.rest = 0
            bit = 1 << position
            mark = stage.mark()
            if goal.ok & bit and not stage.busy(goal) & bit and stage.charge(position):
                if not self._constrain(goal, position):
                    raise constraint_failure(goal, position)
                if stage.fits_amounts(goal, position):
                    frame.position = position
                    stage.pick(goal, position, mark)
                    return self._enter_slot(frame.turn, goal, frame.slot + 1, position + 1)
            stage.undo(mark)
        return self._leave(frame, End.FAILED)

    def _constrain(self, goal: Goal, position: int) -> bool:
        """Add a device to the constraints that apply. What was changed is undone with the stage."""
        want = goal.want
        if not want.constraints:
            return True
        problem, stage = self.problem, self.stage
        lists = problem.demand.features.list_type_attributes
        declared = problem.demand.claims[want.claim].constraints
        class_ = problem.shape.class_of[position]
        for index in want.constraints:
            try:
                value = problem.value(want, index, class_)
            except DerivedFailure as failure:
                raise derived_failure(goal, failure, position) from None
            if value is None:
                return False
            number = stage.constraint_number(want.claim, index)
            state = self._rules[declared[index].is_match, lists](stage.constraints[number], value)
            if state is rules.REFUSED:
                return False
            stage.set(stage.constraints, number, state)
        return True

    # Going back

    def _return(self, frame: _List | _Slot | _Boundary, end: End) -> End | None:
        """Tell the topmost frame how what it tried has ended."""
        if isinstance(frame, _Slot):
            self.stage.unpick(frame.goal, frame.position)
            if end is End.TOO_LARGE:
                return self._leave(frame, end)
            if frame.rest and self._learn(frame):
                return self._leave(frame, End.FAILED)
            return None
        if isinstance(frame, _List):
            frame.too_large = frame.too_large and end is End.TOO_LARGE
            return None
        self._stack.pop()
        return End.FAILED
