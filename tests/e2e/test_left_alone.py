"""Pods that drabridge leaves alone, as their authors see it.

The Pod is stored as it was written, kubectl shows the webhook's warning, and while the Pod is pending an event on it
says why and what to do: warning and event carry the same word and the same cure.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from cluster_site import Site, claim_name, container, create_by_kubectl, pod, squeezed
from drabridge.core.reasons import CURES, Reason
from upstream.api import JSON_PATCH, MERGE_PATCH, Object, Refused, wait_for

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from cluster_site import Served
    from e2e.conftest import Serve

LABEL, ANNOTATION = "drabridge.io/delivery", "drabridge.io/extended-resources"


async def until_left_alone(site: Site, ns: str, body: Object, *, left: bool = True) -> None:
    """Wait until drabridge knows what the test just made: a dry run of the Pod shows what would become of it."""

    async def would_be_left() -> bool:
        stored = await site.api.call("POST", f"/api/v1/namespaces/{ns}/pods", body, query={"dryRun": "All"})
        return not claim_name(stored)

    what = f"drabridge to {'leave' if left else 'serve'} Pods like {body['metadata']['name']}"
    await wait_for(would_be_left, what, until=lambda seen: seen is left)


def names_on(stored: Object) -> list[dict[str, Any]]:
    """The limits of all containers, in order."""
    containers = (*stored["spec"].get("initContainers", ()), *stored["spec"]["containers"])
    return [each.get("resources", {}).get("limits", {}) for each in containers]


def check_untouched(stored: Object, body: Object) -> None:
    assert names_on(stored) == names_on(body)
    assert "resourceClaims" not in stored["spec"]
    assert LABEL not in stored["metadata"].get("labels", {})
    assert ANNOTATION not in stored["metadata"].get("annotations", {})


async def check_left_alone(site: Site, ns: str, body: Object, reason: Reason, *says: str, told: bool = True) -> Object:
    """Create the Pod and check all that its author sees; `told` if a pending Pod gets an event."""
    await until_left_alone(site, ns, body)
    stored, warnings = await create_by_kubectl(site, ns, body)
    check_untouched(stored, body)
    for text in (f"drabridge: {reason}:", *says, f"Cure: {CURES[reason]}."):
        assert squeezed(text) in warnings
    if told:
        event = await site.event(stored, reason)
        assert (event["type"], event["action"]) == ("Warning", "LeaveAlone")
        for text in (*says, f"Cure: {CURES[reason]}."):
            assert text in event["note"]
    return stored


def asks(gpu: Served, count: int | str = 1, name: str = "pod", **spec: Any) -> Object:
    return pod(name, container(limits={gpu.name: count}), **spec)


@dataclass(frozen=True, slots=True)
class Case:
    """A Pod that is left alone for `reason`; warning and event say `says` (with the names of the test filled in)."""

    reason: Reason
    body: Callable[[Served], Object]
    says: tuple[str, ...]
    policy: Mapping[str, Any] = field(default_factory=dict)
    told: bool = True


CASES = {
    "it asks for more devices than a claim holds": Case(
        Reason.TOO_MANY_DEVICES,
        lambda gpu: pod("big", container("a", limits={gpu.name: 17}), container("b", limits={gpu.name: 16})),
        ("Pod {ns}/big asks for 33 devices in all", "a 17 {name}, b 16 {name}"),
    ),
    # It is not pending for a scheduler: its kubelet says what becomes of it.
    "it names its node": Case(
        Reason.NODE_NAME_SET,
        lambda gpu: asks(gpu, nodeName=gpu.nodes[0] if gpu.nodes else "somewhere"),
        ("spec.nodeName is",),
        told=False,
    ),
    "it mirrors a static Pod": Case(
        Reason.MIRROR_POD,
        lambda gpu: asks(gpu, nodeName="somewhere", metadata={"annotations": {"kubernetes.io/config.mirror": "hash"}}),
        ("mirrors a static Pod",),
        told=False,
    ),
    # Its author wants it so: only the warning reminds of it.
    "its author opted out": Case(
        Reason.OPTED_OUT,
        lambda gpu: asks(gpu, metadata={"annotations": {"drabridge.io/rewrite": "false"}}),
        ("metadata.annotations['drabridge.io/rewrite'] is false",),
        told=False,
    ),
    "its scheduler is not known to allocate claims": Case(
        Reason.OTHER_SCHEDULER,
        lambda gpu: asks(gpu, schedulerName="batch-scheduler"),
        ("spec.schedulerName is 'batch-scheduler'",),
    ),
    "the policy is off": Case(
        Reason.POLICY_OFF,
        asks,
        ("ExtendedResourcePolicy {policy}: spec.delivery is Off",),
        policy={"delivery": "Off"},
    ),
    "the policy selects other namespaces": Case(
        Reason.NOT_SELECTED,
        asks,
        ("ExtendedResourcePolicy {policy}: spec.namespaceSelector does not select the namespace",),
        policy={"namespaceSelector": {"matchLabels": {"team": "other"}}},
    ),
    "the policy selects other Pods": Case(
        Reason.NOT_SELECTED,
        lambda gpu: asks(gpu, metadata={"labels": {"app": "web"}}),
        ("ExtendedResourcePolicy {policy}: spec.podSelector does not select the Pod",),
        policy={"podSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]}},
    ),
    "it has no room for what is to be written on it": Case(
        Reason.POD_TOO_LARGE,
        lambda gpu: asks(gpu, metadata={"annotations": {"notes": "n" * (256 * 1024 - 100)}}),
        ("metadata.annotations would have",),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_a_pod_is_left_alone_because(case: Case, site: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(policy=case.policy)
    names = {"ns": ns, "name": gpu.name, "policy": gpu.policy}
    says = (text.format(**names) for text in case.says)
    stored = await check_left_alone(site, ns, case.body(gpu), case.reason, *says, told=case.told)
    if not case.told:
        # The look that finds this one finds the others, too.
        other = asks(gpu, name="other", schedulerName="batch-scheduler")
        await site.event(await site.create(ns, other), Reason.OTHER_SCHEDULER)
        assert not await site.events(stored)


async def test_a_fraction_of_a_device_can_only_be_asked_for_by_an_implicit_name_and_is_left_alone(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    with pytest.raises(Refused, match="must be an integer"):
        await ours.create(ns, asks(gpu, "1500m"))
    implicit = f"deviceclass.resource.kubernetes.io/{gpu.device_class}"
    body = pod("half", container(limits={implicit: "1500m"}))
    says = f"spec.containers[0].resources.requests['{implicit}'] is 1500m"
    await check_left_alone(ours, ns, body, Reason.NOT_WHOLE, says)


async def test_pods_are_left_to_a_device_plugin_but_not_where_the_policy_says_rewrite(
    ours: Site, ns: str, serve: Serve, afterwards: AsyncExitStack, unique: Callable[[], str]
) -> None:
    gpu = await serve()
    # The plugin's node is full, so that the Pod stays pending: one that a plugin serves needs no event.
    full = unique()
    await ours.cluster.add_node(full, devices=0, allocatable={gpu.name: 1}, labels={"of": gpu.policy})
    afterwards.push_async_callback(ours.cluster.remove_node, full)
    says = f"node {full} has {gpu.name} in status.allocatable"
    await check_left_alone(ours, ns, asks(gpu, 2, "plugin"), Reason.DEVICE_PLUGIN_PRESENT, says)
    await ours.set_policy(gpu.policy, {"coexistence": "Rewrite"})
    body = asks(gpu, 2, "dra")
    await until_left_alone(ours, ns, body, left=False)
    bound = await ours.bound_back(await ours.create(ns, body))
    assert bound["spec"]["nodeName"] == gpu.nodes[0]


async def test_a_name_that_nobody_serves_is_only_warned_of_since_somebody_else_may_serve_it(
    site: Site, ns: str, unique: Callable[[], str]
) -> None:
    name = f"{unique()}.example.com/gpu"
    body = pod("unknown", container(limits={name: 1}))
    stored = await check_left_alone(
        site, ns, body, Reason.NOT_SERVED, f"no DeviceClass stands behind {name}", told=False
    )
    other = pod("other", container(limits={name: 1}), schedulerName="batch-scheduler")
    await site.event(await site.create(ns, other), Reason.OTHER_SCHEDULER)
    assert not await site.events(stored)


async def test_a_name_that_a_device_plugin_serves_and_nobody_else_is_not_spoken_of(
    ours: Site, ns: str, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    node = unique()
    name = f"{node}.example.com/nic"
    await ours.cluster.add_node(node, devices=0, allocatable={name: 1})
    afterwards.push_async_callback(ours.cluster.remove_node, node)
    body = pod("nic", container(limits={name: 1}))

    async def warnings() -> str:
        output = await ours.cluster.kubectl(
            "create", "-n", ns, "--dry-run=server", "-f", "-", "-o", "json", stdin=json.dumps(body)
        )
        return output.err

    await wait_for(warnings, "silence once the node is known", until=lambda said: said == "")


async def test_of_two_names_one_is_served_and_the_other_is_explained(
    site: Site, ns: str, serve: Serve, unique: Callable[[], str]
) -> None:
    gpu = await serve()
    off = await serve(policy={"delivery": "Off"}, on=gpu.nodes)
    unknown = f"{unique()}.example.com/fpga"
    body = pod("mixed", container(limits={gpu.name: 1, off.name: 1, unknown: 1}))
    # Both policies must be known: one that is not is like a name that nobody serves.
    await until_left_alone(site, ns, pod("off", container(limits={off.name: 1})))
    await until_left_alone(site, ns, body, left=False)
    stored, warnings = await create_by_kubectl(site, ns, body)
    assert names_on(stored) == [{off.name: "1", unknown: "1"}]
    for text in (
        f"{gpu.name}: 1 device by ResourceClaim {claim_name(stored)}",
        f"drabridge: {Reason.POLICY_OFF}: ExtendedResourcePolicy {off.policy}: spec.delivery is Off.",
        f"drabridge: {Reason.NOT_SERVED}: no DeviceClass stands behind {unknown}.",
    ):
        assert squeezed(text) in warnings
    assert await wait_for(lambda: site.claim_exists(stored), "the claim of the name that is served")
    event = await site.event(stored, Reason.POLICY_OFF)
    assert f"Cure: {CURES[Reason.POLICY_OFF]}." in event["note"]
    assert {each["reason"] for each in await site.events(stored)} == {Reason.CLAIM_CREATED, Reason.POLICY_OFF}


async def test_a_pod_from_before_its_policy_is_told_that_it_would_be_served_now(
    site: Site, ns: str, serve: Serve, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    gpu = await serve()
    name = f"{unique()}.example.com/early"
    early = await site.create(ns, pod("early", container(limits={name: 1})))
    check_untouched(early, pod("early", container(limits={name: 1})))
    await site.add_policy(unique(), {"resourceName": name}, gpu.device_class, afterwards)
    event = await site.event(early, Reason.MISSED)
    assert f"Pod {ns}/early asks for {name} and was not rewritten when it was stored" in event["note"]
    assert f"Cure: {CURES[Reason.MISSED]}." in event["note"]

    # The cure cures.
    await site.delete(early)
    again = await site.create(ns, pod("early", container(limits={name: 1})))
    await site.bound_back(again)


async def test_the_reason_goes_away_and_a_new_one_comes_with_what_is_changed(site: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(policy={"delivery": "Off"})
    body = asks(gpu)
    stored = await check_left_alone(site, ns, body, Reason.POLICY_OFF, f"ExtendedResourcePolicy {gpu.policy}")
    await site.set_policy(gpu.policy, {"delivery": "Rewrite", "namespaceSelector": {"matchLabels": {"team": "other"}}})
    await site.event(stored, Reason.NOT_SELECTED)
    await site.api.call("PATCH", f"/api/v1/namespaces/{ns}", {"metadata": {"labels": {"team": "other"}}}, MERGE_PATCH)
    await site.event(stored, Reason.MISSED)
    remove = [{"op": "remove", "path": "/metadata/labels/team"}]
    await site.api.call("PATCH", f"/api/v1/namespaces/{ns}", remove, JSON_PATCH)
    await until_left_alone(site, ns, body | {"metadata": {"name": "other"}})
