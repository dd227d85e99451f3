"""What a check is, and what it finds."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drabridge.core.inventory.cluster import Inventory, Kind

SHOWN: Final = 3
"""Names that a sentence lists before it counts the others."""


class Severity(StrEnum):
    """How much a finding matters; the exit code follows the gravest one."""

    ERROR = "error"
    """Something does not work now, or gives wrong results."""

    WARNING = "warning"
    """It will not work under circumstances that are to be expected, or is not what somebody meant."""

    INFO = "info"
    """Worth knowing; nothing has to be done."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong with `object` ("ResourceClaim default/x"), by the `evidence` that was seen.

    `cure` is what to do about this very object; empty where the check's own words say it all.
    """

    object: str
    evidence: str
    cure: str = ""


Find = Callable[[Inventory], Iterator[Finding]]


@dataclass(frozen=True, slots=True)
class Check:
    """One check. `says` is what its findings mean, in a sentence.

    `serves` names the pain of users, or the trap, that it was made for. `needs` are the kinds without which its answer
    would be a guess: where one of them could not be seen, the check is not made.
    """

    id: str
    severity: Severity
    says: str
    cure: str
    serves: str
    link: str
    needs: tuple[Kind, ...]
    find: Find


def check(
    identity: str, severity: Severity, *, cure: str, serves: str, link: str, needs: Sequence[Kind]
) -> Callable[[Find], Check]:
    """Make a check of a function; its docstring is what the check says."""

    def made(find: Find) -> Check:
        says = " ".join((inspect.getdoc(find) or identity).split())
        return Check(identity, severity, says, cure, serves, link, tuple(needs), find)

    return made


def listed(names: Iterable[str]) -> str:
    """Names in a sentence: "a, b, c and 4 more"."""
    found = sorted(set(names))
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more


def counted(count: int, what: str) -> str:
    """A number of things: "1 node", "2 nodes"."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
