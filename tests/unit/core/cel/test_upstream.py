"""Upstream's own answers, case by case: outcome, text of the error and cost, by the function and by walking the plan.

The data are answers of k8s.io/dynamic-resource-allocation/cel v0.37.2: `cel_corpus.json` in the environment of stored
expressions, `cel_cases_upstream.json` in that which each case names,
`standard_cases.json` goes through the standard library and `fuzz_cases.json` holds what random expressions found.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drabridge.core.cel import cost
from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.environment import Environment, new_expressions, stored_expressions
from drabridge.core.cel.selector import HINT, CompileError, SelectorError, compile_selector

pytestmark = pytest.mark.unmeasured

Case = dict[str, Any]

DATA = Path(__file__).parents[3] / "data"
TABLES = [Path(__file__).with_name(name) for name in ("standard_cases.json", "fuzz_cases.json")]

ORDER_OF_MAPS = {"presence/device.attributes['gpu.nvidia.com'].exists(k, k == 'type')"}
"""Cases whose cost depends on the order in which Go happened to go through a map."""


def _cases() -> list[tuple[str, Case]]:
    found: list[tuple[str, Case]] = []
    for name in ("cel_corpus", "cel_cases_upstream"):
        found += [(f"{name}: {case['name']}", case) for case in json.loads((DATA / f"{name}.json").read_text())]
    for table in TABLES:
        for kind, cases in json.loads(table.read_text()).items():
            found += [(f"{kind}: {case['expression']}", case) for case in cases]
    return found


CASES = _cases()


def environment(case: Case) -> Environment:
    if not case.get("newExpressions"):
        return stored_expressions()
    gates = [case.get(name) is not False for name in ("enableConsumableCapacity", "enableListTypeAttributes")]
    return new_expressions(consumable_capacity=gates[0], list_attributes=gates[1])


def answer(case: Case, *, compiled: bool) -> Case:
    """Our answer in the shape of the truth."""
    try:
        selector = compile_selector(case["expression"], environment(case))
    except CompileError as error:
        return {"compileError": str(error)}
    try:
        view = DeviceView.of(case["driver"], case["device"])
        match = selector.matches(view) if compiled else selector.walk(view, cost.LIMIT, None)
    except BadDevice as error:
        return {"matchError": str(error)}
    except SelectorError as error:
        return {"matchError": str(error).removesuffix(HINT), "actualCost": error.cost}
    return {"match": match.matched, "actualCost": match.cost}


def expected(case: Case) -> Case:
    truth = case["truth"]
    if "compileError" in truth:
        return {"compileError": truth["compileError"]}
    keys = ["matchError" if "matchError" in truth else "match"]
    if case.get("name") not in ORDER_OF_MAPS:
        keys.append("actualCost")
    return {key: truth[key] for key in keys if key in truth}


@pytest.mark.parametrize("compiled", [True, False], ids=["by function", "by walking"])
@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[f"{i} {name}" for i, (name, _) in enumerate(CASES)])
def test_the_answer_is_upstreams(case: Case, compiled: bool) -> None:
    ours, theirs = answer(case, compiled=compiled), expected(case)
    assert {key: value for key, value in ours.items() if key in theirs} == theirs


def test_real_expressions_have_functions() -> None:
    """Walking the plan is for errors; the expressions of real DeviceClasses must not need it."""
    real = [case["expression"] for name, case in CASES if name.startswith("cel_corpus: real/")]
    assert len(real) > 10
    assert [expression for expression in real if not compile_selector(expression).has_function] == []
