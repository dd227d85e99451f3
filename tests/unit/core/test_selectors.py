from __future__ import annotations

from typing import Any

import pytest

from drabridge.core.errors import InvalidInput
from drabridge.core.selectors import LabelSelector


def selector(raw: Any) -> LabelSelector:
    return LabelSelector.parse(raw, "ExtendedResourcePolicy gpu", "spec.podSelector")


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator} | ({"values": [*values]} if values else {})]}


MATCHES: dict[str, tuple[dict[str, Any], dict[str, str], bool]] = {
    "an empty selector matches everything": ({}, {"a": "b"}, True),
    "an empty selector matches what has no labels": ({"matchLabels": None, "matchExpressions": []}, {}, True),
    "a label must have its value": ({"matchLabels": {"team": "ml"}}, {"team": "ml", "x": "y"}, True),
    "another value does not match": ({"matchLabels": {"team": "ml"}}, {"team": "web"}, False),
    "a missing label does not match": ({"matchLabels": {"team": "ml"}}, {}, False),
    "an empty value is a value": ({"matchLabels": {"team": ""}}, {"team": ""}, True),
    "an empty value is not a missing label": ({"matchLabels": {"team": ""}}, {}, False),
    "all labels must match": ({"matchLabels": {"a": "1", "b": "2"}}, {"a": "1"}, False),
    "In takes any of its values": (expression("a", "In", "1", "2"), {"a": "2"}, True),
    "In needs the label": (expression("a", "In", "1"), {}, False),
    "NotIn forbids its values": (expression("a", "NotIn", "1"), {"a": "1"}, False),
    "NotIn is met without the label": (expression("a", "NotIn", "1"), {}, True),
    "Exists takes any value": (expression("a", "Exists"), {"a": "anything"}, True),
    "Exists needs the label": (expression("a", "Exists"), {}, False),
    "DoesNotExist forbids the label": (expression("a", "DoesNotExist"), {"a": ""}, False),
    "DoesNotExist is met without it": (expression("a", "DoesNotExist"), {}, True),
    "labels and expressions are joined by and": (
        {"matchLabels": {"a": "1"}, **expression("b", "Exists")},
        {"a": "1"},
        False,
    ),
}


@pytest.mark.parametrize(("raw", "labels", "matched"), MATCHES.values(), ids=MATCHES)
def test_a_selector_matches(raw: dict[str, Any], labels: dict[str, str], matched: bool) -> None:
    assert selector(raw).matches(labels) is matched


INVALID: dict[str, tuple[Any, str, str]] = {
    "a selector that is a list": ([1], "", "not an object"),
    "a misspelt field would select everything": ({"matchLabel": {"a": "b"}}, ".matchLabel", "no field"),
    "labels that are a list": ({"matchLabels": ["a"]}, ".matchLabels", "not an object"),
    "a key that is none": ({"matchLabels": {"a b": "c"}}, ".matchLabels", "not a label key"),
    "a value that is none": ({"matchLabels": {"a": "b/c"}}, ".matchLabels['a']", "not a label value"),
    "a value that is a number": ({"matchLabels": {"a": 1}}, ".matchLabels['a']", "1 is not a label value"),
    "expressions that are no list": ({"matchExpressions": {}, "x": 1}, ".x", "no field"),
    "expressions that are an object": ({"matchExpressions": {"a": 1}}, ".matchExpressions", "not a list"),
    "an expression that is a text": ({"matchExpressions": ["a"]}, ".matchExpressions[0]", "not an object"),
    "an expression without key": ({"matchExpressions": [{"operator": "Exists"}]}, ".matchExpressions[0].key", "None"),
    "an unknown operator": (expression("a", "Gt", "1"), ".matchExpressions[0].operator", "'Gt' is not an operator"),
    "In without values": (expression("a", "In"), ".matchExpressions[0].values", "needs at least one"),
    "Exists with values": (expression("a", "Exists", "1"), ".matchExpressions[0].values", "takes no values"),
    "a value of an expression": (
        expression("a", "In", "1", "ü"),
        ".matchExpressions[0].values[1]",
        "not a label value",
    ),
    "values that are a text": (
        {"matchExpressions": [{"key": "a", "operator": "In", "values": "b"}]},
        ".matchExpressions[0].values",
        "not a list",
    ),
}


@pytest.mark.parametrize(("raw", "path", "problem"), INVALID.values(), ids=INVALID)
def test_a_broken_selector_is_named(raw: Any, path: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        selector(raw)
    assert caught.value.object == "ExtendedResourcePolicy gpu"
    assert caught.value.path == "spec.podSelector" + path
    assert problem in caught.value.problem
    assert caught.value.cure
