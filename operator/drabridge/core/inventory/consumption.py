"""What allocations take of what is shared: capacity of a device, counters of a pool."""

from __future__ import annotations

from collections.abc import Mapping

from drabridge.core.inventory.cluster import Inventory
from drabridge.core.quantity import Quantity

Place = tuple[str, str, str]
Amounts = dict[str, Quantity]


def consumed_capacity(cluster: Inventory) -> dict[Place, Amounts]:
    """Device (driver, pool, name) -> capacity -> how much of it claims have taken; devices that are shared only."""
    found: dict[Place, Amounts] = {}
    for place, holders in cluster.holders.items():
        for _, result in holders:
            if result.consumed:
                _add(found.setdefault(place, {}), result.consumed)
    return found


def consumed_counters(cluster: Inventory) -> dict[tuple[tuple[str, str], str], Amounts]:
    """((driver, pool), counter set) -> counter -> how much of it the allocated devices take.

    A device that several claims have, or that one has for administration, takes its counters once, or not at all.
    """
    found: dict[tuple[tuple[str, str], str], Amounts] = {}
    for place, holders in cluster.holders.items():
        placed = cluster.places.get(place)
        if placed is None or all(result.admin for _, result in holders):
            continue
        for counter_set, counters in placed.device.consumes.items():
            _add(found.setdefault(((place[0], place[1]), counter_set), {}), counters)
    return found


def _add(amounts: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        amounts[name] = amounts[name] + quantity if name in amounts else quantity
