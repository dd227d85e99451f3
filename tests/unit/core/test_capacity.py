"""Counting devices: what is free, used, tainted, blocked; what is shared; who uses what."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from clusters import (
    DRIVER,
    NAME,
    Object,
    claim,
    device,
    device_class,
    devices,
    inventory,
    native,
    pod,
    resource_slice,
    result,
    special,
    taint,
    uses,
)
from drabridge.core import capacity
from drabridge.core.capacity import Grouping, State

PARTITIONS = [
    resource_slice(
        "a",
        expected=2,
        published=devices(3, consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": "30Gi"}}}]),
    ),
    resource_slice(
        "b", expected=2, published=[], sharedCounters=[{"name": "card", "counters": {"memory": {"value": "80Gi"}}}]
    ),
]


@dataclass(frozen=True)
class Case:
    """Objects -> how many devices of node-1 are in which state; states that are not named have none."""

    objects: list[Object]
    states: dict[State, int]


CASES: dict[str, Case] = {
    "nobody has anything": Case([resource_slice("a")], {State.FREE: 2}),
    "a claim has one": Case([resource_slice("a"), claim(results=[result()])], {State.USED: 1, State.FREE: 1}),
    "administration does not use a device": Case(
        [resource_slice("a"), claim(results=[result(adminAccess=True)])], {State.FREE: 2}
    ),
    "a taint of the device": Case(
        [resource_slice("a", published=devices(2, taints=[taint("broken")]))], {State.TAINTED: 2}
    ),
    "a taint that only informs": Case(
        [resource_slice("a", published=devices(2, taints=[taint("old", effect="None")]))], {State.FREE: 2}
    ),
    "a taint by a rule": Case(
        [
            resource_slice("a"),
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceTaintRule",
                "metadata": {"name": "r"},
                "spec": {"deviceSelector": {"device": "gpu-1"}, "taint": taint("maintenance")},
            },
        ],
        {State.TAINTED: 1, State.FREE: 1},
    ),
    **{
        f"a rule {which}": Case(
            [
                resource_slice("a"),
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "DeviceTaintRule",
                    "metadata": {"name": "r"},
                    "spec": {**selector, "taint": taint("maintenance")},
                },
            ],
            states,
        )
        for which, selector, states in (
            ("with an empty selector is for all devices", {"deviceSelector": {}}, {State.TAINTED: 2}),
            ("without a selector is for none", {}, {State.FREE: 2}),
            ("for the driver without a name is for none", {"deviceSelector": {"driver": ""}}, {State.FREE: 2}),
        )
    },
    "an incomplete pool": Case([resource_slice("a", expected=2)], {State.BLOCKED: 2}),
    "a former generation does not count": Case(
        [resource_slice("a", generation=2), resource_slice("b", published=devices(9))], {State.FREE: 2}
    ),
    "partitions with room for two": Case([*PARTITIONS, claim(results=[result()])], {State.USED: 1, State.FREE: 2}),
    "partitions without room for a third": Case(
        [*PARTITIONS, claim("x", results=[result()]), claim("y", results=[result("gpu-1")])],
        {State.USED: 2, State.BLOCKED: 1},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_device_has_one_state(case: Case) -> None:
    (row,) = capacity.count(inventory(case.objects), Grouping.NODE)
    assert {state: count for state, count in row.states.items() if count} == case.states
    assert row.total == sum(case.states.values())


def test_devices_are_counted_by_class_node_pool_and_model() -> None:
    cluster = inventory(
        [
            device_class(),
            device_class("none", "false"),
            resource_slice("a"),
            resource_slice("b", None, pool="shared", allNodes=True, published=[device("x", attributes={})]),
        ]
    )
    names = {by: [(row.name, row.total) for row in capacity.count(cluster, by)] for by in Grouping}
    assert names == {
        Grouping.CLASS: [(DRIVER, 3), ("none", 0)],
        Grouping.NODE: [("(shared)", 1), ("node-1", 2)],
        Grouping.POOL: [(f"{DRIVER}/node-1", 2), (f"{DRIVER}/shared", 1)],
        Grouping.MODEL: [("-", 1), ("a100", 2)],
    }


def test_what_is_shared_is_summed_up() -> None:
    cluster = inventory(
        [
            *PARTITIONS,
            claim("x", results=[result()]),
            resource_slice(
                "c",
                "node-2",
                published=[device("m", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})],
            ),
            claim("y", results=[result("m", "node-2", shareID="1", consumedCapacity={"memory": "30Gi"})]),
        ]
    )
    shown = [(each.owner, each.name, str(each.used), str(each.total), each.share) for each in capacity.shared(cluster)]
    assert shown == [
        (f"{DRIVER}/node-1", "memory", "30Gi", "80Gi", 0.375),
        (f"{DRIVER}/node-2/m", "memory", "30Gi", "40Gi", 0.75),
    ]


def test_users_are_pods_and_their_containers() -> None:
    whole = {"name": "whole", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
    one = {"name": "one", "image": "i", "resources": {"claims": [{"name": "gpu", "request": "one"}]}}
    other = {"name": "other", "image": "i", "resources": {"claims": [{"name": "gpu", "request": "two"}]}}
    cluster = inventory(
        [
            resource_slice("a", published=devices(4)),
            pod("web", whole, one, other, spec={"nodeName": "node-1"} | uses("mine")),
            claim("mine", results=[result()], reserved=["web"]),
            pod("native", spec={"nodeName": "node-1"}, status=native("extended")),
            claim("extended", results=[result("gpu-1")], metadata=special("native")),
            claim("idle", results=[result("gpu-2")]),
            pod("done", spec=uses("left"), status={"phase": "Succeeded"}),
            claim("left", results=[result("gpu-3")]),
        ]
    )
    assert [(each.device[-5:], each.claim, each.pod, each.containers) for each in capacity.uses(cluster)] == [
        ("gpu-0", "default/mine", "default/web", ("whole", "one")),
        ("gpu-1", "default/extended", "default/native", ("main",)),
        ("gpu-2", "default/idle", "", ()),
        ("gpu-3", "default/left", "", ()),
    ]
    assert NAME in {use.resource for each in cluster.pods for use in each.uses}
