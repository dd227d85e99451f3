"""A resource name on a page: who serves it, and why not natively."""

from __future__ import annotations

from drabridge.core.auto import choose
from drabridge.core.capacity import State, states_of
from drabridge.core.classmap import ClassMapping
from drabridge.core.cluster import Gate
from drabridge.core.doctor.findings import counted, listed
from drabridge.core.doctor.names import likely_class
from drabridge.core.explanation.page import NOT_SEEN, HeldUp, Page, Section, related
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
    held_up = None if plugin else unserved(name, cluster)
    conclusion = f"Pods that ask for {name} get devices."
    if held_up:
        told = held_up.reason != NOT_SEEN
        conclusion = f"Nobody serves {name}." if told else f"Who serves {name} cannot be told."
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
        return lines or ["unknown" if _unseen(cluster, Kind.CLASSES, Kind.NODES) else "nobody"]
    by = f"DeviceClass {mapping.device_class}, which the {_SOURCES[mapping.source.value]} leads to"
    lines.append(by if mapping.present else f"{by}; it does not exist")
    if mapping.losers:
        lines.append(f"not by {listed(mapping.losers)}, which declare the name as well")
    choice = choose(name, cluster.cluster_view)
    if not cluster.bridged:
        lines.append(f"delivery: {_delivery_without_drabridge(mapping, cluster)}")
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


def _delivery_without_drabridge(mapping: ClassMapping, cluster: Inventory) -> str:
    if cluster.gate is Gate.ON and cluster.class_map.native(mapping.resource) == mapping.device_class:
        return "Native (kube-scheduler)"
    return "unknown; drabridge was not seen" if _unseen(cluster, *_INSTALLATION) else "none; drabridge is not installed"


_INSTALLATION = (Kind.DEPLOYMENTS, Kind.MUTATING)
"""What shows whether drabridge is installed."""


def _unseen(cluster: Inventory, *kinds: Kind) -> list[Kind]:
    return [kind for kind in kinds if kind in cluster.unseen]


def _untold(question: str, kinds: list[Kind]) -> HeldUp:
    cure = "look with the right to list them, or put them into the files"
    return HeldUp(NOT_SEEN, f"{question} cannot be told: {', '.join(kinds)} not seen", (cure,))


def unserved(name: str, cluster: Inventory) -> HeldUp | None:
    """Why a Pod cannot get devices by this name, by no device plugin and whatever Pod it is; None if it can.

    The reason is NOT_SEEN where that depends on what was not seen.
    """
    mapping = cluster.class_map.resolve(name)
    decisive = (Kind.CLASSES,) if mapping else (Kind.CLASSES, Kind.NODES)
    if unseen := _unseen(cluster, *decisive):
        return _untold(f"who serves {name}", unseen)
    if mapping is None:
        cures = [CURES[Reason.NOT_SERVED]]
        if likely := likely_class(cluster, name):
            cures.insert(0, f"kubectl annotate deviceclass {likely} drabridge.io/extended-resource-name={name}")
        evidence = f"no DeviceClass, no policy and no device plugin stands behind {name}"
        return HeldUp(Reason.NOT_SERVED, evidence, tuple(cures))
    if not mapping.present:
        evidence = f"DeviceClass {mapping.device_class} for {name} does not exist"
        return HeldUp(Reason.DEVICE_CLASS_MISSING, evidence, (CURES[Reason.DEVICE_CLASS_MISSING],))
    if not cluster.bridged:
        return _unserved_natively(mapping, cluster)
    choice = choose(name, cluster.cluster_view)
    if choice.delivery is Delivery.OFF or (
        choice.delivery is Delivery.NATIVE and choice.reason not in (Reason.SERVING, Reason.GATE_UNKNOWN)
    ):
        return HeldUp(choice.reason, choice.detail, (CURES[choice.reason],))
    return None


def _unserved_natively(mapping: ClassMapping, cluster: Inventory) -> HeldUp | None:
    """What keeps kube-scheduler from serving a name by itself, where no drabridge is seen."""
    name, device_class = mapping.resource, mapping.device_class
    native = cluster.class_map.native(name) == device_class
    if native and cluster.gate is Gate.ON:
        return None
    if unseen := _unseen(cluster, *_INSTALLATION):
        return _untold(f"whether drabridge is there to serve {name} by DeviceClass {device_class}", unseen)
    if cluster.gate is Gate.OFF:
        evidence = f"DeviceClass {device_class} serves {name}, but the API server's gate is off"
        cures = ["install drabridge", "switch the feature gate DRAExtendedResource on in all components"]
        return HeldUp(Reason.GATE_OFF, evidence, tuple(cures))
    if native:
        evidence = f"DeviceClass {device_class} serves {name} if the API server's gate is on, and nothing shows that"
        return HeldUp(NOT_SEEN, evidence, ("put the output of `kubectl version -o json` into the files",))
    evidence = f"DeviceClass {device_class} has {name} in its annotation, which kube-scheduler does not read"
    return HeldUp(Reason.CLASS_DIFFERS, evidence, ("install drabridge", CURES[Reason.CLASS_DIFFERS]))


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
