"""LimitRanges and ResourceQuotas that name an extended resource: what of them a rewrite can keep, and how.

LimitRange. Its validating pass wants the name on every container: with `max` any quantity up to it, with `min` at least
that, with `maxLimitRequestRatio` more than nothing. A rewritten Pod can keep the name with quantity 0, which neither
scheduler nor kubelet look at, so `max` and defaults can be lived with, and the caps themselves are held by us; the
other two cannot.

ResourceQuota. `requests.<name>` counts what Pods ask for, and rewritten Pods ask for nothing. Their claims are counted
by `<class>.deviceclass.resource.k8s.io/devices`, so a companion quota of ours with that key keeps the cap.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from drabridge.core.names import is_extended
from drabridge.core.quantity import Quantity

COMPANION_OF = "drabridge.io/companion-of"
"""Label on a companion quota: the UID of the quota that it stands in for."""

COMPANION_PREFIX = "drabridge-"
DEVICES_SUFFIX = ".deviceclass.resource.k8s.io/devices"
NAME_MAX = 253

COUNTED = re.compile(r"^count/|\.(deviceclass\.resource|storageclass\.storage)\.k8s\.io/")
"""Keys of quotas that look like extended resources, and that the API server counts something by (pkg/quota/v1)."""


@dataclass(frozen=True, slots=True)
class Max:
    """The `max` that a LimitRange has for one resource."""

    quantity: Quantity
    limit_range: str


@dataclass(frozen=True, slots=True)
class Limit:
    """What LimitRanges say of one resource.

    `refuses` is a field that no rewritten Pod can satisfy, in the LimitRange `refused_by`; both empty if there is none.
    """

    refuses: str = ""
    refused_by: str = ""
    container_max: Max | None = None
    pod_max: Max | None = None


@dataclass(frozen=True, slots=True)
class LimitRangeView:
    """A LimitRange: the extended resources that it names."""

    namespace: str
    name: str
    limits: Mapping[str, Limit]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "LimitRangeView":
        """Read a LimitRange. Limits of other types than Container and Pod do not concern Pods."""
        namespace, name = raw["metadata"]["namespace"], raw["metadata"]["name"]
        found: dict[str, Limit] = {}
        for item in raw["spec"].get("limits") or ():  # it may be stored without any, and is shown as null then
            if item.get("type") in ("Container", "Pod"):
                for resource in {key for field in _FIELDS for key in item.get(field) or ()}:
                    if is_extended(resource):
                        limit = _limit(name, item, resource)
                        found[resource] = stricter(found[resource], limit) if resource in found else limit
        return cls(namespace, name, found)


_FIELDS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _limit(name: str, item: Mapping[str, Any], resource: str) -> Limit:
    refuses = ""
    if resource in (item.get("maxLimitRequestRatio") or ()):
        refuses = "maxLimitRequestRatio"
    least = (item.get("min") or {}).get(resource)
    if least is not None and Quantity.parse(str(least)).mantissa:
        refuses = "min"
    cap = (item.get("max") or {}).get(resource)
    most = None if cap is None else Max(Quantity.parse(str(cap)), name)
    container = item["type"] == "Container"
    return Limit(refuses, name if refuses else "", most if container else None, None if container else most)


def stricter(one: Limit, other: Limit) -> Limit:
    """Both at once."""
    refusing = one if one.refuses else other
    return Limit(
        refuses=refusing.refuses,
        refused_by=refusing.refused_by,
        container_max=_least(one.container_max, other.container_max),
        pod_max=_least(one.pod_max, other.pod_max),
    )


def _least(one: Max | None, other: Max | None) -> Max | None:
    caps = (each for each in (one, other) if each is not None)
    return min(caps, key=lambda each: (each.quantity, each.limit_range), default=None)


@dataclass(frozen=True, slots=True)
class QuotaView:
    """A ResourceQuota.

    `capped` is extended resource -> spec.hard of `requests.<name>`; `dead` are names in spec.hard that the API server
    never counts (without `requests.`); `devices` and `enforced` are the keys of DeviceClasses in spec.hard and in
    status.hard, which is what admission goes by. `used` changes when something was given back.
    """

    namespace: str
    name: str
    uid: str
    companion_of: str
    scoped: bool
    capped: Mapping[str, str]
    dead: frozenset[str]
    devices: Mapping[str, str]
    enforced: Mapping[str, str]
    used: Mapping[str, str]

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def stands_in(self) -> bool:
        """Whether this is a companion, which needs none itself whatever somebody added to it."""
        return bool(self.companion_of) and self.name.startswith(COMPANION_PREFIX)

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "QuotaView":
        """Read a ResourceQuota."""
        metadata, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
        hard = spec.get("hard") or {}
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata.get("uid", ""),  # a manifest has none
            companion_of=metadata.get("labels", {}).get(COMPANION_OF, ""),
            scoped=bool(spec.get("scopes") or spec.get("scopeSelector")),
            capped={
                name: str(value)
                for key, value in hard.items()
                if key.startswith("requests.") and is_extended(name := key.removeprefix("requests."))
            },
            dead=frozenset(key for key in hard if is_extended(key) and not COUNTED.search(key)),
            devices=_devices(hard),
            enforced=_devices(status.get("hard") or {}),
            used=_devices(status.get("used") or {}),
        )


def _devices(quantities: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(value) for key, value in quantities.items() if key.endswith(DEVICES_SUFFIX)}


@dataclass(frozen=True, slots=True)
class Cap:
    """What stands in the way of serving one name in a namespace with a quota; `problem` is empty if nothing does.

    A `pending` problem goes away by itself: Pods are rewritten, and wait for their claims until it has.
    """

    quota: str
    problem: str = ""
    pending: bool = False


def companion_name(quota: QuotaView) -> str:
    """The name of a quota's companion."""
    return (COMPANION_PREFIX + quota.name)[:NAME_MAX].rstrip("-.")


def companion_hard(quota: QuotaView, served: Mapping[str, str]) -> dict[str, str]:
    """spec.hard of a quota's companion; `served` is resource name -> DeviceClass of the names drabridge rewrites.

    Empty where the quota names none of them, or where it cannot be mirrored (`problem_of`).
    """
    if quota.scoped or quota.stands_in:
        return {}
    return {
        f"{served[name]}{DEVICES_SUFFIX}": value
        for name, value in sorted(quota.capped.items())
        if name in served and not problem_of(quota, name, served)
    }


def problem_of(quota: QuotaView, name: str, served: Mapping[str, str]) -> str:
    """Why the cap of `name` cannot be kept by a companion; empty if it can."""
    if quota.scoped:
        return "it has scopes, which claims do not have"
    others = sorted(each for each in quota.capped if each != name and served.get(each) == served[name])
    if others:
        return f"it caps {others[0]} as well, which the same DeviceClass {served[name]} serves"
    if Quantity.parse(quota.capped[name]).as_int() is None:
        return f"its cap of {quota.capped[name]} is not whole, and devices are"
    return ""


def is_companion(other: QuotaView, quota: QuotaView) -> bool:
    """Whether `other` is the companion of `quota`: by name and label, since anybody can write one of them by chance."""
    return other.companion_of == quota.uid and other.name == companion_name(quota)


def caps_of(quotas: Iterable[QuotaView], served: Mapping[str, str]) -> dict[str, Cap]:
    """Resource name -> what the quotas of one namespace mean for serving it. A cap without a problem is in force."""
    by_name = {quota.name: quota for quota in quotas}
    caps: dict[str, Cap] = {}
    for quota in sorted(by_name.values(), key=lambda each: each.name):
        for name in () if quota.stands_in else quota.capped:
            cap = _cap(quota, name, served, by_name.get(companion_name(quota))) if name in served else Cap(quota.name)
            if name not in caps or _weight(cap) > _weight(caps[name]):
                caps[name] = cap
    return caps


def _weight(cap: Cap) -> int:
    """What keeps Pods from being rewritten counts more than what only has them wait."""
    return 0 if not cap.problem else 1 if cap.pending else 2


def _cap(quota: QuotaView, name: str, served: Mapping[str, str], named: QuotaView | None) -> Cap:
    """`named` is the quota under the companion's name, whoever made it."""
    if problem := problem_of(quota, name, served):
        return Cap(quota.name, problem)
    if named is not None and not is_companion(named, quota):
        return Cap(quota.name, f"the name of its companion, {named.name}, belongs to another ResourceQuota")
    if not _in_force(quota, name, served, named):
        return Cap(quota.name, "its companion quota is not in force yet", pending=True)
    return Cap(quota.name)


def _in_force(quota: QuotaView, name: str, served: Mapping[str, str], companion: QuotaView | None) -> bool:
    """Whether the API server enforces the companion's cap: it goes by status.hard, which is written a moment later."""
    enforced = companion.enforced.get(f"{served[name]}{DEVICES_SUFFIX}") if companion else None
    return enforced is not None and Quantity.parse(enforced) == Quantity.parse(quota.capped[name])
