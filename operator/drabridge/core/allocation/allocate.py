"""Allocate: the one question of this package.

What was found out before is looked up: the pools of a node as long as its slices are the same, the verdicts on a shape
of nodes for a kind of Pods, the answer for what is in use there. None of it changes an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

from drabridge.core.allocation.claims import Claim
from drabridge.core.allocation.demand import Demand, demand_of
from drabridge.core.allocation.nodes import Node, SelectorProblem, matches
from drabridge.core.allocation.outcomes import Allocated, AllocationError, Undecided, Unfit
from drabridge.core.allocation.preference import preferred
from drabridge.core.allocation.problem import Problem, problem_of
from drabridge.core.allocation.result import NewShareID, results
from drabridge.core.allocation.schema import blamed
from drabridge.core.allocation.search import OutOfBudget, Search, Solution
from drabridge.core.allocation.settings import DEFAULTS, Settings
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState
from drabridge.core.allocation.texts import Fatal, rendered
from drabridge.core.allocation.use import NodeUse, moved_use
from drabridge.core.allocation.views import NodeView, view_of
from drabridge.core.errors import InvalidInput

INVALID_POOLS: Final = "invalid resource pools were encountered"
"""Upstream's only error that concerns the node alone."""

_MOST_DEMANDS: Final = 256
"""Kinds of Pods that a snapshot remembers."""

_MOST_PROBLEMS: Final = 64
"""Kinds of Pods that a shape remembers."""

_MOST_ANSWERS: Final = 4096
"""Answers that are remembered of a shape and a kind of Pods, by what is in use."""

UNFORESEEN: Final = (AttributeError, KeyError, TypeError, ValueError)
"""What devices that no API server has validated may raise when they are read at last."""

Interrupt = Callable[[], str | None]
"""Asked from time to time; ends the search by giving a cause."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a search ended: with a solution, or else with the verdict on the nodes where it was like that."""

    end: Solution | Unfit | Undecided
    steps: int

    def verdict(self, view: NodeView) -> Unfit | Undecided | None:
        """Return why it does not fit on a node; None if it does."""
        if isinstance(self.end, Solution):
            return None
        if view.layout.has_invalid and isinstance(self.end, Unfit):
            return Unfit(self.steps, INVALID_POOLS)
        return self.end


def share_ids() -> NewShareID:
    """Number shares: for answers that are compared, not for claims, which take UUIDs."""
    numbers = count()
    return lambda: f"share-{next(numbers)}"


def allocate(
    snapshot: Snapshot,
    state: AllocatedState,
    node: Node,
    claims: Sequence[Claim],
    settings: Settings = DEFAULTS,
    *,
    interrupt: Interrupt | None = None,
    new_share: NewShareID | None = None,
) -> Allocated | Unfit | Undecided:
    """Find devices on a node for all claims of a Pod, or none. Claims that are allocated keep their allocation.

    Raises AllocationError for what makes an answer impossible on every node, InvalidInput for broken slices.
    """
    for claim in claims:
        if claim.allocation is not None:
            return _allocate_rest(snapshot, state, node, claims, settings, interrupt, new_share)
    try:
        demand = demand_for(snapshot, claims, settings)
        view = view_of(snapshot, node, settings)
        problem = problem_for(view, demand, snapshot)
        try:
            answer = answer_for(problem, view.use(state, snapshot), settings, interrupt)
        except Fatal as error:
            raise failure(error, claims, view) from None
        if not isinstance(answer.end, Solution):
            return answer.verdict(view) or answer.end
        new_share = new_share or share_ids()
        return Allocated(results(claims, answer.end, problem, view.layout, node, new_share), answer.steps)
    except UNFORESEEN as error:
        raise blamed(snapshot.all_slices(), error) from error


def waiting(claims: Sequence[Claim], node: Node) -> tuple[Claim, ...] | None:
    """Return the claims that are not allocated yet; None if an allocated one cannot be used on the node.

    Raises InvalidInput for an allocation whose node selector is broken.
    """
    for claim in claims:
        selector = (claim.allocation or {}).get("nodeSelector")
        try:
            if selector is not None and not matches(selector, node):
                return None
        except (SelectorProblem, *UNFORESEEN) as problem:
            raise InvalidInput(
                claim.object, "status.allocation.nodeSelector", f"cannot be read: {problem}", "free the claim"
            ) from None
    return tuple([claim for claim in claims if claim.allocation is None])


def _allocate_rest(
    snapshot: Snapshot,
    state: AllocatedState,
    node: Node,
    claims: Sequence[Claim],
    settings: Settings,
    interrupt: Interrupt | None,
    new_share: NewShareID | None,
) -> Allocated | Unfit | Undecided:
    rest = waiting(claims, node)
    if rest is None:
        return Unfit(0)
    outcome = allocate(snapshot, state, node, rest, settings, interrupt=interrupt, new_share=new_share)
    if not isinstance(outcome, Allocated):
        return outcome
    fresh = iter(outcome.results)
    found = tuple(next(fresh) if claim.allocation is None else claim.allocation for claim in claims)
    return Allocated(found, outcome.steps)


def demand_for(snapshot: Snapshot, claims: Sequence[Claim], settings: Settings) -> Demand:
    """Return the compiled claims. Pods of one kind share them."""
    demands = snapshot.findings.demands
    key = (tuple([claim.kind for claim in claims]), settings.rules)
    found: tuple[object, Demand] | None = demands.get(key)
    if found is not None and found[0] is snapshot.classes:
        return found[1]
    demand = demand_of(claims, snapshot.classes, settings.features, settings.faults)
    if len(demands) >= _MOST_DEMANDS:
        demands.clear()
    demands[key] = snapshot.classes, demand
    return demand


def problem_for(view: NodeView, demand: Demand, snapshot: Snapshot) -> Problem:
    """Return what is to be searched on a node. Nodes of one shape share it."""
    known = view.shape(demand.reads, snapshot).known
    problem: Problem | None = known.get(demand)
    if problem is None:
        if len(known) >= _MOST_PROBLEMS:
            known.clear()
        problem = known[demand] = problem_of(view.shape(demand.reads, snapshot), demand)
    return problem


def answer_for(problem: Problem, use: NodeUse, settings: Settings, interrupt: Interrupt | None = None) -> Answer:
    """Search, unless it is known how that ends. Raises Fatal."""
    if problem.fatal is not None:
        raise problem.fatal.fresh()
    key = use, settings.effort
    found = problem.known.get(key)
    if found is None:
        found = _preferring(problem, use, settings, interrupt)
        if len(problem.known) >= _MOST_ANSWERS:
            problem.known.clear()
        if not (isinstance(found, Answer) and isinstance(found.end, Undecided) and interrupt is not None):
            problem.known[key] = found
    if isinstance(found, Fatal):
        raise found.fresh()
    return found


def _preferring(problem: Problem, use: NodeUse, settings: Settings, interrupt: Interrupt | None) -> Answer | Fatal:
    """Search in the order of the strategy. Positions are the problem's own again in the answer."""
    order = preferred(settings.strategy, problem, use)
    if order is None:
        return _searched(problem, use, settings, interrupt)
    places = {place: position for position, place in enumerate(order)}
    other = problem_of(problem.shape.reordered(order), problem.demand)
    found = _searched(other, moved_use(use, places), settings, interrupt)
    if isinstance(found, Fatal):
        # Which device is to blame depends on the order, and its text has positions: upstream's order decides.
        return _searched(problem, use, settings, interrupt)
    if isinstance(found.end, Solution):
        picks = tuple([replace(pick, position=order[pick.position]) for pick in found.end.picks])
        return Answer(replace(found.end, picks=picks), found.steps)
    return found


def _searched(problem: Problem, use: NodeUse, settings: Settings, interrupt: Interrupt | None) -> Answer | Fatal:
    search = Search(problem, use, settings.techniques, settings.budget, interrupt)
    try:
        solution = search.run()
    except Fatal as error:
        return error.fresh()
    except OutOfBudget as end:
        return Answer(Undecided(end.steps, end.cause), end.steps)
    return Answer(Unfit(search.steps) if solution is None else solution, search.steps)


def failure(error: Fatal, claims: Sequence[Claim], view: NodeView) -> AllocationError:
    """Write an error with the names of the claims and of the node's devices."""
    labels = [claim.label for claim in claims]
    return AllocationError(
        claims[error.claim].object, error.path, rendered(error.text, labels, view.layout), error.cure
    )
