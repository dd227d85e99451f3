"""How many devices there are, how many are free, what is shared of them, and who uses which."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from drabridge.core.allocation.kinds import REPELLING
from drabridge.core.inventory.claims import Allotment, ClaimRecord
from drabridge.core.inventory.cluster import Inventory
from drabridge.core.inventory.consumption import Amounts, consumed_capacity, consumed_counters
from drabridge.core.inventory.pods import PodRecord
from drabridge.core.inventory.selection import Placed
from drabridge.core.inventory.slices import Pool
from drabridge.core.quantity import Quantity

MODELS: Final = ("productName", "model", "deviceModel", "type")
"""Attributes that drivers say a device's model by, the most telling first."""


class State(StrEnum):
    """What becomes of a device now; exactly one of these."""

    USED = "used"
    """A claim has it; one for administration does not count."""

    BLOCKED = "blocked"
    """No claim has it and none can get it: its pool is not usable, or what it shares with other devices is taken."""

    TAINTED = "tainted"
    """Free, for claims that tolerate its taint."""

    FREE = "free"


class Grouping(StrEnum):
    """What devices are counted by."""

    CLASS = "class"
    NODE = "node"
    POOL = "pool"
    MODEL = "model"


@dataclass(frozen=True, slots=True)
class Row:
    """The devices of one class, node, pool or model. `states` has all states."""

    name: str
    states: Mapping[State, int]

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.states.values())


@dataclass(frozen=True, slots=True)
class Shared:
    """A counter of a pool, or a capacity of a device that several claims may use: how much of it is taken."""

    owner: str
    name: str
    used: Quantity
    total: Quantity

    @property
    def share(self) -> float:
        """The part that is taken, from 0; above 1 where more was allocated than there is."""
        total = float(self.total.mantissa) * 10.0**self.total.exponent
        return float(self.used.mantissa) * 10.0**self.used.exponent / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Use:
    """Who uses a device. Pod and containers are empty where nobody does now; a claim may have several Pods."""

    device: str
    node: str
    claim: str
    request: str
    pod: str
    containers: tuple[str, ...]


def count(cluster: Inventory, grouping: Grouping) -> tuple[Row, ...]:
    """Count the devices; a device of several classes counts in each, one of no single node under "(shared)"."""
    states = states_of(cluster)
    found: dict[str, Counter[State]] = {}
    if grouping is Grouping.CLASS:
        for name, selection in cluster.selections.items():
            found[name] = Counter(states[placed.place] for placed in selection.devices)
    else:
        name_of = _NAMES[grouping]
        for placed in cluster.devices:
            found.setdefault(name_of(placed), Counter())[states[placed.place]] += 1
    return tuple(Row(name, {state: counts[state] for state in State}) for name, counts in sorted(found.items()))


def states_of(cluster: Inventory) -> dict[tuple[str, str, str], State]:
    """The state of each device, by driver, pool and name."""
    counters = consumed_counters(cluster)
    unusable = {key for key, pool in cluster.pools.items() if not _usable(pool)}
    states = {}
    for placed in cluster.devices:
        place = placed.place
        if any(not result.admin for _, result in cluster.holders.get(place, ())):
            states[place] = State.USED
        elif place[:2] in unusable or _lacks_counters(placed, counters):
            states[place] = State.BLOCKED
        elif any(taint.effect in REPELLING for taint in cluster.taints_of(placed)):
            states[place] = State.TAINTED
        else:
            states[place] = State.FREE
    return states


def _usable(pool: Pool) -> bool:
    names = [device.name for device in pool.devices]
    return pool.complete and len(set(names)) == len(names)


def _lacks_counters(placed: Placed, used: Mapping[tuple[tuple[str, str], str], Amounts]) -> bool:
    """Whether the counters that the device would take are not there any more."""
    key = (placed.pool.driver, placed.pool.name)
    for counter_set, counters in placed.device.consumes.items():
        taken, has = used.get((key, counter_set), {}), placed.pool.counters.get(counter_set, {})
        for name, amount in counters.items():
            total = taken[name] + amount if name in taken else amount
            if name not in has or total > has[name]:
                return True
    return False


def model_of(placed: Placed) -> str:
    """What the driver calls the device's model; "-" if it does not say."""
    for wanted in MODELS:
        for name, value in placed.device.attributes.items():
            if name.rpartition("/")[2] == wanted and isinstance(value.get("string"), str):
                return str(value["string"])
    return "-"


_NAMES: Final[Mapping[Grouping, Callable[[Placed], str]]] = {
    Grouping.NODE: lambda placed: placed.node or "(shared)",
    Grouping.POOL: lambda placed: f"{placed.pool.driver}/{placed.pool.name}",
    Grouping.MODEL: model_of,
}


def shared(cluster: Inventory) -> tuple[Shared, ...]:
    """The shared counters of all pools, and the capacities of all devices that several claims may use."""
    counters, capacities = consumed_counters(cluster), consumed_capacity(cluster)
    found: list[Shared] = []
    for key, pool in cluster.pools.items():
        for counter_set, has in sorted(pool.counters.items()):
            owner = f"{pool.driver}/{pool.name}" + (f" {counter_set}" if len(pool.counters) > 1 else "")
            found += _shares(owner, counters.get((key, counter_set), {}), has)
    for placed in cluster.devices:
        if placed.device.shared:
            found += _shares("/".join(placed.place), capacities.get(placed.place, {}), placed.device.amounts)
    return tuple(found)


def _shares(owner: str, used: Amounts, has: Mapping[str, Quantity]) -> Iterable[Shared]:
    nothing = Quantity.parse("0")
    for name, total in sorted(has.items()):
        yield Shared(owner, name, used.get(name, nothing), total)


def uses(cluster: Inventory) -> tuple[Use, ...]:
    """Who uses what, by device; devices that nobody has are left out."""
    found = []
    for place, holders in sorted(cluster.holders.items()):
        placed = cluster.places.get(place)
        for claim, result in holders:
            node = placed.node if placed else ""
            pods = [pod for pod in cluster.users.get(claim.key, ()) if not pod.ended]
            about = ("/".join(place), node, claim.key, result.request)
            found += [Use(*about, pod.key, containers_of(pod, claim, result)) for pod in pods] or [Use(*about, "", ())]
    return tuple(found)


def containers_of(pod: PodRecord, claim: ClaimRecord, result: Allotment) -> tuple[str, ...]:
    """The containers of a Pod that get this device of this claim."""
    request = result.request.partition("/")[0]  # of a prioritized list, the alternative follows
    if pod.view.extended_claim == claim.view.name:
        return tuple(dict.fromkeys(use.container for use in pod.uses if use.request == request))
    entries = {entry for entry, name in pod.claims.items() if name == claim.view.name}
    return tuple(
        container.name
        for container in pod.view.containers
        if any(use.name in entries and use.request in (None, request) for use in container.claims)
    )
