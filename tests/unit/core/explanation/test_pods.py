"""A Pod on a page: the first thing that holds it up, or what it got."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from builders import CLAIM
from clusters import (
    DRIVER,
    LATELY,
    NAME,
    Object,
    asking,
    claim,
    device,
    device_class,
    exactly,
    from_template,
    inventory,
    made,
    native,
    node,
    owned_by,
    pod,
    policy,
    quota,
    resource_slice,
    result,
    server,
    special,
    taint,
    template,
    uses,
)
from drabridge.core.explanation.page import Page
from drabridge.core.explanation.pods import explain_pod
from drabridge.core.fitting import BODIES
from drabridge.core.inventory.cluster import Kind
from rewriting import OLD, rewritten

NEW = [server("v1.37.0"), node("node-1"), resource_slice("slice-1"), device_class(extendedResourceName=NAME)]
PLAIN = [server("v1.35.0"), node("node-1", kubelet="v1.35.0"), resource_slice("slice-1"), device_class()]


def unscheduled(message: str) -> Object:
    """The status of a Pod of which kube-scheduler says so."""
    return {"conditions": [{"type": "PodScheduled", "status": "False", "message": message}]}


SAID = unscheduled("0/1 nodes: Insufficient cpu.")
ANNOTATED = device_class(metadata={"annotations": {"drabridge.io/extended-resource-name": NAME}})
ON_NODE = {"nodeName": "node-1"}


def page_of(objects: list[Object], name: str = "default/web", unseen: tuple[Kind, ...] = ()) -> Page:
    cluster = inventory(objects, keep=BODIES, unseen=unseen)
    return explain_pod(cluster.pods_by_key[name], cluster)


@dataclass(frozen=True)
class Case:
    """Objects, one of which is Pod web -> what holds it up, with part of the evidence and of a cure."""

    objects: list[Object]
    reason: str
    evidence: str = ""
    cure: str = ""


HELD_UP: dict[str, Case] = {
    "a scheduling gate": Case(
        [*NEW, pod("web", asking(9), spec={"schedulingGates": [{"name": "example.com/wait"}]})],
        "SchedulingGated",
        "example.com/wait",
    ),
    "a name that nobody serves, with a class that could": Case(
        [*PLAIN, pod("web", asking())],
        "NameNotServed",
        NAME,
        f"kubectl annotate deviceclass {DRIVER} drabridge.io/extended-resource-name={NAME}",
    ),
    "a policy whose class is missing": Case(
        [server("v1.35.0"), node("node-1"), policy(), pod("web", asking())], "DeviceClassMissing", DRIVER
    ),
    "the gate is off and there is no drabridge": Case(
        [
            *PLAIN[:3],
            ANNOTATED,
            pod("web", asking()),
        ],
        "GateOff",
        "the API server's gate is off",
        "install drabridge",
    ),
    "a policy that leaves the name to a gate that is off": Case(
        [*PLAIN, policy(spec={"delivery": "Native"}), pod("web", asking())], "GateOff", "drops", "delivery: Auto"
    ),
    "a policy that is off": Case([*PLAIN, policy(spec={"delivery": "Off"}), pod("web", asking())], "PolicyOff"),
    "missed by the webhook": Case(
        [*OLD, pod("web", asking())], "MissedByWebhook", NAME, "kubectl delete pod web -n default"
    ),
    "more devices than a claim holds": Case([*OLD, pod("web", asking(33))], "TooManyDevices", "33 devices"),
    "another scheduler": Case([*OLD, pod("web", asking(), spec={"schedulerName": "x"})], "OtherScheduler", "'x'"),
    "a quota that cannot be kept": Case(
        [*OLD, quota(hard={f"requests.{NAME}": "1500m"}), pod("web", asking())], "ResourceQuotaNamesResource"
    ),
    "a template that is missing": Case(
        [*NEW, pod("web", spec=from_template("gone"))], "TemplateMissing", "default/gone does not exist"
    ),
    "a claim that is missing": Case([*NEW, pod("web", spec=uses("gone"))], "ClaimMissing", "default/gone"),
    "a rewritten Pod without its claim": Case([*OLD, rewritten(pod("web", asking()))], "ClaimLate"),
    "a rewritten Pod that waits for a companion quota": Case(
        [*OLD, quota(hard={f"requests.{NAME}": "2"}), rewritten(pod("web", asking()))], "CompanionQuotaPending"
    ),
    "a rewritten Pod with somebody else's claim": Case(
        [*OLD, rewritten(pod("web", asking())), claim(CLAIM, metadata=owned_by("Job", "x"))], "ClaimOfAnotherOwner"
    ),
    "a class that is missing": Case(
        [*NEW, pod("web", spec=uses("c")), claim("c", exactly(device_class="gone"))], "DeviceClassMissing", "gone"
    ),
    "no free devices": Case(
        [
            *NEW,
            pod("web", spec=uses("c")),
            claim("c", exactly(2)),
            claim("other", results=[result()], reserved=["x"]),
        ],
        "NoDevices",
        "fit on none of 1 node",
        "ResourceClaim default/other: release what it holds",
    ),
    "not enough devices for what is asked by name": Case([*NEW, pod("web", asking(3))], "NoDevices", "none of 1 node"),
    "a selector that fails": Case(
        [
            *NEW,
            pod("web", spec=uses("c")),
            claim("c", exactly(selectors=[{"cel": {"expression": f"device.attributes['{DRIVER}'].size > 1"}}])),
        ],
        "AllocationFails",
        "no such key: size",
    ),
    "everything but devices": Case([*NEW, pod("web", asking(), status=SAID)], "Unschedulable", "Insufficient cpu"),
    "a device plugin's name": Case(
        [server("v1.35.0"), node("node-1", allocatable={NAME: 2}), pod("web", asking(), status=SAID)],
        "Unschedulable",
        "Insufficient cpu",
    ),
    "a name of which the scheduler finds too few": Case(
        [
            server("v1.35.0"),
            node("node-1", allocatable={NAME: 4}),
            pod("web", asking(2), status=unscheduled(f"0/1 nodes: 1 Insufficient {NAME}.")),
        ],
        "Unschedulable",
        f"Insufficient {NAME}",
        f"{NAME} is what is short",
    ),
    "a longer name of which the scheduler finds too few": Case(
        [*NEW, pod("web", asking(), status=unscheduled(f"0/1 nodes: 1 Insufficient {NAME}.shared."))],
        "Unschedulable",
        "",
        "the devices are there",
    ),
    "more than a device plugin has on any node": Case(
        [
            server("v1.35.0"),
            node("node-1", allocatable={NAME: 4}),
            node("node-2", allocatable={NAME: 2}),
            pod("web", asking(3), asking(2), status=unscheduled(f"Insufficient {NAME}")),
        ],
        "NoDevices",
        f"5 {NAME} asked, no node offers more than 4",
        "ask for at most 4",
    ),
    "a class whose annotation nobody reads": Case(
        [server("v1.37.0"), node("node-1"), ANNOTATED, pod("web", asking())],
        "ClassDiffers",
        "in its annotation, which kube-scheduler does not read",
        "install drabridge",
    ),
    "on a node without an allocation": Case(
        [*NEW, pod("web", spec=ON_NODE | uses("c")), claim("c")], "NodeNameSet", "default/c is not allocated"
    ),
    "on a node, not reserved": Case(
        [*NEW, pod("web", spec=ON_NODE | uses("c")), claim("c", results=[result()])], "ClaimNotReserved", "default/c"
    ),
}


def event(reason: str, message: str, source: str, kind: str = "Warning", last: str = LATELY) -> Object:
    about = {"kind": "Pod", "namespace": "default", "name": "web"}
    more = {"reason": reason, "message": message, "type": kind, "reportingComponent": source, "lastTimestamp": last}
    return made("v1", "Event", f"web.{reason}", involvedObject=about, **more)


HELD_UP["on a node that fails for another reason"] = Case(
    [
        *NEW,
        pod("web", spec=ON_NODE | uses("c"), status={"phase": "Pending"}),
        claim("c", results=[result()], reserved=["web"]),
        event("FailedMount", "no such volume", "kubelet"),
    ],
    "FailedMount",
    "no such volume",
    "the DRA driver's log on node-1",
)
HELD_UP["a class without devices"] = Case(
    [server("v1.37.0"), node("node-1"), device_class(extendedResourceName=NAME), pod("web", asking())],
    "NoDevicesPublished",
    f"DeviceClass {DRIVER} selects none",
    "start the DRA driver",
)
HELD_UP["a rewritten Pod whose class has no devices"] = Case(
    [OLD[0], node("node-1"), ANNOTATED, rewritten(pod("web", asking())), claim(CLAIM, metadata=owned_by("Pod", "web"))],
    "NoDevicesPublished",
    DRIVER,
    "start the DRA driver",
)
HELD_UP["on a node without its driver"] = Case(
    [
        *OLD[:1],
        node("node-1"),
        ANNOTATED,
        rewritten(pod("web", asking(), spec=ON_NODE, status={"phase": "Pending"})),
        claim(CLAIM, results=[result()], reserved=["web"], metadata=owned_by("Pod", "web")),
    ],
    "DriverMissing",
    f"{DRIVER} publishes no devices any more in pool node-1",
    "start the DRA driver",
)
HELD_UP["on a node that cannot prepare its devices"] = Case(
    [
        *NEW,
        pod("web", spec=ON_NODE | uses("c"), status={"phase": "Pending"}),
        claim("c", results=[result()], reserved=["web"]),
        event("FailedScheduling", "0/1 nodes", "default-scheduler", last="2026-12-01T10:00:00Z"),
        event("FailedPrepareDynamicResources", "checkpoint has another claim", "kubelet"),
        event("Scheduled", "assigned", "default-scheduler", "Normal"),
    ],
    "PreparingFails",
    "checkpoint has another claim",
    "the DRA driver's log",
)

FINE: dict[str, tuple[list[Object], str]] = {
    "no devices asked for": ([*NEW, pod("web")], "It asks for no devices."),
    "waits, and its devices are there": (
        [*NEW, pod("web", asking())],
        "It is Pending; nothing about its devices holds it up.",
    ),
    "served natively": (
        [
            *NEW,
            pod("web", asking(), spec=ON_NODE, status=native("x")),
            claim("x", results=[result()], reserved=["web"], metadata=special("web")),
        ],
        "It is Running on node-1, with 1 device.",
    ),
    "rewritten": (
        [
            *OLD,
            rewritten(pod("web", asking(), spec=ON_NODE)),
            claim(CLAIM, results=[result()], reserved=["web"], metadata=owned_by("Pod", "web")),
        ],
        "It is Running on node-1, with 1 device.",
    ),
    "its claim was made a moment ago": (
        [*OLD, rewritten(pod("web", asking(), metadata={"creationTimestamp": "2026-12-01T11:59:58Z"}))],
        "It is Pending; nothing about its devices holds it up.",
    ),
    "from a template whose claim is still to be made": (
        [*NEW, template("t"), pod("web", spec=from_template("t"), metadata={"creationTimestamp": LATELY})],
        "It is Pending; nothing about its devices holds it up.",
    ),
    "ended": (
        [*NEW, pod("web", asking(9), status={"phase": "Failed"})],
        "It has ended (Failed) and needs no devices.",
    ),
}


@pytest.mark.parametrize("case", HELD_UP.values(), ids=HELD_UP)
def test_the_first_thing_that_holds_it_up(case: Case) -> None:
    page = page_of(case.objects)
    assert page.held_up is not None
    assert page.held_up.reason == case.reason
    assert case.evidence in page.held_up.evidence
    assert any(case.cure in cure for cure in page.held_up.cures)
    assert page.conclusion == f"It is held up: {case.reason}."


@pytest.mark.parametrize(("objects", "conclusion"), FINE.values(), ids=FINE)
def test_nothing_holds_it_up(objects: list[Object], conclusion: str) -> None:
    page = page_of(objects)
    assert page.held_up is None
    assert page.conclusion == conclusion


def with_devices(*published: Object) -> list[Object]:
    """Pod web, which runs with gpu-0, and what is published of its node now."""
    return [
        *OLD[:1],
        node("node-1"),
        resource_slice("slice-1", published=list(published)),
        ANNOTATED,
        rewritten(pod("web", asking(), spec=ON_NODE)),
        claim(CLAIM, results=[result()], reserved=["web"], metadata=owned_by("Pod", "web")),
    ]


@pytest.mark.parametrize(
    ("published", "reason", "evidence"),
    [
        ([device("card-0")], "DeviceNotPublished", f"in no ResourceSlice: {DRIVER}/node-1/gpu-0"),
        (
            [device("gpu-0", taints=[taint("hot")])],
            "DeviceUnhealthy",
            f"{DRIVER}/node-1/gpu-0 (tainted hot:NoSchedule)",
        ),
    ],
)
def test_what_is_wrong_with_the_devices_of_a_pod_that_runs(published: list[Object], reason: str, evidence: str) -> None:
    page = page_of(with_devices(*published))
    assert page.held_up is not None
    assert page.held_up.reason == reason
    assert evidence in page.held_up.evidence
    assert page.conclusion == f"It is Running on node-1, with 1 device, and something is wrong: {reason}."


def test_what_it_got_and_by_whom() -> None:
    page = page_of(FINE["rewritten"][0])
    shown = {section.title: section.lines for section in page.sections}
    assert shown["Asks for"] == (f"container main: 1 {NAME} (as it was asked for)",)
    assert shown["Served by"] == (
        f"{NAME}: DeviceClass {DRIVER}, which the class' annotation leads to",
        f"{NAME}: delivery: Rewrite; GateOff: the API server drops DeviceClass.spec.extendedResourceName",
    )
    assert shown["Devices"] == (f"{DRIVER}/node-1/gpu-0 for request one (default/web: no container)",)


def test_warnings_are_shown_in_the_order_of_time() -> None:
    page = page_of(HELD_UP["on a node that cannot prepare its devices"].objects)
    assert {section.title: section.lines for section in page.sections}["Warnings"] == (
        "2026-12-01T10:00:00Z default-scheduler: FailedScheduling: 0/1 nodes",
        f"{LATELY} kubelet: FailedPrepareDynamicResources: checkpoint has another claim",
    )


def test_reasons_of_nodes_come_in_groups() -> None:
    nodes = [node(f"n{i}") for i in range(3)]
    slices = [resource_slice(f"s{i}", f"n{i}") for i in range(2)]
    page = page_of([*nodes, *slices, device_class(extendedResourceName=NAME), pod("web", asking(3))])
    assert page.held_up is not None
    assert page.held_up.details == (
        "2 nodes (n0, n1): container-0-request-0 of claim default/extended-resources needs 3, 2 of 2 devices are left",
        "1 node (n2): container-0-request-0 of claim default/extended-resources needs 3, 0 of 0 devices are left",
    )


@pytest.mark.parametrize("kind", [Kind.CLASSES, Kind.CLAIMS, Kind.TEMPLATES, Kind.SLICES, Kind.NODES])
def test_what_was_not_seen_is_not_held_against_it(kind: Kind) -> None:
    objects = [node("node-1"), made("v1", "Namespace", "default", None), pod("web", asking(), spec=uses("c"))]
    reasons = {
        Kind.CLASSES: "ClaimMissing",
        Kind.CLAIMS: "NameNotServed",
        Kind.TEMPLATES: "NameNotServed",
        Kind.SLICES: "NameNotServed",
        Kind.NODES: "ClaimMissing",
    }
    held_up = page_of(objects, unseen=(kind,)).held_up
    assert held_up is not None
    assert held_up.reason == reasons[kind]


UNTOLD: dict[str, tuple[list[Object], tuple[Kind, ...], str]] = {
    "who serves the name": ([], (Kind.CLASSES, Kind.NODES), "DeviceClass, Node not seen"),
    "whether a device plugin serves the name": ([], (Kind.NODES,), "Node not seen"),
    "whether drabridge is there": (
        [node("node-1"), resource_slice("slice-1"), ANNOTATED],
        (Kind.DEPLOYMENTS, Kind.MUTATING),
        "Deployment, MutatingWebhookConfiguration not seen",
    ),
    "whether the gate is on": (
        [node("node-1"), resource_slice("slice-1"), device_class("gpu")],
        (),
        "nothing shows that",
    ),
}


@pytest.mark.parametrize(("objects", "unseen", "evidence"), UNTOLD.values(), ids=UNTOLD)
def test_what_cannot_be_told(objects: list[Object], unseen: tuple[Kind, ...], evidence: str) -> None:
    name = "deviceclass.resource.kubernetes.io/gpu" if not unseen else NAME
    page = page_of([*objects, pod("web", asking(resource=name))], unseen=unseen)
    assert page.held_up is not None
    assert page.held_up.reason == "NotSeen"
    assert evidence in page.held_up.evidence
    assert page.conclusion == "It is Pending; whether it gets devices cannot be told."


def test_doctor_s_findings_about_it_stand_below() -> None:
    page = page_of(
        [*NEW, pod("web", spec=ON_NODE | uses("c")), claim("c", results=[result()]), pod("x", spec=uses("y"))]
    )
    assert [check.id for check, _ in page.related] == ["claim-not-reserved", "claim-idle"]
