"""Text to tokens: CEL's lexical grammar (cel-go's CEL.g4)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from drabridge.core.cel.diagnostics import Issue, SourceError
from drabridge.core.cel.values import Uint

_ESCAPE: Final = r"\\(?:[abfnrtv\"'\\?`]|[0-3][0-7][0-7]|[xX][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})"

_STRING: Final = (
    rf'"""(?:{_ESCAPE}|[^\\])*?"""'
    rf"|'''(?:{_ESCAPE}|[^\\])*?'''"
    r'|[rR]"""(?s:.)*?"""'
    r"|[rR]'''(?s:.)*?'''"
    rf'|"(?:{_ESCAPE}|[^\\"\n\r])*"'
    rf"|'(?:{_ESCAPE}|[^\\'\n\r])*'"
    r'|[rR]"[^"\n\r]*"'
    r"|[rR]'[^'\n\r]*'"
)

_TOKEN: Final = re.compile(
    rf"""
    (?P<space>[\t\x20\r\n\f]+|//[^\n]*)
  | (?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
  | (?P<uint>0x[0-9a-fA-F]+[uU]|[0-9]+[uU])
  | (?P<int>0x[0-9a-fA-F]+|[0-9]+)
  | (?P<bytes>[bB](?:{_STRING}))
  | (?P<string>{_STRING})
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<escaped>`[A-Za-z0-9_./\x20-]+`)
  | (?P<symbol>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])
    """,
    re.VERBOSE,
)

_SIMPLE: Final = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
    "\\": "\\", "'": "'", '"': '"', "`": "`", "?": "?",
}  # fmt: skip

_ESCAPED: Final = re.compile(_ESCAPE)

MAX_UINT: Final = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Token:
    """A token; `value` is that of a string, bytes, uint or float, and the text of all others.

    An int stays text, since the sign before it decides whether it is in range.
    """

    kind: str
    text: str
    offset: int
    value: Any


def tokens(source: str) -> list[Token]:
    """Cut a source text into tokens, the last of which is of the kind "end".

    Raises SourceError for what is no token and for literals without a value.
    """
    found: list[Token] = []
    offset = 0
    while offset < len(source):
        match = _TOKEN.match(source, offset)
        if match is None:
            raise SourceError(source, [Issue(offset, _unrecognized(source, offset))])
        kind, text = str(match.lastgroup), match.group()
        if kind != "space":
            try:
                found.append(Token(kind, text, offset, _value(kind, text)))
            except ValueError as error:
                raise SourceError(source, [Issue(offset, str(error))]) from None
        offset = match.end()
    found.append(Token("end", "<EOF>", len(source), None))
    return found


def _unrecognized(source: str, offset: int) -> str:
    rest = source[offset:]
    shown = rest if rest[0] in "\"'`" else rest[0]
    return f"Syntax error: token recognition error at: '{shown}'"


def _value(kind: str, text: str) -> Any:
    match kind:
        case "string":
            return unescape(text)
        case "bytes":
            return unescape_bytes(text[1:])
        case "uint":
            return _uint(text[:-1])
        case "float":
            return _double(text)
        case _:
            return text


def _uint(text: str) -> Uint:
    value = _hexadecimal(text) if text.startswith("0x") else _decimal(text)
    if value > MAX_UINT:
        raise ValueError("invalid uint literal")
    return Uint(value)


def _decimal(text: str) -> int:
    # Python refuses to read more than 4300 digits; anything of that length is out of range here.
    stripped = text.lstrip("0")
    return MAX_UINT + 1 if len(stripped) > 20 else int(stripped or "0")


def _hexadecimal(text: str) -> int:
    return int(text, 16)


def _double(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("invalid double literal")
    return value


def integer(text: str, *, negative: bool) -> int:
    """Give the value of an int literal with its sign. Raises ValueError if it is not within int64."""
    magnitude = _hexadecimal(text) if text.startswith("0x") else _decimal(text)
    value = -magnitude if negative else magnitude
    if not -(2**63) <= value < 2**63:
        raise ValueError("invalid int literal")
    return value


def _body(text: str) -> tuple[str, bool]:
    """Return what stands between the quotes, with newlines made one kind, and whether it is raw."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    raw = text[0] in "rR"
    if raw:
        text = text[1:]
    quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
    return text[quotes:-quotes], raw


def unescape(text: str) -> str:
    """Give the value of a string literal. Raises ValueError for an escape that is no character."""
    body, raw = _body(text)
    return body if raw else _ESCAPED.sub(lambda match: _character(match.group()[1:]), body)


def _character(escape: str) -> str:
    if (simple := _SIMPLE.get(escape)) is not None:
        return simple
    code = int(escape[1:], 16) if escape[0] in "xXuU" else int(escape, 8)
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ValueError("invalid unicode code point")
    return chr(code)


def unescape_bytes(text: str) -> bytes:
    """Give the value of a bytes literal: hexadecimal and octal escapes are bytes there, those of Unicode are errors."""
    body, raw = _body(text)
    if raw:
        return body.encode()
    parts: list[bytes] = []
    end = 0
    for match in _ESCAPED.finditer(body):
        parts += [body[end : match.start()].encode(), _byte(match.group()[1:])]
        end = match.end()
    parts.append(body[end:].encode())
    return b"".join(parts)


def _byte(escape: str) -> bytes:
    if (simple := _SIMPLE.get(escape)) is not None:
        return simple.encode()
    if escape[0] in "uU":
        raise ValueError("unable to unescape string")
    code = int(escape[1:], 16) if escape[0] in "xX" else int(escape, 8)
    return bytes((code & 0xFF,))
