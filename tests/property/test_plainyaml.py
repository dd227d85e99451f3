"""Plain YAML, read by events, means what the loader says it means; the rest is left to the loader."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from drabridge.cli import sources
from drabridge.cli.plainyaml import UNUSUAL, PlainReader

READER = PlainReader(sources._Loader)
WORDS = st.sampled_from(
    [
        "",
        "a",
        "1",
        "1:30",
        "0x1f",
        "012",
        "1e3",
        "1.5",
        ".inf",
        "yes",
        "null",
        "~",
        "2026-12-01",
        "<<",
        "- a",
        "a: b",
        "é\n",
    ]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=12,
)
PIECES = st.lists(
    st.sampled_from(["a", "b: ", "c:\n", "\n", "  ", "- ", "{", "}", "[", "]", ", ", "1", "no", "'q'", '"', "\t"])
    | st.sampled_from(["&x ", "*x", "!!str ", "? ", "<<: ", "---\n", "...\n", "#c\n", "|\n", "%YAML 1.1\n", ">\n"]),
    max_size=14,
)


def meaning(text: str) -> Any:
    """What the loader makes of it; UNUSUAL where it makes nothing of it."""
    try:
        return yaml.load(text, Loader=sources._Loader)
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return UNUSUAL


@given(VALUES, st.sampled_from([None, True, False]), st.sampled_from([None, "'", '"', "|"]))
def test_what_programs_write_means_the_same(value: Any, flow: bool | None, style: str | None) -> None:
    text = yaml.safe_dump(value, default_flow_style=flow, default_style=style)
    found = READER.read(text)
    assert found is UNUSUAL or found == meaning(text)


@given(PIECES)
def test_what_people_write_means_the_same_or_is_left_to_the_loader(pieces: list[str]) -> None:
    text = "".join(pieces)
    found = READER.read(text)
    assert found is UNUSUAL or found == meaning(text)


PLAIN = {
    "a map": ("a: 1\nb: [x, {c: d}]\n", {"a": 1, "b": ["x", {"c": "d"}]}),
    "one that begins with a marker": ("---\na: 'yes'\n", {"a": "yes"}),
    "dates and times stay text": ("a: 2026-12-01\nb: 1:30\n", {"a": "2026-12-01", "b": "1:30"}),
    "empty values": ("a:\nb: ~\n", {"a": None, "b": None}),
    "a scalar": ("x\n", "x"),
    "a list": ("- a\n- - b\n", ["a", ["b"]]),
}


@pytest.mark.parametrize(("text", "value"), PLAIN.values(), ids=PLAIN)
def test_plain_documents(text: str, value: Any) -> None:
    assert READER.read(text) == value == meaning(text)


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\nb: *x\n",
        "a: !!str 1\n",
        "a: 1\na: 2\n",
        "<<: {a: 1}\n",
        "1: a\n",
        "? [a]\n: b\n",
        "a: [",
        "a: 1\n---\nb: 2\n",
        "",
        "[" * 200 + "]" * 200,
    ],
    ids=[
        "anchor",
        "tag",
        "key twice",
        "merge",
        "key that is no text",
        "key that is a list",
        "broken",
        "two",
        "nothing",
        "deep",
    ],
)
def test_unusual_documents_are_left_to_the_loader(text: str) -> None:
    assert READER.read(text) is UNUSUAL
