"""`drabridge simulate --jsonl`: allocation scenarios, one JSON object a line, each answered by one line.

The format is that of `core.allocation.scenario`. Upstream's faults are reproduced, so that the answers can be compared.
"""

from __future__ import annotations

import json
from typing import Final

from drabridge.cli import jsonlines
from drabridge.cli.jsonlines import BadLine
from drabridge.core.allocation.scenario import answer
from drabridge.core.allocation.strategy import Strategy
from drabridge.core.allocation.upstream_faults import UpstreamFaults

BAD: Final = "bad scenario"
"""What the error of an answer to a line that is no scenario begins with."""


def answers(faults: UpstreamFaults, strategy: Strategy) -> jsonlines.Answer:
    """What `jsonlines.run` answers each line with."""

    def answered(line: bytes, number: int) -> tuple[bool, str]:
        try:
            found = answer(jsonlines.loaded(line), faults=faults, strategy=strategy)
            return (found["error"] or "").startswith(BAD), json.dumps(found)
        except BadLine as bad:
            problem = str(bad)
        except RecursionError:  # what could only just be read
            problem = jsonlines.TOO_DEEP
        return True, json.dumps({**answer(None), "error": f"{BAD}: line {number}: {problem}"})

    return answered
