"""What holds for the conversion of every manifest, however it is written."""

from __future__ import annotations

import os
import re

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import manifests
from builders import GPU, IMPLICIT_GPU, NIC
from drabridge.cli.yamltree import parse
from drabridge.core.convert.file import convert, read
from drabridge.core.convert.findings import Outcome
from drabridge.core.convert.piece import Direction
from drabridge.core.reasons import Reason
from manifests import UNSERVED, asks, conversion, damaged, odd, texts, values, without_asks

SERVED = (GPU, NIC, IMPLICIT_GPU)
EXAMPLES = int(os.environ.get("DRABRIDGE_EXAMPLES", "40"))
SETTINGS = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def there_and_back(text: str) -> str:
    forth = convert(text, conversion()).text
    objects = [each for document in manifests.documents(forth) for each in document.objects()]
    templates = {(each.namespace, each.name): each.value for each in objects if each.kind == "ResourceClaimTemplate"}
    return convert(forth, conversion(Direction.REVERSE, templates=templates, used=frozenset())).text


@SETTINGS
@given(texts())
def test_everything_that_is_served_is_converted_and_nothing_else_changes(text: str) -> None:
    converted = convert(text, conversion())
    assert not [each for each in converted.findings if each.reason is Reason.EDIT_UNSAFE]
    for found in (each for value in values(converted.text) for each in asks(value)):
        assert not {name for names in found.values() for name in names} & set(SERVED)
    if not any(name in text for name in SERVED):
        assert converted.text == text


@SETTINGS
@given(texts())
def test_twice_is_once(text: str) -> None:
    once = convert(text, conversion()).text
    again = convert(once, conversion())
    assert again.text == once
    assert not [each for each in again.findings if each.outcome is Outcome.CHANGED]


@SETTINGS
@given(texts())
def test_the_way_back_restores_what_was_meant(text: str) -> None:
    before, after = values(text), values(there_and_back(text))
    assert [list(asks(each)) for each in after] == [list(asks(each)) for each in before]
    assert without_asks(after) == without_asks(before)


@SETTINGS
@given(texts())
def test_comments_and_line_ends_survive(text: str) -> None:
    converted = convert(text, conversion()).text
    for comment in re.findall(r"# (?:above|behind) \d+|# header", text):
        assert comment in converted
    assert converted.count("\n") == converted.count("\r\n") or "\r" not in converted


def without_comma(line: str) -> str:
    """A line without its end and the comma there, which says what comes behind it."""
    return re.sub(r",(?= #|$)", "", line.rstrip("\r"))


@SETTINGS
@given(texts())
def test_lines_that_do_not_speak_of_resources_stay_as_they_are(text: str) -> None:
    assume(not text.startswith("{"))  # braces and commas change with what is between them
    after = set(map(without_comma, convert(text, conversion()).text.split("\n")))
    gone = [line.rstrip("\r") for line in text.split("\n") if without_comma(line) not in after]
    allowed = r"limits|requests|resources|example\.com/|deviceclass|claims|toleration|^\s*\{|\{.*\}|&id|\*id"
    if re.search(r"[{\[]( #.*)?\r?$", text, re.MULTILINE):  # what was within brackets may move out of them
        allowed += r"|^[\s\]},]*(#.*)?$"
    assert not [line for line in gone if not re.search(allowed, line) and not line.startswith("---")]


@SETTINGS
@given(damaged() | odd(), st.sampled_from(Direction))
def test_damaged_files_never_fail_and_what_comes_out_can_be_read(text: str, direction: Direction) -> None:
    converted = convert(text, conversion(direction))
    if converted.text != text:
        before = sum(each.outcome is Outcome.BROKEN for each in converted.findings)
        _, findings, _ = read(converted.text, parse)
        assert sum(each.outcome is Outcome.BROKEN for each in findings) == before


def test_the_names_are_those_of_the_manifests() -> None:
    assert UNSERVED not in SERVED
