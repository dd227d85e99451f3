"""cel-go's string library, version 2. Positions count code points.

`replace`, `join` and `format` could be used to make text that does not fit into memory. They stop at `MAX_TEXT`
characters, which an expression could not afford to read once.
"""

from typing import Any, Final

from drabridge.core.cel import operators
from drabridge.core.cel.declarations import Library, Overload
from drabridge.core.cel.library.costs import (
    MAX_TEXT,
    scan_result_twice,
    scan_target,
    scan_target_twice,
    traverse_target,
)
from drabridge.core.cel.library.declaring import function, member
from drabridge.core.cel.library.formatting import format_text
from drabridge.core.cel.types import DYN, INT, STRING, list_of
from drabridge.core.cel.values import CelError

_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's White_Space. Python's strip takes the four separators below the blank as well."""

_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_UPPER: Final = {code + 32: code for code in range(ord("A"), ord("Z") + 1)}
_ESCAPES: Final = str.maketrans(
    {
        "\a": r"\a",
        "\b": r"\b",
        "\f": r"\f",
        "\n": r"\n",
        "\r": r"\r",
        "\t": r"\t",
        "\v": r"\v",
        "\\": r"\\",
        '"': r"\"",
    }
)


def char_at(text: str, place: int) -> str:
    """The character at a place; empty at the end. Raises CelError beyond."""
    _check_place(place, text)
    return text[place : place + 1]


def index_of(text: str, part: str, start: int = 0) -> int:
    """Where the part is first from start on, or -1. Raises CelError for a negative start."""
    if start < 0:
        raise CelError(f"index out of range: {start}")
    if not part:
        return min(start, len(text))
    return text.find(part, start)


def last_index_of(text: str, part: str, start: int | None = None) -> int:
    """Where the part is last, beginning at start or before, or -1. Raises CelError for a negative start."""
    if start is None:
        return text.rfind(part)
    if start < 0:
        raise CelError(f"index out of range: {start}")
    if not part:
        return min(start, len(text))
    return text.rfind(part, 0, start + len(part)) if start < len(text) else -1


def lower_ascii(text: str) -> str:
    """The text with A to Z in lower case."""
    return text.translate(_LOWER)


def upper_ascii(text: str) -> str:
    """The text with a to z in upper case."""
    return text.translate(_UPPER)


def replace(text: str, old: str, new: str, limit: int = -1) -> str:
    """The text with the first `limit` occurrences replaced; all of them if that is negative."""
    if len(new) > len(old):
        count = text.count(old) if limit < 0 else min(text.count(old), limit)
        _check_length(len(text) + count * (len(new) - len(old)))
    return text.replace(old, new, max(limit, -1))


def split(text: str, separator: str, limit: int = -1) -> list[str]:
    """The parts between separators, `limit` at most; all of them if that is negative. Without one: characters."""
    if limit == 0:
        return []
    if separator:
        return text.split(separator, max(limit, 0) - 1)
    if limit < 0 or limit >= len(text):
        return list(text)
    return [*text[: limit - 1], text[limit - 1 :]]


def substring(text: str, start: int, end: int | None = None) -> str:
    """The characters from start to before end. Raises CelError for a range that is not in the text."""
    if end is not None and start > end:
        raise CelError(f"invalid substring range. start: {start}, end: {end}")
    _check_place(start, text)
    if end is None:
        return text[start:]
    _check_place(end, text)
    return text[start:end]


def trim(text: str) -> str:
    """The text without white space at both ends."""
    return text.strip(_SPACE)


def join(parts: Any, separator: str = "") -> str:
    """The parts with the separator between them. Raises CelError for a part that is no string."""
    length = 0
    for part in parts:
        if not isinstance(part, str):
            shown = "0" if part is None else operators.text(part)
            raise CelError(f"join: invalid input: {shown}")
        length += len(part)
    _check_length(length + len(separator) * len(parts))
    return separator.join(parts)


def quote(text: str) -> str:
    """The text as a CEL literal between double quotes."""
    return f'"{text.translate(_ESCAPES)}"'


def _check_place(place: int, text: str) -> None:
    if not 0 <= place <= len(text):
        raise CelError(f"index out of range: {place}")


def _check_length(length: int) -> None:
    if length > MAX_TEXT:
        raise CelError(f"a string of {length} characters is more than an expression may make ({MAX_TEXT})")


_STRINGS: Final = list_of(STRING)


def _format_cost(target: Any, *rest: Any) -> int:
    return 0 if isinstance(target, CelError) else scan_target(target, *rest)


LIBRARY: Final = Library(
    "cel.lib.ext.strings",
    (
        function("charAt", member("string_char_at_int", (STRING, INT), STRING, char_at)),
        function(
            "indexOf",
            member("string_index_of_string", (STRING, STRING), INT, index_of, traverse_target),
            member("string_index_of_string_int", (STRING, STRING, INT), INT, index_of, traverse_target),
            by_name=traverse_target,
        ),
        function(
            "lastIndexOf",
            member("string_last_index_of_string", (STRING, STRING), INT, last_index_of, traverse_target),
            member("string_last_index_of_string_int", (STRING, STRING, INT), INT, last_index_of, traverse_target),
            by_name=traverse_target,
        ),
        function(
            "lowerAscii", member("string_lower_ascii", (STRING,), STRING, lower_ascii, scan_target), by_name=scan_target
        ),
        function(
            "replace",
            member("string_replace_string_string", (STRING, STRING, STRING), STRING, replace, scan_target_twice),
            member(
                "string_replace_string_string_int", (STRING, STRING, STRING, INT), STRING, replace, scan_target_twice
            ),
            by_name=scan_target_twice,
        ),
        function(
            "split",
            member("string_split_string", (STRING, STRING), _STRINGS, split, scan_target_twice),
            member("string_split_string_int", (STRING, STRING, INT), _STRINGS, split, scan_target_twice),
            by_name=scan_target_twice,
        ),
        function(
            "substring",
            member("string_substring_int", (STRING, INT), STRING, substring, scan_target),
            member("string_substring_int_int", (STRING, INT, INT), STRING, substring, scan_target),
            by_name=scan_target,
        ),
        function("trim", member("string_trim", (STRING,), STRING, trim, scan_target), by_name=scan_target),
        function(
            "upperAscii", member("string_upper_ascii", (STRING,), STRING, upper_ascii, scan_target), by_name=scan_target
        ),
        function("format", member("string_format", (STRING, list_of(DYN)), STRING, format_text, _format_cost)),
        function("strings.quote", Overload("strings_quote", (STRING,), STRING, quote, cost=scan_target)),
        function(
            "join",
            member("list_join", (_STRINGS,), STRING, join, scan_result_twice),
            member("list_join_string", (_STRINGS, STRING), STRING, join, scan_result_twice),
            by_name=scan_result_twice,
        ),
    ),
)
