"""One scenario of the JSON-lines format -> one answer of the same format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drabridge.core.allocation.techniques import STEP_BUDGET, Techniques
from drabridge.core.allocation.upstream_faults import UpstreamFaults


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
    raise NotImplementedError
