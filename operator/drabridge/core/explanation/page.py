"""What a page is made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from drabridge.core.doctor.findings import Check, Finding
from drabridge.core.doctor.registry import diagnose
from drabridge.core.inventory.cluster import Inventory

NOT_SEEN: Final = "NotSeen"
"""The reason where something may hold the object up, and what would tell was not seen."""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands below it."""

    title: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeldUp:
    """The first thing that keeps the object from what it is for.

    `reason` is a word of `core.reasons` where it is drabridge's, else one of ours that says the same everywhere.
    `cures` would each suffice.
    """

    reason: str
    evidence: str
    cures: tuple[str, ...]
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """The whole answer. `conclusion` is one sentence; `held_up` is None where nothing is in the way."""

    title: str
    conclusion: str
    sections: tuple[Section, ...]
    held_up: HeldUp | None = None
    related: tuple[tuple[Check, Finding], ...] = field(default=())
    """What doctor finds about the object, and about what it depends on."""


def related(cluster: Inventory, objects: set[str]) -> tuple[tuple[Check, Finding], ...]:
    """What doctor finds about these objects ("Pod default/web", "DeviceClass gpu.example.com")."""
    return tuple(
        (check, finding)
        for check, findings in diagnose(cluster).found
        for finding in findings
        if finding.object in objects
    )
