"""A device as expressions see it: built once, matched often (k8s.io/dynamic-resource-allocation/cel, DeviceMatches)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from drabridge.core.cel import quantity, semver
from drabridge.core.cel.operators import DefaultMap, NativeMap
from drabridge.core.cel.values import CelError


class BadDevice(Exception):
    """A device with a value that no expression can be evaluated on, not even `true`. The text is upstream's."""


@dataclass(frozen=True, slots=True)
class DeviceView:
    """The value of the variable `device`. Nobody may change it: all evaluations share it."""

    fields: Mapping[str, Any]

    @classmethod
    def of(cls, driver: str, device: Mapping[str, Any]) -> DeviceView:
        """Make the view of a device of a ResourceSlice (resource.k8s.io/v1, as JSON).

        Raises BadDevice for an attribute without a value and for a version that does not parse.
        """
        attributes = _by_domain(driver, device.get("attributes"), _attribute)
        capacity = _by_domain(driver, device.get("capacity"), _capacity)
        return cls(
            {
                "driver": driver,
                "allowMultipleAllocations": device.get("allowMultipleAllocations") is True,
                "attributes": attributes,
                "capacity": capacity,
            }
        )


def _by_domain(
    driver: str, values: Mapping[str, Any] | None, convert: Callable[[str, Mapping[str, Any]], Any]
) -> DefaultMap:
    """Split names at the first slash; those without one belong to the driver's domain."""
    domains = DefaultMap()
    for name, value in (values or {}).items():
        domain, slash, id_ = name.partition("/")
        if not slash:
            domain, id_ = driver, name
        domains.setdefault(domain, NativeMap())[id_] = convert(name, value)
    return domains


_LISTS: Final = ("ints", "bools", "strings")
_SCALARS: Final = ("int", "bool", "string")


def _attribute(name: str, value: Mapping[str, Any]) -> Any:
    """Return the value of a DeviceAttribute: of its fields, lists come first. An empty list is a value."""
    for field in _LISTS:
        if (values := value.get(field)) is not None:
            return tuple(values)
    try:
        if (versions := value.get("versions")) is not None:
            return tuple(map(semver.parse, versions))
        for field in _SCALARS:
            if (scalar := value.get(field)) is not None:
                return scalar
        if (version := value.get("version")) is not None:
            return semver.parse(version)
    except CelError as error:
        raise BadDevice(f"attribute {name}: parse semantic version: {error}") from None
    raise BadDevice(f"attribute {name}: unsupported attribute value")


def _capacity(name: str, value: Mapping[str, Any]) -> Any:
    """Return the quantity of a DeviceCapacity."""
    try:
        return quantity.parse(str(value["value"]))
    except (KeyError, CelError) as error:
        raise BadDevice(f"capacity {name}: {error}") from None
