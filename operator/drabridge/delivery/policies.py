"""The status of ExtendedResourcePolicies. Only the Lease holder writes it."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from drabridge.core.bind.allocators import Allocators
from drabridge.core.errors import Missing
from drabridge.core.policy import Delivery
from drabridge.core.policystatus import status_of
from drabridge.core.usage import Usage, Usages
from drabridge.delivery.burst import TOLD_WITHIN, Burst
from drabridge.delivery.metrics import Metrics
from drabridge.delivery.supply import Supply
from drabridge.kube.caches import Caches
from drabridge.kube.client import Client, PatchType
from drabridge.kube.clock import SYSTEM, Clock, meta_time
from drabridge.kube.resources import EXTENDED_RESOURCE_POLICIES
from drabridge.kube.workqueue import WorkQueue

FIELD_MANAGER = "drabridge-status"
SETTLE = 1.0
"""Seconds that changes are collected before statuses are computed: a rollout changes their counts hundreds of times."""

ALL = ""
"""The key that stands for every policy: a change wakes one key, and what is in use is counted once for all of them."""

_log = structlog.get_logger(__name__)


class PolicyStatuses:
    """Keeps every policy's status as `core.policystatus` says it should be. Keys are policy names."""

    def __init__(
        self,
        caches: Caches,
        supply: Supply,
        client: Client,
        metrics: Metrics,
        allocators: Callable[[frozenset[str]], Allocators | None],
        burst: Burst,
        *,
        clock: Clock = SYSTEM,
    ) -> None:
        self._allocators = allocators
        self._caches = caches
        self._client = client
        self._clock = clock
        self._metrics = metrics
        self._supply = supply
        self._burst = burst
        self._usages: Usages = {}
        self.queue: WorkQueue[str] = WorkQueue(self.serve, workers=2, metrics=metrics.of_queue("policy"))

    def wake_all(self) -> None:
        """Compute every status again, soon; in a burst of Pods a little later."""
        self.queue.wake_after(ALL, TOLD_WITHIN if self._burst.lasts() else SETTLE)

    async def serve(self, name: str) -> None:
        """Write one policy's status if it is not what it should be."""
        if name == ALL:
            self._usages = self._caches.usage()
            for each in self._caches.policies:
                self.queue.wake(each.policy.name)
            return
        record = self._caches.policies.get(name)
        if record is None:
            return
        total = await self._supply.total(record.policy.device_class)
        usage = sum(
            (
                self._usages.get((record.policy.resource, delivery), Usage())
                for delivery in (Delivery.REWRITE, Delivery.BIND, Delivery.NATIVE)
            ),
            Usage(),
        )
        now = meta_time(self._clock.wall())
        conditions = record.status.get("conditions", ())
        others = self._allocators(await self._supply.drivers(record.policy.device_class))
        status = status_of(record.policy, self._caches.cluster(), usage, total, conditions, now, others)
        if status == record.status:
            return
        try:
            raw = await self._client.patch(
                EXTENDED_RESOURCE_POLICIES,
                None,
                name,
                {"metadata": {"name": name, "uid": record.policy.uid}, "status": status},
                PatchType.APPLY,
                subresource="status",
                field_manager=FIELD_MANAGER,
                force=True,
            )
        except Missing:
            return
        self._caches.policies.seen(raw)
        ready = status["conditions"][0]
        _log.info("policy status", policy=name, ready=ready["status"], reason=ready["reason"])

    def measure(self) -> None:
        """Bring the gauges up to date."""
        self._metrics.pods.clear()
        self._metrics.devices.clear()
        for (resource, delivery), usage in self._caches.usage().items():
            self._metrics.pods.labels(resource, delivery).set(usage.pods)
            self._metrics.devices.labels(resource, delivery).set(usage.allocated)
        self._metrics.queue_depth.labels("policy").set(self.queue.depth)
