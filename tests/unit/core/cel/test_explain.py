"""Explanations: the outcome is always that of a match, and the parts tell what decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.environment import new_expressions, stored_expressions
from drabridge.core.cel.explain import Failure, Part, State, explain
from drabridge.core.cel.selector import CompileError, Match, Selector, SelectorError, compile_selector

Case = dict[str, Any]

DATA = Path(__file__).parents[3] / "data"
TABLES = [Path(__file__).with_name(name) for name in ("standard_cases.json", "fuzz_cases.json")]
DRIVER = "gpu.example.com"
VIEW = DeviceView.of(
    DRIVER,
    {
        "attributes": {"model": {"string": "a100"}, "index": {"int": 2}, "nics": {"strings": ["n0", "n1", "n2", "n3"]}},
        "capacity": {"memory": {"value": "40Gi"}},
    },
)


def cases() -> list[Case]:
    found: list[Case] = []
    for name in ("cel_corpus", "cel_cases_upstream"):
        found += json.loads((DATA / f"{name}.json").read_text())
    for table in TABLES:
        for kind in json.loads(table.read_text()).values():
            found += kind
    return found


def compiled(case: Case) -> tuple[Selector, DeviceView] | None:
    environment = stored_expressions()
    if case.get("newExpressions"):
        environment = new_expressions(
            consumable_capacity=case.get("enableConsumableCapacity") is not False,
            list_attributes=case.get("enableListTypeAttributes") is not False,
        )
    try:
        return compile_selector(case["expression"], environment), DeviceView.of(case["driver"], case["device"])
    except (CompileError, BadDevice):
        return None


def matched(selector: Selector, view: DeviceView) -> Match | Failure:
    try:
        return selector.matches(view)
    except SelectorError as error:
        return Failure(str(error), error.cost)


def everything(part: Part) -> list[Part]:
    below = [*part.parts, *(inner for each in (part.rounds.shown if part.rounds else ()) for inner in each.parts)]
    return [part, *(each for inner in below for each in everything(inner))]


CASES = [pair for case in cases() if (pair := compiled(case)) is not None]


@pytest.mark.parametrize(("selector", "view"), CASES, ids=[f"{i} {s.expression}" for i, (s, _) in enumerate(CASES)])
def test_the_outcome_is_that_of_a_match_and_every_part_is_a_piece_of_the_source(
    selector: Selector, view: DeviceView
) -> None:
    explanation = explain(selector, view)
    assert explanation.outcome == matched(selector, view)
    for part in everything(explanation.root):
        assert part.text == selector.expression[part.start : part.end]
        assert part.text == part.text.strip()
        assert part.text.count("(") == part.text.count(")") or "'" in part.text or '"' in part.text
        assert (part.shown == "") == (part.state is State.NOT_EVALUATED)
        assert part.state is State.FAILED or len(part.shown) <= 100
        assert part.cost <= explanation.outcome.cost
