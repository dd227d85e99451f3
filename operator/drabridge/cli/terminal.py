"""Text for terminals: nothing in it that a terminal would obey, and no line longer than it is wide."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from drabridge.core.errors import DrabridgeError, Unavailable

_GAP: Final = "  "
_NARROWEST: Final = 30
"""Columns that the last cell of a row must have to stand beside the others; else it goes below them."""


def width() -> int | None:
    """Columns of the terminal that standard output is, or $COLUMNS; None if lines may have any length."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal():
        return shutil.get_terminal_size().columns
    return None


def printable(text: str) -> str:
    """Give the text with what a terminal would obey, or cannot encode, written as escapes."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(ord(char)) for char in text)


def _escaped(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str) -> str:
    """Give the text on one line, with each run of blanks as one."""
    return printable(" ".join(text.split()))


def show(lines: Iterable[str]) -> None:
    """Write lines to standard output."""
    for line in lines:
        sys.stdout.write(f"{line}\n")


def complain(messages: Iterable[str]) -> None:
    """Write messages to standard error, each on one line that begins with our name."""
    for message in messages:
        sys.stderr.write(f"drabridge: {one_line(message)}\n")


def in_words(error: DrabridgeError) -> str:
    """What a verb says before it ends; what the API server's absence does not tell by itself is the cure."""
    if isinstance(error, Unavailable):
        return f"{error}; see whether `kubectl version` reaches it, or choose by --kubeconfig and --context"
    return str(error)


def shortened(text: str, room: int) -> str:
    """Leave the middle out of what is longer than `room`: the ends of an expression tell more."""
    if len(text) <= room:
        return text
    if room < 2:
        return "…"[:room]
    tail = (room - 1) // 3
    return f"{text[: room - 1 - tail]}…{text[len(text) - tail :] if tail else ''}"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], columns: int | None) -> Iterator[str]:
    """Give the lines of a table, as kubectl prints them; the last cell of a row may take several lines."""
    cells = [headers, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(row[at]) for row in cells) for at in range(len(headers) - 1)]
    left = sum(widths) + len(_GAP) * len(widths)
    for row in cells:
        head = _GAP.join(f"{cell:{size}}" for cell, size in zip(row[:-1], widths, strict=True))
        if columns is None or left + len(row[-1]) <= columns:
            yield f"{head}{_GAP}{row[-1]}".rstrip()
        elif columns - left >= _NARROWEST:
            first, *others = _wrapped(row[-1], columns - left)
            yield f"{head}{_GAP}{first}"
            yield from (" " * left + line for line in others)
        else:
            yield from _folded(head.rstrip(), columns)
            if row[-1]:
                yield from (f"    {line}" for line in _wrapped(row[-1], max(columns - 4, 1)))


def wrapped(text: str) -> list[str]:
    """Give a text in lines that fit the terminal."""
    columns = width()
    return [text] if columns is None else _wrapped(text, columns)


def indented(text: str, columns: int | None, first: str, others: str) -> list[str]:
    """Give a text in lines, the first and the others behind what they are to begin with."""
    if columns is None:
        return [first + text]
    return textwrap.wrap(
        text, max(columns, 2 * len(others)), initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    )


def _wrapped(text: str, columns: int) -> list[str]:
    return textwrap.wrap(text, columns, break_on_hyphens=False) or [""]


def _folded(text: str, columns: int) -> Iterator[str]:
    while len(text) > columns:
        yield text[:columns]
        text = text[columns:]
    yield text
