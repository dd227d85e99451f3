"""ResourceSlices as somebody wrote them: which devices they publish, and what is wrong with them.

`resource.k8s.io/v1` and v1beta2 have one shape; v1beta1 has the same one with each device's fields inside of `basic`.
Fields and their types are those of k8s.io/api/resource v0.37.2, and so is what of them must be there.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from drabridge.core.errors import InvalidInput, quoted
from drabridge.core.quantity import Quantity

KIND: Final = "ResourceSlice"
GROUP: Final = "resource.k8s.io"
VERSIONS: Final = ("v1", "v1beta2", "v1beta1")
"""Versions that can be read, the best first."""

_SLICE: Final = frozenset({"apiVersion", "kind", "metadata", "spec"})
_SPEC: Final = frozenset(
    {
        "driver", "pool", "nodeName", "nodeSelector", "allNodes", "devices", "perDeviceNodeSelection", "sharedCounters",
        "partitionTypeAttribute", "skipNodeOperations",
    }
)  # fmt: skip
_POOL: Final = frozenset({"name", "generation", "resourceSliceCount"})
_DEVICE: Final = frozenset(
    {
        "name", "attributes", "capacity", "consumesCounters", "nodeName", "nodeSelector", "allNodes", "taints",
        "bindsToNode", "bindingConditions", "bindingFailureConditions", "allowMultipleAllocations",
        "nodeAllocatableResources", "nodeAllocatableResourceMappings",
    }
)  # fmt: skip
_CAPACITY: Final = frozenset({"value", "requestPolicy"})

_REMOVE: Final = "correct its name, or remove it"


@dataclass(frozen=True, slots=True)
class DeviceID:
    """What names a device in a cluster; printed as `driver/pool/device`, as kube-scheduler does."""

    driver: str
    pool: str
    device: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.device}"


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device of a slice, in the shape of resource.k8s.io/v1.

    `node` is the node it is on, "*" for all nodes, "" where a selector says it. `slice` is the name of the slice,
    `source` what messages call it. With `faults` the device cannot be used.
    """

    id: DeviceID
    device: Mapping[str, Any]
    node: str
    slice: str
    source: str
    faults: tuple[InvalidInput, ...] = ()


class PoolMember(Protocol):
    """Whatever knows which pool's slice it is, and of which generation."""

    @property
    def driver(self) -> str:
        """spec.driver."""

    @property
    def pool(self) -> str:
        """spec.pool.name."""

    @property
    def generation(self) -> int:
        """spec.pool.generation."""


P = TypeVar("P", bound=PoolMember)


@dataclass(frozen=True, slots=True)
class ReadSlice:
    """A slice as it was read. `faults` are those outside of its devices."""

    driver: str
    pool: str
    generation: int
    devices: tuple[PublishedDevice, ...]
    faults: tuple[InvalidInput, ...]


def read_slice(body: Mapping[str, Any], obj: str, *, strict: bool) -> ReadSlice:
    """Read a ResourceSlice; `obj` is how messages call it ("ResourceSlice node-1 (slices.yaml)").

    With `strict` fields that are not known are faults; else they are taken for newer than this version. Raises
    InvalidInput where the slice cannot be read at all: another version, no driver, no pool.
    """
    reader = _Reader(obj, strict)
    version = _version(body, obj)
    reader.known(body, "", _SLICE)
    spec = reader.object(body.get("spec"), "spec")
    reader.known(spec, "spec", _SPEC)
    driver = reader.required(spec.get("driver"), "spec.driver", "name the driver, as in gpu.example.com")
    pool = reader.object(spec.get("pool"), "spec.pool")
    reader.known(pool, "spec.pool", _POOL)
    pool_name = reader.required(pool.get("name"), "spec.pool.name", "name the pool; drivers use the node's name")
    generation = pool.get("generation", 0)
    if generation.__class__ is not int:
        reader.fault("spec.pool.generation", f"is {quoted(generation)}, not an integer", "write a number such as 1")
        generation = 0
    devices = spec.get("devices") or []
    if not isinstance(devices, list):
        raise InvalidInput(obj, "spec.devices", f"is {quoted(devices)}, not a list", "write a list of devices")
    faults = tuple(reader.faults)
    found = []
    for position, raw in enumerate(devices):
        reader.faults.clear()
        path = f"spec.devices[{position}]"
        device = _unwrapped(reader, raw, path) if version == "v1beta1" else raw
        inside = f"{path}.basic" if version == "v1beta1" else path
        check = reader.device(device, inside, named=path)
        name = check.get("name")
        id_ = DeviceID(driver, pool_name, name if isinstance(name, str) and name else f"<{path}>")
        found.append(PublishedDevice(id_, check, _node(spec, check), name_of(body), obj, tuple(reader.faults)))
    return ReadSlice(driver, pool_name, generation, tuple(found), faults)


def name_of(body: Mapping[str, Any]) -> str:
    """Give the name of an object, "" if it does not say."""
    metadata = body.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""


def device_faults(device: Any, obj: str) -> tuple[InvalidInput, ...]:
    """Say what is wrong with the types in a device (resource.k8s.io/v1) that somebody gave without a slice.

    Fields that are not known, a missing name and attributes with no value or several are left to the evaluation.
    """
    reader = _Reader(obj, strict=False)
    reader.device(device, "device", named=None)
    return tuple(reader.faults)


def newest(slices: Iterable[P]) -> list[P]:
    """Leave out the slices of generations that their pool has left behind, as kube-scheduler does.

    ResourcePool.generation: consumers use only the slices with the highest number.
    """
    known = list(slices)
    generations: dict[tuple[str, str], int] = {}
    for each in known:
        key = each.driver, each.pool
        generations[key] = max(generations.get(key, each.generation), each.generation)
    return [each for each in known if each.generation == generations[each.driver, each.pool]]


def _version(body: Mapping[str, Any], obj: str) -> str:
    written = body.get("apiVersion")
    group, _, version = written.partition("/") if isinstance(written, str) else ("", "", "")
    if group == GROUP and version in VERSIONS:
        return version
    problem = f"is {quoted(written)}" if written is not None else "is missing"
    raise InvalidInput(obj, "apiVersion", problem, f"use one of {', '.join(f'{GROUP}/{each}' for each in VERSIONS)}")


def _unwrapped(reader: _Reader, raw: Any, path: str) -> Any:
    """Give a device of v1beta1 the shape of v1."""
    if not isinstance(raw, Mapping):
        return raw
    reader.known(raw, path, frozenset({"name", "basic"}))
    basic = raw.get("basic")
    if not isinstance(basic, Mapping):
        problem = "is missing" if basic is None else f"is {quoted(basic)}, not an object"
        reader.fault(f"{path}.basic", problem, "put attributes and capacity there, as v1beta1 wants it, or use v1")
        basic = {}
    return {**basic, "name": raw.get("name")}


def _node(spec: Mapping[str, Any], device: Mapping[str, Any]) -> str:
    for place in (spec, device):
        if place.get("allNodes") is True:
            return "*"
        if isinstance(name := place.get("nodeName"), str):
            return name
    return ""


_LOW: Final = -(2**63)


def _is_int(value: Any) -> bool:
    return value.__class__ is int and _LOW <= value < -_LOW


def _is_bool(value: Any) -> bool:
    return value.__class__ is bool


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


_TYPES: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "int": (_is_int, "a 64-bit integer"),
    "bool": (_is_bool, "true or false"),
    "string": (_is_text, "a text in quotes"),
    "version": (_is_text, 'a version in quotes, as in "1.2.3"'),
}
"""The fields of DeviceAttribute, each of which has a list of the same, with an s."""

_ATTRIBUTE: Final = frozenset({*_TYPES, *(f"{name}s" for name in _TYPES)})


@dataclass(slots=True)
class _Reader:
    """Looks at the parts of one object and keeps what is wrong with them."""

    obj: str
    strict: bool
    faults: list[InvalidInput] = field(default_factory=list)

    def fault(self, path: str, problem: str, cure: str) -> None:
        self.faults.append(InvalidInput(self.obj, path, problem, cure))

    def object(self, raw: Any, path: str) -> Mapping[str, Any]:
        """Give what must be an object. Raises InvalidInput."""
        if isinstance(raw, Mapping):
            return raw
        problem = "is missing" if raw is None else f"is {quoted(raw)}, not an object"
        raise InvalidInput(self.obj, path, problem, "write a mapping")

    def required(self, raw: Any, path: str, cure: str) -> str:
        """Give what must be a text. Raises InvalidInput."""
        if isinstance(raw, str) and raw:
            return raw
        raise InvalidInput(self.obj, path, "is missing" if not raw else f"is {quoted(raw)}, not a text", cure)

    def known(self, raw: Mapping[Any, Any], path: str, names: frozenset[str]) -> None:
        if not self.strict:
            return
        for name in raw:
            if name not in names:
                close = difflib.get_close_matches(str(name), names, 1)
                cure = f"did you mean {close[0]}?" if close else _REMOVE
                self.fault(f"{path}.{_shown(name)}" if path else _shown(name), "is no field here", cure)

    def device(self, raw: Any, path: str, *, named: str | None) -> Mapping[str, Any]:
        """Look at a device; give it, or an empty one. `named` is the path of what must have a name, if anything."""
        if not isinstance(raw, Mapping):
            self.fault(path, f"is {quoted(raw)}, not an object", "write a device: name, attributes, capacity")
            return {}
        self.known(raw, path, _DEVICE)
        name = raw.get("name")
        if named is not None and not (isinstance(name, str) and name):
            self.fault(f"{named}.name", "is missing" if not name else f"is {quoted(name)}", "write a name in quotes")
        several = raw.get("allowMultipleAllocations")
        if several is not None and several.__class__ is not bool:
            self.fault(f"{path}.allowMultipleAllocations", f"is {quoted(several)}", "write true or false")
        self._each(raw, path, "attributes", self._attribute)
        self._each(raw, path, "capacity", self._capacity)
        return raw

    def _each(
        self, raw: Mapping[str, Any], path: str, name: str, look: Callable[[Mapping[str, Any], str], None]
    ) -> None:
        values = raw.get(name)
        if values is None:
            return
        if not isinstance(values, Mapping):
            self.fault(f"{path}.{name}", f"is {quoted(values)}, not an object", "write a mapping of names to values")
            return
        for key, value in values.items():
            at = f"{path}.{name}[{quoted(key)}]"
            if not isinstance(key, str):
                self.fault(at, "its name is no text", "write the name in quotes")
            elif not isinstance(value, Mapping):
                example = "{string: ...}" if name == "attributes" else '{value: "40Gi"}'
                self.fault(at, f"is {quoted(value)}, not an object", f"write {example}")
            else:
                look(value, at)

    def _attribute(self, value: Mapping[str, Any], path: str) -> None:
        self.known(value, path, _ATTRIBUTE)
        given = [name for name in value if name in _ATTRIBUTE and value[name] is not None]
        for name in given:
            self._typed(name, value[name], f"{path}.{name}")
        if self.strict and len(given) != 1:
            problem = f"has {', '.join(given)}" if given else "has no value"
            self.fault(path, problem, f"give it exactly one of {', '.join(sorted(_ATTRIBUTE))}")

    def _typed(self, name: str, value: Any, path: str) -> None:
        if name in _TYPES:
            fits, wanted = _TYPES[name]
            if not fits(value):
                self.fault(path, f"is {quoted(value)}", f"write {wanted}")
            return
        fits, wanted = _TYPES[name[:-1]]
        if not isinstance(value, list):
            self.fault(path, f"is {quoted(value)}, not a list", f"write a list; each element is {wanted}")
            return
        for position, element in enumerate(value):
            if not fits(element):
                self.fault(f"{path}[{position}]", f"is {quoted(element)}", f"write {wanted}")

    def _capacity(self, value: Mapping[str, Any], path: str) -> None:
        self.known(value, path, _CAPACITY)
        amount = value.get("value")
        if amount is None or amount.__class__ not in (str, int, float):
            problem = "is missing" if amount is None else f"is {quoted(amount)}"
            self.fault(f"{path}.value", problem, 'write a quantity, as in "40Gi"')
            return
        try:
            Quantity.parse(str(amount))
        except ValueError as error:
            self.fault(f"{path}.value", str(error), 'write a quantity, as in "40Gi"')


def _shown(name: Any) -> str:
    return name if isinstance(name, str) and name.isidentifier() else quoted(name)
