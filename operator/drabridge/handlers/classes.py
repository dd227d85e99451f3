"""DeviceClasses: what stands behind resource names."""

from __future__ import annotations

from typing import Any

import kopf

from drabridge.handlers.setup import Inbox


@kopf.on.event("resource.k8s.io", "v1", "deviceclasses")
async def class_seen(event: kopf.RawEvent, memo: Inbox, **_: Any) -> None:
    """A DeviceClass was created, changed or deleted."""
    memo.put(memo.caches.classes, event)
