"""What the KEP's own end-to-end tests ask of a Pod with extended resources, by what the API shows.

Numbers in names are those of upstream's list (KEP-5004, "Test Plan"; test/e2e/dra): what container i asks for first is
`container-i-request-0`, and so on.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

from cluster_site import Site, allocation, claim_name, container, pod, requests_of, uses
from e2e.conftest import BOTH
from upstream.api import wait_for

if TYPE_CHECKING:
    from e2e.conftest import Serve
    from upstream.api import Object

pytestmark = BOTH


async def served(site: Site, ns: str, body: Object) -> tuple[Object, Object]:
    """Create a Pod, wait until it is served, check what holds for every served Pod; give it and its claim."""
    bound = await site.bound_back(await site.create(ns, body))
    claim = await site.claim(bound)
    check(bound, claim)
    return bound, claim


def check(bound: Object, claim: Object) -> None:
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": bound["metadata"]["name"],
        "uid": bound["metadata"]["uid"],
        "controller": True,
    }
    assert claim["metadata"]["ownerReferences"] == [owner]
    assert claim["spec"]["devices"].keys() == {"requests"}
    results = claim["status"]["allocation"]["devices"]["results"]
    assert Counter(each["request"] for each in results) == requests_of(claim)
    devices = [(each["driver"], each["pool"], each["device"]) for each in results]
    assert len(set(devices)) == len(devices)
    assert {(each["driver"], each["pool"], each["device"]) for each in allocation(bound)} == set(devices)
    named = {(each["container"], each["request"]) for each in allocation(bound)}
    assert named == {(name, request) for name, requests in uses(bound).items() for request in requests}
    for each in (*bound["spec"].get("initContainers", ()), *bound["spec"]["containers"]):
        resources = each.get("resources", {})
        assert not any("example.com/gpu" in key for field in ("requests", "limits") for key in resources.get(field, ()))
    conditions = {each["type"]: each for each in bound["status"]["conditions"]}
    assert conditions["drabridge.io/DevicesAllocated"]["status"] == "True"
    assert conditions["drabridge.io/DevicesAllocated"]["reason"] == "DevicesAllocated"


async def three_names(serve: Serve) -> list[str]:
    """Names whose devices are on one node, sorted."""
    first = await serve()
    return sorted([first.name, *[(await serve(on=first.nodes)).name for _ in range(2)]])


async def test_1_one_container_with_one_resource(site: Site, ns: str, serve: Serve) -> None:
    gpu = await serve()
    bound, claim = await served(site, ns, pod("one", container(limits={gpu.name: 1})))
    assert requests_of(claim) == {"container-0-request-0": 1}
    assert uses(bound) == {"main": ["container-0-request-0"]}
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == gpu.device_class


async def test_2_one_container_with_three_resources(site: Site, ns: str, serve: Serve) -> None:
    names = await three_names(serve)
    bound, claim = await served(site, ns, pod("three", container(limits=dict.fromkeys(names, 1))))
    assert requests_of(claim) == {f"container-0-request-{index}": 1 for index in range(3)}
    assert {each["request"]: each["resource"] for each in allocation(bound)} == {
        f"container-0-request-{index}": name for index, name in enumerate(names)
    }


async def test_3_three_containers_with_one_resource_each(site: Site, ns: str, serve: Serve) -> None:
    names = await three_names(serve)
    bound, _claim = await served(
        site, ns, pod("each", *(container(f"c{index}", limits={name: 1}) for index, name in enumerate(names)))
    )
    assert uses(bound) == {f"c{index}": [f"container-{index}-request-0"] for index in range(3)}
    assert {(each["container"], each["resource"]) for each in allocation(bound)} == {
        (f"c{index}", name) for index, name in enumerate(names)
    }


async def test_4_three_containers_with_one_two_and_three_resources(site: Site, ns: str, serve: Serve) -> None:
    names = await three_names(serve)
    bound, claim = await served(
        site,
        ns,
        pod("more", *(container(f"c{index}", limits=dict.fromkeys(names[: index + 1], 1)) for index in range(3))),
    )
    wanted = {f"c{index}": [f"container-{index}-request-{j}" for j in range(index + 1)] for index in range(3)}
    assert {name: sorted(requests) for name, requests in uses(bound).items()} == wanted
    assert len(requests_of(claim)) == 6


async def test_5_a_node_with_a_device_plugin_keeps_its_pods_and_others_wait_for_it_to_go(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    node = gpu.nodes[0]
    await ours.cluster.set_allocatable(node, {gpu.name: 2})
    await ours.ready(gpu.policy, "DevicePluginPresent")
    plugin = await ours.create(ns, pod("plugin", container(limits={gpu.name: 1})))
    assert not claim_name(plugin)
    await wait_for(
        lambda: ours.pod(plugin), "the plugin's Pod to be bound", until=lambda seen: seen["spec"].get("nodeName")
    )

    await ours.cluster.set_allocatable(node, {gpu.name: 0})
    await ours.ready(gpu.policy, "Serving")
    await served(ours, ns, pod("dra", container(limits={gpu.name: 1})))


async def test_7_claims_go_when_their_pods_have_ended_although_the_pods_are_still_there(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve(devices=1)
    bound, _ = await served(ours, ns, pod("ends", container(limits={gpu.name: 1}), restartPolicy="Never"))
    await wait_for(lambda: ours.pod(bound), "it to run", until=lambda seen: seen["status"]["phase"] == "Running")
    await ours.finish(bound)
    await wait_for(lambda: ours.claim_exists(bound), "the claim to go", until=lambda there: not there)
    await served(ours, ns, pod("next", container(limits={gpu.name: 1})))


async def test_8_a_second_pod_waits_while_the_devices_are_taken_and_gets_them_afterwards(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve(devices=1)
    first, first_claim = await served(ours, ns, pod("first", container(limits={gpu.name: 1})))
    second = await ours.create(ns, pod("second", container(limits={gpu.name: 1})))

    def unschedulable(seen: Object) -> bool:
        conditions = {each["type"]: each for each in seen.get("status", {}).get("conditions", ())}
        return bool(conditions.get("PodScheduled", {}).get("reason") == "Unschedulable")

    await wait_for(lambda: ours.pod(second), "the second to be unschedulable", until=unschedulable)
    assert not allocation(await ours.pod(second))
    await ours.delete(first)
    second = await ours.bound_back(second)
    claim = await ours.claim(second)
    check(second, claim)
    assert (
        claim["status"]["allocation"]["devices"]["results"][0]["device"]
        == (first_claim["status"]["allocation"]["devices"]["results"][0]["device"])
    )


async def test_an_init_container_reuses_what_a_later_container_holds_and_a_sidecar_keeps_its_own(
    site: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    bound, claim = await served(
        site,
        ns,
        pod(
            "phases",
            container("main", limits={gpu.name: 1}),
            init=(
                container("first", limits={gpu.name: 1}, command=["/pause", "-v"]),
                container("sidecar", limits={gpu.name: 1}, restartPolicy="Always"),
                container("second", limits={gpu.name: 2}, command=["/pause", "-v"]),
            ),
        ),
    )
    assert requests_of(claim) == {f"container-{index}-request-0": 1 for index in (1, 2, 3)}
    assert {name: sorted(requests) for name, requests in uses(bound).items()} == {
        "first": ["container-1-request-0"],
        "sidecar": ["container-1-request-0"],
        "second": ["container-2-request-0", "container-3-request-0"],
        "main": ["container-3-request-0"],
    }


async def test_an_implicit_name_is_served_without_a_policy(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve()
    name = f"deviceclass.resource.kubernetes.io/{gpu.device_class}"
    _, claim = await served(ours, ns, pod("implicit", container(limits={name: 2})))
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == gpu.device_class


async def test_a_pod_with_a_claim_of_its_own_gets_both_and_no_device_twice(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=2)
    own = {
        "metadata": {"name": "own"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": gpu.device_class}}]}},
    }
    path = f"/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims"
    await ours.api.call("POST", path, own)
    both = container(limits={gpu.name: 1})
    both["resources"]["claims"] = [{"name": "mine"}]
    bound, claim = await served(
        ours, ns, pod("both", both, resourceClaims=[{"name": "mine", "resourceClaimName": "own"}])
    )
    assert {"name": "mine"} in bound["spec"]["containers"][0]["resources"]["claims"]
    other = await ours.api.call("GET", f"{path}/own")
    devices = [each["status"]["allocation"]["devices"]["results"][0]["device"] for each in (claim, other)]
    assert devices[0] != devices[1]


async def test_pods_of_a_deployment_have_no_name_at_admission_and_get_a_claim_each(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve(devices=8)
    template = pod("", container(limits={gpu.name: 2}))
    deployment = {
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]},
        },
    }
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    await ours.api.call("POST", path, deployment)

    async def pods() -> list[Object]:
        listed = await ours.api.call("GET", f"/api/v1/namespaces/{ns}/pods", query={"labelSelector": "app=web"})
        return list(listed["items"])

    three = await wait_for(pods, "three served Pods", until=lambda seen: len(list(filter(allocation, seen))) == 3)
    claims = [await ours.claim(each) for each in three]
    for each, claim in zip(three, claims, strict=True):
        check(each, claim)
    used = [each["device"] for claim in claims for each in claim["status"]["allocation"]["devices"]["results"]]
    assert len(set(used)) == 6

    # Rolled over on a node that has room for one Pod more: the old ones make room.
    changed = {"spec": {"template": {"metadata": {"annotations": {"round": "2"}}}}}
    await ours.api.call("PATCH", f"{path}/web", changed, "application/merge-patch+json")

    async def rolled_over() -> bool:
        current = await pods()
        fresh = [each for each in current if each["metadata"].get("annotations", {}).get("round") == "2"]
        return len(fresh) == len(current) == 3 and all(map(allocation, fresh))

    await wait_for(rolled_over, "three served Pods of the second round", deadline=60)


async def test_a_pod_deleted_while_it_waits_leaves_no_claim(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=1)
    waiting = await ours.create(ns, pod("waits", container(limits={gpu.name: 2})))
    await wait_for(lambda: ours.claim_exists(waiting), "its claim")
    await ours.delete(waiting)
    await wait_for(lambda: ours.claim_exists(waiting), "the claim to go", until=lambda there: not there)


async def test_many_pods_at_once_get_what_they_asked_for_and_nothing_twice(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=32, nodes=2)
    created = await asyncio.gather(
        *(ours.create(ns, pod(f"p{index}", container(limits={gpu.name: 1 + index % 3}))) for index in range(30))
    )
    used: Counter[tuple[str, str]] = Counter()
    for index, each in enumerate(created):
        bound = await ours.bound_back(each, deadline=60)
        claim = await ours.claim(bound)
        check(bound, claim)
        assert sum(requests_of(claim).values()) == 1 + index % 3
        used.update(
            (result["pool"], result["device"]) for result in claim["status"]["allocation"]["devices"]["results"]
        )
    assert set(used.values()) == {1}
