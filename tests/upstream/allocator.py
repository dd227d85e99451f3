"""Upstream's allocator as an oracle and as a yardstick: allocator-oracle and allocator-bench of the control plane."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

Flavour = Literal["stable", "incubating", "experimental", "auto"]
"""Upstream has three implementations. "auto" is the scheduler's choice: the oldest that knows all that is asked for."""

TIMEOUT = "timeout"
"""The error of an answer that did not come in time."""

GRACE_SECONDS = 20
"""Upstream looks at its deadline in the search only; beyond this, it hangs elsewhere."""


class Oracle:
    """A running allocator-oracle. Not for use by several threads.

    `timeout` (seconds) is for one run of a scenario, `repeats` how often each is run.
    """

    def __init__(
        self, program: Path, *, flavour: Flavour = "experimental", timeout: float = 20, repeats: int = 1
    ) -> None:
        self._command = [
            str(program),
            "allocator-oracle",
            f"--variant={flavour}",
            f"--timeout={timeout}s",
            f"--repeats={repeats}",
            "--keep-compiled",
        ]
        self._patience = timeout * repeats + GRACE_SECONDS
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._scenarios, self._answers = self._process.stdin, self._process.stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._scenarios.close()
        self._answers.close()

    def ask(self, scenario: Mapping[str, Any]) -> dict[str, Any]:
        """Give upstream's answer: {id, results, error, allocateOneInvocations, ns, …}, or the error TIMEOUT."""
        self._scenarios.write(json.dumps(scenario).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self._answers], [], [], self._patience)[0]:
                self._stop()
                self._start()
                return {"id": scenario.get("id", ""), "results": None, "error": TIMEOUT}
            piece = self._answers.read(1 << 20)
            if not piece:
                raise RuntimeError(f"the oracle ended (exit code {self._process.wait()}) at {scenario.get('id')}")
            line += piece
        answer: dict[str, Any] = json.loads(line)
        assert answer["id"] == scenario.get("id", "")
        return answer


def bench(
    program: Path, timings: Iterable[Mapping[str, Any]], *, flavour: Flavour = "experimental"
) -> list[dict[str, Any]]:
    """Let upstream time allocations: {name, scenario, nodes, rounds, timeoutMs} each (allocatorTiming in allocator.go).

    Gives nanoseconds: {name, new, first, allocate, pass, rounds, steps, fits[, error]}.
    """
    lines = "".join(json.dumps(timing) + "\n" for timing in timings)
    command = [str(program), "allocator-bench", f"--variant={flavour}"]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
