"""Serving rewritten Pods: their claim, and the allocation bound back. Only the Lease holder runs this."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

import structlog

from drabridge.core.claims import (
    CONDITION,
    LATE_AFTER,
    BindBack,
    ClaimView,
    CreateClaim,
    NextStep,
    Waiting,
    in_devices,
    next_step,
)
from drabridge.core.cluster import ClusterView
from drabridge.core.conditions import pod_condition
from drabridge.core.errors import AlreadyExists, Missing, Refused, Unavailable
from drabridge.core.podview import PodView
from drabridge.core.reasons import Reason, with_cure
from drabridge.core.rewrite import ALLOCATION
from drabridge.delivery.burst import TOLD_WITHIN, Burst
from drabridge.delivery.metrics import Metrics
from drabridge.kube.caches import Caches, PodRecord
from drabridge.kube.client import Client, PatchType
from drabridge.kube.clock import SYSTEM, Clock, meta_time
from drabridge.kube.recorder import ObjectRef, Recorder
from drabridge.kube.resources import PODS, RESOURCE_CLAIMS
from drabridge.kube.workqueue import WorkQueue

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Seen:
    """Everything that a decision about one Pod reads."""

    pod: PodView
    claim: ClaimView | None
    cluster: ClusterView


@dataclass(frozen=True, slots=True)
class _Unanswered:
    """A write on behalf of the Pod `uid` that may have been done although no answer came, and the event about it."""

    uid: str
    reason: Literal[Reason.CLAIM_CREATED, Reason.DEVICES_ALLOCATED]
    note: str
    action: str

    def shows(self, seen: _Seen) -> bool:
        """Whether it has been done."""
        if self.reason is Reason.CLAIM_CREATED:
            return seen.claim is not None and seen.claim.owner_uid == self.uid
        return seen.pod.conditions.get(CONDITION) == "True"


class Rewrites:
    """The rewritten Pods, each served by what its state asks for next. Keys are namespace/name."""

    def __init__(
        self,
        caches: Caches,
        client: Client,
        recorder: Recorder,
        metrics: Metrics,
        burst: Burst,
        *,
        clock: Clock = SYSTEM,
    ) -> None:
        self._caches = caches
        self._client = client
        self._recorder = recorder
        self._metrics = metrics
        self._burst = burst
        self._clock = clock
        self._had_claim: dict[str, str] = {}  # Pod key -> UID of the Pod whose claim was there once
        self._waiting: dict[str, Reason] = {}
        self._unanswered: dict[str, _Unanswered] = {}  # by Pod key
        self._untold: dict[str, float] = {}  # Pod key -> since when its allocation could be bound back
        self.queue: WorkQueue[str] = WorkQueue(self.serve, workers=16, metrics=metrics.of_queue("rewrite"))

    def wake_waiting(self) -> None:
        """Look again at the Pods that could not get their claim: something in the cluster has changed."""
        for key in self._waiting:
            self.queue.wake(key)

    def wake_all(self) -> None:
        """Look at every rewritten Pod."""
        for record in self._caches.pods:
            self.queue.wake(record.pod.key)

    async def serve(self, key: str) -> None:
        """Do the next step for one Pod, if there is one."""
        seen = await self._gather(key)
        if seen is None:
            self._forget(key)
            return
        self._tell_what_was_done(seen)
        await self._apply(seen, next_step(seen.pod, seen.claim, seen.cluster))

    async def _gather(self, key: str) -> _Seen | None:
        record = self._caches.pods.get(key)
        if record is None:
            return None
        claim = self._caches.claims.get(record.claim_key) if record.claim_key else None
        pod = record.pod
        if claim is not None:
            self._had_claim[key] = pod.uid
        elif self._had_claim.get(key) == pod.uid:
            # The claim is gone, most likely with its Pod, of which the watch of Pods has not told yet.
            alive = await self._read(record)
            if alive is None:
                return None
            pod = alive
        return _Seen(pod, claim, self._caches.cluster(pod.namespace))

    async def _read(self, record: PodRecord) -> PodView | None:
        try:
            raw = await self._client.get(PODS, record.pod.namespace, record.pod.name)
        except Missing:
            return None
        return PodView.of(raw) if raw["metadata"]["uid"] == record.pod.uid else None

    async def _apply(self, seen: _Seen, step: NextStep) -> None:
        if isinstance(step, Waiting):
            self._wait(seen.pod, step)
            return
        if isinstance(step, CreateClaim):
            await self._create(seen.pod, step)
        elif isinstance(step, BindBack):
            if self._can_wait(seen.pod.key):
                self.queue.wake_after(seen.pod.key, TOLD_WITHIN)
            else:
                await self._bind_back(seen.pod, step)
                self._untold.pop(seen.pod.key, None)
        self._note(seen.pod.key, None)

    def _can_wait(self, key: str) -> bool:
        now = self._clock.monotonic()
        return self._burst.lasts() and now - self._untold.setdefault(key, now) < TOLD_WITHIN

    def _wait(self, pod: PodView, waiting: Waiting) -> None:
        """Say why once it takes long; what changes in the cluster wakes the Pod, not the time."""
        self._note(pod.key, waiting.reason)
        if (early := self._late_in(pod)) > 0:
            self.queue.wake_after(pod.key, early)
        else:
            self._record(pod, waiting.reason, with_cure(waiting.detail, waiting.reason), "Warning", "Wait")

    def _tell_what_was_done(self, seen: _Seen) -> None:
        """Record the event of a write whose answer was lost, once what it wrote shows."""
        unanswered = self._unanswered.pop(seen.pod.key, None)
        if unanswered is None or unanswered.uid != seen.pod.uid:
            return
        if unanswered.shows(seen):
            self._record(seen.pod, unanswered.reason, unanswered.note, "Normal", unanswered.action)
        else:
            self._unanswered[seen.pod.key] = unanswered

    async def _create(self, pod: PodView, step: CreateClaim) -> None:
        name = step.body["metadata"]["name"]
        done = f"ResourceClaim {name} asks for {in_devices(step.devices)}"
        unanswered = _Unanswered(pod.uid, Reason.CLAIM_CREATED, done, "CreateClaim")
        try:
            created = await self._client.create(RESOURCE_CLAIMS, pod.namespace, step.body)
        except AlreadyExists:
            # Ours, from before a restart or a lost answer, or somebody else's: look at it and decide again.
            self._unanswered[pod.key] = unanswered
            self._caches.claims.seen(await self._client.get(RESOURCE_CLAIMS, pod.namespace, name))
            self.queue.wake(pod.key)
            return
        except Refused as error:
            self._metrics.claims.labels("refused").inc()
            self._note(pod.key, Reason.CLAIM_REFUSED)
            note = with_cure(error.message, Reason.CLAIM_REFUSED)
            self._record(pod, Reason.CLAIM_REFUSED, note, "Warning", "CreateClaim")
            raise
        except Unavailable as error:
            self._metrics.claims.labels("unavailable").inc()
            self._unanswered[pod.key] = unanswered
            self._note(pod.key, Reason.CLAIM_LATE)
            if self._late_in(pod) <= 0:
                note = with_cure(f"ResourceClaim {name}: {error}", Reason.CLAIM_LATE)
                self._record(pod, Reason.CLAIM_LATE, note, "Warning", "CreateClaim")
            raise
        self._caches.claims.seen(created)
        self._had_claim[pod.key] = pod.uid
        self._burst.claimed()
        self._metrics.claims.labels("created").inc()
        self._metrics.claim_seconds.observe(self._age(pod))
        self._record(pod, Reason.CLAIM_CREATED, done, "Normal", "CreateClaim")
        _log.info("claim created", pod=pod.key, claim=name, devices=step.devices)

    async def _bind_back(self, pod: PodView, step: BindBack) -> None:
        """Write annotation and condition in one go. The UID keeps them off a later Pod of the same name."""
        now = meta_time(self._clock.wall())
        condition = pod_condition(CONDITION, "True", Reason.DEVICES_ALLOCATED.value, step.message, now)
        body = {
            "metadata": {
                "uid": pod.uid,
                **({"annotations": {ALLOCATION: step.annotation}} if step.annotation is not None else {}),
            },
            "status": {"conditions": [condition]},
        }
        try:
            raw = await self._client.patch(
                PODS, pod.namespace, pod.name, body, PatchType.STRATEGIC, subresource="status"
            )
        except Missing:
            return
        except Unavailable:
            self._unanswered[pod.key] = _Unanswered(pod.uid, Reason.DEVICES_ALLOCATED, step.message, "BindBack")
            raise
        self._caches.pods.seen(raw)
        self._metrics.bound_back.inc()
        self._record(pod, Reason.DEVICES_ALLOCATED, step.message, "Normal", "BindBack")
        _log.info("allocation bound back", pod=pod.key, devices=step.message)

    def _note(self, key: str, reason: Reason | None) -> None:
        """Keep count of the Pods that wait, by reason."""
        if reason is None:
            self._waiting.pop(key, None)
        else:
            self._waiting[key] = reason

    def _forget(self, key: str) -> None:
        self._had_claim.pop(key, None)
        self._waiting.pop(key, None)
        self._unanswered.pop(key, None)
        self._untold.pop(key, None)

    def measure(self) -> None:
        """Bring the gauges up to date."""
        self._metrics.waiting.clear()
        for reason, count in Counter(self._waiting.values()).items():
            self._metrics.waiting.labels(reason).set(count)
        self._metrics.queue_depth.labels("rewrite").set(self.queue.depth)

    def _late_in(self, pod: PodView) -> float:
        """Seconds until its claim is late for sure; the API server writes the whole second in which it was created."""
        return LATE_AFTER + 1.0 - self._age(pod)

    def _age(self, pod: PodView) -> float:
        created = datetime.strptime(pod.created, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
        return max(0.0, (self._clock.wall() - created).total_seconds())

    def _record(self, pod: PodView, reason: Reason, note: str, kind: Literal["Normal", "Warning"], action: str) -> None:
        self._recorder.record(ObjectRef.of_pod(pod), reason, note, kind, action)
