"""Explanations: the outcome is always that of a match, and the parts tell what decided."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.environment import new_expressions, stored_expressions
from drabridge.core.cel.explain import Explanation, Failure, Part, State, explain, instrument
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
    return [*{_key(case): case for case in found}.values()]  # some are in several tables, and some take seconds


def _key(case: Case) -> str:
    return json.dumps([case["expression"], case["device"], case.get("newExpressions")], sort_keys=True)


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


@pytest.mark.unmeasured
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


def told(part: Part, depth: int = 0) -> list[str]:
    """An explanation as indented lines: `text -> value`, `text ! error`, `text (not evaluated)`."""
    marks = {State.FAILED: f" ! {part.shown}", State.NOT_EVALUATED: " (not evaluated)"}
    lines = ["  " * depth + part.text + marks.get(part.state, f" -> {part.shown}")]
    for inner in part.parts:
        lines += told(inner, depth + 1)
    if part.rounds:
        lines.append("  " * (depth + 1) + f"{part.rounds.count} rounds{', decided' if part.rounds.decided else ''}")
        for each in part.rounds.shown:
            names = ", ".join(f"{name} = {value}" for name, value in each.variables)
            lines.append("  " * (depth + 2) + f"#{each.position} {names}")
            for inner in each.parts:
                lines += told(inner, depth + 3)
    return lines


def explained(expression: str) -> Explanation:
    return explain(compile_selector(expression), VIEW)


A = f"device.attributes['{DRIVER}']"
NICS = f"{A}.nics"
NICS_VALUE = '["n0", "n1", "n2", "n3"]'

TOLD = {
    "what comes after a decision is not evaluated": (
        f"device.driver == 'x' && {A}.index == 2",
        [
            f"device.driver == 'x' && {A}.index == 2 -> false",
            "  device.driver == 'x' -> false",
            '    device.driver -> "gpu.example.com"',
            f"  {A}.index == 2 (not evaluated)",
        ],
    ),
    "a chain is one level, however its tree is balanced": (
        "true && dyn(1) == 1 && dyn(2) == 2 && dyn(3) == 3",
        [
            "true && dyn(1) == 1 && dyn(2) == 2 && dyn(3) == 3 -> true",
            "  dyn(1) == 1 -> true",
            "    dyn(1) -> 1",
            "  dyn(2) == 2 -> true",
            "    dyn(2) -> 2",
            "  dyn(3) == 3 -> true",
            "    dyn(3) -> 3",
        ],
    ),
    "an error that is absorbed is shown, and how far it came": (
        f"{A}.nope == 1 || {A}.index == 2",
        [
            f"{A}.nope == 1 || {A}.index == 2 -> true",
            f"  {A}.nope == 1 ! no such key: nope",
            f"    {A}.nope ! no such key: nope",
            f'      {A} -> {{"model": "a100", "index": 2, "nics": {NICS_VALUE}}}',
            f"  {A}.index == 2 -> true",
            f"    {A}.index -> 2",
        ],
    ),
    "exists() shows the element that decided": (
        f"{NICS}.exists(n, n == 'n1')",
        [
            f"{NICS}.exists(n, n == 'n1') -> true",
            f"  {NICS} -> {NICS_VALUE}",
            "  2 rounds, decided",
            '    #1 n = "n1"',
            "      n == 'n1' -> true",
        ],
    ),
    "all() shows the element that it is not true of": (
        f"{NICS}.all(n, n.endsWith('0'))",
        [
            f"{NICS}.all(n, n.endsWith('0')) -> false",
            f"  {NICS} -> {NICS_VALUE}",
            "  2 rounds, decided",
            '    #1 n = "n1"',
            "      n.endsWith('0') -> false",
        ],
    ),
    "where none decides, the first few elements are examples": (
        f"{NICS}.exists(n, n == 'x')",
        [
            f"{NICS}.exists(n, n == 'x') -> false",
            f"  {NICS} -> {NICS_VALUE}",
            "  4 rounds",
            '    #0 n = "n0"',
            "      n == 'x' -> false",
            '    #1 n = "n1"',
            "      n == 'x' -> false",
            '    #2 n = "n2"',
            "      n == 'x' -> false",
        ],
    ),
    "an element that fails is the one that is shown": (
        "[2, 1, 0].map(x, 2 / x).size() == 3",
        [
            "[2, 1, 0].map(x, 2 / x).size() == 3 ! division by zero",
            "  [2, 1, 0].map(x, 2 / x).size() ! division by zero",
            "    [2, 1, 0].map(x, 2 / x) ! division by zero",
            "      3 rounds, decided",
            "        #2 x = 0",
            "          2 / x ! division by zero",
        ],
    ),
    "loops in loops": (
        "[1, 2].exists(x, [3, 4].exists(y, x * y == 8))",
        [
            "[1, 2].exists(x, [3, 4].exists(y, x * y == 8)) -> true",
            "  2 rounds, decided",
            "    #1 x = 2",
            "      [3, 4].exists(y, x * y == 8) -> true",
            "        2 rounds, decided",
            "          #1 y = 4",
            "            x * y == 8 -> true",
            "              x * y -> 8",
        ],
    ),
    "two variables": (
        "['a', 'b'].all(i, v, i < 1 || v == 'b')",
        [
            "['a', 'b'].all(i, v, i < 1 || v == 'b') -> true",
            "  2 rounds",
            '    #0 i = 0, v = "a"',
            "      i < 1 || v == 'b' -> true",
            "        i < 1 -> true",
            "        v == 'b' (not evaluated)",
            '    #1 i = 1, v = "b"',
            "      i < 1 || v == 'b' -> true",
            "        i < 1 -> false",
            "        v == 'b' -> true",
        ],
    ),
    "what cel.bind() binds is told where it stands, though it is evaluated in a loop": (
        f"cel.bind(n, {A}.index, [1, 2].exists(x, x == n))",
        [
            f"cel.bind(n, {A}.index, [1, 2].exists(x, x == n)) -> true",
            f"  {A}.index -> 2",
            "  [1, 2].exists(x, x == n) -> true",
            "    2 rounds, decided",
            "      #1 x = 2",
            "        x == n -> true",
        ],
    ),
    "what cel.bind() binds for nothing is not evaluated": (
        f"cel.bind(n, {A}.index, true)",
        [f"cel.bind(n, {A}.index, true) -> true", f"  {A}.index (not evaluated)"],
    ),
    "a list that grows is told as it was": (
        "cel.bind(x, [], (x + [1]).size() == 1 && (x + [2]).size() == 2)",
        [
            "cel.bind(x, [], (x + [1]).size() == 1 && (x + [2]).size() == 2) -> true",
            "  (x + [1]).size() == 1 && (x + [2]).size() == 2 -> true",
            "    (x + [1]).size() == 1 -> true",
            "      (x + [1]).size() -> 1",
            "        (x + [1]) -> [1]",
            "    (x + [2]).size() == 2 -> true",
            "      (x + [2]).size() -> 2",
            "        (x + [2]) -> [1, 2]",
        ],
    ),
    "a macro is told as it is written, and sortBy's loop belongs to it": (
        f"{NICS}.sortBy(n, n.size())[0] == 'n0'",
        [
            f"{NICS}.sortBy(n, n.size())[0] == 'n0' -> true",
            f'  {NICS}.sortBy(n, n.size())[0] -> "n0"',
            f"    {NICS}.sortBy(n, n.size()) -> {NICS_VALUE}",
            f"      {NICS} -> {NICS_VALUE}",
            "      4 rounds",
            *(line for i in range(3) for line in (f'        #{i} n = "n{i}"', "          n.size() -> 2")),
        ],
    ),
    "optMap() is told with what it maps": (
        f"device.attributes[?'{DRIVER}'].?model.optMap(m, m + 'é').orValue('') == 'a100é'",
        [
            f"device.attributes[?'{DRIVER}'].?model.optMap(m, m + 'é').orValue('') == 'a100é' -> true",
            f"  device.attributes[?'{DRIVER}'].?model.optMap(m, m + 'é').orValue('') -> \"a100é\"",
            f"    device.attributes[?'{DRIVER}'].?model.optMap(m, m + 'é') -> optional.of(\"a100é\")",
            f"      device.attributes[?'{DRIVER}'].?model -> optional.of(\"a100\")",
            "      m + 'é' -> \"a100é\"",
        ],
    ),
    "the branch that was not taken": (
        f"(device.driver == '' ? {A}.model : device.driver) == ''",
        [
            f"(device.driver == '' ? {A}.model : device.driver) == '' -> false",
            f"  (device.driver == '' ? {A}.model : device.driver) -> \"gpu.example.com\"",
            "    device.driver == '' -> false",
            '      device.driver -> "gpu.example.com"',
            f"    {A}.model (not evaluated)",
            '    device.driver -> "gpu.example.com"',
        ],
    ),
    "a selection behind a choice belongs to both branches, which have no value of their own": (
        f"(device.driver == '' ? {{'index': 1}} : {A}).index == 2",
        [
            f"(device.driver == '' ? {{'index': 1}} : {A}).index == 2 -> true",
            f"  (device.driver == '' ? {{'index': 1}} : {A}).index -> 2",
            "    device.driver == '' -> false",
            '      device.driver -> "gpu.example.com"',
            "    {'index': 1} (not evaluated)",
        ],
    ),
    "an index that is looked up": (
        f"{{'a100': true}}[{A}.model]",
        [f"{{'a100': true}}[{A}.model] -> true", f'  {A}.model -> "a100"'],
    ),
    "constants that say themselves are left out, others are not": (
        "quantity('10Gi').add(1).isInteger() && has(device.attributes['x'].y)",
        [
            "quantity('10Gi').add(1).isInteger() && has(device.attributes['x'].y) -> false",
            "  quantity('10Gi').add(1).isInteger() -> true",
            "    quantity('10Gi').add(1) -> quantity(\"10737418241\")",
            "  has(device.attributes['x'].y) -> false",
        ],
    ),
    "brackets, blanks and signs belong to what they stand around": (
        "!  ( dyn(1) ==\n 1 ) || - dyn(1) == --1 - 2",
        [
            "!  ( dyn(1) ==\n 1 ) || - dyn(1) == --1 - 2 -> true",
            "  !  ( dyn(1) ==\n 1 ) -> false",
            "    ( dyn(1) ==\n 1 ) -> true",
            "      dyn(1) -> 1",
            "  - dyn(1) == --1 - 2 -> true",
            "    - dyn(1) -> -1",
            "      dyn(1) -> 1",
            "    --1 - 2 -> -1",
        ],
    ),
    "offsets count code points": (
        "'😀é' + device.driver == '😀é' && 'ß'.size() == 2",
        [
            "'😀é' + device.driver == '😀é' && 'ß'.size() == 2 -> false",
            "  '😀é' + device.driver == '😀é' -> false",
            "    '😀é' + device.driver -> \"😀égpu.example.com\"",
            '      device.driver -> "gpu.example.com"',
            "  'ß'.size() == 2 (not evaluated)",
        ],
    ),
    "a message and a list of optionals": (
        "[?optional.none(), google.protobuf.Int32Value{value: int(device.driver.size())}].size() == 1",
        [
            "[?optional.none(), google.protobuf.Int32Value{value: int(device.driver.size())}].size() == 1 -> true",
            "  [?optional.none(), google.protobuf.Int32Value{value: int(device.driver.size())}].size() -> 1",
            "    [?optional.none(), google.protobuf.Int32Value{value: int(device.driver.size())}] -> [15]",
            "      google.protobuf.Int32Value{value: int(device.driver.size())} -> 15",
            "        int(device.driver.size()) -> 15",
            "          device.driver.size() -> 15",
            '            device.driver -> "gpu.example.com"',
        ],
    ),
}


@pytest.mark.parametrize(("expression", "lines"), TOLD.values(), ids=TOLD)
def test_an_explanation_tells(expression: str, lines: list[str]) -> None:
    assert told(explained(expression).root) == lines


DECIDING = {
    "the first false term": ("true && dyn(1) == 2 && dyn(2) == 3", "dyn(1) == 2"),
    "within a term that is a chain itself": ("dyn(true) && (dyn(true) && dyn(1) == 2)", "dyn(1) == 2"),
    "a choice of terms, none of which is true": (
        "dyn(true) && (dyn(1) == 2 || dyn(1) == 3)",
        "(dyn(1) == 2 || dyn(1) == 3)",
    ),
    "the whole, if it is one": ("dyn(1) == 2", "dyn(1) == 2"),
    "the whole, if it is true": ("dyn(1) == 1 && dyn(2) == 2", "dyn(1) == 1 && dyn(2) == 2"),
}


@pytest.mark.parametrize(("expression", "text"), DECIDING.values(), ids=DECIDING)
def test_what_decided_is(expression: str, text: str) -> None:
    assert explained(expression).deciding().text == text


def test_a_loop_of_many_rounds_is_a_few_lines() -> None:
    body = "[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map({0}, {1}).size() == 10"
    explanation = explained(body.format("a", body.format("b", body.format("c", "a + b + c < 30"))))
    assert explanation.outcome == explained(explanation.expression).outcome
    assert len(told(explanation.root)) < 200


def test_an_evaluation_that_is_stopped_tells_how_far_it_came() -> None:
    selector = compile_selector(f"{NICS}.all(n, n.startsWith('n'))")
    explanation = explain(selector, VIEW, limit=13)
    assert explanation.outcome == Failure("operation cancelled: actual cost limit exceeded", 14)
    assert explanation.root.state is State.FAILED
    assert explanation.root.rounds is not None
    assert explanation.root.rounds.count == 2
    assert not explanation.root.rounds.decided
    assert explanation.root.rounds.shown[0].position == 1


DEEP = {
    "sums, told in parts": ("dyn(1)" + " + 1" * 240 + " == 241", True),
    "indices, too deep for that": ("[0][" * 240 + "0" + "]" * 240 + " == 0", False),
    "failing, too deep for that": ("[0][" * 240 + "1" + "]" * 240 + " == 0", False),
}


@pytest.mark.parametrize(("expression", "whole"), DEEP.values(), ids=DEEP)
def test_deep_expressions_have_an_outcome(expression: str, whole: bool) -> None:
    selector = compile_selector(expression)
    explanation = explain(selector, VIEW)
    assert explanation.outcome == matched(selector, VIEW)
    assert explanation.whole is whole
    assert explanation.root.text == expression


def test_one_instrumented_selector_serves_many_devices() -> None:
    instrumented = instrument(compile_selector("device.driver == 'a' || device.driver == 'b'"))
    states = [[part.state for part in instrumented.explain(DeviceView.of(name, {})).root.parts] for name in "abc"]
    assert states == [
        [State.TRUE, State.NOT_EVALUATED],
        [State.FALSE, State.TRUE],
        [State.FALSE, State.FALSE],
    ]
