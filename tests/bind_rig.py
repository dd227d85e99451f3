"""Bindings on a real API server whose answers can fail in each way, and a kube-scheduler that does not give up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from builders import GPU, GPU_CLASS, PodBuilder
from drabridge.core.bind.podclaims import FINALIZER, special_name
from drabridge.core.claims import CONDITION
from drabridge.core.errors import DrabridgeError, NotLeader
from drabridge.core.rewrite import ALLOCATION
from drabridge.delivery.bind import Bindings
from drabridge.delivery.bindwrites import BindWrites
from drabridge.delivery.devices import Devices
from drabridge.delivery.metrics import Metrics
from drabridge.kube.caches import Caches, Change, Store
from drabridge.kube.client import Client, PatchType
from drabridge.kube.clock import Clock
from drabridge.kube.resources import (
    DEVICE_CLASSES,
    EXTENDED_RESOURCE_POLICIES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from failing_client import FailingClient
from upstream import kubelet
from upstream.api import JSON, MERGE_PATCH, STRATEGIC_PATCH, Object
from upstream.controlplane import ControlPlane
from upstream.installation import REPOSITORY

SCHEDULER = "drabridge-scheduler"
DRIVER = "gpu.example.com"
TRIES = 12
TWO_OF_TWO = {"node-0": 2, "node-1": 2}
"""Nodes and how many devices they have."""

CLAIMS = RESOURCE_CLAIMS.path("default")
SLICES = RESOURCE_SLICES.path()


def claim(name: str, *, count: int = 1, owner: str = "", **status: Any) -> Object:
    metadata: Object = {"namespace": "default", "name": name}
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return {"metadata": metadata, "spec": spec} | ({"status": status} if status else {})


class BindApi:
    """Nothing but an API server and its etcd: no scheduler, nobody who collects garbage or releases claims.

    What its watches of claims, devices, classes and nodes show goes to `listener`.
    """

    def __init__(self, plane: ControlPlane, client: Client) -> None:
        self.plane = plane
        self.client = client
        self.listener: Callable[[Resource, Object, bool], None] = lambda *_: None
        self._standing: set[str] = set()

    @classmethod
    @asynccontextmanager
    async def start(cls, binary: Path, directory: Path) -> AsyncIterator[BindApi]:
        """Start it, with one DeviceClass that serves the name of all tests."""
        plane = ControlPlane(binary, directory=directory, components=("etcd", "kube-apiserver"))
        try:
            await plane.start()
            await plane.api.call(
                "POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}}
            )
            body = {**GPU_CLASS, "spec": {**GPU_CLASS["spec"], "selectors": []}}
            await plane.api.call("POST", DEVICE_CLASSES.path(), body)
            await plane.kubectl("apply", "--server-side", "-k", str(REPOSITORY / "crds"))
            await plane.kubectl("wait", "--for=condition=Established", "crd", "--all")
            async with await Client.connect(plane.kubeconfig_admin(), user_agent="drabridge/test") as client:
                found = cls(plane, client)
                watches = [
                    asyncio.create_task(found._watch(resource))
                    for resource in (RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_CLASSES, NODES)
                ]
                yield found
                for watch in watches:
                    assert not watch.done()
                    watch.cancel()
        finally:
            await plane.stop()

    async def _watch(self, resource: Resource) -> None:
        listed = await self.plane.api.call("GET", resource.path())
        async for kind, raw in self.plane.api.watch(resource.path(), listed["metadata"]["resourceVersion"]):
            self.listener(resource, raw, kind == "DELETED")

    async def have(self, nodes: Mapping[str, int]) -> None:
        """Have these nodes with so many devices, for good."""
        for name in nodes.keys() - self._standing:
            await self.plane.add_node(name, devices=nodes[name], driver=DRIVER, kubelet_version="v1.37.0")
            self._standing.add(name)

    async def clear(self) -> None:
        """Take away all Pods, claims and nodes of a test, whatever holds them."""
        api = self.plane.api
        await api.call("DELETE", PODS.path("default"), {"gracePeriodSeconds": 0})
        await api.call("DELETE", CLAIMS)
        for raw in (await api.call("GET", CLAIMS))["items"]:
            body = {"metadata": {"finalizers": None}}
            await api.call("PATCH", f"{CLAIMS}/{raw['metadata']['name']}", body, MERGE_PATCH)
        await api.call("DELETE", EXTENDED_RESOURCE_POLICIES.path())
        for raw in (await api.call("GET", NODES.path()))["items"]:
            if raw["metadata"]["name"] not in self._standing:
                await self.plane.remove_node(raw["metadata"]["name"])


class BindCluster:
    """Caches as the operator has them, filled by lists and kept by watches; and what others do in the cluster."""

    def __init__(self, api: BindApi) -> None:
        self.api = api
        self.caches = Caches(("default-scheduler",), SCHEDULER)
        assert self.caches.bind
        self.stores = self.caches.bind
        self.changed: Callable[[Store[Any], Change[Any]], None] = lambda *_: None
        self._kinds = {kind[0].resource: kind for kind in self.caches.kinds}
        self._versions: dict[str, int] = {}
        self._news = asyncio.Event()
        api.listener = self._seen

    def _seen(self, resource: Resource, raw: Object, deleted: bool) -> None:
        for store in self._kinds[resource]:
            change = store.seen(raw, deleted=deleted)
            if change and store in self.stores.all:
                self.changed(store, change)
        self._versions[resource.kind] = int(raw["metadata"]["resourceVersion"])
        self._news.set()

    async def list(self) -> None:
        """See everything as it is now."""
        for store in (*self.stores.all, self.caches.classes):
            await self.caches.relist(self.api.client, store)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for what the watches are to show."""
        async with asyncio.timeout(10):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def write(self, method: str, path: str, body: object, content_type: str = MERGE_PATCH) -> Object:
        """Write as somebody else does; return when the watch has shown it."""
        stored = await self.api.plane.api.call(method, path, body, content_type)
        return await self._shown(stored)

    async def _shown(self, stored: Object) -> Object:
        version = int(stored["metadata"]["resourceVersion"])
        await self.until(lambda: self._versions.get(stored["kind"], 0) >= version)
        return stored

    # --- what others do

    async def add_node(self, name: str, devices: int, **options: Any) -> Object:
        options = {"kubelet_version": "v1.37.0", **options}
        node = await self._shown(await self.api.plane.add_node(name, devices=0, **options))
        if devices:
            await self.add_devices(node, devices)
        return node

    async def add_devices(self, node: Object, devices: int) -> None:
        raw = kubelet.resource_slice(node, driver=DRIVER, pool=node["metadata"]["name"], devices=devices)
        await self.write("POST", SLICES, raw, JSON)

    async def add_pod(self, builder: PodBuilder) -> Object:
        raw = builder.with_spec(schedulerName=SCHEDULER).raw()
        made = await self.api.plane.api.call("POST", PODS.path("default"), raw)
        if "status" not in raw:
            return made
        path = PODS.path("default", made["metadata"]["name"], "status")
        return await self.api.plane.api.call("PATCH", path, {"status": raw["status"]}, STRATEGIC_PATCH)

    async def delete_pod(self, raw: Object) -> None:
        path = PODS.path("default", raw["metadata"]["name"])
        await self.api.plane.api.call("DELETE", path, {"gracePeriodSeconds": 0})

    async def add_claim(self, body: Object) -> Object:
        made = await self.write("POST", CLAIMS, {key: body[key] for key in ("metadata", "spec")}, JSON)
        return await self.patch_claim(made, {"status": body["status"]}) if "status" in body else made

    async def set_policy(self, **spec: Any) -> None:
        """Have a policy of the name, and see it."""
        kind = EXTENDED_RESOURCE_POLICIES
        body = {
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            "spec": {"resourceName": GPU, "devices": [{"deviceClassName": "gpu"}], **spec},
        }
        await self.api.client.patch(kind, None, "gpu", body, PatchType.APPLY)
        await self.caches.refresh(self.api.client, self.caches.policies)

    async def patch_claim(self, raw: Object, body: Object) -> Object:
        """Write metadata, or else the status."""
        path = f"{CLAIMS}/{raw['metadata']['name']}{'/status' if 'status' in body else ''}"
        return await self.write("PATCH", path, body)

    async def delete_claim(self, raw: Object) -> None:
        name = raw["metadata"]["name"]
        await self.patch_claim(raw, {"metadata": {"finalizers": None}})
        await self.api.plane.api.call("DELETE", f"{CLAIMS}/{name}")
        await self.until(lambda: self.stores.claims.get(f"default/{name}") is None)

    # --- what is there

    async def pods(self) -> list[Object]:
        """All Pods, by name."""
        items: list[Object] = (await self.api.plane.api.call("GET", PODS.path("default")))["items"]
        return items

    async def bound(self) -> list[str]:
        """The node of each Pod, by the Pods' names; "" for none."""
        return [raw["spec"].get("nodeName", "") for raw in await self.pods()]

    async def claims(self) -> list[Object]:
        items: list[Object] = (await self.api.plane.api.call("GET", CLAIMS))["items"]
        return items


class Rig(BindCluster):
    """Bindings on nodes with devices, and a kube-scheduler that does not give up. Who waits has no need to."""

    def __init__(self, api: BindApi, nodes: Mapping[str, int], metrics: Metrics) -> None:
        super().__init__(api)
        self.client = FailingClient(api.client)
        self.metrics = metrics
        self.names = list(nodes)
        self.now = 0.0

    @classmethod
    @asynccontextmanager
    async def on(
        cls, api: BindApi, nodes: Mapping[str, int] = TWO_OF_TWO, *, metrics: Metrics | None = None
    ) -> AsyncIterator[Rig]:
        """A rig with these nodes, and their numbers of devices. At the end nothing is left of it."""
        await api.have(nodes)
        rig = cls(api, nodes, metrics or Metrics())
        try:
            await rig.lead()
            yield rig
        finally:
            await api.clear()

    async def lead(self) -> None:
        """A new leader, who knows what the API server shows and nothing else."""
        numbers = iter(range(10**6))
        await self.list()
        self.devices = Devices(self.stores, lambda: f"share-{next(numbers)}")
        clock = Clock(pause=self._pause, monotonic=lambda: self.now)
        client: Any = self.client
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
        self.changed = self.devices.changed
        self.bindings.serving = True

    async def _pause(self, _: object, seconds: float | None) -> None:
        self.now += seconds or 0.0
        await asyncio.sleep(0)

    # --- what kube-scheduler does

    async def schedule(self, raw: Object) -> str:
        """One cycle: filter, then bind to the first node that is left. Raises what we raise."""
        found = await self.bindings.filter(raw, self.names)
        if not found.nodes:
            return next(iter(found.failed.values()))
        await self.bind(raw, found.nodes[0])
        return ""

    async def bind(self, raw: Object, node: str) -> None:
        metadata = raw["metadata"]
        await self.bindings.bind(metadata["namespace"], metadata["name"], metadata["uid"], node)

    async def settle(self, tries: int = TRIES) -> None:
        """Schedule what is pending until everything is bound, or nothing more can be. A lost Lease has a successor."""
        for _ in range(tries):
            sweeping = asyncio.create_task(self._sweep(first=False))
            waiting = [raw for raw in await self.pods() if not raw["spec"].get("nodeName")]
            for raw in waiting:
                try:
                    await self.schedule(raw)
                except NotLeader:
                    await self.lead()
                    await self._sweep()
                except DrabridgeError:
                    pass
            await sweeping
            if not waiting and not self.bindings._stuck:
                return

    async def _sweep(self, *, first: bool = True) -> None:
        try:
            await self.bindings.sweep(first=first)
        except NotLeader:
            await self.lead()
        except DrabridgeError:
            pass

    # --- what must hold at the end

    async def check(self) -> None:
        """By what the API server shows alone; and what is counted as in use is what it shows."""
        claims = {raw["metadata"]["name"]: raw for raw in await self.claims()}
        pods = await self.pods()
        _check_devices(claims)
        for raw in pods:
            _check_pod(raw, claims)
        owners = {raw["metadata"]["uid"] for raw in pods}
        for raw in claims.values():
            assert {each["uid"] for each in raw["metadata"].get("ownerReferences", ())} <= owners
            if "allocation" in raw.get("status", {}):
                assert FINALIZER in raw["metadata"].get("finalizers", ()), "its deletion would free devices in use"
        assert not self.devices._assumed, "what was decided is still counted besides what is there"
        held = {
            f"default/{name}": raw["status"]["allocation"]
            for name, raw in claims.items()
            if "allocation" in raw.get("status", {})
        }
        await self.until(lambda: self.devices._held == held)


def _check_devices(claims: Mapping[str, Object]) -> None:
    results = [
        each
        for raw in claims.values()
        for each in raw.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]
    held = [(each["driver"], each["pool"], each["device"]) for each in results]
    assert len(held) == len(set(held)), "a device is allocated twice"


def _check_pod(raw: Object, claims: Mapping[str, Object]) -> None:
    metadata, node = raw["metadata"], raw["spec"].get("nodeName")
    name = special_name(metadata["uid"])
    shown = raw.get("status", {}).get("extendedResourceClaimStatus", {})
    if node is None:
        assert name not in claims, "a claim is left over"
        conditions = {each["type"]: each["status"] for each in raw["status"].get("conditions", ())}
        assert conditions.get(CONDITION) != "True", "it says that it has devices"
        assert ALLOCATION not in metadata.get("annotations", {})
        return
    assert name in claims, "it runs without its claim"
    assert shown["resourceClaimName"] == name
    claim = claims[name]
    assert [each["uid"] for each in claim["status"]["reservedFor"]] == [metadata["uid"]]
    told = {(each["pool"], each["device"]) for each in json.loads(metadata["annotations"][ALLOCATION])}
    assert told == {(each["pool"], each["device"]) for each in claim["status"]["allocation"]["devices"]["results"]}
    selector = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    assert selector[0]["matchFields"][0]["values"] == [node]
