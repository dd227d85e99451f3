"""Which DeviceClass serves a resource name, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from drabridge.core.classmap import ClassMap
from drabridge.core.names import implicit_class, implicit_name


@dataclass(frozen=True, slots=True)
class Serving:
    """The mappings of policies, classes and the command line.

    `chosen` are those of the command line and policies; `configured` are the classes that are known to have `config`.
    """

    classes: ClassMap
    chosen: Mapping[str, str] = field(default_factory=dict)
    configured: frozenset[str] = frozenset()

    def class_of(self, name: str) -> str | None:
        """Give the DeviceClass of a name; every class answers to its implicit name, whether we have seen it or not."""
        mapping = self.classes.resolve(name)
        return mapping.device_class if mapping else implicit_class(name)

    def serves(self, name: str) -> bool:
        """Whether anything stands behind the name."""
        return self.class_of(name) is not None

    def name_of(self, device_class: str) -> str | None:
        """Give a name that the class serves: one that was chosen, one that it declares, else the implicit one.

        None where the implicit one cannot be asked for, the class's name being too long.
        """
        for name, chosen in sorted(self.chosen.items()):
            if chosen == device_class:
                return name
        declared = sorted(
            name for name in self.classes.names() if self.class_of(name) == device_class and not implicit_class(name)
        )
        if declared:
            return declared[0]
        name = implicit_name(device_class)
        return name if implicit_class(name) else None
