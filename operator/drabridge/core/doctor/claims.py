"""ResourceClaims in their lives: made, allocated, reserved, used, freed, deleted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drabridge.core.claims import LATE_AFTER, Waiting, next_step
from drabridge.core.doctor import links
from drabridge.core.doctor.findings import Finding, Severity, check, counted, listed
from drabridge.core.inventory.claims import ClaimRecord
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.pods import PodRecord
from drabridge.core.reasons import CURES, Reason
from drabridge.core.rewrite import CLAIM_NAME, our_claim

IDLE_AFTER: Final = 3600.0
"""Seconds after which a claim that is allocated and that nobody may use is worth a word."""

DRIVER_NVIDIA: Final = "kubernetes-sigs/dra-driver-nvidia-gpu"


def _active(cluster: Inventory) -> Iterator[tuple[PodRecord, str, ClaimRecord | None]]:
    """Each claim's name that a Pod which has not ended refers to, and the claim."""
    for pod in cluster.pods:
        if not pod.ended:
            for name in pod.claim_names:
                yield pod, name, cluster.claims_by_key.get(f"{pod.view.namespace}/{name}")


def _deletion(claim: ClaimRecord) -> str:
    return f"kubectl delete resourceclaim {claim.view.name} -n {claim.view.namespace}"


@check(
    "claim-stuck-deleting",
    Severity.ERROR,
    cure="if the node is gone for good: kubectl edit resourceclaim, and remove the finalizer",
    serves="pain 44: dra-driver-nvidia-gpu#725, zombie claims with the delete-protection finalizer",
    link=links.issue(725, DRIVER_NVIDIA),
    needs=(Kind.CLAIMS, Kind.PODS),
)
def claim_stuck_deleting(cluster: Inventory) -> Iterator[Finding]:
    """A claim is to be deleted, no Pod is left that may use it, and a finalizer keeps it."""
    for claim in cluster.claims:
        if claim.deleting and claim.finalizers and not _living_users(cluster, claim):
            names = ", ".join(reference.name for reference in claim.reserved)
            gone = f", reserved for {names}, gone" if names else ""
            yield Finding(claim.described, f"since {claim.deleting}, by {listed(claim.finalizers)}{gone}")


def _living_users(cluster: Inventory, claim: ClaimRecord) -> bool:
    uids = {reference.uid for reference in claim.reserved}
    users = [pod for uid in uids if (pod := cluster.pods_by_uid.get(uid))]
    users += cluster.users.get(claim.key, ())
    return any(not pod.ended for pod in users)


@check(
    "claim-outlives-pod",
    Severity.ERROR,
    cure="kubectl delete resourceclaim; its owner will not come back",
    serves="pain 45: kubernetes#132334, the controller misses what went while it was down",
    link=links.issue(132334),
    needs=(Kind.CLAIMS, Kind.PODS),
)
def claim_outlives_pod(cluster: Inventory) -> Iterator[Finding]:
    """A claim's Pod is gone, and the claim is still there and not being deleted."""
    for claim in cluster.claims:
        owner = claim.owner
        if owner and owner.kind == "Pod" and owner.uid not in cluster.pods_by_uid and not claim.deleting:
            held = f", it holds {counted(len(claim.results), 'device')}" if claim.results else ""
            yield Finding(
                claim.described, f"its owner is Pod {owner.name} with UID {owner.uid}{held}", _deletion(claim)
            )


@check(
    "claim-of-ended-pod",
    Severity.ERROR,
    cure="delete the Pod, or see why kube-controller-manager does not free its devices",
    serves="pain 8: kubernetes#134311, claims of completed Pods stay allocated; pain 46",
    link=links.issue(134311),
    needs=(Kind.CLAIMS, Kind.PODS),
)
def claim_of_ended_pod(cluster: Inventory) -> Iterator[Finding]:
    """All Pods that a claim is reserved for have ended, and its devices are still taken."""
    for claim in cluster.claims:
        pods = [cluster.pods_by_uid.get(reference.uid) for reference in claim.reserved]
        ended = [pod.key for pod in pods if pod and pod.ended]
        if claim.results and pods and len(ended) == len(pods):
            yield Finding(claim.described, f"{counted(len(claim.results), 'device')} for {listed(ended)}")


@check(
    "claim-idle",
    Severity.WARNING,
    cure="kubectl delete resourceclaim, if nobody is going to use it",
    serves="pain 53: KAI-Scheduler#1455, hand-made claims stay after the Job ends",
    link=links.issue(1455, "kai-scheduler/KAI-Scheduler"),
    needs=(Kind.CLAIMS,),
)
def claim_idle(cluster: Inventory) -> Iterator[Finding]:
    """A claim has had devices for more than an hour, and no Pod may use them."""
    for claim in cluster.claims:
        since = claim.allocated_at or claim.created
        if claim.results and not claim.reserved and not claim.deleting and cluster.age(since) > IDLE_AFTER:
            yield Finding(claim.described, f"{counted(len(claim.results), 'device')} since {since}", _deletion(claim))


@check(
    "claim-not-reserved",
    Severity.ERROR,
    cure="delete the Pod and use a scheduler that reserves claims, such as kube-scheduler",
    serves="pain 52: dranet#141, a Pod that is not allowed to use its claim; pain 56",
    link=links.issue(141, "google/dranet"),
    needs=(Kind.CLAIMS, Kind.PODS),
)
def claim_not_reserved(cluster: Inventory) -> Iterator[Finding]:
    """A Pod has a node, its claim has devices, but is not reserved for the Pod: the kubelet will refuse it."""
    for pod, _, claim in _active(cluster):
        if claim is None or claim.results is None or not pod.view.node_name:
            continue
        if pod.view.uid not in {reference.uid for reference in claim.reserved}:
            scheduler = pod.view.scheduler_name
            yield Finding(f"Pod {pod.key}", f"status.reservedFor of {claim.key} lacks it; its scheduler is {scheduler}")


@check(
    "claim-never-allocated",
    Severity.ERROR,
    cure="delete the Pod and create it again without spec.nodeName",
    serves="pain 54: kubernetes#114005, Pods that bypass the scheduler",
    link=links.issue(114005),
    needs=(Kind.CLAIMS, Kind.PODS),
)
def claim_never_allocated(cluster: Inventory) -> Iterator[Finding]:
    """A Pod has a node, and its claim has no devices: no scheduler will look at it any more."""
    for pod, _, claim in _active(cluster):
        if claim is not None and claim.results is None and pod.view.node_name and not pod.view.deleting:
            yield Finding(f"Pod {pod.key}", f"it is on {pod.view.node_name}, {claim.key} is not allocated")


@check(
    "template-missing",
    Severity.ERROR,
    cure="create the ResourceClaimTemplate again; the Pod goes on by itself",
    serves="pain 43: kubernetes#129362, a Pod hangs when its template was deleted",
    link=links.issue(129362),
    needs=(Kind.TEMPLATES, Kind.PODS),
)
def template_missing(cluster: Inventory) -> Iterator[Finding]:
    """A Pod waits for a claim from a ResourceClaimTemplate that does not exist."""
    templates = {template.key for template in cluster.templates}
    for pod in cluster.pods:
        for entry in pod.view.resource_claims if pod.waiting else ():
            key = f"{pod.view.namespace}/{entry.template_name}"
            if entry.template_name and entry.name not in pod.claims and key not in templates:
                yield Finding(f"Pod {pod.key}", f"ResourceClaimTemplate {key} does not exist")


@check(
    "named-claim-missing",
    Severity.ERROR,
    cure="create the ResourceClaim, or use a ResourceClaimTemplate, from which Kubernetes makes one",
    serves="trap: a Pod that names a claim waits for it in silence",
    link=links.ALLOCATION,
    needs=(Kind.CLAIMS, Kind.PODS),
)
def named_claim_missing(cluster: Inventory) -> Iterator[Finding]:
    """A Pod names a ResourceClaim that does not exist."""
    for pod in cluster.pods:
        for entry in pod.view.resource_claims if pod.waiting else ():
            key = f"{pod.view.namespace}/{entry.claim_name}"
            ours = entry.claim_name and CLAIM_NAME.fullmatch(entry.claim_name)
            if entry.claim_name and not ours and key not in cluster.claims_by_key:
                yield Finding(f"Pod {pod.key}", f"ResourceClaim {key} does not exist")


@check(
    "claim-late",
    Severity.ERROR,
    cure=CURES[Reason.CLAIM_LATE],
    serves="trap: drabridge makes the claims itself, so that its waiting must be visible",
    link=links.KEP_5004,
    needs=(Kind.CLAIMS, Kind.PODS, Kind.CLASSES, Kind.POLICIES),
)
def claim_late(cluster: Inventory) -> Iterator[Finding]:
    """A rewritten Pod still has no claim."""
    for pod in cluster.pods:
        if not pod.waiting or not our_claim(pod.view) or cluster.age(pod.view.created) <= LATE_AFTER:
            continue
        if cluster.own_claim(pod) is None:
            step = next_step(pod.view, None, cluster.cluster(pod.view.namespace))
            if isinstance(step, Waiting):
                yield Finding(f"Pod {pod.key}", f"{step.reason}: {step.detail}", CURES[step.reason])
            else:
                yield Finding(f"Pod {pod.key}", f"nothing keeps drabridge from making it, since {pod.view.created}")


@check(
    "claim-of-another-owner",
    Severity.ERROR,
    cure=CURES[Reason.CLAIM_FOREIGN],
    serves="trap: a claim under the name that a rewritten Pod waits for, made by somebody else",
    link=links.KEP_5004,
    needs=(Kind.CLAIMS, Kind.PODS),
)
def claim_of_another_owner(cluster: Inventory) -> Iterator[Finding]:
    """A rewritten Pod waits for a claim that exists and is not the Pod's."""
    for pod in cluster.pods:
        claim = cluster.own_claim(pod) if our_claim(pod.view) else None
        if claim and pod.waiting and claim.view.owner_uid != pod.view.uid and pod.asked:
            owner = f"{claim.owner.kind} {claim.owner.name}" if claim.owner else "nobody"
            yield Finding(f"Pod {pod.key}", f"{claim.key} is owned by {owner}")


@check(
    "pod-ends-without-claim",
    Severity.WARNING,
    cure="kubectl delete pod --grace-period=0 --force, once its containers are known to have ended",
    serves="pain 47: kubernetes#139772, a Pod hangs Terminating as its claim was never made",
    link=links.issue(139772),
    needs=(Kind.CLAIMS, Kind.PODS),
)
def pod_ends_without_claim(cluster: Inventory) -> Iterator[Finding]:
    """A Pod is to be deleted, is on a node, and its claim was never made, which the kubelet waits for."""
    for pod in cluster.pods:
        if pod.view.deleting and pod.view.node_name and not pod.ended:
            for entry in pod.view.resource_claims:
                if entry.template_name and entry.name not in pod.claims:
                    yield Finding(f"Pod {pod.key}", f"spec.resourceClaims entry {entry.name} has no claim")


@check(
    "claim-shared-by-replicas",
    Severity.WARNING,
    cure="use resourceClaimTemplateName, so that each Pod gets a claim of its own",
    serves="pain 40: kubevirt VEP-10, a named claim ties replicas to one node and one device",
    link=links.ALLOCATION,
    needs=(Kind.PODS,),
)
def claim_shared_by_replicas(cluster: Inventory) -> Iterator[Finding]:
    """Several Pods of one controller share a claim that they name: they must all be where its devices are."""
    for key, pods in sorted(cluster.users.items()):
        name = key.rpartition("/")[2]
        owners: dict[str, list[str]] = {}
        for pod in pods:
            if pod.view.owner and not pod.ended and any(entry.claim_name == name for entry in pod.view.resource_claims):
                owners.setdefault(f"{pod.view.owner.kind} {pod.view.owner.name}", []).append(pod.key)
        for owner, keys in owners.items():
            if len(keys) > 1:
                yield Finding(f"ResourceClaim {key}", f"{counted(len(keys), 'Pod')} of {owner}: {listed(keys)}")


@check(
    "special-claim-forged",
    Severity.WARNING,
    cure="delete the claim, if its author cannot say what it is for",
    serves="pain 85: kubernetes#135404, a faked annotation dodges quota; pain 15",
    link=links.issue(135404),
    needs=(Kind.CLAIMS, Kind.PODS),
)
def special_claim_forged(cluster: Inventory) -> Iterator[Finding]:
    """A claim says that kube-scheduler made it for a Pod's extended resources, and no Pod has it in its status."""
    for claim in cluster.claims:
        if claim.view.special and not claim.deleting:
            pod = cluster.pods_by_uid.get(claim.view.owner_uid)
            if not claim.view.owner_uid:
                yield Finding(claim.described, "it has no Pod as its controller")
            elif pod and pod.view.extended_claim != claim.view.name and pod.view.node_name:
                named = pod.view.extended_claim or "no claim"
                yield Finding(claim.described, f"its owner Pod {pod.key} names {named} in its status")


@check(
    "claim-status-two-writers",
    Severity.WARNING,
    cure="stop one of them; the resourceclaim controller of kube-controller-manager is the one to stay",
    serves="pain 48: kubernetes#138407, resourceClaimStatuses flaps between writers",
    link=links.issue(138407),
    needs=(Kind.PODS,),
)
def claim_status_two_writers(cluster: Inventory) -> Iterator[Finding]:
    """Two clients write status.resourceClaimStatuses of a Pod, each over the other one."""
    for pod in cluster.pods:
        if len(pod.claim_writers) > 1:
            yield Finding(f"Pod {pod.key}", listed(pod.claim_writers))


CHECKS = (
    claim_stuck_deleting,
    claim_outlives_pod,
    claim_of_ended_pod,
    claim_idle,
    claim_not_reserved,
    claim_never_allocated,
    template_missing,
    named_claim_missing,
    claim_late,
    claim_of_another_owner,
    pod_ends_without_claim,
    claim_shared_by_replicas,
    special_claim_forged,
    claim_status_two_writers,
)
