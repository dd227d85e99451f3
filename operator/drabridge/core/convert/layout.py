"""A text with its habits, and changes of it by offsets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from drabridge.core.convert import tree
from drabridge.core.convert.tree import Node

_COLON = re.compile(r"[ \t]*:")


class Unsafe(Exception):
    """A change that cannot be made in the text without doing more than it should."""


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """`text` comes instead of what is from `start` to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Layout:
    """A document's text and its habits: how far lists stand in from their key, and whether it is JSON.

    `newline` is how lines end where the text has none that shows it.
    """

    text: str
    newline: str
    list_indent: int
    json: bool

    def newline_at(self, offset: int) -> str:
        """How a line ends that is put in at an offset: as the one before it; others of the file may end otherwise."""
        end = self.text.rfind("\n", 0, offset)
        if end < 0 and (end := self.text.find("\n", offset)) < 0:
            return self.newline
        return "\r\n" if self.text[end - 1 : end] == "\r" else "\n"

    def join(self, offset: int, column: int) -> str:
        """What is between two lines that are put in at an offset, indented to `column`."""
        return self.newline_at(offset) + " " * column

    def line_start(self, offset: int) -> int:
        """Where the line of an offset begins."""
        return self.text.rfind("\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        """Where the line after that of an offset begins; the text's end if there is none."""
        return self.text.find("\n", offset) + 1 or len(self.text)

    def column(self, offset: int) -> int:
        """How many characters are before an offset in its line."""
        return offset - self.line_start(offset)

    def is_first(self, offset: int) -> bool:
        """Whether there is nothing but white space before an offset in its line."""
        return not self.text[self.line_start(offset) : offset].strip(" ")


def applied(text: str, edits: Iterable[Edit]) -> str:
    """Make the changes; the same one twice is made once. Raises Unsafe where two of them concern the same text."""
    parts, position = [], 0
    for edit in sorted(set(edits)):
        if edit.start < position:
            raise Unsafe
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])


def entry_end(layout: Layout, key: tree.Scalar, value: Node) -> int:
    """Where an entry's content ends. The parser puts a value that is not there anywhere up to the next key."""
    if isinstance(value, tree.Scalar) and value.start == value.end:
        found = _COLON.match(layout.text, key.end)
        return found.end() if found else key.end
    return value.end
