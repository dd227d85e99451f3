"""What would happen if the waiting Pods of a cluster were scheduled now: Pod by Pod, each seeing what the others took.

Pods go in the order of kube-scheduler's queue: by priority, then by age, then as they were read. Devices, and what
decides which nodes a Pod may go to, are looked at (`core.fitting`); CPU, memory and the like are not.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import count
from typing import Any, TypeVar

from drabridge.core.admitted import Admitted
from drabridge.core.allocation.allocate import allocate
from drabridge.core.allocation.claims import Claim
from drabridge.core.allocation.features import JSON_NAMES
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.outcomes import Allocated, AllocationError
from drabridge.core.allocation.passes import fits, preferred_nodes
from drabridge.core.allocation.settings import DEFAULTS, Settings
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState, holdings
from drabridge.core.bind.taints import tainted
from drabridge.core.cluster import Gate
from drabridge.core.errors import InvalidInput
from drabridge.core.fitting import (
    Barred,
    barrier,
    defaulted,
    explained,
    extended_claim,
    place,
    state_of,
    template_claim,
)
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.nodes import NodeRecord
from drabridge.core.inventory.pods import PodRecord
from drabridge.core.inventory.replicas import DAEMON_SET
from drabridge.core.inventory.shape import key_of
from drabridge.core.names import implicit_class
from drabridge.core.podview import PodClaim
from drabridge.core.policy import Coexistence
from drabridge.core.reasons import CURES
from drabridge.core.rewrite import Objection, our_claim


@dataclass(frozen=True, slots=True)
class Device:
    """A device that a Pod gets by one request of one of its claims; `share` and `consumed` where it gets a part."""

    claim: str
    request: str
    device: str
    """`driver/pool/device`."""
    share: str = ""
    consumed: Mapping[str, str] | None = None
    admin: bool = False


@dataclass(frozen=True, slots=True)
class Placed:
    """The Pod fits, and where. `devices` is empty where device plugins serve all that it asks for."""

    pod: str
    node: str
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class Unplaced:
    """The Pod fits nowhere. `features` are those that are off and would each change that."""

    pod: str
    reason: str
    barred: tuple[Barred, ...] = ()
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Broken:
    """Nothing can be said of the Pod until somebody corrects an object."""

    pod: str
    error: InvalidInput
    features: tuple[str, ...] = ()


Outcome = Placed | Unplaced | Broken


@dataclass(frozen=True, slots=True)
class Turn:
    """A Pod whose turn it is; `node` is where it has to go, "" if it may choose. `name` is unique."""

    pod: PodRecord
    name: str
    node: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes on which device plugins serve the same of the names that a Pod asks for."""

    plugins: frozenset[str]
    nodes: tuple[NodeRecord, ...]
    places: tuple[Node, ...]
    """The same nodes, for the allocation core."""


@dataclass(frozen=True, slots=True)
class Open:
    """The nodes that a Pod may go to, and the others by what bars it from them."""

    groups: tuple[Group, ...]
    barred: tuple[Barred, ...]


@dataclass(frozen=True, slots=True)
class Way:
    """Nodes, and the claims that a Pod would have on any of them."""

    group: Group
    claims: tuple[Claim, ...]


def turns(cluster: Inventory, namespace: str | None = None) -> tuple[Turn, ...]:
    """The waiting Pods that ask for devices, in their order; a DaemonSet of a manifest has one on each of its nodes."""
    asking = [
        pod
        for pod in cluster.pods
        if pod.waiting and (pod.view.extended() or pod.view.resource_claims) and namespace in (None, pod.view.namespace)
    ]
    found: list[Turn] = []
    # What has no time yet, since it is a manifest's, will be the youngest.
    for pod in sorted(asking, key=lambda pod: (-pod.priority, pod.view.created == "", pod.view.created)):
        owner = pod.view.owner
        if owner and owner.kind == DAEMON_SET and not owner.uid:
            nodes = [node.name for node in cluster.nodes if not barrier(node, pod)]
            found += [Turn(pod, f"{owner.name}-{node}", node) for node in nodes]
        else:
            found.append(Turn(pod, pod.view.name))
    return tuple(found)


def overlaid(cluster: Inventory, manifests: Inventory) -> Inventory:
    """A cluster to which manifests are applied; of the Pods only those of the manifests are left waiting.

    An object of a manifest takes the place of the cluster's of that name.
    """
    standing = tuple(pod for pod in cluster.pods if not pod.waiting)
    return replace(
        cluster,
        pods=(*standing, *manifests.pods),
        nodes=_over(cluster.nodes, manifests.nodes),
        claims=_over(cluster.claims, manifests.claims),
        templates=_over(cluster.templates, manifests.templates),
        classes=_over(cluster.classes, manifests.classes),
        slices=_over(cluster.slices, manifests.slices),
        policies=_over(cluster.policies, manifests.policies),
        limit_ranges=_over(cluster.limit_ranges, manifests.limit_ranges),
        quotas=_over(cluster.quotas, manifests.quotas),
        namespaces={**cluster.namespaces, **manifests.namespaces},
        odd=(*cluster.odd, *manifests.odd),
        bodies={kind: _over(raws, manifests.bodies.get(kind, ())) for kind, raws in cluster.bodies.items()},
    )


Named = TypeVar("Named")


def _over(below: Iterable[Named], above: Iterable[Named]) -> tuple[Named, ...]:
    return tuple({_key(each): each for each in (*below, *above)}.values())


def _key(each: Any) -> str:
    if isinstance(each, Mapping):
        return key_of(each)
    return str(getattr(each, "key", None) or each.name)


class Simulation:
    """A cluster in which Pods get their devices one after the other."""

    def __init__(self, cluster: Inventory, settings: Settings = DEFAULTS) -> None:
        """Raises InvalidInput for slices, classes and claims that cannot be read."""
        self._cluster = cluster
        self._settings = settings
        slices = [tainted(raw, cluster.taint_rules) for raw in cluster.bodies.get(Kind.SLICES, ())]
        self._snapshot = Snapshot.of(slices, cluster.bodies.get(Kind.CLASSES, ()))
        raws = cluster.bodies.get(Kind.CLAIMS, ())
        self._state = state_of(raws)
        self._claims = {claim.label: claim for claim in (Claim.of(defaulted(raw)) for raw in raws)}
        self._places = {node.name: place(node) for node in cluster.nodes}  # one each: answers are kept by identity
        self._ranks = {node.name: rank for rank, node in enumerate(cluster.nodes)}
        self._opened: dict[Hashable, Open] = {}
        self._told: tuple[AllocatedState, dict[Hashable, tuple[tuple[Barred, ...], tuple[str, ...]]]] = self._state, {}
        self._shares = count()
        self._admitted = Admitted(cluster)
        self._native = cluster.gate is Gate.ON
        """kube-scheduler leaves a name to device plugins node by node, drabridge on all nodes (KEP-5004)."""

    def run(self, todo: Sequence[Turn]) -> Iterator[Outcome]:
        """Schedule them one by one."""
        for turn in todo:
            yield self.schedule(turn)

    def schedule(self, turn: Turn) -> Outcome:
        """Give a Pod its node and devices, which later Pods do not get, or say why it has none."""
        key = f"{turn.pod.view.namespace}/{turn.name}"
        if turn.pod.gated:
            return Unplaced(key, f"waits for its scheduling gates: {', '.join(turn.pod.gated)}")
        left = self._admitted.left(turn.pod)
        if barred := self._admitted.refused(turn.pod, left) or self._unserved(turn.pod, left):
            return Unplaced(key, barred)
        ways: list[Way] = []
        try:
            classes = self._classes(turn.pod, left)
            open_to = self._open(turn, classes)
            ways = [Way(group, self._claims_of(turn, classes, group.plugins)) for group in open_to.groups]
            return self._schedule(key, turn, ways, open_to.barred)
        except AllocationError as error:
            return Broken(key, error, self._cures(ways))
        except InvalidInput as error:
            return Broken(key, error)

    def _schedule(self, key: str, turn: Turn, ways: Sequence[Way], barred: Sequence[Barred]) -> Placed | Unplaced:
        brings: dict[str, tuple[Claim, ...]] = {}
        nodes: list[Node] = []
        for way in ways:
            fitting = fits(self._snapshot, self._state, way.group.places, way.claims, self._settings).fitting
            brings |= dict.fromkeys((node.name for node in fitting), way.claims)
            nodes += fitting
        if len(ways) > 1:  # of several kinds, in the order of all
            nodes.sort(key=lambda node: self._ranks[node.name])
        for node in preferred_nodes(self._snapshot, self._state, nodes, self._settings):
            claims = brings[node.name]
            outcome = allocate(
                self._snapshot,
                self._state,
                node,
                claims,
                self._settings,
                new_share=lambda: f"share-{next(self._shares)}",
            )
            if isinstance(outcome, Allocated):
                return Placed(key, node.name, self._commit(claims, outcome))
        reason = f"fits on none of {len(self._ranks)} nodes" if self._ranks else "there is no node"
        found, features = self._explained(turn, ways)
        return Unplaced(key, reason, (*found, *barred), features)

    def _explained(self, turn: Turn, ways: Sequence[Way]) -> tuple[tuple[Barred, ...], tuple[str, ...]]:
        """Why nothing fits, and the features that would change that; found once for all Pods of a kind.

        Claims that are yet to be made are named without the Pod's name, which stands in front of all this.
        """
        if self._state is not self._told[0]:
            self._told = self._state, {}
        prefix = f"{turn.name}-"
        short = [
            Way(way.group, tuple(replace(claim, name=claim.name.removeprefix(prefix)) for claim in way.claims))
            for way in ways
        ]
        about = tuple(
            (id(way.group), *((claim.label, claim.kind, id(claim.allocation)) for claim in way.claims)) for way in short
        )
        told = self._told[1]
        if about not in told:
            found = [
                each
                for way in short
                for each in explained(self._snapshot, self._state, way.group.nodes, way.claims, self._settings)
            ]
            told[about] = tuple(found), self._cures(short)
        return told[about]

    def _commit(self, claims: tuple[Claim, ...], outcome: Allocated) -> tuple[Device, ...]:
        devices: list[Device] = []
        for claim, allocation in zip(claims, outcome.results, strict=True):
            if claim.allocation is None:
                self._state = self._state.commit(claim.label, holdings(allocation, claim.label))
                self._claims[claim.label] = replace(claim, allocation=allocation)
            devices += _devices(claim, allocation)
        return tuple(devices)

    def _open(self, turn: Turn, classes: Mapping[str, str]) -> Open:
        """Where the Pod may go: the same for all Pods of a workload."""
        pod = turn.pod
        offered = {ask.resource for ask in pod.view.extended()} & self._cluster.plugin_nodes.keys()
        names = frozenset(name for name in offered if name not in classes or not self._coexists(name))
        claimed = frozenset(classes) if self._native else frozenset()
        key = turn.node, pod.tolerations, repr(pod.node_selector), repr(pod.node_affinity), names, names & claimed
        if key not in self._opened:
            self._opened[key] = self._opened_for(turn, names, claimed)
        return self._opened[key]

    def _coexists(self, name: str) -> bool:
        """Whether drabridge takes the name over although device plugins offer it."""
        policy = self._cluster.effective_policies.get(name)
        return not self._native and policy is not None and policy.coexistence is Coexistence.REWRITE

    def _opened_for(self, turn: Turn, names: frozenset[str], claimed: frozenset[str]) -> Open:
        plugins = names - claimed
        nodes: dict[frozenset[str], list[NodeRecord]] = {}
        barred: dict[str, list[str]] = {}
        for node in self._cluster.nodes:
            if turn.node not in ("", node.name):
                continue
            if reason := barrier(node, turn.pod) or _without_plugin(node, plugins):
                barred.setdefault(reason, []).append(node.name)
            else:
                offered = {name for name in names if node.allocatable.get(name)} if self._native else names
                nodes.setdefault(frozenset(offered), []).append(node)
        if not nodes:  # what is broken is to be known all the same
            nodes[frozenset(names)] = []
        return Open(
            tuple(
                Group(each, tuple(members), tuple(self._places[node.name] for node in members))
                for each, members in nodes.items()
            ),
            tuple(Barred(reason, tuple(members)) for reason, members in barred.items()),
        )

    def _classes(self, pod: PodRecord, left: Mapping[str, Objection]) -> Mapping[str, str]:
        """Resource name -> DeviceClass of what claims serve; what drabridge leaves, kube-scheduler may serve itself."""
        found = {}
        for name in {ask.resource for ask in pod.view.extended()}:
            mapping = self._cluster.class_map.resolve(name)
            native = self._cluster.class_map.native(name) if self._native else None
            if served := native if name in left else mapping and mapping.device_class:
                found[name] = served
        return found

    def _unserved(self, pod: PodRecord, left: Mapping[str, Objection]) -> str:
        """What is wrong with a name that neither a DeviceClass nor a device plugin serves; "" if there is none."""
        classes = self._classes(pod, left)
        for name in sorted({ask.resource for ask in pod.view.extended()} - self._cluster.plugin_nodes.keys()):
            if name in left and name not in classes:
                return f"drabridge leaves {name} alone: {left[name].detail}; {CURES[left[name].reason]}"
            if name not in classes:
                implied = implicit_class(name)
                missing = f"DeviceClass {implied} does not exist" if implied else "no DeviceClass names it"
                return f"nobody serves {name}: {missing}, and no node has it in status.allocatable"
        return ""

    def _claims_of(self, turn: Turn, classes: Mapping[str, str], plugins: frozenset[str]) -> tuple[Claim, ...]:
        """The claims of a Pod as they are now, and those that are still to be made for it. Raises InvalidInput."""
        pod = turn.pod
        found: dict[str, Claim] = {}
        for entry in pod.view.resource_claims:
            if claim := self._claim_of(turn, entry):
                found[claim.label] = claim
        own = self._cluster.own_claim(pod)
        if own is not None and own.key in self._claims:
            found[own.key] = self._claims[own.key]
        served = {name: device_class for name, device_class in classes.items() if name not in plugins}
        raw = extended_claim(pod, self._cluster, f"{turn.name}-extended-resources", served)
        if raw is not None:
            claim = Claim.of(defaulted(raw))
            found[claim.label] = claim
        return tuple(found.values())

    def _claim_of(self, turn: Turn, entry: PodClaim) -> Claim | None:
        pod = turn.pod
        namespace = pod.view.namespace
        name = pod.claims.get(entry.name)
        if name is None and entry.template_name:
            raw = template_claim(namespace, entry.template_name, f"{turn.name}-{entry.name}", self._cluster)
            return Claim.of(defaulted(raw))
        key = f"{namespace}/{name}"
        if key in self._claims:
            return self._claims[key]
        if entry == our_claim(pod.view):
            return None  # drabridge makes it
        raise InvalidInput(f"ResourceClaim {key}", "", "it does not exist", "create it, or put it into the files")

    def _cures(self, ways: Sequence[Way]) -> tuple[str, ...]:
        """Features that are off and with any of which, on, the Pod would fit."""
        found = []
        for field in fields(self._settings.features):
            if getattr(self._settings.features, field.name):
                continue
            changed: Any = {field.name: True}
            settings = replace(self._settings, features=replace(self._settings.features, **changed))
            if any(self._fits(way, settings) for way in ways):
                found.append(JSON_NAMES[field.name])
        return tuple(found)

    def _fits(self, way: Way, settings: Settings) -> bool:
        try:
            return bool(fits(self._snapshot, self._state, way.group.places, way.claims, settings).fitting)
        except InvalidInput:
            return False


def _without_plugin(node: NodeRecord, names: frozenset[str]) -> str:
    missing = sorted(name for name in names if not node.allocatable.get(name))
    return f"no {missing[0]} in status.allocatable, which device plugins serve" if missing else ""


def _devices(claim: Claim, allocation: Mapping[str, Any]) -> Iterator[Device]:
    for result in (allocation.get("devices") or {}).get("results") or ():
        yield Device(
            claim.label,
            result["request"],
            f"{result['driver']}/{result['pool']}/{result['device']}",
            result.get("shareID") or "",
            result.get("consumedCapacity"),
            result.get("adminAccess") is True,
        )
