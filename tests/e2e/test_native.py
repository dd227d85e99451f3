"""Stepping aside: when names are left to kube-scheduler, when they are taken back, and that nothing is written then.

The nodes of this control plane have kubelets that know the feature, so that a test can add one that does not.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from cluster_site import CLASSES, Served, Site, allocation, claim_name, container, pod, ready_of, requests_of
from conftest import SITE_OPTIONS
from upstream.api import APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH, wait_for
from upstream.cluster import pod_path
from upstream.controlplane import ControlPlane
from upstream.installation import NAMESPACE, Installation

if TYPE_CHECKING:
    from collections.abc import Callable

    from e2e.conftest import Serve
    from upstream.api import Object

pytestmark = pytest.mark.skipif(
    "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, whose nodes it may change"
)

NEW, OLD = "v1.37.0", "v1.35.0"
# Long enough to be seen in a policy's status, which collects changes for a second.
SETTLING = 3.0
OPTIONS = (*SITE_OPTIONS, f"--native-after={SETTLING:g}", "--probe-every=0.5")
STATE = f"/api/v1/namespaces/{NAMESPACE}/configmaps/drabridge-state"


@pytest_asyncio.fixture(scope="module")
async def site(controlplane_binary: Path, controlplane_directory: Path) -> AsyncIterator[Site]:
    """Kubernetes with the gate on, and drabridge."""
    async with AsyncExitStack() as stack:
        plane = ControlPlane(controlplane_binary, None, directory=controlplane_directory / "native", audit=True)
        stack.push_async_callback(plane.stop)
        await plane.start()
        yield Site(plane, await stack.enter_async_context(Installation(plane, options=OPTIONS)))


async def declare(site: Site, device_class: str, name: str) -> None:
    """Have a DeviceClass declare a resource name."""
    await site.api.call("PATCH", f"{CLASSES}/{device_class}", {"spec": {"extendedResourceName": name}}, MERGE_PATCH)


async def delivered(site: Site, gpu: Served, delivery: str) -> Object:
    """The policy's status, once drabridge delivers its name like that."""
    return await site.policy(gpu.policy, lambda seen: seen.get("delivery") == delivery, f"delivery {delivery}")


async def native(site: Site, serve: Serve) -> Served:
    """A name that has been left to kube-scheduler."""
    gpu = await serve(kubelet_version=NEW)
    await declare(site, gpu.device_class, gpu.name)
    await delivered(site, gpu, "Native")
    return gpu


async def by_scheduler(site: Site, ns: str, name: str, *, pod_name: str = "pod", count: int = 1) -> Object:
    """Create a Pod, which must be served by kube-scheduler alone; give it, bound."""
    made = await site.create(ns, pod(pod_name, container(limits={name: count})))
    bound = await wait_for(lambda: site.pod(made), "it to be bound", until=lambda seen: seen["spec"].get("nodeName"))
    untouched(bound, name, count)
    special = bound["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    claim = await site.api.call("GET", f"/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims/{special}")
    assert len(claim["status"]["allocation"]["devices"]["results"]) == count
    assert "app.kubernetes.io/managed-by" not in claim["metadata"].get("labels", {})
    return bound


def untouched(made: Object, name: str, count: int = 1) -> None:
    """Check that nobody called drabridge has written on a Pod."""
    assert made["spec"]["containers"][0]["resources"]["limits"] == {name: str(count)}
    assert "resourceClaims" not in made["spec"]
    metadata = made["metadata"]
    assert not any("drabridge.io" in key for part in ("labels", "annotations") for key in metadata.get(part, ()))
    assert not any("drabridge" in entry["manager"] for entry in metadata["managedFields"])


async def by_claim(site: Site, ns: str, name: str, *, pod_name: str = "pod", count: int = 1) -> Object:
    """Create a Pod, which must be rewritten, and served by our claim alone; give it, bound back."""
    made = await site.create(ns, pod(pod_name, container(limits={name: count})))
    assert claim_name(made), "it was not rewritten"
    bound = await site.bound_back(made)
    assert requests_of(await site.claim(bound)) == {"container-0-request-0": count}
    assert len(allocation(bound)) == count
    assert "extendedResourceClaimStatus" not in bound["status"]
    claims = await site.api.call("GET", f"/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims")
    owned = [
        claim["metadata"]["name"]
        for claim in claims["items"]
        if any(owner["uid"] == bound["metadata"]["uid"] for owner in claim["metadata"].get("ownerReferences", ()))
    ]
    assert owned == [claim_name(bound)]
    return bound


async def is_rewritten(site: Site, ns: str, name: str) -> bool:
    """Whether a Pod would be rewritten now; it is not stored."""
    asked = pod("asked", container(limits={name: 1}))
    return bool(
        claim_name(await site.api.call("POST", f"/api/v1/namespaces/{ns}/pods", asked, query={"dryRun": "All"}))
    )


async def since(site: Site) -> dict[str, str]:
    """Resource name -> since when kube-scheduler could serve it, as drabridge remembers it."""
    status, body = await site.api.request("GET", STATE)
    return dict(json.loads(body["data"]["nativeSince"])) if status == 200 else {}


async def set_kubelet(site: Site, node: str, version: str) -> None:
    status = {"status": {"nodeInfo": {"kubeletVersion": version}}}
    await site.api.call("PATCH", f"/api/v1/nodes/{node}/status", status, STRATEGIC_PATCH)


async def test_auto_leaves_a_name_to_kube_scheduler_after_it_could_serve_it_for_a_while(
    site: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve(kubelet_version=NEW)
    status = await delivered(site, gpu, "Rewrite")
    assert "kube-scheduler would serve" in ready_of(status)["message"]  # the class does not declare the name yet
    await declare(site, gpu.device_class, gpu.name)
    status = await site.policy(gpu.policy, lambda seen: "only since lately" in ready_of(seen)["message"], "settling")
    assert status["delivery"] == "Rewrite"
    await by_claim(site, ns, gpu.name, pod_name="early")

    status = await delivered(site, gpu, "Native")
    assert ready_of(status)["status"] == "True"
    assert ready_of(status)["reason"] == "Serving"
    late = await by_scheduler(site, ns, gpu.name, pod_name="late", count=2)
    status = await site.policy(gpu.policy, lambda seen: seen["pods"] == 2, "both Pods counted")
    assert status["claims"] == 2
    assert status["devices"]["allocated"] == 3
    replica = site.installed.replicas[-1]
    for metric, rewritten, natively in (("drabridge_pods", 1, 1), ("drabridge_devices_allocated", 1, 2)):
        assert await replica.metric(metric, resource=gpu.name, delivery="Rewrite") == rewritten
        assert await replica.metric(metric, resource=gpu.name, delivery="Native") == natively
    assert await replica.metric("drabridge_native_gate") == 1

    # It runs and ends, and we have neither written on it nor spoken of it. (The audit log knows of writes that change
    # nothing, too.)
    await site.cluster.mark_running(late)
    untouched(await site.pod(late), gpu.name, 2)
    assert await site.events(late) == []
    assert isinstance(site.cluster, ControlPlane)
    entries = site.cluster.audit_entries(f"system:serviceaccount:{NAMESPACE}:drabridge")
    assert [each["verb"] for each in entries if each["requestURI"].startswith(pod_path(late))] == []
    claims = [
        each for each in entries if each["verb"] == "create" and each["objectRef"]["resource"] == "resourceclaims"
    ]
    assert sum(each["objectRef"]["namespace"] == ns for each in claims) == 1
    await site.finish(late)
    await site.policy(gpu.policy, lambda seen: seen["devices"]["allocated"] == 1, "its devices to be free")


@pytest.mark.parametrize("end", ["upgraded", "cordoned"])
async def test_a_node_with_an_old_kubelet_has_pods_rewritten_at_once_until_it_is(
    site: Site, ns: str, serve: Serve, unique: Callable[[], str], afterwards: AsyncExitStack, end: str
) -> None:
    gpu = await native(site, serve)
    await by_scheduler(site, ns, gpu.name, pod_name="before", count=2)
    old = unique()
    await site.cluster.add_node(old, devices=0, kubelet_version=OLD)
    afterwards.push_async_callback(site.cluster.remove_node, old)
    # At once: within the moment that a watch event takes, not after the next look at the gate.
    await wait_for(lambda: is_rewritten(site, ns, gpu.name), "Pods to be rewritten", deadline=2)
    await by_claim(site, ns, gpu.name, pod_name="meanwhile", count=2)
    status = await delivered(site, gpu, "Rewrite")
    assert ready_of(status)["status"] == "True"
    assert f"node {old}" in ready_of(status)["message"]

    if end == "upgraded":
        await set_kubelet(site, old, NEW)
    else:
        await site.api.call("PATCH", f"/api/v1/nodes/{old}", {"spec": {"unschedulable": True}}, MERGE_PATCH)
    await site.policy(gpu.policy, lambda seen: "only since lately" in ready_of(seen)["message"], "the wait begins anew")
    await delivered(site, gpu, "Native")
    await by_scheduler(site, ns, gpu.name, pod_name="after", count=2)
    status = await site.policy(gpu.policy, lambda seen: seen["pods"] == 3, "all Pods counted")
    assert status["devices"]["allocated"] == 6


async def test_a_name_that_another_class_declares_is_served_by_the_class_of_its_policy(
    site: Site, ns: str, serve: Serve, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    gpu = await serve(kubelet_version=NEW)
    other = unique()
    await site.add_class(other, "other.example.com", afterwards, extendedResourceName=gpu.name)
    status = await site.policy(
        gpu.policy, lambda seen: ready_of(seen).get("reason") == "NameCollision", "the other class to be seen"
    )
    assert status["delivery"] == "Rewrite"
    assert other in ready_of(status)["message"]
    await by_claim(site, ns, gpu.name)
    assert gpu.name not in await since(site)


async def test_a_policy_can_ask_for_rewriting_where_native_would_work(site: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(kubelet_version=NEW, policy={"delivery": "Rewrite"})
    await declare(site, gpu.device_class, gpu.name)
    await wait_for(lambda: since(site), "drabridge to see that it would", until=lambda names: gpu.name in names)
    await by_claim(site, ns, gpu.name, count=3)
    status = await site.policy(gpu.policy, lambda seen: seen.get("pods") == 1, "the Pod to be counted")
    assert status["delivery"] == "Rewrite"
    assert status["devices"]["allocated"] == 3


async def test_a_policy_can_ask_for_native_without_a_wait(site: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(kubelet_version=NEW, policy={"delivery": "Native"})
    assert (await site.ready(gpu.policy, "ClassDiffers"))["status"] == "False"
    await declare(site, gpu.device_class, gpu.name)
    assert (await site.ready(gpu.policy, "Serving"))["status"] == "True"
    assert not await is_rewritten(site, ns, gpu.name)
    await by_scheduler(site, ns, gpu.name)


async def test_a_policy_that_asks_for_native_where_the_gate_is_off_is_not_ready_and_its_pods_are_left_alone(
    site_135: Site, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    gpu = await site_135.serve(unique(), afterwards, kubelet_version=NEW, policy={"delivery": "Native"})
    ns = unique()
    await site_135.cluster.add_namespace(ns)
    afterwards.push_async_callback(site_135.cluster.remove_namespace, ns)
    condition = await site_135.ready(gpu.policy, "GateOff")
    assert condition["status"] == "False"
    assert "Cure: " in condition["message"]
    untouched(await site_135.create(ns, pod("left", container(limits={gpu.name: 1}))), gpu.name)

    # Auto knows better, and needs no wait: rewriting is always right.
    await site_135.set_policy(gpu.policy, {"delivery": "Auto"})
    assert (await site_135.ready(gpu.policy, "Serving"))["status"] == "True"
    await by_claim(site_135, ns, gpu.name)
    status = await delivered(site_135, gpu, "Rewrite")
    assert "the API server drops" in ready_of(status)["message"]
    assert await site_135.installed.running.metric("drabridge_native_gate") == 0


async def test_an_implicit_name_is_left_to_kube_scheduler_like_any_other(
    site: Site, ns: str, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    driver = f"{unique()}.example.com"
    node = unique()
    await site.cluster.add_node(node, driver=driver, kubelet_version=NEW)
    afterwards.push_async_callback(site.cluster.remove_node, node)
    device_class = await site.add_class(unique(), driver, afterwards)
    name = f"deviceclass.resource.kubernetes.io/{device_class}"
    await by_claim(site, ns, name, pod_name="early")
    await wait_for(
        lambda: is_rewritten(site, ns, name), "it to be left alone", until=lambda yes: not yes, deadline=SETTLING + 10
    )
    await by_scheduler(site, ns, name, pod_name="late")


async def test_a_restart_does_not_start_the_wait_anew(site: Site, ns: str, serve: Serve) -> None:
    gpu = await native(site, serve)
    before = await since(site)
    assert await site.installed.replicas[-1].stop() == 0
    await site.installed.start_replica()
    await site.installed.wait_trusted()
    assert not await is_rewritten(site, ns, gpu.name)
    await wait_for(
        lambda: site.installed.replicas[-1].metric("drabridge_leader"), "the new replica to lead", deadline=30
    )
    await by_scheduler(site, ns, gpu.name)
    status = await site.policy(gpu.policy, lambda seen: seen["pods"] == 1, "the Pod to be counted")
    assert status["delivery"] == "Native"
    assert (await since(site))[gpu.name] == before[gpu.name]


async def test_a_memory_that_cannot_be_read_starts_the_wait_anew(site: Site, ns: str, serve: Serve) -> None:
    gpu = await native(site, serve)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "drabridge-state"}}
    # A time that no calendar has in UTC: of all that cannot be read, the one that raises no ValueError.
    broken = {"nativeSince": json.dumps({gpu.name: "0001-01-01T00:00:00+14:00"})}
    query = {"fieldManager": "somebody", "force": "true"}
    await site.api.call("PATCH", STATE, {**body, "data": broken}, APPLY_PATCH, query=query)
    await delivered(site, gpu, "Rewrite")
    assert await is_rewritten(site, ns, gpu.name)
    await delivered(site, gpu, "Native")
    assert not await is_rewritten(site, ns, gpu.name)
    assert gpu.name in await since(site)


async def test_a_name_without_a_class_any_more_is_forgotten(
    site: Site, serve: Serve, unique: Callable[[], str]
) -> None:
    gpu = await native(site, serve)
    assert gpu.name in await since(site)
    await site.api.call("DELETE", f"{CLASSES}/{gpu.device_class}")
    assert (await site.ready(gpu.policy, "DeviceClassMissing"))["status"] == "False"
    await wait_for(lambda: since(site), "it to be forgotten", until=lambda names: gpu.name not in names)
