"""Why the claims of a Pod do not fit on a node, as a structure, and what would change that.

Nothing here takes part in an allocation: it is asked afterwards, by a person. Every remedy but the last kind has been
tried: the claims fit once it is applied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from drabridge.core.allocation.allocate import allocate, demand_for, problem_for
from drabridge.core.allocation.claims import EXACT_COUNT, Ask, Claim, Request, Toleration
from drabridge.core.allocation.groups import joined
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.outcomes import Allocated
from drabridge.core.allocation.pools import PoolState
from drabridge.core.allocation.problem import DerivedFailure, Goal, Problem
from drabridge.core.allocation.reasons import CANNOT_ALLOCATE, Remedy, Removal
from drabridge.core.allocation.settings import DEFAULTS, Settings
from drabridge.core.allocation.slices import PoolKey
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.stage import Stage
from drabridge.core.allocation.state import AllocatedState, PoolUse
from drabridge.core.allocation.verdicts import Failed, Refused
from drabridge.core.allocation.views import NodeView, view_of
from drabridge.core.errors import DrabridgeError

_MOST_TRIES: Final = 24
"""Remedies of one kind that are tried."""

_TRY_BUDGET: Final = 1_000
"""Steps of each try."""


class Removed(NamedTuple):
    """A device that a request cannot have."""

    device: str
    """`driver/pool/device`."""
    removal: Removal
    detail: str
    """Which selector, which taint, which claim."""


@dataclass(frozen=True, slots=True)
class RequestWhy:
    """One (sub)request on one node."""

    claim: str
    request: str
    needed: int
    """0 for allocationMode All where nothing is left to ask for."""
    devices: int
    """How many devices the node has in usable pools."""
    removed: tuple[Removed, ...]

    @property
    def left(self) -> int:
        """How many devices it could have if it were alone."""
        return self.devices - len(self.removed)

    @property
    def counts(self) -> Mapping[Removal, int]:
        """How many devices each reason removed."""
        found: dict[Removal, int] = {}
        for removed in self.removed:
            found[removed.removal] = found.get(removed.removal, 0) + 1
        return found

    @property
    def is_met(self) -> bool:
        """Whether it could be met if it were alone and without constraints."""
        return self.left >= self.needed


@dataclass(frozen=True, slots=True)
class Change:
    """A remedy: what kind, on which object, and what exactly."""

    remedy: Remedy
    object: str
    detail: str

    def __str__(self) -> str:
        return f"{self.object}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Why:
    """Why it does not fit. `changes` each suffice by themselves, the smallest first."""

    requests: tuple[RequestWhy, ...]
    pools: tuple[tuple[PoolKey, PoolState, str], ...]
    """Pools whose devices cannot be used, and what is wrong with them."""
    conflict: tuple[str, ...]
    """The first requests that cannot be met together: "claim: request". Empty if one alone cannot be met."""
    changes: tuple[Change, ...]
    upstream: str
    """What kube-scheduler says."""

    def summary(self) -> str:
        """Say it in one line."""
        for request in self.requests:
            if not request.is_met:
                counts = ", ".join(f"{count} {removal}" for removal, count in request.counts.items())
                found = f"{request.left} of {request.devices} devices left ({counts})" if counts else "no devices"
                return f"claim {request.claim}, request {request.request}: {request.needed} needed, {found}"
        if self.pools:
            return "; ".join(f"pool {'/'.join(key)} is {state}: {problem}" for key, state, problem in self.pools)
        return f"cannot be met together: {', '.join(self.conflict)}"


def explain(
    snapshot: Snapshot, state: AllocatedState, node: Node, claims: Sequence[Claim], settings: Settings = DEFAULTS
) -> Why:
    """Say why the claims do not fit on a node. Raises what `allocate` raises.

    Claims that are allocated are left out: they keep their devices, and cannot be used on other nodes.
    """
    rest = tuple(claim for claim in claims if claim.allocation is None)
    return _Inquiry(snapshot, state, node, rest, settings).why()


class _Inquiry:
    def __init__(
        self, snapshot: Snapshot, state: AllocatedState, node: Node, claims: tuple[Claim, ...], settings: Settings
    ) -> None:
        self._snapshot = snapshot
        self._state = state
        self._node = node
        self._claims = claims
        self._settings = settings
        self._view: NodeView = view_of(snapshot, node, settings)
        self._problem: Problem = problem_for(self._view, demand_for(snapshot, claims, settings), snapshot)
        if self._problem.fatal is not None:
            allocate(snapshot, state, node, claims, settings)
        self._stage = Stage(self._problem, self._view.use(state, snapshot))

    def why(self) -> Why:
        layout = self._view.layout
        requests = tuple(self._request(goal) for goal in self._problem.flat_goals)
        pools = tuple((pool.key, pool.state, pool.problem) for pool in layout.pools if pool.problem)
        return Why(
            requests,
            pools,
            self._conflict(requests),
            tuple(self._changes(requests)),
            "invalid resource pools were encountered" if layout.has_invalid else CANNOT_ALLOCATE,
        )

    def _request(self, goal: Goal) -> RequestWhy:
        layout = self._view.layout
        size = len(self._problem.shape.class_of)
        removed = []
        for position in range(size):
            found = self._removal(goal, position)
            if found is not None:
                removed.append(Removed(layout.device_id(position), *found))
        claim = self._claims[goal.want.claim]
        return RequestWhy(claim.label, goal.want.ask.full_name, goal.need, size, tuple(removed))

    def _removal(self, goal: Goal, position: int) -> tuple[Removal, str] | None:
        """Say what keeps a device from a request, the first thing in the order of upstream's tests."""
        return self._barred(goal, position) or self._used(goal, position) or self._unmatched(goal, position)

    def _barred(self, goal: Goal, position: int) -> tuple[Removal, str] | None:
        verdict = goal.verdicts[self._problem.shape.class_of[position]]
        if verdict.selected is not None:
            return _told(verdict.selected)
        if self._problem.shape.elsewhere >> position & 1:
            return Removal.NODE, ""
        if isinstance(verdict.charged, Refused | Failed):
            return _told(verdict.charged)
        return None if verdict.barred is None else _told(verdict.barred)

    def _used(self, goal: Goal, position: int) -> tuple[Removal, str] | None:
        stage, problem = self._stage, self._problem
        if stage.busy(goal) >> position & 1:
            return Removal.IN_USE, ", ".join(self._holders(position))
        if not stage.fits_amounts(goal, position):
            return Removal.CAPACITY, f"in use by {', '.join(self._holders(position))}"
        class_ = problem.shape.class_of[position]
        if not problem.counters.consumes[class_] or stage.is_paid(position):
            return None
        if problem.demand.features.compatibility_groups:
            for number, groups in problem.counters.groups[class_]:
                if not joined(stage.groups[number], groups)[0]:
                    return Removal.GROUP, ", ".join(sorted(groups)) or "none"
        mark = stage.mark()
        fits = stage.charge(position)
        stage.undo(mark)
        if fits:
            return None
        short = [
            problem.counters.names[counter]
            for counter, amount in problem.counters.takes[class_]
            if stage.left[counter] < amount
        ]
        return Removal.COUNTER, ", ".join(dict.fromkeys(short)) or "another counter of the pool is overdrawn"

    def _unmatched(self, goal: Goal, position: int) -> tuple[Removal, str] | None:
        want = goal.want
        for index in want.constraints:
            try:
                value = self._problem.value(want, index, self._problem.shape.class_of[position])
            except DerivedFailure as failure:
                return Removal.CONSTRAINT, f"{failure.before}{failure.after}"
            if value is None:
                attribute = self._claims[want.claim].constraints[index]
                return Removal.CONSTRAINT, f"it has no attribute {attribute.attribute if attribute else ''}"
        return None

    def _holders(self, position: int) -> list[str]:
        pool, place = self._view.layout.pool_at(position)
        use = self._state.pool(pool.key)
        return sorted(_holders(use, pool.names[place])) if use is not None else []

    def _conflict(self, requests: tuple[RequestWhy, ...]) -> tuple[str, ...]:
        """Return the shortest beginning of all requests that does not fit."""
        if any(not request.is_met for request in requests):
            return ()
        found: list[str] = []
        for number, claim in enumerate(self._claims):
            for count, request in enumerate(claim.requests, 1):
                found.append(f"{claim.label}: {request.name}")
                partial = _with(claim, requests=claim.requests[:count])
                if not self._fits((*self._claims[:number], partial), self._state):
                    return tuple(found)
        return tuple(found)

    def _fits(self, claims: tuple[Claim, ...], state: AllocatedState) -> bool:
        settings = replace(self._settings, budget=_TRY_BUDGET)
        try:
            return isinstance(allocate(self._snapshot, state, self._node, claims, settings), Allocated)
        except DrabridgeError:
            return False

    # Remedies

    def _changes(self, requests: tuple[RequestWhy, ...]) -> Iterator[Change]:
        yield from self._tolerating(requests)
        holders = self._all_holders()
        yield from self._releasing(holders)
        yield from self._asking_for_fewer()
        yield from self._dropping_constraints()
        yield from self._dropping_selectors()
        if len(holders) > 1:
            yield from self._releasing_several(holders)
        for pool in self._view.layout.pools:
            if pool.state is PoolState.INCOMPLETE:
                yield Change(Remedy.WAIT_FOR_POOL, f"pool {'/'.join(pool.key)}", f"wait for its driver: {pool.problem}")

    def _tolerating(self, requests: tuple[RequestWhy, ...]) -> Iterator[Change]:
        taints = dict.fromkeys(
            removed.detail for why in requests for removed in why.removed if removed.removal is Removal.TAINT
        )
        for taint in list(taints)[:_MOST_TRIES]:
            head, _, effect = taint.rpartition(":")
            key, _, value = head.partition("=")
            toleration = Toleration(key, "Equal", value, effect)
            claims = self._changed(lambda ask, extra=toleration: _ask(ask, tolerations=(*ask.tolerations, extra)))
            if self._fits(claims, self._state):
                yield Change(Remedy.TOLERATE, self._objects(), f"tolerate the taint {taint}")

    def _all_holders(self) -> list[str]:
        """Return the claims that hold something on the node."""
        held: set[str] = set()
        for pool in self._view.layout.pools:
            use = self._state.pool(pool.key)
            if use is not None:
                names = {*use.dedicated, *use.shares}
                held.update(claim for name in names for claim in _holders(use, name))
        mine = {claim.label for claim in self._claims}
        return sorted(claim for claim in held - mine if self._state.holdings(claim) is not None)

    def _releasing(self, holders: Sequence[str]) -> Iterator[Change]:
        for holder in holders[:_MOST_TRIES]:
            if self._fits(self._claims, self._state.release(holder)):
                yield Change(Remedy.RELEASE, f"ResourceClaim {holder}", "release what it holds")

    def _releasing_several(self, holders: Sequence[str]) -> Iterator[Change]:
        state = self._state
        if any(self._fits(self._claims, state.release(holder)) for holder in holders[:_MOST_TRIES]):
            return
        for count, holder in enumerate(holders, 1):
            state = state.release(holder)
            if count > 1 and self._fits(self._claims, state):
                names = ", ".join(holders[:count])
                yield Change(Remedy.RELEASE_SEVERAL, f"ResourceClaims {names}", "release what they hold")
                return

    def _asking_for_fewer(self) -> Iterator[Change]:
        for number, claim in enumerate(self._claims):
            for place, request in enumerate(claim.requests):
                for ask in request.asks[:1]:
                    if request.is_list or ask.mode != EXACT_COUNT:
                        continue
                    for count in range(ask.count - 1, 0, -1):
                        changed = self._exchanged(number, place, _ask(ask, count=count))
                        if self._fits(changed, self._state):
                            yield Change(
                                Remedy.ASK_FOR_FEWER,
                                claim.object,
                                f"ask for {count} instead of {ask.count} in request {request.name}",
                            )
                            break

    def _dropping_constraints(self) -> Iterator[Change]:
        for number, claim in enumerate(self._claims):
            for index, constraint in enumerate(claim.constraints):
                rest = (*claim.constraints[:index], *claim.constraints[index + 1 :])
                changed = (*self._claims[:number], _with(claim, constraints=rest), *self._claims[number + 1 :])
                if constraint is not None and self._fits(changed, self._state):
                    yield Change(
                        Remedy.DROP_CONSTRAINT, claim.object, f"drop constraint {index} on {constraint.attribute}"
                    )

    def _dropping_selectors(self) -> Iterator[Change]:
        for number, claim in enumerate(self._claims):
            for place, request in enumerate(claim.requests):
                for ask in request.asks[:1]:
                    for index in range(len(ask.expressions) if not request.is_list else 0):
                        rest = (*ask.expressions[:index], *ask.expressions[index + 1 :])
                        if self._fits(self._exchanged(number, place, _ask(ask, expressions=rest)), self._state):
                            yield Change(
                                Remedy.DROP_SELECTOR, claim.object, f"drop selector {index} of request {request.name}"
                            )

    def _objects(self) -> str:
        return ", ".join(claim.object for claim in self._claims)

    def _changed(self, change: Any) -> tuple[Claim, ...]:
        """Change every (sub)request."""
        return tuple(
            _with(
                claim,
                requests=tuple(replace(r, asks=tuple(change(ask) for ask in r.asks)) for r in claim.requests),
            )
            for claim in self._claims
        )

    def _exchanged(self, number: int, place: int, ask: Ask) -> tuple[Claim, ...]:
        claim = self._claims[number]
        requests: list[Request] = list(claim.requests)
        requests[place] = replace(requests[place], asks=(ask,))
        return (*self._claims[:number], _with(claim, requests=tuple(requests)), *self._claims[number + 1 :])


def _ask(ask: Ask, **changes: Any) -> Ask:
    return replace(ask, **changes)


def _with(claim: Claim, **changes: Any) -> Claim:
    """Change a claim. It is of a kind of its own then: `kind` is the object itself, spelt out."""
    changed = replace(claim, **changes)
    return replace(changed, kind=f"{claim.kind} {[(r.name, r.asks) for r in changed.requests]} {changed.constraints}")


def _told(verdict: Refused | Failed) -> tuple[Removal, str]:
    if isinstance(verdict, Refused):
        return verdict.removal, verdict.detail
    return Removal.ERROR, f"{verdict.before}{verdict.after}"


def _holders(use: PoolUse, device: str) -> set[str]:
    holders = set((use.shares.get(device) or {}).values())
    if device in use.dedicated:
        holders.add(use.dedicated[device])
    return holders
