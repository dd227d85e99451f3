"""Drivers and devices that fail: what the Pod says of it, and that nothing is allocated twice afterwards."""

from __future__ import annotations

import signal
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cluster_site import usable_of
from real_site import GPUS, HARDWARE, RealSite, simple
from upstream.api import wait_for
from upstream.kubelet import devices_of

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from upstream.api import Object

pytestmark = [
    pytest.mark.node,
    pytest.mark.parametrize("real", ["Rewrite", "Native", "Bind"], indirect=True, scope="session"),
]


async def unschedulable(real: RealSite, made: Object) -> str:
    """Why a Pod is not scheduled, as its condition says."""

    async def why() -> str:
        conditions = {each["type"]: each for each in (await real.site.pod(made))["status"].get("conditions", ())}
        return str(conditions.get("PodScheduled", {}).get("message", ""))

    return await wait_for(why, "it to be unschedulable", deadline=60)


async def test_a_driver_that_is_gone_while_pods_wait_and_comes_back(
    real: RealSite, ns: str, afterwards: AsyncExitStack
) -> None:
    first = await real.phase(await real.start(ns, simple("first", 5)), "Running")
    second = await real.site.create(ns, simple("second", 5))
    assert ("NotEnoughDevices" if real.delivery == "Bind" else "claim") in await unschedulable(real, second)
    await real.node.end(GPUS, signal.SIGTERM)
    # The kubelet removes the slices of a driver that has not come back after 30 s.
    await real.site.policy("gpu", lambda seen: seen["devices"]["total"] == 0, "no devices left", deadline=90)
    third = await real.site.create(ns, simple("third"))
    await unschedulable(real, third)
    for each in (second, third):
        await real.told(each, "NoDevicesPublished", f"DeviceClass {GPUS} selects none", "start the DRA driver")
    assert (await real.site.pod(first))["status"]["phase"] == "Running"
    assert usable_of(await real.site.pod(first)) == {}

    real.node.launch(GPUS)
    await real.node.wait_registered(GPUS)
    await real.started(third)
    await real.over(third)
    await real.delete(first)
    await real.started(second)


async def test_a_driver_that_goes_when_a_pod_has_got_its_devices(real: RealSite, ns: str) -> None:
    await real.node.end(GPUS, signal.SIGTERM)
    # Its slices are there for another 30 s, so that devices are allocated which nobody can prepare.
    made = await real.site.create(ns, simple())
    try:
        await real.told(made, "DriverMissing", GPUS, "start the DRA driver on the Pod's node")
        assert "DriverMissing" in await real.explain(made)
    finally:
        real.node.launch(GPUS)
    await real.node.wait_registered(GPUS)
    await real.started(made, deadline=90)
    await real.over(made)


async def test_devices_that_are_published_under_other_names_while_some_are_in_use(
    real: RealSite, ns: str, afterwards: AsyncExitStack
) -> None:
    first = await real.phase(await real.start(ns, simple("first", 3)), "Running")
    cards = tuple(devices_of("card.example.com", 8))
    afterwards.push_async_callback(real.node.change, GPUS, HARDWARE[GPUS])
    await real.node.change(GPUS, replace(HARDWARE[GPUS], devices=cards))
    second = await real.start(ns, simple("second", 8))
    assert all("/card-" in name for name in real.look(second).devices)
    await real.told(first, "DeviceNotPublished", *real.look(first).devices, "delete the Pod")
    assert usable_of(await real.site.pod(second)) == {}
    assert (await real.site.pod(first))["status"]["phase"] == "Running"
    for each in (first, second):
        await real.delete(each)
        await real.gone(each)
    await real.free(ns)


async def test_a_device_that_becomes_unhealthy_while_it_is_in_use_is_not_given_to_others(
    real: RealSite, ns: str, afterwards: AsyncExitStack
) -> None:
    first = await real.phase(await real.start(ns, simple("first")), "Running")
    (name,) = real.look(first).devices
    sick = name.rpartition("/")[2]
    afterwards.push_async_callback(real.node.change, GPUS, HARDWARE[GPUS])
    # A driver says so twice: to the kubelet, which tells the Pod, and by not publishing the device.
    healthy = tuple(each for each in HARDWARE[GPUS].devices if each["name"] != sick)
    health = {sick: ("Unhealthy", "too hot")}
    await real.node.change(GPUS, replace(HARDWARE[GPUS], devices=healthy, health=health))
    second = await real.start(ns, simple("second", 7))
    assert name not in real.look(second).devices
    third = await real.site.create(ns, simple("third"))
    await unschedulable(real, third)
    await real.told(first, "DeviceNotPublished", name)  # a kubelet of 1.35 says nothing of health
    assert (await real.site.pod(first))["status"]["phase"] == "Running"

    await real.node.change(GPUS, HARDWARE[GPUS])
    await real.delete(first)
    live = await real.started(third)
    assert real.look(live).devices == (name,)


async def test_a_cdi_directory_that_cannot_be_written(real: RealSite, ns: str, afterwards: AsyncExitStack) -> None:
    cdi = "/run/node/cdi"
    await real.node.run("mount", "--bind", cdi, cdi)
    await real.node.run("mount", "-o", "remount,bind,ro", cdi)
    made = await real.site.create(ns, simple("pod", 8))
    try:
        event = await real.of_kubelet(made, "FailedPrepareDynamicResources")
        await real.told(made, "NodeNotWritable", "read-only file system", cdi, "make what is named writable")
        page = await real.explain(made)
    finally:
        await real.node.run("umount", cdi)
    assert "read-only file system" in event["message"]
    assert "NodeNotWritable" in page
    assert real.node.seen(made, "main") is None
    await real.started(made, deadline=90)
    await real.over(made)
    await real.delete(made)
    await real.gone(made)
    await real.free(ns)
