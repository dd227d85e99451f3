"""The shapes that are trouble for a plain search: what comes of them, and in how few steps."""

from __future__ import annotations

import dataclasses

import pytest

from allocation_shapes import Shape, shapes
from drabridge.core.allocation.scenario import answer
from drabridge.core.allocation.techniques import STEP_BUDGET, Techniques

SHAPES = {name: shape for name, shape in shapes().items() if name != "5,000 nodes, one asked"}

ENDS_IN_AN_ERROR = "16 of 30, then All with a broken constraint"

SINGLY = {
    f"without {field.name}": dataclasses.replace(Techniques(), **{field.name: False})
    for field in dataclasses.fields(Techniques)
}

SMALL = {name: shape for name, shape in SHAPES.items() if "," not in name or "0" not in name}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_decided_in_few_steps(name: str) -> None:
    shape = SHAPES[name]
    found = answer(shape.scenario, strict=False)
    assert (found["results"] is not None) == shape.fits
    if name == ENDS_IN_AN_ERROR:
        assert found["error"].endswith("because a claim constraint would not be satisfied")
    else:
        assert found["error"] is None
        assert found["allocateOneInvocations"] <= shape.steps


@pytest.mark.parametrize("techniques", SINGLY.values(), ids=SINGLY)
@pytest.mark.parametrize("shape", SMALL.values(), ids=SMALL)
def test_no_shape_hangs_on_a_single_technique_too_long_or_changes(shape: Shape, techniques: Techniques) -> None:
    found = answer(shape.scenario, strict=False, techniques=techniques, budget=STEP_BUDGET // 5)
    if not (found["error"] or "").startswith("filter operation aborted"):
        assert (found["results"] is not None) == shape.fits


def test_a_search_that_is_too_long_ends_undecided() -> None:
    shape = SHAPES["21 of 20"]
    found = answer(shape.scenario, techniques=Techniques.none(), budget=1000)
    assert found["error"] == "filter operation aborted: not decided within 1000 steps"
    assert found["allocateOneInvocations"] == 1001
    assert found["results"] is None
