"""The webhook's question: what becomes of this Pod? Runs in every replica and writes nothing."""

from __future__ import annotations

import asyncio
import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from drabridge.core.asked import ANNOTATION
from drabridge.core.bind.directing import ClaimAsk, claiming, directed, object_to_claims
from drabridge.core.claims import ClaimView, TemplateView, in_devices
from drabridge.core.cluster import ClusterView
from drabridge.core.errors import DrabridgeError, InvalidInput, Missing
from drabridge.core.podpatch import JSONPatch
from drabridge.core.podview import PodClaim, PodView
from drabridge.core.reasons import Reason, with_cure
from drabridge.core.restore import restore
from drabridge.core.rewrite import (
    CLAIM_PREFIX,
    ClaimNames,
    LeaveAlone,
    Objection,
    Rewrite,
    decide,
    our_claim,
)
from drabridge.delivery.supply import Supply
from drabridge.kube.caches import Caches, Store
from drabridge.kube.client import Client
from drabridge.kube.clock import SYSTEM, Clock
from drabridge.kube.resources import RESOURCE_CLAIMS

LIVE_READ_EVERY = 0.2
"""Seconds between two reads of policies and classes on behalf of names that the caches do not know. All Pods that wait
for a read share it."""

UNKNOWN_FOR = 1.0
"""Seconds for which a name that such a read did not find is not looked for again: nobody serves it, most likely."""

UNKNOWN_MAX = 1024

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server is told. `outcome` is "Rewrite" or the reason why the Pod stays as it is."""

    patch: JSONPatch
    outcome: str
    warnings: tuple[str, ...] = ()


def fresh_claim_name() -> str:
    """A claim name that nobody else has: 16 characters of 36 are more than 80 bits."""
    alphabet = string.ascii_lowercase + string.digits
    return CLAIM_PREFIX + "".join(secrets.choice(alphabet) for _ in range(16))


class Admission:
    """Gathers what a decision about a new Pod needs, and words the answer."""

    def __init__(
        self,
        caches: Caches,
        supply: Supply,
        client: Client,
        *,
        fresh: Callable[[], str] = fresh_claim_name,
        clock: Clock = SYSTEM,
    ) -> None:
        self._caches = caches
        self._supply = supply
        self._client = client
        self._fresh = fresh
        self._clock = clock
        self._read_at = float("-inf")
        self._reading = asyncio.Lock()
        self._unknown: dict[str, float] = {}  # name -> when a read did not find it

    async def review(self, raw: Mapping[str, Any], namespace: str) -> Answer:
        """Decide about a Pod as it stands in an AdmissionReview, to be created in `namespace`."""
        try:
            pod = PodView.of(_placed(raw, namespace))
            cluster = await self._cluster(pod)
            verdict = decide(pod, cluster, await self._names(pod))
        except InvalidInput as error:
            return Answer([], Reason.INVALID_POD, (f"drabridge: {Reason.INVALID_POD}: {error}",))
        left = verdict.objections if isinstance(verdict, LeaveAlone) else verdict.left
        left += await self._about_claims(pod, cluster, left)
        if isinstance(verdict, LeaveAlone):
            patch = directed(pod, left, self._caches.bind_scheduler)
            return Answer(verdict.patch + patch, _outcome(left), self._warnings(left))
        patch = directed(pod, left, self._caches.bind_scheduler, rewritten=True)
        return Answer(verdict.patch + patch, "Rewrite", (_served(verdict), *self._warnings(left)))

    def update(self, raw: Mapping[str, Any], old: Mapping[str, Any]) -> Answer:
        """Decide about an update of a Pod: what is ours on it stays as it is stored."""
        try:
            restored = restore(PodView.of(raw), PodView.of(old))
        except InvalidInput as error:
            return Answer([], Reason.INVALID_POD, (f"drabridge: {Reason.INVALID_POD}: {error}",))
        outcome = "Restore" if restored.patch else "Unchanged"
        return Answer(restored.patch, outcome, tuple(f"drabridge: {each}" for each in restored.refused))

    async def _cluster(self, pod: PodView) -> ClusterView:
        """The cluster as the caches show it; asked live, but not too often, where they may lag behind the Pod."""
        await self._read_namespace(pod.namespace)
        if self._unknown_names(pod):
            await self._look_for_names()
            if len(self._unknown) > UNKNOWN_MAX:
                self._unknown.clear()
            self._unknown.update(dict.fromkeys(self._unknown_names(pod), self._read_at))
        return self._caches.cluster(pod.namespace)

    def _unknown_names(self, pod: PodView) -> set[str]:
        """The names that nobody serves as far as the caches tell, and that no read was made for just now."""
        cluster = self._caches.cluster(pod.namespace)
        names = {ask.resource for ask in pod.extended()}
        horizon = self._clock.monotonic() - UNKNOWN_FOR
        return {
            name
            for name in names
            if cluster.classes.resolve(name) is None
            and name not in cluster.nodes.plugins
            and self._unknown.get(name, float("-inf")) < horizon
        }

    async def _look_for_names(self) -> None:
        came = self._clock.monotonic()
        async with self._reading:
            if self._read_at > came:  # one that began after we came shows what we came for
                return
            await self._clock.pause(asyncio.Event(), self._read_at + LIVE_READ_EVERY - self._clock.monotonic())
            self._read_at = self._clock.monotonic()
            await self._read(self._caches.classes, self._caches.policies)

    async def _read_namespace(self, namespace: str) -> None:
        """A namespace made a moment ago may have caps that came with it; they must not be lost."""
        if self._caches.namespaces.get(namespace) is None:
            await self._read(
                self._caches.namespaces, self._caches.limit_ranges, self._caches.quotas, namespace=namespace
            )

    async def _read(self, *stores: Any, namespace: str | None = None) -> None:
        for store in stores:
            try:
                await self._caches.refresh(self._client, store, namespace)
            except DrabridgeError as error:
                # The answer is worth more than its last doubt: go on with what the caches have.
                _log.warning("cannot read ahead of the caches", kind=store.resource.kind, error=str(error))

    async def _names(self, pod: PodView) -> ClaimNames:
        """A live read, since the caches may lag: a Pod and its copy may come a moment after each other."""
        marked = our_claim(pod)
        if marked is None or marked.claim_name is None:
            return ClaimNames(self._fresh())
        name = marked.claim_name
        taken, origin = bool(self._caches.pods.keys_of(f"{pod.namespace}/{name}")), None
        try:
            claim = await self._client.get(RESOURCE_CLAIMS, pod.namespace, name)
            taken, origin = True, claim["metadata"].get("annotations", {}).get(ANNOTATION)
        except Missing:
            pass
        except DrabridgeError as error:
            # A new name for a Pod that has one already costs nothing: its claim is not made yet.
            _log.warning("cannot look for a claim", namespace=pod.namespace, claim=name, error=str(error))
            taken = True
        return ClaimNames(self._fresh(), frozenset({name}) if taken else frozenset(), origin)

    # --- claims of the Pod's own

    async def _about_claims(
        self, pod: PodView, cluster: ClusterView, said: tuple[Objection, ...]
    ) -> tuple[Objection, ...]:
        """Whether the Pod goes to our scheduler for its claims; nothing where it goes there anyway."""
        policies = claiming(cluster)
        if not policies or not pod.resource_claims or pod.scheduler_name == cluster.bind_scheduler:
            return ()
        if any(each.reason is Reason.BIND for each in said):
            return ()
        marked = our_claim(pod)
        asks = [await self._ask(pod, entry) for entry in pod.resource_claims if entry != marked]
        classes = {policy.device_class for policy in policies}.union(*(ask.classes or () for ask in asks))
        drivers = {name: await self._supply.drivers(name) for name in sorted(classes)}
        objection = object_to_claims(pod, asks, cluster, drivers)
        return () if objection is None or objection in said else (objection,)

    async def _ask(self, pod: PodView, entry: PodClaim) -> ClaimAsk:
        """The claim or template as the caches have it; a live read of what they lack, for it may have come just now."""
        store: Store[ClaimView] | Store[TemplateView] | None = self._caches.claims
        name = entry.claim_name
        if name is None:
            store, name = self._caches.templates, entry.template_name
        if store is None or name is None:
            return ClaimAsk(f"spec.resourceClaims[{entry.name}]", None)
        described = store.resource.label(pod.namespace, name)
        if store.get(f"{pod.namespace}/{name}") is None:
            try:
                store.seen(await self._client.get(store.resource, pod.namespace, name))
            except Missing:
                pass
            except DrabridgeError as error:
                _log.warning("cannot look for a claim", claim=described, error=str(error))
        view = store.get(f"{pod.namespace}/{name}")
        return ClaimAsk(described, None if view is None else frozenset(view.classes.values()))

    def _warnings(self, objections: tuple[Objection, ...]) -> tuple[str, ...]:
        """What kubectl shows. Nothing is said where all is as it should be, or where others serve the name."""
        plugins = self._caches.cluster().nodes.plugins
        return tuple(
            f"drabridge: {each.reason}: {with_cure(each.detail, each.reason)}"
            for each in objections
            if each.reason not in (Reason.NATIVE, Reason.BIND)
            and not (each.reason is Reason.NOT_SERVED and each.resource in plugins)
        )


def _placed(raw: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    """The Pod in its namespace, which need not stand on it yet; metadata of a wrong shape is left for others to say."""
    metadata = raw.get("metadata") or {}
    return {**raw, "metadata": {**metadata, "namespace": namespace}} if isinstance(metadata, Mapping) else raw


def _outcome(objections: tuple[Objection, ...]) -> str:
    return objections[0].reason if objections else Reason.NOT_SERVED


def _served(verdict: Rewrite) -> str:
    names = ", ".join(sorted({request.resource for request in verdict.asked.requests}))
    return (
        f"drabridge: {names}: {in_devices(verdict.asked.devices)} by ResourceClaim {verdict.claim_name},"
        " which is created once the Pod is stored; the Pod waits for it"
    )
