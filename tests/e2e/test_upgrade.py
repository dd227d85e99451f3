"""A cluster goes from 1.35 to 1.37 and back, with Pods in it: no Pod is stranded, and names change hands when they can.

The trap: a DeviceClass made on 1.35 has lost its extendedResourceName, and only applying it again brings it back.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING

import pytest

from cluster_site import CLASSES, Served, Site, allocation, claim_name, container, pod, ready_of
from conftest import SITE_OPTIONS
from upstream.api import STRATEGIC_PATCH, wait_for
from upstream.installation import Installation

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AsyncExitStack

    from upstream.api import Object
    from upstream.controlplane import ControlPlane

pytestmark = pytest.mark.skipif(
    "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, to be upgraded"
)


async def apply_class(site: Site, gpu: Served) -> Object:
    """What the DRA driver's chart does at each of its upgrades."""
    manifest = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": gpu.device_class},
        "spec": {"extendedResourceName": gpu.name},
    }
    query = {"fieldManager": "chart", "force": "true"}
    return await site.api.call(
        "PATCH", f"{CLASSES}/{gpu.device_class}", manifest, "application/apply-patch+yaml", query=query
    )


async def rewritten(site: Site, gpu: Served, name: str) -> Object:
    """Create a Pod, which must be rewritten; give it once it has its devices and runs."""
    made = await site.create("default", pod(name, container(limits={gpu.name: 1})))
    assert claim_name(made), "it was not rewritten"
    return await site.cluster.mark_running(await site.bound_back(made))


async def still_running(site: Site, before: Object) -> None:
    """Check that a Pod is as it was, and its claim is there and reserved for it."""
    now = await site.pod(before)
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert now["spec"] == before["spec"]
    assert now["status"]["phase"] == "Running"
    assert allocation(now) == allocation(before)
    claim = await site.claim(now)
    assert [each["uid"] for each in claim["status"]["reservedFor"]] == [now["metadata"]["uid"]]
    devices = [each["device"] for each in claim["status"]["allocation"]["devices"]["results"]]
    assert devices == [each["device"] for each in allocation(now)]


async def told(site: Site, device_class: str) -> str:
    """What the events about a DeviceClass that lost its name say."""
    events = (await site.api.call("GET", "/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
    lost = (each for each in events if each["reason"] == "ExtendedResourceNameLost")
    return "\n".join(each["note"] for each in lost if each["regarding"]["name"] == device_class)


async def delivered(site: Site, gpu: Served, delivery: str, why: str = "") -> Object:
    return await site.policy(
        gpu.policy,
        lambda seen: seen.get("delivery") == delivery and why in ready_of(seen)["message"],
        f"delivery {delivery}, {why or 'without a reason'}",
        deadline=60,
    )


async def test_pods_and_names_through_an_upgrade_and_back(
    own_plane: ControlPlane, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    async with Installation(own_plane, options=SITE_OPTIONS) as installation:
        site = Site(own_plane, installation)
        gpu = await site.serve(unique(), afterwards, devices=16, kubelet_version="v1.35.0")
        node = gpu.nodes[0]
        assert "extendedResourceName" not in (await apply_class(site, gpu))["spec"], "1.35 drops it"
        await delivered(site, gpu, "Rewrite", "the API server drops")
        old = [await rewritten(site, gpu, "old")]

        await own_plane.restart_as(None)
        await delivered(site, gpu, "Rewrite", "by no DeviceClass")
        old.append(await rewritten(site, gpu, "class-lost-its-name"))
        patch = json.dumps({"spec": {"extendedResourceName": gpu.name}})
        command = f"kubectl patch deviceclass {gpu.device_class} --type=merge -p '{patch}'"
        await wait_for(lambda: told(site, gpu.device_class), "the cure", until=lambda notes: command in notes)
        assert (await apply_class(site, gpu))["spec"]["extendedResourceName"] == gpu.name
        await delivered(site, gpu, "Rewrite", f"node {node}")
        old.append(await rewritten(site, gpu, "kubelet-too-old"))
        status = {"status": {"nodeInfo": {"kubeletVersion": "v1.37.0"}}}
        await own_plane.api.call("PATCH", f"/api/v1/nodes/{node}/status", status, STRATEGIC_PATCH)
        await delivered(site, gpu, "Rewrite", "only since lately")
        old.append(await rewritten(site, gpu, "settling"))

        await delivered(site, gpu, "Native")
        new = await site.create("default", pod("new", container(limits={gpu.name: 1})))
        assert not claim_name(new)
        new = await wait_for(
            lambda: site.pod(new), "kube-scheduler to serve it", until=lambda seen: seen["spec"].get("nodeName")
        )
        assert new["status"]["extendedResourceClaimStatus"]
        new = await own_plane.mark_running(new)
        await asyncio.gather(*(still_running(site, each) for each in old))
        await site.policy(gpu.policy, lambda seen: seen["pods"] == len(old) + 1, "all Pods counted")

        await own_plane.restart_as("1.35")
        await delivered(site, gpu, "Rewrite", "the API server drops")
        old.append(await rewritten(site, gpu, "back"))
        await asyncio.gather(*(still_running(site, each) for each in old))
        # The native Pod goes on with the devices that it has.
        assert (await site.pod(new))["status"]["phase"] == "Running"
        assert installation.replicas[0].process.exit_code is None, "one process lived through all of it"
