"""Unified diffs that `patch` and `git apply` take, the missing last line break included."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

_NO_NEWLINE = "\\ No newline at end of file"


def unified(name: str, before: str, after: str, *, new_file: bool = False) -> Iterator[str]:
    """Give the lines of the diff, each with its end; carriage returns stay in them."""
    name = name.lstrip("/")
    old = "/dev/null" if new_file else f"a/{name}"
    lines = difflib.unified_diff(_lines(before), _lines(after), old, f"b/{name}", n=3)
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}\n"


def _lines(text: str) -> list[str]:
    """Only line feeds end lines here: `str.splitlines` knows more characters than diffs do."""
    lines = text.split("\n")
    return [f"{line}\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
