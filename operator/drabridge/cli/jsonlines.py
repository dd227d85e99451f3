"""What `--jsonl` is with every verb: one JSON value a line, each answered by one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, TextIO

from drabridge.cli.sources import DECODER, STDIN
from drabridge.core.errors import InvalidInput

TOO_DEEP: Final = "it is nested too deeply"

Answer = Callable[[bytes, int], tuple[bool, str]]
"""A line and its number, counted from 1 -> whether the line is bad, and the answer as JSON."""


class BadLine(Exception):
    """A line that holds no JSON; the text says why."""


def loaded(line: bytes) -> Any:
    """Give a line's value. Raises BadLine."""
    try:
        return DECODER.decode(line.decode())
    except UnicodeDecodeError as error:
        raise BadLine(f"byte {error.start} is no UTF-8") from None
    except RecursionError:
        raise BadLine(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise BadLine(f"it is no JSON: {error}") from None
    except ValueError as error:  # a field that comes twice, of which one would be lost
        raise BadLine(str(error)) from None


def run(paths: Iterable[str], output: TextIO, answer: Answer) -> int:
    """Answer all lines of all files but empty ones; give the exit code: 2 if a line was bad, else 0."""
    code = 0
    with ExitStack() as stack:
        for path in paths:
            try:
                lines: IO[bytes] = sys.stdin.buffer if path == STDIN else stack.enter_context(Path(path).open("rb"))
                for number, line in enumerate(lines, 1):
                    if line.strip():
                        is_bad, text = answer(line, number)
                        code = 2 if is_bad else code
                        output.write(f"{text}\n")
                        output.flush()  # whoever asks may wait for the answer before the next line
            except OSError as error:
                if isinstance(error, BrokenPipeError):
                    raise
                problem = (error.strerror or str(error)).lower()
                sys.stderr.write(f"drabridge: {InvalidInput(path, '', problem, 'name a file that can be read')}\n")
                code = 2
    return code
