"""The KEP's own end-to-end list, word for word the same for kube-scheduler (Native) and for drabridge (Bind).

Numbers are those of upstream's list (KEP-5004, "Test Plan"): what holds of the one must hold of the other. What a Pod
gets is read off `status.extendedResourceClaimStatus` and the claim that it names, as the kubelet reads it.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from bind_site import NEW, BindSite, bound, claims, devices_of, special, unschedulable
from cluster_site import CLASSES, Served, container, pod
from upstream.api import MERGE_PATCH, wait_for

if TYPE_CHECKING:
    from e2e.conftest import Serve
    from upstream.api import Object

pytestmark = [
    pytest.mark.skipif(
        "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, with a second scheduler"
    ),
    pytest.mark.parametrize("delivery", ["Native", "Bind"]),
]


@pytest.fixture(name="site")
def site_of_bind(bind_site: BindSite) -> BindSite:
    """The site that `serve` and `ns` use."""
    return bind_site


async def declared(site: BindSite, serve: Serve, delivery: str, **options: object) -> Served:
    """A name that its DeviceClass declares, served in that way."""
    gpu = await serve(kubelet_version=NEW, policy={"delivery": delivery}, **options)
    spec = {"extendedResourceName": gpu.name}
    await site.api.call("PATCH", f"{CLASSES}/{gpu.device_class}", {"spec": spec}, MERGE_PATCH)
    await site.ready(gpu.policy, "Serving")
    return gpu


async def three_names(site: BindSite, serve: Serve, delivery: str) -> list[str]:
    """Names whose devices are on one node, sorted."""
    first = await declared(site, serve, delivery)
    others = [await declared(site, serve, delivery, on=first.nodes) for _ in range(2)]
    return sorted(each.name for each in (first, *others))


async def served(site: BindSite, ns: str, body: Object, delivery: str) -> tuple[Object, Object]:
    """Create a Pod, wait until it runs, check what holds for every served Pod; give it and its claim."""
    made = await site.create(ns, body)
    assert made["spec"]["schedulerName"] == {"Native": "default-scheduler", "Bind": "drabridge-scheduler"}[delivery]
    await bound(site, made)
    seen = await wait_for(lambda: site.pod(made), "it to run", until=lambda one: one["status"]["phase"] == "Running")
    claim = await special(site, seen)
    metadata = claim["metadata"]
    assert metadata["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    owner = {"apiVersion": "v1", "kind": "Pod", "name": seen["metadata"]["name"], "uid": seen["metadata"]["uid"]}
    assert metadata["ownerReferences"] == [{**owner, "controller": True}]
    assert metadata["finalizers"] == ["resource.kubernetes.io/delete-protection"]
    assert claim["status"]["reservedFor"] == [{"resource": "pods", **{key: owner[key] for key in ("name", "uid")}}]
    results = claim["status"]["allocation"]["devices"]["results"]
    assert Counter(each["request"] for each in results) == counts(claim)
    assert len(set(devices_of(claim))) == len(results)
    return seen, claim


def counts(claim: Object) -> dict[str, int]:
    requests = claim["spec"]["devices"]["requests"]
    assert all(each["exactly"]["allocationMode"] == "ExactCount" for each in requests)
    return {each["name"]: each["exactly"]["count"] for each in requests}


def injected(seen: Object) -> dict[str, set[tuple[str, str]]]:
    """What the kubelet would put into each container: resource and request."""
    found: dict[str, set[tuple[str, str]]] = {}
    for each in seen["status"]["extendedResourceClaimStatus"]["requestMappings"]:
        found.setdefault(each["containerName"], set()).add((each["resourceName"], each["requestName"]))
    return found


async def test_1_and_6_one_container_with_one_resource(site: BindSite, ns: str, serve: Serve, delivery: str) -> None:
    gpu = await declared(site, serve, delivery)
    seen, claim = await served(site, ns, pod("one", container(limits={gpu.name: 1})), delivery)
    assert counts(claim) == {"container-0-request-0": 1}
    assert injected(seen) == {"main": {(gpu.name, "container-0-request-0")}}
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == gpu.device_class


async def test_2_one_container_with_three_resources(site: BindSite, ns: str, serve: Serve, delivery: str) -> None:
    names = await three_names(site, serve, delivery)
    seen, claim = await served(site, ns, pod("three", container(limits=dict.fromkeys(names, 1))), delivery)
    assert counts(claim) == {f"container-0-request-{index}": 1 for index in range(3)}
    assert injected(seen) == {"main": {(name, f"container-0-request-{index}") for index, name in enumerate(names)}}


async def test_3_three_containers_with_one_resource_each(site: BindSite, ns: str, serve: Serve, delivery: str) -> None:
    names = await three_names(site, serve, delivery)
    containers = [container(f"c{index}", limits={name: 1}) for index, name in enumerate(names)]
    seen, _ = await served(site, ns, pod("each", *containers), delivery)
    assert injected(seen) == {f"c{index}": {(name, f"container-{index}-request-0")} for index, name in enumerate(names)}


async def test_4_three_containers_with_one_two_and_three_resources(
    site: BindSite, ns: str, serve: Serve, delivery: str
) -> None:
    names = await three_names(site, serve, delivery)
    containers = [container(f"c{index}", limits=dict.fromkeys(names[: index + 1], 1)) for index in range(3)]
    seen, claim = await served(site, ns, pod("more", *containers), delivery)
    assert injected(seen) == {
        f"c{index}": {(names[j], f"container-{index}-request-{j}") for j in range(index + 1)} for index in range(3)
    }
    assert len(counts(claim)) == 6


async def test_5_two_pods_on_a_node_with_dra_and_one_with_a_device_plugin(
    site: BindSite, ns: str, serve: Serve, delivery: str
) -> None:
    gpu = await declared(site, serve, delivery, devices=1)
    plugin = f"{gpu.policy}-plugin"
    await site.cluster.add_node(plugin, devices=0, allocatable={gpu.name: 1}, kubelet_version=NEW)
    try:
        made = [await site.create(ns, pod(f"pod-{number}", container(limits={gpu.name: 1}))) for number in range(2)]
        seen = {each["spec"]["nodeName"]: each for each in [await bound(site, each) for each in made]}
        assert set(seen) == {plugin, gpu.nodes[0]}
        assert "extendedResourceClaimStatus" not in seen[plugin]["status"]
        assert injected(seen[gpu.nodes[0]]) == {"main": {(gpu.name, "container-0-request-0")}}
        assert len(await claims(site, ns)) == 1
    finally:
        await site.cluster.remove_node(plugin)


async def test_7_claims_go_when_their_pods_have_ended_although_the_pods_are_still_there(
    site: BindSite, ns: str, serve: Serve, delivery: str
) -> None:
    gpu = await declared(site, serve, delivery, devices=1)
    seen, _ = await served(site, ns, pod("ends", container(limits={gpu.name: 1}), restartPolicy="Never"), delivery)
    await site.finish(seen)
    await wait_for(lambda: claims(site, ns), "the claim to go", until=lambda left: not left)
    await served(site, ns, pod("next", container(limits={gpu.name: 1})), delivery)


async def test_8_a_second_pod_waits_while_the_devices_are_taken_and_gets_them_afterwards(
    site: BindSite, ns: str, serve: Serve, delivery: str
) -> None:
    gpu = await declared(site, serve, delivery, devices=1)
    first, first_claim = await served(site, ns, pod("first", container(limits={gpu.name: 1})), delivery)
    second = await site.create(ns, pod("second", container(limits={gpu.name: 1})))
    await unschedulable(site, second)
    assert "extendedResourceClaimStatus" not in (await site.pod(second))["status"]
    await site.delete(first)
    second = await bound(site, second)
    assert devices_of(await special(site, second)) == devices_of(first_claim)


async def test_13_and_14_by_explicit_and_by_implicit_name(site: BindSite, ns: str, serve: Serve, delivery: str) -> None:
    gpu = await declared(site, serve, delivery)
    stored = await site.api.call("GET", f"{CLASSES}/{gpu.device_class}")
    assert stored["spec"]["extendedResourceName"] == gpu.name
    implicit = f"deviceclass.resource.kubernetes.io/{gpu.device_class}"
    kind = {"apiVersion": "drabridge.io/v1alpha1", "kind": "ExtendedResourcePolicy"}
    spec = {"resourceName": implicit, "delivery": delivery, "devices": [{"deviceClassName": gpu.device_class}]}
    path = "/apis/drabridge.io/v1alpha1/extendedresourcepolicies"
    name = f"{gpu.policy}-implicit"
    await site.api.call("POST", path, {**kind, "metadata": {"name": name}, "spec": spec})
    try:
        await site.ready(name, "Serving")
        body = pod("both", container(limits={gpu.name: 1, implicit: 2}))
        seen, claim = await served(site, ns, body, delivery)
        by_name = dict(injected(seen)["main"])
        assert by_name.keys() == {gpu.name, implicit}
        assert {name: counts(claim)[request] for name, request in by_name.items()} == {gpu.name: 1, implicit: 2}
    finally:
        await site.api.call("DELETE", f"{path}/{name}")
