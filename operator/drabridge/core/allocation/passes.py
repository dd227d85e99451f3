"""The filter pass: on which nodes of a cluster a Pod can get its devices.

What a pass has found out holds for the next Pod of the kind, except on nodes where something changed in between: a
slice, or what is in use of a pool. Snapshots and states say what that was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from drabridge.core.allocation.allocate import (
    UNFORESEEN,
    Interrupt,
    answer_for,
    demand_for,
    failure,
    problem_for,
    waiting,
)
from drabridge.core.allocation.claims import Claim
from drabridge.core.allocation.demand import Demand
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.outcomes import Undecided, Unfit
from drabridge.core.allocation.schema import blamed
from drabridge.core.allocation.settings import DEFAULTS, Settings
from drabridge.core.allocation.slices import PoolKey
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState
from drabridge.core.allocation.strategy import Strategy
from drabridge.core.allocation.texts import Fatal
from drabridge.core.allocation.views import view_of

_MOST_PASSES: Final = 16
"""Kinds of Pods whose passes are remembered."""


def preferred_nodes(
    snapshot: Snapshot, state: AllocatedState, nodes: Sequence[Node], settings: Settings = DEFAULTS
) -> list[Node]:
    """Put nodes in the order of the strategy: Pack begins with the fullest, Spread with the emptiest.

    A node is as full as the share of its devices of which anything is in use. Equal ones keep their order, and so do
    all under FirstFit.
    """
    if settings.strategy is Strategy.FIRST_FIT:
        return list(nodes)

    def fullness(node: Node) -> int:
        view = view_of(snapshot, node, settings)
        use = view.use(state, snapshot)
        devices = sum([pool.size for pool in view.layout.pools])
        return (use.dedicated | use.shared).bit_count() * 1_000_000 // devices if devices else 0

    return sorted(nodes, key=fullness, reverse=settings.strategy is Strategy.PACK)


_Other = tuple[Node, Unfit | Undecided]


@dataclass(frozen=True, slots=True)
class Filtered:
    """The nodes by outcome, each in the order given."""

    fitting: tuple[Node, ...]
    others: tuple[_Other, ...]


def fits(
    snapshot: Snapshot,
    state: AllocatedState,
    nodes: Sequence[Node],
    claims: Sequence[Claim],
    settings: Settings = DEFAULTS,
    *,
    interrupt: Interrupt | None = None,
) -> Filtered:
    """Say on which nodes the claims of a Pod can be allocated.

    Raises AllocationError for what makes an answer impossible on every node, InvalidInput for broken slices.
    """
    if any(claim.allocation is not None for claim in claims):
        return _fits_rest(snapshot, state, nodes, claims, settings, interrupt)
    demand = demand_for(snapshot, claims, settings)
    passes = snapshot.findings.passes
    key = (demand, settings.effort, settings.gathering)
    known: _Pass | None = passes.get(key)
    if known is None or not known.follow(snapshot, state):
        if len(passes) >= _MOST_PASSES:
            passes.clear()
        known = passes[key] = _Pass(snapshot, state, demand)
    try:
        return known.run(nodes, claims, settings, interrupt)
    except UNFORESEEN as error:
        raise blamed(snapshot.all_slices(), error) from error


def _fits_rest(
    snapshot: Snapshot,
    state: AllocatedState,
    nodes: Sequence[Node],
    claims: Sequence[Claim],
    settings: Settings,
    interrupt: Interrupt | None,
) -> Filtered:
    """Filter where some claims are allocated: by where those can be used, and then by the others."""
    usable = [node for node in nodes if waiting(claims, node) is not None]
    rest = [claim for claim in claims if claim.allocation is None]
    found = fits(snapshot, state, usable, rest, settings, interrupt=interrupt)
    outcomes: dict[int, Unfit | Undecided | None] = dict.fromkeys(map(id, usable))
    outcomes.update((id(node), outcome) for node, outcome in found.others)
    others = [(node, outcome) for node in nodes if (outcome := outcomes.get(id(node), Unfit(0))) is not None]
    return Filtered(found.fitting, tuple(others))


class _Pass:
    """What is known of the nodes for one kind of Pods, at one moment."""

    def __init__(self, snapshot: Snapshot, state: AllocatedState, demand: Demand) -> None:
        self._snapshot = snapshot
        self._state = state
        self._demand = demand
        self._known: dict[str, Node | _Other] = {}
        """Node name -> the node if it fits, else the node and why not."""
        self._nodes: dict[PoolKey, str | set[str]] = {}
        """Pool -> the nodes that look at it; mostly one."""

    def follow(self, snapshot: Snapshot, state: AllocatedState) -> bool:
        """Go on to another moment: forget the nodes on which something changed. Returns whether that is known."""
        if snapshot is not self._snapshot:
            slices = snapshot.history.since(self._snapshot.history)
            if slices is None:
                return False
            for name, pool in slices:
                if not name:
                    return False
                self._known.pop(name, None)
                self._forget(pool)
            self._snapshot = snapshot
        if state is not self._state:
            pools = state.history.since(self._state.history)
            if pools is None:
                return False
            for pool in pools:
                self._forget(pool)
            self._state = state
        return True

    def _forget(self, pool: PoolKey) -> None:
        looking = self._nodes.get(pool, ())
        for name in (looking,) if isinstance(looking, str) else looking:
            self._known.pop(name, None)

    def run(
        self, nodes: Sequence[Node], claims: Sequence[Claim], settings: Settings, interrupt: Interrupt | None
    ) -> Filtered:
        """Look at each node, or remember what it was."""
        known = self._known
        fitting: list[Node] = []
        others: list[_Other] = []
        for node in nodes:
            entry = known.get(node.name)
            if entry is node:
                fitting.append(node)
                continue
            if not isinstance(entry, tuple) or entry[0] is not node:
                entry = self._look(node, claims, settings, interrupt)
            if entry is None:
                fitting.append(node)
            else:
                others.append(entry)
        return Filtered(tuple(fitting), tuple(others))

    def _look(
        self, node: Node, claims: Sequence[Claim], settings: Settings, interrupt: Interrupt | None
    ) -> _Other | None:
        """Find out, and remember, why a node does not fit; None if it does."""
        snapshot = self._snapshot
        view = view_of(snapshot, node, settings)
        problem = problem_for(view, self._demand, snapshot)
        try:
            answer = answer_for(problem, view.use(self._state, snapshot), settings, interrupt)
        except Fatal as error:
            raise failure(error, claims, view) from None
        verdict = answer.verdict(view)
        if interrupt is not None and isinstance(verdict, Undecided):
            return node, verdict
        entry = None if verdict is None else (node, verdict)
        self._known[node.name] = entry or node
        for pool, _ in view.layout.seen:
            looking = self._nodes.setdefault(pool, node.name)
            if isinstance(looking, set):
                looking.add(node.name)
            elif looking != node.name:
                self._nodes[pool] = {looking, node.name}
        return entry
