from __future__ import annotations

from itertools import product

import pytest

from builders import GPU, GPU_CLASS, IMPLICIT_GPU, cluster, device_class, policy
from drabridge.core.auto import Choice, choose, hindrance_of, kubelet_is_native
from drabridge.core.cluster import ClusterView, Gate
from drabridge.core.policy import Delivery
from drabridge.core.reasons import Reason

OTHER = device_class("other", extended=GPU, created="2026-09-09T00:00:00Z")


def at(gate: Gate, *, differs: bool, old: bool, settled: bool, delivery: Delivery | None) -> ClusterView:
    """Make a cluster in which a policy, if any, leads to the class gpu, as the newest class does unless `differs`."""
    return cluster(
        device_class("gpu", annotation=GPU) if differs and delivery is None else GPU_CLASS,
        *([OTHER] if differs and delivery else []),
        policies=[policy(delivery=delivery)] if delivery else [],
        old_kubelets=("node-a", "node-b") if old else (),
        gate=gate,
        settled=[GPU] if settled else [],
    )


FACTS = list(product(Gate, (False, True), (False, True), (False, True)))


def hindrance(gate: Gate, differs: bool, old: bool) -> Reason | None:
    """Say what hinders native delivery, the weightiest first."""
    table = {
        Gate.UNKNOWN: Reason.GATE_UNKNOWN,
        Gate.OFF: Reason.GATE_OFF,
        Gate.ON: Reason.CLASS_DIFFERS if differs else Reason.KUBELET_TOO_OLD if old else None,
    }
    return table[gate]


@pytest.mark.parametrize("delivery", [None, Delivery.AUTO])
@pytest.mark.parametrize(("gate", "differs", "old", "settled"), FACTS)
def test_auto_is_native_only_where_everything_holds(
    gate: Gate, differs: bool, old: bool, settled: bool, delivery: Delivery | None
) -> None:
    choice = choose(GPU, at(gate, differs=differs, old=old, settled=settled, delivery=delivery))
    why = hindrance(gate, differs, old) or (None if settled else Reason.SETTLING)
    if why is None:
        assert choice == Choice(Delivery.NATIVE, Reason.SERVING, "")
    else:
        assert (choice.delivery, choice.reason) == (Delivery.REWRITE, why)
        assert choice.detail


@pytest.mark.parametrize(("gate", "differs", "old", "settled"), FACTS)
def test_a_policy_that_says_rewrite_or_off_gets_it_whatever_the_cluster(
    gate: Gate, differs: bool, old: bool, settled: bool
) -> None:
    rewrite = at(gate, differs=differs, old=old, settled=settled, delivery=Delivery.REWRITE)
    off = at(gate, differs=differs, old=old, settled=settled, delivery=Delivery.OFF)
    assert choose(GPU, rewrite) == Choice(Delivery.REWRITE, Reason.SERVING, "")
    assert choose(GPU, off) == Choice(Delivery.OFF, Reason.POLICY_OFF, "ExtendedResourcePolicy gpu")


@pytest.mark.parametrize(("gate", "differs", "old", "settled"), FACTS)
def test_a_policy_that_says_native_gets_it_at_once_and_is_told_what_is_missing(
    gate: Gate, differs: bool, old: bool, settled: bool
) -> None:
    choice = choose(GPU, at(gate, differs=differs, old=old, settled=settled, delivery=Delivery.NATIVE))
    assert (choice.delivery, choice.reason) == (
        Delivery.NATIVE,
        hindrance(gate, differs, old) or Reason.SERVING,
    )


DETAILS: dict[str, tuple[ClusterView, str]] = {
    "one old kubelet is named": (cluster(GPU_CLASS, gate=Gate.ON, old_kubelets=("node-a",)), "node node-a"),
    "of several the first is named and the others are counted": (
        cluster(GPU_CLASS, gate=Gate.ON, old_kubelets=("node-a", "node-b", "node-c")),
        "node node-a and 2 more",
    ),
    "a name that only our annotation declares is none to the scheduler": (
        cluster(device_class("gpu", annotation=GPU), gate=Gate.ON),
        "kube-scheduler would serve example.com/gpu by no DeviceClass, drabridge by gpu",
    ),
    "a policy that names another class than the newest": (
        cluster(GPU_CLASS, OTHER, policies=[policy()], gate=Gate.ON),
        "kube-scheduler would serve example.com/gpu by other, drabridge by gpu",
    ),
    "a policy whose class is not there": (
        cluster(policies=[policy(device_class="gone")], gate=Gate.ON),
        "kube-scheduler would serve example.com/gpu by no DeviceClass, drabridge by gone",
    ),
    "a name that nobody serves": (
        cluster(gate=Gate.ON),
        "kube-scheduler would serve example.com/gpu by no DeviceClass, drabridge by none",
    ),
}


@pytest.mark.parametrize(("view", "want"), DETAILS.values(), ids=DETAILS)
def test_a_hindrance_names_what_stands_in_the_way(view: ClusterView, want: str) -> None:
    found = hindrance_of(GPU, view)
    assert found
    assert found.detail == want


def test_each_name_is_chosen_for_by_itself() -> None:
    """An implicit name needs no field of the class, and one name's time says nothing about another's."""
    view = cluster(device_class("gpu", annotation=GPU), gate=Gate.ON, settled=[GPU, IMPLICIT_GPU])
    assert choose(IMPLICIT_GPU, view).delivery is Delivery.NATIVE
    assert choose(GPU, view).delivery is Delivery.REWRITE
    only_explicit = cluster(GPU_CLASS, gate=Gate.ON, settled=[GPU])
    assert choose(IMPLICIT_GPU, only_explicit).reason is Reason.SETTLING


VERSIONS = {
    "v1.36.0": True,
    "1.36.0": True,
    "v1.37.2": True,
    "v2.0.0": True,
    "v1.100.0": True,
    "v1.36.0-alpha.1+x": True,
    "v1.36": True,
    "v1.35.9": False,
    "1.35.9-gke.1": False,
    "v1.4.0": False,
    "v0.99.0": False,
    "": False,
    "v": False,
    "v1": False,
    "1x36": False,
    "kubelet v1.36.0": False,
    "v-1.36.0": False,
    "v\u0661.\u0663\u0667": False,
    "9" * 5000 + ".0": False,
}


@pytest.mark.parametrize(("version", "want"), VERSIONS.items(), ids=[ascii(each)[:30] for each in VERSIONS])
def test_a_kubelet_is_native_from_1_36_on(version: str, want: bool) -> None:
    assert kubelet_is_native(version) is want
