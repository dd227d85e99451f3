"""Claims, resource names and DeviceClasses on a page."""

from __future__ import annotations

import pytest

from clusters import (
    DRIVER,
    NAME,
    Object,
    asking,
    claim,
    device_class,
    exactly,
    inventory,
    node,
    pod,
    policy,
    resource_slice,
    result,
    server,
    uses,
)
from drabridge.core.explanation.claims import explain_claim
from drabridge.core.explanation.classes import explain_class
from drabridge.core.explanation.names import explain_name
from drabridge.core.inventory.cluster import Kind

NEW = [server("v1.37.0"), node("node-1"), resource_slice("slice-1"), device_class(extendedResourceName=NAME)]

CLAIMS: dict[str, tuple[list[Object], str | None]] = {
    "allocated": ([claim("c", results=[result()])], None),
    "of a class that is missing": ([claim("c", exactly(device_class="gone"))], "DeviceClassMissing"),
    "being deleted": ([claim("c", metadata={"deletionTimestamp": "2026-12-01T11:00:00Z"})], "ClaimDeleting"),
    "that no Pod uses": ([claim("c")], "ClaimUnused"),
    "whose Pod waits": ([claim("c"), pod("web", spec=uses("c"))], "PodNotScheduled"),
}


@pytest.mark.parametrize(("objects", "reason"), CLAIMS.values(), ids=CLAIMS)
def test_a_claim(objects: list[Object], reason: str | None) -> None:
    cluster = inventory([*NEW, *objects])
    held_up = explain_claim(cluster.claims_by_key["default/c"], cluster).held_up
    assert (held_up.reason if held_up else None) == reason


def test_what_a_claim_asks_for_in_words() -> None:
    alternatives = {
        "name": "any",
        "firstAvailable": [
            {"name": "big", "deviceClassName": DRIVER, "allocationMode": "All"},
            {"name": "part", "deviceClassName": DRIVER, "capacity": {"requests": {"memory": "10Gi"}}},
        ],
    }
    selected = exactly(2, "two", selectors=[{"cel": {"expression": "true"}}], adminAccess=True)
    cluster = inventory([*NEW, claim("c", alternatives, selected, results=[result()], reserved=["web"])])
    shown = {section.title: section.lines for section in explain_claim(cluster.claims[0], cluster).sections}
    assert shown["Asks for"] == (
        f"any/big: all devices of DeviceClass {DRIVER}",
        f"any/part: 1 device of DeviceClass {DRIVER}, with 10Gi memory",
        f"two: 2 devices of DeviceClass {DRIVER}, where true, for administration",
    )
    assert shown["State"] == ("created 2026-12-01T08:00:00Z, owned by nobody", "allocated, reserved for web")
    assert shown["Devices"] == (f"{DRIVER}/node-1/gpu-0 for request one",)


NAMES: dict[str, tuple[list[Object], str | None, str]] = {
    "by the class": (NEW, None, "delivery: Native (kube-scheduler)"),
    "by a policy": ([*NEW, policy()], None, "delivery: Native"),
    "by a device plugin": ([node("node-2", allocatable={NAME: 2})], None, "a device plugin on 1 node: node-2"),
    "by nobody": ([node("node-1")], "NameNotServed", "nobody"),
    "by a class that is not there": ([policy()], "DeviceClassMissing", "it does not exist"),
    "by the winner of two classes": (
        [*NEW, device_class("zzz", extendedResourceName=NAME)],
        None,
        "not by zzz, which declare the name as well",
    ),
}


@pytest.mark.parametrize(("objects", "reason", "line"), NAMES.values(), ids=NAMES)
def test_a_resource_name(objects: list[Object], reason: str | None, line: str) -> None:
    page = explain_name(NAME, inventory(objects))
    assert (page.held_up.reason if page.held_up else None) == reason
    assert any(line in each for each in page.sections[0].lines)


UNTOLD: dict[str, tuple[list[Object], tuple[Kind, ...], str]] = {
    "without the classes": ([], (Kind.CLASSES,), "unknown"),
    "by an annotation, where drabridge was not looked for": (
        [device_class(metadata={"annotations": {"drabridge.io/extended-resource-name": NAME}})],
        (Kind.DEPLOYMENTS, Kind.MUTATING),
        "delivery: unknown; drabridge was not seen",
    ),
}


@pytest.mark.parametrize(("objects", "unseen", "line"), UNTOLD.values(), ids=UNTOLD)
def test_who_serves_a_name_cannot_be_told(objects: list[Object], unseen: tuple[Kind, ...], line: str) -> None:
    page = explain_name(NAME, inventory(objects, unseen=unseen))
    assert page.conclusion == f"Who serves {NAME} cannot be told."
    assert page.held_up is not None
    assert page.held_up.reason == "NotSeen"
    assert line in page.sections[0].lines


def test_who_waits_for_a_name_and_what_is_free() -> None:
    page = explain_name(NAME, inventory([*NEW, pod("web", asking()), claim(results=[result()])]))
    shown = {section.title: section.lines for section in page.sections}
    assert shown["Devices"] == (f"2 devices of DeviceClass {DRIVER}: 1 used, 1 free",)
    assert shown["Waiting"] == ("Pod default/web",)


CLASSES: dict[str, tuple[Object, str | None]] = {
    "that selects": (device_class(), None),
    "that is broken": (device_class(DRIVER, "device."), "SelectorBroken"),
    "that fails": (device_class(DRIVER, f"device.attributes['{DRIVER}'].x == 1"), "SelectorFails"),
    "that selects nothing": (device_class(DRIVER, "false"), "NothingSelected"),
}


@pytest.mark.parametrize(("raw", "reason"), CLASSES.values(), ids=CLASSES)
def test_a_class(raw: Object, reason: str | None) -> None:
    cluster = inventory([*NEW[:3], raw])
    page = explain_class(cluster.classes[0], cluster)
    assert (page.held_up.reason if page.held_up else None) == reason
    assert any(f"deviceclass.resource.kubernetes.io/{DRIVER}" in section.lines for section in page.sections)
