"""What the operator does for one rewritten Pod, in the order in which it happens in the Pod's life.

```
Pod stored --> claim missing --> CreateClaim --> (kube-scheduler allocates, binds) --> BindBack --> Settled
                    |
                    +--> not allowed now, class missing, name taken: Waiting, with a reason; decided again on any change
```
Each step follows from what the API server shows, never from memory, so a restart goes on where it was.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from drabridge.core import asked as annotation
from drabridge.core.asked import Asked
from drabridge.core.claimspec import ContainerDemand, total
from drabridge.core.cluster import ClusterView
from drabridge.core.errors import InvalidInput
from drabridge.core.podview import Ask, ContainerKind, PodClaim, PodView
from drabridge.core.quantity import Quantity
from drabridge.core.reasons import Reason
from drabridge.core.rewrite import ALLOCATION, ALLOWED_RULES, ANNOTATIONS_MAX, NameAsk, object_to, opted_out, our_claim

CONDITION = "drabridge.io/DevicesAllocated"
MANAGED_BY = {"app.kubernetes.io/managed-by": "drabridge"}
LATE_AFTER = 5.0
"""Seconds after which a Pod without its claim is told why."""

ALLOCATION_MAX_BYTES = 128 * 1024
"""An object's annotations may hold 256 KiB together (apimachinery, TotalAnnotationSizeLimitB); others need some."""

SPECIAL_CLAIM = "resource.kubernetes.io/extended-resource-claim"
"""kube-scheduler's mark on the claims that it makes itself for extended resources (KEP-5004)."""


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """One device of an allocation (`status.allocation.devices.results[]`)."""

    request: str
    driver: str
    pool: str
    device: str


@dataclass(frozen=True, slots=True)
class ClaimView:
    """What decisions read of a ResourceClaim. `classes` is request name -> DeviceClass (`classes_of`)."""

    namespace: str
    name: str
    uid: str
    owner_name: str
    owner_uid: str
    special: bool
    ours: bool
    classes: Mapping[str, str]
    results: tuple[DeviceResult, ...] | None

    @property
    def key(self) -> str:
        """Namespace and name, "default/claim"."""
        return f"{self.namespace}/{self.name}"

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "ClaimView":
        """The view of a v1 ResourceClaim as the API server stores it."""
        metadata = raw["metadata"]
        owner: Mapping[str, str] = next(
            (
                each
                for each in metadata.get("ownerReferences", ())
                if each.get("controller") and (each["apiVersion"], each["kind"]) == ("v1", "Pod")
            ),
            {},
        )
        allocation = raw.get("status", {}).get("allocation")
        results = None
        if allocation is not None:
            results = tuple(
                DeviceResult(each["request"], each["driver"], each["pool"], each["device"])
                for each in allocation.get("devices", {}).get("results", ())
            )
        labels = metadata.get("labels", {})
        return cls(
            namespace=metadata["namespace"],
            name=metadata["name"],
            uid=metadata.get("uid", ""),  # a manifest has none
            owner_name=owner.get("name", ""),
            owner_uid=owner.get("uid", ""),
            special=metadata.get("annotations", {}).get(SPECIAL_CLAIM) == "true",
            ours=all(labels.get(key) == value for key, value in MANAGED_BY.items()),
            classes=classes_of(raw["spec"]),
            results=results,
        )


@dataclass(frozen=True, slots=True)
class TemplateView:
    """What decisions read of a ResourceClaimTemplate. `classes` is request name -> DeviceClass (`classes_of`)."""

    namespace: str
    name: str
    classes: Mapping[str, str]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> "TemplateView":
        """The view of a v1 ResourceClaimTemplate as the API server stores it."""
        metadata = raw["metadata"]
        return cls(metadata["namespace"], metadata["name"], classes_of(raw["spec"]["spec"]))


def classes_of(spec: Mapping[str, Any]) -> dict[str, str]:
    """Request name -> DeviceClass, of the spec of a v1 ResourceClaim; "request/alternative" in prioritized lists."""
    classes: dict[str, str] = {}
    for request in spec.get("devices", {}).get("requests", ()):
        if alternatives := request.get("firstAvailable"):
            classes |= {f"{request['name']}/{each['name']}": each.get("deviceClassName", "") for each in alternatives}
        else:
            classes[request["name"]] = request.get("exactly", {}).get("deviceClassName", "")
    return classes


@dataclass(frozen=True, slots=True)
class CreateClaim:
    """Create this claim; `devices` of it in all."""

    body: Mapping[str, Any]
    devices: int


@dataclass(frozen=True, slots=True)
class BindBack:
    """Write `annotation` and the condition with `message` on the Pod, in one patch of its status.

    None for an annotation that does not fit behind the others; the condition says it all the same.
    """

    annotation: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """The Pod has no claim and cannot get one now."""

    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing is to be done until the Pod or its claim changes."""


NextStep = CreateClaim | BindBack | Waiting | Settled


def next_step(pod: PodView, claim: ClaimView | None, cluster: ClusterView) -> NextStep:
    """What is to be done for `pod` now. `claim` is the claim of the name that the Pod waits for, whoever owns it."""
    entry = our_claim(pod)
    if entry is None or pod.deleting or pod.phase in ("Succeeded", "Failed"):
        return Settled()
    if claim is None:
        return _without_claim(pod, entry, cluster)
    if claim.owner_uid == pod.uid:
        return _bind_back(pod, claim)
    if opted_out(pod):
        return Settled()  # its author points it to the claim of another Pod on purpose
    return Waiting(Reason.CLAIM_FOREIGN, f"ResourceClaim {claim.key} is not owned by {pod.described}")


def _without_claim(pod: PodView, entry: PodClaim, cluster: ClusterView) -> NextStep:
    if pod.node_name:
        # No scheduler looks at it any more, so a claim made now would never be allocated.
        if pod.phase != "Pending" or pod.conditions.get(CONDITION) == "True":
            return Settled()
        return Waiting(Reason.NODE_NAME_SET, f"{pod.described}: spec.nodeName is {pod.node_name}, and it has no claim")
    try:
        asked = annotation.decode(pod)
    except InvalidInput as error:
        return Waiting(Reason.ANNOTATION_INVALID, str(error))
    if asked is None:
        return Waiting(Reason.COPY_UNREADABLE, f"{pod.described}: annotation {annotation.ANNOTATION} is missing")
    return _create(pod, entry.name, str(entry.claim_name), asked, cluster)


def _create(pod: PodView, entry: str, claim_name: str, asked: Asked, cluster: ClusterView) -> CreateClaim | Waiting:
    if problem := _points_elsewhere(pod, entry, asked):
        return Waiting(Reason.ANNOTATION_INVALID, problem)
    classes: dict[str, str] = {}
    for resource in sorted({request.resource for request in asked.requests}):
        # Decided afresh: the annotation proves nothing about what is allowed, and policies may have changed.
        if objection := object_to(pod, _as_asked(pod, asked, resource), cluster, ALLOWED_RULES):
            return Waiting(objection.reason, objection.detail)
        mapping = cluster.classes.resolve(resource)
        if mapping is None or not mapping.present:
            name = mapping.device_class if mapping else "?"
            return Waiting(Reason.DEVICE_CLASS_MISSING, f"DeviceClass {name} for {resource} does not exist")
        classes[resource] = mapping.device_class
    if problem := _counts_differ(pod, asked):
        return Waiting(Reason.ANNOTATION_INVALID, problem)
    return CreateClaim(claim_body(pod, claim_name, asked, classes), asked.devices)


def _as_asked(pod: PodView, asked: Asked, resource: str) -> NameAsk:
    """What the annotation says was asked of one name, for the rules that look at quantities."""
    quantities = {name: names[resource] for name, names in asked.containers.items() if resource in names}
    asks = [Ask(each, resource, text, text) for each in pod.containers if (text := quantities.get(each.name))]
    return NameAsk(resource, tuple(asks), settled=True)


def _points_elsewhere(pod: PodView, entry: str, asked: Asked) -> str | None:
    """The Pod's containers must use exactly the requests of the annotation; else one of the two was edited."""
    used = {claim.request for container in pod.containers for claim in container.claims if claim.name == entry}
    names = {request.name for request in asked.requests}
    if used == names:
        return None
    odd = min(str(name) for name in used ^ names)
    return f"{pod.described}: only one of annotation {annotation.ANNOTATION} and resources.claims has request {odd}"


def _counts_differ(pod: PodView, asked: Asked) -> str | None:
    """The requests must come to what the containers of the same annotation ask for together, and to no more.

    Names and places of requests are not compared: they may have moved when other keys were defaulted in between.
    """
    demands = [
        ContainerDemand(
            name=container.name,
            short_lived=container.kind is ContainerKind.INIT,
            keys=tuple(sorted(asked.containers.get(container.name, ()))),
            counts={
                resource: Quantity.parse(quantity).ceil()
                for resource, quantity in asked.containers.get(container.name, {}).items()
            },
        )
        for container in pod.containers
    ]
    sums = Counter[str]()
    for request in asked.requests:
        sums[request.resource] += request.count
    for resource, count in sums.items():
        if (wanted := total(demands, resource)) != count:
            return (
                f"{pod.described}: annotation {annotation.ANNOTATION} requests {count} {resource} in all,"
                f" but its containers ask for {wanted}"
            )
    return None


def claim_body(pod: PodView, name: str, asked: Asked, classes: Mapping[str, str]) -> dict[str, Any]:
    """The ResourceClaim of a rewritten Pod.

    The Pod is its controller, so the resourceclaim controller frees and deletes it with the Pod.
    `blockOwnerDeletion` stays unset: it would ask for rights on the Pod's finalizers. adminAccess is never set.
    """
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": pod.namespace,
            "labels": dict(MANAGED_BY),
            "annotations": {annotation.ANNOTATION: asked.encode()},  # for copies of the Pod that have lost theirs
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": pod.name, "uid": pod.uid, "controller": True}
            ],
        },
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": request.name,
                        "exactly": {
                            "deviceClassName": classes[request.resource],
                            "allocationMode": "ExactCount",
                            "count": request.count,
                        },
                    }
                    for request in asked.requests
                ]
            }
        },
    }


def _bind_back(pod: PodView, claim: ClaimView) -> BindBack | Settled:
    """Not before the Pod has a node: until then the scheduler may take the allocation back."""
    if not pod.node_name or claim.results is None:
        return Settled()
    if ALLOCATION in pod.annotations or pod.conditions.get(CONDITION) == "True":
        return Settled()
    try:
        asked = annotation.decode(pod)
    except InvalidInput:
        asked = None  # somebody edited it after the claim was made; the devices are known all the same
    one_pool = len({(result.driver, result.pool) for result in claim.results}) == 1
    shown = {result.device if one_pool else f"{result.pool}/{result.device}" for result in claim.results}
    names = ", ".join(sorted(shown))
    message = f"{in_devices(len(claim.results))} on {pod.node_name}: {names}"
    room = min(ALLOCATION_MAX_BYTES, ANNOTATIONS_MAX - pod.annotation_bytes - len(ALLOCATION))
    return BindBack(allocation_of(claim.results, asked, room), message[:1024])


def allocation_of(results: tuple[DeviceResult, ...], asked: Asked | None, room: int) -> str | None:
    """The allocation as the annotation shows it: a JSON list of container, resource, request, driver, pool, device.

    A request that several containers use is listed for each. If that takes more than `room` bytes, each device is
    listed once, without its containers; None if that does not fit either.
    """
    by_request: dict[str, list[DeviceResult]] = {}
    for result in results:
        by_request.setdefault(result.request, []).append(result)
    rows = [
        {"container": mapping.container, "resource": mapping.resource} | _row(result)
        for mapping in (asked.mappings if asked else ())
        for result in by_request.get(mapping.request, ())
    ]
    text = json.dumps(rows, separators=(",", ":"))
    if rows and len(text) <= room:
        return text
    text = json.dumps([_row(result) for result in results], separators=(",", ":"))
    return text if len(text) <= room else None


def _row(result: DeviceResult) -> dict[str, str]:
    return {"request": result.request, "driver": result.driver, "pool": result.pool, "device": result.device}


def in_devices(count: int) -> str:
    """A number of devices in words: "1 device", "2 devices"."""
    return "1 device" if count == 1 else f"{count} devices"
