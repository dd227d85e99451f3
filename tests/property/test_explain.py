"""Whatever the expression, its explanation ends as the match does, and speaks of pieces of its text."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

from cel_engine import names
from cel_grammar import cases
from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.explain import Explanation, Failure, explain
from drabridge.core.cel.selector import CompileError, Match, Selector, SelectorError, compile_selector

REAL = json.loads((Path(__file__).parents[1] / "data" / "cel_corpus.json").read_text())
SEED = 20261201
COUNT = 1500


def matched(selector: Selector, view: DeviceView) -> Match | Failure:
    try:
        return selector.matches(view)
    except SelectorError as error:
        return Failure(str(error), error.cost)


def check_places(explanation: Explanation) -> None:
    pending = [explanation.root]
    while pending:
        part = pending.pop()
        assert part.text == explanation.expression[part.start : part.end]
        pending += part.parts
        pending += [inner for each in (part.rounds.shown if part.rounds else ()) for inner in each.parts]


def test_random_expressions_are_explained_as_they_match() -> None:
    evaluated = 0
    for case in itertools.islice(cases(SEED, REAL), COUNT):
        try:
            selector = compile_selector(case.expression, names(case.environment))
            view = DeviceView.of(case.driver, case.device)
        except (CompileError, BadDevice):
            continue
        explanation = explain(selector, view)
        assert explanation.outcome == matched(selector, view), case.expression
        check_places(explanation)
        evaluated += 1
    assert evaluated > COUNT / 2
