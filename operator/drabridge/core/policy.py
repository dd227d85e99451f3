"""What decisions read of an ExtendedResourcePolicy, and which of several policies counts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from drabridge.core.podview import PodView
from drabridge.core.selectors import LabelSelector


class Delivery(StrEnum):
    """Who makes the claim and who allocates (`spec.delivery`, `status.delivery`)."""

    AUTO = "Auto"
    """drabridge chooses for each name; never in a status."""

    REWRITE = "Rewrite"
    """drabridge rewrites the Pod at admission and creates the claim; kube-scheduler allocates it."""

    BIND = "Bind"
    """A kube-scheduler of ours schedules the Pod; drabridge allocates, as its extender, and makes the claim."""

    NATIVE = "Native"
    """kube-scheduler does both; drabridge watches."""

    OFF = "Off"
    """drabridge leaves the name alone."""


class Coexistence(StrEnum):
    """What happens while a device plugin serves the name as well (`spec.coexistence`)."""

    DEVICE_PLUGIN = "DevicePlugin"
    """Pods are left to the device plugin."""

    REWRITE = "Rewrite"
    """Pods are rewritten all the same; they cannot use the plugin's devices."""


class MissedPods(StrEnum):
    """What becomes of Pods that were stored without passing the webhook (`spec.missedPods`)."""

    REPORT = "Report"
    """They are told, by an event."""

    RECREATE = "Recreate"
    """They are deleted while they are pending, if a controller owns them, which makes new ones."""


class Strategy(StrEnum):
    """Which of several nodes and devices are taken, with delivery Bind (`spec.strategy`)."""

    FIRST_FIT = "FirstFit"
    """kube-scheduler's own scores alone choose the node; the first devices that fit are taken."""

    PACK = "Pack"
    """Nodes whose devices are in use most, so that whole nodes stay free."""

    SPREAD = "Spread"
    """Nodes whose devices are in use least."""


class PodsWithClaims(StrEnum):
    """Who schedules Pods that ask for the same drivers' devices by claims of their own (`spec.podsWithClaims`)."""

    LEAVE = "Leave"
    """The scheduler that they name."""

    BIND = "Bind"
    """The kube-scheduler of delivery Bind, so that one allocator gives away the devices of a driver."""


@dataclass(frozen=True, slots=True)
class PolicyView:
    """One ExtendedResourcePolicy. Selectors that are None select everything."""

    name: str
    uid: str
    created: str
    generation: int
    resource: str
    device_class: str
    delivery: Delivery
    coexistence: Coexistence
    namespaces: LabelSelector | None
    pods: LabelSelector | None
    missed: MissedPods = MissedPods.REPORT
    strategy: Strategy = Strategy.FIRST_FIT
    with_claims: PodsWithClaims = PodsWithClaims.LEAVE

    def selects_namespace(self, labels: Mapping[str, str]) -> bool:
        """Whether the policy is meant for a namespace with these labels."""
        return self.namespaces is None or self.namespaces.matches(labels)

    def selects_pod(self, pod: PodView) -> bool:
        """Whether the policy is meant for this Pod, by the Pod's labels alone."""
        return self.pods is None or self.pods.matches(pod.labels)


def effective(policies: Iterable[PolicyView]) -> dict[str, PolicyView]:
    """The policy that counts for each resource name: the oldest, then the one with the smaller name.

    The oldest wins so that a second policy cannot take over a name that is in use.
    """
    winners: dict[str, PolicyView] = {}
    for policy in sorted(policies, key=lambda each: (each.created, each.name)):
        winners.setdefault(policy.resource, policy)
    return winners
