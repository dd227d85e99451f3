"""All checks, and the diagnosis that they come to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from drabridge.core.doctor import (
    allocations,
    claims,
    classes,
    limits,
    names,
    presence,
    quota,
    rights,
    scheduling,
    selectors,
    slices,
    versions,
)
from drabridge.core.doctor.findings import Check, Finding, Severity
from drabridge.core.errors import InvalidInput
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.gathering import NAMESPACED

THEMES: Final[Mapping[str, tuple[Check, ...]]] = {
    "versions": versions.CHECKS,
    "classes": classes.CHECKS,
    "names": names.CHECKS,
    "slices": slices.CHECKS,
    "selectors": selectors.CHECKS,
    "claims": claims.CHECKS,
    "allocations": allocations.CHECKS,
    "limits": limits.CHECKS,
    "quota": quota.CHECKS,
    "rights": rights.CHECKS,
    "scheduling": scheduling.CHECKS,
    "drabridge": presence.CHECKS,
}
"""The checks by theme, in the order in which they are made."""

CHECKS: Final[Mapping[str, Check]] = {check.id: check for checks in THEMES.values() for check in checks}
"""The checks by id."""

ORDER: Final = tuple(Severity)
"""The gravest first."""


@dataclass(frozen=True, slots=True)
class Unmade:
    """A check that was not made, since these kinds could not be seen."""

    check: Check
    unseen: tuple[Kind, ...]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What all chosen checks found, in their order; and those that could not be made."""

    found: tuple[tuple[Check, tuple[Finding, ...]], ...]
    unmade: tuple[Unmade, ...]
    made: int

    @property
    def gravest(self) -> Severity | None:
        """The severity of the gravest finding."""
        severities = {check.severity for check, _ in self.found}
        return next((severity for severity in ORDER if severity in severities), None)

    def within(self, namespace: str) -> Diagnosis:
        """The same without what concerns objects of other namespaces; what is of no namespace may concern all."""
        kept = ((check, tuple(each for each in found if _concerns(each, namespace))) for check, found in self.found)
        return replace(self, found=tuple((check, found) for check, found in kept if found))


def _concerns(finding: Finding, namespace: str) -> bool:
    kind, _, name = finding.object.partition(" ")
    return kind not in NAMESPACED or "/" not in name or name.startswith(f"{namespace}/")


def chosen(only: Collection[str], skip: Collection[str]) -> tuple[Check, ...]:
    """The checks that are meant by ids or themes. Raises InvalidInput for a word that is neither."""
    for word in (*only, *skip):
        if word not in CHECKS and word not in THEMES:
            raise InvalidInput("check", "", f"there is no check or theme {word}", "see drabridge doctor --list")
    wanted = _ids(only) or CHECKS.keys()
    return tuple(check for check in CHECKS.values() if check.id in wanted and check.id not in _ids(skip))


def _ids(words: Collection[str]) -> set[str]:
    found = {word for word in words if word in CHECKS}
    return found.union(*({check.id for check in THEMES[word]} for word in words if word in THEMES))


def diagnose(cluster: Inventory, checks: Collection[Check] = tuple(CHECKS.values())) -> Diagnosis:
    """Make these checks; one whose kinds could not all be seen is not made, and counted as such."""
    found: list[tuple[Check, tuple[Finding, ...]]] = []
    unmade = []
    for check in checks:
        if unseen := tuple(kind for kind in check.needs if kind in cluster.unseen):
            unmade.append(Unmade(check, unseen))
        elif findings := tuple(check.find(cluster)):
            found.append((check, findings))
    found.sort(key=lambda each: ORDER.index(each[0].severity))
    return Diagnosis(tuple(found), tuple(unmade), len(checks) - len(unmade))
