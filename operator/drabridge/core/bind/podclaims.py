"""The ResourceClaims of one Pod as Bind sees them: the special one that it makes, and those that the Pod names itself.

The profile of kube-scheduler that calls us runs without DynamicResources, so nobody else looks at any of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from drabridge.core.claims import MANAGED_BY, SPECIAL_CLAIM
from drabridge.core.claimspec import ClaimPlan, DeviceRequest
from drabridge.core.podview import PodView
from drabridge.core.reasons import Reason

Raw = Mapping[str, Any]

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
"""Keeps an allocated claim; the resourceclaim controller removes it with the allocation."""

CONSUMERS_MAX: Final = 256
"""Entries of `status.reservedFor` (ResourceClaimReservedForMaxSize)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a Pod cannot be placed: on one node, or, before any node is looked at, anywhere. For the event of the Pod."""

    reason: Reason
    detail: str

    @property
    def text(self) -> str:
        """What kube-scheduler shows. It groups nodes by it, so it names no node and no device."""
        return f"{self.reason}: {self.detail}"


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """What Bind keeps of a ResourceClaim. `spec`, `allocation` and `reserved` are as the API server has them."""

    namespace: str
    name: str
    uid: str
    version: str
    owner_uid: str
    """UID of the Pod that controls it; "" if none does."""

    special: bool
    ours: bool
    deleting: bool
    finalizers: tuple[str, ...]
    spec: Raw
    allocation: Raw | None
    reserved: tuple[Raw, ...]
    device_statuses: tuple[Raw, ...]
    allocated_by: str = ""
    """Who wrote the allocation, and when (RFC 3339), as the API server notes it; "" if there is none or it does not."""

    allocated_at: str = ""

    @property
    def key(self) -> str:
        """Namespace and name, "default/claim"."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a v1 ResourceClaim. Raises KeyError or TypeError where its shape is wrong."""
        metadata, status = raw["metadata"], raw.get("status") or {}
        owner = next(
            (
                each["uid"]
                for each in metadata.get("ownerReferences") or ()
                if each.get("controller") and (each["apiVersion"], each["kind"]) == ("v1", "Pod")
            ),
            "",
        )
        labels = metadata.get("labels") or {}
        writer = _allocator(metadata) if status.get("allocation") else {}
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata["uid"],
            version=metadata["resourceVersion"],
            owner_uid=owner,
            special=(metadata.get("annotations") or {}).get(SPECIAL_CLAIM) == "true",
            ours=all(labels.get(key) == value for key, value in MANAGED_BY.items()),
            deleting=metadata.get("deletionTimestamp") is not None,
            finalizers=tuple(metadata.get("finalizers") or ()),
            spec=raw["spec"],
            allocation=status.get("allocation"),
            reserved=tuple(status.get("reservedFor") or ()),
            device_statuses=tuple(status.get("devices") or ()),
            allocated_by=writer.get("manager", ""),
            allocated_at=writer.get("time", ""),
        )

    @property
    def drivers(self) -> frozenset[str]:
        """The drivers of the devices that are allocated to it."""
        results = ((self.allocation or {}).get("devices") or {}).get("results") or ()
        return frozenset(each["driver"] for each in results)

    def is_reserved_for(self, pod_uid: str) -> bool:
        """Whether that Pod may use it."""
        return any(consumer.get("uid") == pod_uid for consumer in self.reserved)

    def is_held_by_alone(self, pod_uid: str) -> bool:
        """Whether it is allocated for that Pod and for nobody else."""
        return self.allocation is not None and [consumer.get("uid") for consumer in self.reserved] == [pod_uid]

    def raw(self) -> dict[str, Any]:
        """What an allocator reads of it."""
        return {"metadata": {"namespace": self.namespace, "name": self.name}, "spec": self.spec}


def _allocator(metadata: Raw) -> Raw:
    """The entry of managedFields that owns `status.allocation`; empty if somebody has removed it."""
    for entry in metadata.get("managedFields") or ():
        if "f:allocation" in ((entry.get("fieldsV1") or {}).get("f:status") or {}):
            found: Raw = entry
            return found
    return {}


def special_name(pod_uid: str) -> str:
    """The name of the claim that Bind makes for a Pod.

    Always the same, so that a create whose answer was lost can be repeated; the kubelet reads the name from the Pod's
    status only.
    """
    return f"extended-resources-{pod_uid}"


def special_body(pod: PodView, plan: ClaimPlan) -> dict[str, Any]:
    """The special claim of a Pod (KEP-5004, "Resource Claim"), with the finalizer that an allocated claim has to have.

    `blockOwnerDeletion` stays unset, as it does for kube-scheduler: it would ask for rights on the Pod's finalizers.
    """
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": special_name(pod.uid),
            "namespace": pod.namespace,
            "labels": dict(MANAGED_BY),
            "annotations": {SPECIAL_CLAIM: "true"},
            "finalizers": [FINALIZER],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
            ],
        },
        "spec": {"devices": {"requests": requests_of(plan.requests)}},
    }


def requests_of(requests: Iterable[DeviceRequest]) -> list[dict[str, Any]]:
    """`spec.devices.requests` of a claim."""
    return [
        {
            "name": request.name,
            "exactly": {
                "deviceClassName": request.device_class,
                "allocationMode": "ExactCount",
                "count": request.count,
            },
        }
        for request in requests
    ]


def claims_of(
    pod: PodView, made: Mapping[str, str | None], lookup: Callable[[str], ClaimRecord | None]
) -> tuple[ClaimRecord, ...] | Refusal:
    """The claims that the Pod names, each once, in order; or why it has to wait for one of them.

    `made` is `status.resourceClaimStatuses`: entry -> the claim that was made of its template (None: it needs none).
    `lookup` finds a claim by namespace/name.
    """
    found: dict[str, ClaimRecord] = {}
    for entry in pod.resource_claims:
        if entry.claim_name is None and entry.name not in made:
            return Refusal(Reason.CLAIM_AWAITED, f"the claim of spec.resourceClaims[{entry.name}] is not made yet")
        name = entry.claim_name or made.get(entry.name)
        if name is None:
            continue
        record = lookup(f"{pod.namespace}/{name}")
        if record is None:
            return Refusal(Reason.CLAIM_AWAITED, f"ResourceClaim {pod.namespace}/{name} does not exist")
        if entry.claim_name is None and record.owner_uid != pod.uid:
            return Refusal(Reason.CLAIM_FOREIGN, f"ResourceClaim {record.key} was not made for {pod.described}")
        if refusal := _unusable(record, pod):
            return refusal
        found[record.key] = record
    return tuple(found.values())


def _unusable(record: ClaimRecord, pod: PodView) -> Refusal | None:
    if record.deleting:
        return Refusal(Reason.CLAIM_AWAITED, f"ResourceClaim {record.key} is being deleted")
    if record.special:
        return Refusal(Reason.CLAIM_FOREIGN, f"ResourceClaim {record.key} is one for extended resources")
    if len(record.reserved) >= CONSUMERS_MAX and not record.is_reserved_for(pod.uid):
        return Refusal(Reason.CLAIM_FULL, f"ResourceClaim {record.key} has {CONSUMERS_MAX} consumers already")
    return None


def leftovers(pod_uid: str, special: ClaimRecord | None, claims: Iterable[ClaimRecord]) -> tuple[ClaimRecord, ...]:
    """What earlier tries to bind a Pod have left, and no other Pod uses. The Pod must not be bound."""
    held = tuple(claim for claim in claims if claim.is_held_by_alone(pod_uid))
    return held if special is None or special.owner_uid != pod_uid else (special, *held)


def template_claims(raw_pod: Raw) -> dict[str, str | None]:
    """`status.resourceClaimStatuses` of a v1 Pod: entry -> claim."""
    statuses = (raw_pod.get("status") or {}).get("resourceClaimStatuses") or ()
    return {each["name"]: each.get("resourceClaimName") for each in statuses}
