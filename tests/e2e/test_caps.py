"""Caps of a namespace hold for rewritten Pods: ResourceQuotas by a companion, LimitRanges by a name kept at zero."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from cluster_site import Site, allocation, claim_name, container, pod
from e2e.conftest import BOTH
from upstream.api import MERGE_PATCH, Refused, wait_for

if TYPE_CHECKING:
    from e2e.conftest import Serve
    from upstream.api import Object

pytestmark = BOTH


def quotas(ns: str) -> str:
    return f"/api/v1/namespaces/{ns}/resourcequotas"


async def add_quota(site: Site, ns: str, hard: dict[str, str], name: str = "team", **spec: object) -> Object:
    return await site.api.call("POST", quotas(ns), {"metadata": {"name": name}, "spec": {"hard": hard, **spec}})


async def companion(site: Site, ns: str) -> tuple[int, Object]:
    """The companion of the quota `team`, with the HTTP status, once its cap is in force."""
    return await wait_for(
        lambda: site.api.request("GET", f"{quotas(ns)}/drabridge-team"),
        "the companion quota to be in force",
        until=lambda answer: answer[0] == 200 and answer[1].get("status", {}).get("hard") == answer[1]["spec"]["hard"],
    )


async def test_a_quota_on_the_name_caps_rewritten_pods_and_what_is_given_back_is_used_again(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve(devices=8)
    quota = await add_quota(ours, ns, {f"requests.{gpu.name}": "3"})
    _, made = await companion(ours, ns)
    key = f"{gpu.device_class}.deviceclass.resource.k8s.io/devices"
    assert made["spec"]["hard"] == {key: "3"}
    assert made["metadata"]["ownerReferences"][0]["uid"] == quota["metadata"]["uid"]

    first = await ours.bound_back(await ours.create(ns, pod("first", container(limits={gpu.name: 2}))))
    second = await ours.create(ns, pod("second", container(limits={gpu.name: 2})))
    event = await ours.event(second, "ClaimRefused")
    assert "exceeded quota" in event["note"]
    assert not await ours.claim_exists(second)
    used = (await ours.api.call("GET", f"{quotas(ns)}/drabridge-team"))["status"]["used"]
    assert used == {key: "2"}

    await ours.delete(first)
    await ours.bound_back(second)


async def test_a_raised_quota_lets_the_waiting_pod_through(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=8)
    await add_quota(ours, ns, {f"requests.{gpu.name}": "1"})
    await companion(ours, ns)
    waiting = await ours.create(ns, pod("waits", container(limits={gpu.name: 2})))
    await ours.event(waiting, "ClaimRefused")
    hard = {"spec": {"hard": {f"requests.{gpu.name}": "2"}}}
    await ours.api.call("PATCH", f"{quotas(ns)}/team", hard, MERGE_PATCH)
    await ours.bound_back(waiting)


async def test_many_pods_at_once_never_exceed_the_cap(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=16)
    await add_quota(ours, ns, {f"requests.{gpu.name}": "5"})
    await companion(ours, ns)
    pods = await asyncio.gather(
        *(ours.create(ns, pod(f"p{number}", container(limits={gpu.name: 1}))) for number in range(12))
    )

    async def served() -> list[Object]:
        return [each for each in await asyncio.gather(*map(ours.pod, pods)) if allocation(each)]

    five = await wait_for(served, "five Pods to be served", until=lambda seen: len(seen) == 5)
    rest = [each for each in pods if each["metadata"]["uid"] not in {one["metadata"]["uid"] for one in five}]
    for each in rest:
        assert "exceeded quota" in (await ours.event(each, "ClaimRefused"))["note"]
    assert len(await served()) == 5


async def test_a_companion_that_somebody_changes_is_put_right_and_goes_with_its_quota(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    await add_quota(ours, ns, {f"requests.{gpu.name}": "3"})
    _, made = await companion(ours, ns)
    wanted = made["spec"]["hard"]
    loose = {"spec": {"hard": dict.fromkeys(wanted, "100")}}
    await ours.api.call("PATCH", f"{quotas(ns)}/drabridge-team", loose, MERGE_PATCH)
    await wait_for(
        lambda: ours.api.call("GET", f"{quotas(ns)}/drabridge-team"),
        "the cap to be put right",
        until=lambda seen: seen["spec"]["hard"] == wanted,
    )
    await ours.api.call("DELETE", f"{quotas(ns)}/team")
    await wait_for(
        lambda: ours.api.request("GET", f"{quotas(ns)}/drabridge-team"),
        "the companion to go",
        until=lambda answer: answer[0] == 404,
    )
    await ours.bound_back(await ours.create(ns, pod("free", container(limits={gpu.name: 4}))))


async def test_a_quota_that_drops_the_name_loses_its_companion(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve()
    await add_quota(ours, ns, {f"requests.{gpu.name}": "3", "pods": "10"})
    await companion(ours, ns)
    await ours.api.call("PATCH", f"{quotas(ns)}/team", {"spec": {"hard": {f"requests.{gpu.name}": None}}}, MERGE_PATCH)
    await wait_for(
        lambda: ours.api.request("GET", f"{quotas(ns)}/drabridge-team"),
        "the companion to go",
        until=lambda answer: answer[0] == 404,
    )


async def test_a_quota_with_scopes_cannot_be_mirrored_and_its_pods_are_left_alone(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    await add_quota(ours, ns, {f"requests.{gpu.name}": "3"}, scopes=["NotTerminating"])

    async def left_alone() -> str:
        name = f"probe-{asyncio.get_running_loop().time()}".replace(".", "-")
        stored = await ours.create(ns, pod(name, container(limits={gpu.name: 1})))
        return "" if claim_name(stored) else name

    name = await wait_for(left_alone, "the quota to be seen")
    stored = await ours.api.call("GET", f"/api/v1/namespaces/{ns}/pods/{name}")
    event = await ours.event(stored, "ResourceQuotaNamesResource")
    assert "scopes" in event["note"]


async def test_a_quota_of_somebody_else_under_the_companions_name_is_not_touched(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    theirs = await add_quota(ours, ns, {"pods": "50"}, name="drabridge-team")
    await add_quota(ours, ns, {f"requests.{gpu.name}": "3"})

    async def reported() -> bool:
        events = await ours.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{ns}/events")
        return any(event["reason"] == "CompanionQuotaOfAnotherOwner" for event in events["items"])

    await wait_for(reported, "the event about it")
    now = await ours.api.call("GET", f"{quotas(ns)}/drabridge-team")
    assert now["spec"] == theirs["spec"]
    stored = await ours.create(ns, pod("left", container(limits={gpu.name: 1})))
    assert not claim_name(stored)
    event = await ours.event(stored, "ResourceQuotaNamesResource")
    assert "drabridge-team, belongs to another ResourceQuota" in event["note"]

    await ours.api.call("DELETE", f"{quotas(ns)}/drabridge-team")
    await companion(ours, ns)
    await ours.bound_back(await ours.create(ns, pod("served", container(limits={gpu.name: 1}))))


async def test_a_quota_and_its_pods_in_one_file_go_together_and_the_cap_holds(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve(devices=8)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team"},
        "spec": {"hard": {f"requests.{gpu.name}": "3"}},
    }
    manifests = [quota, *(pod(f"p{number}", container(limits={gpu.name: 1})) for number in range(3))]
    text = "\n---\n".join(map(json.dumps, manifests))
    await ours.cluster.kubectl("apply", "-n", ns, "-f", "-", stdin=text)
    for number in range(3):
        await ours.bound_back({"metadata": {"namespace": ns, "name": f"p{number}"}})
    _, made = await companion(ours, ns)
    assert list(made["spec"]["hard"].values()) == ["3"]
    more = await ours.create(ns, pod("more", container(limits={gpu.name: 1})))
    await ours.event(more, "ClaimRefused")


async def test_a_quota_of_half_a_device_is_told_that_it_cannot_be_kept(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve()
    await add_quota(ours, ns, {f"requests.{gpu.name}": "500m"})

    async def told() -> str:
        events = await ours.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{ns}/events")
        about = (each for each in events["items"] if each["regarding"]["kind"] == "ResourceQuota")
        return next((str(each["note"]) for each in about), "")

    assert "its cap of 500m is not whole" in await wait_for(told, "the event on the quota")


async def test_a_dead_key_is_reported_and_not_mirrored(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve()
    await add_quota(ours, ns, {gpu.name: "3"})

    async def reported() -> str:
        events = await ours.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{ns}/events")
        return next((str(each["note"]) for each in events["items"] if each["reason"] == "QuotaKeyWithoutEffect"), "")

    note = await wait_for(reported, "the event about it")
    assert f"spec.hard['{gpu.name}']" in note
    assert "requests.<name>" in note
    assert (await ours.api.request("GET", f"{quotas(ns)}/drabridge-team"))[0] == 404
    await ours.bound_back(await ours.create(ns, pod("free", container(limits={gpu.name: 4}))))


async def add_limit_range(site: Site, ns: str, **item: object) -> None:
    body = {"metadata": {"name": "limits"}, "spec": {"limits": [{"type": "Container", **item}]}}
    await site.api.call("POST", f"/api/v1/namespaces/{ns}/limitranges", body)


async def test_a_limit_ranges_max_holds_for_rewritten_pods_and_nobody_else_is_stopped(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve(devices=8)
    await add_limit_range(ours, ns, max={gpu.name: "2"}, default={gpu.name: "0"}, defaultRequest={gpu.name: "0"})

    async def kept() -> Object | None:
        """Until the LimitRange is in the webhook's cache, a Pod may be refused for it."""
        try:
            return await ours.create(ns, pod("served", container(limits={gpu.name: 2}), container("other")))
        except Refused:
            return None

    stored = await wait_for(kept, "a Pod within the max to be created")
    assert stored is not None
    bound = await ours.bound_back(stored)
    for each in bound["spec"]["containers"]:
        assert each["resources"]["limits"][gpu.name] == "0"
    assert len(allocation(bound)) == 2

    await ours.create(ns, pod("plain", container()))
    try:
        await ours.create(ns, pod("greedy", container(limits={gpu.name: 3})))
    except Refused as refused:
        assert "maximum" in str(refused.body["message"])  # noqa: PT017 - the API server's own words
    else:
        raise AssertionError("more than the max was accepted")


async def test_default_devices_of_a_limit_range_are_served(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=8)
    await add_limit_range(ours, ns, default={gpu.name: "1"}, defaultRequest={gpu.name: "1"})
    bound = await ours.bound_back(await ours.create(ns, pod("asks-for-nothing", container())))
    assert len(allocation(bound)) == 1


async def test_a_limit_ranges_min_cannot_be_kept_and_its_pods_are_left_alone(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=8)
    await add_limit_range(ours, ns, min={gpu.name: "1"})

    async def left_alone() -> Object | None:
        name = f"probe-{asyncio.get_running_loop().time()}".replace(".", "-")
        try:
            stored = await ours.create(ns, pod(name, container(limits={gpu.name: 1})))
        except Refused:
            return None
        return None if claim_name(stored) else stored

    stored = await wait_for(left_alone, "the LimitRange to be seen")
    assert stored is not None
    event = await ours.event(stored, "LimitRangeNamesResource")
    assert "has min" in event["note"]
