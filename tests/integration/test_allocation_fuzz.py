"""Our allocator and upstream's must not differ; `make fuzz` asks about a hundred times as many scenarios."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocation_fuzz import WAYS, run

pytestmark = pytest.mark.unmeasured

SEED = 1
COUNT = 1_000
NEVER_TOO_LONG = ("as it is", "plainly", "model")


def test_a_thousand_random_scenarios_are_answered_as_upstream_does(controlplane_binary: Path, tmp_path: Path) -> None:
    findings = run(SEED, range(COUNT), tmp_path)
    assert [f"{kind}: {tmp_path}" for kind in findings.kinds] == []
    assert findings.count >= COUNT
    # The scenarios are worth something only if there is something of everything.
    assert set(findings.outcomes) >= {"fit", "no fit", "error"}
    assert findings.outcomes["fit"] > COUNT / 8
    assert set(findings.answered) == {*WAYS, "model"}
    assert all(findings.answered[way] > COUNT / 2 for way in NEVER_TOO_LONG)
