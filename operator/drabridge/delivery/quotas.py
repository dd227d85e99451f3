"""Companion quotas: the caps of ResourceQuotas on names that rewritten Pods no longer ask for. Lease holder only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from drabridge.core.auto import rewritten
from drabridge.core.caps import (
    COMPANION_OF,
    COMPANION_PREFIX,
    QuotaView,
    companion_hard,
    companion_name,
    is_companion,
    problem_of,
)
from drabridge.core.claims import MANAGED_BY
from drabridge.core.errors import Missing
from drabridge.core.reasons import Reason, with_cure
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
        self._metrics = metrics
        self.queue: WorkQueue[str] = WorkQueue(self.serve, workers=2, metrics=metrics.of_queue("quota"))

    def wake_all(self) -> None:
        """Look at every quota that names extended resources, and at every one that has a companion."""
        for quota in self._caches.quotas:
            self.wake(quota)

    def wake(self, quota: QuotaView) -> None:
        """Look at a quota, and at those whose companion it is or whose companion's name it has."""
        if quota.capped or quota.dead or self._companion(quota):
            self.queue.wake(quota.key)
        if quota.name.startswith(COMPANION_PREFIX):
            for each in self._caches.in_namespace(self._caches.quotas, quota.namespace):
                if companion_name(each) == quota.name:
                    self.queue.wake(each.key)

    async def serve(self, key: str) -> None:
        """Make one quota's companion what it should be. The garbage collector takes it away with its quota."""
        quota = self._caches.quotas.get(key)
        if quota is None:
            return
        served = rewritten(quota.capped, self._caches.cluster())
        self._report(quota, served)
        companion = self._companion(quota)
        wanted = companion_hard(quota, served)
        if companion is None and wanted:
            await self._make(quota, wanted)
        elif companion is not None and not wanted:
            await self._remove(companion)
        elif companion is not None and companion.devices != wanted:
            await self._apply(quota, wanted)

    def _companion(self, quota: QuotaView) -> QuotaView | None:
        named = self._caches.quotas.get(f"{quota.namespace}/{companion_name(quota)}")
        return named if named and is_companion(named, quota) else None

    async def _make(self, quota: QuotaView, hard: dict[str, str]) -> None:
        """Apply would change a quota of somebody else that has the name, so look first."""
        name = companion_name(quota)
        try:
            there = QuotaView.of(await self._client.get(RESOURCE_QUOTAS, quota.namespace, name))
        except Missing:
            there = None
        if there is not None and not is_companion(there, quota):
            self._record(
                quota, Reason.COMPANION_FOREIGN, f"ResourceQuota {there.key} is not the companion of {quota.key}"
            )
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

    def _report(self, quota: QuotaView, served: Mapping[str, str]) -> None:
        """Say on the quota which of its keys cap nothing, and which caps cannot be kept."""
        for name in sorted(quota.dead):
            self._record(quota, Reason.QUOTA_KEY_DEAD, f"spec.hard['{name}'] caps nothing")
        for name in sorted(quota.capped.keys() & served.keys()):
            if problem := problem_of(quota, name, served):
                self._record(quota, Reason.RESOURCE_QUOTA, f"Pods that ask for {name} are left alone: {problem}")

    def measure(self) -> None:
        """Bring the gauges up to date."""
        self._metrics.queue_depth.labels("quota").set(self.queue.depth)

    def _record(self, quota: QuotaView, reason: Reason, note: str) -> None:
        ref = ObjectRef("ResourceQuota", "v1", quota.namespace, quota.name, quota.uid)
        self._recorder.record(ref, reason, with_cure(note, reason), "Warning", "KeepCap")
