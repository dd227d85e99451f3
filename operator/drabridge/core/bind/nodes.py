"""What Bind looks at of a Node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from drabridge.core.allocation.nodes import Node
from drabridge.core.auto import kubelet_is_native
from drabridge.core.deviceplugins import offered


@dataclass(frozen=True, slots=True)
class BindNode:
    """A Node: `plugins` are the extended resources that a device plugin offers there (allocatable above zero).

    `facts` are what an allocation goes by. A kubelet that is not native starts a Pod without its devices.
    """

    name: str
    plugins: frozenset[str]
    is_native: bool
    labels: Mapping[str, str]
    features: tuple[str, ...]
    facts: Node

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Read a v1 Node."""
        status = raw.get("status") or {}
        facts = Node.of(raw)
        version = (status.get("nodeInfo") or {}).get("kubeletVersion", "")
        features = tuple(sorted(facts.declared_features))
        return cls(facts.name, offered(status), kubelet_is_native(version), facts.labels, features, facts)

    def __eq__(self, other: object) -> bool:
        """Whether nothing differs that anybody here looks at; Nodes are written every few minutes without such news."""
        return isinstance(other, BindNode) and self._seen == other._seen

    def __hash__(self) -> int:
        return hash((self.name, self.plugins, self.is_native))

    @property
    def _seen(self) -> tuple[object, ...]:
        return self.name, self.plugins, self.is_native, self.labels, self.features
