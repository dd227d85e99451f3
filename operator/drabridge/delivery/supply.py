"""How many devices each DeviceClass has, and whose: counted again only where a slice or the class has changed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from drabridge.core.resourceslice import newest
from drabridge.core.supply import ClassSelectors, SliceView
from drabridge.kube.caches import Caches

BATCH = 20
"""Slices looked at before others get their turn: a webhook's answer must not wait for 40,000 devices to be counted."""


@dataclass(slots=True)
class _Counted:
    expressions: tuple[str, ...]
    selectors: ClassSelectors
    counts: dict[str, tuple[SliceView, int]] = field(default_factory=dict)
    """By slice name, with the view that was counted."""

    version: int = -1
    """Of the store of slices, when they were counted."""

    @property
    def total(self) -> int:
        return sum(count for _, count in self.counts.values())

    @property
    def drivers(self) -> frozenset[str]:
        return frozenset(piece.driver for piece, count in self.counts.values() if count)


class Supply:
    """Counts devices by class, and remembers the counts of slices that have stayed the same."""

    def __init__(self, caches: Caches) -> None:
        self._caches = caches
        self._counted: dict[str, _Counted] = {}
        self._counting = asyncio.Lock()

    async def total(self, device_class: str) -> int:
        """How many devices the class selects in the newest generation of all pools; 0 for a class that is not there."""
        known = await self._count(device_class)
        return known.total if known else 0

    async def drivers(self, device_class: str) -> frozenset[str]:
        """The drivers of these devices."""
        known = await self._count(device_class)
        return known.drivers if known else frozenset()

    async def _count(self, device_class: str) -> _Counted | None:
        async with self._counting:  # whoever comes meanwhile finds it counted
            return await self._counted_now(device_class)

    async def _counted_now(self, device_class: str) -> _Counted | None:
        view = self._caches.classes.get(device_class)
        if view is None:
            self._counted.pop(device_class, None)
            return None
        known = self._counted.get(device_class)
        if known is None or known.expressions != view.selectors:
            known = _Counted(view.selectors, ClassSelectors.of(view.selectors))
        version = self._caches.slices.version
        if known.version != version:
            known.counts = await self._counts(known)
            known.version = version
            self._counted[device_class] = known
        return known

    async def _counts(self, known: _Counted) -> dict[str, tuple[SliceView, int]]:
        counts: dict[str, tuple[SliceView, int]] = {}
        fresh = 0
        for piece in newest(self._caches.slices):
            former = known.counts.get(piece.name)
            if former and former[0] == piece:
                counts[piece.name] = former
                continue
            counts[piece.name] = (piece, known.selectors.count(piece))
            fresh += 1
            if fresh % BATCH == 0:
                await asyncio.sleep(0)
        return counts
