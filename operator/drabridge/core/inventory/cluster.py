"""The cluster at one moment, and what follows from it for all who ask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeVar

from drabridge.core.auto import kubelet_is_native, rewritten
from drabridge.core.caps import Limit, LimitRangeView, QuotaView, caps_of, stricter
from drabridge.core.classmap import ClassMap
from drabridge.core.cluster import ClusterView, Gate, NamespaceFacts, NodeFacts
from drabridge.core.inventory.access import BindingRecord, RoleRecord
from drabridge.core.inventory.claims import Allotment, ClaimRecord, TemplateRecord
from drabridge.core.inventory.classes import ClassRecord
from drabridge.core.inventory.nodes import NodeRecord, Taint
from drabridge.core.inventory.pods import EventRecord, PodRecord
from drabridge.core.inventory.selection import Placed, Selection, select
from drabridge.core.inventory.shape import Raw
from drabridge.core.inventory.slices import Pool, SliceRecord, TaintRule, pools_of
from drabridge.core.inventory.workloads import WebhookRecord, WorkloadRecord
from drabridge.core.podview import DEFAULT_SCHEDULER
from drabridge.core.policy import PolicyView, effective
from drabridge.core.rewrite import our_claim

CONFIGURATION = "drabridge"
"""The name of the webhook configuration."""

SCHEDULERS_OPTION = "--scheduler-names"
SCHEDULERS_VARIABLE = "DRABRIDGE_SCHEDULER_NAMES"
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


UNREADABLE: Final = "could not be read"
"""Why a kind is not seen of which there are objects, and none that can be read."""


class Kind(StrEnum):
    """What can be seen or not: the kinds of objects that an inventory is made of."""

    NODES = "Node"
    PODS = "Pod"
    NAMESPACES = "Namespace"
    LIMIT_RANGES = "LimitRange"
    QUOTAS = "ResourceQuota"
    CLAIMS = "ResourceClaim"
    TEMPLATES = "ResourceClaimTemplate"
    CLASSES = "DeviceClass"
    SLICES = "ResourceSlice"
    TAINT_RULES = "DeviceTaintRule"
    POLICIES = "ExtendedResourcePolicy"
    ROLES = "ClusterRole"
    NAMESPACED_ROLES = "Role"
    BINDINGS = "ClusterRoleBinding"
    NAMESPACED_BINDINGS = "RoleBinding"
    DEPLOYMENTS = "Deployment"
    DAEMON_SETS = "DaemonSet"
    MUTATING = "MutatingWebhookConfiguration"
    VALIDATING = "ValidatingWebhookConfiguration"
    EVENTS = "Event"


@dataclass(frozen=True, slots=True)
class Odd:
    """An object that cannot be read, why (field and what is wrong with it), and what to do."""

    object: str
    problem: str
    cure: str


@dataclass(frozen=True, slots=True)
class BetaUse:
    """Objects of one kind in a beta version of resource.k8s.io, or a writer (`manager`) that still uses it."""

    api_version: str
    kind: str
    manager: str
    example: str
    count: int


@dataclass(frozen=True)  # no slots: what is derived is kept in the instance, once computed
class Inventory:
    """The objects of a cluster. `unseen` is what could not be looked at, and why; nothing follows from its absence.

    `settled` are the names that kube-scheduler could serve for long enough (`auto.choose`); None if nobody keeps count,
    which is taken for long enough. `server` is the API server's (major, minor), None if nothing shows it.
    """

    now: datetime = _EPOCH
    server: tuple[int, int] | None = None
    gate: Gate = Gate.UNKNOWN
    settled: frozenset[str] | None = None
    nodes: tuple[NodeRecord, ...] = ()
    pods: tuple[PodRecord, ...] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    limit_ranges: tuple[LimitRangeView, ...] = ()
    quotas: tuple[QuotaView, ...] = ()
    claims: tuple[ClaimRecord, ...] = ()
    templates: tuple[TemplateRecord, ...] = ()
    classes: tuple[ClassRecord, ...] = ()
    slices: tuple[SliceRecord, ...] = ()
    taint_rules: tuple[TaintRule, ...] = ()
    policies: tuple[PolicyView, ...] = ()
    roles: tuple[RoleRecord, ...] = ()
    bindings: tuple[BindingRecord, ...] = ()
    workloads: tuple[WorkloadRecord, ...] = ()
    webhooks: tuple[WebhookRecord, ...] = ()
    events: tuple[EventRecord, ...] = ()
    beta: tuple[BetaUse, ...] = ()
    odd: tuple[Odd, ...] = ()
    unseen: Mapping[Kind, str] = field(default_factory=dict)
    bodies: Mapping[Kind, tuple[Raw, ...]] = field(default_factory=dict)
    """The objects as they are, of kinds that were to be kept: the allocation core reads them itself."""

    @cached_property
    def askers(self) -> tuple[ClaimRecord | TemplateRecord, ...]:
        """All that has device requests: claims, then templates."""
        return (*self.claims, *self.templates)

    def own_claim(self, pod: PodRecord) -> ClaimRecord | None:
        """The claim that serves the extended resources of a Pod, whoever made it."""
        entry = our_claim(pod.view)
        name = pod.view.extended_claim or (entry.claim_name if entry else None)
        return self.claims_by_key.get(f"{pod.view.namespace}/{name}") if name else None

    @cached_property
    def wanted(self) -> Mapping[str, tuple[PodRecord, ...]]:
        """Extended resource -> the Pods that wait for a node and ask for it."""
        found: dict[str, list[PodRecord]] = {}
        for pod in self.pods:
            if pod.waiting:
                for name in {ask.resource for ask in pod.view.extended()}:
                    found.setdefault(name, []).append(pod)
        return {name: tuple(pods) for name, pods in sorted(found.items())}

    def age(self, moment: str) -> float:
        """Seconds since a moment of the API; 0 where it says nothing."""
        try:
            return (self.now - datetime.fromisoformat(moment)).total_seconds() if moment else 0.0
        except (ValueError, TypeError):
            return 0.0

    @cached_property
    def pods_by_key(self) -> Mapping[str, PodRecord]:
        """namespace/name -> Pod."""
        return {pod.key: pod for pod in self.pods}

    @cached_property
    def pods_by_uid(self) -> Mapping[str, PodRecord]:
        """UID -> Pod."""
        return {pod.view.uid: pod for pod in self.pods if pod.view.uid}

    @cached_property
    def claims_by_key(self) -> Mapping[str, ClaimRecord]:
        """namespace/name -> ResourceClaim."""
        return {claim.key: claim for claim in self.claims}

    @cached_property
    def nodes_by_name(self) -> Mapping[str, NodeRecord]:
        """Name -> Node."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def classes_by_name(self) -> Mapping[str, ClassRecord]:
        """Name -> DeviceClass."""
        return {each.name: each for each in self.classes}

    @cached_property
    def users(self) -> Mapping[str, tuple[PodRecord, ...]]:
        """Claim (namespace/name) -> the Pods that refer to it."""
        found: dict[str, list[PodRecord]] = {}
        for pod in self.pods:
            for name in pod.claim_names:
                found.setdefault(f"{pod.view.namespace}/{name}", []).append(pod)
        return {key: tuple(pods) for key, pods in found.items()}

    @cached_property
    def pools(self) -> Mapping[tuple[str, str], Pool]:
        """(Driver, pool) -> the pool."""
        return pools_of(self.slices)

    @cached_property
    def devices(self) -> tuple[Placed, ...]:
        """All devices of the newest generations."""
        return tuple(
            Placed(pool, published, device)
            for pool in self.pools.values()
            for published in pool.slices
            for device in published.devices
        )

    @cached_property
    def places(self) -> Mapping[tuple[str, str, str], Placed]:
        """(Driver, pool, device) -> the device."""
        return {each.place: each for each in self.devices}

    @cached_property
    def holders(self) -> Mapping[tuple[str, str, str], tuple[tuple[ClaimRecord, Allotment], ...]]:
        """(Driver, pool, device) -> the claims that it is allocated to."""
        found: dict[tuple[str, str, str], list[tuple[ClaimRecord, Allotment]]] = {}
        for claim in self.claims:
            for result in claim.results or ():
                found.setdefault(result.place, []).append((claim, result))
        return {place: tuple(holders) for place, holders in found.items()}

    @cached_property
    def selections(self) -> Mapping[str, Selection]:
        """DeviceClass -> what it selects."""
        return select({each.name: each.view.selectors for each in self.classes}, self.devices)

    def taints_of(self, placed: Placed) -> tuple[Taint, ...]:
        """The taints of a device, those of DeviceTaintRules included."""
        return placed.device.taints + tuple(rule.taint for rule in self.taint_rules if rule.selects(*placed.place))

    @cached_property
    def effective_policies(self) -> Mapping[str, PolicyView]:
        """Resource name -> the policy that counts for it."""
        return effective(self.policies)

    @cached_property
    def class_map(self) -> ClassMap:
        """Resource name -> DeviceClass."""
        chosen = {policy.resource: policy.device_class for policy in self.effective_policies.values()}
        return ClassMap.of((each.view for each in self.classes), chosen)

    @cached_property
    def plugin_nodes(self) -> Mapping[str, tuple[str, ...]]:
        """Resource name -> the nodes where a device plugin offers some of it."""
        found: dict[str, list[str]] = {}
        for node in self.nodes:
            for name, quantity in node.allocatable.items():
                if quantity > 0:
                    found.setdefault(name, []).append(node.name)
        return {name: tuple(sorted(nodes)) for name, nodes in found.items()}

    @cached_property
    def installation(self) -> WorkloadRecord | None:
        """The Deployment of drabridge itself."""
        for workload in self.workloads:
            if workload.kind == "Deployment" and workload.runs("drabridge"):
                return workload
        return None

    @cached_property
    def bridged(self) -> bool:
        """Whether drabridge is in this cluster, or somebody wants it to be."""
        registered = any(each.configuration == CONFIGURATION for each in self.webhooks)
        return bool(self.installation or self.policies or registered)

    @cached_property
    def rewritten(self) -> Mapping[str, str]:
        """Resource name -> DeviceClass, for all names whose Pods drabridge rewrites; none where it is not."""
        return rewritten(self.class_map.names(), self.cluster_view) if self.bridged else {}

    @cached_property
    def schedulers(self) -> frozenset[str]:
        """The schedulers whose Pods drabridge rewrites, as its Deployment says, else the default one."""
        said = ""
        if self.installation:
            said = self.installation.option(SCHEDULERS_OPTION) or self.installation.environment.get(
                SCHEDULERS_VARIABLE, ""
            )
        return frozenset(filter(None, (name.strip() for name in said.split(",")))) or frozenset({DEFAULT_SCHEDULER})

    @cached_property
    def cluster_view(self) -> ClusterView:
        """What decisions about Pods read, without a namespace."""
        old = (node.name for node in self.nodes if not node.unschedulable and not kubelet_is_native(node.kubelet))
        return ClusterView(
            classes=self.class_map,
            policies=self.effective_policies,
            nodes=NodeFacts({name: nodes[0] for name, nodes in self.plugin_nodes.items()}, tuple(sorted(old))),
            namespace=NamespaceFacts(),
            gate=self.gate,
            settled=self.class_map.names() if self.settled is None else self.settled,
            schedulers=self.schedulers,
        )

    @cached_property
    def _namespaced(self) -> Mapping[str, ClusterView]:
        views: dict[str, ClusterView] = {}
        bare = self.cluster_view
        for name in {*self.namespaces, *self.quotas_of, *self.limit_ranges_of}:
            facts = self._facts(name, bare)
            views[name] = ClusterView(
                bare.classes, bare.policies, bare.nodes, facts, bare.gate, bare.settled, bare.schedulers
            )
        return views

    def cluster(self, namespace: str) -> ClusterView:
        """What the decision about a Pod of this namespace reads."""
        return self._namespaced.get(namespace, self.cluster_view)

    def _facts(self, namespace: str, bare: ClusterView) -> NamespaceFacts:
        limits: dict[str, Limit] = {}
        for limit_range in self.limit_ranges_of.get(namespace, ()):
            for name, limit in limit_range.limits.items():
                limits[name] = stricter(limits[name], limit) if name in limits else limit
        quotas = self.quotas_of.get(namespace, ())
        served = rewritten({name for quota in quotas for name in quota.capped}, bare)
        return NamespaceFacts(self.namespaces.get(namespace, {}), limits, caps_of(quotas, served))

    @cached_property
    def quotas_of(self) -> Mapping[str, tuple[QuotaView, ...]]:
        """Namespace -> its ResourceQuotas."""
        return _by_namespace(self.quotas)

    @cached_property
    def limit_ranges_of(self) -> Mapping[str, tuple[LimitRangeView, ...]]:
        """Namespace -> its LimitRanges."""
        return _by_namespace(self.limit_ranges)


Namespaced = TypeVar("Namespaced", QuotaView, LimitRangeView)


def _by_namespace(views: Iterable[Namespaced]) -> dict[str, tuple[Namespaced, ...]]:
    found: dict[str, list[Namespaced]] = {}
    for view in views:
        found.setdefault(view.namespace, []).append(view)
    return {namespace: tuple(members) for namespace, members in found.items()}
