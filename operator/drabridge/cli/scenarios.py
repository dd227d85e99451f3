"""`drabridge simulate --jsonl`: allocation scenarios, one JSON object a line, each answered by one line.

The format is that of `core.allocation.scenario`. Upstream's faults are reproduced, so that the answers can be compared.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, Final, TextIO

from drabridge.cli.sources import STDIN
from drabridge.core.allocation.scenario import answer
from drabridge.core.allocation.strategy import Strategy
from drabridge.core.allocation.upstream_faults import UpstreamFaults
from drabridge.core.errors import InvalidInput

BAD: Final = "bad scenario"
"""What the error of an answer to a line that is no scenario begins with."""

_TOO_DEEP: Final = "it is nested too deeply"


def run(paths: Iterable[str], output: TextIO, faults: UpstreamFaults, strategy: Strategy) -> int:
    """Answer all lines of all files; give the exit code: 2 if a line was no scenario, else 0."""
    code = 0
    with ExitStack() as stack:
        for path in paths:
            try:
                lines: IO[bytes] = sys.stdin.buffer if path == STDIN else stack.enter_context(Path(path).open("rb"))
                for is_bad, answered in _answers(lines, faults, strategy):
                    code = 2 if is_bad else code
                    output.write(f"{answered}\n")
                    output.flush()  # whoever asks may wait for the answer before the next scenario
            except OSError as error:
                if isinstance(error, BrokenPipeError):
                    raise
                problem = (error.strerror or str(error)).lower()
                sys.stderr.write(f"drabridge: {InvalidInput(path, '', problem, 'name a file that can be read')}\n")
                code = 2
    return code


def _answers(lines: Iterable[bytes], faults: UpstreamFaults, strategy: Strategy) -> Iterator[tuple[bool, str]]:
    """Whether a line is bad, and its answer as JSON."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _answered(line, number, faults, strategy)


def _answered(line: bytes, number: int, faults: UpstreamFaults, strategy: Strategy) -> tuple[bool, str]:
    scenario, problem = _loaded(line)
    if not problem:
        try:
            found = answer(scenario, faults=faults, strategy=strategy)
            return (found["error"] or "").startswith(BAD), json.dumps(found)
        except RecursionError:  # what could only just be read
            problem = _TOO_DEEP
    return True, json.dumps({**answer(None), "error": f"{BAD}: line {number}: {problem}"})


def _loaded(line: bytes) -> tuple[Any, str]:
    """A line's JSON, or why it is none."""
    try:
        return json.loads(line.decode()), ""
    except UnicodeDecodeError as error:
        return None, f"byte {error.start} is no UTF-8"
    except RecursionError:
        return None, _TOO_DEEP
    except ValueError as error:
        return None, f"it is no JSON: {error}"
