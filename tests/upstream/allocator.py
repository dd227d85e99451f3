"""Upstream's allocator as an oracle and as a yardstick: allocator-oracle and allocator-bench of the control plane."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from upstream import oracle

Flavour = Literal["stable", "incubating", "experimental", "auto"]
"""Upstream has three implementations. "auto" is the scheduler's choice: the oldest that knows all that is asked for."""

TIMEOUT = "timeout"
"""The error of an answer that did not come in time."""

GRACE_SECONDS = 20
"""Upstream looks at its deadline in the search only; beyond this, it hangs elsewhere."""


class Oracle(oracle.Oracle):
    """A running allocator-oracle.

    `timeout` (seconds) is for one run of a scenario, `repeats` how often each is run.
    """

    def __init__(
        self, program: Path, *, flavour: Flavour = "experimental", timeout: float = 20, repeats: int = 1
    ) -> None:
        super().__init__(
            [
                str(program),
                "allocator-oracle",
                f"--variant={flavour}",
                f"--timeout={timeout}s",
                f"--repeats={repeats}",
                "--keep-compiled",
            ],
            timeout * repeats + GRACE_SECONDS,
        )

    def ask(self, scenario: Mapping[str, Any]) -> dict[str, Any]:
        """Give upstream's answer: {id, results, error, allocateOneInvocations, ns, …}, or the error TIMEOUT."""
        answer = self.exchange(scenario)
        if answer is None:
            return {"id": scenario.get("id", ""), "results": None, "error": TIMEOUT}
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
