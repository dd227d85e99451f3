"""One scenario of the JSON-lines format -> one answer of the same format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drabridge.core.allocation.allocate import allocate
from drabridge.core.allocation.claims import claims_of
from drabridge.core.allocation.features import Features
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.outcomes import Allocated, AllocationError, Undecided
from drabridge.core.allocation.reading import parse_quantity, written
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState
from drabridge.core.allocation.techniques import STEP_BUDGET, Techniques
from drabridge.core.allocation.upstream_faults import UpstreamFaults
from drabridge.core.errors import InvalidInput


def answer(
    scenario: Mapping[str, Any],
    *,
    techniques: Techniques = Techniques(),
    faults: UpstreamFaults = UpstreamFaults(),
    budget: int | None = STEP_BUDGET,
    strict: bool = True,
) -> dict[str, Any]:
    """Answer a scenario: {id, results, error[, errorOnNodeOnly], allocateOneInvocations, variant}.

    `strict` refuses unknown fields. A search that ends at the budget answers with the error of `Undecided`.
    """
    found: dict[str, Any] = {
        "id": scenario.get("id") or "",
        "results": None,
        "error": None,
        "allocateOneInvocations": None,
        "variant": "experimental",
    }
    try:
        features = Features.of(scenario.get("features") or {})
        snapshot = Snapshot.of(scenario.get("slices") or (), scenario.get("classes") or ())
        outcome = allocate(
            snapshot,
            _state(scenario),
            Node.of(scenario["node"]),
            claims_of(scenario.get("claims") or ()),
            features=features,
            faults=faults,
            techniques=techniques,
            budget=budget,
        )
    except AllocationError as error:
        return {**found, "error": error.upstream}
    except InvalidInput as error:
        return {**found, "error": error.problem}
    found["allocateOneInvocations"] = outcome.steps
    if isinstance(outcome, Allocated):
        return {**found, "results": list(outcome.results)}
    if isinstance(outcome, Undecided):
        return {**found, "error": outcome.error}
    if outcome.error is not None:
        return {**found, "error": outcome.error, "errorOnNodeOnly": True}
    return found


def _state(scenario: Mapping[str, Any]) -> AllocatedState:
    shares = []
    for text in scenario.get("allocatedSharedDeviceIDs") or ():
        device, _, share = text.rpartition("/")
        shares.append((*_device(device), share))
    return AllocatedState.of_devices(
        [_device(text) for text in scenario.get("allocatedDevices") or ()],
        shares,
        {
            _device(text): {name: parse_quantity(written(value)).nano for name, value in amounts.items()}
            for text, amounts in (scenario.get("aggregatedCapacity") or {}).items()
        },
    )


def _device(text: str) -> tuple[str, str, str]:
    driver, _, rest = text.partition("/")
    pool, _, device = rest.rpartition("/")
    return driver, pool, device
