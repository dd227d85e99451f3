"""Namespaces: their labels, for policies that select them."""

from __future__ import annotations

from typing import Any

import kopf

from drabridge.handlers.setup import Inbox


@kopf.on.event("v1", "namespaces")
async def namespace_seen(event: kopf.RawEvent, memo: Inbox, **_: Any) -> None:
    """A Namespace was created, changed or deleted."""
    memo.put(memo.caches.namespaces, event)
