"""Which Pods are sent to the kube-scheduler that calls us: for their extended names, or for claims of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drabridge.core.auto import choose
from drabridge.core.cluster import ClusterView
from drabridge.core.podpatch import JSONPatch, set_labels
from drabridge.core.podview import PodView
from drabridge.core.policy import Delivery, PodsWithClaims, PolicyView
from drabridge.core.reasons import Reason
from drabridge.core.rewrite import DELIVERY_LABEL, Objection, object_to_pod


@dataclass(frozen=True, slots=True)
class ClaimAsk:
    """A claim of the Pod's own, or the template of one. `classes` are its DeviceClasses; None if it is not there."""

    described: str
    classes: frozenset[str] | None


def directed(pod: PodView, objections: Iterable[Objection], scheduler: str, *, rewritten: bool = False) -> JSONPatch:
    """Let the Pod go to `scheduler` if one of its names is served by Bind; nothing if none is.

    What is rewritten of such a Pod is allocated there as well. `rewritten`: its label says so already, and stays.
    """
    if not any(each.reason is Reason.BIND for each in objections):
        return []
    patch: JSONPatch = []
    if pod.scheduler_name != scheduler:
        patch.append({"op": "add", "path": "/spec/schedulerName", "value": scheduler})
    return patch if rewritten else patch + set_labels(pod, {DELIVERY_LABEL: Delivery.BIND.value})


def claiming(cluster: ClusterView) -> tuple[PolicyView, ...]:
    """The policies that want Pods with claims of their own, sorted by resource name."""
    return tuple(
        policy
        for name, policy in sorted(cluster.policies.items())
        if policy.with_claims is PodsWithClaims.BIND
        and (choice := choose(name, cluster)).delivery is Delivery.BIND
        and choice.reason is Reason.SERVING
    )


def object_to_claims(
    pod: PodView, asks: Iterable[ClaimAsk], cluster: ClusterView, drivers: Mapping[str, frozenset[str]]
) -> Objection | None:
    """Say of a Pod with claims whose they are: Reason.BIND sends it to our scheduler, another one says why it stays.

    None where nothing is to be said: no policy wants its claims. `drivers` is DeviceClass -> the drivers of its
    devices, for all classes of claims and policies; a class without devices is the same as itself only.
    """
    policies, asked = claiming(cluster), tuple(asks)
    wanted = [
        (ask, policy)
        for ask in asked
        for policy in policies
        if any(_same_allocator(each, policy.device_class, drivers) for each in ask.classes or ())
    ]
    if not wanted:
        missing = next((ask for ask in asked if ask.classes is None), None)
        if missing is None or not any(_selects(policy, pod, cluster) for policy in policies):
            return None
        return Objection(Reason.CLAIM_UNKNOWN, f"{pod.described}: {missing.described} does not exist")
    if objection := object_to_pod(pod, cluster):
        return objection
    if pod.grouped:
        return Objection(Reason.SCHEDULING_GROUP, f"{pod.described} has spec.schedulingGroup")
    for ask, policy in wanted:
        if _selects(policy, pod, cluster):
            detail = f"{ask.described} asks for devices that ExtendedResourcePolicy {policy.name} has bound"
            return Objection(Reason.BIND, detail)
    policy = wanted[0][1]
    return Objection(Reason.NOT_SELECTED, f"ExtendedResourcePolicy {policy.name} does not select {pod.described}")


def _same_allocator(one: str, other: str, drivers: Mapping[str, frozenset[str]]) -> bool:
    return one == other or not drivers.get(one, frozenset()).isdisjoint(drivers.get(other, frozenset()))


def _selects(policy: PolicyView, pod: PodView, cluster: ClusterView) -> bool:
    return policy.selects_namespace(cluster.namespace.labels) and policy.selects_pod(pod)
