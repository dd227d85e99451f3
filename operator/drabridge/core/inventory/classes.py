"""DeviceClasses: the view that decisions read, and what else a look at the whole cluster needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from drabridge.core.classmap import ClassView
from drabridge.core.inventory.shape import Raw, managers_of, names_in, part, parts

PER_DEVICE: Final = frozenset({"ifname", "interfacename", "hostname", "mac", "macaddress", "ipaddress"})
"""Names of driver parameters, in lower case, that can be right for one device of a Pod only."""


@dataclass(frozen=True, slots=True)
class ClassRecord:
    """A DeviceClass; `per_device` is a parameter that it sets for all devices and only one may have, "" if none is."""

    view: ClassView
    per_device: str
    writers: frozenset[str]
    """The field managers of its spec."""

    @property
    def name(self) -> str:
        """Its name."""
        return self.view.name

    @property
    def described(self) -> str:
        """How messages call it."""
        return f"DeviceClass {self.view.name}"

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a DeviceClass."""
        opaque = [part(each, "opaque", "parameters") for each in parts(part(raw, "spec"), "config")]
        return cls(
            ClassView.of(raw),
            next((name for name in names_in(opaque) if name.lower() in PER_DEVICE), ""),
            managers_of(raw, "f:spec", "f:selectors") | managers_of(raw, "f:spec", "f:extendedResourceName"),
        )
