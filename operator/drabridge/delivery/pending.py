"""Pending Pods that ask for extended resources which were not rewritten: why, said on the Pod. Lease holder only.

Most carry no mark of ours, so no watch selects them; a paginated list of pending Pods finds them. Of the others,
which are served for one name and left alone for another, the caches know.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Literal

import structlog

from drabridge.core.errors import Conflict, DrabridgeError, InvalidInput, Missing, Refused
from drabridge.core.podview import PodView
from drabridge.core.policy import Delivery, MissedPods
from drabridge.core.reasons import Reason, with_cure
from drabridge.core.rewrite import DELIVERY_LABEL, ClaimNames, Objection, Rewrite, decide, our_claim
from drabridge.delivery.metrics import Metrics
from drabridge.delivery.troubles import Troubles
from drabridge.kube.caches import Caches
from drabridge.kube.client import Client
from drabridge.kube.clock import SYSTEM, Clock
from drabridge.kube.recorder import ObjectRef, Recorder
from drabridge.kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS, PODS

UNTOLD = frozenset({Reason.NATIVE, Reason.BIND, Reason.NOT_SERVED, Reason.OPTED_OUT})
"""Nothing is wrong with these as far as we know: somebody else serves the Pod, or its author wants it so."""

CONFIGURATION = "drabridge"
RECREATE_AGAIN = 60.0
"""Seconds after which an owner's missed Pods may be deleted a second time; doubled by each further round."""

RECREATE_AGAIN_MOST = 3600.0
OWNERS_MAX = 10_000

NO_NAME = "drabridge-0000000000000000"
"""For decisions that are not carried out."""

_log = structlog.get_logger(__name__)


class Recreation:
    """Which owners' missed Pods may be deleted now.

    If the webhook is not reached, the Pods that come instead are missed as well, and would be deleted in their turn
    without end. So each owner's Pods are deleted in one round, those that came after that only much later, and later
    each time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._allowed = False
        self._rounds: dict[str, tuple[int, float]] = {}  # owner -> rounds, and not before when the next one may be
        self._now = 0.0
        self._done: set[str] = set()

    def begin_round(self, *, answered: bool) -> None:
        """Look at the time. `answered` says whether API servers may call us; if not, nobody's Pods are deleted."""
        for owner in self._done:
            rounds = self._rounds.get(owner, (0, 0.0))[0] + 1
            wait = min(RECREATE_AGAIN * 2 ** (rounds - 1), RECREATE_AGAIN_MOST)
            self._rounds[owner] = (rounds, self._now + wait)
        self._done.clear()
        self._now, self._allowed = self._clock.monotonic(), answered
        if len(self._rounds) > OWNERS_MAX:
            self._rounds = {owner: entry for owner, entry in self._rounds.items() if entry[1] > self._now}

    def allows(self, owner: str) -> bool:
        """Whether Pods of this owner may be deleted in this round."""
        return self._allowed and self._now >= self._rounds.get(owner, (0, 0.0))[1]

    def done(self, owner: str) -> None:
        """Note that a Pod of this owner was deleted."""
        self._done.add(owner)


class PendingPods:
    """Looks for them every `interval` seconds."""

    def __init__(
        self,
        caches: Caches,
        client: Client,
        recorder: Recorder,
        metrics: Metrics,
        troubles: Troubles,
        *,
        interval: float,
        clock: Clock = SYSTEM,
    ) -> None:
        self._caches = caches
        self._client = client
        self._recorder = recorder
        self._metrics = metrics
        self._troubles = troubles
        self._interval = interval
        self._recreation = Recreation(clock)
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Look until `stop` is set."""
        while not stop.is_set():
            try:
                await self.look()
            except DrabridgeError as error:
                _log.warning("cannot look for pending Pods", error=str(error))
            await self._clock.pause(stop, self._interval)

    async def look(self) -> None:
        """Look once: record an event on each Pod that is left alone for a reason its author can remove.

        What keeps Pods from their devices is looked for by `Troubles`, which needs the same list.
        """
        reasons: Counter[Reason] = Counter()
        waiting: list[tuple[PodView, str]] = []
        self._recreation.begin_round(answered=await self._is_registered())
        listed = await self._listed()
        for pod in self._left_alone(listed):
            for objection in self._objections(pod):
                reasons[objection.reason] += 1
                if objection.reason is Reason.NATIVE:
                    waiting += self._waits(pod, objection.resource)
                await self._tell(pod, objection)
        for pod in listed:
            if _is_of_bind(pod) and not pod.node_name:
                waiting += [each for ask in pod.extended() for each in self._waits(pod, ask.resource)]
        self._metrics.left_alone.clear()
        for reason, count in reasons.items():
            self._metrics.left_alone.labels(reason).set(count)
        await self._troubles.look(listed, waiting)

    async def _listed(self) -> list[PodView]:
        """All pending Pods that were not rewritten."""
        pods = []
        async for page in self._client.list_pages(
            PODS, field_selector="status.phase=Pending", label_selector=f"{DELIVERY_LABEL} notin ({Delivery.REWRITE})"
        ):
            for raw in page["items"]:
                try:
                    pods.append(PodView.of(raw))
                except InvalidInput as error:
                    _log.warning("cannot read a Pod", error=str(error))
        return [pod for pod in pods if not pod.deleting]

    def _left_alone(self, listed: list[PodView]) -> list[PodView]:
        """Unscheduled Pods that ask for extended resources, and copies that nothing else of us looks at."""
        cached = [record.pod for record in self._caches.pods if not record.pod.node_name]
        return [
            pod
            for pod in (*cached, *listed)
            if pod.phase == "Pending"
            and not pod.deleting
            and not _is_of_bind(pod)
            and (_is_bare_copy(pod) or (not pod.node_name and pod.extended()))
        ]

    def _waits(self, pod: PodView, resource: str | None) -> list[tuple[PodView, str]]:
        """A Pod with the DeviceClass that it waits for, if there is one."""
        mapping = self._caches.cluster().classes.resolve(resource) if resource else None
        return [(pod, mapping.device_class)] if mapping else []

    def _objections(self, pod: PodView) -> tuple[Objection, ...]:
        verdict = decide(pod, self._caches.cluster(pod.namespace), ClaimNames(NO_NAME))
        if not isinstance(verdict, Rewrite):
            return tuple(self._not_directed(pod, each) for each in verdict.objections)
        on_it = {ask.resource for ask in pod.extended()}
        missed = sorted(on_it & {request.resource for request in verdict.asked.requests})
        detail = f"{pod.described} asks for {{}} and was not rewritten when it was stored"
        if _is_bare_copy(pod):
            return (Objection(Reason.MISSED, f"{pod.described} is a copy and has no claim of its own"),)
        return (*(Objection(Reason.MISSED, detail.format(name), name) for name in missed), *verdict.left)

    def _not_directed(self, pod: PodView, objection: Objection) -> Objection:
        """What Bind serves is as it should be in the scheduler that calls us; elsewhere the webhook has missed it."""
        if objection.reason is not Reason.BIND or pod.scheduler_name == self._caches.bind_scheduler:
            return objection
        detail = f"{pod.described} asks for {objection.resource}, and spec.schedulerName is {pod.scheduler_name}"
        return Objection(Reason.MISSED, detail, objection.resource)

    async def _tell(self, pod: PodView, objection: Objection) -> None:
        if objection.reason in UNTOLD:
            return
        if objection.reason is Reason.MISSED and self._to_be_recreated(pod, objection):
            await self._recreate(pod, objection)
        else:
            self._record(pod, objection.reason, with_cure(objection.detail, objection.reason), "Warning")

    def _to_be_recreated(self, pod: PodView, objection: Objection) -> bool:
        policy = self._caches.cluster().policies.get(objection.resource or "")
        if policy is None or policy.missed is not MissedPods.RECREATE or pod.owner is None:
            return False
        return self._recreation.allows(pod.owner.uid)

    async def _is_registered(self) -> bool:
        """Whether API servers are told to call us at all; after `drabridge drain` they are not.

        Asked only where a policy would have Pods deleted; the component that allows that allows this as well.
        """
        if all(policy.missed is MissedPods.REPORT for policy in self._caches.cluster().policies.values()):
            return False
        try:
            await self._client.get(MUTATING_WEBHOOK_CONFIGURATIONS, None, CONFIGURATION)
        except (Missing, Refused):
            return False
        return True

    async def _recreate(self, pod: PodView, objection: Objection) -> None:
        """Delete the Pod; its controller makes another. The UID keeps that from happening to the new one."""
        try:
            await self._client.delete(PODS, pod.namespace, pod.name, uid=pod.uid)
            if pod.owner:
                self._recreation.done(pod.owner.uid)
        except (Missing, Conflict):
            return
        except Refused as error:
            note = f"{objection.detail}; it cannot be re-created: {error.message}. Cure: install the component"
            self._record(pod, Reason.MISSED, f"{note} recreate-missed-pods.", "Warning")
            return
        self._record(pod, Reason.RECREATED, objection.detail, "Normal")
        _log.info("missed Pod deleted", pod=pod.key)

    def _record(self, pod: PodView, reason: Reason, note: str, kind: Literal["Normal", "Warning"]) -> None:
        self._recorder.record(ObjectRef.of_pod(pod), reason, note, kind, "LeaveAlone")


def _is_of_bind(pod: PodView) -> bool:
    """A Pod that the webhook has sent to the scheduler that calls us: it has its answers from there."""
    return pod.labels.get(DELIVERY_LABEL) == Delivery.BIND


def _is_bare_copy(pod: PodView) -> bool:
    """A copy of a rewritten Pod that lost our label: no watch of ours shows it, and nobody makes its claim."""
    return our_claim(pod) is not None and DELIVERY_LABEL not in pod.labels
