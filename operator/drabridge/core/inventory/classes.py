"""DeviceClasses: the view that decisions read, and what else a look at the whole cluster needs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Self

from drabridge.core.classmap import ClassView
from drabridge.core.inventory.shape import Raw, managers_of, part, parts


@dataclass(frozen=True, slots=True)
class ClassRecord:
    """A DeviceClass; `configuration` is what it configures for every device, as JSON, "" if it configures nothing."""

    view: ClassView
    configuration: str
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
            json.dumps(opaque, sort_keys=True) if opaque else "",
            managers_of(raw, "f:spec", "f:selectors") | managers_of(raw, "f:spec", "f:extendedResourceName"),
        )
