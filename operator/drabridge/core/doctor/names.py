"""The resource names that Pods ask for, and who serves them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from drabridge.core.doctor import links
from drabridge.core.doctor.findings import Finding, Severity, check, counted, listed
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.pods import PodRecord
from drabridge.core.names import implicit_class
from drabridge.core.policy import Coexistence
from drabridge.core.reasons import CURES, Reason

FORMER_NAMES: Final = {
    "gpu.intel.com/i915": "intel.com/gpu",
    "gpu.intel.com/xe": "intel.com/gpu",
    "habana.ai/gaudi": "intel.com/gaudi",
}
"""Names of device plugins whose drivers' DeviceClasses declare another one."""

_PARTITION: Final = re.compile(r"mig-(.+)")
_SHARED: Final = re.compile(r".*\.shared|.*(?:gpumem|gpucores|gpumem-percentage|vmemory|vcore)", re.IGNORECASE)
_SUFFIXED: Final = re.compile(r"[0-9.]+(?:[KMGTPE]i?|k)")


def _waiting(pods: Iterable[PodRecord]) -> str:
    keys = [pod.key for pod in pods]
    return f"{counted(len(keys), 'Pod')} waiting: {listed(keys)}"


def _unserved(cluster: Inventory) -> Iterator[tuple[str, tuple[PodRecord, ...]]]:
    """Names that waiting Pods ask for and that no class, policy or device plugin serves."""
    for name, pods in cluster.wanted.items():
        if cluster.class_map.resolve(name) is None and name not in cluster.plugin_nodes:
            yield name, pods


@check(
    "name-not-served",
    Severity.ERROR,
    cure=CURES[Reason.NOT_SERVED],
    serves="pain 18: gpu-operator#2859, the driver's class has no extended name; pain 21",
    link=links.issue(2859, "NVIDIA/gpu-operator"),
    needs=(Kind.PODS, Kind.CLASSES, Kind.POLICIES, Kind.NODES),
)
def name_not_served(cluster: Inventory) -> Iterator[Finding]:
    """Pods ask for a resource name that no DeviceClass, no policy and no device plugin serves."""
    for name, pods in _unserved(cluster):
        if implicit_class(name) is None and not _is_special(name):
            cure = ""
            if likely := likely_class(cluster, name):
                cure = f"kubectl annotate deviceclass {likely} drabridge.io/extended-resource-name={name}"
            yield Finding(f"resource name {name}", _waiting(pods), cure)


def _is_special(name: str) -> bool:
    """Whether another check knows more about an unserved name."""
    part = name.rpartition("/")[2]
    return name in FORMER_NAMES or bool(_PARTITION.fullmatch(part)) or bool(_SHARED.fullmatch(part))


def driver_of(name: str) -> str:
    """The DRA driver that by custom goes with a device plugin's resource name: example.com/gpu -> gpu.example.com."""
    domain, _, part = name.rpartition("/")
    return f"{part}.{domain}"


def likely_class(cluster: Inventory, name: str) -> str:
    """The one class without a declared name whose devices are most likely meant by this name; "" if none is."""
    driver = driver_of(name)
    for view in (each.view for each in cluster.classes):
        if view.extended_name or view.annotated_name:
            continue
        if view.name == driver or any(placed.pool.driver == driver for placed in cluster.selections[view.name].devices):
            return view.name
    return ""


@check(
    "name-of-former-plugin",
    Severity.ERROR,
    cure="create an ExtendedResourcePolicy for the name that the Pods use, with the class of the driver's own name",
    serves="pain 20: intel-resource-drivers, intel.com/gpu instead of gpu.intel.com/i915",
    link=links.DEVICE_PLUGINS,
    needs=(Kind.PODS, Kind.CLASSES, Kind.POLICIES, Kind.NODES),
)
def name_of_former_plugin(cluster: Inventory) -> Iterator[Finding]:
    """Pods ask by a device plugin's name for what the DRA driver offers under another one."""
    for name, pods in _unserved(cluster):
        if name in FORMER_NAMES:
            mapping = cluster.class_map.resolve(FORMER_NAMES[name])
            now = f"served by DeviceClass {mapping.device_class}" if mapping else "which no class serves yet"
            yield Finding(f"resource name {name}", f"its new name is {FORMER_NAMES[name]}, {now}; {_waiting(pods)}")


@check(
    "name-of-partition",
    Severity.ERROR,
    cure="create a DeviceClass that selects this profile, and declare the name on it",
    serves="pain 17: dra-driver-nvidia-gpu#939, names of static MIG profiles",
    link=links.issue(939, "kubernetes-sigs/dra-driver-nvidia-gpu"),
    needs=(Kind.PODS, Kind.CLASSES, Kind.POLICIES, Kind.NODES),
)
def name_of_partition(cluster: Inventory) -> Iterator[Finding]:
    """Pods ask for a partition of a device by its profile's name, which no DeviceClass serves."""
    for name, pods in _unserved(cluster):
        if found := _PARTITION.fullmatch(name.rpartition("/")[2]):
            profile = found[1]
            drivers: dict[str, int] = {}
            for placed in cluster.devices:
                if placed.device.attributes.get("profile", {}).get("string") == profile:
                    drivers[placed.pool.driver] = drivers.get(placed.pool.driver, 0) + 1
            there = "; ".join(f"{counted(count, 'device')} of {driver}" for driver, count in sorted(drivers.items()))
            cure = ""
            if drivers:
                driver = min(drivers)
                cure = (
                    f"create a DeviceClass with the selector device.driver == '{driver}' &&"
                    f" device.attributes['{driver}'].profile == '{profile}', and declare {name} on it"
                )
            seen = f"profile {profile}: {there or 'no device published has it'}; {_waiting(pods)}"
            yield Finding(f"resource name {name}", seen, cure)


@check(
    "name-of-shared-device",
    Severity.ERROR,
    cure="publish devices that may be shared (consumable capacity), or ask for whole ones: DRA knows no replicas",
    serves="pain 101: dra-driver-nvidia-gpu#423, time-slicing and MPS replicas have no equal",
    link=links.issue(423, "kubernetes-sigs/dra-driver-nvidia-gpu"),
    needs=(Kind.PODS, Kind.CLASSES, Kind.POLICIES, Kind.NODES),
)
def name_of_shared_device(cluster: Inventory) -> Iterator[Finding]:
    """Pods ask for a share of a device in a device plugin's way, which no DeviceClass serves."""
    for name, pods in _unserved(cluster):
        if _SHARED.fullmatch(name.rpartition("/")[2]):
            yield Finding(f"resource name {name}", _waiting(pods))


@check(
    "implicit-name-without-class",
    Severity.ERROR,
    cure=CURES[Reason.DEVICE_CLASS_MISSING],
    serves="pain 5: kubernetes#135667, implicit names that lead nowhere",
    link=links.KEP_5004,
    needs=(Kind.PODS, Kind.CLASSES),
)
def implicit_name_without_class(cluster: Inventory) -> Iterator[Finding]:
    """Pods ask for a DeviceClass by its implicit resource name, and there is no such class."""
    for name, pods in cluster.wanted.items():
        class_name = implicit_class(name)
        if class_name is not None and class_name not in cluster.classes_by_name:
            yield Finding(f"DeviceClass {class_name}", f"it does not exist; {_waiting(pods)}")


@check(
    "name-left-to-plugin",
    Severity.WARNING,
    cure=CURES[Reason.DEVICE_PLUGIN_PRESENT],
    serves="pain 24: sriov-network-operator#1061, plugin on some nodes and DRA on others",
    link=links.DEVICE_PLUGINS,
    needs=(Kind.PODS, Kind.CLASSES, Kind.POLICIES, Kind.NODES, Kind.SLICES),
)
def name_left_to_plugin(cluster: Inventory) -> Iterator[Finding]:
    """Pods wait while a device plugin serves their name on some nodes and DRA has devices on others."""
    for name, pods in cluster.wanted.items():
        mapping, nodes = cluster.class_map.resolve(name), cluster.plugin_nodes.get(name)
        policy = cluster.effective_policies.get(name)
        if not mapping or not nodes or (policy and policy.coexistence is Coexistence.REWRITE):
            continue
        selection = cluster.selections.get(mapping.device_class)
        elsewhere = {placed.node for placed in selection.devices} - {"", *nodes} if selection else set()
        if elsewhere:
            seen = f"plugin on {listed(nodes)}; DeviceClass {mapping.device_class} on {listed(elsewhere)}"
            yield Finding(f"resource name {name}", f"{seen}; {_waiting(pods)}")


@check(
    "name-left-at-zero",
    Severity.INFO,
    cure="restart the node's kubelet, or leave it: from Kubernetes 1.35 on, 0 means that DRA serves the name",
    serves="pain 6: kubernetes#133784, a removed plugin leaves the name at 0",
    link=links.issue(133784),
    needs=(Kind.NODES, Kind.CLASSES, Kind.POLICIES),
)
def name_left_at_zero(cluster: Inventory) -> Iterator[Finding]:
    """A node still shows a resource name of a device plugin, with none of it, and a DeviceClass serves the name now."""
    nodes: dict[str, list[str]] = {}
    for node in cluster.nodes:
        for name, quantity in node.allocatable.items():
            if quantity == 0 and cluster.class_map.resolve(name):
                nodes.setdefault(name, []).append(node.name)
    for name, names in sorted(nodes.items()):
        yield Finding(f"resource name {name}", f"status.allocatable is 0 on {listed(names)}")


@check(
    "quantity-is-no-count",
    Severity.ERROR,
    cure="let no DeviceClass or policy declare this name: its quantities are amounts, not devices",
    serves="trap: names such as sgx.intel.com/epc are counted in bytes (512Ki)",
    link=links.DEVICE_PLUGINS,
    needs=(Kind.PODS, Kind.CLASSES, Kind.POLICIES),
)
def quantity_is_no_count(cluster: Inventory) -> Iterator[Finding]:
    """Pods ask for an amount, such as 512Ki, by a name that a DeviceClass serves: it would be that many devices."""
    for name, pods in cluster.wanted.items():
        if cluster.class_map.resolve(name):
            for pod in pods:
                for ask in pod.view.extended():
                    if ask.resource == name and _SUFFIXED.fullmatch(ask.request):
                        yield Finding(f"Pod {pod.key}", f"{ask.path} is {ask.request}")


CHECKS = (
    name_not_served,
    name_of_former_plugin,
    name_of_partition,
    name_of_shared_device,
    implicit_name_without_class,
    name_left_to_plugin,
    name_left_at_zero,
    quantity_is_no_count,
)
