"""Bind during one term of the Lease holder: what has to be so before it answers, and what it sees to meanwhile."""

from __future__ import annotations

import asyncio
import gc
import uuid
from collections.abc import Callable
from typing import Any

import structlog

from drabridge.core.bind.allocators import Allocators
from drabridge.core.bind.taints import TaintRule
from drabridge.core.errors import DrabridgeError, Missing
from drabridge.core.reasons import Reason, with_cure
from drabridge.delivery.allocators import OtherAllocators
from drabridge.delivery.bind import Bindings
from drabridge.delivery.bindwrites import BindWrites
from drabridge.delivery.devices import Devices
from drabridge.delivery.metrics import Metrics
from drabridge.kube.caches import BindStores, Caches, Change, Store
from drabridge.kube.client import Client, PatchType
from drabridge.kube.clock import SYSTEM, Clock, micro_time
from drabridge.kube.recorder import ObjectRef, Recorder
from drabridge.kube.resources import DEVICE_CLASSES, DEVICE_TAINT_RULE_VERSIONS, PODS

LEADER_LABEL = "drabridge.io/leader"
"""On the Lease holder's own Pod: the extender's Service selects it, so that kube-scheduler reaches nobody else."""

WAKEUP = "drabridge-wakeup"
"""The DeviceClass whose change wakes what waits in kube-scheduler."""

WOKEN = "drabridge.io/woken"
LOOK_EVERY = 2.0
AGAIN_AFTER = 1.0

_log = structlog.get_logger(__name__)


class BindTerm:
    """Has `bindings` answer while a term lasts."""

    def __init__(  # noqa: PLR0913, PLR0917 - wired together in one place
        self,
        caches: Caches,
        stores: BindStores,
        client: Client,
        writer: Client,
        recorder: Recorder,
        metrics: Metrics,
        namespace: str,
        pod_name: str,
        begun: Callable[[], None] = lambda: None,
        *,
        clock: Clock = SYSTEM,
    ) -> None:
        self._caches = caches
        self._stores = stores
        self._client = client
        self._writer = writer
        self._recorder = recorder
        self._metrics = metrics
        self._namespace = namespace
        self._pod_name = pod_name
        self._begun = begun
        self._clock = clock
        self._current = False
        self._may_fit = False  # devices have come or changed, which kube-scheduler does not look at
        self._told: dict[str, str] = {}
        self._others = OtherAllocators()
        self._devices = Devices(stores, lambda: str(uuid.uuid4()))
        writes = BindWrites(stores, writer, clock=clock)
        self.bindings = Bindings(caches, stores, self._devices, writes, client, metrics, clock=clock)

    def changed(self, store: Store[Any], change: Change[Any]) -> None:
        """Take in what a watch has shown; between two terms nobody asks, and the next one begins anew."""
        if self._current:
            self._devices.changed(store, change)
            if store is self._stores.claims:
                self._others.changed(change)
            if store is self._stores.slices and change.after is not None:
                self._may_fit = True

    async def run(self, stop: asyncio.Event) -> None:
        """Serve from now until `stop` is set, and until the binds that are under way then have ended."""
        try:
            if await self._begin(stop):
                self.bindings.serving = True
                _log.info("binding Pods", scheduler=self._caches.bind_scheduler)
                await self._label_pods()
                await self._look(stop)
        finally:
            self.bindings.serving = False
            await self.bindings.landed()
            self._current = False
        await self._unlabel()

    async def _begin(self, stop: asyncio.Event) -> bool:
        """See everything as it is now, and take back what was left; whether that was done before `stop` was set.

        The watches may be behind what the leader before us wrote last.
        """
        while not stop.is_set():
            try:
                for store in self._stores.all:
                    await self._caches.relist(self._client, store)
                self._current = True
                self._devices.rebuild()
                self._others.rebuild(self._stores.claims)
                self._begun()
                await self._look_at_rules()
                await self.bindings.sweep(first=True)
                gc.freeze()  # else each full collection walks all that is cached, for seconds in a large cluster
            except DrabridgeError as error:
                _log.warning("cannot begin to bind Pods", error=str(error))
                await self._clock.pause(stop, AGAIN_AFTER)
            else:
                return not stop.is_set()
        return False

    async def _look(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            await self._clock.pause(stop, LOOK_EVERY)
            try:
                await self.bindings.sweep(first=False)
            except DrabridgeError as error:
                _log.warning("what was left is not taken back yet", error=str(error))
            try:
                await self._look_at_rules()
            except DrabridgeError as error:
                _log.warning("cannot look at DeviceTaintRules", error=str(error))
            self._tell_overlaps()
            await self._wake()

    async def _look_at_rules(self) -> None:
        """There are few of them, and before 1.37 most API servers do not serve them: asked for, not watched."""
        for resource in DEVICE_TAINT_RULE_VERSIONS:
            rules = []
            try:
                async for page in self._client.list_pages(resource):
                    rules += [TaintRule.of(raw) for raw in page["items"]]
            except Missing:
                continue
            if self._devices.taint(tuple(rules)):
                self._may_fit = True
                _log.info("DeviceTaintRules", rules=len(rules))
            return

    async def _wake(self) -> None:
        """Have kube-scheduler try the Pods again that fitted nowhere.

        It tries those that an extender refused on events of Pods, Nodes, claims and classes, but not of slices. A
        write of a DeviceClass of our own, which selects nothing, wakes them all.
        """
        if not (self._may_fit and self.bindings.refused):
            return
        annotations = {WOKEN: micro_time(self._clock.wall())}
        body = {"metadata": {"annotations": annotations}, "spec": {"selectors": [{"cel": {"expression": "false"}}]}}
        try:
            await self._writer.patch(DEVICE_CLASSES, None, WAKEUP, body, PatchType.APPLY, force=True)
        except DrabridgeError as error:
            _log.warning("kube-scheduler is not woken for new devices yet", error=str(error))
            return
        self._may_fit = False
        self.bindings.refused.clear()

    def _tell_overlaps(self) -> None:
        """Say it on both claims where two hold the same: somebody else allocates our drivers' devices as well."""
        for key, devices in self._devices.overlaps.items():
            record = self._stores.claims.get(key)
            if record is None or self._told.get(key) == devices:
                continue
            self._told[key] = devices
            others = [self._stores.claims.get(other) for other in self._devices.holders(key)]
            for each in (record, *(other for other in others if other)):
                ref = ObjectRef("ResourceClaim", "resource.k8s.io/v1", each.namespace, each.name, each.uid)
                note = with_cure(f"{devices} is allocated to more than one claim", Reason.DEVICES_OVERLAP)
                self._recorder.record(ref, Reason.DEVICES_OVERLAP, note, "Warning", "Allocate")
        for key in self._told.keys() - self._devices.overlaps.keys():
            del self._told[key]

    def allocators(self, drivers: frozenset[str]) -> Allocators | None:
        """Who else allocates the devices of these drivers; None before a term has begun, when nothing is known yet."""
        if not self._current:
            return None
        overlaps = (each for each in self._devices.overlapping() if not each.drivers.isdisjoint(drivers))
        return Allocators(tuple(overlaps), *self._others.of(drivers))

    def measure(self) -> None:
        """Bring the gauges up to date."""
        self._metrics.overlaps.set(len(self._devices.overlaps))

    async def _label_pods(self) -> None:
        """Have the Service lead to this Pod, and to no other."""
        try:
            async for page in self._client.list_pages(PODS, self._namespace, label_selector=LEADER_LABEL):
                for raw in page["items"]:
                    if raw["metadata"]["name"] != self._pod_name:
                        await self._label(raw["metadata"]["name"], None)
            await self._label(self._pod_name, "true")
        except DrabridgeError as error:
            _log.warning("the extender's Service may not lead here", pod=self._pod_name, error=str(error))

    async def _unlabel(self) -> None:
        try:
            await self._label(self._pod_name, None)
        except DrabridgeError as error:
            _log.info("the label stays; the next leader takes it away", pod=self._pod_name, error=str(error))

    async def _label(self, pod: str, value: str | None) -> None:
        body = {"metadata": {"labels": {LEADER_LABEL: value}}}
        await self._writer.patch(PODS, self._namespace, pod, body, PatchType.MERGE)
