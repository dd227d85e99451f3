"""ResourceClaims: ours, and the special ones of kube-scheduler."""

from __future__ import annotations

from typing import Any

import kopf

from drabridge.handlers.setup import Inbox


@kopf.on.event("resource.k8s.io", "v1", "resourceclaims")
async def claim_seen(event: kopf.RawEvent, memo: Inbox, **_: Any) -> None:
    """A claim was created, changed (allocated, most often) or deleted."""
    memo.put(memo.caches.claims, event)
