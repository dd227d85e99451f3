"""The devices that ResourceSlices publish, and how many of them a DeviceClass selects."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.selector import CompileError, Selector, SelectorError, compile_selector


@dataclass(frozen=True, slots=True)
class SliceView:
    """What drabridge keeps of a ResourceSlice.

    The devices are kept compressed: a cluster has tens of thousands, and they are looked at only when a slice or a
    class has changed.
    """

    name: str
    driver: str
    pool: str
    generation: int
    packed: bytes

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Read a ResourceSlice (resource.k8s.io/v1). Raises KeyError or TypeError where its shape is wrong."""
        spec = raw["spec"]
        pool = spec["pool"]
        return cls(
            raw["metadata"]["name"],
            spec["driver"],
            pool["name"],
            int(pool.get("generation", 0)),
            zlib.compress(json.dumps(spec.get("devices") or [], separators=(",", ":")).encode(), 1),
        )

    def devices(self) -> list[dict[str, Any]]:
        """Its devices, as the API sent them."""
        devices: list[dict[str, Any]] = json.loads(zlib.decompress(self.packed))
        return devices


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
