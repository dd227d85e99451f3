"""Companion quotas: the caps of ResourceQuotas on names that rewritten Pods no longer ask for. Lease holder only."""

from __future__ import annotations

from typing import Any

import structlog

from drabridge.core.auto import rewritten
from drabridge.core.caps import COMPANION_OF, QuotaView, companion_hard, companion_name
from drabridge.core.claims import MANAGED_BY
from drabridge.core.errors import Missing
from drabridge.core.reasons import CURES, Reason
from drabridge.delivery.metrics import Metrics
from drabridge.kube.caches import Caches
from drabridge.kube.client import Client, PatchType
from drabridge.kube.recorder import ObjectRef, Recorder
from drabridge.kube.resources import RESOURCE_QUOTAS
from drabridge.kube.workqueue import WorkQueue

FIELD_MANAGER = "drabridge-quotas"

_log = structlog.get_logger(__name__)


class CompanionQuotas:
    """Keeps a companion for each quota that needs one. Keys are namespace/name of the quotas of users."""

    def __init__(self, caches: Caches, client: Client, recorder: Recorder, metrics: Metrics) -> None:
        self._caches = caches
        self._client = client
        self._recorder = recorder
        self.queue: WorkQueue[str] = WorkQueue(self.serve, workers=2, metrics=metrics.of_queue("quota"))

    def wake_all(self) -> None:
        """Look at every quota that names extended resources, and at every one that has a companion."""
        for quota in self._caches.quotas:
            self.wake(quota)

    def wake(self, quota: QuotaView) -> None:
        """Look at a quota, or at the one that it is the companion of."""
        if not quota.companion_of:
            if quota.capped or quota.dead or self._companion(quota):
                self.queue.wake(quota.key)
            return
        for each in self._caches.in_namespace(self._caches.quotas, quota.namespace):
            if each.uid == quota.companion_of:
                self.queue.wake(each.key)

    async def serve(self, key: str) -> None:
        """Make one quota's companion what it should be. The garbage collector takes it away with its quota."""
        quota = self._caches.quotas.get(key)
        if quota is None or quota.companion_of:
            return
        self._report_dead_keys(quota)
        companion = self._companion(quota)
        wanted = companion_hard(quota, rewritten(quota.capped, self._caches.cluster()))
        if companion is None and wanted:
            await self._make(quota, wanted)
        elif companion is not None and not wanted:
            await self._remove(companion)
        elif companion is not None and companion.devices != wanted:
            await self._apply(quota, wanted)

    def _companion(self, quota: QuotaView) -> QuotaView | None:
        others = self._caches.in_namespace(self._caches.quotas, quota.namespace)
        return next((each for each in others if each.companion_of == quota.uid), None)

    async def _make(self, quota: QuotaView, hard: dict[str, str]) -> None:
        """Apply would change a quota of somebody else that has the name, so look first."""
        name = companion_name(quota)
        try:
            there = QuotaView.of(await self._client.get(RESOURCE_QUOTAS, quota.namespace, name))
        except Missing:
            there = None
        if there is not None and there.companion_of != quota.uid:
            note = f"ResourceQuota {there.key} is not the companion of {quota.key}. Cure: "
            self._record(quota, Reason.COMPANION_FOREIGN, note + f"{CURES[Reason.COMPANION_FOREIGN]}.")
            return
        await self._apply(quota, hard)

    async def _apply(self, quota: QuotaView, hard: dict[str, str]) -> None:
        owner = {"apiVersion": "v1", "kind": "ResourceQuota", "name": quota.name, "uid": quota.uid}
        body: dict[str, Any] = {
            "metadata": {
                "name": companion_name(quota),
                "labels": {**MANAGED_BY, COMPANION_OF: quota.uid},
                "ownerReferences": [owner],
            },
            "spec": {"hard": hard},
        }
        raw = await self._client.patch(
            RESOURCE_QUOTAS,
            quota.namespace,
            companion_name(quota),
            body,
            PatchType.APPLY,
            field_manager=FIELD_MANAGER,
            force=True,
        )
        self._caches.quotas.seen(raw)
        _log.info("companion quota written", quota=quota.key, hard=hard)

    async def _remove(self, companion: QuotaView) -> None:
        try:
            await self._client.delete(RESOURCE_QUOTAS, companion.namespace, companion.name, uid=companion.uid)
        except Missing:
            return
        _log.info("companion quota removed", companion=companion.key)

    def _report_dead_keys(self, quota: QuotaView) -> None:
        for name in sorted(quota.dead):
            note = f"spec.hard['{name}'] caps nothing. Cure: {CURES[Reason.QUOTA_KEY_DEAD]}."
            self._record(quota, Reason.QUOTA_KEY_DEAD, note)

    def _record(self, quota: QuotaView, reason: Reason, note: str) -> None:
        ref = ObjectRef("ResourceQuota", "v1", quota.namespace, quota.name, quota.uid)
        self._recorder.record(ref, reason, note, "Warning", "KeepCap")
