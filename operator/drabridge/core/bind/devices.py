"""What Bind keeps of ResourceSlices and DeviceClasses: the raw objects, for the allocation core, and their keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from drabridge.core.allocation.claims import DeviceClass
from drabridge.core.allocation.slices import PoolKey, Slice


@dataclass(frozen=True, slots=True)
class SliceRecord:
    """A ResourceSlice. `node` is None where its devices are not those of one node."""

    name: str
    pool: PoolKey
    node: str | None
    raw: Mapping[str, Any]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Read a ResourceSlice (resource.k8s.io/v1). Raises InvalidInput for one that nobody can allocate from."""
        read = Slice.of(raw)
        return cls(read.name, read.key, read.node_name or None, {"metadata": {"name": read.name}, "spec": raw["spec"]})


@dataclass(frozen=True, slots=True)
class ClassRecord:
    """A DeviceClass."""

    name: str
    raw: Mapping[str, Any]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Read a DeviceClass (resource.k8s.io/v1). Raises InvalidInput."""
        read = DeviceClass.of(raw)
        return cls(read.name, {"metadata": {"name": read.name}, "spec": raw.get("spec") or {}})
