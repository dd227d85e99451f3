"""What the writes of a bind say, and how each of them is taken back.

    create claim --> claim status --> (statuses of the Pod's other claims) --> Pod status --> binding

Until the binding is done the Pod is nobody's, so every write before it can be taken back; once it may have been done,
nothing is taken back before the Pod has been looked at and changed (`fence`), which makes a late binding fail.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drabridge.core.asked import Asked
from drabridge.core.bind.podclaims import FINALIZER, ClaimRecord, Raw, special_name
from drabridge.core.claims import ALLOCATION_MAX_BYTES, CONDITION, DeviceResult, allocation_of, in_devices
from drabridge.core.claimspec import ClaimPlan
from drabridge.core.conditions import pod_condition
from drabridge.core.podview import PodView
from drabridge.core.reasons import Reason
from drabridge.core.rewrite import ALLOCATION, ANNOTATIONS_MAX


@dataclass(frozen=True, slots=True)
class Share:
    """A claim that the Pod names. `allocation` is what it is to get; None if it has one and is only to be reserved."""

    claim: ClaimRecord
    allocation: Raw | None


@dataclass(frozen=True, slots=True)
class Special:
    """The claim that is to be made for the Pod's extended resources."""

    body: Raw
    plan: ClaimPlan
    allocation: Raw


@dataclass(frozen=True, slots=True)
class Placement:
    """All that binding a Pod to a node needs. A plain Pod has neither `special` nor `shares`."""

    node: str
    special: Special | None
    shares: tuple[Share, ...]

    @property
    def is_plain(self) -> bool:
        """Whether the Pod uses no claims at all."""
        return self.special is None and not self.shares


def consumer(pod: PodView) -> dict[str, str]:
    """The Pod as an entry of `status.reservedFor`."""
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}


def reserved_status(record: ClaimRecord, pod: PodView, allocation: Raw | None) -> dict[str, Any]:
    """The status, as a merge patch on condition of `record`, with the Pod as one more consumer, and an allocation."""
    reserved = [each for each in record.reserved if each.get("uid") != pod.uid]
    status: dict[str, Any] = {"reservedFor": [*reserved, consumer(pod)]}
    if allocation is not None:
        status["allocation"] = allocation
    return {"metadata": {"resourceVersion": record.version, "uid": record.uid}, "status": status}


def finalized(record: ClaimRecord) -> dict[str, Any] | None:
    """The merge patch that gives a claim the finalizer; None if it has it."""
    if FINALIZER in record.finalizers:
        return None
    metadata = {"resourceVersion": record.version, "uid": record.uid, "finalizers": [*record.finalizers, FINALIZER]}
    return {"metadata": metadata}


def unfinalized(record: ClaimRecord) -> dict[str, Any] | None:
    """The merge patch that takes the finalizer away; None if it is not there."""
    if FINALIZER not in record.finalizers:
        return None
    rest = [each for each in record.finalizers if each != FINALIZER]
    return {"metadata": {"resourceVersion": record.version, "uid": record.uid, "finalizers": rest or None}}


def released_status(record: ClaimRecord, pod_uid: str) -> dict[str, Any] | None:
    """The merge patch of the status that takes back what one Pod has of a claim; None if it has nothing.

    The last consumer takes the allocation with it, as the resourceclaim controller does it.
    """
    rest = [each for each in record.reserved if each.get("uid") != pod_uid]
    if len(rest) == len(record.reserved):
        return None
    status: dict[str, Any] = {"reservedFor": rest or None}
    if not rest:
        status["allocation"] = None
    return {"metadata": {"resourceVersion": record.version, "uid": record.uid}, "status": status}


def pod_status(pod: PodView, version: str, special: Special, node: str, now: str) -> dict[str, Any]:
    """The strategic patch of the Pod's status: its claim for the kubelet, and the devices for people.

    The UID keeps it off a later Pod of the same name, the version off what a later try to bind has written.
    """
    results = results_of(special.allocation)
    one_pool = len({(result.driver, result.pool) for result in results}) == 1
    shown = sorted({result.device if one_pool else f"{result.pool}/{result.device}" for result in results})
    message = f"{in_devices(len(results))} on {node}: {', '.join(shown)}"
    room = min(ALLOCATION_MAX_BYTES, ANNOTATIONS_MAX - pod.annotation_bytes - len(ALLOCATION))
    annotation = allocation_of(results, Asked({}, (), special.plan.mappings), room)
    metadata: dict[str, Any] = {"uid": pod.uid, "resourceVersion": version}
    if annotation is not None:
        metadata["annotations"] = {ALLOCATION: annotation}
    return {
        "metadata": metadata,
        "status": {
            "extendedResourceClaimStatus": {
                "resourceClaimName": special_name(pod.uid),
                "requestMappings": [
                    {
                        "containerName": mapping.container,
                        "resourceName": mapping.resource,
                        "requestName": mapping.request,
                    }
                    for mapping in special.plan.mappings
                ],
            },
            "conditions": [pod_condition(CONDITION, "True", Reason.DEVICES_ALLOCATED.value, message[:1024], now)],
        },
    }


def fence(raw_pod: Raw, why: str, now: str) -> dict[str, Any]:
    """The strategic patch that takes Pod and claims apart, on condition that nobody wrote since `raw_pod` was read.

    The Pod is another one afterwards, so that a binding still under way, which is on condition of the former, fails.
    API servers keep the name of the claim in `extendedResourceClaimStatus` all the same (podStatusStrategy of 1.37
    takes its absence for an old client's); `Scene.on` sees to it that the Pod comes to no node without such a claim.
    """
    metadata = raw_pod["metadata"]
    return {
        "metadata": {
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
            "annotations": {ALLOCATION: None},
        },
        "status": {
            "extendedResourceClaimStatus": None,
            # With the version the text is never the one that stands there already, which would write nothing.
            "conditions": [
                pod_condition(
                    CONDITION, "False", Reason.BIND_FAILED.value, f"{why[:900]} (at {metadata['resourceVersion']})", now
                )
            ],
        },
    }


def binding(pod: PodView, node: str, version: str | None) -> dict[str, Any]:
    """The Binding; with a version on condition that the Pod has not been written since."""
    metadata = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
    if version is not None:
        metadata["resourceVersion"] = version
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": metadata,
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }


def results_of(allocation: Mapping[str, Any]) -> tuple[DeviceResult, ...]:
    """The devices of an allocation."""
    return tuple(
        DeviceResult(each["request"], each["driver"], each["pool"], each["device"])
        for each in (allocation.get("devices") or {}).get("results") or ()
    )


def stamped(allocation: Raw, now: str) -> dict[str, Any]:
    """The allocation with the moment of it (RFC 3339), as kube-scheduler writes it.

    The API server drops `allocationTimestamp` without DRADeviceBindingConditions and DRAResourceClaimDeviceStatus.
    """
    return {**allocation, "allocationTimestamp": now}


def outstanding(records: Iterable[ClaimRecord]) -> tuple[list[str], list[str]]:
    """What drivers have still to say about allocated devices: conditions not met yet, and failures.

    `bindingConditions` must all be True in `status.devices` before the Pod may be bound; one of
    `bindingFailureConditions` ends the attempt (KEP-5007).
    """
    missing, failed = [], []
    for record in records:
        for result in ((record.allocation or {}).get("devices") or {}).get("results") or ():
            if not result.get("bindingConditions"):
                continue
            true = _true_conditions(record.device_statuses, result)
            label = f"{result['driver']}/{result['pool']}/{result['device']}"
            failed += [f"{label}: {each}" for each in result.get("bindingFailureConditions") or () if each in true]
            missing += [f"{label}: {each}" for each in result["bindingConditions"] if each not in true]
    return missing, failed


def _true_conditions(statuses: Sequence[Raw], result: Raw) -> frozenset[str]:
    place = [result.get(name) for name in ("driver", "pool", "device", "shareID")]
    return frozenset(
        condition["type"]
        for status in statuses
        if [status.get(name) for name in ("driver", "pool", "device", "shareID")] == place
        for condition in status.get("conditions") or ()
        if condition.get("status") == "True"
    )
