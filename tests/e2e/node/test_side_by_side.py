"""One name, served by a device plugin and by DRA: who gives a container its devices, and that nobody gets both."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from cluster_site import allocation, claim_name, container
from conftest import GATE_OFF, GATE_ON
from real_site import GPU, GPUS, RealSite, body, simple
from upstream.api import Object, wait_for
from upstream.cluster import pod_path

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from e2e.node.conftest import NewSite

PLUGIN = "device-plugin"

pytestmark = pytest.mark.node


async def offers(real: RealSite, count: str | None) -> None:
    """Wait until the node offers so many GPUs by a device plugin."""

    async def allocatable() -> str | None:
        node = await real.api.call("GET", f"/api/v1/nodes/{real.node.name}")
        offered: str | None = node["status"]["allocatable"].get(GPU)
        return offered

    await wait_for(allocatable, f"{count} of {GPU}", until=lambda seen: seen == count, deadline=60)


async def by_plugin(real: RealSite, name: str) -> Object:
    """Create a Pod, which a device plugin must give its one device."""
    made = await real.site.create("default", simple(name))
    assert not claim_name(made)
    seen = await real.node.wait_seen(made)
    assert len(seen.plugin_devices) == 1
    assert not seen.devices
    live = await real.phase(made, "Running")
    assert "extendedResourceClaimStatus" not in live["status"]
    return live


@pytest.mark.parametrize(("version", "delivery"), [(GATE_OFF, "Rewrite"), (GATE_ON, "Native")])
async def test_a_device_plugin_serves_where_it_is_and_dra_where_it_is_gone(
    new_real: NewSite, afterwards: AsyncExitStack, version: str, delivery: str
) -> None:
    real = await new_real(version, delivery=delivery)
    real.node.launch(PLUGIN, "device-plugin", f"-resource={GPU}", "-devices=2")
    await offers(real, "2")
    await real.serve("gpu", afterwards)
    await real.site.ready("gpu", "DevicePluginPresent" if delivery == "Rewrite" else "Serving")
    if delivery == "Native":
        await real.delivered("gpu", "Native")
    first = await by_plugin(real, "first")
    # A kubelet that has been restarted forgets its plugins until they come back; the Pod keeps its device.
    await real.node.restart("kubelet")
    await offers(real, "2")
    second = await by_plugin(real, "second")
    assert real.look(first).plugin_devices != real.look(second).plugin_devices

    await real.node.end(PLUGIN, signal.SIGTERM)
    await offers(real, "0")
    await real.site.ready("gpu", "Serving")
    await real.delivered("gpu", delivery)
    live = await real.start("default", simple("third", 3))
    assert len(real.look(live).devices) == 3
    for each in (first, second):
        assert (await real.site.pod(each))["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_a_pod_with_a_claim_that_kept_its_extended_name_would_get_its_devices_twice(
    new_real: NewSite, afterwards: AsyncExitStack
) -> None:
    real = await new_real(GATE_ON)
    await real.serve("gpu", afterwards, delivery="Rewrite")
    await real.delivered("gpu", "Rewrite")
    # What is to be prevented: a claim as drabridge would make it, beside the name that it stands for.
    request = {"name": "container-0-request-0", "exactly": {"deviceClassName": GPUS, "count": 2}}
    claim = {"metadata": {"name": "by-hand"}, "spec": {"devices": {"requests": [request]}}}
    await real.api.call("POST", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", claim)
    main = container(limits={GPU: 2})
    main["resources"]["claims"] = [{"name": "er"}]
    spec = {"resourceClaims": [{"name": "er", "resourceClaimName": "by-hand"}]}
    metadata = {"annotations": {"drabridge.io/rewrite": "false"}}
    twice = await real.site.create("default", body("twice", main, metadata=metadata, **spec))
    assert len((await real.node.wait_seen(twice)).devices) == 4
    await real.delete(twice)
    await real.gone(twice)

    live = await real.start("default", simple("once", 2))
    assert len(real.look(live).devices) == 2
    assert "limits" not in live["spec"]["containers"][0]["resources"]
    assert len(allocation(await real.site.bound_back(live))) == 2
    assert "extendedResourceClaimStatus" not in (await real.api.call("GET", pod_path(live)))["status"]
