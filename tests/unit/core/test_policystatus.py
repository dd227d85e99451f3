from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import GPU, GPU_CLASS, NIC, cluster, device_class, policy
from drabridge.core.cluster import ClusterView, Gate
from drabridge.core.policy import Coexistence, Delivery, PolicyView
from drabridge.core.policystatus import status_of
from drabridge.core.reasons import CURES, Reason
from drabridge.core.usage import Usage

THEN, NOW = "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z"
OTHER = device_class("other", extended=GPU)
AUTO, OFF = policy(), policy(delivery=Delivery.OFF)
REWRITE, NATIVE = policy(delivery=Delivery.REWRITE), policy(delivery=Delivery.NATIVE)
OLDER = policy(name="older", created="2025-01-01T00:00:00Z")


def status(
    subject: PolicyView, view: ClusterView, usage: Usage | None = None, conditions: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    return status_of(subject, view, usage or Usage(), 8, conditions or [], NOW)


def with_policy(subject: PolicyView, *classes: dict[str, Any], **facts: Any) -> ClusterView:
    return cluster(*(classes or (GPU_CLASS,)), policies=[subject], **facts)


# sentence -> policy, cluster, Ready, reason, message (without the cure), delivery
CASES: dict[str, tuple[PolicyView, ClusterView, bool, Reason, str, str]] = {
    "a name that is rewritten as the policy says": (
        REWRITE,
        with_policy(REWRITE),
        True,
        Reason.SERVING,
        "example.com/gpu is served by DeviceClass gpu, delivery Rewrite",
        "Rewrite",
    ),
    "Auto says why it is not Native": (
        AUTO,
        with_policy(AUTO),
        True,
        Reason.SERVING,
        (
            "example.com/gpu is served by DeviceClass gpu, delivery Rewrite;"
            " not natively: the API server drops DeviceClass.spec.extendedResourceName"
        ),
        "Rewrite",
    ),
    "Auto that came to Native": (
        AUTO,
        with_policy(AUTO, gate=Gate.ON, settled=[GPU]),
        True,
        Reason.SERVING,
        "example.com/gpu is served by DeviceClass gpu, delivery Native",
        "Native",
    ),
    "Auto that waits for the cluster to settle": (
        AUTO,
        with_policy(AUTO, gate=Gate.ON),
        True,
        Reason.SERVING,
        (
            "example.com/gpu is served by DeviceClass gpu, delivery Rewrite;"
            " not natively: kube-scheduler could serve example.com/gpu itself only since lately"
        ),
        "Rewrite",
    ),
    "Native where it works": (
        NATIVE,
        with_policy(NATIVE, gate=Gate.ON),
        True,
        Reason.SERVING,
        "example.com/gpu is served by DeviceClass gpu, delivery Native",
        "Native",
    ),
    "Native with the gate off": (
        NATIVE,
        with_policy(NATIVE),
        False,
        Reason.GATE_OFF,
        "the API server drops DeviceClass.spec.extendedResourceName",
        "Native",
    ),
    "Native before the gate is known": (
        NATIVE,
        with_policy(NATIVE, gate=Gate.UNKNOWN),
        False,
        Reason.GATE_UNKNOWN,
        "the API server has not been asked for its gate yet",
        "Native",
    ),
    "Native with a class that the scheduler does not know by the name": (
        NATIVE,
        with_policy(NATIVE, device_class("gpu"), gate=Gate.ON),
        False,
        Reason.CLASS_DIFFERS,
        "kube-scheduler would serve example.com/gpu by no DeviceClass, drabridge by gpu",
        "Native",
    ),
    "Native with an old kubelet": (
        NATIVE,
        with_policy(NATIVE, gate=Gate.ON, old_kubelets=("node-a",)),
        False,
        Reason.KUBELET_TOO_OLD,
        "node node-a",
        "Native",
    ),
    "Off": (OFF, with_policy(OFF), False, Reason.POLICY_OFF, "spec.delivery is Off", "Off"),
    "the class is missing": (
        AUTO,
        with_policy(AUTO, OTHER),
        False,
        Reason.DEVICE_CLASS_MISSING,
        "DeviceClass gpu (spec.devices[0]) does not exist",
        "Rewrite",
    ),
    "the policies are not read yet": (
        AUTO,
        cluster(),
        False,
        Reason.DEVICE_CLASS_MISSING,
        "DeviceClass gpu (spec.devices[0]) does not exist",
        "Rewrite",
    ),
    "an older policy serves the name": (
        AUTO,
        cluster(GPU_CLASS, policies=[AUTO, OLDER]),
        False,
        Reason.NAME_SHADOWED,
        "ExtendedResourcePolicy older is older and serves example.com/gpu",
        "Rewrite",
    ),
    "to be shadowed weighs more than to be Off or without a class": (
        OFF,
        cluster(policies=[OFF, OLDER]),
        False,
        Reason.NAME_SHADOWED,
        "ExtendedResourcePolicy older is older and serves example.com/gpu",
        "Rewrite",
    ),
    "Off weighs more than a missing class": (
        OFF,
        with_policy(OFF, OTHER),
        False,
        Reason.POLICY_OFF,
        "spec.delivery is Off",
        "Off",
    ),
    "another class declares the name, too": (
        AUTO,
        with_policy(AUTO, GPU_CLASS, OTHER, device_class("third", annotation=GPU)),
        True,
        Reason.NAME_COLLISION,
        "DeviceClass other, third declares example.com/gpu as well; the policy's class is used",
        "Rewrite",
    ),
    "a device plugin serves the name": (
        AUTO,
        with_policy(AUTO, plugins={GPU: "node-a"}),
        False,
        Reason.DEVICE_PLUGIN_PRESENT,
        "node node-a has example.com/gpu in status.allocatable",
        "Rewrite",
    ),
    "a device plugin of another name does not matter": (
        REWRITE,
        with_policy(REWRITE, plugins={NIC: "node-a"}),
        True,
        Reason.SERVING,
        "example.com/gpu is served by DeviceClass gpu, delivery Rewrite",
        "Rewrite",
    ),
    "a device plugin may be there if the policy says so": (
        coexisting := replace(REWRITE, coexistence=Coexistence.REWRITE),
        with_policy(coexisting, plugins={GPU: "node-a"}),
        True,
        Reason.SERVING,
        "example.com/gpu is served by DeviceClass gpu, delivery Rewrite",
        "Rewrite",
    ),
    "a device plugin beside native delivery is the scheduler's affair": (
        NATIVE,
        with_policy(NATIVE, gate=Gate.ON, plugins={GPU: "node-a"}),
        True,
        Reason.SERVING,
        "example.com/gpu is served by DeviceClass gpu, delivery Native",
        "Native",
    ),
}


@pytest.mark.parametrize(("subject", "view", "ready", "reason", "message", "delivery"), CASES.values(), ids=CASES)
def test_the_status_says_whether_the_name_is_served_and_how(
    subject: PolicyView, view: ClusterView, ready: bool, reason: Reason, message: str, delivery: str
) -> None:
    found = status(subject, view)
    [condition] = found["conditions"]
    cure = "" if reason is Reason.SERVING else f" Cure: {CURES[reason]}."
    assert condition == {
        "type": "Ready",
        "status": str(ready),
        "reason": reason.value,
        "message": f"{message}.{cure}",
        "observedGeneration": subject.generation,
        "lastTransitionTime": NOW,
    }
    assert found["delivery"] == delivery


def test_usage_and_generation_are_shown() -> None:
    found = status(AUTO, with_policy(AUTO), Usage(pods=5, claims=4, allocated=7))
    assert {key: value for key, value in found.items() if key not in ("conditions", "delivery")} == {
        "observedGeneration": 3,
        "pods": 5,
        "claims": 4,
        "devices": {"total": 8, "allocated": 7},
    }


# sentence -> conditions until now, lastTransitionTime of the new one; the new status is True
TRANSITIONS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "the first condition begins now": ([], NOW),
    "it was ready before": ([{"type": "Ready", "status": "True", "lastTransitionTime": THEN}], THEN),
    "another reason is no transition": (
        [{"type": "Ready", "status": "True", "reason": "NameCollision", "lastTransitionTime": THEN}],
        THEN,
    ),
    "it was not ready before": ([{"type": "Ready", "status": "False", "lastTransitionTime": THEN}], NOW),
    "other conditions have times of their own": (
        [{"type": "Other", "status": "True", "lastTransitionTime": THEN}],
        NOW,
    ),
    "a condition without a time begins now": ([{"type": "Ready", "status": "True"}], NOW),
}


@pytest.mark.parametrize(("former", "want"), TRANSITIONS.values(), ids=TRANSITIONS)
def test_the_transition_time_moves_with_the_status_only(former: list[dict[str, Any]], want: str) -> None:
    [condition] = status(AUTO, with_policy(AUTO), conditions=former)["conditions"]
    assert (condition["status"], condition["lastTransitionTime"]) == ("True", want)


def test_a_status_that_did_not_change_is_the_same_later() -> None:
    """Or every resync would write every policy."""
    view = with_policy(AUTO)
    first = status_of(AUTO, view, Usage(1, 1, 1), 8, [], THEN)
    assert status_of(AUTO, view, Usage(1, 1, 1), 8, first["conditions"], NOW) == first
