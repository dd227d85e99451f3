"""A resource name on a page: who serves it, and why not natively."""

from __future__ import annotations

from drabridge.core.auto import choose
from drabridge.core.capacity import State, states_of
from drabridge.core.cluster import Gate
from drabridge.core.doctor.findings import counted, listed
from drabridge.core.doctor.names import likely_class
from drabridge.core.explanation.page import HeldUp, Page, Section, related
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.policy import Delivery
from drabridge.core.reasons import CURES, Reason


def explain_name(name: str, cluster: Inventory) -> Page:
    """What stands behind a resource name."""
    mapping, plugin = cluster.class_map.resolve(name), cluster.plugin_nodes.get(name, ())
    waiting = cluster.wanted.get(name, ())
    sections = [Section("Served by", tuple(served(name, cluster)))]
    if mapping:
        sections.append(Section("Devices", (counts(mapping.device_class, cluster),)))
    sections.append(Section("Waiting", tuple(f"Pod {pod.key}" for pod in waiting[:10])))
    held_up = None if plugin or Kind.CLASSES in cluster.unseen else unserved(name, cluster)
    conclusion = f"Pods that ask for {name} get devices."
    if held_up:
        conclusion = f"Nobody serves {name}."
    objects = {f"resource name {name}"} | ({f"DeviceClass {mapping.device_class}"} if mapping else set())
    policy = cluster.effective_policies.get(name)
    objects |= {f"ExtendedResourcePolicy {policy.name}"} if policy else set()
    return Page(f"resource name {name}", conclusion, tuple(sections), held_up, related(cluster, objects))


def served(name: str, cluster: Inventory) -> list[str]:
    """Who serves the name, and why so, in sentences."""
    lines = []
    if nodes := cluster.plugin_nodes.get(name):
        lines.append(f"a device plugin on {counted(len(nodes), 'node')}: {listed(nodes)}")
    mapping = cluster.class_map.resolve(name)
    if mapping is None:
        return lines or ["nobody"]
    by = f"DeviceClass {mapping.device_class}, which the {_SOURCES[mapping.source.value]} leads to"
    lines.append(by if mapping.present else f"{by}; it does not exist")
    if mapping.losers:
        lines.append(f"not by {listed(mapping.losers)}, which declare the name as well")
    choice = choose(name, cluster.cluster_view)
    if not cluster.bridged:
        on = cluster.gate is Gate.ON
        lines.append("delivery: Native (kube-scheduler)" if on else "delivery: none; drabridge is not installed")
    else:
        why = f"; {choice.reason}: {choice.detail}" if choice.detail else ""
        lines.append(f"delivery: {choice.delivery}{why}")
    return lines


_SOURCES = {
    "Policy": "ExtendedResourcePolicy",
    "Field": "class' spec.extendedResourceName",
    "Annotation": "class' annotation",
    "Implicit": "implicit name",
}


def unserved(name: str, cluster: Inventory) -> HeldUp | None:
    """Why a Pod cannot get devices by this name, whatever Pod it is; None if it can."""
    mapping = cluster.class_map.resolve(name)
    if mapping is None:
        cures = [CURES[Reason.NOT_SERVED]]
        if likely := likely_class(cluster, name):
            cures.insert(0, f"kubectl annotate deviceclass {likely} drabridge.io/extended-resource-name={name}")
        evidence = f"no DeviceClass, no policy and no device plugin stands behind {name}"
        return HeldUp(Reason.NOT_SERVED, evidence, tuple(cures))
    if not mapping.present:
        evidence = f"DeviceClass {mapping.device_class} for {name} does not exist"
        return HeldUp(Reason.DEVICE_CLASS_MISSING, evidence, (CURES[Reason.DEVICE_CLASS_MISSING],))
    if not cluster.bridged and cluster.gate is Gate.OFF:
        evidence = f"DeviceClass {mapping.device_class} serves {name}, but the API server's gate is off"
        cures = ["install drabridge", "switch the feature gate DRAExtendedResource on in all components"]
        return HeldUp(Reason.GATE_OFF, evidence, tuple(cures))
    choice = choose(name, cluster.cluster_view)
    if choice.delivery is Delivery.OFF or (
        choice.delivery is Delivery.NATIVE and choice.reason not in (Reason.SERVING, Reason.GATE_UNKNOWN)
    ):
        return HeldUp(choice.reason, choice.detail, (CURES[choice.reason],))
    return None


def counts(device_class: str, cluster: Inventory) -> str:
    """How many devices a class has, and how many of them are free."""
    selection = cluster.selections.get(device_class)
    if selection is None:
        return f"DeviceClass {device_class} does not exist"
    states = states_of(cluster)
    numbers = {state: sum(states[placed.place] is state for placed in selection.devices) for state in State}
    shown = ", ".join(f"{count} {state}" for state, count in numbers.items() if count)
    return f"{counted(len(selection.devices), 'device')} of DeviceClass {device_class}" + (
        f": {shown}" if shown else ""
    )
