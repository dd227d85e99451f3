"""Pods that are scheduled one after the other: who gets what, who gets nothing, and what would change that."""

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
    made,
    node,
    owned_by,
    pod,
    policy,
    resource_slice,
    result,
    template,
    uses,
)
from drabridge.core.allocation.features import Features
from drabridge.core.allocation.settings import DEFAULTS, Settings
from drabridge.core.allocation.strategy import Strategy
from drabridge.core.fitting import BODIES
from drabridge.core.simulation import Broken, Outcome, Placed, Simulation, Unplaced, overlaid, turns
from rewriting import ANNOTATED, OLD, rewritten

CLASS = device_class(extendedResourceName=NAME)
TWO_NODES = [
    CLASS,
    node("node-1"),
    node("node-2"),
    resource_slice("a", published=devices(4)),
    resource_slice("b", "node-2"),
]
ONE_PLUGIN = [
    node("n1", labels={"zone": "one"}),
    node("n2", allocatable={NAME: 2}),
    resource_slice("a", "n1"),
]
ON_TWO = {"nodeSelector": {"zone": "two"}}

BY_ANNOTATION = device_class(metadata={"annotations": {"drabridge.io/extended-resource-name": NAME}})
GATE_OFF = [BY_ANNOTATION, node("node-1"), resource_slice("a", published=devices(4))]
"""Nobody but drabridge serves the name."""


NEW: Object = {"metadata": {"uid": ""}}
"""Of a Pod that is in a manifest only."""


def limits(**fields: Object) -> Object:
    item = {"type": "Container"} | {field: {NAME: value} for field, value in fields.items()}
    return made("v1", "LimitRange", "caps", spec={"limits": [item]})


def simulated(objects: list[Object], settings: Settings = DEFAULTS, namespace: str | None = None) -> list[Outcome]:
    cluster = inventory(objects, keep=BODIES)
    assert not cluster.odd
    return list(Simulation(cluster, settings).run(turns(cluster, namespace)))


def told(outcome: Outcome) -> str:
    """pod: node device …, or why not."""
    match outcome:
        case Placed():
            return " ".join([outcome.pod + ":", outcome.node, *(each.device.split("/")[2] for each in outcome.devices)])
        case Unplaced():
            return " | ".join([f"{outcome.pod}: {outcome.reason}", *(each.reason for each in outcome.barred)])
        case Broken():
            return f"{outcome.pod}: broken: {outcome.error}"


@dataclass(frozen=True)
class Case:
    """Objects -> what becomes of each Pod in turn; a text that ends with … is the beginning of it."""

    objects: list[Object]
    want: tuple[str, ...]


CASES: dict[str, Case] = {
    "each sees what those before it took": Case(
        [*TWO_NODES, pod("a", asking(3)), pod("b", asking(2)), pod("c", asking(1))],
        ("default/a: node-1 gpu-0 gpu-1 gpu-2", "default/b: node-2 gpu-0 gpu-1", "default/c: node-1 gpu-3"),
    ),
    "priority goes first, then age, then the order in which they were read": Case(
        [
            *TWO_NODES,
            pod("read", asking(1)),
            pod("old", asking(1), metadata={"creationTimestamp": "2020-01-01T00:00:00Z"}),
            pod("important", asking(1), spec={"priority": 7}),
            pod("last", asking(1)),
        ],
        (
            "default/important: node-1 gpu-0",
            "default/old: node-1 gpu-1",
            "default/read: node-1 gpu-2",
            "default/last: node-1 gpu-3",
        ),
    ),
    "a policy that is Off": Case(
        [*GATE_OFF, policy(spec={"delivery": "Off"}), pod("p", asking(1))],
        (
            (
                "default/p: drabridge leaves example.com/gpu alone: ExtendedResourcePolicy gpu: spec.delivery is Off;"
                " set another delivery in the name's ExtendedResourcePolicy"
            ),
        ),
    ),
    "a policy that is Off does not keep kube-scheduler from serving the name itself": Case(
        [*TWO_NODES, policy(device_class="another", spec={"delivery": "Off"}), pod("p", asking(1))],
        ("default/p: node-1 gpu-0",),
    ),
    "a policy that is Off leaves the name to device plugins": Case(
        [BY_ANNOTATION, *ONE_PLUGIN, policy(spec={"delivery": "Off"}), pod("p", asking(1))],
        ("default/p: n2",),
    ),
    "a policy for other namespaces": Case(
        [
            *GATE_OFF,
            policy(spec={"namespaceSelector": {"matchLabels": {"team": "a"}}}),
            made("v1", "Namespace", "there", None, metadata={"labels": {"team": "a"}}),
            pod("p", asking(1), namespace="here"),
            pod("q", asking(1), namespace="there"),
        ],
        (
            (
                "here/p: drabridge leaves example.com/gpu alone: ExtendedResourcePolicy gpu:"
                " spec.namespaceSelector does not select the namespace;"
                " change namespaceSelector or podSelector of the policy, or the labels"
            ),
            "there/q: node-1 gpu-0",
        ),
    ),
    "a policy for the namespace by the label that each has": Case(
        [
            *GATE_OFF,
            policy(spec={"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}),
            pod("p", asking(1)),
            pod("q", asking(1), namespace="other"),
        ],
        ("default/p: node-1 gpu-0", "other/q: drabridge leaves …"),
    ),
    "a policy for other Pods": Case(
        [
            *GATE_OFF,
            policy(spec={"podSelector": {"matchLabels": {"app": "train"}}}),
            pod("p", asking(1)),
            pod("q", asking(1), metadata={"labels": {"app": "train"}}),
        ],
        ("default/p: drabridge leaves …", "default/q: node-1 gpu-0"),
    ),
    "a policy that wants claims beside device plugins": Case(
        [BY_ANNOTATION, *ONE_PLUGIN, policy(spec={"coexistence": "Rewrite"}), pod("p", asking(1))],
        ("default/p: n1 gpu-0",),
    ),
    "a LimitRange caps what containers ask for": Case(
        [*GATE_OFF, limits(max=2), pod("p", asking(3), **NEW), pod("q", asking(2), **NEW)],
        (
            (
                "default/p: Pod default/p: spec.containers[0] asks for 3 example.com/gpu, more than the max 2 of"
                " LimitRange default/caps; ask for less, or raise max in the LimitRange"
            ),
            "default/q: node-1 gpu-0 gpu-1",
        ),
    ),
    "a LimitRange that no rewritten Pod can satisfy": Case(
        [*GATE_OFF, limits(min=1), pod("p", asking(1))],
        (
            (
                "default/p: drabridge leaves example.com/gpu alone: LimitRange default/caps has min for"
                " example.com/gpu; remove the name from min and maxLimitRequestRatio of the LimitRange"
            ),
        ),
    ),
    "a ResourceQuota counts what Pods of manifests ask for, and those that are there": Case(
        [
            *GATE_OFF,
            made("v1", "ResourceQuota", "quota", spec={"hard": {f"requests.{NAME}": "3"}}),
            pod("runs", asking(1), metadata={"uid": "1"}, spec={"nodeName": "node-1"}),
            pod("ended", asking(3), metadata={"uid": "2"}, status={"phase": "Failed"}),
            pod("p", asking(1), **NEW),
            pod("q", asking(2), **NEW),
            pod("r", asking(1), **NEW),
            pod("s", asking(1), namespace="other", **NEW),
        ],
        (
            "default/p: node-1 gpu-0",
            (
                "default/q: ResourceQuota default/quota has requests.example.com/gpu: 3, Pods ask for 2 already, this"
                " one for 2"
            ),
            "default/r: node-1 gpu-1",
            "other/s: node-1 gpu-2",
        ),
    ),
    "a quota that no companion can stand in for": Case(
        [
            *GATE_OFF,
            policy(spec={"delivery": "Rewrite"}),
            made("v1", "ResourceQuota", "quota", spec={"hard": {f"requests.{NAME}": "3"}, "scopes": ["NotBestEffort"]}),
            pod("p", asking(1)),
        ],
        ("default/p: drabridge leaves …",),
    ),
    "what is allocated stays so, and Pods that run or ask for nothing have no turn": Case(
        [
            *TWO_NODES,
            claim("c", results=[result(), result("gpu-1")]),
            pod("runs", asking(1), spec={"nodeName": "node-1"}),
            pod("ended", asking(1), status={"phase": "Succeeded"}),
            pod("plain"),
            pod("p", asking(2)),
        ],
        ("default/p: node-1 gpu-2 gpu-3",),
    ),
    "each Pod of a template has a claim of its own": Case(
        [
            *TWO_NODES,
            template("t", exactly(2)),
            *(pod(name, spec=from_template("t")) for name in ("a", "b", "c")),
        ],
        ("default/a: node-1 gpu-0 gpu-1", "default/b: node-1 gpu-2 gpu-3", "default/c: node-2 gpu-0 gpu-1"),
    ),
    "Pods that share a claim share its devices": Case(
        [*TWO_NODES, claim("c", exactly(2)), pod("a", spec=uses("c")), pod("b", spec=uses("c")), pod("d", asking(3))],
        (
            "default/a: node-1 gpu-0 gpu-1",
            "default/b: node-1 gpu-0 gpu-1",
            "default/d: fits on none of 2 nodes | …",
        ),
    ),
    "a claim and a name go together, all or nothing": Case(
        [*TWO_NODES, claim("c", exactly(2)), pod("a", asking(3), spec=uses("c")), pod("b", asking(4))],
        ("default/a: fits on none of 2 nodes | …", "default/b: node-1 gpu-0 gpu-1 gpu-2 gpu-3"),
    ),
    "a policy may say which class serves a name": Case(
        [*TWO_NODES, policy(resource="acme.org/gpu"), pod("a", asking(1, "acme.org/gpu"))],
        ("default/a: node-1 gpu-0",),
    ),
    "implicit names need no policy": Case(
        [*TWO_NODES, pod("a", asking(1, f"deviceclass.resource.kubernetes.io/{DRIVER}"))], ("default/a: node-1 gpu-0",)
    ),
    "a name that nobody serves": Case(
        [*TWO_NODES, pod("a", asking(1, "acme.org/gpu")), pod("b", asking(1, "deviceclass.resource.kubernetes.io/x"))],
        (
            "default/a: nobody serves acme.org/gpu: no DeviceClass names it, and no node has it in status.allocatable",
            "default/b: nobody serves deviceclass.resource.kubernetes.io/x: DeviceClass x does not exist, and …",
        ),
    ),
    "kube-scheduler leaves a name to device plugins on their nodes only": Case(
        [CLASS, *ONE_PLUGIN, pod("a", asking(2)), pod("b", asking(1)), pod("c", asking(1), spec=ON_TWO)],
        (
            "default/a: n1 gpu-0 gpu-1",
            "default/b: n2",
            "default/c: fits on none of 2 nodes | nodeSelector does not match",
        ),
    ),
    "drabridge leaves it to them everywhere": Case([ANNOTATED, *ONE_PLUGIN, pod("a", asking(2))], ("default/a: n2",)),
    "where nobody but them serves it, other nodes are out": Case(
        [*ONE_PLUGIN, pod("a", asking(1)), pod("b", asking(1), spec={"nodeSelector": {"zone": "one"}})],
        (
            "default/a: n2",
            f"default/b: fits on none of 2 nodes | no {NAME} in status.allocatable, which device plugins serve | …",
        ),
    ),
    "what is broken is said even where no node is open": Case(
        [CLASS, pod("a", spec=uses("none"))], ("default/a: broken: ResourceClaim default/none: it does not exist; …",)
    ),
    "gates hold a Pod back": Case(
        [*TWO_NODES, pod("a", asking(1), spec={"schedulingGates": [{"name": "g/h"}]})],
        ("default/a: waits for its scheduling gates: g/h",),
    ),
    "nodes that the Pod may not go to are named with the reason": Case(
        [*TWO_NODES, pod("a", asking(1), spec=ON_TWO)],
        ("default/a: fits on none of 2 nodes | nodeSelector does not match",),
    ),
    "without a node nothing fits": Case([CLASS, pod("a", asking(1))], ("default/a: there is no node",)),
    "a claim that is missing": Case(
        [*TWO_NODES, pod("a", spec=uses("none")), pod("b", asking(1))],
        ("default/a: broken: ResourceClaim default/none: it does not exist; …", "default/b: node-1 gpu-0"),
    ),
    "a template that is missing": Case(
        [*TWO_NODES, pod("a", spec=from_template("none"))],
        ("default/a: broken: ResourceClaimTemplate default/none: it does not exist; …",),
    ),
    "a class that is missing": Case(
        [*TWO_NODES, claim("c", exactly(device_class="none")), pod("a", spec=uses("c"))],
        ("default/a: broken: ResourceClaim default/c: …",),
    ),
    "a DaemonSet of a manifest has a Pod on each of its nodes": Case(
        [
            CLASS,
            *(node(name, labels={"zone": zone}) for name, zone in (("n1", "one"), ("n2", "two"), ("n3", "two"))),
            *(resource_slice(name, name) for name in ("n1", "n2", "n3")),
            pod(
                "d-0",
                asking(1),
                spec=ON_TWO,
                metadata={"ownerReferences": [{"kind": "DaemonSet", "name": "d", "controller": True}]},
            ),
        ],
        ("default/d-n2: n2 gpu-0", "default/d-n3: n3 gpu-0"),
    ),
    "a DaemonSet's Pod of a cluster is like any other": Case(
        [*TWO_NODES, pod("d-x", asking(1), metadata=owned_by("DaemonSet", "d"))], ("default/d-x: node-1 gpu-0",)
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_pods_one_after_the_other(case: Case) -> None:
    said = [told(outcome) for outcome in simulated(case.objects)]
    assert len(said) == len(case.want), said
    for each, want in zip(said, case.want, strict=True):
        assert each.startswith(want.removesuffix("…")) if want.endswith("…") else each == want


STRATEGIES = {
    Strategy.FIRST_FIT: ["n1", "n1", "n1", "n1"],
    Strategy.PACK: ["n2", "n2", "n1", "n1"],
    Strategy.SPREAD: ["n1", "n1", "n1", "n2"],
}


@pytest.mark.parametrize(("strategy", "nodes"), STRATEGIES.items())
def test_the_strategy_chooses_the_node(strategy: Strategy, nodes: list[str]) -> None:
    cluster = [
        CLASS,
        *(node(name) for name in ("n1", "n2")),
        resource_slice("a", "n1", published=devices(4)),
        resource_slice("b", "n2", published=devices(4)),
        claim("c", results=[result("gpu-0", "n2"), result("gpu-1", "n2")]),
        *(pod(name, asking(1)) for name in "abcd"),
    ]
    outcomes = simulated(cluster, Settings(strategy=strategy))
    assert [each.node for each in outcomes if isinstance(each, Placed)] == nodes


def test_only_pods_of_the_namespace_have_a_turn() -> None:
    objects = [*TWO_NODES, pod("a", asking(1)), pod("b", asking(1), namespace="other")]
    assert [told(each) for each in simulated(objects, namespace="other")] == ["other/b: node-1 gpu-0"]


def test_shares_of_one_device_have_names_of_their_own_and_end_with_its_capacity() -> None:
    shared = device("gpu-0", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})
    want = exactly(capacity={"requests": {"memory": "15Gi"}})
    outcomes = simulated(
        [
            device_class(),
            node("node-1"),
            resource_slice("a", published=[shared]),
            template("t", want),
            *(pod(name, spec=from_template("t")) for name in "abc"),
        ]
    )
    assert [type(each) for each in outcomes] == [Placed, Placed, Unplaced]
    given = [each.devices[0] for each in outcomes if isinstance(each, Placed)]
    assert len({each.share for each in given}) == 2
    assert [each.consumed for each in given] == [{"memory": "15Gi"}] * 2


ROOTS = {"attributes": {f"{DRIVER}/roots": {"strings": ["a", "b"]}}}
LISTS = [
    device_class(),
    node("node-1"),
    resource_slice("a", published=[{"name": name, **ROOTS} for name in ("gpu-0", "gpu-1")]),
    made(
        "resource.k8s.io/v1",
        "ResourceClaim",
        "c",
        spec={"devices": {"requests": [exactly(2)], "constraints": [{"matchAttribute": f"{DRIVER}/roots"}]}},
    ),
    pod("a", spec=uses("c")),
]
ADMIN = [
    device_class(),
    node("node-1"),
    resource_slice("a"),
    claim("c", exactly(adminAccess=True)),
    pod("a", spec=uses("c")),
]


def without(**features: bool) -> Settings:
    return Settings(Features(**features))


def test_a_feature_that_is_off_and_would_change_the_answer_is_named() -> None:
    [placed] = simulated(ADMIN)
    assert isinstance(placed, Placed)
    assert placed.devices[0].admin
    [outcome] = simulated(ADMIN, without(admin_access=False))
    assert isinstance(outcome, Broken)
    assert outcome.features == ("adminAccess",)


def test_a_feature_may_be_what_a_pod_lacks_that_fits_nowhere() -> None:
    [outcome] = simulated(LISTS)
    assert isinstance(outcome, Unplaced), outcome
    assert outcome.features == ("listTypeAttributes",)
    [outcome] = simulated(LISTS, without(list_type_attributes=True))
    assert isinstance(outcome, Placed)


def test_a_cluster_with_manifests_on_it() -> None:
    cluster = inventory([*TWO_NODES, pod("waits", asking(1)), pod("runs", spec={"nodeName": "n"})], keep=BODIES)
    manifests = inventory(
        [
            resource_slice("a", published=devices(1)),
            template("t", exactly(2)),
            pod("new", spec=from_template("t")),
        ],
        keep=BODIES,
    )
    both = overlaid(cluster, manifests)
    assert [turn.name for turn in turns(both)] == ["new"]
    assert [told(each) for each in Simulation(both).run(turns(both))] == ["default/new: node-2 gpu-0 gpu-1"]


def test_a_rewritten_pod_gets_the_claim_that_drabridge_is_yet_to_make() -> None:
    outcomes = simulated([*OLD, rewritten(pod("a", asking(2))), pod("b", asking(1))])
    assert [told(each).partition(" |")[0] for each in outcomes] == [
        "default/a: node-1 gpu-0 gpu-1",
        "default/b: fits on none of 1 nodes",
    ]
