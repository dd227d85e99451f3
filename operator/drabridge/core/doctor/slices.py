"""What drivers publish: pools, devices, counters, taints; and hardware that nobody publishes, or two do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from drabridge.core.allocation.kinds import REPELLING
from drabridge.core.doctor import links
from drabridge.core.doctor.findings import Finding, Severity, check, counted, listed
from drabridge.core.doctor.names import driver_of
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.nodes import NodeRecord
from drabridge.core.inventory.selection import Placed
from drabridge.core.inventory.slices import SliceRecord

HARDWARE: Final = {
    "nvidia.com/gpu.present": "nvidia.com",
    "feature.node.kubernetes.io/pci-10de.present": "nvidia.com",
    "feature.node.kubernetes.io/pci-0300_10de.present": "nvidia.com",
    "feature.node.kubernetes.io/pci-0302_10de.present": "nvidia.com",
    "cloud.google.com/gke-accelerator": "nvidia.com",
    "cloud.google.com/gke-tpu-accelerator": "google.com",
    "feature.node.kubernetes.io/amd-gpu": "amd.com",
    "feature.node.kubernetes.io/pci-0300_1002.present": "amd.com",
    "feature.node.kubernetes.io/pci-1200_1002.present": "amd.com",
    "intel.feature.node.kubernetes.io/gpu": "intel.com",
}
"""Node labels that tell of hardware -> the domain of its drivers."""

DEVICES_MAX: Final = 128
ADVANCED_DEVICES_MAX: Final = 64
COUNTER_SETS_MAX: Final = 8
VALUES_MAX: Final = 32
"""Limits of resource.k8s.io/v1 on a slice: devices, devices where some have taints or counters, counter sets; and on a
device: attributes and capacities together."""


@check(
    "double-offer",
    Severity.ERROR,
    cure="remove the device plugin from the node, or keep the DRA driver off it: two Pods may get one device",
    serves="pain 30: aicr#332, the same devices offered by plugin and DRA",
    link=links.DEVICE_PLUGINS,
    needs=(Kind.NODES, Kind.SLICES),
)
def double_offer(cluster: Inventory) -> Iterator[Finding]:
    """A device plugin and a DRA driver offer the same devices of a node."""
    on_node: dict[str, list[Placed]] = {}
    for placed in cluster.devices:
        on_node.setdefault(placed.node, []).append(placed)
    drivers = {
        name: frozenset(placed.pool.driver for placed in selection.devices)
        for name, selection in cluster.selections.items()
    }
    for node in cluster.nodes:
        devices = on_node.get(node.name, ())
        for name, quantity in sorted(node.allocatable.items()):
            behind = _drivers_behind(cluster, name, drivers) if quantity > 0 and devices else ()
            if same := [placed for placed in devices if placed.pool.driver in behind]:
                seen = f"allocatable has {quantity} {name}, {same[0].pool.driver} publishes {len(same)} devices"
                yield Finding(f"Node {node.name}", seen)


def _drivers_behind(cluster: Inventory, name: str, drivers: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """The drivers of the class behind a name; without a class, the one that by custom goes with the name."""
    mapping = cluster.class_map.resolve(name)
    return drivers.get(mapping.device_class, frozenset()) if mapping else frozenset({driver_of(name)})


@check(
    "node-without-slices",
    Severity.WARNING,
    cure="see why the driver's DaemonSet does not run there: labels, nodeSelector, taints",
    serves="pain 32: aicr#2471, only labelled nodes run the DRA driver",
    link=links.ALLOCATION,
    needs=(Kind.NODES, Kind.SLICES),
)
def node_without_slices(cluster: Inventory) -> Iterator[Finding]:
    """A node has hardware whose driver publishes devices on other nodes, but none here."""
    drivers: dict[str, set[str]] = {}
    for pool in cluster.pools.values():
        if pool.node:
            drivers.setdefault(pool.driver, set()).add(pool.node)
    for node in cluster.nodes:
        for driver, nodes in sorted(drivers.items()):
            label = _tells_of(node, driver)
            if label and node.name not in nodes and not _plugin_serves(node, driver):
                yield Finding(f"Node {node.name}", f"{label}; {driver} publishes on {listed(nodes)}, not here")


def _tells_of(node: NodeRecord, driver: str) -> str:
    """What about the node tells of hardware of this driver; "" if nothing does."""
    for label, domain in HARDWARE.items():
        if label in node.labels and node.labels[label] != "false" and driver.endswith(domain):
            return f"label {label}={node.labels[label]}"
    for name in node.allocatable:
        if driver_of(name) == driver:
            return f"{name} in status.allocatable"
    return ""


def _plugin_serves(node: NodeRecord, driver: str) -> bool:
    return any(quantity > 0 and driver.endswith(name.rpartition("/")[0]) for name, quantity in node.allocatable.items())


@check(
    "slice-of-missing-node",
    Severity.WARNING,
    cure="delete the ResourceSlice, if its node does not come back",
    serves="pain 51: kubernetes#141433, what a node leaves behind after it was rebuilt",
    link=links.issue(141433),
    needs=(Kind.NODES, Kind.SLICES),
)
def slice_of_missing_node(cluster: Inventory) -> Iterator[Finding]:
    """A ResourceSlice offers devices of a node that does not exist."""
    for each in cluster.slices:
        if each.node and each.node not in cluster.nodes_by_name:
            yield Finding(each.described, f"spec.nodeName is {each.node}, {counted(len(each.devices), 'device')}")


@check(
    "pool-incomplete",
    Severity.ERROR,
    cure="restart the driver on that node, which publishes the pool anew; see its log if that does not help",
    serves="pain 64: kubernetes#141118, pools that count as incomplete",
    link=links.issue(141118),
    needs=(Kind.SLICES,),
)
def pool_incomplete(cluster: Inventory) -> Iterator[Finding]:
    """A pool has not as many slices as it says: schedulers allocate none of its devices."""
    for pool in cluster.pools.values():
        if not pool.complete:
            seen = f"{len(pool.slices)} of {pool.expected} slices of generation {pool.generation}"
            yield Finding(pool.described, seen)


@check(
    "pool-has-old-slices",
    Severity.INFO,
    cure="nothing, if they go soon; else restart the driver",
    serves="pain 64: slices of a former generation are ignored, and still counted by eye",
    link=links.ALLOCATION,
    needs=(Kind.SLICES,),
)
def pool_has_old_slices(cluster: Inventory) -> Iterator[Finding]:
    """Slices of a former generation of a pool are left over; their devices do not count."""
    for pool in cluster.pools.values():
        if pool.outdated:
            seen = f"{listed(each.name for each in pool.outdated)}, older than generation {pool.generation}"
            yield Finding(pool.described, seen)


@check(
    "device-published-twice",
    Severity.ERROR,
    cure="update the driver, or restart it: names of devices must be unique in their pool",
    serves="pain 65: duplicate-slice, one name twice makes the pool invalid",
    link=links.ALLOCATION,
    needs=(Kind.SLICES,),
)
def device_published_twice(cluster: Inventory) -> Iterator[Finding]:
    """A pool has two devices of one name: schedulers allocate none of its devices."""
    for pool in cluster.pools.values():
        names = Counter(device.name for device in pool.devices)
        if twice := [name for name, count in names.items() if count > 1]:
            yield Finding(pool.described, f"more than once: {listed(twice)}")


@check(
    "slice-over-limits",
    Severity.ERROR,
    cure="spread the devices over more slices: the API server refuses this one",
    serves="pain 68: ROCm/k8s-gpu-dra-driver#88, drivers overflow the limits of a slice",
    link=links.issue(88, "ROCm/k8s-gpu-dra-driver"),
    needs=(Kind.SLICES,),
)
def slice_over_limits(cluster: Inventory) -> Iterator[Finding]:
    """A ResourceSlice holds more than the API allows."""
    for each in cluster.slices:
        if over := _over(each):
            yield Finding(each.described, over)


def _over(each: SliceRecord) -> str:
    most = ADVANCED_DEVICES_MAX if any(device.taints or device.consumes for device in each.devices) else DEVICES_MAX
    if len(each.devices) > most:
        return f"{len(each.devices)} devices, more than {most}"
    if len(each.counters) > COUNTER_SETS_MAX:
        return f"{len(each.counters)} counter sets, more than {COUNTER_SETS_MAX}"
    for device in each.devices:
        values = len(device.attributes) + len(device.capacity)
        if values > VALUES_MAX:
            return f"device {device.name} has {values} attributes and capacities, more than {VALUES_MAX}"
    return ""


@check(
    "counter-set-missing",
    Severity.ERROR,
    cure="update the driver: a device may only consume counters that its pool publishes",
    serves="pain 66: kubernetes#140802, counters that go wrong when slices are published anew",
    link=links.issue(140802),
    needs=(Kind.SLICES,),
)
def counter_set_missing(cluster: Inventory) -> Iterator[Finding]:
    """A device consumes a shared counter that its pool does not publish."""
    for pool in cluster.pools.values():
        missing = {
            f"{counter_set}/{counter}"
            for device in pool.devices
            for counter_set, counters in device.consumes.items()
            for counter in counters
            if counter not in pool.counters.get(counter_set, {})
        }
        if missing and pool.complete:
            yield Finding(pool.described, f"there is no counter {listed(missing)}")


@check(
    "class-all-tainted",
    Severity.WARNING,
    cure="see why they are tainted (a device may be broken), or let the request tolerate the taint",
    serves="pain 95: KEP-5677, nobody shows that free devices are tainted",
    link=links.ALLOCATION,
    needs=(Kind.SLICES, Kind.CLASSES, Kind.CLAIMS),
)
def class_all_tainted(cluster: Inventory) -> Iterator[Finding]:
    """All devices of a DeviceClass that are free are tainted, so that no claim gets one without tolerating that."""
    for name, selection in sorted(cluster.selections.items()):
        free = [placed for placed in selection.devices if placed.place not in cluster.holders]
        taints = [
            next((taint for taint in cluster.taints_of(placed) if taint.effect in REPELLING), None) for placed in free
        ]
        if free and all(taints):
            yield Finding(
                f"DeviceClass {name}", f"{counted(len(free), 'free device')}, all tainted: {listed(map(str, taints))}"
            )


@check(
    "taint-rule-for-all",
    Severity.WARNING,
    cure="say in spec.deviceSelector which devices are meant",
    serves="pain 75: kubernetes#141422, an empty selector taints everything",
    link=links.issue(141422),
    needs=(Kind.TAINT_RULES,),
)
def taint_rule_for_all(cluster: Inventory) -> Iterator[Finding]:
    """A DeviceTaintRule with an empty selector taints all devices of the cluster."""
    for rule in cluster.taint_rules:
        if rule.for_all:
            yield Finding(f"DeviceTaintRule {rule.name}", f"its taint is {rule.taint}")


@check(
    "taint-does-not-evict",
    Severity.WARNING,
    cure="delete the Pod yourself",
    serves="pain 1: kubernetes#141290, NoExecute does not evict Pods with special claims",
    link=links.issue(141290),
    needs=(Kind.SLICES, Kind.CLAIMS, Kind.PODS),
)
def taint_does_not_evict(cluster: Inventory) -> Iterator[Finding]:
    """A device is tainted NoExecute, and the Pod that has it by the native feature is not evicted."""
    for pod in cluster.pods:
        claim = cluster.claims_by_key.get(f"{pod.view.namespace}/{pod.view.extended_claim}")
        if claim is None or pod.ended or pod.view.deleting:
            continue
        for result in claim.results or ():
            placed = cluster.places.get(result.place)
            taints = cluster.taints_of(placed) if placed else ()
            for taint in taints:
                if taint.effect == "NoExecute":
                    yield Finding(f"Pod {pod.key}", f"device {'/'.join(result.place)} is tainted {taint}")


CHECKS = (
    double_offer,
    node_without_slices,
    slice_of_missing_node,
    pool_incomplete,
    pool_has_old_slices,
    device_published_twice,
    slice_over_limits,
    counter_set_missing,
    class_all_tainted,
    taint_rule_for_all,
    taint_does_not_evict,
)
