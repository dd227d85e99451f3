"""What was found in a file: what changes, what is left, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from drabridge.core.reasons import CURES, Reason


class Outcome(StrEnum):
    """What became of a thing that was found."""

    CHANGED = "changed"
    LEFT = "left"
    """It asks for extended resources and goes on doing so."""

    SKIPPED = "skipped"
    """The file or document is none of ours: a template, an empty file."""

    BROKEN = "broken"
    """The file or document cannot be read by anybody."""

    NOTE = "note"
    """Something that a person should know about a change."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. `line` counts from 1; it is 0, and `object` and `path` "", where a file is meant."""

    outcome: Outcome
    reason: Reason
    line: int
    object: str
    path: str
    detail: str

    @property
    def cure(self) -> str:
        """What a person can do."""
        return CURES[self.reason]


def dotted(path: tuple[str | int, ...]) -> str:
    """Write a path as messages of the API server do: spec.containers[0].resources.limits['example.com/gpu']."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif "/" in step or "." in step:
            text += f"['{step}']"
        else:
            text += f".{step}" if text else step
    return text
