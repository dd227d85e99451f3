"""Values as literals: each is an expression that gives the value back, and none is long."""

from __future__ import annotations

import math
from typing import Any

import pytest

from drabridge.core.cel.device import DeviceView
from drabridge.core.cel.literals import literal
from drabridge.core.cel.operators import DefaultMap
from drabridge.core.cel.selector import compile_selector
from drabridge.core.cel.values import Duration, Opaque, Optional, Timestamp, TypeValue, Uint

EXPRESSIONS = [
    "null",
    "true",
    "-9223372036854775808",
    "18446744073709551615u",
    "1.0",
    "-0.0",
    "1e+100",
    "1.5e-07",
    'double("Infinity")',
    'double("-Infinity")',
    '"a \\"b\\" \\\\ \\n é 😀"',
    'b"a\\x00\\xff\\x22\\x5c"',
    "[[2.0], [], [-1.5]]",
    '{"a": [1], "b": []}',
    "{1u: null}",
    'timestamp("2020-01-02T03:04:05.000000006Z")',
    'duration("90s")',
    'quantity("1536Mi")',
    'semver("1.2.3-a+b")',
    'url("https://x/y?z")',
    'ip("fe80::1")',
    'cidr("10.0.0.0/8")',
    "format.dns1123Label()",
    "optional.none()",
    'optional.of(optional.of("x"))',
    "string",
    "google.protobuf.Timestamp",
]


def value_of(expression: str) -> Any:
    """What an expression gives, seen through the plan, which hands out any value."""
    selector = compile_selector(f"dyn({expression})")
    return selector._plan.evaluate(DeviceView.of("d", {}).fields, 10_000, None)[0]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_literal_gives_the_value_back(expression: str) -> None:
    assert literal(value_of(expression)) == expression


PLAIN = {
    "not a number": (math.nan, 'double("NaN")'),
    "the map of domains": (DefaultMap({"a": {}}), '{"a": {}}'),
    "a tuple": ((1, 2), "[1, 2]"),
    "a lone surrogate": ("\ud800", '"\\ud800"'),
    "a wrapped uint": (Optional(True, Uint(1)), "optional.of(1u)"),
    "the start of time": (Timestamp(0), 'timestamp("1970-01-01T00:00:00Z")'),
    "no time": (Duration(0), 'duration("0s")'),
    "a type": (TypeValue("int"), "int"),
}


@pytest.mark.parametrize(("value", "text"), PLAIN.values(), ids=PLAIN)
def test_values_that_no_expression_gives_directly(value: Any, text: str) -> None:
    assert literal(value) == text


def test_a_value_of_an_unknown_library_is_its_type() -> None:
    class Other(Opaque):
        type_name = "x.Other"

    assert literal(Other()) == "x.Other"


class Endless(list[int]):
    """A list that nobody should look through to its end."""

    def __iter__(self) -> Any:
        for number in range(1000):
            assert number < 100, "a literal of bounded length needs no more elements"
            yield number

    def __len__(self) -> int:
        return 1000


LONG: dict[str, tuple[Any, str]] = {
    "a text": ("x" * 1000, '"xxxxxxxxxxxxxxxxxxxxxx… (1000 in all)'),
    "bytes": (b"x" * 1000, 'b"xxxxxxxxxxxxxxxxxxxxx… (1000 in all)'),
    "a list": (Endless(), "[0, 1, 2, 3, 4, 5, 6, 7… (1000 in all)"),
    "a map": ({str(i): i for i in range(1000)}, '{"0": 0, "1": 1, "2": 2… (1000 in all)'),
    "an optional": (Optional(True, "x" * 1000), 'optional.of("xxxxxxxxxxxxxxxxxxxxxxxx…'),
}


@pytest.mark.parametrize(("value", "text"), LONG.values(), ids=LONG)
def test_what_is_long_is_cut(value: Any, text: str) -> None:
    assert len(text) == 38
    assert literal(value, 38) == text


def test_depth_is_bounded_as_length_is() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert literal(value) == "[" * 68 + "… (1 in all)"[:12]
    while value:  # the interpreter would take it apart recursively
        value = value.pop()
