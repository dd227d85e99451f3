"""ExtendedResourcePolicies. Kopf would add annotations in change handlers, so these are events, too."""

from __future__ import annotations

from typing import Any

import kopf

from drabridge.handlers.setup import Inbox


@kopf.on.event("drabridge.io", "v1alpha1", "extendedresourcepolicies")
async def policy_seen(event: kopf.RawEvent, memo: Inbox, **_: Any) -> None:
    """A policy was created, changed or deleted."""
    memo.put(memo.caches.policies, event)
