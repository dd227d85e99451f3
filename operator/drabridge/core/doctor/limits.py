"""Limits of the API that a Pod, a claim or its users run into."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drabridge.core.claimspec import MAX_DEVICES, total
from drabridge.core.doctor import links
from drabridge.core.doctor.findings import Finding, Severity, check
from drabridge.core.inventory.claims import Request
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.podview import PodView
from drabridge.core.reasons import CURES, Reason
from drabridge.core.rewrite import QUANTITY_RULES, NameAsk, demands, object_to

REQUESTS_MAX: Final = 32
"""DeviceRequestsMaxSize: requests of one claim."""

CONSUMERS_MAX: Final = 256
"""ResourceClaimReservedForMaxSize: Pods that may use one claim."""


@check(
    "too-many-devices",
    Severity.ERROR,
    cure=CURES[Reason.TOO_MANY_DEVICES],
    serves="pain 14: KEP-5004 says 128, the API allows 32 devices a claim, and a Pod has one",
    link=links.KEP_5004,
    needs=(Kind.PODS, Kind.CLASSES, Kind.POLICIES),
)
def too_many_devices(cluster: Inventory) -> Iterator[Finding]:
    """A Pod asks for more devices by resource names than its one claim can hold."""
    for pod in cluster.pods:
        if pod.waiting and pod.view.extended():
            wanted = _devices(cluster, pod.view)
            if wanted > MAX_DEVICES:
                yield Finding(f"Pod {pod.key}", f"{wanted} devices in all its containers, more than {MAX_DEVICES}")


def _devices(cluster: Inventory, pod: PodView) -> int:
    """Devices that the Pod asks for by names which a DeviceClass serves and no device plugin does."""
    asks = pod.extended()
    served = [
        NameAsk(name, tuple(ask for ask in asks if ask.resource == name), settled=False)
        for name in sorted({ask.resource for ask in asks})
        if cluster.class_map.resolve(name) and name not in cluster.plugin_nodes
    ]
    readable = [ask for ask in served if object_to(pod, ask, cluster.cluster_view, QUANTITY_RULES) is None]
    wanted = demands(pod, readable)
    return sum(total(wanted, ask.resource) for ask in readable)


@check(
    "claim-asks-too-much",
    Severity.ERROR,
    cure="split the claim: 32 requests and 32 devices are the most that one can have",
    serves="pain 71: kubernetes#131662, the limit of devices a claim",
    link=links.issue(131662),
    needs=(Kind.CLAIMS,),
)
def claim_asks_too_much(cluster: Inventory) -> Iterator[Finding]:
    """A claim or template asks for more than a claim can hold; the scheduler reports an error for its Pod."""
    for claim in cluster.askers:
        devices = _least(claim.requests)
        names = {request.name.partition("/")[0] for request in claim.requests}
        if devices > MAX_DEVICES:
            yield Finding(claim.described, f"{devices} devices, more than {MAX_DEVICES}")
        elif len(names) > REQUESTS_MAX:
            yield Finding(claim.described, f"{len(names)} requests, more than {REQUESTS_MAX}")


def _least(requests: tuple[Request, ...]) -> int:
    """The fewest devices that satisfy all requests; "all devices" may be few."""
    counts: dict[str, int] = {}
    for request in requests:
        name = request.name.partition("/")[0]
        count = 1 if request.all_devices else request.count
        counts[name] = min(count, counts.get(name, count))
    return sum(counts.values())


@check(
    "claim-has-too-many-users",
    Severity.ERROR,
    cure="give each Pod a claim of its own, by a template",
    serves="pain 55: KEP-5729, at most 256 Pods may use one claim",
    link=links.ALLOCATION,
    needs=(Kind.PODS,),
)
def claim_has_too_many_users(cluster: Inventory) -> Iterator[Finding]:
    """More Pods want to use one claim than may."""
    for key, pods in sorted(cluster.users.items()):
        active = sum(not pod.ended for pod in pods)
        if active > CONSUMERS_MAX:
            yield Finding(f"ResourceClaim {key}", f"{active} Pods refer to it, {CONSUMERS_MAX} may use it")


CHECKS = (too_many_devices, claim_asks_too_much, claim_has_too_many_users)
