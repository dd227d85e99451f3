"""The function of an expression: it agrees with the plan, and nothing of the expression gets into its source."""

from __future__ import annotations

import builtins
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drabridge.core.cel import compiler, cost
from drabridge.core.cel.checker import check
from drabridge.core.cel.compiler import compile_plan
from drabridge.core.cel.device import DeviceView
from drabridge.core.cel.diagnostics import SourceError
from drabridge.core.cel.environment import stored_expressions
from drabridge.core.cel.parser import parse
from drabridge.core.cel.plan import Halted
from drabridge.core.cel.planner import plan
from drabridge.core.cel.values import CelError

VIEW = DeviceView.of(
    "d",
    {
        "attributes": {
            "s": {"string": "text"}, "e": {"string": ""}, "i": {"int": 2}, "b": {"bool": True},
            "l": {"ints": [1, 2, 3]}, "n": {"strings": []}, "v": {"version": "1.2.3"},
        },
        "capacity": {"m": {"value": "1Gi"}},
    },
)  # fmt: skip

A = "device.attributes['d']"

VALUES = {
    "text against a constant": f"{A}.s == 'text'",
    "a constant against text": f"'longer than that' == {A}.s",
    "text against nothing": f"{A}.e == ''",
    "text that differs": f"{A}.s != 'other'",
    "a known text": "device.driver != 'd'",
    "a number against text": f"{A}.i == 'x'",
    "text against a number": f"{A}.s == 1",
    "a bool": f"{A}.b == true",
    "a bool against a number": f"{A}.b == 1",
    "a list against a number": f"{A}.n == 1",
    "lists": f"{A}.l == [1, 2, 3]",
    "scalars": f"{A}.l.size() == {A}.i + 1",
    "doubles": f"double({A}.i) == 2.0",
    "numbers of two types": f"{A}.i == 2u && dyn(2.0) == {A}.i",
    "comparisons of text": "device.driver < 'e'",
    "comparisons of dyn": f"{A}.i >= 2 && {A}.i < 2.5",
    "comparisons of integers": f"size({A}.s) > 3",
    "arithmetic": f"({A}.i * 3 - 1) % 4 == 1 && -{A}.i < 0",
    "&& and ||": f"({A}.b || {A}.i == 3) && ({A}.i == 3 || {A}.b)",
    "&& in an argument": f"dyn({A}.b && {A}.i == 3) == false",
    "ternaries": f"({A}.b ? {A}.s : 'x') == 'text'",
    "steps behind a ternary": f"({A}.b ? {A} : device.attributes['e']).s == 'text'",
    "a test in a ternary": f"{A}.b ? has({A}.s) : false",
    "has()": f"has({A}.s) && !has({A}.x) && has(device.attributes.x)",
    "optional steps": f"{A}.?s.orValue('x') == 'text' && {A}.?x.orValue('y') == 'y'",
    "optional steps behind optional ones": "device.attributes.?d.s.hasValue()",
    "or()": f"{A}.?x.or({A}.?s).value() == 'text'",
    "optionals of dyn": "dyn(optional.of({'a': 1})).a == optional.of(1)",
    "an index that is computed": f"{A}.l[{A}.i] == 3 && device.attributes[device.driver].i == 2",
    "an index of a list by a constant": f"{A}.l[0] == 1",
    "membership in constants": f"{A}.i in [1, 2] && device.driver in ['d'] && !({A}.b in [1])",
    "membership in values": f"2 in {A}.l && 's' in {A}",
    "lists that are made": f"[{A}.i, 1].size() == 2 && [?{A}.?x, ?{A}.?i].size() == 1",
    "maps that are made": f"{{'a': {A}.i, ?'b': {A}.?x}} == {{'a': 2}}",
    "messages": f"google.protobuf.Duration{{seconds: {A}.l.size()}} == duration('3s')",
    "exists()": f"{A}.l.exists(x, x == 3)",
    "all() that ends early": f"{A}.l.all(x, x < 2)",
    "exists_one()": f"{A}.l.exists_one(x, x > 2)",
    "map() and filter()": f"{A}.l.filter(x, x > 1).map(x, x * 2) == [4, 6]",
    "loops in loops": f"{A}.l.all(x, {A}.l.exists(y, y == x))",
    "two variables": f"{A}.l.transformMap(i, x, x > 1, i + x) == {{1: 3, 2: 5}}",
    "entries": "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
    "maps in loops": f"{A}.exists(k, v, k == 'i' && v == 2)",
    "a bound name": f"cel.bind(x, {A}.i, x + x == 4)",
    "a bound name that may not be needed": f"cel.bind(x, {A}.i, {A}.b || x == 1)",
    "a bound list that grows": "cel.bind(x, [], x + [1] == x + [2])",
    "optMap()": f"{A}.?i.optMap(x, x + 1).value() == 3",
    "quantities": "device.capacity['d'].m.compareTo(quantity('1Mi')) > 0",
    "quantities by ==": "device.capacity['d'].m == quantity('1024Mi')",
    "versions": f"{A}.v.isLessThan(semver('2.0.0')) && {A}.v != 'x'",
    "types": f"type({A}.i) == int",
    "patterns": f"{A}.s.matches('^t.x') && {A}.s.find('e.') == 'ex'",
    "an absorbed error": f"{A}.x == 1 || {A}.b",
    "an error": f"{A}.x == 1",
    "an error in a loop": f"{A}.l.all(x, 6 / (x - 2) > 0)",
    "a wrong operand of &&": f"{A}.b && {A}.i",
    "a wrong condition": f"{A}.i ? true : false",
    "a text as an answer": f"{A}.s",
}


def both(expression: str) -> tuple[Any, Any, bool]:
    """Return what the plan says, what the function says (None if it passes), and whether there is a function."""
    planned = plan(check(parse(expression), stored_expressions()), stored_expressions())
    walked = planned.evaluate(VIEW.fields, cost.LIMIT, None)
    function = compile_plan(planned)
    if function is None:
        return walked, None, False
    try:
        return walked, function(VIEW.fields, cost.LIMIT, None), True
    except Halted:
        raise
    except Exception:
        return walked, None, True


@pytest.mark.parametrize("expression", VALUES.values(), ids=VALUES)
def test_function_and_plan_agree(expression: str) -> None:
    walked, computed, _ = both(expression)
    if computed is None:
        computed = walked
    elif isinstance(walked[0], CelError):
        pytest.fail(f"the function gave {computed} where the plan failed")
    assert (computed, computed[0].__class__) == (walked, walked[0].__class__)


WITHOUT_A_FUNCTION = {"a bound name that may not be needed"}


@pytest.mark.parametrize("sentence", VALUES)
def test_there_is_a_function(sentence: str) -> None:
    assert both(VALUES[sentence])[2] is (sentence not in WITHOUT_A_FUNCTION)


_ALLOWED = re.compile(
    r"""(?: \s | \d+ | [cdn] | [vtk]\d+ | [-+%<>=!()\[\],.:] | limit | interrupt | compiled
    | def | return | if | else | or | for | in | is | not | break | True | False | None
    | len | str | int | bool | __class__ | present | value )""",
    re.VERBOSE,
)
_WORDS = re.compile(r"[A-Za-z_]\w*|\d+|\S")


def sources(monkeypatch: pytest.MonkeyPatch, expression: str) -> list[str]:
    """Compile an expression and return the sources that Python was given."""
    seen: list[str] = []

    def compile_(source: str, *rest: Any) -> Any:
        seen.append(source)
        return builtins.compile(source, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(compiler, "compile", compile_, raising=False)
        compile_plan(plan(check(parse(expression), stored_expressions()), stored_expressions()))
    return seen


HOSTILE = {
    "quotes": r"""device.driver == "' + __import__('os').system('x') + '" """,
    "names of fields": "device.attributes['d'].__class__ == 'x'",
    "names in backticks": "device.attributes['d'].`a b` == 'x'",
    "names of variables": "[1].all(__import__, __import__ == 1)",
    "line ends": r"device.driver == '\n import os'",
    "keys": r"{'a\nb': [1, 2]}['a\nb'] == [3]",
    "numbers": "[123456789, -5, 0x7f].exists(limit, limit == 987654321)",
    "doubles": "dyn(1e300) == 2.5",
    "messages": "google.protobuf.Duration{seconds: device.driver.size()} == duration('77s')",
}


def foreign(source: str) -> list[str]:
    """What is in the source besides fixed words, numbers and numbered names."""
    known = set(compiler._GLOBALS)
    return [word for word in _WORDS.findall(source) if word not in known and not _ALLOWED.fullmatch(word)]


@pytest.mark.parametrize("expression", HOSTILE.values(), ids=HOSTILE)
def test_the_source_has_fixed_words_and_numbered_names_only(monkeypatch: pytest.MonkeyPatch, expression: str) -> None:
    (source,) = sources(monkeypatch, expression)
    assert foreign(source) == []


def literal(text: str) -> str:
    """A text in single quotes; what can stand there as it is does."""
    return "'" + "".join(f"\\U{ord(c):08x}" if c in "'\\\n\r\0" else c for c in text) + "'"


NASTY = (
    "'", '"', "\\", "\n", "\r", "\0", "\t", "\u2028", "\ufeff", "é", "日", "#", "{", "}", "(", ")", ";", ",", "`", "$",
    "%s", "{0}", "\\N{BULLET}", "\'\'\'", '"""', "__import__('os')", "__class__", "__builtins__", "exec", "import os",
    "lambda: 0",
)  # fmt: skip
TEXTS = (
    st.lists(st.sampled_from(NASTY) | st.characters(exclude_categories=["Cs"]), max_size=6).map("".join).map(literal)
)
NAMES = st.sampled_from(
    ("__import__", "__class__", "__builtins__", "exec", "eval", "print", "compiled", "limit", "interrupt", "d", "c",
     "n", "t1", "v0", "k20", "begin", "walk", "tick", "Unfinished", "lambda", "def", "None", "self", "x_" * 40)
)  # fmt: skip
NUMBERS = st.integers(10**12, 2**63 - 1).map(str)
TEMPLATES = (
    "device.attributes[T][T] == T || device.driver == T",
    "device.attributes.N.N == T && has(device.capacity.N.N)",
    "[T, device.driver].exists(N, N == T) || [I].all(N, N == I)",
    "cel.bind(N, device.driver, N + T == T)",
    "{T: I, device.driver: I}[T] == I",
    "device.attributes[?T][?T].optMap(N, N == T).orValue(false)",
    "[device.driver].map(N, N + T).join(T) == T",
    "device.attributes[T].exists(N, x, N == T && x == I)",
    "device.driver.matches(device.driver + T) || device.driver.startsWith(T)",
    "'%s %d'.format([device.driver + T, I]) == T",
    "google.protobuf.StringValue{value: device.driver + T} == T",
    "device.attributes[T].`a b/c.d-e`[T].N[I] == I",
)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_nothing_breaks_out_into_the_source(data: st.DataObject) -> None:
    kinds = {"T": TEXTS, "N": NAMES, "I": NUMBERS}
    drawn: list[str] = []

    def fill(hole: re.Match[str]) -> str:
        drawn.append(data.draw(kinds[hole[0]]))
        return drawn[-1]

    expression = re.sub(r"\b[TNI]\b", fill, data.draw(st.sampled_from(TEMPLATES)))
    try:
        check(parse(expression), stored_expressions())
    except SourceError:
        return
    with pytest.MonkeyPatch.context() as patch:
        seen = sources(patch, expression)
    for source in seen:
        assert foreign(source) == []
        assert not re.search(r"\d{12}", source)


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), st.integers(-(2**63), 2**63 - 1))
def test_constants_never_show_in_the_source(text: str, number: int) -> None:
    escaped = "".join(f"\\U{ord(char):08x}" for char in text)
    expression = f"device.attributes['{escaped}x']['{escaped}'] == '{escaped}' || [{number}].exists(x, x == {number})"
    with pytest.MonkeyPatch.context() as patch:
        (source,) = sources(patch, expression)
        (other,) = sources(patch, "device.attributes['ax']['a'] == 'a' || [1].exists(x, x == 1)")
    lengths = re.compile(r"c \+= \d+ if len\(t\d+\) >= \d+ else.*")
    empty = not text
    if not empty:
        assert re.sub(lengths, "", source) == re.sub(lengths, "", other)
