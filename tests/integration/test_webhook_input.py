"""Odd Pods, and Pods at odd moments, through the real API server and the webhook that runs beside it."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from cluster_site import POLICIES, Site, claim_name, claim_path, container, pod, requests_of
from upstream.api import Object, wait_for
from upstream.cluster import pod_path

NAME = "webhook-input"
GPU = f"{NAME}.example.com/gpu"
IMPLICIT = f"deviceclass.resource.kubernetes.io/{NAME}"
OUTSIDE = "kube-public"  # the webhook configuration leaves it alone
WIDE = "\u00e4\u00f6\u00fc \U0001f680 \u4e2d\u6587 \u202e \u0007"


@dataclass(frozen=True, slots=True)
class Place:
    """The namespace NAME, where drabridge serves GPU."""

    site: Site

    async def dry(self, body: Object, namespace: str = NAME) -> tuple[int, Object]:
        """Ask what would become of a Pod."""
        path = f"/api/v1/namespaces/{namespace}/pods"
        return await self.site.api.request("POST", path, body, query={"dryRun": "All"})

    async def apply(self, *bodies: Object, check: bool = True) -> str:
        """`kubectl apply` of all in one file; gives what was said on standard error."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(bodies)})
        said = await self.site.cluster.kubectl("apply", "-f", "-", stdin=text, check=check)
        return said.err


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(site_135: Site) -> AsyncIterator[Place]:
    async with AsyncExitStack() as undo:
        assert (await site_135.serve(NAME, undo, devices=64)).name == GPU
        await site_135.cluster.add_namespace(NAME)
        undo.push_async_callback(site_135.cluster.remove_namespace, NAME)
        here = Place(site_135)

        async def rewritten() -> bool:
            _, body = await here.dry(pod("probe", container(limits={GPU: 1})))
            return bool(claim_name(body))

        await wait_for(rewritten, "the policy to be known")
        yield here


def plain(body: Object) -> Object:
    """Leave out what differs between any two creations."""
    result: Object = json.loads(re.sub("kube-api-access-[a-z0-9]{5}", "kube-api-access", json.dumps(body)))
    for field in ("uid", "creationTimestamp", "managedFields", "namespace", "resourceVersion"):
        result["metadata"].pop(field, None)
    for condition in result["status"].get("conditions", ()):
        del condition["lastTransitionTime"]
    return result


# What kubectl shows


async def test_kubectl_shows_that_a_claim_will_come(place: Place) -> None:
    body = pod("shown", container(limits={GPU: 2}), metadata={"namespace": NAME})
    said = await place.apply(body)
    stored = await place.site.pod(body)
    assert said == (
        f"Warning: drabridge: {GPU}: 2 devices by ResourceClaim {claim_name(stored)}, which is created"
        " once the Pod is stored; the Pod waits for it\n"
    )


WARNED: dict[str, tuple[Object, str]] = {
    "too many devices": (
        pod("x" * 200, container("a", limits={GPU: 20}), container("b", limits={GPU: 13})),
        (
            f"drabridge: TooManyDevices: Pod webhook-input/{'x' * 200} asks for 33 devices in all, a ResourceClaim"
            f" holds 32: a 20 {GPU}, b 13 {GPU}. Cure: ask for at most 32 devices in all containers together."
        ),
    ),
    "a node by name": (
        pod("bound", container(limits={GPU: 1}), nodeName="nowhere"),
        (
            "drabridge: NodeNameSet: Pod webhook-input/bound: spec.nodeName is nowhere. Cure: remove spec.nodeName and"
            " use a nodeSelector or node affinity."
        ),
    ),
    "a name that nobody serves": (
        pod("nobody", container(limits={f"{GPU}-of-nobody": 1})),
        (
            f"drabridge: NameNotServed: no DeviceClass stands behind {GPU}-of-nobody. Cure: create an"
            " ExtendedResourcePolicy for the name, or a DeviceClass that declares it."
        ),
    ),
    "no room for an annotation": (
        pod("full", container(limits={GPU: 1}), metadata={"annotations": {"note": "x" * (256 * 1024 - 100)}}),
        "drabridge: PodTooLarge: Pod webhook-input/full: metadata.annotations would have",
    ),
}


@pytest.mark.parametrize("case", WARNED)
async def test_kubectl_shows_why_a_pod_is_left_alone(place: Place, case: str) -> None:
    body, want = WARNED[case]
    body = {**body, "metadata": {**body["metadata"], "namespace": NAME}}
    output = await place.site.cluster.kubectl("create", "--dry-run=server", "-f", "-", stdin=json.dumps(body))
    said = " ".join(line.removeprefix("Warning: ") for line in output.err.splitlines())
    assert said.startswith(want)


# Pods that do not concern us


async def test_a_pod_that_asks_for_nothing_of_ours_is_stored_as_without_drabridge(place: Place) -> None:
    body = pod("plain", container(limits={"cpu": 1, "memory": "1Gi"}), metadata={"annotations": {"note": WIDE}})
    (status, here), (_, outside) = await place.dry(body), await place.dry(body, OUTSIDE)
    assert status == 201
    assert plain(here) == plain(outside)


async def test_an_update_of_a_rewritten_pod_passes(place: Place) -> None:
    body = await place.site.create(NAME, pod("updated", container(limits={GPU: 1})))
    patch = {"metadata": {"labels": {"team": "a"}}, "spec": {"activeDeadlineSeconds": 3600}}
    content_type = "application/merge-patch+json"
    changed = await place.site.api.call("PATCH", pod_path(body), patch, content_type)
    assert changed["metadata"]["labels"]["team"] == "a"
    assert claim_name(changed) == claim_name(body)


# Odd Pods that are valid

ODD: dict[str, Object] = {
    "sixty-four containers, half of them asking": pod(
        "many", *(container(f"c{i}", limits={GPU: 1} if i % 2 else {"cpu": "1m"}) for i in range(64))
    ),
    "sixty-four init containers": pod(
        "inits", container(limits={GPU: 2}), init=tuple(container(f"i{i}", limits={GPU: 2}) for i in range(64))
    ),
    "names at their limits": pod(
        "n" * 253,
        container("c" * 63, limits={GPU: 1}),
        init=(container("i" * 63, limits={GPU: 1}),),
        resourceClaims=[{"name": "r" * 63, "resourceClaimName": "s" * 253}],
    ),
    "a generated name of the greatest length": pod(
        "", container(limits={GPU: 1}), metadata={"generateName": "g" * 253}
    ),
    "annotations in all scripts": pod(
        "wide", container(limits={GPU: 1}), metadata={"annotations": {"note": WIDE, "other": WIDE * 99}}
    ),
    "an entry that has our name": pod(
        "entry", container(limits={GPU: 1}), resourceClaims=[{"name": "drabridge", "resourceClaimName": "mine"}]
    ),
    "annotations that leave us just enough room": pod(
        "room", container(limits={GPU: 1}), metadata={"annotations": {"note": "x" * (256 * 1024 - 500)}}
    ),
}


@pytest.mark.parametrize("case", ODD)
async def test_an_odd_pod_is_served_and_keeps_all_it_had(place: Place, case: str) -> None:
    body = ODD[case]
    (status, here), (_, outside) = await place.dry(body), await place.dry(body, OUTSIDE)
    assert status == 201, here
    assert claim_name(here)
    old, new = outside["metadata"].get("annotations", {}), here["metadata"]["annotations"]
    assert new == {**old, "drabridge.io/extended-resources": new["drabridge.io/extended-resources"]}
    assert here["spec"]["resourceClaims"][:-1] == outside["spec"].get("resourceClaims", [])
    assert [each["name"] for each in here["spec"]["containers"]] == [
        each["name"] for each in outside["spec"]["containers"]
    ]
    assert GPU not in json.dumps(here["spec"])


async def test_a_pod_of_sixty_four_containers_gets_its_claim(place: Place) -> None:
    body = await place.site.create(NAME, ODD["sixty-four containers, half of them asking"])
    await wait_for(lambda: place.site.claim_exists(body), "the claim")
    requests = requests_of(await place.site.claim(body))
    assert len(requests) == 32
    assert set(requests.values()) == {1}


# Pods that are invalid, and must stay so whatever is taken off them

INVALID: dict[str, tuple[Object, str]] = {
    "more asked for than allowed, by an implicit name": (
        pod("p", container(resources={"requests": {IMPLICIT: "3"}, "limits": {IMPLICIT: "2"}})),
        "must be less than or equal to",
    ),
    "an implicit name with a limit of zero": (
        pod("p", container(resources={"requests": {IMPLICIT: "1"}, "limits": {IMPLICIT: "0"}})),
        "must be less than or equal to",
    ),
    "a request of an entry that is not there but would have our name": (
        pod(
            "p",
            container("a", limits={GPU: 1}),
            container("b", resources={"claims": [{"name": "drabridge"}]}),
        ),
        "must be one of the names in pod.spec.resourceClaims",
    ),
    "no limit": (
        pod("p", container(resources={"requests": {GPU: "1"}})),
        "Limit must be set for non overcommitable resources",
    ),
    "another limit": (
        pod("p", container(resources={"requests": {GPU: "1"}, "limits": {GPU: "2"}})),
        "must be equal to",
    ),
    "a limit without a request of zero": (
        pod("p", container(resources={"requests": {GPU: "0"}, "limits": {GPU: "2"}})),
        "must be equal to",
    ),
    "a half": (pod("p", container(limits={GPU: "500m"})), "must be an integer"),
    "less than nothing": (
        pod("p", container(limits={GPU: "-1"})),
        "must be greater than or equal to 0",
    ),
    "less than nothing, by an implicit name": (
        pod("p", container(limits={IMPLICIT: "-1"})),
        "must be greater than or equal to 0",
    ),
    "no quantity at all": (
        pod("p", container(limits={GPU: "two"})),
        "quantities must match",
    ),
    "two containers of one name": (
        pod("p", container("a", limits={GPU: 1}), container("a", limits={GPU: 1})),
        "Duplicate value",
    ),
    "an annotation without a key": (
        pod("p", container(limits={GPU: 1}), metadata={"annotations": {"": ""}}),
        "name part must be non-empty",
    ),
    "a label without a key": (
        pod("p", container(limits={GPU: 1}), metadata={"labels": {"": ""}}),
        "name part must be non-empty",
    ),
    "annotations that are too large by themselves": (
        pod("p", container(limits={GPU: 1}), metadata={"annotations": {"note": "x" * (256 * 1024)}}),
        "may not be more than 262144 bytes",
    ),
}


@pytest.mark.parametrize("case", INVALID)
async def test_an_invalid_pod_stays_invalid_and_hears_why_from_the_api_server(place: Place, case: str) -> None:
    body, want = INVALID[case]
    (outside_status, outside), (status, here) = await place.dry(body, OUTSIDE), await place.dry(body)
    assert outside_status >= 400
    assert want in outside["message"]
    assert status == outside_status
    assert want in here["message"]


# Moments


async def test_a_policy_and_its_pod_in_one_file_go_together(place: Place, unique: Callable[[], str]) -> None:
    names = [unique() for _ in range(20)]
    async with AsyncExitStack() as undo:
        for name in names:
            resource = f"{name}.example.com/gpu"
            policy = {
                "apiVersion": "drabridge.io/v1alpha1",
                "kind": "ExtendedResourcePolicy",
                "metadata": {"name": name},
                "spec": {"resourceName": resource, "devices": [{"deviceClassName": NAME}]},
            }
            undo.push_async_callback(place.site.api.request, "DELETE", f"{POLICIES}/{name}")
            body = pod(name, container(limits={resource: 1}), metadata={"namespace": NAME})
            # Somebody else's name that nobody serves must not use up the look that this one needs.
            await place.dry(pod("nobody", container(limits={f"{GPU}-of-nobody": 1})))
            await place.apply(policy, body)
            assert claim_name(await place.site.pod(body)), name


async def test_a_namespace_its_cap_and_its_pod_in_one_file_leave_the_pod_alone(
    place: Place, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    for _ in range(5):
        name = unique()
        afterwards.push_async_callback(place.site.cluster.remove_namespace, name)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        limits = {"limits": [{"type": "Container", "min": {GPU: "1"}}]}
        cap = {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "caps", "namespace": name},
            "spec": limits,
        }
        stored = await _applied(
            place, namespace, cap, pod("web", container(limits={GPU: 1}), metadata={"namespace": name})
        )
        assert not claim_name(stored)
        assert "LimitRange" in (await place.site.event(stored, "LimitRangeNamesResource"))["note"]


async def _applied(place: Place, *bodies: Object) -> Object:
    """Apply until the last of them is stored: the API server takes no Pod before the namespace's ServiceAccount is."""

    async def apply() -> tuple[int, Object]:
        await place.apply(*bodies, check=False)
        return await place.site.api.request("GET", pod_path(bodies[-1]))

    return (await wait_for(apply, "the Pod to be taken", until=lambda answer: answer[0] == 200))[1]


async def test_a_dry_run_leaves_nothing_behind(
    place: Place, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    name = unique()
    await place.site.cluster.add_namespace(name)
    afterwards.push_async_callback(place.site.cluster.remove_namespace, name)
    for number in range(5):
        status, body = await place.dry(pod(f"dry-{number}", container(limits={GPU: 1})), name)
        assert status == 201
        assert claim_name(body)
        too_many = pod(f"many-{number}", container(limits={GPU: 40}))
        assert (await place.dry(too_many, name))[0] == 201
    # Whatever those five might have left would have come before what this one gets.
    real = await place.site.create(name, pod("real", container(limits={GPU: 1})))
    await place.site.bound_back(real)
    claims = await place.site.api.call("GET", claim_path(real).rpartition("/")[0])
    events = await place.site.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{name}/events")
    assert [each["metadata"]["name"] for each in claims["items"]] == [claim_name(real)]
    assert {each["regarding"]["name"] for each in events["items"]} <= {"real", claim_name(real)}


async def test_without_the_webhook_pods_are_created_as_they_are(place: Place) -> None:
    installed = place.site.installed
    for replica in installed.replicas:
        if replica.process.exit_code is None:
            await replica.stop()
    try:
        body = await place.site.create(NAME, pod("unserved", container(limits={GPU: 1})))
        assert not claim_name(body)
        assert body["spec"]["containers"][0]["resources"]["limits"] == {GPU: "1"}
    finally:
        await installed.start_replica()
    await wait_for(
        lambda: place.dry(pod("served", container(limits={GPU: 1}))),
        "Pods to be rewritten again",
        until=lambda answer: claim_name(answer[1]),
    )
