"""Delivery Bind: what must not go wrong whoever asks, and whatever somebody has written on claims and Pods.

Tests ask the extender themselves, as kube-scheduler does, about Pods of a scheduler that does not exist.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import aiohttp
import pytest

from bind_site import RESOURCE_API, BindSite, bind, bound, check, claims, devices_of, special, unschedulable
from cluster_site import container, pod
from upstream.api import MERGE_PATCH, STRATEGIC_PATCH, wait_for
from upstream.cluster import pod_path

if TYPE_CHECKING:
    from cluster_site import Served
    from e2e.conftest import Serve
    from upstream.api import Object

pytestmark = pytest.mark.skipif(
    "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, with a second scheduler"
)

SPECIAL = {"resource.kubernetes.io/extended-resource-claim": "true"}


@pytest.fixture(name="site")
def site_of_bind(bind_site: BindSite) -> BindSite:
    """The site that `serve` and `ns` use."""
    return bind_site


# --- who may ask, and what


async def test_nobody_without_the_schedulers_certificate_is_answered(site: BindSite) -> None:
    assert (await site.ask("/filter", "{}"))["Error"]
    with pytest.raises(aiohttp.ClientError):
        await site.ask("/filter", "{}", certificate=False)


MALFORMED = {
    "not JSON": "{",
    "not an object": "[]",
    "no Pod": "{}",
    "a Pod of a wrong shape": '{"Pod": {"metadata": 3}, "NodeNames": []}',
    "a Pod that is not stored yet": '{"Pod": {"metadata": {"name": "a", "namespace": "b"}}, "NodeNames": []}',
    "statuses of a wrong shape": (
        '{"Pod": {"metadata": {"name": "a", "namespace": "b", "uid": "c"}, "status": {"resourceClaimStatuses": [3]}},'
        ' "NodeNames": []}'
    ),
    "nodes in full": '{"Pod": {"metadata": {}}, "Nodes": {"items": []}}',
    "names of nodes that are none": '{"Pod": {"metadata": {}}, "NodeNames": [1]}',
    "a binding without its node": '{"PodNamespace": "default", "PodName": "a", "PodUID": "b"}',
    "nested too deeply": "[" * 100_000,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_call_is_an_error_that_names_the_cure(site: BindSite, body: str) -> None:
    for path in ("/filter", "/bind"):
        error = (await site.ask(path, body))["Error"]
        assert error.startswith("drabridge: ")
        assert "internal error" not in error
        assert "Traceback" not in error
    assert await site.ask("/prioritize", body) == []


# --- calls that come too late, twice, or for what is not there


async def by_hand(site: BindSite, ns: str, gpu: Served, name: str = "pod") -> Object:
    """A Pod that asks for a device, and that no scheduler looks at."""
    return await site.create(ns, pod(name, container(limits={gpu.name: 1}), schedulerName="by-hand"))


async def fits(site: BindSite, made: Object, *nodes: str) -> Object:
    answer: Object = await site.ask("/filter", {"Pod": made, "NodeNames": list(nodes)})
    return answer


def binding_of(made: Object, node: str, **other: str) -> Object:
    metadata = made["metadata"]
    call = {"PodNamespace": metadata["namespace"], "PodName": metadata["name"], "PodUID": metadata["uid"]}
    return {**call, "Node": node, **other}


async def test_a_bind_that_is_called_twice_is_done_once(site: BindSite, ns: str, serve: Serve) -> None:
    gpu = await bind(site, serve, devices=2)
    (node,) = gpu.nodes
    made = await by_hand(site, ns, gpu)
    assert (await fits(site, made, node))["NodeNames"] == [node]
    at_once = await asyncio.gather(*(site.ask("/bind", binding_of(made, node)) for _ in range(3)))
    assert at_once == [{}, {}, {}]
    assert await site.ask("/bind", binding_of(made, node)) == {}, "and once more afterwards"
    elsewhere = await site.ask("/bind", binding_of(made, "another-node"))
    assert f"is bound to {node}" in elsewhere["Error"]
    assert len(await claims(site, ns)) == 1
    await check(site, ns)


async def test_a_pod_that_is_deleted_between_filter_and_bind_leaves_nothing(
    site: BindSite, ns: str, serve: Serve
) -> None:
    gpu = await bind(site, serve, devices=1)
    (node,) = gpu.nodes
    made = await by_hand(site, ns, gpu)
    assert (await fits(site, made, node))["NodeNames"] == [node]
    await site.delete(made)
    assert (await site.ask("/bind", binding_of(made, node)))["Error"].startswith("drabridge: ")
    await wait_for(lambda: claims(site, ns), "no claim to be left", until=lambda left: not left)
    second = await by_hand(site, ns, gpu, "second")
    assert (await fits(site, second, node))["NodeNames"] == [node], "the device is free"


async def test_a_pod_that_another_one_has_replaced_is_not_bound(site: BindSite, ns: str, serve: Serve) -> None:
    """One name, two Pods: the call for the first must not give the second a node."""
    gpu = await bind(site, serve, devices=1)
    (node,) = gpu.nodes
    first = await by_hand(site, ns, gpu)
    await fits(site, first, node)
    await site.delete(first)
    second = await by_hand(site, ns, gpu)
    assert (await site.ask("/bind", binding_of(first, node)))["Error"].startswith("drabridge: ")
    assert (await site.ask("/bind", binding_of(second, node, PodUID="nobody")))["Error"].startswith("drabridge: ")
    assert "nodeName" not in (await site.pod(second))["spec"]
    await wait_for(lambda: claims(site, ns), "no claim to be left", until=lambda left: not left)
    await fits(site, second, node)
    assert await site.ask("/bind", binding_of(second, node)) == {}


async def test_a_node_that_is_not_known_is_refused_with_a_reason_and_costs_nothing(
    site: BindSite, ns: str, serve: Serve
) -> None:
    gpu = await bind(site, serve, devices=1)
    (node,) = gpu.nodes
    made = await by_hand(site, ns, gpu)
    answer = await fits(site, made, "no-such-node", node)
    assert answer["NodeNames"] == [node]
    assert answer["FailedAndUnresolvableNodes"]["no-such-node"].startswith("NodeUnknown: ")
    assert "NodeUnknown" in (await site.ask("/bind", binding_of(made, "no-such-node")))["Error"]
    assert await claims(site, ns) == []
    assert await site.ask("/bind", binding_of(made, node)) == {}


# --- what others have written


def forged(name: str, owner: Object, device_class: str) -> Object:
    """A claim that says of itself that it is a Pod's special one."""
    reference = {"apiVersion": "v1", "kind": "Pod", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": 3}
    return {
        "metadata": {"name": name, "annotations": SPECIAL, "ownerReferences": [{**reference, "controller": True}]},
        "spec": {"devices": {"requests": [{"name": "container-0-request-0", "exactly": exactly}]}},
    }


async def test_forged_special_claims_are_neither_used_nor_allocated(site: BindSite, ns: str, serve: Serve) -> None:
    """One by another name, which stays the Pod's; one by our name, as an earlier try would have left it, goes."""
    gpu = await bind(site, serve, devices=4)
    (node,) = gpu.nodes
    made = await by_hand(site, ns, gpu)
    path = f"{RESOURCE_API}/namespaces/{ns}/resourceclaims"
    ours = f"extended-resources-{made['metadata']['uid']}"
    for name in ("forged", ours):
        await site.api.call("POST", path, forged(name, made, gpu.device_class))
    assert (await fits(site, made, node))["NodeNames"] == [node]
    assert await site.ask("/bind", binding_of(made, node)) == {}
    seen = await bound(site, made)
    claim = await special(site, seen)
    assert claim["metadata"]["name"] == ours
    assert len(devices_of(claim)) == 1, "what the Pod asks for, not what the forged one did"
    found = {each["metadata"]["name"]: each for each in await claims(site, ns)}
    assert devices_of(found["forged"]) == []
    assert "reservedFor" not in found["forged"].get("status", {})
    await site.policy(gpu.policy, lambda shown: (shown["pods"], shown["devices"]["allocated"]) == (1, 1), "one Pod")


async def test_a_claim_of_our_name_that_is_somebody_elses_is_left_alone_and_the_pod_is_told(
    site: BindSite, ns: str, serve: Serve
) -> None:
    gpu = await bind(site, serve, devices=1)
    other = await site.create(ns, pod("other", container()))
    made = await site.create(
        ns, pod("pod", container(limits={gpu.name: 1}), schedulingGates=[{"name": "example.com/wait"}])
    )
    name = f"extended-resources-{made['metadata']['uid']}"
    path = f"{RESOURCE_API}/namespaces/{ns}/resourceclaims"
    await site.api.call("POST", path, forged(name, other, gpu.device_class))
    await site.api.call("PATCH", pod_path(made), {"spec": {"schedulingGates": None}}, MERGE_PATCH)
    told = f"ClaimOfAnotherOwner: ResourceClaim {ns}/{name} is not owned by Pod {ns}/pod. Cure: "
    await unschedulable(site, made, told)
    assert [each["metadata"]["name"] for each in await claims(site, ns)] == [name]
    await site.api.call("DELETE", f"{path}/{name}")
    await bound(site, made)


async def say_that_it_has(site: BindSite, made: Object, claim: Object, gpu: Served) -> Object:
    """Have a Pod's status name another Pod's claim; give the Pod as it is then."""
    mapping = {"containerName": "main", "resourceName": gpu.name, "requestName": "container-0-request-0"}
    stolen = {"resourceClaimName": claim["metadata"]["name"], "requestMappings": [mapping]}
    body = {"status": {"extendedResourceClaimStatus": stolen}}
    return await site.api.call("PATCH", f"{pod_path(made)}/status", body, STRATEGIC_PATCH)


async def test_a_status_that_names_a_foreign_claim_is_overwritten_and_that_claim_is_not_touched(
    site: BindSite, ns: str, serve: Serve
) -> None:
    gpu = await bind(site, serve, devices=2)
    (node,) = gpu.nodes
    victim = await bound(site, await site.create(ns, pod("victim", container(limits={gpu.name: 1}))))
    before = await special(site, victim)
    made = await by_hand(site, ns, gpu)
    made = await say_that_it_has(site, made, before, gpu)
    assert (await fits(site, made, node))["NodeNames"] == [node]
    assert await site.ask("/bind", binding_of(made, node)) == {}
    claim = await special(site, await bound(site, made))
    assert claim["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    assert not set(devices_of(claim)) & set(devices_of(before))
    after = await special(site, victim)
    assert after["status"] == before["status"]
    await check(site, ns)


async def test_a_failed_bind_of_a_pod_whose_status_names_a_foreign_claim_gives_back_only_its_own(
    site: BindSite, ns: str, serve: Serve
) -> None:
    gpu = await bind(site, serve, devices=2)
    (node,) = gpu.nodes
    victim = await bound(site, await site.create(ns, pod("victim", container(limits={gpu.name: 1}))))
    before = await special(site, victim)
    made = await by_hand(site, ns, gpu)
    await fits(site, made, node)
    await say_that_it_has(site, made, before, gpu)
    await site.api.call("DELETE", pod_path(made), {"gracePeriodSeconds": 0})
    assert (await site.ask("/bind", binding_of(made, node)))["Error"].startswith("drabridge: ")
    await wait_for(lambda: claims(site, ns), "the victim's claim alone", until=lambda left: len(left) == 1)
    assert (await special(site, victim))["status"] == before["status"]
