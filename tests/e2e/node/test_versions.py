"""Kubelets and control planes of different versions, and an upgrade of both, with containers running throughout."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from cluster_site import CLASSES, claim_name, ready_of
from conftest import GATE_OFF, GATE_ON
from real_site import GPU, GPUS, RealSite, simple
from upstream.api import APPLY_PATCH
from upstream.installation import PROGRAM, REPOSITORY

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from e2e.node.conftest import NewSite
    from upstream.api import Object

pytestmark = pytest.mark.node


async def apply_class(real: RealSite) -> None:
    """What the DRA driver's chart does at each of its upgrades."""
    manifest = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": GPUS},
        "spec": {"extendedResourceName": GPU},
    }
    query = {"fieldManager": "chart", "force": "true"}
    await real.api.call("PATCH", f"{CLASSES}/{GPUS}", manifest, APPLY_PATCH, query=query)


async def test_an_old_kubelet_starts_native_pods_without_their_devices_unless_drabridge_rewrites_them(
    new_real: NewSite, afterwards: AsyncExitStack
) -> None:
    real = await new_real(GATE_ON, kubelet=GATE_OFF)
    node = await real.api.call("GET", f"/api/v1/nodes/{real.node.name}")
    assert node["status"]["nodeInfo"]["kubeletVersion"] == "v1.35.0"
    await real.serve("gpu", afterwards, delivery="Off")
    await real.site.ready("gpu", "PolicyOff")
    bare = await real.site.create("default", simple("bare", 2))
    seen = await real.node.wait_seen(bare)
    running = await real.phase(bare, "Running")
    special = running["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    claims = {claim["metadata"]["name"]: claim for claim in await real.claims("default")}
    assert len(claims[special]["status"]["allocation"]["devices"]["results"]) == 2
    assert seen.devices == ()  # all is well, says the API, and the container has nothing

    await real.site.set_policy("gpu", {"delivery": "Native"})
    condition = await real.site.ready("gpu", "KubeletTooOld")
    assert condition["status"] == "False"
    assert real.node.name in condition["message"]
    await real.site.set_policy("gpu", {"delivery": "Auto"})
    status = await real.delivered("gpu", "Rewrite")
    assert real.node.name in ready_of(status)["message"]
    live = await real.start("default", simple("rewritten", 2))
    assert len(real.look(live).devices) == 2


async def test_containers_run_on_while_control_plane_and_kubelet_are_upgraded_and_drabridge_is_removed(
    new_real: NewSite, afterwards: AsyncExitStack
) -> None:
    real = await new_real(GATE_OFF)
    await real.serve("gpu", afterwards)
    await real.delivered("gpu", "Rewrite")
    old = [await real.phase(await real.start("default", simple(f"old-{count}", count)), "Running") for count in (1, 2)]

    await real.plane.restart_as(None)
    between = await real.phase(await real.start("default", simple("between")), "Running")
    await real.node.restart_as(None)
    node = await real.api.call("GET", f"/api/v1/nodes/{real.node.name}")
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.37.")
    await real.delivered("gpu", "Rewrite")  # the class has lost its name
    await apply_class(real)
    await real.delivered("gpu", "Native")

    real.delivery = "Native"
    new = await real.phase(await real.start("default", simple("new", 2)), "Running")
    assert not claim_name(new)
    said = await drain(real)
    assert "rewritten Pods with their claims: 3; they go on" in said
    assert "drabridge can be deleted" in said
    await real.installed.replicas[-1].stop()
    manifests = REPOSITORY / "manifests" / "overlays" / "default"
    await real.plane.kubectl("delete", "-k", str(manifests), "--ignore-not-found")
    last = await real.phase(await real.start("default", simple("last", 2)), "Running")
    assert not claim_name(last)
    for each in (*old, between, new, last):
        await same(real, each)
        await real.delete(each)
        await real.gone(each)
    await real.free("default")


async def same(real: RealSite, before: Object) -> None:
    """Check that a Pod's containers are the ones that they were, and still have their devices."""
    now = await real.site.pod(before)
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert now["status"]["phase"] == "Running"
    for was, each in zip(before["status"]["containerStatuses"], now["status"]["containerStatuses"], strict=True):
        assert each["containerID"] == was["containerID"]
        assert each["restartCount"] == 0


async def drain(real: RealSite) -> str:
    """Run `drabridge drain`; give what it says."""
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        "drain",
        f"--kubeconfig={real.plane.kubeconfig_admin()}",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode == 0, out.decode()
    return out.decode()
