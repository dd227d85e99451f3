"""Pods on their way to a node: schedulers, taints, and what else keeps devices from them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drabridge.core.auto import choose
from drabridge.core.doctor import links
from drabridge.core.doctor.findings import Finding, Severity, check, counted, listed
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.nodes import Taint, Toleration, untolerated
from drabridge.core.inventory.pods import PodRecord, version_of
from drabridge.core.inventory.workloads import WorkloadRecord
from drabridge.core.policy import Delivery
from drabridge.core.reasons import CURES, Reason
from drabridge.core.rewrite import ClaimNames, LeaveAlone, Rewrite, decide

SCHEDULERS: Final = {
    "volcano": "it does not reserve claims for Pods (volcano#5119)",
    "kai-scheduler": "it gives whole devices only, and has ignored shared counters (KAI-Scheduler#1938, #2100)",
    "slurm-bridge-scheduler": "it refuses Pods that bring claims",
}
"""Schedulers that are known to do something else with claims than kube-scheduler does."""

AUTOSCALERS: Final = ("cluster-autoscaler", "karpenter")
"""What is in the names of their Deployments."""

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
KUEUE_GATE: Final = "KueueDRAIntegrationExtendedResource"
KUEUE_SINCE: Final = (0, 19)
"""The first version of Kueue that has this gate on unless somebody turns it off."""

NO_NAME: Final = "drabridge-0000000000000000"
"""For decisions that are not carried out."""

TOLD_ELSEWHERE: Final = frozenset(
    {
        Reason.NATIVE,
        Reason.NOT_SERVED,
        Reason.OTHER_SCHEDULER,
        Reason.NODE_NAME_SET,
        Reason.MIRROR_POD,
        Reason.DEVICE_PLUGIN_PRESENT,
        Reason.TOO_MANY_DEVICES,
        Reason.LIMIT_RANGE,
        Reason.RESOURCE_QUOTA,
        Reason.QUOTA_PENDING,
    }
)
"""Reasons to leave a Pod alone that other checks speak of, or that are none to worry."""


def _has_claims(pod: PodRecord) -> bool:
    return bool(pod.view.resource_claims or pod.view.extended_claim)


@check(
    "scheduler-and-claims",
    Severity.WARNING,
    cure="use kube-scheduler for Pods with claims, or see that your version of the scheduler can do it",
    serves="pain 56: volcano#5119, a scheduler that does not write reservedFor; pain 91",
    link=links.issue(5119, "volcano-sh/volcano"),
    needs=(Kind.PODS,),
)
def scheduler_and_claims(cluster: Inventory) -> Iterator[Finding]:
    """Pods with claims use a scheduler that does not treat claims as kube-scheduler does."""
    pods: dict[str, list[str]] = {}
    for pod in cluster.pods:
        if not pod.ended and _has_claims(pod) and pod.view.scheduler_name in SCHEDULERS:
            pods.setdefault(pod.view.scheduler_name, []).append(pod.key)
    for scheduler, keys in sorted(pods.items()):
        seen = f"{SCHEDULERS[scheduler]}; {counted(len(keys), 'Pod')}: {listed(keys)}"
        yield Finding(f"scheduler {scheduler}", seen)


@check(
    "scheduler-not-listed",
    Severity.WARNING,
    cure=CURES[Reason.OTHER_SCHEDULER],
    serves="trap: only Pods of the listed schedulers are rewritten",
    link=links.KEP_5004,
    needs=(Kind.PODS, Kind.CLASSES, Kind.POLICIES),
)
def scheduler_not_listed(cluster: Inventory) -> Iterator[Finding]:
    """Pods wait that ask for a served name, and are left alone because of their scheduler."""
    pods: dict[str, set[str]] = {}
    for name, waiting in cluster.wanted.items():
        if name in cluster.rewritten:
            for pod in waiting:
                if pod.view.scheduler_name not in cluster.schedulers:
                    pods.setdefault(pod.view.scheduler_name, set()).add(pod.key)
    for scheduler, keys in sorted(pods.items()):
        yield Finding(f"scheduler {scheduler}", f"{counted(len(keys), 'Pod')} waiting: {listed(keys)}")


@check(
    "runs-without-devices",
    Severity.ERROR,
    cure="delete the Pod; without spec.nodeName, and with a kubelet that knows the feature, a new one gets its devices",
    serves="pain 0.2: the kubelet drops resources its node does not know, and the Pod starts without its device",
    link=links.KEP_5004,
    needs=(Kind.PODS, Kind.NODES),
)
def runs_without_devices(cluster: Inventory) -> Iterator[Finding]:
    """A Pod runs that asks for a resource which its node does not have, and it has no claim for it either."""
    for pod in cluster.pods:
        node = cluster.nodes_by_name.get(pod.view.node_name)
        if node is None or pod.view.phase != "Running" or pod.view.mirror:
            continue
        served = {use.resource for use in pod.uses}
        missing = {ask.resource for ask in pod.view.extended()} - served - node.allocatable.keys()
        if missing:
            yield Finding(f"Pod {pod.key}", f"node {node.name} has no {listed(missing)}")


@check(
    "node-name-set",
    Severity.WARNING,
    cure=CURES[Reason.NODE_NAME_SET],
    serves="pain 54: kubernetes#118209, Pods with spec.nodeName bypass the scheduler",
    link=links.issue(118209),
    needs=(Kind.PODS, Kind.CLASSES, Kind.POLICIES, Kind.NODES),
)
def node_name_set(cluster: Inventory) -> Iterator[Finding]:
    """A Pod names its node itself and asks for a name that only DRA serves: nobody allocates its devices."""
    for pod in cluster.pods:
        if not pod.view.node_name or pod.view.phase != "Pending" or "PodScheduled" in pod.view.conditions:
            continue
        for name in sorted({ask.resource for ask in pod.view.extended()}):
            if cluster.class_map.resolve(name) and pod.view.node_name not in cluster.plugin_nodes.get(name, ()):
                yield Finding(f"Pod {pod.key}", f"spec.nodeName is {pod.view.node_name}, it asks for {name}")
                break


@check(
    "taint-not-tolerated",
    Severity.ERROR,
    cure="add the toleration to the Pod",
    serves="pain 35: kubernetes#55839, Pods with claims do not get the toleration that Pods with the name got",
    link=links.TAINTS,
    needs=(Kind.PODS, Kind.NODES, Kind.SLICES, Kind.CLASSES, Kind.CLAIMS),
)
def taint_not_tolerated(cluster: Inventory) -> Iterator[Finding]:
    """A Pod waits, and all nodes with devices of the class that it needs have a taint that it does not tolerate."""
    known: dict[tuple[str, tuple[Toleration, ...]], Taint | None] = {}
    for pod in cluster.pods:
        for name in sorted(_classes(cluster, pod)) if pod.waiting else ():
            key = (name, pod.tolerations)
            if key not in known:
                known[key] = _common_taint(cluster, *key)
            if taint := known[key]:
                cure = f"add to spec.tolerations: {_toleration(taint)}"
                yield Finding(
                    f"Pod {pod.key}", f"nodes with devices of DeviceClass {name} have the taint {taint}", cure
                )
                break


def _toleration(taint: Taint) -> str:
    value = f"operator: Equal, value: {taint.value}" if taint.value else "operator: Exists"
    return f"{{key: {taint.key}, {value}, effect: {taint.effect}}}"


def _classes(cluster: Inventory, pod: PodRecord) -> set[str]:
    """The DeviceClasses of its claims, and those behind the names that it asks for and no plugin serves."""
    names = {ask.resource for ask in pod.view.extended()} - cluster.plugin_nodes.keys()
    found = {mapping.device_class for name in names if (mapping := cluster.class_map.resolve(name))}
    for claim_name in pod.claim_names:
        if claim := cluster.claims_by_key.get(f"{pod.view.namespace}/{claim_name}"):
            found.update(request.device_class for request in claim.requests if not request.alternative)
    return found


def _common_taint(cluster: Inventory, name: str, tolerations: tuple[Toleration, ...]) -> Taint | None:
    """A taint of one of these nodes, if each of them has one that is not tolerated."""
    selection = cluster.selections.get(name)
    names = {placed.node for placed in selection.devices} if selection else set()
    if not names or not names <= cluster.nodes_by_name.keys():
        return None
    taints = [untolerated(cluster.nodes_by_name[each].taints, tolerations) for each in sorted(names)]
    return taints[0] if all(taints) else None


@check(
    "daemonset-tolerates-other-value",
    Severity.WARNING,
    cure="write the taint's value into the toleration, or operator: Exists",
    serves="pain 36: k8s-device-plugin#1934, taint value true, toleration present, desired 0",
    link=links.issue(1934, "NVIDIA/k8s-device-plugin"),
    needs=(Kind.NODES, Kind.DAEMON_SETS),
)
def daemonset_tolerates_other_value(cluster: Inventory) -> Iterator[Finding]:
    """A DaemonSet tolerates a taint's key with another value than nodes have, and so does not run there."""
    taints = {taint for node in cluster.nodes for taint in node.taints if taint.value}
    for workload in cluster.workloads:
        for toleration in workload.tolerations if workload.kind == "DaemonSet" else ():
            for taint in sorted(taints, key=str):
                close = toleration.key == taint.key and toleration.effect in ("", taint.effect)
                if close and toleration.value != taint.value and untolerated([taint], workload.tolerations):
                    nodes = [node.name for node in cluster.nodes if taint in node.taints]
                    seen = f"it tolerates {toleration.key}={toleration.value}; {taint} is on {listed(nodes)}"
                    yield Finding(workload.described, seen)


@check(
    "runtime-class-of-plugin",
    Severity.INFO,
    cure="remove runtimeClassName: a DRA driver hands devices to containers by CDI",
    serves="pain 41: nvidia_gpu_exporter#518, runtimeClassName nvidia is wrong under CDI",
    link=links.RUNTIME_CLASSES,
    needs=(Kind.PODS,),
)
def runtime_class_of_plugin(cluster: Inventory) -> Iterator[Finding]:
    """Pods with claims still ask for the RuntimeClass that device plugins needed."""
    keys = [pod.key for pod in cluster.pods if not pod.ended and pod.runtime_class == "nvidia" and _has_claims(pod)]
    if keys:
        yield Finding("RuntimeClass nvidia", f"{counted(len(keys), 'Pod')}: {listed(keys)}")


@check(
    "extended-resource-of-pod",
    Severity.ERROR,
    cure="move it to the container that uses it",
    serves="pain 27: intel-device-plugins#2305, the API takes none in spec.resources",
    link=links.issue(2305, "intel/intel-device-plugins-for-kubernetes"),
    needs=(Kind.PODS,),
)
def extended_resource_of_pod(cluster: Inventory) -> Iterator[Finding]:
    """A Pod asks for an extended resource in spec.resources, which holds for the whole Pod and allows none."""
    for pod in cluster.pods:
        if pod.pod_level:
            yield Finding(f"Pod {pod.key}", f"spec.resources has {listed(pod.pod_level)}")


@check(
    "pod-missed",
    Severity.ERROR,
    cure=CURES[Reason.MISSED],
    serves="pain 84: kueue KEP-2941, classes that come after the Pod, webhooks that were away; pain 80",
    link=links.KEP_5004,
    needs=(Kind.PODS, Kind.CLASSES, Kind.POLICIES, Kind.NODES, Kind.MUTATING),
)
def pod_missed(cluster: Inventory) -> Iterator[Finding]:
    """A Pod waits that drabridge would rewrite now, and that was stored as it was."""
    for pod, verdict in _verdicts(cluster):
        if isinstance(verdict, Rewrite):
            names = {request.resource for request in verdict.asked.requests}
            yield Finding(f"Pod {pod.key}", f"created {pod.view.created}, it asks for {listed(names)}")


@check(
    "pod-left-alone",
    Severity.WARNING,
    cure="see the reason in docs/reasons.md",
    serves="trap: a Pod that is left alone for good reasons looks like one that was forgotten",
    link=links.KEP_5004,
    needs=(Kind.PODS, Kind.CLASSES, Kind.POLICIES, Kind.NODES, Kind.NAMESPACES),
)
def pod_left_alone(cluster: Inventory) -> Iterator[Finding]:
    """A Pod waits that drabridge leaves alone for something in the Pod or its policy."""
    for pod, verdict in _verdicts(cluster):
        for objection in verdict.left if isinstance(verdict, Rewrite) else verdict.objections:
            if objection.reason not in TOLD_ELSEWHERE:
                seen = f"{objection.reason}: {objection.detail}"
                yield Finding(f"Pod {pod.key}", seen, CURES[objection.reason])


def _verdicts(cluster: Inventory) -> Iterator[tuple[PodRecord, Rewrite | LeaveAlone]]:
    if cluster.bridged:
        for pod in cluster.pods:
            if pod.waiting and not pod.view.deleting and pod.view.extended():
                yield pod, decide(pod.view, cluster.cluster(pod.view.namespace), ClaimNames(NO_NAME))


@check(
    "autoscaler-blind",
    Severity.WARNING,
    cure="set delivery: Rewrite in a policy of the name: the claim is there while the Pod waits, and can be counted",
    serves="pain 93: karpenter#3231, the native claim exists only once the Pod is bound; pain 92",
    link=links.issue(3231, "kubernetes-sigs/karpenter"),
    needs=(Kind.PODS, Kind.DEPLOYMENTS, Kind.CLASSES, Kind.POLICIES),
)
def autoscaler_blind(cluster: Inventory) -> Iterator[Finding]:
    """Pods wait for devices that the native feature serves, and an autoscaler cannot see what they need."""
    scaler = next((each for each in cluster.workloads if _scales(each)), None)
    for name, pods in cluster.wanted.items() if scaler else ():
        served = cluster.class_map.resolve(name) and name not in cluster.plugin_nodes
        if served and scaler and choose(name, cluster.cluster_view).delivery is Delivery.NATIVE:
            seen = f"{scaler.described}; {counted(len(pods), 'Pod')} waiting: {listed(pod.key for pod in pods)}"
            yield Finding(f"resource name {name}", seen)


def _scales(workload: WorkloadRecord) -> bool:
    return workload.kind == "Deployment" and any(name in workload.name for name in AUTOSCALERS)


@check(
    "no-preemption",
    Severity.INFO,
    cure="end Pods of lower priority yourself",
    serves="pain 94: KEP-4981, no preemption for devices",
    link=links.PREEMPTION,
    needs=(Kind.PODS, Kind.CLAIMS, Kind.SLICES, Kind.CLASSES),
)
def no_preemption(cluster: Inventory) -> Iterator[Finding]:
    """A Pod waits for devices that Pods of lower priority have; kube-scheduler does not preempt for devices."""
    holders: dict[str, list[PodRecord]] = {}
    for pod in cluster.pods:
        if pod.view.node_name and not pod.ended:
            for name in _classes(cluster, pod):
                holders.setdefault(name, []).append(pod)
    for pods in holders.values():
        pods.sort(key=lambda each: each.priority)
    taken = {name for name in holders if _all_taken(cluster, name)}
    for pod in cluster.pods:
        for name in sorted(_classes(cluster, pod) & taken) if pod.waiting else ():
            if holders[name][0].priority < pod.priority:
                lowest = holders[name][0]
                seen = f"priority {pod.priority}; {lowest.key} with priority {lowest.priority} has devices of {name}"
                yield Finding(f"Pod {pod.key}", seen)
                break


def _all_taken(cluster: Inventory, name: str) -> bool:
    selection = cluster.selections.get(name)
    return selection is not None and all(placed.place in cluster.holders for placed in selection.devices)


@check(
    "kueue-does-not-count",
    Severity.WARNING,
    cure=f"upgrade Kueue to 0.19 or newer, and do not turn {KUEUE_GATE} off",
    serves="pain 88: kueue#10504, gate off and the quota is silently not enforced",
    link=links.issue(10504, "kubernetes-sigs/kueue"),
    needs=(Kind.PODS, Kind.DEPLOYMENTS, Kind.CLASSES, Kind.POLICIES),
)
def kueue_does_not_count(cluster: Inventory) -> Iterator[Finding]:
    """Queued Pods ask for names that DRA serves, and Kueue does not count the devices behind them."""
    kueue = next((each for each in cluster.workloads if each.runs("kueue")), None)
    if kueue is None or _counts_devices(kueue):
        return
    keys = [
        pod.key
        for name, pods in cluster.wanted.items()
        if cluster.class_map.resolve(name)
        for pod in pods
        if QUEUE_LABEL in pod.view.labels
    ]
    if keys:
        yield Finding(kueue.described, f"image {kueue.images[0]}; {counted(len(keys), 'Pod')}: {listed(keys)}")


def _counts_devices(kueue: WorkloadRecord) -> bool:
    gates = dict(pair.split("=", 1) for pair in kueue.option("--feature-gates").split(",") if "=" in pair)
    if KUEUE_GATE in gates:
        return gates[KUEUE_GATE] == "true"
    versions = [version_of(image.rpartition(":")[2]) for image in kueue.images]
    return any(version is None or version >= KUEUE_SINCE for version in versions)


CHECKS = (
    scheduler_and_claims,
    scheduler_not_listed,
    runs_without_devices,
    node_name_set,
    taint_not_tolerated,
    daemonset_tolerates_other_value,
    runtime_class_of_plugin,
    extended_resource_of_pod,
    pod_missed,
    pod_left_alone,
    autoscaler_blind,
    no_preemption,
    kueue_does_not_count,
)
