"""Delivery Bind: Pods unchanged, devices chosen by drabridge, bound through a stock kube-scheduler."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from typing import TYPE_CHECKING

import pytest

from bind_site import (
    NEW,
    RESOURCE_API,
    SCHEDULER,
    USER,
    BindSite,
    bind,
    bound,
    check,
    claim_body,
    claims,
    devices_of,
    special,
    unschedulable,
)
from cluster_site import allocation, container, drain, pod
from upstream.api import MERGE_PATCH, Object, wait_for
from upstream.faultproxy import Fault
from upstream.installation import CONFIGURATION, NAMESPACE
from upstream.processes import free_port

if TYPE_CHECKING:
    from e2e.conftest import Serve

pytestmark = pytest.mark.skipif(
    "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, with a second scheduler"
)


@pytest.fixture(name="site")
def site_of_bind(bind_site: BindSite) -> BindSite:
    """The site that `serve` and `ns` use."""
    return bind_site


async def test_an_unchanged_pod_gets_its_devices_from_drabridge(site: BindSite, ns: str, serve: Serve) -> None:
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
    assert claim["status"]["allocation"]["allocationTimestamp"] >= made["metadata"]["creationTimestamp"]
    assert len(set(devices_of(claim))) == 2
    assert seen["status"]["extendedResourceClaimStatus"]["requestMappings"] == [
        {"containerName": "main", "resourceName": gpu.name, "requestName": "container-0-request-1"}
    ]
    assert {each["device"] for each in allocation(seen)} == {device for _, _, device in devices_of(claim)}
    status = await site.policy(gpu.policy, lambda shown: shown.get("pods") == 1, "the Pod to be counted")
    assert status["delivery"] == "Bind"
    assert status["devices"] == {"total": 8, "allocated": 2}
    await wait_for(lambda: site.pod(made), "it to run", until=lambda shown: shown["status"]["phase"] == "Running")


async def test_nothing_that_it_does_is_forbidden_and_a_bind_is_four_writes(
    site: BindSite, ns: str, serve: Serve
) -> None:
    gpu = await bind(site, serve)
    await bound(site, await site.create(ns, pod("pod", container(limits={gpu.name: 1}))))
    entries = site.cluster.audit_entries(USER)
    refused = [each["requestURI"] for each in entries if each["responseStatus"]["code"] == 403]
    assert refused == []
    writes = [
        (each["verb"], each["objectRef"]["resource"], each["objectRef"].get("subresource", ""))
        for each in entries
        if each.get("objectRef", {}).get("namespace") == ns and each["verb"] not in ("get", "list", "watch")
    ]
    assert [each for each in writes if each[1] != "events"] == [
        ("create", "resourceclaims", ""),
        ("patch", "resourceclaims", "status"),
        ("patch", "pods", "status"),
        ("create", "pods", "binding"),
    ]


async def test_init_containers_reuse_devices_and_containers_see_their_own(
    site: BindSite, ns: str, serve: Serve
) -> None:
    gpu = await bind(site, serve)
    body = pod(
        "pod",
        container("a", limits={gpu.name: 1}),
        container("b", limits={gpu.name: 3}),
        init=(container("first", limits={gpu.name: 2}),),
    )
    seen = await bound(site, await site.create(ns, body))
    claim = await special(site, seen)
    counts = {each["name"]: each["exactly"]["count"] for each in claim["spec"]["devices"]["requests"]}
    assert counts == {"container-1-request-0": 1, "container-2-request-0": 3}
    by_container: dict[str, set[str]] = {}
    for each in allocation(seen):
        by_container.setdefault(each["container"], set()).add(each["device"])
    assert {name: len(devices) for name, devices in by_container.items()} == {"a": 1, "b": 3, "first": 4}
    assert not by_container["a"] & by_container["b"]


async def test_where_a_device_plugin_offers_the_name_no_claim_is_made(site: BindSite, ns: str, serve: Serve) -> None:
    gpu = await bind(site, serve, devices=1)
    plugin = f"{gpu.policy}-plugin"
    await site.cluster.add_node(plugin, devices=0, allocatable={gpu.name: 1}, kubelet_version=NEW)
    try:
        made = [await site.create(ns, pod(f"pod-{number}", container(limits={gpu.name: 1}))) for number in range(2)]
        seen = {each["spec"]["nodeName"]: each for each in [await bound(site, each) for each in made]}
        assert set(seen) == {plugin, gpu.nodes[0]}
        assert "extendedResourceClaimStatus" not in seen[plugin]["status"]
        assert len(devices_of(await special(site, seen[gpu.nodes[0]]))) == 1
        assert len(await claims(site, ns)) == 1
    finally:
        await site.cluster.remove_node(plugin)


async def test_a_node_with_an_old_kubelet_is_left_out(site: BindSite, ns: str, serve: Serve) -> None:
    gpu = await bind(site, serve)
    status = {"status": {"nodeInfo": {"kubeletVersion": "v1.35.0"}}}
    await site.api.call("PATCH", f"/api/v1/nodes/{gpu.nodes[0]}/status", status, MERGE_PATCH)
    made = await site.create(ns, pod("pod", container(limits={gpu.name: 1})))
    assert "KubeletTooOld" in await unschedulable(site, made)
    status = {"status": {"nodeInfo": {"kubeletVersion": NEW}}}
    await site.api.call("PATCH", f"/api/v1/nodes/{gpu.nodes[0]}/status", status, MERGE_PATCH)
    await bound(site, made)


async def test_a_pod_waits_until_devices_are_free_and_goes_on_by_itself(site: BindSite, ns: str, serve: Serve) -> None:
    gpu = await bind(site, serve, devices=2)
    first = await site.create(ns, pod("first", container(limits={gpu.name: 2})))
    await bound(site, first)
    second = await site.create(ns, pod("second", container(limits={gpu.name: 1})))
    assert f"NotEnoughDevices: {gpu.name}: 1" in await unschedulable(site, second)
    assert len(await claims(site, ns)) == 1
    await site.delete(first)
    await bound(site, second)
    await check(site, ns)


async def test_a_pod_that_ends_by_itself_gives_its_devices_back(site: BindSite, ns: str, serve: Serve) -> None:
    gpu = await bind(site, serve, devices=1)
    first = await site.create(ns, pod("first", container(limits={gpu.name: 1}), restartPolicy="Never"))
    await bound(site, first)
    await site.finish(first)
    await wait_for(lambda: claims(site, ns), "its claim to go", until=lambda left: not left)
    second = await site.create(ns, pod("second", container(limits={gpu.name: 1})))
    await bound(site, second)


async def test_a_pod_that_waits_is_woken_by_new_devices(site: BindSite, ns: str, serve: Serve) -> None:
    gpu = await bind(site, serve, devices=0)
    made = await site.create(ns, pod("pod", container(limits={gpu.name: 1})))
    await unschedulable(site, made)
    node = await site.api.call("GET", f"/api/v1/nodes/{gpu.nodes[0]}")
    await site.cluster.add_devices(node, driver=f"{gpu.policy}.example.com", devices=1)
    await bound(site, made, deadline=20)


async def test_all_claims_of_a_pod_are_served_in_one_pass(site: BindSite, ns: str, serve: Serve) -> None:
    """Named and shared by two Pods, made of a template, and for extended resources."""
    gpu = await bind(site, serve, nodes=2)
    path = f"{RESOURCE_API}/namespaces/{ns}"
    await site.api.call("POST", f"{path}/resourceclaims", claim_body("shared", gpu.device_class, 2))
    template = {"spec": {"spec": claim_body("", gpu.device_class)["spec"]}}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    await site.api.call("POST", f"{path}/resourceclaimtemplates", {**kind, "metadata": {"name": "own"}, **template})
    entries = [{"name": "a", "resourceClaimName": "shared"}, {"name": "b", "resourceClaimTemplateName": "own"}]
    made = [
        await site.create(ns, pod(f"pod-{number}", container(limits={gpu.name: 1}), resourceClaims=entries))
        for number in range(2)
    ]
    seen = [await bound(site, each) for each in made]
    assert len({each["spec"]["nodeName"] for each in seen}) == 1, "a shared claim keeps them together"
    found = await claims(site, ns)
    assert len(found) == 5
    assert all(devices_of(claim) for claim in found)
    assert len({device for claim in found for device in devices_of(claim)}) == 2 + 2 + 2
    shared = next(claim for claim in found if claim["metadata"]["name"] == "shared")
    assert {each["uid"] for each in shared["status"]["reservedFor"]} == {each["metadata"]["uid"] for each in made}
    assert "resource.kubernetes.io/delete-protection" in shared["metadata"]["finalizers"]
    for each in made:
        await site.delete(each)

    async def rest() -> list[Object]:
        return [claim for claim in await claims(site, ns) if claim.get("status", {}).get("allocation")]

    await wait_for(rest, "all to be released", until=lambda left: not left)


async def test_a_pod_waits_for_a_claim_that_is_not_there(site: BindSite, ns: str, serve: Serve) -> None:
    gpu = await bind(site, serve)
    entries = [{"name": "a", "resourceClaimName": "late"}]
    made = await site.create(ns, pod("pod", container(limits={gpu.name: 1}), resourceClaims=entries))
    assert "late does not exist" in await unschedulable(site, made)
    path = f"{RESOURCE_API}/namespaces/{ns}/resourceclaims"
    await site.api.call("POST", path, claim_body("late", gpu.device_class))
    await bound(site, made)


async def test_a_plain_pod_of_the_profile_is_bound_as_well(site: BindSite, ns: str, serve: Serve) -> None:
    gpu = await bind(site, serve)
    made = await site.create(ns, pod("pod", container(), schedulerName=SCHEDULER))
    await bound(site, made)
    assert gpu.nodes
    assert await claims(site, ns) == []


async def test_more_devices_than_a_claim_may_hold_are_refused_with_a_reason(
    site: BindSite, ns: str, serve: Serve
) -> None:
    gpu = await bind(site, serve, devices=40)
    made = await site.create(ns, pod("pod", container(limits={gpu.name: 33})))
    assert "TooManyDevices" in await unschedulable(site, made)


@pytest.mark.parametrize("strategy", ["Pack", "Spread"])
async def test_the_strategy_of_the_policy_chooses_the_node(
    site: BindSite, ns: str, serve: Serve, strategy: str
) -> None:
    gpu = await bind(site, serve, nodes=4, policy={"strategy": strategy})
    for number in range(4):
        await bound(site, await site.create(ns, pod(f"pod-{number}", container(limits={gpu.name: 2}))))
    pods = (await site.api.call("GET", f"/api/v1/namespaces/{ns}/pods"))["items"]
    assert len({each["spec"]["nodeName"] for each in pods}) == {"Pack": 1, "Spread": 4}[strategy]


async def test_the_schedulers_own_pods_are_admitted_and_rolled_for_their_credentials(site: BindSite) -> None:
    path = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/drabridge-scheduler"
    deployment = await wait_for(
        lambda: site.api.call("GET", path),
        "two Pods of the scheduler",
        until=lambda seen: seen.get("status", {}).get("updatedReplicas") == 2,
    )
    assert deployment["spec"]["template"]["metadata"]["annotations"]["drabridge.io/credentials"]
    assert not [each for each in deployment["status"]["conditions"] if each["type"] == "ReplicaFailure"]


async def test_a_tainted_device_is_not_given_away(site: BindSite, ns: str, serve: Serve) -> None:
    gpu = await bind(site, serve, devices=1)
    taint = {"key": "example.com/sick", "effect": "NoSchedule"}
    rule = {"metadata": {"name": gpu.policy}, "spec": {"deviceSelector": {"pool": gpu.nodes[0]}, "taint": taint}}
    path = f"{RESOURCE_API}/devicetaintrules"
    await site.api.call("POST", path, rule)
    await asyncio.sleep(3)  # rules are listed every two seconds
    made = await site.create(ns, pod("pod", container(limits={gpu.name: 1})))
    assert "NotEnoughDevices" in await unschedulable(site, made)
    await site.api.call("DELETE", f"{path}/{gpu.policy}")
    await bound(site, made)


async def test_a_pod_is_bound_once_its_devices_are_prepared(site: BindSite, ns: str, serve: Serve) -> None:
    gpu = await bind(site, serve, devices=0)
    devices = {
        "name": "gpu-0",
        "bindsToNode": True,
        "bindingConditions": ["example.com/attached"],
        "bindingFailureConditions": ["example.com/broken"],
    }
    pool = {"name": gpu.nodes[0], "generation": 1, "resourceSliceCount": 1}
    driver = f"{gpu.policy}.example.com"
    spec = {"driver": driver, "nodeName": gpu.nodes[0], "pool": pool, "devices": [devices]}
    path = f"{RESOURCE_API}/resourceslices"
    await site.api.call("POST", path, {"metadata": {"name": gpu.policy}, "spec": spec})
    made = await site.create(ns, pod("pod", container(limits={gpu.name: 1})))

    async def allocated() -> Object | None:
        return next((claim for claim in await claims(site, ns) if devices_of(claim)), None)

    claim = await wait_for(allocated, "the device to be allocated")
    assert claim
    await asyncio.sleep(1)
    assert not (await site.pod(made))["spec"].get("nodeName")
    condition = {
        "type": "example.com/attached",
        "status": "True",
        "reason": "Attached",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    status = {"devices": [{"driver": driver, "pool": gpu.nodes[0], "device": "gpu-0", "conditions": [condition]}]}
    path = f"{RESOURCE_API}/namespaces/{ns}/resourceclaims/{claim['metadata']['name']}/status"
    await site.api.call("PATCH", path, {"status": status}, MERGE_PATCH)
    await bound(site, made)
    await check(site, ns)


# --- when it goes wrong


WRITES = {
    "claim": ("POST", "/resourceclaims"),
    "claim status": ("PATCH", "/resourceclaims/extended-resources-[^/]*/status"),
    "pod status": ("PATCH", "/pods/[^/]*/status"),
    "binding": ("POST", "/pods/[^/]*/binding"),
}
EACH_WRITE = [pytest.param(write, marks=() if write == "claim status" else pytest.mark.slow) for write in WRITES]
"""One of them in each run, the others in `make soak`: some wait for a Lease, or for kube-scheduler's backoff."""

FAULTS = (
    Fault.CONFLICT,
    Fault.TOO_MANY_REQUESTS,
    Fault.INTERNAL_ERROR,
    Fault.DROPPED,
    Fault.LOST,
)


@pytest.mark.parametrize("write", EACH_WRITE)
async def test_a_write_that_fails_ends_in_a_bound_pod_or_in_nothing(
    site: BindSite, ns: str, serve: Serve, write: str
) -> None:
    """Once and for good, in each way: the Pod is bound in the end, with one claim, and nothing is left over."""
    gpu = await bind(site, serve)
    method, path = WRITES[write]
    for number, fault in enumerate(FAULTS):
        for times in (1, 5):
            injection = site.proxy.inject(fault, method, f"/namespaces/{ns}{path}", times)
            made = await site.create(ns, pod(f"pod-{number}-{times}", container(limits={gpu.name: 1})))
            await bound(site, made, deadline=60)
            assert injection.hits
            site.proxy.calm()
            await check(site, ns)
            await site.delete(made)
    await wait_for(lambda: claims(site, ns), "all claims to go", until=lambda left: not left)


@pytest.mark.parametrize("write", EACH_WRITE)
async def test_a_leader_that_is_killed_on_the_way_leaves_nothing_that_its_successor_does_not_clear(
    site: BindSite, ns: str, serve: Serve, write: str
) -> None:
    gpu = await bind(site, serve, devices=1)
    method, path = WRITES[write]
    injection = site.proxy.inject(Fault.UNANSWERED, method, f"/namespaces/{ns}{path}")
    made = await site.create(ns, pod("pod", container(limits={gpu.name: 1})))
    await wait_for(lambda: injection.hits, "the write")
    site.installation.replicas[-1].process.send(signal.SIGKILL)
    site.proxy.calm()
    await site.start_leader()
    await bound(site, made, deadline=60)
    await check(site, ns)


@pytest.mark.parametrize("write", EACH_WRITE)
async def test_a_leader_that_is_paused_on_the_way_writes_nothing_when_it_wakes_up(
    site: BindSite, ns: str, serve: Serve, write: str
) -> None:
    gpu = await bind(site, serve, devices=1)
    method, path = WRITES[write]
    paused = site.installation.replicas[-1]
    injection = site.proxy.inject(Fault.DELAYED, method, f"/namespaces/{ns}{path}")
    made = await site.create(ns, pod("pod", container(limits={gpu.name: 1})))
    await wait_for(lambda: injection.hits, "the write")
    paused.process.send(signal.SIGSTOP)
    site.proxy.calm()
    successor, port = await site.start_operator(webhook_port=free_port())
    await wait_for(lambda: successor.metric("drabridge_leader"), "the other one to lead", deadline=40)
    site.switch.target = port
    await bound(site, made, deadline=90)
    paused.process.send(signal.SIGCONT)
    await wait_for(
        lambda: paused.metric("drabridge_leader"), "it to see that it leads no more", until=lambda one: not one
    )
    await check(site, ns)
    second = await site.create(ns, pod("second", container(limits={gpu.name: 1})))
    assert "NotEnoughDevices" in await unschedulable(site, second)
    await site.delete(second)
    # The webhook's port is with the one that was paused; another leader takes its place.
    await paused.stop()
    await successor.stop()
    await site.start_leader()


@pytest.mark.parametrize("seed", [1])
async def test_pods_come_and_go_under_random_faults(site: BindSite, ns: str, serve: Serve, seed: int) -> None:
    gpu = await bind(site, serve, nodes=3, devices=4)
    faults = (Fault.LOST, Fault.DROPPED, Fault.CONFLICT, Fault.INTERNAL_ERROR, Fault.TOO_MANY_REQUESTS)
    site.proxy.at_random(seed, dict.fromkeys(faults, 0.03))
    chance = random.Random(seed)
    alive: list[Object] = []
    for number in range(60):
        alive.append(await site.create(ns, pod(f"pod-{number}", container(limits={gpu.name: chance.randint(1, 2)}))))
        await asyncio.sleep(0.2)
        if len(alive) > 5:
            await site.delete(alive.pop(chance.randrange(len(alive))))
    site.proxy.calm()
    for each in alive:
        await bound(site, each, deadline=90)
    await check(site, ns)
    for each in alive:
        await site.delete(each)
    await wait_for(lambda: claims(site, ns), "all claims to go", until=lambda left: not left, deadline=60)
    assert sum(site.proxy.hits.values()) > 50


async def test_two_claims_with_the_same_device_are_told(site: BindSite, ns: str, serve: Serve) -> None:
    gpu = await bind(site, serve, devices=1)
    seen = await bound(site, await site.create(ns, pod("pod", container(limits={gpu.name: 1}))))
    path = f"{RESOURCE_API}/namespaces/{ns}/resourceclaims"
    await site.api.call("POST", path, claim_body("foreign", gpu.device_class))
    stolen = (await special(site, seen))["status"]["allocation"]
    stolen["devices"]["results"][0]["request"] = "req"
    status = {"metadata": {}, "status": {"allocation": stolen}}
    await site.api.call("PATCH", f"{path}/foreign", {"metadata": {"finalizers": ["example.com/x"]}}, MERGE_PATCH)
    await site.api.call("PATCH", f"{path}/foreign/status", status, MERGE_PATCH)

    async def told() -> set[str]:
        listed = await site.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{ns}/events")
        return {each["regarding"]["name"] for each in listed["items"] if each["reason"] == "DevicesAllocatedTwice"}

    names = {"foreign", seen["status"]["extendedResourceClaimStatus"]["resourceClaimName"]}
    await wait_for(told, "events on both claims", until=lambda found: found == names)
    assert await site.installation.running.metric("drabridge_claims_overlapping") == 1
    shown = await site.condition(gpu.policy, "OneAllocator", "DevicesAllocatedTwice")
    assert shown["status"] == "False"
    assert all(f"ResourceClaim {ns}/{name}" in shown["message"] for name in names)
    await site.api.call("PATCH", f"{path}/foreign", {"metadata": {"finalizers": None}}, MERGE_PATCH)
    await site.api.call("DELETE", f"{path}/foreign")
    await site.condition(gpu.policy, "OneAllocator", "OneAllocator")


# --- leaving


async def test_draining_waits_for_pods_that_only_our_scheduler_would_bind_and_names_them(
    site: BindSite, ns: str, serve: Serve
) -> None:
    gpu = await bind(site, serve, devices=1)
    first = await bound(site, await site.create(ns, pod("first", container(limits={gpu.name: 1}))))
    second = await site.create(ns, pod("second", container(limits={gpu.name: 1})))
    await unschedulable(site, second)
    configuration = await site.api.call("GET", CONFIGURATION)
    try:
        code, text = await drain(site, "--timeout=1")
        assert code == 1
        assert f"Pod {ns}/second waits for drabridge's kube-scheduler" in text
        assert f"{ns}/first" not in text
        assert "Pods bound by Bind: " in text
        assert "drabridge is still needed" in text

        later = await site.create(ns, pod("later", container(limits={gpu.name: 1})))
        assert later["spec"]["schedulerName"] == "default-scheduler"
        await site.delete(later)

        draining = asyncio.create_task(drain(site, "--timeout=60"))
        await site.delete(first)
        code, text = await draining
        assert code == 0, text
        assert "drabridge can be deleted" in text
        running = await bound(site, second)

        site.scheduler.stop()
        await site.installation.replicas[-1].stop()
        assert (await special(site, running))["status"]["reservedFor"]
        await site.finish(running)
        await wait_for(lambda: claims(site, ns), "Kubernetes to free it", until=lambda left: not left)
    finally:
        del configuration["metadata"]["resourceVersion"]
        await site.api.call("POST", CONFIGURATION.rpartition("/")[0], configuration)
        await site.start_leader()
        await site.scheduler.start()
