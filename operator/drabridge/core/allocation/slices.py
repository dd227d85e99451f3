"""ResourceSlices: the header is read at once, the devices when an allocation first looks at them.

A cluster has tens of thousands of devices and an allocation looks at few kinds of them, so that a device is no record
of its own here: `kinds` makes one record for all that are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Self

from drabridge.core.allocation.nodes import Node, SelectorProblem, on_node
from drabridge.core.allocation.reading import Raw, Reader, opened
from drabridge.core.cel import semver
from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.values import CelError
from drabridge.core.errors import quoted

PoolKey = tuple[str, str]
"""(driver, pool name)."""

SERVED: Final = frozenset({"resource.k8s.io/v1", "resource.k8s.io/v1beta2"})
"""API versions whose objects have the fields that we read."""


def _are_objects(values: Sequence[Any]) -> bool:
    """Whether all are objects, as JSON has them."""
    return {value.__class__ for value in values} <= _OBJECTS


_OBJECTS: Final = frozenset({dict})

_COMMON_VERSIONS: Final = frozenset({None, "resource.k8s.io/v1"})

_UNUSUAL: Final = frozenset({"perDeviceNodeSelection", "skipNodeOperations"})
"""Fields of a slice that few have."""


def check_version(raw: Raw, reader: Reader) -> None:
    """Refuse objects of API versions that look different. Raises InvalidInput."""
    version = raw.get("apiVersion")
    if version is not None and version not in SERVED:
        raise reader.invalid(
            "apiVersion", f"is {quoted(version)}, whose fields are others", "use resource.k8s.io/v1 or v1beta2"
        )


@dataclass(frozen=True, slots=True, eq=False)
class CounterSet:
    """A counter set of a pool: counter name -> value in thousand-millionths."""

    name: str
    counters: Mapping[str, int]


@dataclass(slots=True, eq=False)
class Slice:
    """One ResourceSlice. Two of them are equal only if they are the same.

    Nobody changes it. It is not frozen, because thousands are made at once and frozen ones take twice the time.
    """

    name: str
    driver: str
    pool: str
    generation: int
    expected: int
    """resourceSliceCount: how many slices the pool has in this generation."""
    node_name: str | None
    per_device: bool | None
    """perDeviceNodeSelection; None if absent."""
    skips_operations: tuple[str, ...]
    spec: Raw
    devices: Sequence[Raw]
    order: int
    """Its place among all slices, which decides what metadata.name does not."""
    known: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What has been found out about the slice; it never changes."""

    @classmethod
    def of(cls, raw: Raw, order: int = 0) -> Self:
        """Read a ResourceSlice (resource.k8s.io/v1, as JSON). Raises InvalidInput."""
        spec, metadata = (raw.get("spec"), raw.get("metadata")) if raw.__class__ is dict else (None, None)
        if spec.__class__ is not dict or metadata.__class__ is not dict or spec.get("pool").__class__ is not dict:
            return cls._read(raw, order)
        pool, devices = spec["pool"], spec.get("devices")
        name, driver, pool_name = metadata.get("name"), spec.get("driver"), pool.get("name")
        generation, expected = pool.get("generation"), pool.get("resourceSliceCount")
        if (
            _UNUSUAL.isdisjoint(spec)
            and raw.get("apiVersion") in _COMMON_VERSIONS
            and name.__class__ is driver.__class__ is pool_name.__class__ is spec.get("nodeName", "").__class__ is str
            and generation.__class__ is expected.__class__ is int
            and devices.__class__ is list
            and _are_objects(devices)
        ):
            return cls(
                name, driver, pool_name, generation, expected, spec.get("nodeName"), None, (), spec, devices, order
            )
        return cls._read(raw, order)

    @classmethod
    def _read(cls, raw: Raw, order: int) -> Self:
        """Read any slice, with an error for what is wrong. `of` has a shorter way for most of them."""
        reader, spec, _, name = opened("ResourceSlice", raw)
        check_version(raw, reader)
        pool = reader.mapping(spec.get("pool"), "spec.pool")
        node_name = spec.get("nodeName")
        skips = spec.get("skipNodeOperations")
        return cls(
            name,
            reader.text(spec.get("driver"), "spec.driver"),
            reader.text(pool.get("name"), "spec.pool.name"),
            reader.whole(pool.get("generation"), "spec.pool.generation"),
            reader.whole(pool.get("resourceSliceCount"), "spec.pool.resourceSliceCount"),
            None if node_name is None else reader.text(node_name, "spec.nodeName"),
            reader.flag(spec.get("perDeviceNodeSelection"), "spec.perDeviceNodeSelection"),
            () if skips is None else reader.strings(skips, "spec.skipNodeOperations"),
            spec,
            reader.items(spec.get("devices"), "spec.devices"),
            order,
        )

    @property
    def key(self) -> PoolKey:
        """The pool that it belongs to."""
        return self.driver, self.pool

    @property
    def reader(self) -> Reader:
        """Reads its fields and says in errors whose they are."""
        return Reader(f"ResourceSlice {self.name}")

    @property
    def has_counters(self) -> bool:
        """Whether it defines counter sets; its devices do not count then."""
        return bool(self.spec.get("sharedCounters"))

    @property
    def fields(self) -> frozenset[str]:
        """The fields that any of its devices has."""
        found: frozenset[str] | None = self.known.get("fields")
        if found is None:
            found = self.known["fields"] = frozenset().union(*self.devices)
        return found

    @property
    def declares_groups(self) -> bool:
        """Whether a device of it belongs to a compatibility group."""
        found: bool | None = self.known.get("groups")
        if found is None:
            found = self.known["groups"] = "consumesCounters" in self.fields and any(
                consumption.get("compatibilityGroups")
                for device in self.devices
                for consumption in device.get("consumesCounters") or ()
            )
        return found

    @property
    def is_binding(self) -> bool:
        """Whether a device of it has bindingConditions, be it an empty list."""
        found: bool | None = self.known.get("binding")
        if found is None:
            found = self.known["binding"] = "bindingConditions" in self.fields and any(
                device.get("bindingConditions") is not None for device in self.devices
            )
        return found

    def counter_sets(self) -> tuple[CounterSet, ...]:
        """Return the counter sets that it defines. Raises InvalidInput for values that are no quantities."""
        found: tuple[CounterSet, ...] | None = self.known.get("sets")
        if found is None:
            reader, at = self.reader, "spec.sharedCounters"
            found = self.known["sets"] = tuple(
                CounterSet(reader.text(raw.get("name"), f"{at}[{i}].name"), counters(raw, reader, f"{at}[{i}]"))
                for i, raw in enumerate(reader.items(self.spec.get("sharedCounters"), at))
            )
        return found

    def names(self) -> tuple[str, ...]:
        """Return the devices' names in order."""
        found: tuple[str, ...] | None = self.known.get("names")
        if found is None:
            found = tuple([device.get("name") or "" for device in self.devices])
            if {name.__class__ for name in found} - {str}:
                for index, device in enumerate(self.devices):
                    self.reader.text(device.get("name"), f"spec.devices[{index}].name")
            self.known["names"] = found
        return found

    def faults(self) -> Mapping[int, str]:
        """Return position -> why no expression can be evaluated on the device there. Most slices have none."""
        found: Mapping[int, str] | None = self.known.get("faults")
        if found is None:
            doubtful = range(len(self.devices)) if "capacity" in self.fields else _doubtful(self.devices)
            found = self.known["faults"] = {
                index: fault for index in doubtful if (fault := _fault(self, index, self.devices[index])) is not None
            }
        return found

    def is_for(self, node: Node) -> bool:
        """Whether the slice has devices for the node (section 3 of the behaviour). Raises SelectorProblem."""
        place = on_node(self.spec, node)
        if place is not None:
            return place
        return self.per_device is True and any(self._has_for(index, node) for index in range(len(self.devices)))

    def _has_for(self, index: int, node: Node) -> bool | None:
        try:
            return on_node(self.devices[index], node)
        except SelectorProblem as problem:
            raise SelectorProblem(str(problem), index) from None


def counters(raw: Raw, reader: Reader, path: str) -> dict[str, int]:
    """Read the counters of a set, or of a consumption: name -> thousand-millionths."""
    path = f"{path}.counters"
    return {
        name: reader.quantity(reader.mapping(counter, f"{path}[{name}]").get("value"), f"{path}[{name}].value").nano
        for name, counter in reader.mapping(raw.get("counters"), path).items()
    }


_PLAIN: Final[Mapping[str, type]] = {"string": str, "int": int, "bool": bool}


def _doubtful(devices: Sequence[Raw]) -> list[int]:
    """Return the devices whose attributes are not certainly well-formed: quickly, since nearly all of them are."""
    found = []
    plain = _PLAIN.get
    for index, device in enumerate(devices):
        attributes = device.get("attributes")
        if not attributes:
            continue
        try:
            for value in attributes.values():
                ((kind, content),) = value.items()
                if content.__class__ is not plain(kind) and (kind != "version" or not _is_version(content)):
                    found.append(index)
                    break
        except (AttributeError, TypeError, ValueError):  # no objects, or not of one field
            found.append(index)
    return found


def _fault(slice_: Slice, index: int, device: Raw) -> str | None:
    """Say what is wrong with a device's attributes or capacities, as `DeviceView.of` would."""
    reader, path = slice_.reader, f"spec.devices[{index}]"
    for name, value in reader.mapping(device.get("capacity"), f"{path}.capacity").items():
        capacity = reader.mapping(value, f"{path}.capacity[{name}]")
        reader.quantity(capacity.get("value"), f"{path}.capacity[{name}].value")
    for name, value in reader.mapping(device.get("attributes"), f"{path}.attributes").items():
        _check_attribute(reader, f"{path}.attributes[{name}]", reader.mapping(value, f"{path}.attributes[{name}]"))
    if not _doubtful((device,)):
        return None
    try:
        DeviceView.of(slice_.driver, device)
    except BadDevice as bad:
        return str(bad)
    return None


@lru_cache(maxsize=4096)
def _is_version(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        semver.parse(text)
    except CelError:
        return False
    return True


_TYPES: Final[Mapping[str, tuple[type, str]]] = {
    "string": (str, "a string"),
    "version": (str, "a string"),
    "int": (int, "an int64"),
    "bool": (bool, "a bool"),
}


def _check_attribute(reader: Reader, path: str, attribute: Raw) -> None:
    for kind, value in attribute.items():
        if value is None:
            continue
        single = kind.removesuffix("s") if kind not in _TYPES else kind
        expected = _TYPES.get(single)
        if expected is None:
            continue
        for element in reader.sequence(value, f"{path}.{kind}") if single != kind else (value,):
            if element.__class__ is not expected[0]:
                raise reader.invalid(f"{path}.{kind}", f"{quoted(element)} is not {expected[1]}", "correct the value")
