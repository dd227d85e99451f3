"""ResourceSlices: how many devices there are."""

from __future__ import annotations

from typing import Any

import kopf

from drabridge.handlers.setup import Inbox


@kopf.on.event("resource.k8s.io", "v1", "resourceslices")
async def slice_seen(event: kopf.RawEvent, memo: Inbox, **_: Any) -> None:
    """A ResourceSlice was created, changed or deleted."""
    memo.put(memo.caches.slices, event)
