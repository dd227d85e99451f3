"""Rewritten Pods; the watch selects them on the server (`handlers.setup.settings`)."""

from __future__ import annotations

from typing import Any

import kopf

from drabridge.handlers.setup import Inbox


@kopf.on.event("v1", "pods")
async def pod_seen(event: kopf.RawEvent, memo: Inbox, **_: Any) -> None:
    """A rewritten Pod was created, changed or deleted."""
    memo.put(memo.caches.pods, event)
