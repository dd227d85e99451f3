"""Allocate: the one question of this package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from drabridge.core.allocation.claims import Claim
from drabridge.core.allocation.demand import demand_of
from drabridge.core.allocation.features import Features
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.outcomes import Allocated, AllocationError, Undecided, Unfit
from drabridge.core.allocation.pools import Gathering, Layout
from drabridge.core.allocation.problem import problem_of
from drabridge.core.allocation.result import NewShareID, results
from drabridge.core.allocation.search import OutOfBudget, Search
from drabridge.core.allocation.shapes import Shaping
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState
from drabridge.core.allocation.techniques import STEP_BUDGET, Techniques
from drabridge.core.allocation.texts import Fatal, rendered
from drabridge.core.allocation.upstream_faults import UpstreamFaults
from drabridge.core.allocation.use import use_of

INVALID_POOLS = "invalid resource pools were encountered"
"""Upstream's only error that concerns the node alone."""


def share_ids() -> NewShareID:
    """Number shares: for answers that are compared, not for claims, which take UUIDs."""
    numbers = count()
    return lambda: f"share-{next(numbers)}"


def allocate(
    snapshot: Snapshot,
    state: AllocatedState,
    node: Node,
    claims: Sequence[Claim],
    *,
    features: Features = Features(),
    faults: UpstreamFaults = UpstreamFaults(),
    techniques: Techniques = Techniques(),
    budget: int | None = STEP_BUDGET,
    interrupt: Callable[[], str | None] | None = None,
    new_share: NewShareID | None = None,
) -> Allocated | Unfit | Undecided:
    """Find devices on a node for all claims of a Pod, or none.

    `interrupt` is asked from time to time and ends the search by giving a cause. Raises AllocationError for what makes
    an answer impossible on every node, InvalidInput for broken slices.
    """
    shaping = Shaping(snapshot.findings.kinds, snapshot.findings.shapes)
    demand = demand_of(claims, snapshot.classes, features, faults)
    gathering = Gathering(features, faults.stale_slices, snapshot.slices_of)
    layout = Layout(gathering.pools((*(snapshot.by_node.get(node.name) or ()), *snapshot.shared), node))
    labels = [claim.label for claim in claims]
    shape = shaping.of(layout, node, demand.reads)
    problem = problem_of(shape, demand)
    steps = 0
    try:
        if problem.fatal is not None:
            raise problem.fatal
        search = Search(problem, use_of(layout, state, snapshot.findings.kinds), techniques, budget, interrupt)
        solution = search.run()
        steps = search.steps
    except Fatal as error:
        raise AllocationError(
            claims[error.claim].object, error.path, rendered(error.text, labels, layout), error.cure
        ) from None
    except OutOfBudget as end:
        return Undecided(end.steps, end.cause)
    if solution is None:
        return Unfit(steps, INVALID_POOLS if layout.has_invalid else None)
    return Allocated(results(claims, solution, problem, layout, node, new_share or share_ids()), steps)
