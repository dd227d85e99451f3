"""The oracle is upstream's own code, and the data files are its answers: the one must reproduce the others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from upstream.cel import Answer, Environment, Oracle, Question

pytestmark = pytest.mark.unmeasured

DATA = Path(__file__).parents[1] / "data"
CASES: dict[str, dict[str, Any]] = {
    f"{file}: {number} {case['name']}": case
    for file in ("cel_corpus", "cel_cases_upstream")
    for number, case in enumerate(json.loads((DATA / f"{file}.json").read_text()))
}

ENDS_EARLY_IN_A_MAP = re.compile(r"\bdevice\.(attributes|capacity)(\[[^]]*])?\.(exists|all)\(")
"""Go gives a map's keys in an order that is new each time: what a loop costs that ends early is a matter of luck."""


@pytest.fixture(scope="module")
def oracle(controlplane_binary: Path) -> Iterator[Oracle]:
    with Oracle(controlplane_binary) as oracle:
        yield oracle


def recorded(truth: dict[str, Any]) -> Answer:
    if "compileError" in truth:
        return Answer(None, truth["compileError"], "compile")
    if "matchError" in truth:
        return Answer(None, truth["matchError"], "runtime", truth.get("actualCost"))
    return Answer(truth["match"], cost=truth["actualCost"])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_oracle_says_what_is_recorded(oracle: Oracle, case: dict[str, Any]) -> None:
    question = Question(case["name"], case["expression"], case["driver"], case["device"], Environment.of(case))
    if ENDS_EARLY_IN_A_MAP.search(case["expression"]):
        assert recorded(case["truth"]) in (oracle.ask(question) for _ in range(500))
    else:
        assert oracle.ask(question) == recorded(case["truth"])


def test_an_answer_comes_before_the_next_question(oracle: Oracle) -> None:
    for number in range(3):
        assert oracle.ask(Question(str(number), f"{number} == 1", "", {})).match == (number == 1)
