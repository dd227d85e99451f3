"""Whether Bind is the only one that gives away the devices of its drivers: what the policies' status says of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from drabridge.core.bind.podclaims import ClaimRecord
from drabridge.core.reasons import Reason, with_cure

CONDITION: Final = "OneAllocator"

SHOWN: Final = 5
"""Overlaps, and claims of others, that a message names."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """Claims that hold the same of these drivers: `devices`."""

    devices: str
    drivers: frozenset[str]
    claims: tuple[ClaimRecord, ...]


@dataclass(frozen=True, slots=True)
class Allocators:
    """What is to be seen of others at a policy's drivers: overlaps, and claims that somebody else has allocated.

    `others` counts those; `latest` are the last ones of them.
    """

    overlaps: tuple[Overlap, ...] = ()
    others: int = 0
    latest: tuple[ClaimRecord, ...] = ()


def verdict(seen: Allocators) -> tuple[bool, Reason, str]:
    """Status, reason and message of the condition. The weightier comes first; the length is bounded."""
    if seen.overlaps:
        detail = _listed([f"{each.devices}: {_named(each.claims)}" for each in seen.overlaps[:SHOWN]], seen.overlaps)
        return False, Reason.DEVICES_OVERLAP, with_cure(detail, Reason.DEVICES_OVERLAP)
    if seen.others:
        more = f" and {seen.others - len(seen.latest)} more" if seen.others > len(seen.latest) else ""
        detail = f"claims with devices of these drivers that others have allocated: {_named(seen.latest)}{more}"
        return False, Reason.OTHER_ALLOCATOR, with_cure(detail, Reason.OTHER_ALLOCATOR)
    return True, Reason.ONE_ALLOCATOR, "All claims with devices of these drivers were allocated by drabridge."


def _listed(texts: Iterable[str], all_: Sequence[object]) -> str:
    more = f"; and {len(all_) - SHOWN} more" if len(all_) > SHOWN else ""
    return "; ".join(text[:1000] for text in texts) + more


def _named(claims: Iterable[ClaimRecord]) -> str:
    return ", ".join(f"ResourceClaim {claim.key}{_written(claim)}" for claim in claims)


def _written(claim: ClaimRecord) -> str:
    return f" (by {claim.allocated_by}, {claim.allocated_at})" if claim.allocated_by else ""
