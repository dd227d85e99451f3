"""Where the claims of a Pod fit, how often, and why not where they do not: the allocation core on a whole cluster.

Devices, and what decides which nodes a Pod may go to (taints, node selector, required affinity), are looked at; CPU,
memory, and everything else that a scheduler weighs is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from drabridge.core.allocation.allocate import allocate
from drabridge.core.allocation.claims import Claim
from drabridge.core.allocation.nodes import Node, SelectorProblem, matches
from drabridge.core.allocation.outcomes import Allocated, Undecided
from drabridge.core.allocation.settings import DEFAULTS, Settings
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState, claim_label, holdings
from drabridge.core.allocation.why import Why, explain
from drabridge.core.bind.taints import tainted
from drabridge.core.claims import claim_body
from drabridge.core.errors import InvalidInput
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.nodes import NodeRecord, Taint, untolerated
from drabridge.core.inventory.pods import PodRecord
from drabridge.core.inventory.shape import Raw
from drabridge.core.rewrite import ask_for

BODIES: Final = frozenset({Kind.SLICES, Kind.CLASSES, Kind.CLAIMS, Kind.TEMPLATES})
"""The kinds whose bodies an inventory must have kept."""

MOST: Final = 10_000
"""Pods that are counted; more than that is "more"."""

EXPLAINED: Final = 100
"""Nodes that are looked at closely when nothing fits; the others are counted."""


CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""What spec.unschedulable of a node means to Pods."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A kind of Pod: the claims it brings, unallocated ones, and where it may go."""

    claims: tuple[Raw, ...]
    pod: PodRecord


@dataclass(frozen=True, slots=True)
class Barred:
    """Nodes where the Pod may not go, or its claims do not fit, for one reason. `cures` would each suffice."""

    reason: str
    nodes: tuple[str, ...]
    cures: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """How many more Pods fit: by node, and why none on the others."""

    nodes: Mapping[str, int]
    barred: tuple[Barred, ...]

    @property
    def total(self) -> int:
        """On all nodes together."""
        return sum(self.nodes.values())


def shape_of(pod: PodRecord, cluster: Inventory) -> Shape:
    """What a Pod brings, before anything of it is allocated.

    Names that a DeviceClass serves and no device plugin become requests as drabridge or kube-scheduler would make them.
    Raises InvalidInput where the Pod asks for no devices, or for what does not exist.
    """
    found = [*_own(pod, cluster), *_templates(pod, cluster)]
    if (extended := extended_claim(pod, cluster, "extended-resources")) is not None:
        found.append(extended)
    if not found:
        cure = "ask for an extended resource that a DeviceClass serves, or bring a ResourceClaim"
        raise InvalidInput(pod.view.described, "", "it brings no claim that is not allocated", cure)
    return Shape(tuple(found), pod)


def extended_claim(
    pod: PodRecord, cluster: Inventory, name: str, served: Mapping[str, str] | None = None
) -> Raw | None:
    """The claim that is still to be made for a Pod's extended resources; None if there is one, or nothing to claim.

    `served` is resource name -> DeviceClass; by default that of all names that device plugins offer nowhere.
    Raises InvalidInput where its quantities are not numbers of devices.
    """
    if served is None:
        served = {
            name: mapping.device_class
            for name in sorted({ask.resource for ask in pod.view.extended()} - cluster.plugin_nodes.keys())
            if (mapping := cluster.class_map.resolve(name))
        }
    asked = ask_for(pod.view, served, cluster.cluster_view) if served else pod.asked
    if not asked or cluster.own_claim(pod) is not None:
        return None
    classes = dict(served) or {
        request.resource: mapping.device_class
        for request in asked.requests
        if (mapping := cluster.class_map.resolve(request.resource))
    }
    if not {request.resource for request in asked.requests} <= classes.keys():
        return None
    return claim_body(pod.view, name, asked, classes)


def _own(pod: PodRecord, cluster: Inventory) -> Iterator[Raw]:
    names = {f"{pod.view.namespace}/{name}" for name in pod.claim_names}
    for raw in cluster.bodies.get(Kind.CLAIMS, ()):
        if claim_label(raw) in names and not (raw.get("status") or {}).get("allocation"):
            yield raw


def _templates(pod: PodRecord, cluster: Inventory) -> Iterator[Raw]:
    """Claims that are still to be made from templates."""
    for entry in pod.view.resource_claims:
        if entry.template_name and entry.name not in pod.claims:
            yield template_claim(pod.view.namespace, entry.template_name, f"from-{entry.template_name}", cluster)


def template_claim(namespace: str, template: str, name: str, cluster: Inventory) -> Raw:
    """The claim that is still to be made from a template. Raises InvalidInput where there is no such template."""
    key = f"{namespace}/{template}"
    for raw in cluster.bodies.get(Kind.TEMPLATES, ()):
        if claim_label(raw) == key:
            spec: Any = (raw.get("spec") or {}).get("spec")
            return {"metadata": {"namespace": namespace, "name": name}, "spec": spec}
    raise InvalidInput(f"ResourceClaimTemplate {key}", "", "it does not exist", "create it, or put it into the files")


class Fitting:
    """A cluster that claims can be tried on."""

    def __init__(self, cluster: Inventory) -> None:
        """Raises InvalidInput for slices and classes that cannot be read."""
        slices = [tainted(raw, cluster.taint_rules) for raw in cluster.bodies.get(Kind.SLICES, ())]
        self._snapshot = Snapshot.of(slices, cluster.bodies.get(Kind.CLASSES, ()))
        self._state = state_of(cluster.bodies.get(Kind.CLAIMS, ()))
        self._nodes = cluster.nodes

    def room(self, shape: Shape, most: int = MOST) -> Room:
        """How many Pods of this shape fit one after the other, node by node; at most `most` are counted.

        Raises AllocationError where the claims can be allocated nowhere, whatever is free.
        """
        claims = tuple(Claim.of(defaulted(raw)) for raw in shape.claims)
        state = self._state
        counts: dict[str, int] = {}
        left: dict[str, list[NodeRecord]] = {}
        full: list[NodeRecord] = []
        for node in self._nodes:
            if reason := barrier(node, shape.pod):
                left.setdefault(reason, []).append(node)
                continue
            count, state = self._fill(node, claims, state, most - sum(counts.values()))
            if count:
                counts[node.name] = count
            else:
                full.append(node)
        barred = [Barred(reason, _names(nodes)) for reason, nodes in left.items()]
        return Room(counts, (*barred, *(() if counts else explained(self._snapshot, self._state, full, claims))))

    def _fill(
        self, node: NodeRecord, claims: tuple[Claim, ...], state: AllocatedState, most: int
    ) -> tuple[int, AllocatedState]:
        at, count = place(node), 0
        while count < most:
            # Each Pod has claims of its own, which hold what they get under names of their own.
            mine = [replace(claim, name=f"{claim.name}-{node.name}-{count}") for claim in claims]
            found = allocate(self._snapshot, state, at, mine)
            if not isinstance(found, Allocated):
                break
            for claim, allocation in zip(mine, found.results, strict=True):
                state = state.commit(claim.label, holdings(allocation, claim.label))
            count += 1
            if not any(map(_takes, found.results)):
                return most, state  # it takes nothing (administration only), so there is no end
        return count, state


def explained(
    snapshot: Snapshot,
    state: AllocatedState,
    nodes: Sequence[NodeRecord],
    claims: Sequence[Claim],
    settings: Settings = DEFAULTS,
) -> list[Barred]:
    """Why the claims do not fit on nodes where they might, in groups, the largest first."""
    groups: dict[str, list[NodeRecord]] = {}
    cures: dict[str, tuple[str, ...]] = {}
    for node in nodes[:EXPLAINED]:
        outcome = allocate(snapshot, state, place(node), claims, settings)
        if isinstance(outcome, Undecided):
            groups.setdefault(outcome.error, []).append(node)
            continue
        why = explain(snapshot, state, place(node), claims, settings)
        reason = _said(why)
        groups.setdefault(reason, []).append(node)
        cures.setdefault(reason, tuple(map(str, why.changes)))
    found = [Barred(reason, _names(members), cures.get(reason, ())) for reason, members in groups.items()]
    found.sort(key=lambda each: -len(each.nodes))
    if len(nodes) > EXPLAINED:
        found.append(Barred("not looked at closely", _names(nodes[EXPLAINED:])))
    return found


def _said(why: Why) -> str:
    """The first request that cannot be met by itself, with what removed the devices; else what is wrong with all."""
    for request in why.requests:
        if not request.is_met:
            counts = ", ".join(f"{count} {removal}" for removal, count in request.counts.items())
            removed = f" (without {counts})" if counts else ""
            left = f"{request.left} of {request.devices} devices are left{removed}"
            return f"{request.request} of claim {request.claim} needs {request.needed}, {left}"
    return why.summary()


def defaulted(raw: Raw) -> Raw:
    """A claim as the API server would have stored it: a manifest may leave mode and count out."""
    spec: Any = raw.get("spec") or {}
    devices: Any = spec.get("devices") or {}
    requests = []
    for request in devices.get("requests") or ():
        changed = dict(request)
        if isinstance(request.get("exactly"), Mapping):
            changed["exactly"] = _with_mode(request["exactly"])
        if request.get("firstAvailable"):
            changed["firstAvailable"] = [_with_mode(each) for each in request["firstAvailable"]]
        requests.append(changed)
    return {**raw, "spec": {**spec, "devices": {**devices, "requests": requests}}}


def _with_mode(request: Mapping[str, Any]) -> dict[str, Any]:
    mode = request.get("allocationMode") or "ExactCount"
    count = {"count": request.get("count") or 1} if mode == "ExactCount" else {}
    return {**request, "allocationMode": mode, **count}


def _takes(allocation: Mapping[str, Any]) -> bool:
    results = (allocation.get("devices") or {}).get("results") or ()
    return any(not result.get("adminAccess") for result in results)


def _names(nodes: Iterable[NodeRecord]) -> tuple[str, ...]:
    return tuple(node.name for node in nodes)


def place(node: NodeRecord) -> Node:
    """A node as the allocation core sees it."""
    return Node(node.name, node.labels, node.declared_features)


def barrier(node: NodeRecord, pod: PodRecord) -> str:
    """What keeps the Pod off a node whatever its devices are; "" if nothing does."""
    if node.unschedulable and untolerated((CORDON,), pod.tolerations):
        return "cordoned"
    if taint := untolerated(node.taints, pod.tolerations):
        return f"taint {taint} is not tolerated"
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return "nodeSelector does not match"
    try:
        if pod.node_affinity and not matches(pod.node_affinity, place(node)):
            return "node affinity does not match"
    except SelectorProblem as problem:
        return f"node affinity: {problem}"
    return ""


def state_of(claims: Iterable[Raw]) -> AllocatedState:
    """What is in use. A claim that holds what another one has already (doctor says so) adds nothing."""
    state = AllocatedState()
    for raw in claims:
        if allocation := (raw.get("status") or {}).get("allocation"):
            label = claim_label(raw)
            try:
                state = state.commit(label, holdings(allocation, label))
            except InvalidInput:
                continue
    return state
