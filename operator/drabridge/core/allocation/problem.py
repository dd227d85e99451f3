"""A shape of nodes and a kind of Pods put together: bitsets of candidates, prices in counters, values of constraints.

Everything here is the same for all nodes of the shape and all Pods of the kind, whatever is in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from drabridge.core.allocation.amounts import Charge
from drabridge.core.allocation.demand import MOST_RESULTS, Demand, Want
from drabridge.core.allocation.expressions import DerivedProblem, derived_of, evaluate_derived
from drabridge.core.allocation.kinds import Attribute, DeviceKind
from drabridge.core.allocation.pools import PoolState
from drabridge.core.allocation.shapes import Shape
from drabridge.core.allocation.texts import ClaimAt, DeviceAt, Fatal, PoolAt, Text
from drabridge.core.allocation.verdicts import Failed, Refused, Verdict, verdict_of
from drabridge.core.cel.device import BadDevice
from drabridge.core.cel.selector import CompileError


@dataclass(frozen=True, eq=False)
class Goal:
    """A (sub)request on one shape."""

    want: Want
    need: int
    ok: int
    """Bitset of the devices that may serve it, as far as nothing is in use."""
    errors: int
    """Bitset of the devices that cannot be judged: the first that is free ends the allocation."""
    fixed: tuple[int, ...] | None
    """For allocationMode All: its devices in order."""
    verdicts: tuple[Verdict, ...]
    """By class."""
    charges: tuple[Charge | None, ...]
    """By class: what it takes of the capacities."""

    @cached_property
    def fixed_mask(self) -> int:
        """The devices of `fixed` as a bitset."""
        return sum(1 << position for position in self.fixed or ())


@dataclass(frozen=True, slots=True)
class Counters:
    """The counters of a shape, numbered: `available` and the pool (block) of each; consumption by class."""

    available: tuple[int, ...]
    names: tuple[str, ...]
    """The counters' own names."""
    blocks: tuple[range, ...]
    """The counters of each block."""
    sets: tuple[range, ...]
    """The counters of each counter set."""
    set_blocks: tuple[int, ...]
    """The block of each set."""
    takes: tuple[tuple[tuple[int, int], ...], ...]
    """By class: (counter, amount)."""
    groups: tuple[tuple[tuple[int, frozenset[str]], ...], ...]
    """By class: (counter set, compatibility groups), in the order of the device's entries."""
    consumes: tuple[bool, ...]
    """By class: whether it consumes counters at all."""


class DerivedFailure(Exception):
    """A derived attribute without a value: the text before and after the device's name ("" if it is not named)."""

    def __init__(self, before: str, after: str) -> None:
        super().__init__(before, after)
        self.before = before
        self.after = after


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be searched. `fatal` is the error with which the checks before the search end, if they do."""

    shape: Shape
    demand: Demand
    goals: tuple[tuple[tuple[Goal, ...], ...], ...]
    """Goals by claim and request."""
    counters: Counters
    fatal: Fatal | None
    known: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Answers by what is in use."""
    _values: dict[tuple[int, int, int], Attribute | DerivedFailure | None] = field(default_factory=dict, repr=False)

    @cached_property
    def flat_goals(self) -> tuple[Goal, ...]:
        """Goals by the number of their want."""
        return tuple(goal for claim in self.goals for request in claim for goal in request)

    def value(self, want: Want, constraint: int, class_: int) -> Attribute | None:
        """Return what a constraint of the claim sees of a class of devices; None if it has not the attribute.

        Raises DerivedFailure if it is a derived attribute without a value.
        """
        key = (want.index, constraint, class_)
        try:
            found = self._values[key]
        except KeyError:
            try:
                found = self._look_up(want, constraint, self.shape.classes[class_][1])
            except DerivedFailure as failure:
                found = failure
            self._values[key] = found
        if isinstance(found, DerivedFailure):
            raise found
        return found

    def _look_up(self, want: Want, constraint: int, kind: DeviceKind) -> Attribute | None:
        name = self.demand.claims[want.claim].constraints[constraint].attribute
        expression = dict(want.ask.derived).get(name)
        if expression is None:
            return kind.attribute(name)
        compiled = derived_of(expression)
        if isinstance(compiled, CompileError):
            raise DerivedFailure(f"compile derived attribute {name} failed: {compiled}", "")
        try:
            return evaluate_derived(compiled, kind.view)
        except (DerivedProblem, BadDevice) as problem:
            raise DerivedFailure(f"evaluate derived attribute {name} on device ", f" failed: {problem}") from None


def problem_of(shape: Shape, demand: Demand) -> Problem:
    """Put a shape and a demand together."""
    builder = _Builder(shape, demand)
    fatal = None
    try:
        builder.run()
    except Fatal as error:
        fatal = error.fresh()
    goals = tuple(tuple(tuple(request) for request in claim) for claim in builder.goals)
    return Problem(shape, demand, goals, _counters(shape), fatal)


class _Builder:
    """Runs the checks of section 4 that need the pools, and makes the goals as it goes."""

    def __init__(self, shape: Shape, demand: Demand) -> None:
        self._shape = shape
        self._demand = demand
        self._broken = dict(shape.broken)
        self.goals: list[list[list[Goal]]] = []

    def run(self) -> None:
        for index, claim in enumerate(self._demand.claims):
            self.goals.append([])
            total = 0
            for number, wants in enumerate(claim.requests):
                self.goals[-1].append([])
                for want in wants:
                    self.goals[-1][-1].append(self._goal(want))
                request = claim.claim.requests[number]
                if len(wants) == len(request.asks):
                    total = self._check_total(index, number, total)
        if self._demand.stop is not None:
            raise self._demand.stop.fresh()

    def _check_total(self, index: int, number: int, total: int) -> int:
        goals = self.goals[-1][-1]
        smallest = min(goal.need for goal in goals)
        if smallest > MOST_RESULTS - total:
            text = f", request {goals[0].want.request.name}: adding {smallest} devices exceeds the claim limit of "
            raise Fatal(
                index,
                f"spec.devices.requests[{number}]",
                (*_at(index), f"{text}{MOST_RESULTS}, with {total} already accounted for"),
                "spread the devices over several claims",
            )
        return total + smallest

    def _goal(self, want: Want) -> Goal:
        shape, demand = self._shape, self._demand
        verdicts = tuple(
            verdict_of(want, kind, demand.features, demand.faults, shape.declared) for _, kind in shape.classes
        )
        ok = errors = 0
        charges: list[Charge | None] = []
        for verdict, mask in zip(verdicts, shape.masks, strict=True):
            here = mask & ~shape.elsewhere
            charge = None
            if verdict.selected is not None:
                errors |= mask if isinstance(verdict.selected, Failed) else 0
            elif isinstance(verdict.charged, Failed):
                errors |= here
            elif not isinstance(verdict.charged, Refused):
                charge = verdict.charged
                ok |= here if verdict.barred is None else 0
            charges.append(charge)
        for position, _ in shape.broken:
            if verdicts[shape.class_of[position]].selected is None:
                ok &= ~(1 << position)
                errors |= 1 << position
        fixed = self._fixed(want, verdicts) if want.is_all else None
        need = want.ask.count if fixed is None else len(fixed)
        return Goal(want, need, ok, errors, fixed, verdicts, tuple(charges))

    def _fixed(self, want: Want, verdicts: tuple[Verdict, ...]) -> tuple[int, ...]:
        """Walk the pools for allocationMode All; the first thing that is wrong ends the allocation."""
        shape = self._shape
        found = []
        first = 0
        for index, block in enumerate(shape.blocks):
            if block.state is not PoolState.USABLE:
                state = "being updated" if block.state is PoolState.INCOMPLETE else "invalid"
                raise Fatal(
                    want.claim,
                    want.ask.path,
                    (
                        *_at(want.claim),
                        f", request {want.ask.name}: asks for all devices, but resource pool ",
                        PoolAt(index),
                        f" is currently {state}",
                    ),
                    "wait until the driver has published the pool",
                )
            for place in shape.positions[first : first + len(block.kinds)]:
                verdict = verdicts[shape.class_of[place]]
                if isinstance(verdict.selected, Failed):
                    raise self.failure(want, verdict.selected, place)
                if verdict.selected is not None or shape.elsewhere >> place & 1:
                    continue
                if place in self._broken:
                    raise self.broken(want, self._broken[place])
                if isinstance(verdict.charged, Failed):
                    raise self.failure(want, verdict.charged, place, alone=True)
                if not isinstance(verdict.charged, Refused):
                    found.append(place)
            first += len(block.kinds)
        return tuple(sorted(found))

    @staticmethod
    def broken(want: Want, problem: str) -> Fatal:
        text = (f"failed to parse node selector: {problem}",)
        return Fatal(want.claim, want.ask.path, text, "the driver has to correct the device's node selector")

    @staticmethod
    def failure(want: Want, failed: Failed, position: int, *, alone: bool = False) -> Fatal:
        return Fatal(want.claim, want.ask.path, failed.text(want.claim, position, alone=alone), failed.cure)


def failure_at(problem: Problem, goal: Goal, position: int) -> Fatal:
    """Return the error of a device that cannot be judged."""
    verdict = goal.verdicts[problem.shape.class_of[position]]
    broken = dict(problem.shape.broken).get(position)
    if verdict.selected is None and broken is not None:
        return _Builder.broken(goal.want, broken)
    failed = verdict.selected if isinstance(verdict.selected, Failed) else verdict.charged
    assert isinstance(failed, Failed)  # noqa: S101 -- its bit in `errors` says so
    return _Builder.failure(goal.want, failed, position)


def derived_failure(goal: Goal, failure: DerivedFailure, position: int) -> Fatal:
    """Return the error of a derived attribute without a value."""
    text: Text = (failure.before, DeviceAt(position), failure.after) if failure.after else (failure.before,)
    return Fatal(
        goal.want.claim, f"{goal.want.ask.path}.derivedAttributes", text, "make the expression work for every device"
    )


def constraint_failure(goal: Goal, position: int) -> Fatal:
    """Return the error of allocationMode All whose devices cannot be combined."""
    return Fatal(
        goal.want.claim,
        goal.want.ask.path,
        (
            *_at(goal.want.claim),
            f", request {goal.want.ask.name}: cannot add device ",
            DeviceAt(position),
            " because a claim constraint would not be satisfied",
        ),
        "narrow the request down to devices that go together, or drop the constraint",
    )


def _at(index: int) -> Text:
    return "claim ", ClaimAt(index)


def _counters(shape: Shape) -> Counters:
    available: list[int] = []
    labels: list[str] = []
    blocks: list[range] = []
    sets: list[range] = []
    set_blocks: list[int] = []
    numbers: dict[tuple[int, str], tuple[int, Mapping[str, int]]] = {}
    for index, block in enumerate(shape.blocks):
        first = len(available)
        for name, counters in block.counter_sets:
            begin = len(available)
            numbers[index, name] = len(sets), {counter: begin + i for i, (counter, _) in enumerate(counters)}
            available.extend(value for _, value in counters)
            labels.extend(counter for counter, _ in counters)
            sets.append(range(begin, len(available)))
            set_blocks.append(index)
        blocks.append(range(first, len(available)))
    takes, groups, consumes = [], [], []
    for home, kind in shape.classes:
        taken: dict[int, int] = {}
        joined = []
        if home >= 0:
            for consumption in kind.consumes:
                number, indices = numbers[home, consumption.counter_set]
                joined.append((number, consumption.groups))
                for counter, amount in consumption.counters.items():
                    taken[indices[counter]] = taken.get(indices[counter], 0) + amount
        takes.append(tuple(taken.items()))
        groups.append(tuple(joined))
        consumes.append(home >= 0)
    return Counters(
        tuple(available),
        tuple(labels),
        tuple(blocks),
        tuple(sets),
        tuple(set_blocks),
        tuple(takes),
        tuple(groups),
        tuple(consumes),
    )
