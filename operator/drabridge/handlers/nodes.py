"""Nodes: device plugins and kubelet versions."""

from __future__ import annotations

from typing import Any

import kopf

from drabridge.handlers.setup import Inbox


@kopf.on.event("v1", "nodes")
async def node_seen(event: kopf.RawEvent, memo: Inbox, **_: Any) -> None:
    """A Node was created, changed or deleted."""
    memo.put(memo.caches.nodes, event)
