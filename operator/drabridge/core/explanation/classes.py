"""A DeviceClass on a page: what it selects, and which names lead to it."""

from __future__ import annotations

from drabridge.core.doctor.findings import counted, listed
from drabridge.core.explanation.names import counts
from drabridge.core.explanation.page import HeldUp, Page, Section, related
from drabridge.core.inventory.classes import ClassRecord
from drabridge.core.inventory.cluster import Inventory


def explain_class(device_class: ClassRecord, cluster: Inventory) -> Page:
    """What a class selects, by which names, and who uses it."""
    name = device_class.name
    selection = cluster.selections[name]
    names = sorted(
        each
        for each in cluster.class_map.names()
        if (mapping := cluster.class_map.resolve(each)) and mapping.device_class == name
    )
    claims = [claim.key for claim in cluster.claims if any(each.device_class == name for each in claim.requests)]
    nodes = {placed.node or "(shared)" for placed in selection.devices}
    sections = (
        Section("Selects", device_class.view.selectors),
        Section("Names", tuple(names)),
        Section("Devices", (counts(name, cluster), *((f"on {listed(nodes)}",) if nodes else ()))),
        Section("Claims", (f"{counted(len(claims), 'claim')}: {listed(claims)}",) if claims else ()),
    )
    conclusion = f"It selects {counted(len(selection.devices), 'device')}."
    return Page(
        device_class.described,
        conclusion,
        sections,
        _held_up(device_class, cluster),
        related(cluster, {device_class.described}),
    )


def _held_up(device_class: ClassRecord, cluster: Inventory) -> HeldUp | None:
    selection = cluster.selections[device_class.name]
    for expression, problem in selection.broken:
        return HeldUp("SelectorBroken", f"{expression}: {problem}", ("correct the expression",))
    for failure in selection.failures:
        evidence = f"{failure.expression} fails on {failure.device.described}: {failure.problem}"
        return HeldUp("SelectorFails", evidence, ("test first whether the device has the attribute",))
    if selection.devices:
        return None
    evidence = (
        f"none of {counted(len(cluster.devices), 'device')} matches" if cluster.devices else "there are no devices"
    )
    expression = " && ".join(device_class.view.selectors) or "true"
    return HeldUp("NothingSelected", evidence, (f'drabridge select "{expression}"',))
