"""The webhook's question: what becomes of this Pod? Runs in every replica and writes nothing."""

from __future__ import annotations

import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from drabridge.core.cluster import ClusterView
from drabridge.core.errors import DrabridgeError, InvalidInput, Missing
from drabridge.core.podpatch import JSONPatch
from drabridge.core.podview import PodView
from drabridge.core.reasons import CURES, Reason
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
from drabridge.kube.caches import Caches
from drabridge.kube.client import Client
from drabridge.kube.clock import SYSTEM, Clock
from drabridge.kube.resources import RESOURCE_CLAIMS

LIVE_READ_EVERY = 1.0
"""Seconds between two reads of policies and classes on behalf of names that the caches do not know."""

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
        client: Client,
        *,
        fresh: Callable[[], str] = fresh_claim_name,
        clock: Clock = SYSTEM,
    ) -> None:
        self._caches = caches
        self._client = client
        self._fresh = fresh
        self._clock = clock
        self._read_at = float("-inf")

    async def review(self, raw: Mapping[str, Any], namespace: str) -> Answer:
        """Decide about a Pod as it stands in an AdmissionReview, to be created in `namespace`."""
        try:
            pod = PodView.of(_placed(raw, namespace))
            verdict = decide(pod, await self._cluster(pod), await self._names(pod))
        except InvalidInput as error:
            return Answer([], Reason.INVALID_POD, (f"drabridge: {Reason.INVALID_POD}: {error}",))
        if isinstance(verdict, LeaveAlone):
            return Answer([], _outcome(verdict), self._warnings(verdict.objections))
        return Answer(verdict.patch, "Rewrite", (_served(verdict), *self._warnings(verdict.left)))

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
        cluster = self._caches.cluster(pod.namespace)
        unknown = [
            ask.resource
            for ask in pod.extended()
            if cluster.classes.resolve(ask.resource) is None and ask.resource not in cluster.nodes.plugins
        ]
        now = self._clock.monotonic()
        if not unknown or now - self._read_at < LIVE_READ_EVERY:
            return cluster
        self._read_at = now
        await self._read(self._caches.classes, self._caches.policies)
        return self._caches.cluster(pod.namespace)

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
        marked = our_claim(pod)
        if marked is None or marked.claim_name is None:
            return ClaimNames(self._fresh())
        name = marked.claim_name
        taken = bool(self._caches.pods.keys_of(f"{pod.namespace}/{name}")) or await self._exists(pod.namespace, name)
        return ClaimNames(self._fresh(), frozenset({name}) if taken else frozenset())

    async def _exists(self, namespace: str, claim: str) -> bool:
        if self._caches.claims.get(f"{namespace}/{claim}"):
            return True
        try:
            await self._client.get(RESOURCE_CLAIMS, namespace, claim)
        except Missing:
            return False
        except DrabridgeError as error:
            # A new name for a Pod that has one already costs nothing: its claim is not made yet.
            _log.warning("cannot look for a claim", namespace=namespace, claim=claim, error=str(error))
        return True

    def _warnings(self, objections: tuple[Objection, ...]) -> tuple[str, ...]:
        """What kubectl shows. Nothing is said where all is as it should be, or where others serve the name."""
        plugins = self._caches.cluster().nodes.plugins
        return tuple(
            f"drabridge: {each.reason}: {each.detail}. Cure: {CURES[each.reason]}."
            for each in objections
            if each.reason is not Reason.NATIVE and not (each.reason is Reason.NOT_SERVED and each.resource in plugins)
        )


def _placed(raw: Mapping[str, Any], namespace: str) -> Mapping[str, Any]:
    """The Pod in its namespace, which need not stand on it yet; metadata of a wrong shape is left for others to say."""
    metadata = raw.get("metadata") or {}
    return {**raw, "metadata": {**metadata, "namespace": namespace}} if isinstance(metadata, Mapping) else raw


def _outcome(verdict: LeaveAlone) -> str:
    return verdict.objections[0].reason if verdict.objections else Reason.NOT_SERVED


def _served(verdict: Rewrite) -> str:
    names = ", ".join(sorted({request.resource for request in verdict.asked.requests}))
    count = verdict.asked.devices
    return (
        f"drabridge: {names}: {count} {'device' if count == 1 else 'devices'} by ResourceClaim {verdict.claim_name},"
        " which is created once the Pod is stored; the Pod waits for it"
    )
