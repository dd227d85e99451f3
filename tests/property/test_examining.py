"""Objects of any shape: doctor, capacity and explain answer, or leave the object out; they never fail."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import CLAIM
from clusters import (
    BRIDGE,
    DRIVER,
    NAME,
    NOW,
    Object,
    asking,
    claim,
    device,
    device_class,
    exactly,
    from_template,
    made,
    native,
    node,
    owned_by,
    pod,
    policy,
    quota,
    resource_slice,
    result,
    role,
    rule,
    server,
    special,
    taint,
    template,
    webhook,
)
from drabridge.api.policy import ExtendedResourcePolicy
from drabridge.core import capacity
from drabridge.core.capacity import Grouping
from drabridge.core.doctor.registry import diagnose
from drabridge.core.explanation.claims import explain_claim
from drabridge.core.explanation.classes import explain_class
from drabridge.core.explanation.names import explain_name
from drabridge.core.explanation.pods import explain_pod
from drabridge.core.fitting import BODIES
from drabridge.core.inventory.gathering import Gathering
from rewriting import rewritten

COUNTERS = {"counterSet": "card", "counters": {"memory": {"value": "30Gi"}}}
SHARED = {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "40Gi"}}}
OBJECTS: list[Object] = [
    server("v1.36.0"),
    node("node-1", allocatable={NAME: 0}, taints=[taint("dedicated", "x")]),
    resource_slice(
        "a",
        published=[device("gpu-0", taints=[taint("sick")]), device("gpu-1", **SHARED)],
        sharedCounters=[{"name": "card", "counters": {"memory": {"value": "80Gi"}}}],
    ),
    resource_slice("b", "node-2", published=[device("part", consumesCounters=[COUNTERS])]),
    device_class(extendedResourceName=NAME, config=[{"opaque": {"driver": "d", "parameters": {"ifName": "x"}}}]),
    policy(),
    pod("web", asking(2), spec={"nodeName": "node-1"}, status=native("web-claim"), metadata=owned_by("Job", "j")),
    claim("web-claim", exactly(2), results=[result()], reserved=["web"], metadata=special("web")),
    pod("waits", spec=from_template("t"), status={"conditions": [{"type": "PodScheduled", "status": "False"}]}),
    template("t", exactly(1, selectors=[{"cel": {"expression": f"device.driver == '{DRIVER}'"}}])),
    rewritten(pod("old", asking(1))),
    claim(CLAIM, results=[result("gpu-1", shareID="1", consumedCapacity={"memory": "1Gi"})]),
    claim("part", results=[result("part", "node-2")]),
    quota(hard={f"requests.{NAME}": "2", NAME: "1"}),
    made("v1", "LimitRange", "l", spec={"limits": [{"type": "Container", "max": {NAME: "1"}}]}),
    made("v1", "Namespace", "default", None, metadata={"labels": {"resource.kubernetes.io/admin-access": "true"}}),
    made("resource.k8s.io/v1", "DeviceTaintRule", "r", None, spec={"deviceSelector": {}, "taint": taint("x")}),
    role("r", rule("resource.k8s.io", "resourceclaims/status", "update")),
    webhook("other"),
    *BRIDGE,
]

ODD = st.sampled_from([None, "", "x", 0, -1, 1.5, True, [], {}, ["x"], [{}], {"x": "y"}, "1.5Gi", "-3", "2026-13-01"])


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values below this one."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, each in inner for found in ((*path, key), *places(each, (*path, key)))]


PLACES = [place for place in places(OBJECTS) if len(place) > 1]


@given(st.lists(st.tuples(st.sampled_from(PLACES), ODD), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_whatever_a_field_holds(changes: list[tuple[tuple[Any, ...], Any]]) -> None:
    objects = copy.deepcopy(OBJECTS)
    for place, odd in changes:
        parent: Any = objects
        try:
            for step in place[:-1]:
                parent = parent[step]
            parent[place[-1]] = odd
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took its place away
    gathering = Gathering(lambda raw: ExtendedResourcePolicy.parse(raw).view(), BODIES)
    for each in objects:
        gathering.take(each)
    cluster = gathering.inventory(NOW)
    diagnose(cluster)
    for grouping in Grouping:
        capacity.count(cluster, grouping)
    capacity.shared(cluster)
    capacity.uses(cluster)
    for pod_ in cluster.pods:
        explain_pod(pod_, cluster)
    for claim_ in cluster.claims:
        explain_claim(claim_, cluster)
    for class_ in cluster.classes:
        explain_class(class_, cluster)
    explain_name(NAME, cluster)


def test_the_objects_themselves_are_read() -> None:
    gathering = Gathering(lambda raw: ExtendedResourcePolicy.parse(raw).view())
    assert all(gathering.take(each) for each in OBJECTS)
    assert gathering.inventory(NOW).odd == ()
