"""Delivery Bind: Pods unchanged, devices chosen by drabridge, bound through a stock kube-scheduler."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from cluster_site import CLASSES, Served, Site, allocation, container, pod
from conftest import SITE_OPTIONS
from upstream.api import MERGE_PATCH, wait_for
from upstream.cluster import pod_path
from upstream.controlplane import ControlPlane
from upstream.installation import Installation
from upstream.processes import free_port
from upstream.scheduler import BindScheduler

if TYPE_CHECKING:
    from e2e.conftest import Serve
    from upstream.api import Object

pytestmark = pytest.mark.skipif(
    "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, with a second scheduler"
)

NEW = "v1.37.0"
SCHEDULER = "drabridge-scheduler"


@pytest_asyncio.fixture(scope="module")
async def site(controlplane_binary: Path, controlplane_directory: Path) -> AsyncIterator[Site]:
    """Kubernetes with the gate on, drabridge with its extender, and the kube-scheduler that calls it."""
    async with AsyncExitStack() as stack:
        plane = ControlPlane(controlplane_binary, None, directory=controlplane_directory / "bind", audit=True)
        stack.push_async_callback(plane.stop)
        await plane.start()
        port = free_port()
        options = (*SITE_OPTIONS, f"--extender-address=127.0.0.1:{port}")
        installation = await stack.enter_async_context(Installation(plane, options=options, overlay="bind"))
        scheduler = BindScheduler(plane, port)
        stack.callback(scheduler.stop)
        await scheduler.start()
        yield Site(plane, installation)


async def bind(site: Site, serve: Serve, **options: object) -> Served:
    """A name that is served by Bind."""
    policy = {"delivery": "Bind", **dict(options.pop("policy", {}))}  # type: ignore[call-overload]
    gpu = await serve(kubelet_version=NEW, policy=policy, **options)
    await site.api.call(
        "PATCH", f"{CLASSES}/{gpu.device_class}", {"spec": {"extendedResourceName": gpu.name}}, MERGE_PATCH
    )
    await site.policy(gpu.policy, lambda seen: seen.get("delivery") == "Bind", "delivery Bind")
    await site.ready(gpu.policy, "Serving")
    return gpu


async def bound(site: Site, made: Object, deadline: float = 30.0) -> Object:
    return await wait_for(
        lambda: site.pod(made),
        f"{pod_path(made)} to be bound",
        until=lambda seen: seen["spec"].get("nodeName"),
        deadline=deadline,
    )


async def special(site: Site, seen: Object) -> Object:
    name = seen["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    namespace = seen["metadata"]["namespace"]
    return await site.api.call("GET", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}")


async def test_an_unchanged_pod_gets_its_devices_from_drabridge(site: Site, ns: str, serve: Serve) -> None:
    gpu = await bind(site, serve)
    made = await site.create(ns, pod("pod", container(limits={gpu.name: 2, "cpu": "1"})))
    assert made["spec"]["schedulerName"] == SCHEDULER
    assert made["spec"]["containers"][0]["resources"]["limits"] == {gpu.name: "2", "cpu": "1"}
    assert "resourceClaims" not in made["spec"]
    seen = await bound(site, made)
    assert seen["spec"]["nodeName"] == gpu.nodes[0]
    claim = await special(site, seen)
    assert claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"
    assert [each["uid"] for each in claim["status"]["reservedFor"]] == [made["metadata"]["uid"]]
    results = claim["status"]["allocation"]["devices"]["results"]
    assert len({(each["pool"], each["device"]) for each in results}) == 2
    assert seen["status"]["extendedResourceClaimStatus"]["requestMappings"] == [
        {"containerName": "main", "resourceName": gpu.name, "requestName": "container-0-request-1"}
    ]
    assert {each["device"] for each in allocation(seen)} == {each["device"] for each in results}
