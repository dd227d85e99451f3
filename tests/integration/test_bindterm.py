"""One term of the Lease holder: what is done before kube-scheduler is answered, and what is seen to meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from bind_rig import BindApi, BindCluster, claim
from builders import pod
from drabridge.core.errors import NotLeader
from drabridge.delivery.bindterm import LEADER_LABEL, WAKEUP, WOKEN, BindTerm
from drabridge.delivery.metrics import Metrics
from drabridge.kube.clock import Clock
from drabridge.kube.recorder import Recorder
from drabridge.kube.resources import DEVICE_CLASSES, DEVICE_TAINT_RULES, EVENTS, PODS
from failing_client import FailingClient
from upstream.api import MERGE_PATCH, Object, wait_for

METRICS = Metrics()
PAUSE = 0.02
TAINT = {"key": "example.com/sick", "effect": "NoSchedule"}


class TermRig(BindCluster):
    """A term on an empty cluster; where it would wait for seconds, it waits for hundredths."""

    def __init__(self, api: BindApi) -> None:
        super().__init__(api)
        self.client = FailingClient(api.client)
        self.recorder = Recorder(api.client, "replica-0")
        self.rounds = 0
        self._paused = asyncio.Event()
        client: Any = self.client
        clock = Clock(pause=self._pause)
        self.term = BindTerm(
            self.caches, self.stores, client, client, self.recorder, METRICS, "default", "replica-0", clock=clock
        )
        self.changed = self.term.changed

    async def _pause(self, *_: object) -> None:
        self.rounds += 1
        self._paused.set()
        await asyncio.sleep(PAUSE)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        stop = asyncio.Event()
        recording = asyncio.create_task(self.recorder.run())
        running = asyncio.create_task(self.term.run(stop))
        await self.soon(lambda: self.term.bindings.serving)
        yield
        stop.set()
        await running
        recording.cancel()
        assert not self.term.bindings.serving

    async def soon(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                self._paused.clear()
                await self._paused.wait()

    async def rest(self) -> None:
        """Let it look twice."""
        rounds = self.rounds + 2
        await self.soon(lambda: self.rounds > rounds)

    async def labels(self) -> dict[str, bool]:
        return {raw["metadata"]["name"]: LEADER_LABEL in raw["metadata"].get("labels", {}) for raw in await self.pods()}

    def woken(self) -> int:
        return self.client.writes.count("patch DeviceClass/")


@pytest_asyncio.fixture
async def rig(bind_api: BindApi) -> AsyncIterator[TermRig]:
    rig = TermRig(bind_api)
    await rig.list()
    yield rig
    await bind_api.clear()


@pytest_asyncio.fixture
async def replicas(rig: TermRig) -> list[Object]:
    """The operator's own Pods."""
    return [await rig.add_pod(pod(f"replica-{number}").app()) for number in range(2)]


async def test_only_the_leaders_pod_has_the_label_that_the_service_selects(
    rig: TermRig, replicas: list[Object]
) -> None:
    labelled = {"metadata": {"labels": {LEADER_LABEL: "true"}}}
    await rig.api.plane.api.call("PATCH", PODS.path("default", "replica-1"), labelled, MERGE_PATCH)
    async with rig.serving():
        await rig.rest()
        assert await rig.labels() == {"replica-0": True, "replica-1": False}
    assert await rig.labels() == {"replica-0": False, "replica-1": False}


async def test_it_answers_although_its_pod_cannot_be_labelled(rig: TermRig) -> None:
    async with rig.serving():
        await rig.rest()


async def test_what_the_watch_has_not_shown_yet_is_seen_before_anything_is_answered(rig: TermRig) -> None:
    """The leader before may have written a moment ago."""
    await rig.add_node("node", 1)
    made = await rig.add_pod(pod("before").app(gpu=1))
    async with rig.serving():
        await rig.term.bindings.bind("default", "before", made["metadata"]["uid"], "node")
    successor = TermRig(rig.api)
    rig.api.listener = lambda *_: None
    await successor.caches.refresh(rig.api.client, successor.caches.classes)
    second = await rig.add_pod(pod("second").app(gpu=1))
    async with successor.serving():
        found = await successor.term.bindings.filter(second, ["node"])
    assert found.failed["node"].startswith("NotEnoughDevices")


async def test_it_begins_once_the_api_server_answers(rig: TermRig) -> None:
    rig.client.unlisted = 3
    async with rig.serving():
        assert rig.client.unlisted == 0


async def test_a_term_that_is_over_before_it_began_answers_nothing(rig: TermRig) -> None:
    rig.client.unlisted = 10**6
    stop = asyncio.Event()
    running = asyncio.create_task(rig.term.run(stop))
    await asyncio.sleep(0)
    stop.set()
    await running
    with pytest.raises(NotLeader):
        await rig.term.bindings.filter({}, [])


async def test_pods_that_were_refused_are_woken_once_for_new_devices(rig: TermRig) -> None:
    node = await rig.add_node("node", 0)
    made = await rig.add_pod(pod().app(gpu=1))
    async with rig.serving():
        await rig.rest()
        assert not (await rig.term.bindings.filter(made, ["node"])).nodes
        await rig.rest()
        assert not rig.woken(), "nothing is there that was not before"
        await rig.add_devices(node, 1)
        await rig.soon(rig.woken)
        await rig.rest()
        assert rig.woken() == 1
        assert (await rig.term.bindings.filter(made, ["node"])).nodes
    stored = await rig.api.plane.api.call("GET", DEVICE_CLASSES.path(name=WAKEUP))
    assert WOKEN in stored["metadata"]["annotations"]


async def test_a_rule_that_goes_frees_devices_as_new_ones_would(rig: TermRig) -> None:
    await rig.add_node("node", 1)
    rule = {"metadata": {"name": "sick"}, "spec": {"deviceSelector": {"pool": "node"}, "taint": TAINT}}
    await rig.api.plane.api.call("POST", DEVICE_TAINT_RULES.path(), rule)
    made = await rig.add_pod(pod().app(gpu=1))
    async with rig.serving():
        assert not (await rig.term.bindings.filter(made, ["node"])).nodes
        await rig.api.plane.api.call("DELETE", DEVICE_TAINT_RULES.path(name="sick"))
        await rig.soon(rig.woken)
        assert (await rig.term.bindings.filter(made, ["node"])).nodes == ["node"]


async def test_two_claims_with_one_device_are_told_once_on_both(rig: TermRig) -> None:
    await rig.add_node("node", 1)
    result = {"request": "r", "driver": "gpu.example.com", "pool": "node", "device": "gpu-0"}
    async with rig.serving():
        for name in ("one", "two"):
            await rig.add_claim(claim(name, allocation={"devices": {"results": [result]}}))

        async def told() -> list[tuple[str, str]]:
            events = (await rig.api.plane.api.call("GET", EVENTS.path("default")))["items"]
            about = [(each["reason"], each["regarding"]) for each in events]
            return sorted((reason, of["name"]) for reason, of in about if of["kind"] == "ResourceClaim")

        both = [("DevicesAllocatedTwice", "one"), ("DevicesAllocatedTwice", "two")]
        await wait_for(told, "events on both", until=lambda seen: seen == both)
        await rig.rest()
        assert await rig.recorder.flush(10)
        assert await told() == both
        rig.term.measure()
        assert METRICS.registry.get_sample_value("drabridge_claims_overlapping") == 1
