"""ResourceClaimTemplates: whose devices Pods ask for by claims that are made of them (delivery Bind)."""

from __future__ import annotations

from typing import Any

import kopf

from drabridge.handlers.setup import Inbox


@kopf.on.event("resource.k8s.io", "v1", "resourceclaimtemplates")
async def template_seen(event: kopf.RawEvent, memo: Inbox, **_: Any) -> None:
    """A template was created or deleted."""
    if memo.caches.templates is not None:
        memo.put(memo.caches.templates, event)
