"""Which Pods the webhook sends to the scheduler that calls us, and what keeps it from doing so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import GPU, GPU_CLASS, NIC, NIC_CLASS, PodBuilder, cluster, device_class, patched, pod, policy
from drabridge.core.auto import choose
from drabridge.core.bind.directing import directed
from drabridge.core.cluster import ClusterView, Gate
from drabridge.core.policy import Delivery
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
