"""What another YAML reader (ruamel.yaml, YAML 1.1 and 1.2) makes of converted texts: the same, and every comment."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.scanner import RoundTripScanner

from convert_cases import NAMES, converted, source
from manifests import values_or_none

CHANGED = [name for name in NAMES if converted(name).text != source(name) and values_or_none(source(name)) is not None]


def read(text: str, version: tuple[int, int]) -> list[Any]:
    reader = YAML(typ="safe", pure=True)
    reader.version = version
    reader.allow_duplicate_keys = True
    return [value for value in reader.load_all(text) if value is not None]


def comments(text: str) -> Counter[str]:
    """All comments of a text, found by the scanner of a round trip."""
    text = text.replace("%YAML 1.1\n", "")  # which the scanner cannot take without its parser
    reader = YAML()
    reader.get_constructor_parser(text)
    scanner = reader.scanner
    assert isinstance(scanner, RoundTripScanner)
    found: Counter[str] = Counter()
    while scanner.check_token():
        token = scanner.get_token()
        for each in token.comment or ():
            for comment in each if isinstance(each, list) else [each]:
                lines = comment.value.splitlines() if comment is not None else []
                found.update(line.strip() for line in lines if line.strip().startswith("#"))
    return found


@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize("version", [(1, 1), (1, 2)], ids=["1.1", "1.2"])
def test_it_means_the_same_to_another_reader(name: str, version: tuple[int, int]) -> None:
    if version == (1, 2) and name == "directive.yaml":
        pytest.skip("the text says itself that it is 1.1")
    assert read(converted(name).text, version) == values_or_none(converted(name).text)


@pytest.mark.parametrize("name", CHANGED)
def test_no_comment_is_lost(name: str) -> None:
    """Two of them may be on one line afterwards."""
    after = "\n".join(comments(converted(name).text))
    assert not [comment for comment in comments(source(name)) if comment not in after]


def test_comments_are_found_at_all() -> None:
    assert len(comments(source("comments-everywhere.yaml"))) > 20
