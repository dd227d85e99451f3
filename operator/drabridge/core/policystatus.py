"""The status of an ExtendedResourcePolicy: whether the name is served, how, and how much of it is in use."""

from collections.abc import Iterable, Mapping
from typing import Any

from drabridge.core.auto import choose
from drabridge.core.bind import allocators
from drabridge.core.bind.allocators import Allocators
from drabridge.core.cluster import ClusterView
from drabridge.core.policy import Coexistence, Delivery, PolicyView
from drabridge.core.reasons import Reason, with_cure
from drabridge.core.usage import Usage


def status_of(
    policy: PolicyView,
    cluster: ClusterView,
    usage: Usage,
    total: int,
    conditions: Iterable[Mapping[str, Any]],
    now: str,
    others: Allocators | None = None,
) -> dict[str, Any]:
    """The status to be shown.

    `total` counts the devices of the policy's class; `conditions` are those shown until now; `now` is RFC 3339.
    `others` is who else allocates at its drivers, None while that is not known: then what was shown stays.
    lastTransitionTime moves only when a condition's status does (API conventions, "Typical status properties").
    """
    former = {str(each.get("type")): each for each in conditions}
    verdicts = {"Ready": _ready(policy, cluster)}
    delivery = choose(policy.resource, cluster).delivery
    if delivery is Delivery.BIND and others is not None:
        verdicts[allocators.CONDITION] = allocators.verdict(others)
    shown = [_condition(type_, verdict, policy, former.get(type_, {}), now) for type_, verdict in verdicts.items()]
    if delivery is Delivery.BIND and others is None and allocators.CONDITION in former:
        shown.append(dict(former[allocators.CONDITION]))
    return {
        "observedGeneration": policy.generation,
        "conditions": shown,
        "delivery": delivery.value,
        "pods": usage.pods,
        "claims": usage.claims,
        "devices": {"total": total, "allocated": usage.allocated},
    }


def _condition(
    type_: str, verdict: tuple[bool, Reason, str], policy: PolicyView, former: Mapping[str, Any], now: str
) -> dict[str, Any]:
    good, reason, message = verdict
    status = "True" if good else "False"
    return {
        "type": type_,
        "status": status,
        "reason": reason.value,
        "message": message,
        "observedGeneration": policy.generation,
        "lastTransitionTime": former.get("lastTransitionTime", now) if former.get("status") == status else now,
    }


def _ready(policy: PolicyView, cluster: ClusterView) -> tuple[bool, Reason, str]:
    for reason, detail in _hindrances(policy, cluster):
        return False, reason, with_cure(detail, reason)
    mapping = cluster.classes.resolve(policy.resource)
    if mapping and mapping.losers:
        # The policy names its class, so nothing is in doubt; without the policy it would be.
        detail = (
            f"DeviceClass {', '.join(mapping.losers)} declares {policy.resource} as well; the policy's class is used"
        )
        return True, Reason.NAME_COLLISION, with_cure(detail, Reason.NAME_COLLISION)
    choice = choose(policy.resource, cluster)
    how = f"{policy.resource} is served by DeviceClass {policy.device_class}, delivery {choice.delivery}"
    why = f"; not natively: {choice.detail}" if _auto_rewrites(policy, choice.delivery) else ""
    return True, Reason.SERVING, f"{how}{why}."


def _hindrances(policy: PolicyView, cluster: ClusterView) -> Iterable[tuple[Reason, str]]:
    """What keeps the policy from doing what it says, the weightiest first."""
    winner = cluster.policies.get(policy.resource)
    if winner and winner.name != policy.name:
        yield Reason.NAME_SHADOWED, f"ExtendedResourcePolicy {winner.name} is older and serves {policy.resource}"
    if policy.delivery is Delivery.OFF:
        yield Reason.POLICY_OFF, "spec.delivery is Off"
    mapping = cluster.classes.resolve(policy.resource)
    if mapping is None or not mapping.present:
        yield Reason.DEVICE_CLASS_MISSING, f"DeviceClass {policy.device_class} (spec.devices[0]) does not exist"
    choice = choose(policy.resource, cluster)
    if policy.delivery in (Delivery.NATIVE, Delivery.BIND) and choice.reason is not Reason.SERVING:
        yield choice.reason, choice.detail
    node = cluster.nodes.plugins.get(policy.resource)
    if node and policy.coexistence is Coexistence.DEVICE_PLUGIN and choice.delivery is Delivery.REWRITE:
        yield Reason.DEVICE_PLUGIN_PRESENT, f"node {node} has {policy.resource} in status.allocatable"


def _auto_rewrites(policy: PolicyView, delivery: Delivery) -> bool:
    return policy.delivery is Delivery.AUTO and delivery is Delivery.REWRITE
