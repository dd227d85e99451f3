"""DeviceTaintRules: taints that an administrator puts on devices from outside of their ResourceSlices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self


class Rule(Protocol):
    """A DeviceTaintRule, however it was read."""

    @property
    def body(self) -> Mapping[str, Any]:
        """The taint, as in a ResourceSlice."""

    def selects(self, driver: str, pool: str, device: str) -> bool:
        """Whether the device gets the taint."""


Selector = tuple[str | None, str | None, str | None] | None
"""Driver, pool and device, each None for any; None for no selector."""


def selects(selector: Selector, driver: str, pool: str, device: str) -> bool:
    """Whether a rule with this selector is for the device.

    The empty selector matches all devices; without a selector none is matched (DeviceTaintRuleSpec.deviceSelector).
    """
    if selector is None:
        return False
    return all(want in (None, have) for want, have in zip(selector, (driver, pool, device), strict=True))


@dataclass(frozen=True, slots=True)
class TaintRule:
    """A rule as the API server gives it."""

    name: str
    selector: Selector
    body: Mapping[str, Any]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Read a DeviceTaintRule (resource.k8s.io/v1). Raises KeyError or TypeError where its shape is wrong."""
        spec = raw["spec"]
        selector = spec.get("deviceSelector")
        wanted = None if selector is None else (selector.get("driver"), selector.get("pool"), selector.get("device"))
        return cls(raw["metadata"]["name"], wanted, spec["taint"])

    def selects(self, driver: str, pool: str, device: str) -> bool:
        """Whether the device gets the taint."""
        return selects(self.selector, driver, pool, device)


def tainted(slice_: Mapping[str, Any], rules: Sequence[Rule]) -> Mapping[str, Any]:
    """A ResourceSlice as it is with the taints of the rules on its devices; the same object if there are none."""
    if not rules:
        return slice_
    spec = slice_.get("spec") or {}
    driver, pool = spec.get("driver", ""), (spec.get("pool") or {}).get("name", "")
    devices, changed = [], False
    for device in spec.get("devices") or ():
        taints = [rule.body for rule in rules if rule.selects(driver, pool, device.get("name", ""))]
        changed = changed or bool(taints)
        devices.append({**device, "taints": [*(device.get("taints") or ()), *taints]} if taints else device)
    return {**slice_, "spec": {**spec, "devices": devices}} if changed else slice_
