"""A Pod on a page, and the first thing that holds it up.

`HOLD_UPS` is read from top to bottom, in the order in which things happen to a Pod; the first that answers is shown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from drabridge.core.allocation.outcomes import AllocationError
from drabridge.core.claims import LATE_AFTER, Waiting, next_step
from drabridge.core.cluster import Gate
from drabridge.core.doctor.findings import counted, listed
from drabridge.core.errors import InvalidInput
from drabridge.core.explanation.claims import asked, devices, missing_class
from drabridge.core.explanation.names import served, unserved
from drabridge.core.explanation.page import NOT_SEEN, HeldUp, Page, Section, related
from drabridge.core.fitting import Barred, Fitting, shape_of
from drabridge.core.inventory.claims import ClaimRecord
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.nodes import untolerated
from drabridge.core.inventory.pods import EventRecord, PodRecord
from drabridge.core.podview import Ask, ContainerKind
from drabridge.core.policy import Coexistence
from drabridge.core.quantity import Quantity
from drabridge.core.reasons import CURES, Reason
from drabridge.core.rewrite import ClaimNames, Rewrite, decide, our_claim
from drabridge.core.supply import Published
from drabridge.core.trouble import FAILED_TO_PREPARE, Holding, Trouble, trouble_of, without_devices

NO_NAME: Final = "drabridge-0000000000000000"
"""For decisions that are not carried out."""

RUNS_ON: Final = frozenset({Reason.DEVICE_UNPUBLISHED, Reason.DEVICE_UNHEALTHY})
"""What does not keep containers from running that run already."""

_REASONS_SHOWN: Final = 5
_EVENTS_SHOWN: Final = 5


def explain_pod(pod: PodRecord, cluster: Inventory) -> Page:
    """What a Pod asks for, who serves it, what it got; or the first thing that holds it up."""
    claims = claims_of(pod, cluster)
    held_up = next(filter(None, (rule(pod, cluster) for rule in HOLD_UPS)), None)
    names = _names(pod)
    sections = (
        Section("Asks for", tuple(_asks(pod, cluster))),
        Section("Served by", tuple(f"{name}: {line}" for name in names for line in served(name, cluster))),
        Section("Claims", tuple(_described(claim) for claim in claims)),
        Section("Devices", tuple(line for claim in claims for line in devices(claim, cluster))),
        Section("Scheduler", (pod.unscheduled,) if pod.unscheduled and pod.waiting else ()),
        Section("Warnings", tuple(map(_told, _warnings(pod, cluster)[-_EVENTS_SHOWN:]))),
    )
    objects = {f"Pod {pod.key}", *(f"resource name {name}" for name in names), *(claim.described for claim in claims)}
    objects |= {f"DeviceClass {request.device_class}" for claim in claims for request in claim.requests}
    return Page(f"Pod {pod.key}", _conclusion(pod, claims, held_up), sections, held_up, related(cluster, objects))


def claims_of(pod: PodRecord, cluster: Inventory) -> list[ClaimRecord]:
    """The claims of a Pod that are there."""
    keys = [f"{pod.view.namespace}/{name}" for name in pod.claim_names]
    return [claim for key in keys if (claim := cluster.claims_by_key.get(key))]


def _conclusion(pod: PodRecord, claims: list[ClaimRecord], held_up: HeldUp | None) -> str:
    count = sum(len(claim.results or ()) for claim in claims)
    place = f" on {pod.view.node_name}" if pod.view.node_name else ""
    if pod.ended:
        return f"It has ended ({pod.view.phase}) and needs no devices."
    if held_up and held_up.reason == NOT_SEEN:
        return f"It is {pod.view.phase or 'there'}{place}; whether it gets devices cannot be told."
    if held_up and held_up.reason in RUNS_ON and pod.view.phase == "Running":
        return f"It is Running{place}, with {counted(count, 'device')}, and something is wrong: {held_up.reason}."
    if held_up:
        return f"It is held up: {held_up.reason}."
    if count:
        return f"It is {pod.view.phase or 'there'}{place}, with {counted(count, 'device')}."
    if pod.view.extended() or pod.view.resource_claims:
        return f"It is {pod.view.phase or 'there'}{place}; nothing about its devices holds it up."
    return "It asks for no devices."


def _names(pod: PodRecord) -> list[str]:
    """All extended resources that it asks for, or asked for before it was rewritten."""
    return sorted({ask.resource for ask in pod.view.extended()} | set(pod.resources.values()))


def _asks(pod: PodRecord, cluster: Inventory) -> list[str]:
    lines = [f"container {ask.container.name}: {ask.request} {ask.resource}" for ask in pod.view.extended()]
    if pod.asked:
        lines += [
            f"container {container}: {quantity} {name} (as it was asked for)"
            for container, names in pod.asked.containers.items()
            for name, quantity in names.items()
        ]
    ours = our_claim(pod.view)
    templates = {template.key: template for template in cluster.templates}
    for entry in pod.view.resource_claims:
        if ours and entry.name == ours.name:
            continue
        if entry.template_name:
            template = templates.get(f"{pod.view.namespace}/{entry.template_name}")
            what = "; ".join(map(asked, template.requests)) if template else "does not exist"
            lines.append(f"claim {entry.name} from ResourceClaimTemplate {entry.template_name} ({what})")
        else:
            lines.append(f"claim {entry.name}: ResourceClaim {entry.claim_name}")
    return lines or ["no devices"]


def _described(claim: ClaimRecord) -> str:
    state = "not allocated" if claim.results is None else counted(len(claim.results), "device")
    reserved = f", reserved for {listed(each.name for each in claim.reserved)}" if claim.reserved else ""
    return f"{claim.key}: {state}{reserved} ({'; '.join(map(asked, claim.requests))})"


# --- what may hold it up, in the order of a Pod's life


def _gated(pod: PodRecord, _: Inventory) -> HeldUp | None:
    if not pod.gated or not pod.waiting:
        return None
    return HeldUp("SchedulingGated", f"spec.schedulingGates: {listed(pod.gated)}", ("see who set the gate",))


def _name_unserved(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    """A name that nobody serves, neither a plugin nor DRA by any way."""
    return next((each for each in _unserved(pod, cluster) if each.reason != NOT_SEEN), None)


def _untold(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    """A name of which nobody can say whether it is served."""
    return next((each for each in _unserved(pod, cluster) if each.reason == NOT_SEEN), None)


def _unserved(pod: PodRecord, cluster: Inventory) -> Iterator[HeldUp]:
    for ask in pod.view.extended() if pod.waiting else ():
        if ask.resource not in cluster.plugin_nodes and (found := unserved(ask.resource, cluster)):
            yield found


def _more_than_a_plugin_has(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    """More devices than any node has, of a name that only device plugins serve."""
    for name in _names(pod) if pod.waiting else ():
        most = max((node.allocatable.get(name, 0) for node in cluster.nodes), default=0)
        if most and _only_by_plugins(name, cluster) and (asked := _least(pod, name)) > most:
            evidence = f"{asked} {name} asked, no node offers more than {most}"
            return HeldUp("NoDevices", evidence, (f"ask for at most {most}, or add devices to a node",))
    return None


def _only_by_plugins(name: str, cluster: Inventory) -> bool:
    policy = cluster.effective_policies.get(name)
    if policy and policy.coexistence is Coexistence.REWRITE:
        return False
    return cluster.class_map.native(name) is None or cluster.gate is Gate.OFF


def _least(pod: PodRecord, name: str) -> int:
    """What a Pod needs of a name at the least: sidecars that run beside an init container would add to that."""
    together, alone = 0, 0
    for ask in pod.view.extended():
        if ask.resource == name:
            count = _count(ask)
            if ask.container.kind is ContainerKind.INIT:
                alone = max(alone, count)
            else:
                together += count
    return max(together, alone)


def _count(ask: Ask) -> int:
    try:
        return Quantity.parse(ask.request).ceil()
    except ValueError:
        return 0  # no API server would have stored it


def _left_alone(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    """What admission does with the Pod now: it would be rewritten, so it was missed; or it is left alone, and why."""
    if not (cluster.bridged and pod.waiting and pod.view.extended()):
        return None
    verdict = decide(pod.view, cluster.cluster(pod.view.namespace), ClaimNames(NO_NAME))
    if isinstance(verdict, Rewrite):
        missed = sorted(
            {ask.resource for ask in pod.view.extended()} & {each.resource for each in verdict.asked.requests}
        )
        if missed:
            cure = f"kubectl delete pod {pod.view.name} -n {pod.view.namespace}; then create it again"
            evidence = f"it asks for {listed(missed)} and was not rewritten when it was stored"
            return HeldUp(Reason.MISSED, evidence, (cure,))
        objections = verdict.left
    else:
        objections = verdict.objections
    for objection in objections:
        if objection.reason not in (Reason.NATIVE, Reason.DEVICE_PLUGIN_PRESENT, Reason.NOT_SERVED):
            return HeldUp(objection.reason, objection.detail, (CURES[objection.reason],))
    return None


def _template_missing(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    if Kind.TEMPLATES in cluster.unseen:
        return None
    templates = {template.key for template in cluster.templates}
    for entry in pod.view.resource_claims if pod.waiting else ():
        key = f"{pod.view.namespace}/{entry.template_name}"
        if entry.template_name and entry.name not in pod.claims and key not in templates:
            return HeldUp("TemplateMissing", f"ResourceClaimTemplate {key} does not exist", ("create it",))
    return None


def _claim_missing(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    if Kind.CLAIMS in cluster.unseen:
        return None
    ours = our_claim(pod.view)
    for entry in pod.view.resource_claims if pod.waiting else ():
        key = f"{pod.view.namespace}/{entry.claim_name}"
        if entry.claim_name and entry != ours and key not in cluster.claims_by_key:
            return HeldUp("ClaimMissing", f"ResourceClaim {key} does not exist", ("create it",))
    return None


def _bridge_waits(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    """What the operator says of a rewritten Pod, by the decision that the operator takes."""
    if our_claim(pod.view) is None or pod.ended or pod.view.deleting or Kind.CLAIMS in cluster.unseen:
        return None
    claim = cluster.own_claim(pod)
    step = next_step(pod.view, claim.view if claim else None, cluster.cluster(pod.view.namespace))
    if isinstance(step, Waiting):
        return HeldUp(step.reason, step.detail, (CURES[step.reason],))
    if claim is None and pod.waiting and cluster.age(pod.view.created) > LATE_AFTER:
        return HeldUp(Reason.CLAIM_LATE, "nothing keeps drabridge from making its claim", (CURES[Reason.CLAIM_LATE],))
    return None


def _class_missing(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    for claim in claims_of(pod, cluster) if pod.waiting and Kind.CLASSES not in cluster.unseen else ():
        if claim.results is None and (found := missing_class(claim.requests, cluster)):
            return found
    return None


def _does_not_fit(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    """The allocation core's reasons, for each node, in groups."""
    needed = {Kind.SLICES, Kind.CLASSES, Kind.CLAIMS, Kind.NODES}
    if not pod.waiting or needed & cluster.unseen.keys() or not cluster.bodies:
        return None
    try:
        shape = shape_of(pod, cluster)
    except InvalidInput:
        return None  # it brings nothing that is to be allocated
    try:
        room = Fitting(cluster).room(shape, most=1)
    except AllocationError as error:
        return HeldUp("AllocationFails", str(error), (error.cure,))
    except InvalidInput as error:
        return HeldUp("SliceUnreadable", str(error), (error.cure,))
    if room.total:
        return None
    cures = tuple(dict.fromkeys(cure for each in room.barred for cure in each.cures))
    count = sum(len(each.nodes) for each in room.barred)
    evidence = f"its claims fit on none of {counted(count, 'node')}" if count else "the cluster has no node"
    return HeldUp("NoDevices", evidence, cures[:3], tuple(map(_barred, room.barred[:_REASONS_SHOWN])))


def _barred(each: Barred) -> str:
    return f"{counted(len(each.nodes), 'node')} ({listed(each.nodes)}): {each.reason}"


def _scheduler_says(pod: PodRecord, _: Inventory) -> HeldUp | None:
    if not pod.waiting or not pod.unscheduled:
        return None
    cure = "see what the scheduler misses: CPU, memory, ports, affinity; the devices are there"
    if short := [name for name in _names(pod) if _is_short(name, pod.unscheduled)]:
        cure = f"{listed(short)} is what is short: wait, ask for less, or add devices"
    return HeldUp("Unschedulable", pod.unscheduled, (cure,))


def _is_short(name: str, message: str) -> bool:
    """Whether kube-scheduler says so of this very name, and not of one that begins like it."""
    return re.search(rf"Insufficient {re.escape(name)}(?![\w./-]*\w)", message) is not None


def _without_allocation(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    """On a node, and yet without devices: nobody will allocate them any more."""
    if not pod.view.node_name or pod.ended:
        return None
    for claim in claims_of(pod, cluster):
        if claim.results is None:
            evidence = f"it is on {pod.view.node_name}, and {claim.key} is not allocated"
            return HeldUp(Reason.NODE_NAME_SET, evidence, (CURES[Reason.NODE_NAME_SET],))
        if pod.view.uid not in {reference.uid for reference in claim.reserved}:
            evidence = f"{claim.key} is not reserved for it, so that the kubelet refuses it"
            cure = "delete the Pod, and use a scheduler that reserves claims"
            return HeldUp("ClaimNotReserved", evidence, (cure,))
    return None


def _warnings(pod: PodRecord, cluster: Inventory) -> list[EventRecord]:
    """The warnings about a Pod, the latest last."""
    found = [event for event in cluster.events if event.pod == pod.key and event.warning]
    return sorted(found, key=lambda event: event.last)


def _told(event: EventRecord) -> str:
    return f"{event.last} {event.source}: {event.reason}: {event.message}"


def _no_devices(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    """A class that selects no device, without an expression that fails: then its driver is not there."""
    if not pod.waiting or {Kind.SLICES, Kind.CLASSES, Kind.CLAIMS} & cluster.unseen.keys():
        return None
    classes = [request.device_class for claim in _unallocated(pod, cluster) for request in claim.requests]
    if not our_claim(pod.view):
        names = [cluster.class_map.resolve(name) for name in _names(pod) if name not in cluster.plugin_nodes]
        classes += [mapping.device_class for mapping in names if mapping]
    for name in classes:
        selection = cluster.selections.get(name)
        if selection and not (selection.devices or selection.broken or selection.failed):
            return _in_trouble(without_devices(name))
    return None


def _unallocated(pod: PodRecord, cluster: Inventory) -> list[ClaimRecord]:
    claims = [claim for claim in claims_of(pod, cluster) if claim.results is None]
    return [claim for claim in claims if not any(request.alternative for request in claim.requests)]


def _devices_unusable(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    """Devices and a node, and yet it cannot use them: what the operator says of it as well."""
    if not pod.view.node_name or pod.ended or {Kind.SLICES, Kind.CLAIMS} & cluster.unseen.keys():
        return None
    claim = cluster.own_claim(pod)
    results = (claim.view.results if claim else None) or ()
    said = (event for event in reversed(_warnings(pod, cluster)) if event.reason == FAILED_TO_PREPARE)
    holding = Holding.of(pod.view, results, next((event.message for event in said), ""))
    trouble = trouble_of(holding, _published(cluster))
    return _in_trouble(trouble) if trouble else None


def _published(cluster: Inventory) -> Published:
    pools: dict[tuple[str, str], dict[str, str] | None] = {
        key: {} if pool.complete else None for key, pool in cluster.pools.items()
    }
    for placed in cluster.devices:
        pool = pools[placed.pool.driver, placed.pool.name]
        if pool is not None:
            taint = untolerated(cluster.taints_of(placed), ())
            pool[placed.device.name] = str(taint) if taint else ""
    return Published(pools)


def _in_trouble(trouble: Trouble) -> HeldUp:
    return HeldUp(trouble.reason, trouble.detail, (CURES[trouble.reason],))


def _node_says(pod: PodRecord, cluster: Inventory) -> HeldUp | None:
    """Devices and a node, and yet it does not start: the kubelet's last warning is all that is known."""
    if not pod.view.node_name or pod.view.phase != "Pending":
        return None
    for event in reversed(_warnings(pod, cluster)):
        if event.source == "kubelet":
            cure = f"see the DRA driver's log on {pod.view.node_name}; a new Pod is prepared anew"
            return HeldUp(event.reason, event.message, (cure,))
    return None


HOLD_UPS: Final[tuple[Callable[[PodRecord, Inventory], HeldUp | None], ...]] = (
    _gated,
    _name_unserved,
    _more_than_a_plugin_has,
    _left_alone,
    _template_missing,
    _claim_missing,
    _bridge_waits,
    _class_missing,
    _no_devices,
    _does_not_fit,
    _scheduler_says,
    _without_allocation,
    _devices_unusable,
    _node_says,
    _untold,
)
