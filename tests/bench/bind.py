"""How fast Bind schedules, beside native kube-scheduler: `make bench-bind PARTS="compare large" > bind.json`.

compare: 500 Pods x 1 device on 100 nodes x 8, at kube-scheduler's default client QPS and at 5000.
large: 2,000 Pods x 1 device on 400 nodes x 8, at QPS 5000.
upstream: the shape of upstream's own performance test of extended resources: 25 DeviceClasses, 500 nodes x 10 devices,
2,500 Pods before and 2,500 measured; both at QPS 5000.

volumes: 200 Pods x 1 device on 30 nodes x 8, each with a volume that takes 3 s to be made. kube-scheduler asks for the
binding only then, and meanwhile looks at the next Pods.
takeover: how long Pods wait when the leader is killed.

filter: what answers to filter (JSON included) and the choice of devices at bind take with 5,000 nodes x 8 and 30,000
allocated, in one process; no API server is asked, the caches are filled with what one would show.

The figures are JSON on stdout; what is being measured is said on stderr. Everything runs on the same machine: control
plane, operator, schedulers, and the clients that load them. Not a test: nothing here passes or fails, but a cluster in
which a device is allocated twice gives no figures.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import resource as resource_usage
import statistics
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog

sys.path.insert(0, str(Path(__file__).parents[1]))

from usage import cpu_seconds, milliseconds_each
from workload import CREATORS, PODS, all_bound

import builders
from drabridge.core.bind.placement import Placement
from drabridge.core.bind.podclaims import special_name
from drabridge.delivery.bind import Bindings, SeenPod
from drabridge.delivery.devices import Devices
from drabridge.delivery.metrics import Metrics
from drabridge.kube.caches import Caches
from upstream import kubelet
from upstream.api import Object, wait_for
from upstream.build import binary
from upstream.controlplane import ControlPlane
from upstream.installation import NAMESPACE, Installation, Replica
from upstream.processes import free_port
from upstream.scheduler import BindScheduler
from upstream.switch import Switch

DRIVER = "gpu.example.com"
CLAIMS = "/api/v1/namespaces/bench/persistentvolumeclaims"
VOLUME_SECONDS = 3.0

USERS = {
    "native": "system:kube-scheduler",
    "bind": f"system:serviceaccount:{NAMESPACE}:drabridge",
    "bind scheduler": f"system:serviceaccount:{NAMESPACE}:drabridge-scheduler",
}


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


def resource(number: int) -> str:
    return f"example.com/gpu-{number}"


@dataclass
class Bench:
    """A cluster, and the operator in it where Bind is measured."""

    plane: ControlPlane
    delivery: str
    classes: int
    replica: Replica | None = None
    installation: Installation | None = None
    created: int = 0
    volumes: bool = False
    """Whether each Pod has a volume of its own."""

    async def create(self, count: int) -> None:
        names = iter(range(self.created, self.created + count))
        self.created += count

        async def creator() -> None:
            for number in names:
                if self.volumes:
                    await self.plane.api.call("POST", CLAIMS, volume_claim(f"p{number}"))
                await self.plane.api.call("POST", PODS, self.pod(number))

        await asyncio.gather(*(creator() for _ in range(CREATORS)))

    def pod(self, number: int) -> Object:
        limits = {resource(number % self.classes): "1", "cpu": "1m"}
        spec: Object = {"containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}]}
        if self.volumes:
            spec["volumes"] = [{"name": "own", "persistentVolumeClaim": {"claimName": f"p{number}"}}]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"p{number}"}, "spec": spec}

    async def measure(self, count: int) -> dict[str, Any]:
        """Pods a second from the first create to the last binding."""
        before, cpu = self._writes(), cpu_seconds()
        started = time.monotonic()
        await self.create(count)
        created = time.monotonic() - started
        await wait_for(lambda: all_bound(self.plane), "all Pods to be bound", deadline=600)
        took = time.monotonic() - started
        used = milliseconds_each(cpu, cpu_seconds(), count)
        await self.check()
        writes = self._writes() - before
        return {
            "pods": count,
            "seconds": round(took, 2),
            "created_after": round(created, 2),
            "per_second": round(count / took, 1),
            "writes_per_pod": round(sum(writes.values()) / count, 2),
            "cpu_ms_per_pod": used,
        }

    def _writes(self) -> Counter[str]:
        """Writes of who schedules, events aside."""
        users = ["native"] if self.delivery == "native" else ["bind", "bind scheduler"]
        return Counter(
            f"{entry['verb']} {entry['objectRef']['resource']}"
            for user in users
            for entry in self.plane.audit_entries(USERS[user])
            if entry["verb"] in ("create", "update", "patch", "delete")
            and entry.get("objectRef", {}).get("namespace") == "bench"
            and entry["objectRef"]["resource"] != "events"
        )

    async def check(self) -> None:
        """Raise AssertionError if a device is allocated twice, or a Pod has none."""
        claims = (await self.plane.api.call("GET", "/apis/resource.k8s.io/v1/namespaces/bench/resourceclaims"))["items"]
        held = Counter(
            (result["pool"], result["device"])
            for claim in claims
            for result in claim["status"]["allocation"]["devices"]["results"]
        )
        assert len(held) == self.created, f"{len(held)} devices for {self.created} Pods"
        assert max(held.values()) == 1, "a device is allocated twice"

    async def figures(self) -> dict[str, Any]:
        """What the operator says of itself."""
        if self.replica is None:
            return {}
        binds = {
            outcome: int(await self.replica.metric("drabridge_extender_binds_total", outcome=outcome))
            for outcome in ("bound", "conflict", "failed")
        }
        return {"binds": binds, "operator_mb": self.replica.process.resident_mb}


@asynccontextmanager
async def bench(
    delivery: str, *, qps: int | None, nodes: int, devices: int, classes: int = 1, switch: Switch | None = None
) -> AsyncIterator[Bench]:
    async with AsyncExitStack() as stack:
        plane = await stack.enter_async_context(ControlPlane(binary(), qps=qps, audit=True))
        for start in range(0, nodes, 20):
            names = [f"node-{number}" for number in range(start, min(start + 20, nodes))]
            await asyncio.gather(
                *(plane.add_node(name, devices=devices, driver=DRIVER, kubelet_version="v1.37.0") for name in names)
            )
        for number in range(classes):
            spec = {
                "selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}],
                "extendedResourceName": resource(number),
            }
            body = {"metadata": {"name": f"gpu-{number}"}, "spec": spec}
            await plane.api.call("POST", "/apis/resource.k8s.io/v1/deviceclasses", body)
        await plane.add_namespace("bench")
        found = Bench(plane, delivery, classes)
        if delivery == "bind":
            await _install(stack, found, qps, switch)
        yield found


async def _install(stack: AsyncExitStack, found: Bench, qps: int | None, switch: Switch | None) -> None:
    plane = found.plane
    port = free_port()
    found.installation = Installation(plane, options=(f"--extender-address=127.0.0.1:{port}",), overlay="bind")
    await stack.enter_async_context(found.installation)
    found.replica = found.installation.replicas[0]
    for number in range(found.classes):
        spec = {
            "resourceName": resource(number),
            "delivery": "Bind",
            "devices": [{"deviceClassName": f"gpu-{number}"}],
        }
        kind = {"apiVersion": "drabridge.io/v1alpha1", "kind": "ExtendedResourcePolicy"}
        path = "/apis/drabridge.io/v1alpha1/extendedresourcepolicies"
        await plane.api.call("POST", path, {**kind, "metadata": {"name": f"gpu-{number}"}, "spec": spec})
    if switch:
        switch.target = port
    scheduler = BindScheduler(plane, switch.port if switch else port, qps=qps)
    await scheduler.start()
    stack.callback(scheduler.stop)
    await asyncio.sleep(3)  # the webhook's caches have the policies by then


async def compare() -> list[dict[str, Any]]:
    return [
        await _row(delivery, 500, qps=qps, nodes=100, devices=8)
        for qps in (None, 5000)
        for delivery in ("native", "bind")
    ]


async def large() -> list[dict[str, Any]]:
    return [await _row(delivery, 2000, qps=5000, nodes=400, devices=8) for delivery in ("native", "bind")]


async def volumes() -> list[dict[str, Any]]:
    rows = []
    for delivery in ("native", "bind"):
        say(f"{delivery}, 200 Pods with volumes, 30 nodes x 8")
        async with bench(delivery, qps=5000, nodes=30, devices=8) as one:
            await one.plane.api.call("POST", "/apis/storage.k8s.io/v1/storageclasses", SLOW_STORAGE)
            one.volumes = True
            making = asyncio.create_task(make_volumes(one.plane))
            rows.append({"delivery": delivery} | await one.measure(200) | await one.figures())
            making.cancel()
        say(json.dumps(rows[-1]))
    return rows


SLOW_STORAGE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "slow"},
    "provisioner": "bench.example.com/slow",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def volume_claim(name: str) -> Object:
    spec = {
        "storageClassName": "slow",
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": spec}


async def make_volumes(plane: ControlPlane) -> None:
    """The part of a slow provisioner: a volume for each claim, VOLUME_SECONDS after a node was chosen for it."""
    chosen: dict[str, float] = {}
    while True:
        for claim in (await plane.api.call("GET", CLAIMS))["items"]:
            name = claim["metadata"]["name"]
            node = claim["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node")
            if not node or claim["spec"].get("volumeName"):
                continue
            if time.monotonic() - chosen.setdefault(name, time.monotonic()) >= VOLUME_SECONDS:
                await plane.api.request("POST", "/api/v1/persistentvolumes", _volume(claim, node))
        await asyncio.sleep(0.2)


def _volume(claim: Object, node: str) -> Object:
    metadata = claim["metadata"]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    spec = {
        "storageClassName": "slow",
        "accessModes": ["ReadWriteOnce"],
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/none"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
        "claimRef": {
            "kind": "PersistentVolumeClaim",
            "apiVersion": "v1",
            "namespace": "bench",
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": metadata["name"]}, "spec": spec}


async def _row(delivery: str, pods: int, *, qps: int | None, nodes: int, devices: int) -> dict[str, Any]:
    say(f"{delivery}, {pods} Pods, {nodes} nodes x {devices}, QPS {qps or 'default'}")
    async with bench(delivery, qps=qps, nodes=nodes, devices=devices) as one:
        row = {"delivery": delivery, "qps": qps or "default", "nodes": nodes, "devices": devices}
        row |= await one.measure(pods) | await one.figures()
    say(json.dumps(row))
    return row


async def upstream() -> list[dict[str, Any]]:
    rows = []
    for delivery in ("native", "bind"):
        say(f"{delivery}, 25 classes, 500 nodes x 10")
        async with bench(delivery, qps=5000, nodes=500, devices=10, classes=25) as one:
            before = await one.measure(2500)
            measured = await one.measure(2500)
            rows.append({"delivery": delivery, "before": before, "measured": measured} | await one.figures())
        say(json.dumps(rows[-1]))
    return rows


async def takeover() -> dict[str, Any]:
    """Seconds from the kill of the leader until the other replica leads, and until it has bound a Pod."""
    say("takeover, 100 nodes x 8")
    async with AsyncExitStack() as stack:
        switch = await stack.enter_async_context(Switch())
        one = await stack.enter_async_context(bench("bind", qps=5000, nodes=100, devices=8, switch=switch))
        await one.measure(400)
        port = free_port()
        assert one.installation
        other = await one.installation.start_replica(f"--extender-address=127.0.0.1:{port}", webhook_port=free_port())
        # Made before the kill: the webhook's Service leads to one port here, which goes with its replica.
        await asyncio.sleep(3)
        one.installation.replicas[0].process.kill()
        killed = time.monotonic()
        body = one.pod(one.created)
        body["spec"]["schedulerName"] = "drabridge-scheduler"
        await one.plane.api.call("POST", PODS, body)
        one.created += 1
        await wait_for(lambda: other.metric("drabridge_leader"), "the other one to lead", deadline=60)
        led = time.monotonic() - killed
        switch.target = port  # what the leader's label does in a cluster
        await wait_for(lambda: all_bound(one.plane), "the Pod to be bound", deadline=120)
        row = {"leads_after_s": round(led, 2), "bound_after_s": round(time.monotonic() - killed, 2)}
    say(json.dumps(row))
    return row


async def answers(nodes: int = 5000, claims: int = 30_000, pods: int = 200) -> dict[str, Any]:
    say(f"filter, {nodes} nodes x 8, {claims} devices allocated")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    names = [f"node-{number}" for number in range(nodes)]
    devices, bindings = _bindings(names, claims)
    gc.freeze()  # as at the beginning of a term
    filters, choices = [], []
    for number in range(pods):
        made = builders.pod(f"pod-{number}").meta(uid=f"uid-{number}").app(gpu=1).raw()
        body = json.dumps({"Pod": made, "NodeNames": names})
        started = time.perf_counter()
        args = json.loads(body)
        found = await bindings.filter(args["Pod"], args["NodeNames"])
        json.dumps({"NodeNames": found.nodes, "FailedAndUnresolvableNodes": found.failed})
        filters.append((time.perf_counter() - started) * 1000)
        started = time.perf_counter()
        placement = bindings._place(SeenPod.of(made), found.nodes[number % len(found.nodes)])
        assert isinstance(placement, Placement)
        assert placement.special
        devices.assume({f"default/{special_name(f'uid-{number}')}": placement.special.allocation})
        choices.append((time.perf_counter() - started) * 1000)
    rest = statistics.quantiles(filters[1:], n=100)
    row = {
        "nodes": nodes,
        "allocated": claims,
        "filter_first_ms": round(filters[0], 1),
        "filter_p50_ms": round(rest[49], 2),
        "filter_p99_ms": round(rest[98], 2),
        "choice_p99_ms": round(statistics.quantiles(choices, n=100)[98], 2),
        "memory_mb": round(resource_usage.getrusage(resource_usage.RUSAGE_SELF).ru_maxrss / 1024, 1),
    }
    say(json.dumps(row))
    return row


def _bindings(names: list[str], claims: int) -> tuple[Devices, Bindings]:
    """What a leader has whose caches show these nodes, 8 devices each, and so many claims with a device."""
    caches = Caches(("default-scheduler",), "drabridge-scheduler")
    stores = caches.bind
    assert stores
    versions = iter(range(1, 10**9))

    def seen(store: Any, raw: Object) -> None:
        metadata = {"uid": raw["metadata"]["name"], **raw["metadata"], "resourceVersion": str(next(versions))}
        store.seen({**raw, "metadata": metadata})

    device_class = {**builders.GPU_CLASS, "spec": {**builders.GPU_CLASS["spec"], "selectors": []}}
    for store in (caches.classes, stores.classes):
        seen(store, device_class)
    status = kubelet.node_status(allocatable={}, kubelet_version="v1.37.0")
    for name in names:
        node = kubelet.node(name, labels={})
        node["metadata"]["uid"] = name
        seen(stores.nodes, {**node, "status": status})
        seen(stores.slices, kubelet.resource_slice(node, driver=DRIVER, pool=name, devices=8))
    for number in range(claims):
        seen(stores.claims, _allocated(number, names[number // 6 % len(names)], f"gpu-{number % 6}"))
    devices = Devices(stores, lambda: "share")
    devices.rebuild()
    unasked: Any = None
    bindings = Bindings(caches, stores, devices, unasked, unasked, Metrics())
    bindings.serving = True
    return devices, bindings


def _allocated(number: int, node: str, device: str) -> Object:
    name = f"claim-{number}"
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": device}
    selector = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {
        "metadata": {"namespace": "default", "name": name, "finalizers": ["x"]},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [selector]}},
            "reservedFor": [{"resource": "pods", "name": name, "uid": name}],
        },
    }


PARTS: dict[str, Callable[[], Awaitable[Any]]] = {
    "compare": compare,
    "large": large,
    "upstream": upstream,
    "volumes": volumes,
    "takeover": takeover,
    "filter": answers,
}


async def main() -> None:
    print(json.dumps({part: await PARTS[part]() for part in sys.argv[1:] or PARTS}, indent=2))  # noqa: T201 - its output


if __name__ == "__main__":
    asyncio.run(main())
