"""What a Pod asks for by extended names, and what of it a claim has to ask for on a node.

KEP-5004 chooses node by node: where a device plugin offers a name (allocatable above zero), NodeResourcesFit and the
plugin serve it; elsewhere DRA does. Names of one Pod may be split, one name on one node never is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Self

from drabridge.core.bind.podclaims import Refusal
from drabridge.core.claimspec import MAX_DEVICES, ClaimPlan, ContainerDemand, plan, total
from drabridge.core.cluster import ClusterView
from drabridge.core.podview import ContainerKind, PodView
from drabridge.core.policy import Delivery
from drabridge.core.quantity import Quantity
from drabridge.core.reasons import Reason


@dataclass(frozen=True, slots=True)
class Asking:
    """The extended resources of a Pod that DeviceClasses serve. `classes` is resource name -> DeviceClass."""

    containers: tuple[ContainerDemand, ...]
    classes: Mapping[str, str]

    @classmethod
    def of(cls, pod: PodView, cluster: ClusterView) -> Self | Refusal:
        """Read them off the Pod.

        Names that no DeviceClass serves are left out: kube-scheduler's own arithmetic decides about those. A served
        name that we may not serve refuses the Pod, because kube-scheduler would let it run without its devices.
        """
        counts: dict[int, dict[str, int]] = {}
        classes: dict[str, str] = {}
        for ask in pod.extended():
            mapping = cluster.classes.resolve(ask.resource)
            if mapping is None:
                continue
            if refusal := _barred(pod, ask.resource, cluster):
                return refusal
            count = _whole(ask.request)
            if count is None:
                return Refusal(Reason.NOT_WHOLE, f"{ask.path} is {ask.request}")
            if not mapping.present:
                detail = f"DeviceClass {mapping.device_class} for {ask.resource} does not exist"
                return Refusal(Reason.DEVICE_CLASS_MISSING, detail)
            classes[ask.resource] = mapping.device_class
            counts.setdefault(ask.container.index, {})[ask.resource] = count
        containers = tuple(
            ContainerDemand(
                name=container.name,
                short_lived=container.kind is ContainerKind.INIT,
                keys=container.request_keys,
                counts=counts.get(container.index, {}),
            )
            for container in pod.containers
        )
        return cls(containers, classes)

    @property
    def names(self) -> frozenset[str]:
        """The names asked for."""
        return frozenset(self.classes)

    @property
    def kind(self) -> Hashable:
        """Equal where the same is asked for: of the same classes, by containers alike."""
        asked = tuple((each.short_lived, each.keys, tuple(each.counts.items())) for each in self.containers)
        return asked, tuple(self.classes.items())

    @property
    def text(self) -> str:
        """The names and how much of each, for people."""
        return ", ".join(f"{name}: {total(self.containers, name)}" for name in sorted(self.classes))

    def plan(self, plugins: frozenset[str]) -> ClaimPlan | Refusal | None:
        """What the claim asks for where device plugins offer `plugins`; None if they offer all of it."""
        names = self.names - plugins
        if not names:
            return None
        demands = [
            ContainerDemand(
                each.name, each.short_lived, each.keys, {name: each.counts[name] for name in each.counts.keys() & names}
            )
            for each in self.containers
        ]
        found = plan(demands, self.classes)
        if found.devices > MAX_DEVICES:
            return Refusal(
                Reason.TOO_MANY_DEVICES, f"{found.devices} devices in all, a ResourceClaim holds {MAX_DEVICES}"
            )
        return found


def _barred(pod: PodView, resource: str, cluster: ClusterView) -> Refusal | None:
    policy = cluster.policies.get(resource)
    if policy is None:
        return None
    if policy.delivery is Delivery.OFF:
        return Refusal(Reason.POLICY_OFF, f"ExtendedResourcePolicy {policy.name}: spec.delivery is Off")
    if not (policy.selects_namespace(cluster.namespace.labels) and policy.selects_pod(pod)):
        return Refusal(Reason.NOT_SELECTED, f"ExtendedResourcePolicy {policy.name} does not select the Pod")
    return None


def _whole(text: str) -> int | None:
    try:
        count = Quantity.parse(text).as_int()
    except ValueError:
        return None
    return count if count is not None and count > 0 else None
