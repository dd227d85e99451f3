"""Lists of objects in JSON, as kubectl and API servers write them, taken apart item by item.

A dump of a cluster is one such list: to have all its objects in memory at once would take several times its size.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_WORD: Final = r'"(?:apiVersion|kind)"\s*:\s*"[^"\\]*"'
_METADATA: Final = r'"metadata"\s*:\s*\{[^{}]*\}'
_HEAD: Final = re.compile(rf'\s*\{{\s*(?:(?:{_WORD}|{_METADATA})\s*,\s*){{0,3}}"items"\s*:\s*\[')
_TAIL: Final = re.compile(rf"\](?:\s*,\s*(?:{_WORD}|{_METADATA})){{0,3}}\s*\}}\s*\Z")
_LONGEST_TAIL: Final = 4096
_BLANKS: Final = re.compile(r"[ \t\r\n]*")


@dataclass(frozen=True, slots=True)
class JSONList:
    """A list that was recognised. `about` is the list without its items, as text; they stand from `start` to `end`."""

    about: str
    start: int
    end: int


def recognised(text: str) -> JSONList | None:
    """The list that a text is, if it is one whose items stand between apiVersion, kind and metadata; else None."""
    head = _HEAD.match(text)
    if head is None:
        return None
    tail = _TAIL.search(text, max(head.end(), len(text) - _LONGEST_TAIL))
    if tail is None:
        return None
    return JSONList(text[: head.end()] + text[tail.start() :], head.end(), tail.start())


def items(text: str, found: JSONList, decoder: json.JSONDecoder) -> Iterator[Any]:
    """Its items, one after the other. Raises ValueError where the text is broken, after those before that place."""
    at = _after_blanks(text, found.start)
    while at < found.end:
        item, at = decoder.raw_decode(text, at)
        yield item
        at = _after_blanks(text, at)
        if at == found.end:
            return
        if text[at] != ",":
            raise json.JSONDecodeError("Expecting ',' delimiter", text, at)
        at = _after_blanks(text, at + 1)
        if at == found.end:
            raise json.JSONDecodeError("Expecting value", text, at)


def _after_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at
