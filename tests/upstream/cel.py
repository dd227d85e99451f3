"""Upstream's CEL as an oracle and as a yardstick: the verbs cel-oracle and cel-bench of the control-plane program."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from upstream import oracle

Stage = Literal["compile", "runtime", "hang", "crash"]
PATIENCE_SECONDS = 5
"""Upstream has no bound on the digits of a Quantity: `quantity('1e999999999').add(1)` takes it minutes."""


class Environment(NamedTuple):
    """Which of DRA's environments: for stored expressions (knows everything), or for new ones with gates."""

    new_expressions: bool = False
    enable_consumable_capacity: bool = False
    enable_list_type_attributes: bool = True

    @classmethod
    def of(cls, case: dict[str, Any]) -> Environment:
        """Read it from a case of the data files: an absent gate of list types is on, the others are off."""
        lists = case.get("enableListTypeAttributes")
        return cls(
            new_expressions=bool(case.get("newExpressions")),
            enable_consumable_capacity=bool(case.get("enableConsumableCapacity")),
            enable_list_type_attributes=lists is not False,
        )

    def json(self) -> dict[str, bool]:
        return {
            "newExpressions": self.new_expressions,
            "enableConsumableCapacity": self.enable_consumable_capacity,
            "enableListTypeAttributes": self.enable_list_type_attributes,
        }


STORED = Environment()


@dataclass(frozen=True, slots=True)
class Question:
    """Does the device, as a ResourceSlice has it, match the expression?"""

    name: str
    expression: str
    driver: str
    device: dict[str, Any]
    environment: Environment = STORED

    def json(self) -> dict[str, Any]:
        asked = {"name": self.name, "expression": self.expression, "driver": self.driver, "device": self.device}
        return asked | self.environment.json()


@dataclass(frozen=True, slots=True)
class Answer:
    """`match` is None where there is an error. `cost` is None where nothing was evaluated.

    The stages "hang" (no answer came in time) and "crash" are no errors that are meant to be.
    """

    match: bool | None
    error: str = ""
    stage: Stage | None = None
    cost: int | None = None

    @property
    def outcome(self) -> str:
        """What any two implementations must agree on: true, false, compile or runtime."""
        return self.stage or str(self.match).lower()


class Oracle(oracle.Oracle):
    """A running cel-oracle."""

    def __init__(self, program: Path) -> None:
        super().__init__([str(program), "cel-oracle"], PATIENCE_SECONDS)

    def ask(self, question: Question) -> Answer:
        """Give upstream's answer."""
        said = self.exchange(question.json())
        if said is None:
            return Answer(None, f"no answer within {PATIENCE_SECONDS} s", "hang")
        assert said["name"] == question.name
        cost = said.get("cost")
        return Answer(said.get("match"), said.get("error", ""), said.get("stage"), cost["actual"] if cost else None)


def bench(program: Path, timings: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let upstream time expressions: {name, expression, driver, devices, rounds} each; see celTiming in cel.go."""
    lines = "".join(json.dumps(timing) + "\n" for timing in timings)
    done = subprocess.run([program, "cel-bench"], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]
