"""Which delivery serves a resource name.

Native needs four things at once: the API server's gate is on; kube-scheduler would take the same DeviceClass as we
do; every schedulable node's kubelet knows the feature (1.36; an older one starts the Pod without its devices and says
nothing); and all that has held for a while, because API servers of two versions run side by side during an upgrade.
Until then Pods are rewritten, which works with the gate on as well; so going back is immediate.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from drabridge.core.cluster import ClusterView, Gate
from drabridge.core.policy import Delivery
from drabridge.core.reasons import Reason

NATIVE_KUBELET = (1, 36)
"""The first kubelet version whose gate DRAExtendedResource is on by default."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The delivery of a name; `reason` and `detail` say why it is not Native, SERVING if there is nothing to say."""

    delivery: Delivery
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Hindrance:
    """Why kube-scheduler could not serve a name natively."""

    reason: Reason
    detail: str


def choose(name: str, cluster: ClusterView) -> Choice:
    """The delivery of `name` in this cluster, never `Delivery.AUTO`."""
    policy = cluster.policies.get(name)
    wish = policy.delivery if policy else Delivery.AUTO
    if wish is Delivery.OFF:
        return Choice(Delivery.OFF, Reason.POLICY_OFF, f"ExtendedResourcePolicy {policy.name}" if policy else "")
    if wish is Delivery.REWRITE:
        return Choice(Delivery.REWRITE, Reason.SERVING, "")
    if wish is Delivery.BIND:
        # Asked for by name, like Native below: what keeps it from working is said, and nothing else is done instead.
        bar = bind_hindrance_of(name, cluster)
        return Choice(Delivery.BIND, *((bar.reason, bar.detail) if bar else (Reason.SERVING, "")))
    hindrance = hindrance_of(name, cluster)
    if wish is Delivery.NATIVE:
        # Asked for by name: we step aside even where it cannot work, and the policy's status says so.
        return Choice(Delivery.NATIVE, *((hindrance.reason, hindrance.detail) if hindrance else (Reason.SERVING, "")))
    if hindrance:
        return Choice(Delivery.REWRITE, hindrance.reason, hindrance.detail)
    if name not in cluster.settled:
        return Choice(Delivery.REWRITE, Reason.SETTLING, f"kube-scheduler could serve {name} itself only since lately")
    return Choice(Delivery.NATIVE, Reason.SERVING, "")


def hindrance_of(name: str, cluster: ClusterView) -> Hindrance | None:
    """What keeps kube-scheduler from serving `name` as we would; None if nothing does."""
    if cluster.gate is Gate.UNKNOWN:
        return Hindrance(Reason.GATE_UNKNOWN, "the API server has not been asked for its gate yet")
    if cluster.gate is Gate.OFF:
        return Hindrance(Reason.GATE_OFF, "the API server drops DeviceClass.spec.extendedResourceName")
    ours, native = cluster.classes.resolve(name), cluster.classes.native(name)
    if ours is None or ours.device_class != native:
        return Hindrance(
            Reason.CLASS_DIFFERS,
            f"kube-scheduler would serve {name} by {native or 'no DeviceClass'},"
            f" drabridge by {ours.device_class if ours else 'none'}",
        )
    if old := cluster.nodes.old_kubelets:
        more = f" and {len(old) - 1} more" if len(old) > 1 else ""
        return Hindrance(Reason.KUBELET_TOO_OLD, f"node {old[0]}{more}")
    return None


def bind_hindrance_of(name: str, cluster: ClusterView) -> Hindrance | None:
    """What keeps Bind from serving `name`; None if nothing does.

    kube-scheduler leaves only names to its extender that lead it to some DeviceClass; to which one is ours to say.
    Nodes whose kubelet is too old are left out one by one.
    """
    if not cluster.bind_scheduler:
        return Hindrance(Reason.BIND_OFF, "drabridge runs without --extender-address")
    if cluster.gate is Gate.OFF:
        return Hindrance(Reason.GATE_OFF, "the API server drops Pod.status.extendedResourceClaimStatus")
    if cluster.classes.native(name) is None:
        return Hindrance(Reason.CLASS_DIFFERS, f"no DeviceClass declares {name} in spec.extendedResourceName")
    return None


def rewritten(names: Iterable[str], cluster: ClusterView) -> dict[str, str]:
    """Resource name -> DeviceClass, for those of `names` whose Pods are rewritten."""
    served = {}
    for name in names:
        mapping = cluster.classes.resolve(name)
        if mapping and choose(name, cluster).delivery is Delivery.REWRITE:
            served[name] = mapping.device_class
    return served


def kubelet_is_native(version: str) -> bool:
    """Whether a kubelet of this version (`status.nodeInfo.kubeletVersion`, like v1.36.2) serves native Pods.

    A version that cannot be read counts as too old: rewriting is the answer that is always right.
    """
    found = re.match(r"v?([0-9]{1,9})\.([0-9]{1,9})", version)
    return found is not None and (int(found[1]), int(found[2])) >= NATIVE_KUBELET
