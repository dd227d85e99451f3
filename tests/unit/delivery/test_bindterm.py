"""One term of the Lease holder: what is done before kube-scheduler is answered, and what is seen to meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bind_world import Object, World
from builders import GPU_CLASS, pod
from drabridge.core.errors import Missing, NotLeader, Unavailable
from drabridge.delivery.bindterm import LEADER_LABEL, WAKEUP, BindTerm
from drabridge.delivery.metrics import Metrics
from drabridge.kube.caches import Caches
from drabridge.kube.clock import Clock
from drabridge.kube.resources import DEVICE_TAINT_RULE_VERSIONS, PODS, Resource
from upstream import kubelet

METRICS = Metrics()


class Api(World):
    """The world, with what a term asks for besides binds."""

    unavailable = 0
    rules: list[Object] | None = None

    async def list_pages(self, resource: Resource, *args: Any, **options: Any) -> AsyncIterator[Object]:
        if self.unavailable:
            self.unavailable -= 1
            raise Unavailable("not now")
        if resource in DEVICE_TAINT_RULE_VERSIONS:
            if self.rules is None:
                raise Missing("not served")
            yield {"items": self.rules, "metadata": {"resourceVersion": "1"}}
            return
        if options.get("label_selector") == LEADER_LABEL:
            found = [raw for raw in self.pods() if LEADER_LABEL in raw["metadata"].get("labels", {})]
            yield {"items": found, "metadata": {"resourceVersion": "1"}}
            return
        async for page in super().list_pages(resource, *args, **options):
            yield page

    async def patch(
        self, resource: Resource, namespace: Any, name: str, body: Any, *args: Any, **options: Any
    ) -> Object:
        if name == WAKEUP:
            self.writes.append(f"wake {body['metadata']['annotations']['drabridge.io/woken']}")
            return {}
        if resource is PODS and "labels" in body["metadata"]:
            found = self._find(PODS, f"{namespace}/{name}")
            labels = found["metadata"].setdefault("labels", {})
            labels.update(body["metadata"]["labels"])
            if labels[LEADER_LABEL] is None:
                del labels[LEADER_LABEL]
            return found
        return await super().patch(resource, namespace, name, body, *args, **options)


class Events:
    """What is recorded: reason and name."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def record(self, ref: Any, reason: str, *_: Any) -> None:
        self.seen.append((str(reason), ref.name))


class Rig:
    def __init__(self) -> None:
        self.caches = Caches(("default-scheduler",), "drabridge-scheduler")
        assert self.caches.bind
        self.world = Api(self.caches.bind)
        self.events = Events()
        device_class = {**GPU_CLASS, "spec": {**GPU_CLASS["spec"], "selectors": []}}
        self.world.add("DeviceClass", device_class)
        self.caches.classes.seen(device_class)
        for number in range(2):
            self.world.add("Pod", own_pod(f"replica-{number}"))
        client: Any = self.world
        events: Any = self.events
        clock = Clock(pause=self._pause)
        self.term = BindTerm(
            self.caches, self.caches.bind, client, client, events, METRICS, "system", "replica-0", clock=clock
        )
        self.world.changed = self.term.changed
        self.rounds = 0

    async def _pause(self, *_: object) -> None:
        self.rounds += 1
        await asyncio.sleep(0)

    def add_node(self, name: str, devices: int = 1) -> Object:
        node = kubelet.node(name, labels={})
        node["status"] = kubelet.node_status(allocatable={}, kubelet_version="v1.37.0")
        self.world.add("Node", node)
        if devices:
            self.add_devices(node, devices)
        return node

    def add_devices(self, node: Object, devices: int = 1) -> None:
        name = node["metadata"]["name"]
        raw = kubelet.resource_slice(node, driver="gpu.example.com", pool=name, devices=devices)
        self.world.add("ResourceSlice", raw)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        running = asyncio.create_task(self.term.run(stop))
        await self.until(lambda: self.term.bindings.serving)
        yield
        stop.set()
        await running
        assert not self.term.bindings.serving

    async def until(self, condition: Any) -> None:
        for _ in range(1000):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError("it never came to that")

    async def rest(self) -> None:
        """Let it look twice."""
        rounds = self.rounds + 2
        await self.until(lambda: self.rounds > rounds)

    def labels(self) -> dict[str, bool]:
        return {
            raw["metadata"]["name"]: LEADER_LABEL in raw["metadata"].get("labels", {})
            for raw in self.world.pods()
            if raw["metadata"]["namespace"] == "system"
        }


def own_pod(name: str) -> Object:
    return {"metadata": {"namespace": "system", "name": name}, "spec": {"nodeName": "somewhere"}}


@pytest.fixture
def rig() -> Rig:
    return Rig()


async def test_only_the_leaders_pod_has_the_label_that_the_service_selects(rig: Rig) -> None:
    rig.world.objects["Pod", "system/replica-1"]["metadata"]["labels"] = {LEADER_LABEL: "true"}
    async with rig.serving():
        await rig.rest()
        assert rig.labels() == {"replica-0": True, "replica-1": False}
    assert rig.labels() == {"replica-0": False, "replica-1": False}


async def test_it_answers_although_its_pod_cannot_be_labelled(rig: Rig) -> None:
    del rig.world.objects["Pod", "system/replica-0"]
    async with rig.serving():
        await rig.rest()


async def test_what_the_watch_has_not_shown_yet_is_seen_before_anything_is_answered(rig: Rig) -> None:
    """The leader before may have written a moment ago."""
    node = rig.add_node("node-0")
    made = rig.world.add("Pod", pod("before").app(gpu=1).with_spec(schedulerName="drabridge-scheduler").raw())
    async with rig.serving():
        await rig.term.bindings.bind("default", "before", made["metadata"]["uid"], "node-0")
    assert rig.caches.bind
    rig.caches.bind.claims._entries.clear()
    second = rig.world.add("Pod", pod("second").app(gpu=1).with_spec(schedulerName="drabridge-scheduler").raw())
    async with rig.serving():
        assert (await rig.term.bindings.filter(second, [node["metadata"]["name"]])).nodes == []


async def test_it_begins_once_the_api_server_answers(rig: Rig) -> None:
    rig.world.unavailable = 3
    async with rig.serving():
        assert rig.world.unavailable == 0


async def test_a_term_that_is_over_before_it_began_answers_nothing(rig: Rig) -> None:
    rig.world.unavailable = 10**6
    stop = asyncio.Event()
    running = asyncio.create_task(rig.term.run(stop))
    await asyncio.sleep(0)
    stop.set()
    await running
    with pytest.raises(NotLeader):
        await rig.term.bindings.filter({}, [])


async def test_pods_that_were_refused_are_woken_once_for_new_devices(rig: Rig) -> None:
    node = rig.add_node("node-0", devices=0)
    made = rig.world.add("Pod", pod().app(gpu=1).with_spec(schedulerName="drabridge-scheduler").raw())

    def woken() -> int:
        return sum(write.startswith("wake") for write in rig.world.writes)

    async with rig.serving():
        await rig.rest()
        assert not (await rig.term.bindings.filter(made, ["node-0"])).nodes
        await rig.rest()
        assert not woken(), "nothing is there that was not before"
        rig.add_devices(node)
        await rig.until(woken)
        await rig.rest()
        assert woken() == 1
        assert (await rig.term.bindings.filter(made, ["node-0"])).nodes


async def test_a_rule_that_goes_frees_devices_as_new_ones_would(rig: Rig) -> None:
    rig.add_node("node-0")
    taint = {"key": "example.com/sick", "effect": "NoSchedule"}
    rig.world.rules = [{"metadata": {"name": "r"}, "spec": {"deviceSelector": {}, "taint": taint}}]
    made = rig.world.add("Pod", pod().app(gpu=1).with_spec(schedulerName="drabridge-scheduler").raw())
    async with rig.serving():
        assert not (await rig.term.bindings.filter(made, ["node-0"])).nodes
        rig.world.rules = []
        await rig.until(lambda: any(write.startswith("wake") for write in rig.world.writes))
        assert (await rig.term.bindings.filter(made, ["node-0"])).nodes == ["node-0"]


async def test_two_claims_with_one_device_are_told_once_on_both(rig: Rig) -> None:
    rig.add_node("node-0")
    result = {"request": "r", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}
    async with rig.serving():
        for name in ("one", "two"):
            raw = {
                "metadata": {"namespace": "default", "name": name, "finalizers": ["x"]},
                "spec": {"devices": {}},
                "status": {"allocation": {"devices": {"results": [result]}}},
            }
            rig.world.add("ResourceClaim", raw)
        await rig.until(lambda: len(rig.events.seen) == 2)
        await rig.rest()
        assert sorted(rig.events.seen) == [("DevicesAllocatedTwice", "one"), ("DevicesAllocatedTwice", "two")]
        rig.term.measure()
        assert METRICS.registry.get_sample_value("drabridge_claims_overlapping") == 1
