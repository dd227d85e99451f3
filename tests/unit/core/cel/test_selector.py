"""Selectors: three outcomes, limits, and use by many threads."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from drabridge.core.cel import cost, operators
from drabridge.core.cel.device import DeviceView
from drabridge.core.cel.selector import HINT, CompileError, Match, SelectorError, compile_selector

DRIVER = "gpu.example.com"
VIEW = DeviceView.of(
    DRIVER,
    {
        "attributes": {"model": {"string": "a100"}, "index": {"int": 2}, "nics": {"strings": ["n0", "n1"]}},
        "capacity": {"memory": {"value": "40Gi"}},
    },
)
LOOP = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all({0}, {1})"


def nested(body: str, depth: int) -> str:
    for level in range(depth):
        body = LOOP.format(f"x{level}", body)
    return body


def test_a_match_has_a_cost() -> None:
    assert compile_selector("device.driver == 'gpu.example.com'").matches(VIEW) == Match(True, 4)
    assert compile_selector("device.driver == 'x'").matches(VIEW) == Match(False, 3)


def test_a_large_cost_is_told_too() -> None:
    matched, units = compile_selector(nested("true", 4)).matches(VIEW)
    assert matched
    assert units > 10_000


FAILURES = {
    "a missing key comes with advice": ("device.attributes['x'].y == 1", "no such key: y" + HINT, 5),
    "an error behind &&": ("1 / 0 == 1 && true", "division by zero", 2),
    "a text is no answer": (
        "device.attributes['gpu.example.com'].model",
        "CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'",
        4,
    ),
    "an optional without a value is none": (
        "dyn(optional.none())",
        "CEL result of type optional_type could not be converted to bool: optional.none() dereference",
        2,
    ),
    "nor is a quantity": (
        "dyn(quantity('1'))",
        (
            "CEL result of type kubernetes.Quantity could not be converted to bool: "
            "type conversion error from 'Quantity' to 'bool'"
        ),
        2,
    ),
}


@pytest.mark.parametrize(("expression", "message", "units"), FAILURES.values(), ids=FAILURES)
def test_an_evaluation_fails(expression: str, message: str, units: int) -> None:
    with pytest.raises(SelectorError) as failed:
        compile_selector(expression).matches(VIEW)
    assert (str(failed.value), failed.value.cost) == (message, units)


def test_an_optional_bool_is_an_answer() -> None:
    assert compile_selector("dyn(optional.of(optional.of(true)))").matches(VIEW).matched


REFUSED = {
    "a type that is no bool": ("1", "must evaluate to bool or the unknown type, not int"),
    "a list": ("[1]", "must evaluate to bool or the unknown type, not list(int)"),
    "a syntax error": ("1 +", "compilation failed: ERROR: <input>:1:4: Syntax error"),
    "a type error": ("1 + ''", "compilation failed: ERROR: <input>:1:3: found no matching overload"),
    "a constant that cannot be converted": (
        "int('x') == 1",
        "program instantiation failed: type conversion error from 'string' to 'int'",
    ),
    "a constant pattern that is broken": (
        "'a'.find('[') == ''",
        "program instantiation failed: error parsing regexp: missing closing ]: `[`",
    ),
    "a constant key of a type that is none": (
        "{[1]: 1}[[1]] == 1",
        "program instantiation failed: invalid qualifier type: *types.baseList",
    ),
    "the device's type": (
        "type(device) == kubernetes.DRADevice",
        "program instantiation failed: reference to undefined",
    ),
    "too long": ("true" + " " * 10_240, "expression is longer than 10240 characters"),
}


@pytest.mark.parametrize(("expression", "message"), REFUSED.values(), ids=REFUSED)
def test_an_expression_does_not_compile(expression: str, message: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_selector(expression)
    assert str(refused.value).startswith(message)


STOPPED = {
    "loops": nested("true", 7),
    "loops over errors": f"{nested('1 / 0 == 1', 7)} || true",
    "a loop that grows a list": nested("[1].map(y, y).size() == 1", 6),
    "texts that double": "".join(
        f"cel.bind(a{i}, {f'a{i - 1} + a{i - 1}' if i else repr('abcdefgh')}, " for i in range(60)
    )
    + "a59 == ''"
    + ")" * 60,
}


@pytest.mark.parametrize("expression", STOPPED.values(), ids=STOPPED)
def test_the_limit_on_costs_stops_it_soon(expression: str) -> None:
    selector = compile_selector(expression)
    start = time.process_time()
    with pytest.raises(SelectorError, match="operation cancelled: actual cost limit exceeded") as stopped:
        selector.matches(VIEW)
    assert stopped.value.cost > cost.LIMIT
    assert time.process_time() - start < 10  # it is about one second on an idle machine


def test_a_limit_can_be_given() -> None:
    selector = compile_selector("device.driver == 'gpu.example.com'")
    assert selector.matches(VIEW, limit=4).matched
    with pytest.raises(SelectorError, match="limit exceeded"):
        selector.matches(VIEW, limit=3)


def test_lists_that_double_end_in_an_error() -> None:
    """Upstream adds lists lazily, so that this would be true there; ours must not fill the memory."""
    doubling = "".join(f"cel.bind(a{i}, {f'a{i - 1} + a{i - 1}' if i else '[1, 2]'}, " for i in range(60))
    with pytest.raises(SelectorError, match="list of more than 131072 elements"):
        compile_selector(doubling + "size(a59) > 5" + ")" * 60).matches(VIEW)


@pytest.mark.parametrize("body", ["true", "1 / 0 == 1"], ids=["by function", "by walking"])
def test_the_caller_can_interrupt_loops(body: str) -> None:
    asked: list[int] = []

    def interrupt() -> bool:
        asked.append(1)
        return len(asked) > 2

    with pytest.raises(SelectorError, match="operation interrupted"):
        compile_selector(nested(body, 4)).matches(VIEW, interrupt=interrupt)
    assert len(asked) >= 3


DEEP = {
    "sums": ("1" + " + 1" * 249 + " == 250", Match(True, 250)),
    "calls": ("device.driver" + ".trim()" * 248 + " == 'gpu.example.com'", None),
    "brackets": ("(" * 249 + "true" + ")" * 249, Match(True, 0)),
    "ternaries": ("true ? true : " * 249 + "true", Match(True, 0)),
    "logic in brackets": ("(true && !(" * 120 + "true" + "))" * 120, Match(True, 120)),
    "indices": ("[0][" * 240 + "0" + "]" * 240 + " == 0", None),
}


@pytest.mark.parametrize(("expression", "match"), DEEP.values(), ids=DEEP)
def test_what_is_nested_deeply_is_evaluated(expression: str, match: Match | None) -> None:
    found = compile_selector(expression).matches(VIEW)
    assert found.matched if match is None else found == match


def test_many_threads_may_use_one_selector() -> None:
    selector = compile_selector(
        "device.attributes['gpu.example.com'].nics.map(n, n + 'x').exists(n, n == 'n1x') && "
        "(device.attributes['gpu.example.com'].nope == 1 || device.attributes['gpu.example.com'].index == 2)"
    )
    expected = selector.matches(VIEW)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: selector.matches(VIEW), range(2000)))
    assert found == [expected] * 2000


def test_a_bug_of_ours_ends_one_evaluation_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> bool:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(operators, "equal", broken)
    with pytest.raises(SelectorError, match="internal error: ZeroDivisionError: oops") as failed:
        compile_selector("device.driver == 'x'").walk(VIEW, cost.LIMIT, None)
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


@pytest.mark.unmeasured
def test_work_is_counted_anew_for_each_evaluation() -> None:
    tree = "".join(f"cel.bind(a{i}, {f'dyn([a{i - 1}, a{i - 1}])' if i else 'dyn([1])'}, " for i in range(40))
    selector = compile_selector(f"{tree}a39 == a39{')' * 40}")
    for _ in range(2):
        with pytest.raises(SelectorError, match="too much work"):
            selector.matches(VIEW)
    small = compile_selector("device.attributes['gpu.example.com'].nics.exists(n, n in ['n1', device.driver])")
    assert [small.matches(VIEW).matched for _ in range(3)] == [True] * 3
