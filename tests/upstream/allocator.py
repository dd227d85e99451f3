"""Upstream's allocator as an oracle and as a yardstick: allocator-oracle and allocator-bench of the control plane."""

from __future__ import annotations

import json
import select
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Times:
    """How long upstream took, in seconds: medians over the rounds.

    `new` is building the allocator from all slices, which kube-scheduler does once for a Pod; `allocate` is one node;
    `whole_pass` is all nodes, one after the other; `first` is the very first Allocate, which compiles the selectors.
    `steps` and `fits` (nodes) are those of the first pass. `error` ends the rounds: "timeout" for a search too long.
    """

    new: float
    first: float
    allocate: float
    whole_pass: float
    rounds: int
    steps: int
    fits: int
    error: str


def times(
    program: Path,
    scenarios: Mapping[str, Mapping[str, Any]],
    *,
    nodes: Sequence[Mapping[str, Any]] = (),
    rounds: int = 200,
    timeout: float = 3,
    budget: float = 2,
    flavour: Flavour = "experimental",
) -> dict[str, Times]:
    """Let upstream time scenarios, by name: each on its own node, or on all of `nodes` if there are any.

    `timeout` (seconds) is for one Allocate, `budget` for all rounds of a scenario.
    """
    limits = {"rounds": rounds, "timeoutMs": int(timeout * 1000), "budgetMs": int(budget * 1000)}
    lines = (
        json.dumps({"name": name, "scenario": scenario, "nodes": list(nodes), **limits})
        for name, scenario in scenarios.items()
    )
    command = [str(program), "allocator-bench", f"--variant={flavour}"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, check=True)
    return {each["name"]: _times(each) for each in map(json.loads, done.stdout.splitlines())}


def _times(said: Mapping[str, Any]) -> Times:
    new, first, allocate, whole_pass = (said[name] / 1e9 for name in ("new", "first", "allocate", "pass"))
    return Times(new, first, allocate, whole_pass, said["rounds"], said["steps"], said["fits"], said.get("error", ""))
