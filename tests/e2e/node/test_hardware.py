"""Hardware that is more than a list of devices: partitions, shares, taints and health, on a 1.37 that knows them.

Each test runs with names that are left to kube-scheduler, and with names that drabridge serves by Rewrite or by Bind.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest
import pytest_asyncio

from real_site import GPUS, HARDWARE, RealSite, simple
from upstream.api import Object, wait_for
from upstream.realnode import Hardware

pytestmark = pytest.mark.node
ON = {"Native": "Native", "Rewrite": "Native", "Bind": "Bind"}
"""Delivery -> the cluster that it is tried on."""

EACH = pytest.mark.parametrize(("delivery", "real"), ON.items(), indirect=True, scope="session")


@pytest_asyncio.fixture(autouse=True)
async def delivery(request: pytest.FixtureRequest, real: RealSite) -> AsyncIterator[str]:
    """How the GPUs are served during the test."""
    usual, real.delivery = real.delivery, request.param
    await real.site.set_policy("gpu", {"delivery": request.param})
    await real.delivered("gpu", request.param)
    yield request.param
    real.delivery = usual
    await real.site.set_policy("gpu", {"delivery": "Auto" if usual == "Native" else usual})
    await real.delivered("gpu", usual)


@pytest_asyncio.fixture
async def undo(real: RealSite, ns: str) -> AsyncIterator[AsyncExitStack]:
    """For the hardware: it is to be as it was before the next test, and after this one's Pods are gone or ending."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(real.node.change, GPUS, HARDWARE[GPUS])
        yield stack


async def waits(real: RealSite, made: Object) -> None:
    """Wait until kube-scheduler has found no place for a Pod."""

    async def reason() -> str:
        conditions = {each["type"]: each for each in (await real.site.pod(made))["status"].get("conditions", ())}
        return str(conditions.get("PodScheduled", {}).get("reason", ""))

    await wait_for(reason, "it to be unschedulable", until=lambda reason: reason == "Unschedulable")


def names(real: RealSite, live: Object) -> set[str]:
    """The names of the devices that a Pod's container sees, without driver and pool."""
    return {each.split("/")[2] for each in real.look(live).devices}


def consuming(name: str, memory: str) -> Object:
    return {"name": name, "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": memory}}}]}


@EACH
async def test_partitions_and_the_whole_are_not_used_at_once(real: RealSite, ns: str, undo: AsyncExitStack) -> None:
    counters = ({"name": "card", "counters": {"memory": {"value": "80Gi"}}},)
    devices = (consuming("whole", "80Gi"), consuming("half-0", "40Gi"), consuming("half-1", "40Gi"))
    await real.node.change(GPUS, Hardware(devices=devices, shared_counters=counters))
    halves = await real.start(ns, simple("halves", 2))
    assert names(real, halves) == {"half-0", "half-1"}
    next_one = await real.site.create(ns, simple("next"))
    await waits(real, next_one)
    await real.delete(halves)
    assert names(real, await real.started(next_one)) == {"whole"}


@EACH
async def test_shares_of_a_device_go_to_several_pods(real: RealSite, ns: str, undo: AsyncExitStack) -> None:
    memory = {"value": "80Gi", "requestPolicy": {"default": "40Gi", "validValues": ["40Gi", "80Gi"]}}
    device = {"name": "large", "allowMultipleAllocations": True, "capacity": {"memory": memory}}
    await real.node.change(GPUS, Hardware(devices=(device,)))
    first, second = [await real.start(ns, simple(name)) for name in ("first", "second")]
    assert names(real, first) == names(real, second) == {"large"}
    assert real.look(first).devices != real.look(second).devices  # shares, which differ
    third = await real.site.create(ns, simple("third"))
    await waits(real, third)
    await real.delete(first)
    await real.started(third)


@EACH
async def test_a_device_that_is_tainted_while_it_is_in_use_is_taken_out_of_use(
    real: RealSite, ns: str, undo: AsyncExitStack
) -> None:
    first = await real.phase(await real.start(ns, simple("first")), "Running")
    (sick,) = names(real, first)
    taint = {"key": "example.com/broken", "effect": "NoExecute"}
    devices = tuple(each | {"taints": [taint]} if each["name"] == sick else each for each in HARDWARE[GPUS].devices)
    await real.node.change(GPUS, replace(HARDWARE[GPUS], devices=devices))
    await real.gone(first)
    second = await real.start(ns, simple("second", 7))
    assert sick not in names(real, second)
    third = await real.site.create(ns, simple("third"))
    await waits(real, third)
    await real.node.change(GPUS, HARDWARE[GPUS])
    assert names(real, await real.started(third)) == {sick}


@pytest.mark.parametrize(("delivery", "real"), [("Native", "Native")], indirect=True, scope="session")
async def test_a_rewritten_pod_says_that_its_device_is_unhealthy_and_a_native_one_does_not(
    real: RealSite, ns: str, undo: AsyncExitStack, delivery: str
) -> None:
    native = await real.phase(await real.start(ns, simple("native")), "Running")
    await real.site.set_policy("gpu", {"delivery": "Rewrite"})
    await real.delivered("gpu", "Rewrite")
    real.delivery = "Rewrite"
    rewritten = await real.phase(await real.start(ns, simple("rewritten")), "Running")
    sick = names(real, native) | names(real, rewritten)
    health = dict.fromkeys(sick, ("Unhealthy", "too hot"))
    await real.node.change(GPUS, replace(HARDWARE[GPUS], health=health))

    async def told(live: Object) -> list[Object]:
        status = (await real.site.pod(live))["status"]["containerStatuses"][0]
        return [each for entry in status.get("allocatedResourcesStatus", ()) for each in entry["resources"]]

    async def unhealthy() -> list[Object]:
        return [each for each in await told(rewritten) if each["health"] == "Unhealthy"]

    (said,) = await wait_for(unhealthy, "the Pod to say so")
    assert said["message"] == "too hot"
    await real.told(rewritten, "DeviceUnhealthy", said["resourceID"], "too hot")
    # One report had both devices. The kubelet looks at resources.claims alone, which a native Pod does not have.
    assert await told(native) == []
