"""The eleven capabilities of an allocator, and which of them each of upstream's three implementations knows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Final, Self


@dataclass(frozen=True, slots=True)
class Features:
    """What the cluster's feature gates allow. The defaults are those of Kubernetes 1.37."""

    admin_access: bool = True
    prioritized_list: bool = True
    partitionable_devices: bool = True
    device_taints: bool = True
    binding_conditions: bool = True
    """DRADeviceBindingConditions and DRAResourceClaimDeviceStatus, both."""
    consumable_capacity: bool = True
    fractional_capacity_range: bool = True
    list_type_attributes: bool = False
    derived_attributes: bool = False
    compatibility_groups: bool = False
    optional_node_operations: bool = False

    @classmethod
    def none(cls) -> Self:
        """Everything off."""
        return cls.of({})

    @classmethod
    def all(cls) -> Self:
        """Everything on."""
        return cls(**{field.name: True for field in fields(cls)})

    @classmethod
    def of(cls, names: Mapping[str, bool]) -> Self:
        """Read the names of the scenario format ("adminAccess": true); what is absent is off.

        Raises KeyError for a name that is none.
        """
        chosen = {_FIELDS[name]: bool(on) for name, on in names.items()}
        return cls(**{field.name: chosen.get(field.name, False) for field in fields(cls)})

    def flavours(self) -> tuple[Flavour, ...]:
        """The implementations of upstream that can serve this; the scheduler takes the first one."""
        wanted = {field.name for field in fields(self) if getattr(self, field.name)}
        return tuple(flavour for flavour in Flavour if wanted <= _SUPPORTED[flavour])


class Flavour(StrEnum):
    """Upstream's implementations, in the order in which its scheduler tries them."""

    STABLE = "stable"
    INCUBATING = "incubating"
    EXPERIMENTAL = "experimental"


JSON_NAMES: Final[Mapping[str, str]] = {
    "admin_access": "adminAccess",
    "prioritized_list": "prioritizedList",
    "partitionable_devices": "partitionableDevices",
    "device_taints": "deviceTaints",
    "binding_conditions": "deviceBindingAndStatus",
    "consumable_capacity": "consumableCapacity",
    "fractional_capacity_range": "fractionalCapacityRange",
    "list_type_attributes": "listTypeAttributes",
    "derived_attributes": "derivedAttributes",
    "compatibility_groups": "compatibilityGroups",
    "optional_node_operations": "optionalNodeOperations",
}
"""Field of Features -> name in the scenario format."""

_FIELDS: Final = {name: field for field, name in JSON_NAMES.items()}

_STABLE: Final = frozenset({"admin_access", "prioritized_list", "partitionable_devices", "device_taints"})
_INCUBATING: Final = _STABLE | {"binding_conditions", "consumable_capacity", "fractional_capacity_range"}
_SUPPORTED: Final = {
    Flavour.STABLE: _STABLE,
    Flavour.INCUBATING: _INCUBATING,
    Flavour.EXPERIMENTAL: frozenset(JSON_NAMES),
}
