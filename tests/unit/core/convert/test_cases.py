"""Manifests by shape: what they become, to the byte, and what is said of them."""

from __future__ import annotations

import json

import pytest

import convert_cases
from convert_cases import DATA, FINDINGS, NAMES, conversion, converted, findings, source, wanted
from drabridge.core.convert.file import convert
from drabridge.core.convert.findings import Outcome

SAID = json.loads(FINDINGS.read_text())


@pytest.mark.parametrize("name", NAMES)
def test_the_text_is_the_expected_one_to_the_byte(name: str) -> None:
    assert converted(name).text == wanted(name)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_is_the_expected(name: str) -> None:
    assert findings(converted(name)) == SAID[name]


@pytest.mark.parametrize("name", NAMES)
def test_a_text_changes_only_if_a_change_is_reported(name: str) -> None:
    result = converted(name)
    changes = [each for each in result.findings if each.outcome is Outcome.CHANGED]
    assert bool(changes) == (result.text != source(name))


@pytest.mark.parametrize("name", NAMES)
def test_the_second_time_nothing_is_left_to_change(name: str) -> None:
    text = wanted(name)
    again = convert(text, conversion(text))
    assert again.text == text
    assert not [each for each in again.findings if each.outcome is Outcome.CHANGED]


def test_every_case_has_its_expectation_and_there_are_no_others() -> None:
    assert sorted(path.name for path in (DATA / "out").iterdir()) == sorted(SAID) == NAMES
    assert len(convert_cases.NAMES) >= 60
