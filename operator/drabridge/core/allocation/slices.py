"""ResourceSlices: the header is read at once, the devices when an allocation first looks at them.

A cluster has tens of thousands of devices and an allocation looks at few kinds of them, so that a device is no record
of its own here: `kinds` makes one record for all that are alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

from drabridge.core.allocation.nodes import Node, SelectorProblem, on_node
from drabridge.core.allocation.reading import Raw, Reader
from drabridge.core.cel import semver
from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.errors import quoted

PoolKey = tuple[str, str]
"""(driver, pool name)."""

SERVED: Final = frozenset({"resource.k8s.io/v1", "resource.k8s.io/v1beta2"})
"""API versions whose objects have the fields that we read."""


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


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """One ResourceSlice. Two of them are equal only if they are the same."""

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
        metadata = raw.get("metadata") or {}
        name = metadata.get("name") or ""
        reader = Reader(f"ResourceSlice {name}")
        check_version(raw, reader)
        spec = reader.mapping(raw.get("spec"), "spec")
        pool = reader.mapping(spec.get("pool"), "spec.pool")
        node_name = spec.get("nodeName")
        skips = spec.get("skipNodeOperations")
        return cls(
            reader.text(name, "metadata.name"),
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
    def declares_groups(self) -> bool:
        """Whether a device of it belongs to a compatibility group."""
        found: bool | None = self.known.get("groups")
        if found is None:
            found = self.known["groups"] = any(
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
            found = self.known["binding"] = any(
                device.get("bindingConditions") is not None for device in self.devices if len(device) > 2
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
            if not all(name.__class__ is str for name in found):
                for index, device in enumerate(self.devices):
                    self.reader.text(device.get("name"), f"spec.devices[{index}].name")
            self.known["names"] = found
        return found

    def faults(self) -> Mapping[int, str]:
        """Return position -> why no expression can be evaluated on the device there. Most slices have none."""
        found: Mapping[int, str] | None = self.known.get("faults")
        if found is None:
            found = self.known["faults"] = {
                index: fault
                for index, device in enumerate(self.devices)
                if (fault := _fault(self, index, device)) is not None
            }
        return found

    def is_for(self, node: Node) -> bool:
        """Whether the slice has devices for the node (section 3 of the behaviour). Raises SelectorProblem."""
        place = on_node(self.spec, node)
        if place is not None:
            return place
        return self.per_device is True and any(on_node(device, node) for device in self.devices)


def counters(raw: Raw, reader: Reader, path: str) -> dict[str, int]:
    """Read the counters of a set, or of a consumption: name -> thousand-millionths."""
    path = f"{path}.counters"
    return {
        name: reader.quantity(reader.mapping(counter, f"{path}[{name}]").get("value"), f"{path}[{name}].value").nano
        for name, counter in reader.mapping(raw.get("counters"), path).items()
    }


_PLAIN: Final[Mapping[str, type]] = {"string": str, "int": int, "bool": bool}


def _fault(slice_: Slice, index: int, device: Raw) -> str | None:
    """Say what is wrong with a device's attributes or capacities, as `DeviceView.of` would."""
    attributes = device.get("attributes")
    sound = not attributes or (attributes.__class__ is dict and all(map(_is_sound, attributes.values())))
    if sound and not device.get("capacity"):
        return None
    reader, path = slice_.reader, f"spec.devices[{index}]"
    for name, value in reader.mapping(device.get("capacity"), f"{path}.capacity").items():
        capacity = reader.mapping(value, f"{path}.capacity[{name}]")
        reader.quantity(capacity.get("value"), f"{path}.capacity[{name}].value")
    if sound:
        return None
    for name, value in reader.mapping(attributes, f"{path}.attributes").items():
        _check_attribute(reader, f"{path}.attributes[{name}]", reader.mapping(value, f"{path}.attributes[{name}]"))
    try:
        DeviceView.of(slice_.driver, device)
    except BadDevice as bad:
        return str(bad)
    return None


def _is_sound(value: Any) -> bool:
    """Whether an attribute is certainly well-formed: the common case, decided quickly."""
    if value.__class__ is dict and len(value) == 1:
        for kind, content in value.items():
            expected = _PLAIN.get(kind)
            if expected is not None:
                return content.__class__ is expected
            if kind == "version" and content.__class__ is str:
                return _is_version(content)
    return False


def _is_version(text: str) -> bool:
    try:
        semver.parse(text)
    except semver.CelError:
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


__all__ = ["CounterSet", "PoolKey", "SelectorProblem", "Slice", "check_version", "counters"]
