"""How many more Pods of a shape fit, and why no more."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from clusters import (
    DRIVER,
    NAME,
    Object,
    asking,
    claim,
    device,
    device_class,
    devices,
    exactly,
    from_template,
    inventory,
    node,
    pod,
    resource_slice,
    result,
    taint,
    template,
    uses,
)
from drabridge.core.errors import InvalidInput
from drabridge.core.fitting import BODIES, Fitting, Room, shape_of

CLASS = device_class(extendedResourceName=NAME)
TWO_NODES = [
    CLASS,
    node("node-1"),
    node("node-2"),
    resource_slice("a", published=devices(4)),
    resource_slice("b", "node-2"),
]


@dataclass(frozen=True)
class Case:
    """A Pod in a cluster -> how many more fit on each node, and a part of each reason for the other nodes."""

    pod: Object
    objects: list[Object]
    nodes: dict[str, int]
    barred: tuple[str, ...] = ()


def room(case: Case, most: int = 100) -> Room:
    cluster = inventory([*case.objects, case.pod], keep=BODIES)
    return Fitting(cluster).room(shape_of(cluster.pods[-1], cluster), most)


CASES: dict[str, Case] = {
    "by resource name": Case(pod("p", asking(2)), TWO_NODES, {"node-1": 2, "node-2": 1}),
    "what is in use is not there": Case(
        pod("p", asking(2)), [*TWO_NODES, claim(results=[result(), result("gpu-1")])], {"node-1": 1, "node-2": 1}
    ),
    "by a template": Case(pod("p", spec=from_template("t")), [*TWO_NODES, template("t", exactly(3))], {"node-1": 1}),
    "by a claim of its own": Case(
        pod("p", spec=uses("c")), [*TWO_NODES, claim("c", exactly(2))], {"node-1": 2, "node-2": 1}
    ),
    "nothing fits": Case(
        pod("p", asking(5)), TWO_NODES, {}, ("needs 5, 4 of 4 devices are left", "needs 5, 2 of 2 devices are left")
    ),
    "taints, cordons and selectors of nodes": Case(
        pod("p", asking(1), spec={"nodeSelector": {"zone": "a"}}),
        [
            CLASS,
            *(resource_slice(f"s{i}", f"n{i}") for i in range(4)),
            node("n0", labels={"zone": "a"}),
            node("n1", labels={"zone": "b"}),
            node("n2", labels={"zone": "a"}, taints=[taint("only", "us")]),
            {**node("n3"), "spec": {"unschedulable": True}},
        ],
        {"n0": 2},
        ("nodeSelector does not match", "taint only=us:NoSchedule is not tolerated", "cordoned"),
    ),
    "required node affinity": Case(
        pod(
            "p",
            asking(1),
            spec={
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-2"]}]}
                            ]
                        }
                    }
                }
            },
        ),
        TWO_NODES,
        {"node-2": 2},
        ("node affinity does not match",),
    ),
    "devices that several nodes reach are given once": Case(
        pod("p", asking(1)),
        [CLASS, node("n1"), node("n2"), resource_slice("net", None, pool="net", allNodes=True, published=devices(3))],
        {"n1": 3},
        (),
    ),
    "taints by rules": Case(
        pod("p", asking(1)),
        [
            *TWO_NODES,
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceTaintRule",
                "metadata": {"name": "r"},
                "spec": {"deviceSelector": {"pool": "node-1"}, "taint": taint("maintenance")},
            },
        ],
        {"node-2": 2},
    ),
    "two claims that overlap do not stop the others": Case(
        pod("p", asking(1)),
        [CLASS, node("node-1"), resource_slice("a"), claim("x", results=[result()]), claim("y", results=[result()])],
        {"node-1": 1},
    ),
    "administration takes nothing, and never ends": Case(
        pod("p", spec=uses("look")),
        [CLASS, node("node-1"), resource_slice("a"), claim("look", exactly(1, adminAccess=True))],
        {"node-1": 100},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_room(case: Case) -> None:
    found = room(case)
    assert found.nodes == case.nodes
    reasons = [each.reason for each in found.barred]
    for part in case.barred:
        assert any(part in reason for reason in reasons), reasons
    assert bool(reasons) == bool(case.barred)


def test_a_remedy_is_named() -> None:
    found = room(Case(pod("p", asking(3)), [CLASS, node("node-1"), resource_slice("a")], {}))
    assert [cure for each in found.barred for cure in each.cures] == [
        "ResourceClaim default/extended-resources: ask for 2 instead of 3 in request container-0-request-0"
    ]


def test_counting_ends_somewhere() -> None:
    assert room(Case(pod("p", asking(1)), TWO_NODES, {}), most=3).total == 3


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (pod("p", asking(1, "example.com/unknown")), "it brings no claim"),
        (pod("p", spec=from_template("gone")), "ResourceClaimTemplate default/gone"),
    ],
)
def test_a_pod_without_a_shape(wanted: Object, problem: str) -> None:
    cluster = inventory([CLASS, resource_slice("a", published=[device("x")]), wanted], keep=BODIES)
    with pytest.raises(InvalidInput, match=problem):
        shape_of(cluster.pods[0], cluster)
    assert cluster.class_map.native(NAME) == DRIVER
