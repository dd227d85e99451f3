"""Text for terminals."""

from __future__ import annotations

import pytest

from drabridge.cli.terminal import printable, shortened, table, width

PRINTABLE = {
    "plain": ("a b é 😀", "a b é 😀"),
    "a control sequence": ("\x1b[31m", r"\x1b[31m"),
    "a line separator": ("\u2028", r"\u2028"),
    "a surrogate": ("\ud800", r"\ud800"),
    "beyond 16 bits": ("\U000e0001", r"\U000e0001"),
}


@pytest.mark.parametrize(("text", "shown"), PRINTABLE.values(), ids=PRINTABLE)
def test_what_a_terminal_would_obey_is_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown


SHORTENED = {
    "short enough": ("abcdef", 6, "abcdef"),
    "the middle goes": ("abcdefghij", 7, "abcd…ij"),
    "hardly any room": ("abcdef", 2, "a…"),
    "room for a mark": ("abcdef", 1, "…"),
    "none": ("abcdef", 0, ""),
}


@pytest.mark.parametrize(("text", "room", "shown"), SHORTENED.values(), ids=SHORTENED)
def test_what_is_too_long_loses_its_middle(text: str, room: int, shown: str) -> None:
    assert shortened(text, room) == shown


ROWS = [("a", "one two three four five six seven eight nine ten")]
TABLES = {
    "any length": (None, ["K  V", "a  one two three four five six seven eight nine ten"]),
    "wrapped": (35, ["K  V", "a  one two three four five six", "   seven eight nine ten"]),
    "below": (20, ["K  V", "a", "    one two three", "    four five six", "    seven eight nine", "    ten"]),
}


@pytest.mark.parametrize(("columns", "lines"), TABLES.values(), ids=TABLES)
def test_a_table_of(columns: int | None, lines: list[str]) -> None:
    assert list(table(("K", "V"), ROWS, columns)) == lines


def test_cells_that_are_wider_than_the_terminal_are_folded() -> None:
    assert list(table(("K", "V"), [("abcdefgh", "")], 5)) == ["K", "    V", "abcde", "fgh"]


def test_lines_may_have_any_length_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert width() is None
    monkeypatch.setenv("COLUMNS", "60")
    assert width() == 60
