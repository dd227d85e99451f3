"""A ResourceClaim on a page, and what of it other pages show."""

from __future__ import annotations

from drabridge.core.capacity import containers_of
from drabridge.core.doctor.findings import counted, listed
from drabridge.core.explanation.page import HeldUp, Page, Section, related
from drabridge.core.inventory.claims import ClaimRecord, Request
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.reasons import CURES, Reason


def explain_claim(claim: ClaimRecord, cluster: Inventory) -> Page:
    """What a claim asks for, what it got, and who uses that."""
    users = cluster.users.get(claim.key, ())
    held_up = _held_up(claim, cluster)
    sections = (
        Section("Asks for", tuple(map(asked, claim.requests))),
        Section("State", tuple(_state(claim))),
        Section("Devices", devices(claim, cluster)),
        Section("Used by", tuple(f"Pod {pod.key}" for pod in users)),
    )
    objects = {claim.described, *(f"DeviceClass {request.device_class}" for request in claim.requests)}
    objects |= {f"device {'/'.join(result.place)}" for result in claim.results or ()}
    conclusion = f"It has {counted(len(claim.results), 'device')}." if claim.results else "It has no devices."
    return Page(claim.described, conclusion, sections, held_up, related(cluster, objects))


def asked(request: Request) -> str:
    """A request in words."""
    count = "all devices" if request.all_devices else counted(request.count, "device")
    parts = [f"{request.name}: {count} of DeviceClass {request.device_class}"]
    parts += [f"where {expression}" for expression in request.selectors]
    parts += [f"with {amount} {name}" for name, amount in request.capacity.items()]
    return ", ".join(parts) + (", for administration" if request.admin else "")


def _state(claim: ClaimRecord) -> list[str]:
    owner = f"owned by {claim.owner.kind} {claim.owner.name}" if claim.owner else "owned by nobody"
    lines = [f"created {claim.created or 'at an unknown time'}, {owner}"]
    if claim.results is not None:
        reserved = listed(reference.name for reference in claim.reserved)
        lines.append(f"allocated, reserved for {reserved or 'nobody'}")
    else:
        lines.append("not allocated")
    if claim.deleting:
        lines.append(f"being deleted since {claim.deleting}, finalizers: {listed(claim.finalizers) or 'none'}")
    return lines


def devices(claim: ClaimRecord, cluster: Inventory) -> tuple[str, ...]:
    """Each device that the claim has, and which containers get it."""
    lines = []
    for result in claim.results or ():
        pods = [pod for pod in cluster.users.get(claim.key, ()) if not pod.ended]
        users = [f"{pod.key}: {', '.join(containers_of(pod, claim, result)) or 'no container'}" for pod in pods]
        consumed = "".join(f", {amount} {name}" for name, amount in result.consumed.items())
        shown = f" ({'; '.join(users)})" if users else ""
        lines.append(f"{'/'.join(result.place)} for request {result.request}{consumed}{shown}")
    return tuple(lines)


def _held_up(claim: ClaimRecord, cluster: Inventory) -> HeldUp | None:
    if claim.results is not None:
        return None
    if Kind.CLASSES not in cluster.unseen and (missing := missing_class(claim.requests, cluster)):
        return missing
    if claim.deleting:
        return HeldUp("ClaimDeleting", f"it is being deleted since {claim.deleting}", ("create it anew",))
    users = [pod for pod in cluster.users.get(claim.key, ()) if not pod.ended]
    if not users:
        cure = "create a Pod that uses it: a claim is allocated when its first Pod is scheduled"
        return HeldUp("ClaimUnused", "no Pod refers to it", (cure,))
    pod = users[0]
    cure = f"drabridge explain pod/{pod.view.name} -n {pod.view.namespace}"
    return HeldUp("PodNotScheduled", f"Pod {pod.key} waits for a node", (cure,))


def missing_class(requests: tuple[Request, ...], cluster: Inventory) -> HeldUp | None:
    """A DeviceClass that requests name and that does not exist."""
    for request in requests:
        if request.device_class not in cluster.classes_by_name and not request.alternative:
            evidence = f"request {request.name}: DeviceClass {request.device_class} does not exist"
            return HeldUp(Reason.DEVICE_CLASS_MISSING, evidence, (CURES[Reason.DEVICE_CLASS_MISSING],))
    return None
