"""Values as YAML or JSON text, for what is written anew."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from drabridge.core.convert.tree import plain_value

_SAFE = re.compile(r"[A-Za-z0-9_/.][A-Za-z0-9_./-]*")

_ODD = frozenset("yYnN")
"""Booleans to the letter of YAML 1.1, though not to Kubernetes."""


def text_of(value: object, *, quote: bool = False) -> str:
    """Give a scalar as it stands in YAML, quoted only where it would mean something else; always, if `quote`."""
    if isinstance(value, str):
        if quote or not _SAFE.fullmatch(value) or value in _ODD or not isinstance(plain_value(value), str):
            simple = not quote and value.isprintable() and value.isascii() and "'" not in value
            return f"'{value}'" if simple else json.dumps(value, ensure_ascii=True)
        return value
    return json.dumps(value)


def block(value: Any, list_indent: int) -> list[str]:
    """Give a mapping or sequence as lines in block style; `list_indent` is how far lists stand in from their key."""
    return list(_mapping(value, list_indent) if isinstance(value, dict) else _sequence(value, list_indent))


def entry(key: str, value: Any, list_indent: int) -> list[str]:
    """Give one entry of a mapping as lines in block style."""
    return list(_mapping({key: value}, list_indent))


def _mapping(value: dict[str, Any], list_indent: int) -> Iterator[str]:
    for key, each in value.items():
        name = text_of(key)
        if isinstance(each, dict) and each:
            yield f"{name}:"
            yield from (f"  {line}" for line in _mapping(each, list_indent))
        elif isinstance(each, list) and each:
            yield f"{name}:"
            yield from (" " * list_indent + line for line in _sequence(each, list_indent))
        else:
            yield f"{name}: {flow(each) if isinstance(each, dict | list) else text_of(each)}"


def _sequence(value: list[Any], list_indent: int) -> Iterator[str]:
    for each in value:
        lines = block(each, list_indent) if isinstance(each, dict | list) and each else [flow(each)]
        yield f"- {lines[0]}"
        yield from (f"  {line}" for line in lines[1:])


def flow(value: Any, *, quote: bool = False) -> str:
    """Give a value on one line, in flow style; with `quote` it is JSON as well."""
    if isinstance(value, dict):
        inner = ", ".join(f"{text_of(key, quote=quote)}: {flow(each, quote=quote)}" for key, each in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(flow(each, quote=quote) for each in value)}]"
    return text_of(value, quote=quote)
