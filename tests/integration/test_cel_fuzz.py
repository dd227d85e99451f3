"""Random selectors: ours and upstream's CEL must agree. `make fuzz` asks about fifty times as many."""

from __future__ import annotations

from pathlib import Path

import pytest

import cel_fuzz

pytestmark = pytest.mark.unmeasured

SEED = 5
CASES = 2_000


def test_random_selectors_have_upstreams_outcome(controlplane_binary: Path) -> None:
    found = cel_fuzz.run(controlplane_binary, SEED, CASES)
    assert found.json()["kinds"] == []
    assert found.count == CASES
    assert min(found.outcomes[outcome] for outcome in ("true", "false", "compile", "runtime")) > CASES / 10
