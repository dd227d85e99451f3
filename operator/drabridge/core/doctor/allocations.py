"""Allocations against what is published: nothing given twice, nothing given that is not there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from drabridge.core.doctor import links
from drabridge.core.doctor.findings import Finding, Severity, check, counted, listed
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.consumption import consumed_capacity, consumed_counters
from drabridge.core.quantity import Quantity


@check(
    "device-allocated-twice",
    Severity.ERROR,
    cure="delete one of the Pods, and let one scheduler only allocate the devices of a driver",
    serves="pain 57: kubernetes#128980, two schedulers allocate one device; pain 58",
    link=links.issue(128980),
    needs=(Kind.CLAIMS,),
)
def device_allocated_twice(cluster: Inventory) -> Iterator[Finding]:
    """A device that cannot be shared is allocated to two claims."""
    for place, holders in sorted(cluster.holders.items()):
        placed = cluster.places.get(place)
        if placed and placed.device.shared:
            continue
        exclusive = [claim.key for claim, result in holders if not result.admin and not result.share]
        if len(exclusive) > 1:
            yield Finding(f"device {'/'.join(place)}", f"allocated to {listed(exclusive)}")


@check(
    "allocated-device-gone",
    Severity.ERROR,
    cure="delete the Pod, so that a new one gets devices that are there; see the driver's log for why it went",
    serves="pain 51: kubernetes#140471, devices have other names after a reboot or restart",
    link=links.issue(140471),
    needs=(Kind.CLAIMS, Kind.SLICES),
)
def allocated_device_gone(cluster: Inventory) -> Iterator[Finding]:
    """A claim has a device that its pool does not publish any more."""
    for claim in cluster.claims:
        gone = [
            "/".join(result.place)
            for result in claim.results or ()
            if result.place not in cluster.places and _is_whole(cluster, result.driver, result.pool)
        ]
        if gone:
            yield Finding(claim.described, f"not published: {listed(gone)}")


def _is_whole(cluster: Inventory, driver: str, pool: str) -> bool:
    """Whether the absence of a device proves anything: a pool that is being published anew has not all of them."""
    known = cluster.pools.get((driver, pool))
    return known is None or known.complete


@check(
    "capacity-overdrawn",
    Severity.ERROR,
    cure="delete one of the Pods; see which scheduler allocated its claim",
    serves="pain 70: kubernetes#133705, arithmetic of consumable capacity",
    link=links.issue(133705),
    needs=(Kind.CLAIMS, Kind.SLICES),
)
def capacity_overdrawn(cluster: Inventory) -> Iterator[Finding]:
    """Claims have consumed more of a shared device's capacity than it has."""
    for place, used in sorted(consumed_capacity(cluster).items()):
        placed = cluster.places.get(place)
        if placed and (over := _over(used, placed.device.amounts)):
            claims = [claim.key for claim, _ in cluster.holders[place]]
            yield Finding(placed.described, f"{over}; {counted(len(claims), 'claim')}: {listed(claims)}")


@check(
    "counters-overdrawn",
    Severity.ERROR,
    cure="delete one of the Pods, and use a scheduler that knows shared counters",
    serves="pain 69: KAI-Scheduler#2100, a scheduler that ignores shared counters; pain 66",
    link=links.issue(2100, "kai-scheduler/KAI-Scheduler"),
    needs=(Kind.CLAIMS, Kind.SLICES),
)
def counters_overdrawn(cluster: Inventory) -> Iterator[Finding]:
    """The partitions that are allocated take more of a shared counter than the pool has."""
    for (pool, counter_set), used in sorted(consumed_counters(cluster).items()):
        published = cluster.pools[pool]
        if over := _over(used, published.counters.get(counter_set, {})):
            yield Finding(f"{published.described}, counter set {counter_set}", over)


def _over(used: Mapping[str, Quantity], has: Mapping[str, Quantity]) -> str:
    return "; ".join(
        f"{name}: {amount} of {has[name]}"
        for name, amount in sorted(used.items())
        if name in has and amount > has[name]
    )


CHECKS = (device_allocated_twice, allocated_device_gone, capacity_overdrawn, counters_overdrawn)
