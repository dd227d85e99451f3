"""Values as CEL literals of bounded length, for people to read."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

from drabridge.core.cel import operators, times
from drabridge.core.cel.library.named_formats import FORMATS, NamedFormat
from drabridge.core.cel.quoting import quote
from drabridge.core.cel.values import Duration, Opaque, Optional, Timestamp, TypeValue, Uint

LONGEST: Final = 80
"""Characters of a literal, unless the caller asks for another length."""

_FUNCTIONS: Final = {
    "kubernetes.Quantity": "quantity",
    "kubernetes.Semver": "semver",
    "kubernetes.URL": "url",
    "net.IP": "ip",
    "net.CIDR": "cidr",
}
"""The functions that make values of a library from text."""

_FORMATS: Final = {named.name: function for function, named in FORMATS.items()}

_DOUBLES: Final = {"NaN": "NaN", "+Inf": "Infinity", "-Inf": "-Infinity"}


def literal(value: Any, longest: int = LONGEST) -> str:
    """Write a value as an expression that gives it.

    What is longer than `longest` characters is cut, with the size of the whole behind it: `[1, 2, 3, … (5000 in all)`.
    The work is bounded by `longest`, whatever the value holds.
    """
    pieces: list[str] = []
    room = longest
    for piece in _pieces(value, longest):
        pieces.append(piece)
        room -= len(piece)
        if room < 0:
            break
    text = "".join(pieces)
    if room >= 0:
        return text
    size = f" ({len(value)} in all)" if isinstance(value, str | bytes | list | tuple | dict) else ""
    return f"{text[: max(longest - len(size) - 1, 1)]}…{size}"


def _pieces(value: Any, longest: int) -> Iterator[str]:
    """Give the text in pieces, so that nobody needs to make more of them than there is room for."""
    if isinstance(value, list | tuple):
        yield from _list(value, longest)
    elif isinstance(value, dict):
        yield from _map(value, longest)
    elif isinstance(value, Optional):
        yield from _optional(value, longest)
    else:
        yield _scalar(value, longest)


def _list(values: Any, longest: int) -> Iterator[str]:
    yield "["
    for position, value in enumerate(values):
        if position:
            yield ", "
        yield from _pieces(value, longest)
    yield "]"


def _map(values: dict[Any, Any], longest: int) -> Iterator[str]:
    yield "{"
    for position, (key, value) in enumerate(values.items()):
        if position:
            yield ", "
        yield from _pieces(key, longest)
        yield ": "
        yield from _pieces(value, longest)
    yield "}"


def _optional(value: Optional, longest: int) -> Iterator[str]:
    if not value.present:
        yield "optional.none()"
        return
    yield "optional.of("
    yield from _pieces(value.value, longest)
    yield ")"


def _scalar(value: Any, longest: int) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case Uint():
            return f"{int(value)}u"
        case int():
            return str(value)
        case float():
            return _double(value)
        case str():
            return quote(value) if len(value) <= longest else quote(value[: longest + 1])
        case bytes():
            return _bytes(value[: longest + 1])
        case _:
            return _made(value, longest)


def _made(value: Any, longest: int) -> str:
    """Write a value that has no literal of its own as the call that makes it."""
    match value:
        case Timestamp():
            return f"timestamp({quote(times.timestamp_text(value))})"
        case Duration():
            return f"duration({quote(times.duration_text(value))})"
        case TypeValue():
            return value.name
        case NamedFormat() if value.name in _FORMATS:
            return f"format.{_FORMATS[value.name]}()"
        case Opaque() if value.type_name in _FUNCTIONS:
            return f"{_FUNCTIONS[value.type_name]}({quote(str(value)[: longest + 1])})"
        case _:
            return operators.type_name(value)


def _double(value: float) -> str:
    text = operators.double_text(value)
    if not math.isfinite(value):
        return f'double("{_DOUBLES[text]}")'
    return text if "." in text or "e" in text else f"{text}.0"


def _bytes(value: bytes) -> str:
    shown = (chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\x{byte:02x}" for byte in value)
    return f'b"{"".join(shown)}"'
