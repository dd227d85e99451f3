"""LimitRanges and ResourceQuotas: caps on names that must not be lost by a rewrite."""

from __future__ import annotations

from typing import Any

import kopf

from drabridge.handlers.setup import Inbox


@kopf.on.event("v1", "limitranges")
async def limit_range_seen(event: kopf.RawEvent, memo: Inbox, **_: Any) -> None:
    """A LimitRange was created, changed or deleted."""
    memo.put(memo.caches.limit_ranges, event)


@kopf.on.event("v1", "resourcequotas")
async def quota_seen(event: kopf.RawEvent, memo: Inbox, **_: Any) -> None:
    """A ResourceQuota was created, changed or deleted."""
    memo.put(memo.caches.quotas, event)
