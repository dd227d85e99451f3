"""One scenario of the JSON-lines format -> one answer of the same format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from drabridge.core.allocation.allocate import allocate
from drabridge.core.allocation.claims import claims_of
from drabridge.core.allocation.features import Features
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.outcomes import Allocated, AllocationError, Undecided, Unfit
from drabridge.core.allocation.reading import parse_quantity, written
from drabridge.core.allocation.schema import SCENARIO, Checker
from drabridge.core.allocation.settings import Settings
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState
from drabridge.core.allocation.strategy import Strategy
from drabridge.core.allocation.techniques import STEP_BUDGET, Techniques
from drabridge.core.allocation.upstream_faults import UpstreamFaults
from drabridge.core.errors import InvalidInput

_TECHNIQUES: Final = Techniques()
_FAULTS: Final = UpstreamFaults()
_CURE: Final = "correct the scenario"


def answer(
    scenario: Any,
    *,
    techniques: Techniques = _TECHNIQUES,
    faults: UpstreamFaults = _FAULTS,
    strategy: Strategy = Strategy.FIRST_FIT,
    budget: int | None = STEP_BUDGET,
    strict: bool = True,
) -> dict[str, Any]:
    """Answer a scenario: {id, results, error[, errorOnNodeOnly], allocateOneInvocations, variant}.

    Never raises for bad input: that is an error of the answer, as in upstream's program. `strict` refuses unknown
    fields. A search that ends at the budget answers with the error of `Undecided`.
    """
    id_ = scenario.get("id") if isinstance(scenario, Mapping) else None
    found: dict[str, Any] = {"id": id_ if isinstance(id_, str) else "", "results": None, "error": None}
    steps = None
    try:
        if not isinstance(scenario, Mapping):
            raise _bad("", "is no object")
        Checker("scenario", strict).check(scenario, SCENARIO)
        features = _features(scenario)
        outcome = outcome_of(scenario, Settings(features, faults, techniques, strategy, budget))
    except AllocationError as error:
        found["error"] = error.upstream
    except InvalidInput as error:
        found["error"] = f"bad scenario: {error}"
    else:
        steps = outcome.steps
        if isinstance(outcome, Allocated):
            found["results"] = list(outcome.results)
        elif isinstance(outcome, Undecided):
            found["error"] = outcome.error
        elif outcome.error is not None:
            found |= {"error": outcome.error, "errorOnNodeOnly": True}
    return {**found, "allocateOneInvocations": steps, "variant": "experimental"}


def outcome_of(scenario: Mapping[str, Any], settings: Settings) -> Allocated | Unfit | Undecided:
    """Allocate what a scenario asks for. Raises InvalidInput; nothing is checked that is not looked at."""
    if scenario.get("node") is None:
        raise _bad("node", "is missing: no node")
    claims = [{**claim, "status": None} for claim in scenario.get("claims") or ()]
    return allocate(
        Snapshot.of(scenario.get("slices") or (), scenario.get("classes") or ()),
        _state(scenario),
        Node.of(scenario["node"]),
        claims_of(claims),
        settings,
    )


def _features(scenario: Mapping[str, Any]) -> Features:
    try:
        return Features.of(scenario.get("features") or {})
    except KeyError as error:
        raise _bad("features", f"has {error}, which is no feature") from None


def _bad(path: str, problem: str) -> InvalidInput:
    return InvalidInput("scenario", path, problem, _CURE)


def _state(scenario: Mapping[str, Any]) -> AllocatedState:
    shares = []
    for text in scenario.get("allocatedSharedDeviceIDs") or ():
        device, _, share = text.rpartition("/")
        shares.append((*_device(device, "allocatedSharedDeviceIDs"), share))
    return AllocatedState.of_devices(
        [_device(text, "allocatedDevices") for text in scenario.get("allocatedDevices") or ()],
        shares,
        {
            _device(text, "aggregatedCapacity"): {
                name: parse_quantity(written(value)).nano for name, value in amounts.items()
            }
            for text, amounts in (scenario.get("aggregatedCapacity") or {}).items()
        },
    )


def _device(text: str, path: str) -> tuple[str, str, str]:
    """Split `driver/pool/device`; the pool may contain slashes."""
    driver, first, rest = text.partition("/")
    pool, last, device = rest.rpartition("/")
    if not first or not last:
        raise _bad(path, f"has {text!r}, which is not driver/pool/device")
    return driver, pool, device
