"""What we know of the cluster, kept as the small frozen views that decisions read.

The first content comes from a list of our own, which says when it is complete; Kopf's watches keep it current. Kopf
lists again when the API server has forgotten a watch's place, and then tells nobody what was deleted meanwhile; so
`prune` compares with a list of names, after each such relist and every now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import structlog

from drabridge.api.policy import ExtendedResourcePolicy
from drabridge.core.asked import Asked, decode
from drabridge.core.auto import kubelet_is_native, rewritten
from drabridge.core.bind.devices import ClassRecord, SliceRecord
from drabridge.core.bind.nodes import BindNode
from drabridge.core.bind.podclaims import ClaimRecord
from drabridge.core.caps import Limit, LimitRangeView, QuotaView, caps_of, stricter
from drabridge.core.claims import ClaimView, TemplateView
from drabridge.core.classmap import ClassMap, ClassView
from drabridge.core.cluster import ClusterView, Gate, NamespaceFacts, NodeFacts
from drabridge.core.deviceplugins import offered
from drabridge.core.errors import InvalidInput
from drabridge.core.podview import PodView
from drabridge.core.policy import PolicyView, effective
from drabridge.core.rewrite import WATCHED, our_claim
from drabridge.core.supply import Published, SliceView
from drabridge.core.usage import Usages, count
from drabridge.kube import resources
from drabridge.kube.client import Client
from drabridge.kube.resources import Resource

GONE_MAX = 4096
"""Deletions that a store remembers, so that a list of ours that was under way meanwhile does not bring the object back.
A list takes seconds, and a store sees fewer deletions than that in so short a time."""

View = TypeVar("View")
Raw = Mapping[str, Any]
_log = structlog.get_logger(__name__)


def key_of(raw: Raw) -> str:
    """namespace/name, or the name of a cluster-scoped object."""
    metadata = raw["metadata"]
    namespace = metadata.get("namespace")
    return f"{namespace}/{metadata['name']}" if namespace else str(metadata["name"])


@dataclass(frozen=True, slots=True)
class Change(Generic[View]):
    """One object's view before and after; None where there was or is none."""

    key: str
    before: View | None
    after: View | None


class Store(Generic[View]):
    """The views of one kind's objects.

    Events may come twice, late and out of order across objects of one name; the resourceVersion decides which is
    newer. `version` grows with each change, so that whatever is derived from the store can be kept until then.
    """

    def __init__(
        self,
        resource: Resource,
        view: Callable[[Raw], View],
        *,
        label_selector: str | None = None,
        index: Callable[[View], str | None] = lambda _: None,
    ) -> None:
        self.resource = resource
        self.label_selector = label_selector
        self.version = 0
        self._view = view
        self._index = index
        self._entries: dict[str, tuple[int, View]] = {}
        self._gone: dict[str, int] = {}  # key -> resourceVersion of its end, the longest known first
        self._indexed: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[View]:
        return (view for _, view in self._entries.values())

    def get(self, key: str) -> View | None:
        """The view of one object, or None."""
        entry = self._entries.get(key)
        return entry[1] if entry else None

    def keys_of(self, value: str) -> frozenset[str]:
        """The keys of the objects that the index gives this value."""
        return frozenset(self._indexed.get(value, ()))

    def seen(self, raw: Raw, *, deleted: bool = False) -> Change[View] | None:
        """Take in what a watch, a list or a write of our own showed. None if it changes nothing we look at.

        An object whose shape cannot be read (the API server's schema should have refused it) counts as deleted.
        """
        key, version = key_of(raw), int(raw["metadata"]["resourceVersion"])
        known, before = self._entries.get(key, (self._gone.get(key, 0), None))
        if version < known or (version == known and before is not None and not deleted):
            return None  # the second: a list shows again what we know, and reading it would take as long as at first
        after = None if deleted else self._read(raw)
        if after is None:
            self._forget(key, version)
        else:
            self._entries[key] = (version, after)
        if after == before:
            return None
        return self._changed(Change(key, before, after))

    def missing(self, key: str) -> Change[View] | None:
        """Take in that a read of our own did not find an object."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._forget(key, entry[0] + 1)
        return self._changed(Change(key, entry[1], None))

    def prune(self, keys: set[str], listed_at: int) -> list[Change[View]]:
        """Drop what is older than a list and not in it."""
        gone = [
            Change(key, view, None)
            for key, (version, view) in self._entries.items()
            if key not in keys and version <= listed_at
        ]
        for change in gone:
            self._forget(change.key, listed_at + 1)
            self._changed(change)
        return gone

    def _forget(self, key: str, version: int) -> None:
        """Take an object out, and remember it as gone to whoever shows it as it was before `version`."""
        self._entries.pop(key, None)
        self._gone.pop(key, None)
        self._gone[key] = version
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def _changed(self, change: Change[View]) -> Change[View]:
        self.version += 1
        former = None if change.before is None else self._index(change.before)
        latter = None if change.after is None else self._index(change.after)
        if former is not None and former != latter:
            self._indexed[former].discard(change.key)
            if not self._indexed[former]:
                del self._indexed[former]
        if latter is not None:
            self._indexed.setdefault(latter, set()).add(change.key)
        return change

    def _read(self, raw: Raw) -> View | None:
        try:
            return self._view(raw)
        except (InvalidInput, AttributeError, KeyError, TypeError, ValueError) as error:
            # One odd object, which a schema should have refused, must not keep us from all the others.
            _log.warning("cannot read an object", kind=self.resource.kind, key=key_of(raw), error=repr(error))
            return None


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A rewritten Pod, the key of the claim it waits for, and what its annotation says (None: unreadable)."""

    pod: PodView
    claim_key: str | None
    asked: Asked | None

    @classmethod
    def of(cls, raw: Raw) -> PodRecord:
        """Read a Pod once, for all decisions about it."""
        pod = PodView.of(raw)
        entry = our_claim(pod)
        try:
            asked = decode(pod)
        except InvalidInput:
            asked = None
        return cls(pod, f"{pod.namespace}/{entry.claim_name}" if entry else None, asked)

    @property
    def counts(self) -> bool:
        """Whether the Pod uses a claim of ours, or will; a label alone proves nothing, and an end frees the devices."""
        return self.claim_key is not None and self.pod.phase not in ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class NodeView:
    """What matters of a Node: which extended resources a device plugin offers there, and whether its kubelet is old."""

    name: str
    plugins: frozenset[str]
    old_kubelet: bool

    @classmethod
    def of(cls, raw: Raw) -> NodeView:
        """Read a Node."""
        status = raw.get("status", {})
        schedulable = not raw.get("spec", {}).get("unschedulable", False)
        version = status.get("nodeInfo", {}).get("kubeletVersion", "")
        return cls(raw["metadata"]["name"], offered(status), schedulable and not kubelet_is_native(version))


@dataclass(frozen=True, slots=True)
class NamespaceView:
    """A namespace's labels."""

    name: str
    labels: Mapping[str, str]

    @classmethod
    def of(cls, raw: Raw) -> NamespaceView:
        """Read a Namespace."""
        return cls(raw["metadata"]["name"], raw["metadata"].get("labels", {}))


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """An ExtendedResourcePolicy and the status it shows."""

    policy: PolicyView
    status: Mapping[str, Any]

    @classmethod
    def of(cls, raw: Raw) -> PolicyRecord:
        """Read an ExtendedResourcePolicy as it is stored."""
        return cls(ExtendedResourcePolicy.parse(raw).view(), raw.get("status", {}))


class BindStores:
    """What allocating takes besides: claims, devices, classes and nodes with all that an allocation looks at."""

    def __init__(self) -> None:
        self.claims = Store(resources.RESOURCE_CLAIMS, ClaimRecord.of)
        self.slices = Store(resources.RESOURCE_SLICES, SliceRecord.of)
        self.classes = Store(resources.DEVICE_CLASSES, ClassRecord.of)
        self.nodes = Store(resources.NODES, BindNode.of)

    @property
    def all(self) -> tuple[Store[Any], ...]:
        """Every store, what is allocated last: it must not be older than the devices."""
        return (self.classes, self.nodes, self.slices, self.claims)


class Caches:
    """All stores, and the cluster as they show it."""

    def __init__(self, schedulers: Iterable[str], bind_scheduler: str = "") -> None:
        self.pods = Store(resources.PODS, PodRecord.of, label_selector=WATCHED, index=lambda record: record.claim_key)
        self.claims = Store(resources.RESOURCE_CLAIMS, ClaimView.of)
        self.classes = Store(resources.DEVICE_CLASSES, ClassView.of)
        self.policies = Store(resources.EXTENDED_RESOURCE_POLICIES, PolicyRecord.of)
        self.slices = Store(resources.RESOURCE_SLICES, SliceView.of)
        self.nodes = Store(resources.NODES, NodeView.of)
        self.namespaces = Store(resources.NAMESPACES, NamespaceView.of)
        self.limit_ranges = Store(resources.LIMIT_RANGES, LimitRangeView.of, index=lambda view: view.namespace)
        self.quotas = Store(resources.RESOURCE_QUOTAS, QuotaView.of, index=lambda view: view.namespace)
        self.gate = Gate.UNKNOWN
        self.settled: frozenset[str] = frozenset()
        self.synced = False
        self.bind_scheduler = bind_scheduler
        self.bind = BindStores() if bind_scheduler else None
        self.templates = Store(resources.RESOURCE_CLAIM_TEMPLATES, TemplateView.of) if bind_scheduler else None
        self._schedulers = frozenset(schedulers)
        self._kept: dict[str, tuple[object, Any]] = {}

    @property
    def stores(self) -> tuple[Store[Any], ...]:
        """Every store."""
        return (
            self.classes,
            self.policies,
            self.namespaces,
            self.limit_ranges,
            self.quotas,
            self.nodes,
            self.slices,
            self.claims,
            self.pods,
            *(() if self.templates is None else (self.templates,)),
            *(self.bind.all if self.bind else ()),
        )

    @property
    def kinds(self) -> tuple[tuple[Store[Any], ...], ...]:
        """Every store, with those that keep something else of the same objects: one list and one watch serve them."""
        kinds: dict[tuple[Resource, str | None], list[Store[Any]]] = {}
        for store in self.stores:
            kinds.setdefault((store.resource, store.label_selector), []).append(store)
        return tuple(map(tuple, kinds.values()))

    async def load(self, client: Client) -> None:
        """Fill every store from the API server; afterwards `synced` is true."""
        for kind in self.kinds:
            async for page in client.list_pages(kind[0].resource, label_selector=kind[0].label_selector):
                for raw in page["items"]:
                    for store in kind:
                        store.seen(raw)
        self.synced = True

    async def check(self, client: Client) -> None:
        """Ask whether every kind can be listed, without taking anything in. Raises Missing or Refused if one cannot."""
        for store, *_ in self.kinds:
            async for _ in client.list_pages(
                store.resource, label_selector=store.label_selector, limit=1, metadata_only=True
            ):
                break

    async def refresh(self, client: Client, store: Store[Any], namespace: str | None = None) -> None:
        """List one kind, or what concerns one namespace of it, and take in what is there."""
        within = namespace if store.resource.namespaced else None
        only = f"metadata.name={namespace}" if namespace and not store.resource.namespaced else None
        async for page in client.list_pages(
            store.resource, within, label_selector=store.label_selector, field_selector=only
        ):
            for raw in page["items"]:
                store.seen(raw)

    async def relist(self, client: Client, store: Store[View]) -> None:
        """Take in all of one kind as it is now, deletions included. Nothing is told of what changed."""
        keys: set[str] = set()
        listed_at = 0
        async for page in client.list_pages(store.resource, label_selector=store.label_selector):
            listed_at = listed_at or int(page["metadata"]["resourceVersion"])
            for raw in page["items"]:
                keys.add(key_of(raw))
                store.seen(raw)
        store.prune(keys, listed_at)

    async def prune(self, client: Client, kind: Sequence[Store[View]]) -> list[tuple[Store[View], list[Change[View]]]]:
        """Drop what a list of names does not show any more from the stores of one kind."""
        keys: set[str] = set()
        listed_at = 0
        first = kind[0]
        async for page in client.list_pages(first.resource, label_selector=first.label_selector, metadata_only=True):
            # The first page's moment is the one that holds for all; a deletion after it is the watch's to tell.
            listed_at = listed_at or int(page["metadata"]["resourceVersion"])
            keys.update(key_of(item) for item in page["items"])
        return [(store, store.prune(keys, listed_at)) for store in kind]

    def cluster(self, namespace: str = "") -> ClusterView:
        """The cluster as the decision about a Pod of `namespace` needs it."""
        cluster = ClusterView(
            classes=self._keep("classes", self._class_map, self.classes, self.policies),
            policies=self._policies(),
            nodes=self._keep("nodes", self._node_facts, self.nodes),
            namespace=NamespaceFacts(),
            gate=self.gate,
            settled=self.settled,
            schedulers=self._schedulers,
            bind_scheduler=self.bind_scheduler,
        )
        return replace(cluster, namespace=self._namespace_facts(namespace, cluster)) if namespace else cluster

    def in_namespace(self, store: Store[View], namespace: str) -> list[View]:
        """The views of a store that is indexed by namespace."""
        views = (store.get(key) for key in store.keys_of(namespace))
        return [view for view in views if view is not None]

    def published(self) -> Published:
        """The devices that ResourceSlices publish."""
        published: Published = self._keep("published", lambda: Published.of(self.slices), self.slices)
        return published

    def usage(self) -> Usages:
        """What is in use, by resource name and delivery."""
        usages: Usages = self._keep(
            "usage",
            lambda: count(
                ((record.asked, self._claim_of(record)) for record in self.pods if record.asked and record.counts),
                self.claims,
                self.cluster().classes,
            ),
            self.pods,
            self.claims,
            self.classes,
            self.policies,
        )
        return usages

    def _claim_of(self, record: PodRecord) -> ClaimView | None:
        claim = self.claims.get(record.claim_key) if record.claim_key else None
        return claim if claim and claim.owner_uid == record.pod.uid else None

    def _keep(self, name: str, make: Callable[[], Any], *stores: Store[Any]) -> Any:
        versions = tuple(store.version for store in stores)
        kept = self._kept.get(name)
        if kept is None or kept[0] != versions:
            kept = self._kept[name] = (versions, make())
        return kept[1]

    def _class_map(self) -> ClassMap:
        return ClassMap.of(self.classes, {policy.resource: policy.device_class for policy in self._policies().values()})

    def _policies(self) -> Mapping[str, PolicyView]:
        policies: Mapping[str, PolicyView] = self._keep(
            "policies", lambda: effective(record.policy for record in self.policies), self.policies
        )
        return policies

    def _node_facts(self) -> NodeFacts:
        plugins: dict[str, str] = {}
        for node in self.nodes:
            for name in node.plugins:
                plugins[name] = min(node.name, plugins.get(name, node.name))
        return NodeFacts(plugins, tuple(sorted(node.name for node in self.nodes if node.old_kubelet)))

    def _namespace_facts(self, namespace: str, cluster: ClusterView) -> NamespaceFacts:
        limits: dict[str, Limit] = {}
        for limit_range in self.in_namespace(self.limit_ranges, namespace):
            for name, limit in limit_range.limits.items():
                limits[name] = stricter(limits[name], limit) if name in limits else limit
        quotas = self.in_namespace(self.quotas, namespace)
        view = self.namespaces.get(namespace)
        return NamespaceFacts(
            view.labels if view else {},
            limits,
            caps_of(quotas, rewritten({name for quota in quotas for name in quota.capped}, cluster)),
        )
