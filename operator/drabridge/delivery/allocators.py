"""Claims that somebody else has allocated, by driver, kept current claim by claim."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from drabridge.core.bind.allocators import SHOWN
from drabridge.core.bind.podclaims import ClaimRecord
from drabridge.kube.caches import Change
from drabridge.kube.client import FIELD_MANAGER


class OtherAllocators:
    """Who wrote an allocation is what the API server notes of it (managedFields). Where it does not say, it was us."""

    def __init__(self) -> None:
        self._claims: dict[str, dict[str, ClaimRecord]] = {}  # driver -> key -> claim

    def rebuild(self, claims: Iterable[ClaimRecord]) -> None:
        """Begin anew from these claims."""
        self._claims.clear()
        for record in claims:
            self.changed(Change(record.key, None, record))

    def changed(self, change: Change[ClaimRecord]) -> None:
        """Take in a change of one claim."""
        for driver in change.before.drivers if change.before else ():
            self._claims.get(driver, {}).pop(change.key, None)
        record = change.after
        if record is not None and record.allocated_by not in ("", FIELD_MANAGER):
            for driver in record.drivers:
                self._claims.setdefault(driver, {})[record.key] = record

    def of(self, drivers: Iterable[str]) -> tuple[int, tuple[ClaimRecord, ...]]:
        """How many there are with devices of these drivers, and the latest of them."""
        found = {key: record for driver in drivers for key, record in self._claims.get(driver, {}).items()}
        return len(found), tuple(heapq.nlargest(SHOWN, found.values(), key=lambda each: (each.allocated_at, each.key)))
