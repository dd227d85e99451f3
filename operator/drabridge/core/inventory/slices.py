"""ResourceSlices, the pools they make up, and DeviceTaintRules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Self

from drabridge.core.bind.taints import Selector, selects
from drabridge.core.cel.device import DeviceView
from drabridge.core.inventory.nodes import Taint
from drabridge.core.inventory.shape import Raw, number, part, parts, quantities, text
from drabridge.core.quantity import Quantity
from drabridge.core.resourceslice import newest

Values = Mapping[str, Mapping[str, Any]]
_NOTHING: Final[Mapping[str, Quantity]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """A device as published. `attributes` and `capacity` are raw; `consumes` is counter set -> counter -> quantity."""

    name: str
    attributes: Values
    capacity: Values
    amounts: Mapping[str, Quantity]
    """Its capacity, if several claims may share it."""

    taints: tuple[Taint, ...]
    consumes: Mapping[str, Mapping[str, Quantity]]
    shared: bool
    node: str

    def view(self, driver: str) -> DeviceView:
        """The device as expressions see it. Raises BadDevice."""
        return DeviceView.of(
            driver,
            {"attributes": self.attributes, "capacity": self.capacity, "allowMultipleAllocations": self.shared},
        )


@dataclass(frozen=True, slots=True, eq=False)
class SliceRecord:
    """A ResourceSlice. `node` is "" where its devices are not of one node; `expected` is resourceSliceCount."""

    name: str
    driver: str
    pool: str
    generation: int
    expected: int
    node: str
    everywhere: bool
    devices: tuple[Device, ...]
    counters: Mapping[str, Mapping[str, Quantity]]

    @property
    def described(self) -> str:
        """How messages call it."""
        return f"ResourceSlice {self.name}"


class SliceReader:
    """Reads ResourceSlices; what the devices of a cluster have in common is kept once."""

    def __init__(self) -> None:
        self._values: dict[tuple[tuple[str, Any], ...], Mapping[str, Any]] = {}

    def read(self, raw: Raw) -> SliceRecord:
        """Read a ResourceSlice of v1; of v1beta1 too, whose devices stand below `basic`."""
        spec = part(raw, "spec")
        pool = part(spec, "pool")
        return SliceRecord(
            name=text(part(raw, "metadata"), "name"),
            driver=text(spec, "driver"),
            pool=text(pool, "name"),
            generation=number(pool, "generation"),
            expected=number(pool, "resourceSliceCount", 1),
            node=text(spec, "nodeName"),
            everywhere=spec.get("allNodes") is True,
            devices=tuple(self._device(each) for each in parts(spec, "devices")),
            counters={
                text(each, "name"): quantities(part(each, "counters"), value="value")
                for each in parts(spec, "sharedCounters")
            },
        )

    def _device(self, entry: Raw) -> Device:
        raw = part(entry, "basic") or entry
        shared = raw.get("allowMultipleAllocations") is True
        return Device(
            name=text(entry, "name"),
            attributes=self._shared(part(raw, "attributes")),
            capacity=self._shared(part(raw, "capacity")),
            amounts=quantities(part(raw, "capacity"), value="value") if shared else _NOTHING,
            taints=tuple(map(Taint.of, parts(raw, "taints"))),
            consumes={
                text(each, "counterSet"): quantities(part(each, "counters"), value="value")
                for each in parts(raw, "consumesCounters")
            },
            shared=shared,
            node=text(raw, "nodeName"),
        )

    def _shared(self, values: Raw) -> Values:
        kept = {}
        for name, value in values.items():
            if not isinstance(value, Mapping):
                value = {"value": value}  # noqa: PLW2901 - v1beta1 wrote some capacities without an object
            entries = tuple(value.items())
            try:
                kept[name] = self._values.setdefault(entries, value)
            except TypeError:  # a list, or an object in it, has no hash
                kept[name] = value
        return kept


@dataclass(frozen=True, slots=True)
class Pool:
    """All slices of a pool in its newest generation, and how many older ones are left over."""

    driver: str
    name: str
    generation: int
    expected: int
    slices: tuple[SliceRecord, ...]
    outdated: tuple[SliceRecord, ...]
    counters: Mapping[str, Mapping[str, Quantity]]
    """Counter set -> counter -> quantity."""

    @property
    def complete(self) -> bool:
        """Whether all slices are there; schedulers do not allocate from a pool that is not."""
        return len(self.slices) == self.expected

    @property
    def described(self) -> str:
        """How messages call it."""
        return f"pool {self.driver}/{self.name}"

    @property
    def node(self) -> str:
        """The one node whose devices these are, else ""."""
        nodes = {each.node for each in self.slices}
        return next(iter(nodes)) if len(nodes) == 1 else ""

    @property
    def devices(self) -> list[Device]:
        """Its devices."""
        return [device for each in self.slices for device in each.devices]


def pools_of(slices: Iterable[SliceRecord]) -> dict[tuple[str, str], Pool]:
    """The pools by driver and name (ResourcePool.generation: only slices with the highest number count)."""
    members: dict[tuple[str, str], list[SliceRecord]] = {}
    for each in slices:
        members.setdefault((each.driver, each.pool), []).append(each)
    pools = {}
    for (driver, name), found in sorted(members.items()):
        current = tuple(newest(found))
        generation = current[0].generation
        old = tuple(each for each in found if each.generation != generation)
        expected = max(each.expected for each in current)
        counters = {key: values for each in current for key, values in each.counters.items()}
        pools[driver, name] = Pool(driver, name, generation, expected, current, old, counters)
    return pools


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A DeviceTaintRule."""

    name: str
    selector: Selector
    taint: Taint

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a DeviceTaintRule."""
        given = part(raw, "spec", "deviceSelector")
        driver, pool, device = (
            text(given, name) if given.get(name) is not None else None for name in ("driver", "pool", "device")
        )
        selector = (driver, pool, device) if part(raw, "spec").get("deviceSelector") is not None else None
        return cls(text(part(raw, "metadata"), "name"), selector, Taint.of(part(raw, "spec", "taint")))

    @property
    def for_all(self) -> bool:
        """Whether it is for all devices of the cluster."""
        return self.selector == (None, None, None)

    @property
    def body(self) -> Mapping[str, Any]:
        """The taint, as in a ResourceSlice."""
        return {"key": self.taint.key, "value": self.taint.value, "effect": self.taint.effect}

    def selects(self, driver: str, pool: str, device: str) -> bool:
        """Whether it taints this device."""
        return selects(self.selector, driver, pool, device)
