"""Raw objects become a cluster: what is read, what is left out, and what follows about server and gate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from clusters import (
    DRIVER,
    NAME,
    NOW,
    Object,
    claim,
    component,
    device_class,
    inventory,
    made,
    node,
    pod,
    quota,
    resource_slice,
    server,
    workload,
)
from drabridge.api.policy import ExtendedResourcePolicy
from drabridge.core.cluster import Gate
from drabridge.core.inventory.cluster import Kind
from drabridge.core.inventory.gathering import Gathering

LOST = device_class(
    metadata={
        "managedFields": [{"manager": "helm", "fieldsV1": {"f:spec": {"f:extendedResourceName": {}}}}],
    }
)
APISERVER_ON = component("kube-apiserver", "v1.35.0", "--feature-gates=A=false,DRAExtendedResource=true")


@dataclass(frozen=True)
class Shown:
    """Objects -> the API server's version and gate, as they show it."""

    objects: list[Object]
    server: tuple[int, int] | None
    gate: Gate


SHOWN: dict[str, Shown] = {
    "nothing": Shown([], None, Gate.UNKNOWN),
    "kubectl version": Shown([server("v1.36.2")], (1, 36), Gate.ON),
    "an old version": Shown([server("v1.35.2")], (1, 35), Gate.OFF),
    "a static Pod's image": Shown([component("kube-apiserver", "v1.36.0")], (1, 36), Gate.ON),
    "a static Pod's flag": Shown([APISERVER_ON], (1, 35), Gate.ON),
    "flags that differ": Shown([APISERVER_ON, component("kube-apiserver", "v1.35.0",
        "--feature-gates=DRAExtendedResource=false", node_name="cp-2")], (1, 35), Gate.OFF),
    "a version that locks it": Shown([server("v1.37.0"), LOST], (1, 37), Gate.ON),
    "a name that was stored": Shown([device_class(extendedResourceName=NAME)], None, Gate.ON),
    "a name that was dropped": Shown([LOST], None, Gate.OFF),
}  # fmt: skip


@pytest.mark.parametrize("shown", SHOWN.values(), ids=SHOWN)
def test_version_and_gate_follow_from_the_objects(shown: Shown) -> None:
    cluster = inventory(shown.objects)
    assert (cluster.server, cluster.gate) == (shown.server, shown.gate)


def gathering() -> Gathering:
    return Gathering(lambda raw: ExtendedResourcePolicy.parse(raw).view())


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"kind": "Service", "apiVersion": "v1"},
        {"kind": ["Pod"], "apiVersion": "v1"},
        {"kind": "Role", "apiVersion": "iam.example.com/v1", "metadata": {"name": "x"}},
    ],
)
def test_what_does_not_matter_is_not_taken(raw: Object) -> None:
    taken = gathering()
    assert not taken.take(raw)
    assert taken.kinds == frozenset()


BROKEN: dict[str, tuple[Object, str]] = {
    "no metadata": ({"kind": "Node", "apiVersion": "v1", "metadata": 3}, "Node"),
    "a list that is none": ({**node("n"), "spec": {"taints": {"a": "b"}}}, "Node n"),
    "a list of texts": ({**resource_slice("s"), "spec": {"devices": ["a"]}}, "ResourceSlice s"),
    "a number that is none": (resource_slice("s", generation="x"), "ResourceSlice s"),  # type: ignore[arg-type]
    "a text that is a map": ({**node("n"), "status": {"nodeInfo": {"kubeletVersion": {}}}}, "Node n"),
    "a quantity that is none": ({**node("n"), "status": {"allocatable": {NAME: "many"}}}, "Node n"),
    "texts that are a map": (workload("Deployment", "d", "i") | {"spec": {"template": {"spec": {"containers": [
        {"name": "c", "args": {}}]}}}}, "Deployment drabridge-system/d"),
    "a claim of no shape": ({**claim("c"), "status": []}, "ResourceClaim default/c"),
    "a Pod of no shape": (pod("p", spec={"containers": 1}), "Pod default/p"),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "described"), BROKEN.values(), ids=BROKEN)
def test_what_has_no_shape_is_named_and_left_out(raw: Object, described: str) -> None:
    taken = gathering()
    assert taken.take(raw)
    cluster = taken.inventory(NOW)
    assert [odd.object for odd in cluster.odd] == [described]
    assert taken.kinds == frozenset()


SAID: dict[str, tuple[Object, str]] = {
    "a list that is none": (BROKEN["a list that is none"][0], "spec.taints: is {'a': 'b'}, not a list"),
    "a list of texts": (BROKEN["a list of texts"][0], "spec.devices[0]: is 'a', not an object"),
    "a number that is none": (BROKEN["a number that is none"][0], "spec.pool.generation: is 'x', not a whole number"),
    "a quantity that is none": (
        BROKEN["a quantity that is none"][0],
        f"status.allocatable['{NAME}']: 'many' is not a quantity",
    ),
    "a label that is a number": (
        pod("p", metadata={"labels": {"a": 1}}),
        "metadata.labels['a']: is 1, not a text",
    ),
    "a field that is missing": (made("v1", "LimitRange", "l"), "spec is missing"),
}


@pytest.mark.parametrize(("raw", "problem"), SAID.values(), ids=SAID)
def test_what_is_wrong_is_said_with_field_and_cure(raw: Object, problem: str) -> None:
    (odd,) = inventory([raw]).odd
    assert odd.problem.startswith(problem)
    assert odd.cure == "write it as the API has it, which `kubectl explain` shows"


@pytest.mark.parametrize("raw", [claim("c"), quota("q"), pod("p")], ids=["a claim", "a quota", "a Pod"])
def test_an_object_written_by_hand_has_no_uid(raw: Object) -> None:
    del raw["metadata"]["uid"]
    assert inventory([raw]).odd == ()


def test_an_object_of_many_words_is_left_out() -> None:
    bomb: Any = ["x"] * 9
    for _ in range(9):
        bomb = [bomb] * 9
    hard: Any = {"requests.example.com/gpu": bomb}
    (odd,) = inventory([made("v1", "ResourceQuota", "q", spec={"hard": hard})]).odd
    assert odd.problem == "it has more than 100000 values"


def test_the_last_object_of_a_name_counts_and_a_missing_namespace_is_default() -> None:
    raw = pod("web", spec={"nodeName": "a"})
    del raw["metadata"]["namespace"]
    cluster = inventory([raw, pod("web", spec={"nodeName": "b"})])
    assert {key: each.view.node_name for key, each in cluster.pods_by_key.items()} == {"default/web": "b"}


def test_beta_versions_are_read_by_their_own_shape() -> None:
    request = {"name": "one", "deviceClassName": DRIVER, "count": 2}
    old_claim = made("resource.k8s.io/v1beta1", "ResourceClaim", "c", spec={"devices": {"requests": [request]}})
    old_slice = resource_slice("s", published=[{"name": "d", "basic": {"attributes": {"model": {"string": "x"}}}}])
    old_slice["apiVersion"] = "resource.k8s.io/v1beta1"
    cluster = inventory([old_claim, old_slice])
    assert [(each.device_class, each.count) for each in cluster.claims[0].requests] == [(DRIVER, 2)]
    assert cluster.devices[0].device.attributes == {"model": {"string": "x"}}
    assert {(each.kind, each.api_version) for each in cluster.beta} == {
        ("ResourceClaim", "resource.k8s.io/v1beta1"),
        ("ResourceSlice", "resource.k8s.io/v1beta1"),
    }


def test_bodies_are_kept_of_chosen_kinds_only_and_without_managed_fields() -> None:
    cluster = inventory([LOST, node("n")], keep={Kind.CLASSES})
    assert cluster.bodies.keys() == {Kind.CLASSES}
    assert "managedFields" not in cluster.bodies[Kind.CLASSES][0]["metadata"]


def test_the_schedulers_are_those_of_the_operator() -> None:
    assert inventory([]).schedulers == {"default-scheduler"}
    by_option = workload("Deployment", "drabridge", "r/drabridge:1", "operator", "--scheduler-names=a, b")
    assert inventory([by_option]).schedulers == {"a", "b"}
    by_words = workload("Deployment", "drabridge", "r/drabridge:1", "operator", "--scheduler-names", "c")
    assert inventory([by_words]).schedulers == {"c"}


def test_ages() -> None:
    cluster = inventory([])
    assert cluster.age("2026-12-01T11:00:00Z") == 3600
    assert cluster.age("") == cluster.age("yesterday") == 0
