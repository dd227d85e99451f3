"""The devices that ResourceSlices publish, and how many of them a DeviceClass selects."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from drabridge.core.allocation.kinds import REPELLING
from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.selector import CompileError, Selector, SelectorError, compile_selector
from drabridge.core.resourceslice import newest


@dataclass(frozen=True, slots=True)
class SliceView:
    """What drabridge keeps of a ResourceSlice. `expected` is resourceSliceCount.

    `taints` leads from each device to the taint that repels from it, "" if none does. All else of the devices is kept
    compressed: a cluster has tens of thousands, and they are looked at only when a slice or a class has changed.
    """

    name: str
    driver: str
    pool: str
    generation: int
    expected: int
    taints: Mapping[str, str]
    packed: bytes

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Read a ResourceSlice (resource.k8s.io/v1). Raises KeyError or TypeError where its shape is wrong."""
        spec = raw["spec"]
        pool = spec["pool"]
        devices = spec.get("devices") or []
        return cls(
            raw["metadata"]["name"],
            spec["driver"],
            pool["name"],
            int(pool.get("generation", 0)),
            int(pool.get("resourceSliceCount", 1)),
            {sys.intern(each["name"]): _repelling(each.get("taints") or ()) for each in devices},  # many have a gpu-0
            zlib.compress(json.dumps(devices, separators=(",", ":")).encode(), 1),
        )

    def devices(self) -> list[dict[str, Any]]:
        """Its devices, as the API sent them."""
        devices: list[dict[str, Any]] = json.loads(zlib.decompress(self.packed))
        return devices


def _repelling(taints: Iterable[Mapping[str, str]]) -> str:
    """The first taint that repels, as `key=value:effect`."""
    for taint in taints:
        if taint.get("effect") in REPELLING:
            value = f"={taint['value']}" if taint.get("value") else ""
            return f"{taint['key']}{value}:{taint['effect']}"
    return ""


@dataclass(frozen=True, slots=True)
class Published:
    """The devices of all pools, each with the taint that repels from it, "" if none does.

    None for a pool of which not all slices are there: it is being published anew, and what is absent proves nothing.
    """

    pools: Mapping[tuple[str, str], Mapping[str, str] | None]
    """By driver and name."""

    @classmethod
    def of(cls, slices: Iterable[SliceView]) -> Self:
        """Put the slices of each pool's newest generation together."""
        members: dict[tuple[str, str], list[SliceView]] = {}
        for each in newest(slices):
            members.setdefault((each.driver, each.pool), []).append(each)
        return cls({key: _whole(found) for key, found in members.items()})


def _whole(slices: list[SliceView]) -> Mapping[str, str] | None:
    if len(slices) < max(each.expected for each in slices):
        return None
    if len(slices) == 1:
        return slices[0].taints
    return {device: taint for each in slices for device, taint in each.taints.items()}


@dataclass(frozen=True, slots=True)
class ClassSelectors:
    """What a device must match, all of it, to be of a DeviceClass. A broken expression matches nothing.

    The API server stores none of those; it may store one that this version does not know.
    """

    compiled: tuple[Selector, ...]
    broken: bool = False

    @classmethod
    def of(cls, expressions: Iterable[str]) -> Self:
        """Compile `spec.selectors[].cel.expression`."""
        try:
            return cls(tuple(map(compile_selector, expressions)))
        except CompileError:
            return cls((), broken=True)

    def count(self, view: SliceView) -> int:
        """How many devices of a slice are of the class. One that the evaluation fails on cannot be allocated either."""
        return 0 if self.broken else sum(self._select(view.driver, device) for device in view.devices())

    def _select(self, driver: str, device: Mapping[str, Any]) -> bool:
        try:
            seen = DeviceView.of(driver, device)
            return all(selector.matches(seen).matched for selector in self.compiled)
        except (BadDevice, SelectorError):
            return False
