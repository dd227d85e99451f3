"""Kinds of devices: one record for all devices that an allocation cannot tell apart.

What an allocation looks at is known beforehand: the attributes that its selectors and constraints name (`ReadSet`), and
a device's fields other than attributes. Serial numbers and bus addresses that nobody asks for do no harm this way.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, NamedTuple

from drabridge.core.allocation.amounts import Capacity, capacities
from drabridge.core.allocation.reading import Raw
from drabridge.core.allocation.slices import Slice, counters
from drabridge.core.cel.device import BadDevice, DeviceView


class ReadSet(NamedTuple):
    """The attributes that expressions and constraints can see: (domain, identifier) pairs, sorted. None: all of them.

    Devices may leave their driver's domain out. Identifiers with the domain EXACTLY stand for one spelling only.
    """

    attributes: tuple[tuple[str, str], ...] | None = ()


EXACTLY: Final = "="
"""The domain of names without one."""


class Attribute(NamedTuple):
    """An attribute's value as constraints see it. `kind` is "" for values that nobody knows, and for empty lists."""

    kind: str
    values: frozenset[Any]
    is_list: bool


class Taint(NamedTuple):
    """A taint of a device."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, eq=False)
class Consumption:
    """What a device takes of one counter set: counter -> thousand-millionths; and its compatibility groups there."""

    counter_set: str
    counters: Mapping[str, int]
    groups: frozenset[str]


@dataclass(frozen=True, eq=False)
class DeviceKind:
    """What all devices of one kind have in common, read from one of them."""

    slice: Slice
    index: int
    driver: str
    raw: Raw
    fault: str | None
    """Why no expression can be evaluated on it."""
    known: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Verdicts by compiled request; they never change."""

    @cached_property
    def view(self) -> DeviceView:
        """The device as expressions see it. Raises BadDevice."""
        if self.fault is not None:
            raise BadDevice(self.fault)
        return DeviceView.of(self.driver, self.raw)

    @cached_property
    def is_shared(self) -> bool:
        """Whether it may be allocated more than once (allowMultipleAllocations)."""
        return self.raw.get("allowMultipleAllocations") is True

    @cached_property
    def capacities(self) -> tuple[Capacity, ...]:
        """Its capacities in order of their names."""
        return capacities(self.raw, self.slice.reader, f"spec.devices[{self.index}].capacity")

    @cached_property
    def taints(self) -> tuple[Taint, ...]:
        """The taints that keep requests away."""
        reader, at = self.slice.reader, f"spec.devices[{self.index}].taints"
        found = [
            Taint(
                reader.text(taint.get("key"), f"{at}[{i}].key"),
                reader.text(taint.get("value"), f"{at}[{i}].value"),
                reader.text(taint.get("effect"), f"{at}[{i}].effect"),
            )
            for i, taint in enumerate(reader.items(self.raw.get("taints"), at))
        ]
        return tuple(taint for taint in found if taint.effect in REPELLING)

    @cached_property
    def consumes(self) -> tuple[Consumption, ...]:
        """What it takes of its pool's counter sets."""
        reader, at = self.slice.reader, f"spec.devices[{self.index}].consumesCounters"
        return tuple(
            Consumption(
                reader.text(raw.get("counterSet"), f"{at}[{i}].counterSet"),
                counters(raw, reader, f"{at}[{i}]"),
                frozenset(reader.strings(raw.get("compatibilityGroups"), f"{at}[{i}].compatibilityGroups")),
            )
            for i, raw in enumerate(reader.items(self.raw.get("consumesCounters"), at))
        )

    @property
    def has_binding_conditions(self) -> bool:
        """Whether somebody has to say first that it can be used."""
        return bool(self.raw.get("bindingConditions"))

    def attribute(self, name: str) -> Attribute | None:
        """Look an attribute up by a fully qualified name; the driver's domain may be left out on the device."""
        attributes = self.raw.get("attributes") or {}
        value = attributes.get(name)
        if value is None:
            domain, slash, rest = name.partition("/")
            if slash and domain == self.driver:
                value = attributes.get(rest)
        return None if value is None else attribute_value(value)


REPELLING: Final = frozenset({"NoSchedule", "NoExecute"})
"""Effects of taints that keep new Pods away; a node's PreferNoSchedule only asks, a device's None only informs."""

_LISTS: Final = (("strings", "string"), ("ints", "int"), ("bools", "bool"), ("versions", "version"))
_SCALARS: Final = ("string", "int", "bool", "version")

UNKNOWN: Final = Attribute("", frozenset(), False)
"""A value without a type that anybody knows."""


def attribute_value(raw: Raw) -> Attribute:
    """Read a DeviceAttribute as constraints see it."""
    for name, kind in _LISTS:
        if raw.get(name):
            return Attribute(kind, frozenset(raw[name]), True)
    for kind in _SCALARS:
        if raw.get(kind) is not None:
            return Attribute(kind, frozenset((raw[kind],)), False)
    return UNKNOWN


Known = MutableMapping[Any, DeviceKind]
"""Key -> kind. Weak, so that kinds nobody has devices of vanish."""

_MOST_READ_SETS: Final = 32
"""Read sets that a slice remembers its kinds for: users may write any number of selectors."""

_SEEN_APART: Final = frozenset({"name", "attributes"})


def kinds_of(slice_: Slice, reads: ReadSet, known: Known) -> tuple[DeviceKind, ...]:
    """Return the kinds of a slice's devices, in order. Raises InvalidInput for devices that cannot be read."""
    projections: dict[ReadSet, tuple[DeviceKind, ...]] = slice_.known.setdefault("kinds", {})
    found = projections.get(reads)
    if found is None:
        if len(projections) >= _MOST_READ_SETS:
            projections.clear()
        found = projections[reads] = tuple(_project(slice_, reads, known))
    return found


def _project(slice_: Slice, reads: ReadSet, known: Known) -> list[DeviceKind]:
    faults = slice_.faults()
    head = (slice_.driver, slice_.per_device is True, slice_.skips_operations, reads)
    names = None if reads.attributes is None else _names(slice_.driver, reads.attributes)
    made: dict[Any, DeviceKind] = {}
    kinds = []
    others = bool(slice_.fields - _SEEN_APART)
    for index, device in enumerate(slice_.devices):
        seen = _seen(device.get("attributes"), names)
        key: Any = (
            (seen, repr([item for item in device.items() if item[0] not in _SEEN_APART]), faults.get(index))
            if others or faults
            else seen
        )
        kind = made.get(key)
        if kind is None:
            full = (head, key, others or bool(faults))
            kind = known.get(full)
            if kind is None:
                kind = known[full] = DeviceKind(slice_, index, slice_.driver, device, faults.get(index))
            made[key] = kind
        kinds.append(kind)
    return kinds


def _seen(attributes: Raw | None, names: tuple[str, ...] | None) -> Any:
    """Write down the attributes that are read, so that they can be looked up by."""
    if not attributes:
        return None
    if names is None:
        return repr(attributes)
    found: list[Any] = []
    for value in map(attributes.get, names):
        if value is None or len(value) != 1:
            found.append(None if value is None else repr(value))
            continue
        for kind, content in value.items():
            found.append((kind, content if content.__class__ in _HASHED else repr(content)))
    return tuple(found)


_HASHED: Final = frozenset({str, int, bool})


@lru_cache(maxsize=256)
def _names(driver: str, reads: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Write the names under which devices of a driver may have the attributes."""
    found: dict[str, None] = {}
    for domain, identifier in reads:
        if domain == EXACTLY:
            found[identifier] = None
            continue
        found[f"{domain}/{identifier}"] = None
        if domain == driver:
            found[identifier] = None
    return tuple(found)
