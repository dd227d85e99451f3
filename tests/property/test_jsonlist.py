"""Lists in JSON, taken apart item by item: the same objects as when they are read at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.cli import jsonlist, sources
from drabridge.core.errors import InvalidInput

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["", "]", "}", '"', "]}", ", ", "\\", '"items": [', "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "items", "kind", "]"]), inner),
    max_leaves=8,
)
ITEMS = st.lists(st.dictionaries(st.sampled_from(["kind", "metadata", "spec"]), VALUES, max_size=3), max_size=4)
FIELDS: list[tuple[str, Any]] = [("apiVersion", "v1"), ("kind", "PodList"), ("metadata", {"resourceVersion": "7"})]


@given(
    ITEMS,
    st.permutations([*FIELDS, ("items", None)]),
    st.sampled_from([None, 0, 4]),
    st.sampled_from([(",", ":"), None]),
)
def test_the_same_items_one_by_one(
    items: list[Any], order: list[tuple[str, Any]], indent: int | None, separators: tuple[str, str] | None
) -> None:
    text = json.dumps(
        {key: items if key == "items" else value for key, value in order}, indent=indent, separators=separators
    )
    found = jsonlist.recognised(text)
    assert found is not None
    assert list(jsonlist.items(text, found, json.JSONDecoder())) == items
    assert json.loads(found.about) == dict(FIELDS) | {"items": []}


@given(st.text(alphabet='{}[]",: \nitemskd', max_size=60))
def test_any_text_is_recognised_only_if_it_is_such_a_list(text: str) -> None:
    found = jsonlist.recognised(text)
    if found is not None:
        try:
            items = list(jsonlist.items(text, found, json.JSONDecoder()))
        except ValueError:
            return
        assert json.loads(text)["items"] == items


@pytest.mark.parametrize(
    "text",
    [
        '{"kind": "Pod", "spec": {}}',
        '{"items": {}}',
        '{"items": [], "more": 1}',
        "[]",
        "",
        '{"metadata": {"a": {}}, "items": []}',
    ],
)
def test_other_documents_are_not_recognised(text: str) -> None:
    assert jsonlist.recognised(text) is None


BROKEN = {
    "a comma too many": '{"kind": "List",\n"items": [{"kind": "A"},]}',
    "a comma too few": '{"kind": "List",\n"items": [{"kind": "A"}{}]}',
    "a broken item": '{"kind": "List",\n"items": [{"kind": "A"}, {"b"]}',
}


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_told_after_what_is_not(text: str) -> None:
    first, problem = sources.parse(text, "file")
    assert isinstance(first, sources.Sourced)
    assert first.kind == "A"
    assert isinstance(problem, InvalidInput)
    assert "it is no JSON" in problem.problem
    assert "(line 2, column" in problem.problem


def test_a_key_that_comes_twice_is_told() -> None:
    (problem,) = sources.parse('{"kind": "List", "items": [{"a": 1, "a": 2}]}', "file")
    assert isinstance(problem, InvalidInput)
    assert "comes twice" in problem.problem


def test_what_only_looks_like_a_list_is_an_object() -> None:
    (found,) = sources.parse('{"kind": "Basket", "items": [{"a": 1}]}', "file")
    assert isinstance(found, sources.Sourced)
    assert found.kind == "Basket"
