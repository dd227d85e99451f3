"""ResourceQuotas and LimitRanges: caps that do not hold, and caps that hold up Pods."""

from __future__ import annotations

from collections.abc import Iterator

from drabridge.core.caps import DEVICES_SUFFIX, QuotaView
from drabridge.core.cluster import Gate
from drabridge.core.doctor import links
from drabridge.core.doctor.findings import Finding, Severity, check, counted, listed
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.quantity import Quantity
from drabridge.core.reasons import CURES, Reason
from drabridge.core.rewrite import our_claim


@check(
    "quota-cannot-be-kept",
    Severity.ERROR,
    cure=CURES[Reason.RESOURCE_QUOTA],
    serves="pain 81: a rewritten Pod does not carry the name that the tenant's quota counts",
    link=links.QUOTAS,
    needs=(Kind.QUOTAS, Kind.CLASSES, Kind.POLICIES),
)
def quota_cannot_be_kept(cluster: Inventory) -> Iterator[Finding]:
    """A quota caps a name in a way that drabridge cannot keep for rewritten Pods, so that it leaves them alone."""
    for namespace in sorted(cluster.quotas_of):
        for name, cap in sorted(cluster.cluster(namespace).namespace.caps.items()):
            if name in cluster.rewritten and cap.problem and not cap.pending:
                yield Finding(f"ResourceQuota {namespace}/{cap.quota}", f"requests.{name}: {cap.problem}")


@check(
    "quota-not-in-force",
    Severity.WARNING,
    cure="see whether drabridge runs, and its leader's log; Pods wait for their claims until then",
    serves="pain 81: the companion that keeps a cap must be there before claims are",
    link=links.QUOTAS,
    needs=(Kind.QUOTAS, Kind.CLASSES, Kind.POLICIES),
)
def quota_not_in_force(cluster: Inventory) -> Iterator[Finding]:
    """A quota caps a name, and the companion quota that keeps the cap for rewritten Pods is not in force."""
    for namespace in sorted(cluster.quotas_of):
        for name, cap in sorted(cluster.cluster(namespace).namespace.caps.items()):
            if name in cluster.rewritten and cap.pending:
                yield Finding(f"ResourceQuota {namespace}/{cap.quota}", f"requests.{name}: {cap.problem}")


@check(
    "quota-key-without-effect",
    Severity.WARNING,
    cure=CURES[Reason.QUOTA_KEY_DEAD],
    serves="trap: Kubernetes accepts a quota on example.com/gpu and counts nothing by it",
    link=links.QUOTAS,
    needs=(Kind.QUOTAS,),
)
def quota_key_without_effect(cluster: Inventory) -> Iterator[Finding]:
    """A quota names a resource without "requests.", by which Kubernetes counts nothing."""
    for quota in cluster.quotas:
        if quota.dead:
            yield Finding(f"ResourceQuota {quota.key}", f"spec.hard has {listed(quota.dead)}")


@check(
    "quota-bypassed-by-claims",
    Severity.WARNING,
    cure="cap the class as well: <class>.deviceclass.resource.k8s.io/devices in the same ResourceQuota",
    serves="pain 86: kubernetes#134210, one quota over both routes",
    link=links.issue(134210),
    needs=(Kind.QUOTAS, Kind.CLASSES, Kind.POLICIES),
)
def quota_bypassed_by_claims(cluster: Inventory) -> Iterator[Finding]:
    """A quota caps a name, and nothing caps claims of the DeviceClass behind it, which give the same devices."""
    for quota in cluster.quotas:
        for name in () if quota.stands_in else sorted(quota.capped):
            mapping = cluster.class_map.resolve(name)
            if mapping is None or name in cluster.rewritten or _counts_claims(cluster, name, mapping.device_class):
                continue
            key = f"{mapping.device_class}{DEVICES_SUFFIX}"
            if not any(key in each.devices for each in cluster.quotas_of[quota.namespace]):
                yield Finding(f"ResourceQuota {quota.key}", f"it caps requests.{name}, no quota there caps {key}")


def _counts_claims(cluster: Inventory, name: str, device_class: str) -> bool:
    """Whether the API server charges claims of the class to `requests.<name>` by itself: with the gate on."""
    return cluster.gate is Gate.ON and cluster.class_map.native(name) == device_class


@check(
    "quota-used-up",
    Severity.WARNING,
    cure="raise the quota, or end Pods that hold devices; the others go on by themselves",
    serves="pain 81: a third Pod is refused, and nobody sees by what",
    link=links.QUOTAS,
    needs=(Kind.QUOTAS, Kind.PODS, Kind.CLAIMS),
)
def quota_used_up(cluster: Inventory) -> Iterator[Finding]:
    """A quota on a DeviceClass' devices is used up while rewritten Pods of its namespace wait for their claims."""
    waiting: dict[str, list[str]] = {}
    for pod in cluster.pods:
        if pod.waiting and our_claim(pod.view) and cluster.own_claim(pod) is None:
            waiting.setdefault(pod.view.namespace, []).append(pod.key)
    for quota in cluster.quotas:
        for key in _used_up(quota) if quota.namespace in waiting else ():
            pods = waiting[quota.namespace]
            seen = f"{quota.used[key]} of {quota.enforced[key]} {key}; {counted(len(pods), 'Pod')}: {listed(pods)}"
            yield Finding(f"ResourceQuota {quota.key}", seen)


def _used_up(quota: QuotaView) -> list[str]:
    return [
        key
        for key, most in sorted(quota.enforced.items())
        if key in quota.used and Quantity.parse(quota.used[key]) >= Quantity.parse(most)
    ]


@check(
    "limit-range-refuses",
    Severity.ERROR,
    cure=CURES[Reason.LIMIT_RANGE],
    serves="trap: a LimitRange with min refuses each Pod that does not carry the name any more",
    link=links.LIMIT_RANGES,
    needs=(Kind.LIMIT_RANGES, Kind.CLASSES, Kind.POLICIES),
)
def limit_range_refuses(cluster: Inventory) -> Iterator[Finding]:
    """A LimitRange has min or maxLimitRequestRatio for a name whose Pods are rewritten, so that they are left alone."""
    for limit_range in cluster.limit_ranges:
        for name, limit in sorted(limit_range.limits.items()):
            if limit.refuses and name in cluster.rewritten:
                seen = f"it has {limit.refuses} for {name}"
                yield Finding(f"LimitRange {limit_range.namespace}/{limit_range.name}", seen)


CHECKS = (
    quota_cannot_be_kept,
    quota_not_in_force,
    quota_key_without_effect,
    quota_bypassed_by_claims,
    quota_used_up,
    limit_range_refuses,
)
