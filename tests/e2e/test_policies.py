"""What an ExtendedResourcePolicy says about itself, and which DeviceClass stands behind a name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from cluster_site import CLASSES, POLICIES, Site, claim_name, claim_path, container, pod, ready_of
from drabridge.core.reasons import CURES, Reason
from upstream.api import MERGE_PATCH, Object, Refused, wait_for

if TYPE_CHECKING:
    from e2e.conftest import Serve

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
NAME_ANNOTATION = "drabridge.io/extended-resource-name"


def asks(name: str, count: int = 1, pod_name: str = "pod", **spec: Any) -> Object:
    return pod(pod_name, container(limits={name: count}), **spec)


async def generation(site: Site, policy: str) -> int:
    return int((await site.api.call("GET", f"{POLICIES}/{policy}"))["metadata"]["generation"])


# --- Ready


async def test_a_policy_that_serves_says_how(site: Site, serve: Serve) -> None:
    gpu = await serve(policy={"delivery": "Rewrite"})
    ready = await site.ready(gpu.policy, Reason.SERVING)
    assert ready["status"] == "True"
    assert ready["message"] == f"{gpu.name} is served by DeviceClass {gpu.device_class}, delivery Rewrite."


async def test_auto_says_why_kubernetes_does_not_serve_the_name_itself(ours: Site, serve: Serve) -> None:
    gpu = await serve()
    version = await ours.api.call("GET", "/version")
    why = {
        "35": "the API server drops DeviceClass.spec.extendedResourceName",
        # The class has no such field here, so kube-scheduler knows it by its implicit name only.
        "37": f"kube-scheduler would serve {gpu.name} by no DeviceClass, drabridge by {gpu.device_class}",
    }[version["emulationMinor"]]
    ready = await ours.ready(gpu.policy, Reason.SERVING)
    assert ready["message"] == (
        f"{gpu.name} is served by DeviceClass {gpu.device_class}, delivery Rewrite; not natively: {why}."
    )


async def test_a_policy_waits_for_its_class_and_notices_when_it_goes(
    ours: Site, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    name = unique()
    await ours.add_policy(name, {"resourceName": f"{name}.example.com/gpu"}, name, afterwards)
    missing = await ours.ready(name, Reason.DEVICE_CLASS_MISSING)
    assert missing["status"] == "False"
    assert f"DeviceClass {name} (spec.devices[0]) does not exist" in missing["message"]
    assert missing["message"].endswith(f"Cure: {CURES[Reason.DEVICE_CLASS_MISSING]}.")
    await ours.add_class(name, f"{name}.example.com", afterwards)
    served = await ours.ready(name, Reason.SERVING)
    assert served["status"] == "True"
    await ours.api.call("DELETE", f"{CLASSES}/{name}")
    again = await ours.ready(name, Reason.DEVICE_CLASS_MISSING)
    assert missing["lastTransitionTime"] <= served["lastTransitionTime"] <= again["lastTransitionTime"]


async def test_of_two_policies_for_one_name_the_older_serves_until_it_is_deleted(
    ours: Site, ns: str, serve: Serve, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    gpu = await serve()
    # Of the same second the smaller name counts, so this one is the later in any case.
    second = f"zz-{unique()}"
    await ours.add_policy(second, {"resourceName": gpu.name, "delivery": "Off"}, gpu.device_class, afterwards)
    shadowed = await ours.ready(second, Reason.NAME_SHADOWED)
    assert shadowed["status"] == "False"
    assert f"ExtendedResourcePolicy {gpu.policy} is older and serves {gpu.name}" in shadowed["message"]
    assert (await ours.ready(gpu.policy, Reason.SERVING))["status"] == "True"
    await ours.bound_back(await ours.create(ns, asks(gpu.name)))
    await ours.api.call("DELETE", f"{POLICIES}/{gpu.policy}")
    await ours.ready(second, Reason.POLICY_OFF)


async def test_a_class_that_declares_the_name_of_a_policy_for_another_class_is_reported_and_not_used(
    ours: Site, ns: str, serve: Serve, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    gpu = await serve()
    other = await annotated_class(ours, unique(), gpu.name, afterwards)
    ready = await ours.ready(gpu.policy, Reason.NAME_COLLISION)
    assert ready["status"] == "True"
    assert f"DeviceClass {other['metadata']['name']} declares {gpu.name} as well" in ready["message"]
    bound = await ours.bound_back(await ours.create(ns, asks(gpu.name)))
    assert class_in(await ours.claim(bound)) == gpu.device_class
    await ours.api.call("DELETE", f"{CLASSES}/{other['metadata']['name']}")
    await ours.ready(gpu.policy, Reason.SERVING)


async def test_a_device_plugin_is_in_the_way_until_it_is_gone_or_the_policy_says_rewrite(
    ours: Site, serve: Serve
) -> None:
    gpu = await serve()
    await ours.cluster.set_allocatable(gpu.nodes[0], {gpu.name: 2})
    ready = await ours.ready(gpu.policy, Reason.DEVICE_PLUGIN_PRESENT)
    assert ready["status"] == "False"
    assert f"node {gpu.nodes[0]} has {gpu.name} in status.allocatable" in ready["message"]
    await ours.set_policy(gpu.policy, {"coexistence": "Rewrite"})
    await ours.ready(gpu.policy, Reason.SERVING)
    await ours.set_policy(gpu.policy, {"coexistence": "DevicePlugin"})
    await ours.ready(gpu.policy, Reason.DEVICE_PLUGIN_PRESENT)
    await ours.cluster.set_allocatable(gpu.nodes[0], {gpu.name: None})
    await ours.ready(gpu.policy, Reason.SERVING)


async def test_status_follows_the_spec(site: Site, serve: Serve) -> None:
    gpu = await serve()
    before = await site.ready(gpu.policy, Reason.SERVING)

    async def follows(spec: Object, reason: Reason, delivery: str) -> Object:
        await site.set_policy(gpu.policy, spec)
        now = await generation(site, gpu.policy)
        status = await site.policy(
            gpu.policy, lambda seen: seen["observedGeneration"] == now, f"the status of generation {now}"
        )
        assert status["delivery"] == delivery
        ready = ready_of(status)
        assert (ready["reason"], ready["observedGeneration"]) == (reason, now)
        return ready

    await follows({"delivery": "Off"}, Reason.POLICY_OFF, "Off")
    on = await follows({"delivery": "Rewrite"}, Reason.SERVING, "Rewrite")
    selects = await follows({"podSelector": {"matchLabels": {"team": "a"}}}, Reason.SERVING, "Rewrite")
    assert selects["observedGeneration"] == on["observedGeneration"] + 1 == before["observedGeneration"] + 3
    assert selects["lastTransitionTime"] == on["lastTransitionTime"]


# --- numbers


async def test_the_devices_of_the_class_are_counted_as_slices_and_selectors_change(ours: Site, serve: Serve) -> None:
    gpu = await serve(nodes=2, devices=8)

    async def total(want: int) -> None:
        await ours.policy(gpu.policy, lambda seen: seen["devices"]["total"] == want, f"{want} devices in all")

    await total(16)
    await ours.api.call("DELETE", SLICES, query={"fieldSelector": f"spec.nodeName={gpu.nodes[0]}"})
    await total(8)
    path = f"{CLASSES}/{gpu.device_class}"
    selectors = (await ours.api.call("GET", path))["spec"]["selectors"]
    none = {"cel": {"expression": "device.driver == ''"}}
    await ours.api.call("PATCH", path, {"spec": {"selectors": [*selectors, none]}}, MERGE_PATCH)
    await total(0)
    await ours.api.call("PATCH", path, {"spec": {"selectors": selectors}}, MERGE_PATCH)
    await total(8)


def numbers(status: Object) -> tuple[int, int, int]:
    return status["pods"], status["claims"], status["devices"]["allocated"]


async def test_pods_claims_and_devices_are_counted_up_and_down(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=8)
    nic = await serve(on=gpu.nodes)

    async def count(pods: int, claims: int, devices: int, policy: str = gpu.policy) -> None:
        wanted = (pods, claims, devices)
        await ours.policy(policy, lambda seen: numbers(seen) == wanted, f"{wanted} Pods, claims, devices")

    await count(0, 0, 0)
    first = await ours.create(ns, asks(gpu.name, 3, "first", restartPolicy="Never"))
    await count(1, 1, 3)
    both = await ours.create(ns, pod("both", container(limits={gpu.name: 4, nic.name: 2})))
    await count(2, 2, 7)
    await count(1, 1, 2, nic.policy)
    waiting = await ours.create(ns, asks(gpu.name, 2, "waiting"))
    await count(3, 3, 7)

    columns = await ours.cluster.kubectl("get", "erp", gpu.policy, "-o", "wide")
    header, row = columns.out.splitlines()
    assert " ".join(header.split()) == (
        "NAME RESOURCE CLASS DELIVERY READY REASON ONE ALLOCATOR PODS DEVICES TOTAL AGE"
    )
    assert row.split()[:-1] == [gpu.policy, gpu.name, gpu.device_class, "Rewrite", "True", "Serving", "3", "7", "8"]

    await ours.bound_back(first)
    await wait_for(lambda: ours.pod(first), "it to run", until=lambda seen: seen["status"]["phase"] == "Running")
    await ours.finish(first)
    await count(2, 2, 6)
    await ours.delete(both)
    await count(1, 1, 2)
    await count(0, 0, 0, nic.policy)
    await ours.delete(waiting)
    await count(0, 0, 0)


# --- the name


async def test_the_name_of_a_policy_cannot_be_changed(site: Site, serve: Serve) -> None:
    gpu = await serve()
    with pytest.raises(Refused, match="delete this policy and create another one for the new name") as refused:
        await site.set_policy(gpu.policy, {"resourceName": f"other-{gpu.name}"})
    assert refused.value.status == 422
    assert "spec.resourceName" in str(refused.value)


async def annotated_class(site: Site, name: str, resource: str, undo: AsyncExitStack) -> Object:
    """A DeviceClass, without devices, that declares a name by our annotation."""
    body = {"metadata": {"name": name, "annotations": {NAME_ANNOTATION: resource}}, "spec": {}}
    stored = await site.api.call("POST", CLASSES, body)
    undo.push_async_callback(site.api.request, "DELETE", f"{CLASSES}/{name}")
    return stored


def class_in(claim: Object) -> str:
    (request,) = claim["spec"]["devices"]["requests"]
    return str(request["exactly"]["deviceClassName"])


async def class_behind(site: Site, ns: str, resource: str) -> str:
    """The DeviceClass in the claim of a new Pod that asks for `resource`; empty if the Pod is left alone.

    "?" if its claim does not come: classes that were deleted a moment ago may still be known to the webhook.
    """
    stored = await site.create(ns, pod("", container(limits={resource: 1}), metadata={"generateName": "asks-"}))
    try:
        if not claim_name(stored):
            return ""
        _, claim = await wait_for(
            lambda: site.api.request("GET", claim_path(stored)),
            "its claim",
            until=lambda answer: answer[0] == 200,
            deadline=3,
        )
        return class_in(claim)
    except AssertionError:
        return "?"
    finally:
        await site.delete(stored)


async def is_served_by(site: Site, ns: str, resource: str, wanted: str) -> None:
    what = f"{resource} to be served by {wanted or 'nobody'}"
    await wait_for(lambda: class_behind(site, ns, resource), what, until=lambda seen: seen == wanted)


async def two_classes(
    site: Site, names: tuple[str, str], resource: str, undo: AsyncExitStack, *, same_second: bool
) -> None:
    """Two classes that declare one name, the second of them younger by a second or more, or equally old."""

    async def attempt() -> bool:
        for name in names:
            await site.api.request("DELETE", f"{CLASSES}/{name}")
        first = await annotated_class(site, names[0], resource, undo)
        created = first["metadata"]["creationTimestamp"]
        while True:
            second = await annotated_class(site, names[1], resource, undo)
            same = second["metadata"]["creationTimestamp"] == created
            if same is same_second or same_second:
                return same is same_second
            await site.api.call("DELETE", f"{CLASSES}/{names[1]}")
            await asyncio.sleep(0.1)

    await wait_for(attempt, f"two classes {'of one second' if same_second else 'of two seconds'}")


async def test_of_two_classes_for_one_name_the_newest_wins_and_the_other_comes_up_when_it_goes(
    ours: Site, ns: str, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    base = unique()
    resource = f"{base}.example.com/gpu"
    # The older has the smaller name, which does not help it.
    older, newer = f"a-{base}", f"b-{base}"
    await two_classes(ours, (older, newer), resource, afterwards, same_second=False)
    await is_served_by(ours, ns, resource, newer)
    await ours.api.call("DELETE", f"{CLASSES}/{newer}")
    await is_served_by(ours, ns, resource, older)
    await ours.api.call("DELETE", f"{CLASSES}/{older}")
    await is_served_by(ours, ns, resource, "")


async def test_of_two_classes_of_the_same_second_the_smaller_name_wins(
    ours: Site, ns: str, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    base = unique()
    resource = f"{base}.example.com/gpu"
    small, great = f"a-{base}", f"b-{base}"
    await two_classes(ours, (great, small), resource, afterwards, same_second=True)
    await is_served_by(ours, ns, resource, small)


async def test_a_class_may_take_another_name_and_give_the_first_one_back(
    ours: Site, ns: str, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    base = unique()
    first, second = f"{base}.example.com/gpu", f"{base}.example.com/accelerator"
    older, newer = f"a-{base}", f"b-{base}"
    await two_classes(ours, (older, newer), first, afterwards, same_second=False)
    await is_served_by(ours, ns, first, newer)

    async def rename(device_class: str, resource: str | None) -> None:
        body = {"metadata": {"annotations": {NAME_ANNOTATION: resource}}}
        await ours.api.call("PATCH", f"{CLASSES}/{device_class}", body, MERGE_PATCH)

    await rename(newer, second)
    await is_served_by(ours, ns, second, newer)
    await is_served_by(ours, ns, first, older)
    await rename(newer, first)
    await is_served_by(ours, ns, first, newer)
    await is_served_by(ours, ns, second, "")
    # A policy goes before what classes say of themselves.
    await ours.add_policy(base, {"resourceName": first}, older, afterwards)
    await is_served_by(ours, ns, first, older)


@pytest.mark.parametrize("wrong", ["gpu", "Not A Name", "example.kubernetes.io/gpu", "requests.example.com/gpu", ""])
async def test_a_name_that_no_pod_could_ask_for_is_ignored_and_its_class_serves_by_its_implicit_name(
    wrong: str, ours: Site, ns: str, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    name = unique()
    await annotated_class(ours, name, wrong, afterwards)
    await is_served_by(ours, ns, f"deviceclass.resource.kubernetes.io/{name}", name)
    if "/" in wrong and not wrong.startswith("requests."):  # the API server refuses Pods with the others
        assert await class_behind(ours, ns, wrong) == ""


# --- its end


async def test_pods_outlive_their_policy(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=1)
    running = await ours.bound_back(await ours.create(ns, asks(gpu.name, 1, "running")))
    waiting = await ours.create(ns, asks(gpu.name, 1, "waiting"))
    await wait_for(lambda: ours.claim_exists(waiting), "its claim")
    await ours.api.call("DELETE", f"{POLICIES}/{gpu.policy}")
    await is_served_by(ours, ns, gpu.name, "")
    # What is served stays served, and what has its claim gets its devices.
    assert await ours.claim_exists(running)
    await ours.delete(running)
    bound = await ours.bound_back(waiting)
    assert bound["spec"]["nodeName"] == gpu.nodes[0]


async def test_a_pod_without_claim_waits_for_a_new_policy_when_its_own_is_deleted(
    ours: Site, ns: str, serve: Serve, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    gpu = await serve()
    await ours.set_policy(gpu.policy, {"devices": [{"deviceClassName": f"no-{gpu.device_class}"}]})
    await ours.ready(gpu.policy, Reason.DEVICE_CLASS_MISSING)
    stored = await ours.create(ns, asks(gpu.name))
    await ours.event(stored, Reason.DEVICE_CLASS_MISSING)
    await ours.api.call("DELETE", f"{POLICIES}/{gpu.policy}")
    event = await ours.event(stored, Reason.NOT_SERVED)
    assert event["note"].endswith(f"Cure: {CURES[Reason.NOT_SERVED]}.")
    await ours.add_policy(unique(), {"resourceName": gpu.name}, gpu.device_class, afterwards)
    await ours.bound_back(stored)
