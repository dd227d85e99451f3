"""Nodes, and how taints and tolerations meet (core/v1 Taint, Toleration; the device's kind of both is the same)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

from drabridge.core.allocation.kinds import REPELLING
from drabridge.core.inventory.shape import Raw, part, parts, quantity, text, texts
from drabridge.core.names import is_extended


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node or of a device."""

    key: str
    value: str
    effect: str

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a Taint or a DeviceTaint."""
        return cls(text(raw, "key"), text(raw, "value"), text(raw, "effect"))

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


@dataclass(frozen=True, slots=True)
class Toleration:
    """A toleration of a Pod or of a device request; the empty key stands for all keys, the empty effect for all."""

    key: str
    operator: str
    value: str
    effect: str

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a Toleration or a DeviceToleration."""
        return cls(text(raw, "key"), text(raw, "operator") or "Equal", text(raw, "value"), text(raw, "effect"))

    def tolerates(self, taint: Taint) -> bool:
        """Whether it lets one live with the taint."""
        if self.effect not in ("", taint.effect) or self.key not in ("", taint.key):
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that repels and that nothing tolerates."""
    tolerated = tuple(tolerations)
    for taint in taints:
        if taint.effect in REPELLING and not any(each.tolerates(taint) for each in tolerated):
            return taint
    return None


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A Node. `allocatable` holds its extended resources, those with quantity 0 included; `kubelet` is a version."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    unschedulable: bool
    kubelet: str
    declared_features: frozenset[str]
    allocatable: Mapping[str, int]

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a Node."""
        spec, status = part(raw, "spec"), part(raw, "status")
        allocatable = part(status, "allocatable")
        return cls(
            name=text(part(raw, "metadata"), "name"),
            labels=part(raw, "metadata", "labels"),
            taints=tuple(map(Taint.of, parts(spec, "taints"))),
            unschedulable=spec.get("unschedulable") is True,
            kubelet=text(part(status, "nodeInfo"), "kubeletVersion"),
            declared_features=frozenset(texts(status, "declaredFeatures")),
            allocatable={name: quantity(allocatable, name).ceil() for name in allocatable if is_extended(name)},
        )
