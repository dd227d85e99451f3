"""Bindings on a world in memory, and a kube-scheduler that does not give up."""

from __future__ import annotations

import asyncio
from typing import Any

from bind_world import Object, World
from builders import GPU_CLASS, PodBuilder
from drabridge.core.bind.podclaims import special_name
from drabridge.core.errors import DrabridgeError, NotLeader
from drabridge.delivery.bind import Bindings
from drabridge.delivery.bindwrites import BindWrites
from drabridge.delivery.devices import Devices
from drabridge.delivery.metrics import Metrics
from drabridge.kube.caches import Caches
from drabridge.kube.clock import Clock
from upstream import kubelet

SCHEDULER = "drabridge-scheduler"
TRIES = 12


class Rig:
    """Bindings on a world of nodes with devices, and a kube-scheduler that does not give up."""

    def __init__(self, *, nodes: int = 2, devices: int = 2, metrics: Metrics | None = None) -> None:
        self.caches = Caches(("default-scheduler",), SCHEDULER)
        assert self.caches.bind
        self.stores = self.caches.bind
        self.world = World(self.stores)
        self.metrics = metrics or Metrics()
        self.now = 0.0
        device_class = {**GPU_CLASS, "spec": {**GPU_CLASS["spec"], "selectors": []}}
        self.world.add("DeviceClass", device_class)
        self.caches.classes.seen(device_class)
        self.names = [f"node-{number}" for number in range(nodes)]
        for name in self.names:
            self.add_node(name, devices)
        self.lead()

    def lead(self) -> None:
        """A new leader, who knows what the API server shows and nothing else."""
        numbers = iter(range(10**6))
        self.devices = Devices(self.stores, lambda: f"share-{next(numbers)}")
        clock = Clock(pause=self._pause, monotonic=lambda: self.now)
        client: Any = self.world
        self.bindings = Bindings(
            self.caches,
            self.stores,
            self.devices,
            BindWrites(self.stores, client, clock=clock),
            client,
            self.metrics,
            clock=clock,
        )
        self.devices.rebuild()
        self.world.changed = self.devices.changed
        self.bindings.serving = True

    def add_node(self, name: str, devices: int, *, allocatable: dict[str, str] | None = None) -> None:
        node = kubelet.node(name, labels={})
        node["status"] = kubelet.node_status(allocatable=allocatable or {}, kubelet_version="v1.37.0")
        self.world.add("Node", node)
        if devices:
            self.world.add(
                "ResourceSlice", kubelet.resource_slice(node, driver="gpu.example.com", pool=name, devices=devices)
            )

    def add_pod(self, builder: PodBuilder) -> Object:
        return self.world.add("Pod", builder.with_spec(schedulerName=SCHEDULER).raw())

    async def schedule(self, raw: Object) -> str:
        """One cycle of kube-scheduler: filter, then bind to the first node that is left. Raises what we raise."""
        found = await self.bindings.filter(raw, self.names)
        if not found.nodes:
            return next(iter(found.failed.values()))
        metadata = raw["metadata"]
        await self.bindings.bind(metadata["namespace"], metadata["name"], metadata["uid"], found.nodes[0])
        return ""

    async def settle(self, tries: int = TRIES) -> None:
        """Schedule what is pending until everything is bound, or nothing more can be. A lost Lease has a successor."""
        for _ in range(tries):
            sweeping = asyncio.create_task(self._sweep(first=False))
            for raw in [each for each in self.world.pods() if not each["spec"].get("nodeName")]:
                try:
                    await self.schedule(raw)
                except NotLeader:
                    self.lead()
                    await self._sweep()
                except DrabridgeError:
                    pass
            await sweeping

    async def _sweep(self, *, first: bool = True) -> None:
        try:
            await self.bindings.sweep(first=first)
        except NotLeader:
            self.lead()
        except DrabridgeError:
            pass

    async def _pause(self, _: object, seconds: float | None) -> None:
        self.now += seconds or 0.0
        await asyncio.sleep(0)

    def check(self) -> None:
        """What must hold at the end, by what the API server shows alone."""
        claims = {raw["metadata"]["name"]: raw for raw in self.world.claims()}
        held: list[tuple[str, str, str]] = []
        for raw in claims.values():
            status = raw.get("status", {})
            results = (status.get("allocation") or {}).get("devices", {}).get("results", ())
            held += [(each["driver"], each["pool"], each["device"]) for each in results]
        assert len(held) == len(set(held)), "a device is allocated twice"
        for raw in self.world.pods():
            metadata, node = raw["metadata"], raw["spec"].get("nodeName")
            name = special_name(metadata["uid"])
            shown = raw.get("status", {}).get("extendedResourceClaimStatus", {})
            if node is None:
                assert name not in claims, "a claim is left over"
                assert not shown
            else:
                assert name in claims, "it runs without its claim"
                assert shown["resourceClaimName"] == name
                claim = claims[name]
                assert [each["uid"] for each in claim["status"]["reservedFor"]] == [metadata["uid"]]
                selector = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
                assert selector[0]["matchFields"][0]["values"] == [node]
        owners = {raw["metadata"]["uid"] for raw in self.world.pods()}
        for raw in claims.values():
            assert {each["uid"] for each in raw["metadata"].get("ownerReferences", ())} <= owners
        if not self.bindings._flights:
            assert not self.devices._assumed, "what was decided is still counted besides what is there"
