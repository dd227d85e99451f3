"""Which Pods the webhook sends to the scheduler that calls us, and what keeps it from doing so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import GPU, GPU_CLASS, NIC, NIC_CLASS, PodBuilder, cluster, device_class, patched, pod, policy
from drabridge.core.auto import choose
from drabridge.core.bind.directing import ClaimAsk, directed, object_to_claims
from drabridge.core.cluster import ClusterView, Gate
from drabridge.core.policy import Delivery, PodsWithClaims, PolicyView
from drabridge.core.reasons import Reason
from drabridge.core.rewrite import ClaimNames, LeaveAlone, Rewrite, decide

SCHEDULER = "drabridge-scheduler"


def served(*classes: dict[str, Any], gate: Gate = Gate.ON, scheduler: str = SCHEDULER, **options: Any) -> ClusterView:
    bind = policy(delivery=Delivery.BIND)
    return replace(cluster(*classes, policies=[bind], gate=gate, **options), bind_scheduler=scheduler)


def admitted(builder: PodBuilder, view: ClusterView) -> dict[str, Any]:
    """The Pod that is stored."""
    verdict = decide(builder.view(), view, ClaimNames("drabridge-0123456789abcdef"))
    if isinstance(verdict, LeaveAlone):
        patch = verdict.patch + directed(builder.view(), verdict.objections, view.bind_scheduler)
    else:
        patch = verdict.patch + directed(builder.view(), verdict.left, view.bind_scheduler, rewritten=True)
    return patched(builder.raw(), LeaveAlone((), patch))


def test_a_pod_whose_name_is_served_by_bind_gets_the_scheduler_and_nothing_else() -> None:
    stored = admitted(pod().app(gpu=2), served(GPU_CLASS))
    assert stored["spec"].pop("schedulerName") == SCHEDULER
    assert stored["metadata"].pop("labels") == {"drabridge.io/delivery": "Bind"}
    assert stored == pod().app(gpu=2).raw()


def test_a_second_call_changes_nothing_more() -> None:
    view = served(GPU_CLASS)
    once = admitted(pod().app(gpu=2), view)
    builder = PodBuilder(once["metadata"], once["spec"], {})
    assert admitted(builder, view) == once


def test_what_else_the_pod_asks_for_is_rewritten_and_allocated_there_as_well() -> None:
    view = served(GPU_CLASS, NIC_CLASS)
    stored = admitted(pod().app(gpu=1, nic=1), view)
    assert stored["spec"]["schedulerName"] == SCHEDULER
    assert stored["metadata"]["labels"] == {"drabridge.io/delivery": "Rewrite"}
    assert stored["spec"]["containers"][0]["resources"]["limits"] == {GPU: "1"}
    assert len(stored["spec"]["resourceClaims"]) == 1
    verdict = decide(pod().app(gpu=1, nic=1).view(), view, ClaimNames("drabridge-0123456789abcdef"))
    assert isinstance(verdict, Rewrite)
    assert {request.resource for request in verdict.asked.requests} == {NIC}


HINDRANCES = {
    "drabridge runs without its extender": (served(GPU_CLASS, scheduler=""), Reason.BIND_OFF),
    "the gate is off": (served(GPU_CLASS, gate=Gate.OFF), Reason.GATE_OFF),
    "no class declares the name, so that kube-scheduler would refuse it": (
        served(device_class("gpu")),
        Reason.CLASS_DIFFERS,
    ),
}


@pytest.mark.parametrize(("view", "reason"), HINDRANCES.values(), ids=HINDRANCES)
def test_the_pod_is_left_alone_and_told_why_where(view: ClusterView, reason: Reason) -> None:
    verdict = decide(pod().app(gpu=1).view(), view, ClaimNames("drabridge-0123456789abcdef"))
    assert isinstance(verdict, LeaveAlone)
    assert [each.reason for each in verdict.objections] == [reason]
    assert directed(pod().app(gpu=1).view(), verdict.objections, SCHEDULER) == []
    assert choose(GPU, view).delivery is Delivery.BIND


def test_a_name_may_be_served_by_another_class_than_the_one_that_declares_it() -> None:
    view = served(device_class("gpu"), device_class("other", extended=GPU))
    assert choose(GPU, view).reason is Reason.SERVING


NOT_DIRECTED = {
    "another scheduler": pod().app(gpu=1).with_spec(schedulerName="somebody"),
    "a node that is named": pod().app(gpu=1).with_spec(nodeName="node-0"),
    "an author who opted out": pod().app(gpu=1).annotations({"drabridge.io/rewrite": "false"}),
    "no extended resources": pod().app(cpu="1"),
}


@pytest.mark.parametrize("builder", NOT_DIRECTED.values(), ids=NOT_DIRECTED)
def test_a_pod_stays_as_it_is_with(builder: PodBuilder) -> None:
    assert admitted(builder, served(GPU_CLASS)) == builder.raw()


# --- Pods with claims of their own

DRIVERS = {"gpu": frozenset({"gpu.example.com"}), "gpu-large": frozenset({"gpu.example.com"}), "nic": frozenset({"n"})}
WANTED = replace(policy(delivery=Delivery.BIND), with_claims=PodsWithClaims.BIND)


def wanting(*policies: PolicyView, gate: Gate = Gate.ON, labels: dict[str, str] | None = None) -> ClusterView:
    view = cluster(GPU_CLASS, NIC_CLASS, policies=policies or [WANTED], gate=gate, labels=labels)
    return replace(view, bind_scheduler=SCHEDULER)


def asks(*classes: str | None) -> list[ClaimAsk]:
    """A claim that asks for each; None is one that is not there."""
    return [
        ClaimAsk(f"ResourceClaim default/{number}", None if each is None else frozenset({each}))
        for number, each in enumerate(classes)
    ]


PLAIN = pod().app(cpu="1")

# sentence -> Pod, claims, cluster, reason (None: nothing is said)
CLAIMS: dict[str, tuple[PodBuilder, list[ClaimAsk], ClusterView, Reason | None]] = {
    "a claim for the policy's class is ours": (PLAIN, asks("gpu"), wanting(), Reason.BIND),
    "a claim for another class with devices of the same driver is ours": (
        PLAIN,
        asks("gpu-large"),
        wanting(),
        Reason.BIND,
    ),
    "one of several is enough": (PLAIN, asks("nic", "gpu"), wanting(), Reason.BIND),
    "one of several is enough, whatever else is not there yet": (PLAIN, asks(None, "gpu"), wanting(), Reason.BIND),
    "a claim for another driver's devices is none of our business": (PLAIN, asks("nic"), wanting(), None),
    "classes without devices are the same as themselves only": (PLAIN, asks("nobodys"), wanting(), None),
    "a claim that is not there may be anybody's": (PLAIN, asks(None), wanting(), Reason.CLAIM_UNKNOWN),
    "nobody is told so where no policy would want it": (
        PLAIN,
        asks(None),
        wanting(policy(delivery=Delivery.BIND)),
        None,
    ),
    "nor whom the policy does not select": (
        PLAIN,
        asks(None),
        wanting(replace(WANTED, pods=policy(pods={"team": "a"}).pods)),
        None,
    ),
    "a policy that does not say so": (PLAIN, asks("gpu"), wanting(policy(delivery=Delivery.BIND)), None),
    "a policy of another delivery": (PLAIN, asks("gpu"), wanting(replace(WANTED, delivery=Delivery.NATIVE)), None),
    "a policy that cannot be served": (PLAIN, asks("gpu"), wanting(gate=Gate.OFF), None),
    "a policy that does not select the Pod": (
        PLAIN,
        asks("gpu"),
        wanting(replace(WANTED, pods=policy(pods={"team": "a"}).pods)),
        Reason.NOT_SELECTED,
    ),
    "a policy that selects the namespace": (
        PLAIN,
        asks("gpu"),
        wanting(replace(WANTED, namespaces=policy(namespaces={"team": "a"}).namespaces), labels={"team": "a"}),
        Reason.BIND,
    ),
    "another scheduler": (
        pod().app(cpu="1").with_spec(schedulerName="somebody"),
        asks("gpu"),
        wanting(),
        Reason.OTHER_SCHEDULER,
    ),
    "another scheduler, of claims that are none of our business": (
        pod().app(cpu="1").with_spec(schedulerName="somebody"),
        asks("nic"),
        wanting(),
        None,
    ),
    "a node that is named": (
        pod().app(cpu="1").with_spec(nodeName="node-0"),
        asks("gpu"),
        wanting(),
        Reason.NODE_NAME_SET,
    ),
    "an author who opted out": (
        pod().app(cpu="1").annotations({"drabridge.io/rewrite": "false"}),
        asks("gpu"),
        wanting(),
        Reason.OPTED_OUT,
    ),
    "a group that is scheduled together, which our scheduler would refuse": (
        pod().app(cpu="1").with_spec(schedulingGroup={"podGroupName": "g"}),
        asks("gpu"),
        wanting(),
        Reason.SCHEDULING_GROUP,
    ),
}


@pytest.mark.parametrize(("builder", "claims", "view", "reason"), CLAIMS.values(), ids=CLAIMS)
def test_of_a_pod_with_claims_of_its_own(
    builder: PodBuilder, claims: list[ClaimAsk], view: ClusterView, reason: Reason | None
) -> None:
    found = object_to_claims(builder.view(), claims, view, DRIVERS)
    assert (found.reason if found else None) is reason
    assert bool(directed(builder.view(), [found] if found else [], SCHEDULER)) is (reason is Reason.BIND)


def test_a_pod_without_extended_names_is_not_told_about_its_scheduler() -> None:
    verdict = decide(pod().app(cpu="1").with_spec(schedulerName="somebody").view(), wanting(), ClaimNames("x"))
    assert verdict == LeaveAlone(())
