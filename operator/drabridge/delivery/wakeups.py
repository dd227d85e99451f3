"""What each change in the cluster wakes. Kopf's handlers call this and do nothing else.

Events go into the caches first; only what changed a view there wakes anybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from drabridge.core.errors import DrabridgeError
from drabridge.delivery.burst import Burst
from drabridge.delivery.policies import PolicyStatuses
from drabridge.delivery.quotas import CompanionQuotas
from drabridge.delivery.rewrite import Rewrites
from drabridge.kube.caches import Caches, Change, Store
from drabridge.kube.client import Client
from drabridge.kube.clock import SYSTEM, Clock

PRUNE_AFTER_RELIST = 5.0
PRUNE_EVERY = 600.0

_log = structlog.get_logger(__name__)


class Wakeups:
    """Takes in watch events, and finds the deletions that watches did not tell of."""

    def __init__(  # noqa: PLR0913 - wired together in one place
        self,
        caches: Caches,
        client: Client,
        rewrites: Rewrites,
        policies: PolicyStatuses,
        quotas: CompanionQuotas,
        bind_changed: Callable[[Store[Any], Change[Any]], None],
        burst: Burst,
        *,
        leading: Callable[[], bool],
        clock: Clock = SYSTEM,
    ) -> None:
        self._caches = caches
        self._client = client
        self._rewrites = rewrites
        self._policies = policies
        self._quotas = quotas
        self._bind_changed = bind_changed
        self._burst = burst
        self._leading = leading
        self._clock = clock
        self._relisted = False
        self._kinds = {kind[0]: kind for kind in caches.kinds}
        self._of_bind = frozenset[Store[Any]](caches.bind.all if caches.bind else ())
        self._after: dict[Store[Any], Callable[[Change[Any]], None]] = {
            caches.pods: self._pod_changed,
            caches.claims: self._claim_changed,
            caches.quotas: self._quota_changed,
            caches.slices: lambda _: None,  # only statuses count devices; whether Pods get them is kube-scheduler's
        }

    def seen(self, store: Store[Any], event: Mapping[str, Any]) -> None:
        """Take in one event of Kopf's: `type` is ADDED, MODIFIED, DELETED, or None from a list."""
        if event["type"] is None:
            self._relisted = True
        for each in self._kinds[store]:
            change = each.seen(event["object"], deleted=event["type"] == "DELETED")
            if change:
                self._changed(each, change)

    async def prune(self, stop: asyncio.Event) -> None:
        """Compare all stores with the API server until `stop` is set: soon after a list, and now and then.

        All of them, because a kind whose last object went shows nothing in its list that could tell of it.
        """
        due = self._clock.monotonic() + PRUNE_EVERY
        while not stop.is_set():
            await self._clock.pause(stop, PRUNE_AFTER_RELIST)
            if not self._relisted and self._clock.monotonic() < due:
                continue
            self._relisted = False
            due = self._clock.monotonic() + PRUNE_EVERY
            for kind in self._kinds.values():
                await self._prune(kind)

    async def _prune(self, kind: Sequence[Store[Any]]) -> None:
        try:
            for store, changes in await self._caches.prune(self._client, kind):
                for change in changes:
                    self._changed(store, change)
        except DrabridgeError as error:
            self._relisted = True
            _log.warning("cannot compare a cache", kind=kind[0].resource.kind, error=str(error))

    def _changed(self, store: Store[Any], change: Change[Any]) -> None:
        if store in self._of_bind:
            self._bind_changed(store, change)
            return
        if store is self._caches.templates:
            return  # only admission looks at them
        if not self._leading():
            return  # a term begins with everything; until then keys would only pile up
        after = self._after.get(store)
        if after:
            after(change)
        else:
            # Classes, policies, namespaces, limits, nodes: whoever waits may have waited for this.
            self._rewrites.wake_waiting()
            if store in {self._caches.classes, self._caches.policies, self._caches.nodes}:
                self._quotas.wake_all()  # which names are rewritten may be another matter now
        self._policies.wake_all()

    def _pod_changed(self, change: Change[Any]) -> None:
        self._rewrites.queue.wake(change.key)

    def _claim_changed(self, change: Change[Any]) -> None:
        if change.before is None:
            self._burst.claimed()
        for key in self._caches.pods.keys_of(change.key):
            self._rewrites.queue.wake(key)

    def _quota_changed(self, change: Change[Any]) -> None:
        """A cap was raised, or something was given back: what was refused may be granted now."""
        if quota := change.after or change.before:
            self._quotas.wake(quota)
        self._rewrites.wake_waiting()
