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


def run(paths: Iterable[str], output: TextIO, faults: UpstreamFaults, strategy: Strategy) -> int:
    """Answer all lines of all files; give the exit code: 2 if a line was no scenario, else 0."""
    code = 0
    with ExitStack() as stack:
        for path in paths:
            try:
                lines: IO[bytes] = sys.stdin.buffer if path == STDIN else stack.enter_context(Path(path).open("rb"))
                for found in _answers(lines, faults, strategy):
                    code = 2 if (found["error"] or "").startswith(BAD) else code
                    output.write(json.dumps(found) + "\n")
                    output.flush()  # whoever asks may wait for the answer before the next scenario
            except OSError as error:
                if isinstance(error, BrokenPipeError):
                    raise
                problem = (error.strerror or str(error)).lower()
                sys.stderr.write(f"drabridge: {InvalidInput(path, '', problem, 'name a file that can be read')}\n")
                code = 2
    return code


def _answers(lines: Iterable[bytes], faults: UpstreamFaults, strategy: Strategy) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        scenario, problem = _loaded(line)
        found = answer(scenario, faults=faults, strategy=strategy)
        yield {**found, "error": f"{BAD}: line {number}: {problem}"} if problem else found


def _loaded(line: bytes) -> tuple[Any, str]:
    """A line's JSON, or why it is none."""
    try:
        return json.loads(line.decode()), ""
    except UnicodeDecodeError as error:
        return None, f"byte {error.start} is no UTF-8"
    except RecursionError:
        return None, "it is nested too deeply"
    except ValueError as error:
        return None, f"it is no JSON: {error}"
