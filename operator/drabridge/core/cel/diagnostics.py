"""What is wrong with an expression, with the place in its text, written as cel-go writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LONGEST_LINE: Final = 16384
"""Bytes of a source line that is shown below a message."""

MOST_ISSUES: Final = 100
"""Messages that are shown; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Issue:
    """One message; `offset` counts code points, -1 for none."""

    offset: int
    message: str


class SourceError(Exception):
    """An expression that does not parse or check. `issues` has at least one entry."""

    def __init__(self, source: str, issues: list[Issue]) -> None:
        super().__init__(display(source, issues))
        self.issues = issues


def display(source: str, issues: list[Issue]) -> str:
    """Write all messages, each with its line and a mark below the place, in the order of the places."""
    placed = sorted(((*_place(source, issue.offset), issue) for issue in issues[:MOST_ISSUES]), key=lambda p: p[:2])
    lines = source.split("\n")
    shown = [_display(issue.message, line, column, lines) for line, column, issue in placed]
    if len(issues) > MOST_ISSUES:
        shown.append(f"{len(issues) - MOST_ISSUES} more errors were truncated")
    return "\n".join(shown)


def _place(source: str, offset: int) -> tuple[int, int]:
    if offset < 0:
        return -1, -1
    if not source:
        return 1, -1  # upstream counts no column in it, and shows no line
    before = source[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1)


def _display(message: str, line: int, column: int, lines: list[str]) -> str:
    head = f"ERROR: <input>:{line}:{column + 1}: {message}"
    if column < 0 or line > len(lines) or len(lines[line - 1].encode("utf-8", "replace")) > LONGEST_LINE:
        return head
    snippet = lines[line - 1].replace("\t", " ")
    mark = "".join("." if char.isascii() else "\uff0e" for char in snippet[:column])
    at = snippet[column : column + 1]
    return f"{head}\n | {snippet}\n | {mark}{'^' if at.isascii() else chr(0xFF3E)}"
