"""Pods that cannot use the devices that they wait for or have: why, said on them. Only the Lease holder runs this.

Rewritten Pods get an event and a condition, others an event only. What an earlier holder of the Lease has said is read
from the condition, and events of one content have one name: so nothing is said again after a restart.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from drabridge.core.claims import ClaimView
from drabridge.core.conditions import pod_condition
from drabridge.core.errors import Conflict, DrabridgeError, Missing
from drabridge.core.podview import PodView
from drabridge.core.reasons import Reason
from drabridge.core.rewrite import our_claim
from drabridge.core.trouble import (
    FAILED_TO_PREPARE,
    USABLE,
    Holding,
    Told,
    Trouble,
    can_be_over,
    is_starting,
    to_tell,
    trouble_of,
    without_devices,
)
from drabridge.delivery.metrics import Metrics
from drabridge.delivery.supply import Supply
from drabridge.kube.caches import Caches
from drabridge.kube.client import Client, PatchType
from drabridge.kube.clock import SYSTEM, Clock, meta_time
from drabridge.kube.recorder import ObjectRef, Recorder
from drabridge.kube.resources import EVENTS, PODS

ASK_EVERY = 4
"""Looks from one list of a namespace's events to the next, while a Pod there is not started."""

RECENT = timedelta(minutes=15)
"""An older event says nothing of now: a kubelet tries again each minute, and sends at least every fifth event."""

TELL_MOST = 200
"""Pods that are told something new in one look; the others are next."""

BATCH = 500
"""Pods looked at before others get their turn."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Case:
    """A Pod as it was found. `pod` is None where nothing but an event is to be written on it."""

    ref: ObjectRef
    pod: PodView | None
    trouble: Trouble


class Kubelets:
    """What kubelets say of Pods whose devices they cannot prepare, read from their events.

    Nobody watches events: there are too many. Those of a namespace are listed while a Pod in it has devices, is on its
    node, and was not started at two looks running.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._looks = 0
        self._starting: Collection[str] = ()  # UIDs
        self._asked: dict[str, int] = {}  # namespace -> at which look
        self._said: dict[str, str] = {}  # UID of a Pod -> the last words

    async def ask(self, pods: Iterable[PodView]) -> Mapping[str, str]:
        """Look once: UID of a Pod -> the kubelet's words."""
        self._looks += 1
        starting = {pod.uid: pod.namespace for pod in pods if is_starting(pod)}
        late = {uid: starting[uid] for uid in self._starting if uid in starting}
        self._starting = starting
        self._said = {uid: words for uid, words in self._said.items() if uid in late}
        self._asked = {namespace: look for namespace, look in self._asked.items() if namespace in late.values()}
        for namespace in sorted(set(late.values())):
            if self._looks - self._asked.get(namespace, -ASK_EVERY) >= ASK_EVERY:
                self._asked[namespace] = self._looks
                self._said |= {uid: words for uid, words in (await self._events(namespace)).items() if uid in late}
        return self._said

    async def _events(self, namespace: str) -> dict[str, str]:
        """UID of a Pod -> what its last recent event says."""
        found: list[tuple[datetime, str, str]] = []
        try:
            async for page in self._client.list_pages(EVENTS, namespace, field_selector=f"reason={FAILED_TO_PREPARE}"):
                found += [
                    (_last(raw), (raw.get("regarding") or {}).get("uid", ""), raw.get("note", ""))
                    for raw in page["items"]
                ]
        except DrabridgeError as error:  # what it would say is the kubelet's, and can be read there
            _log.warning("cannot list events", namespace=namespace, error=str(error))
        now = self._clock.wall()
        return {uid: words for last, uid, words in sorted(found) if now - last < RECENT}


def _last(event: Mapping[str, Any]) -> datetime:
    """When an Event (events.k8s.io/v1) was seen last, whichever client of the two generations sent it."""
    times = (
        (event.get("series") or {}).get("lastObservedTime"),
        event.get("deprecatedLastTimestamp"),
        event.get("eventTime"),
        event["metadata"]["creationTimestamp"],  # a core/v1 Event needs none of the others
    )
    return datetime.fromisoformat(next(filter(None, times)))


class Troubles:
    """Looks at all Pods that have devices or wait for them, whenever it is told to."""

    def __init__(
        self,
        caches: Caches,
        client: Client,
        recorder: Recorder,
        metrics: Metrics,
        supply: Supply,
        *,
        clock: Clock = SYSTEM,
    ) -> None:
        self._caches = caches
        self._client = client
        self._recorder = recorder
        self._metrics = metrics
        self._supply = supply
        self._clock = clock
        self._kubelets = Kubelets(client, clock)
        self._before: Mapping[str, Trouble] = {}  # by UID, as all of these
        self._told: dict[str, Told] = {}

    async def look(self, pending: Sequence[PodView], waiting: Sequence[tuple[PodView, str]]) -> None:
        """Look once. `pending` are Pods that are not rewritten; `waiting` those that wait, with their DeviceClass."""
        rewritten = [record.pod for record in self._caches.pods if record.counts and not record.pod.deleting]
        said = await self._kubelets.ask([*rewritten, *(pod for pod in pending if pod.extended_claim)])
        cases = [
            *await self._of_rewritten(rewritten, said),
            *await self._of_others(pending, said),
            *[
                _Case(ObjectRef.of_pod(pod), None, trouble)
                for pod, name in waiting
                if (trouble := await self._supplied(name))
            ],
        ]
        found = {case.ref.uid: case for case in reversed(cases)}
        self._told = {uid: told for uid, told in self._told.items() if uid in found}
        told = 0
        for case in found.values():
            told += await self._tell(case)
            if told == TELL_MOST:
                break
        self._before = {uid: case.trouble for uid, case in found.items()}
        self._metrics.troubles.clear()
        for reason, count in Counter(case.trouble.reason for case in found.values()).items():
            self._metrics.troubles.labels(reason).set(count)

    async def _of_rewritten(self, pods: Sequence[PodView], said: Mapping[str, str]) -> list[_Case]:
        cases = []
        for number, pod in enumerate(pods):
            if number % BATCH == 0:
                await asyncio.sleep(0)
            entry = our_claim(pod)
            claim = self._caches.claims.get(f"{pod.namespace}/{entry.claim_name}") if entry else None
            if claim is None or claim.owner_uid != pod.uid:
                continue  # what becomes of its claim is told by `delivery.rewrite`
            holding = Holding.of(pod, claim.results or (), said.get(pod.uid, ""))
            published = self._caches.published()
            if trouble := trouble_of(holding, published) or await self._lacking(pod, claim):
                cases.append(_Case(ObjectRef.of_pod(pod), pod, trouble))
            elif USABLE in pod.denied and can_be_over(holding, published):
                await self._over(pod)
        return cases

    async def _lacking(self, pod: PodView, claim: ClaimView) -> Trouble | None:
        """What is wrong where a Pod waits for devices."""
        if not pod.node_name and claim.results is None:
            for name in claim.classes.values():
                if trouble := await self._supplied(name):
                    return trouble
        return None

    async def _of_others(self, pending: Sequence[PodView], said: Mapping[str, str]) -> list[_Case]:
        """Pods with special claims, kube-scheduler's or Bind's; those that run are known by their claims alone."""
        by_uid = {pod.uid: pod for pod in pending}
        cases = []
        for number, claim in enumerate(list(self._caches.claims)):
            if number % BATCH == 0:
                await asyncio.sleep(0)
            if not claim.special or not claim.results or not claim.owner_uid:
                continue
            pod = by_uid.get(claim.owner_uid)
            holding = Holding(claim.results)
            if pod:
                holding = Holding.of(pod, claim.results, said.get(pod.uid, ""))
            if trouble := trouble_of(holding, self._caches.published()):
                ref = ObjectRef("Pod", "v1", claim.namespace, claim.owner_name, claim.owner_uid)
                cases.append(_Case(ref, None, trouble))
        return cases

    async def _supplied(self, device_class: str) -> Trouble | None:
        """What is wrong with a class that Pods wait for; one that does not exist is told elsewhere."""
        if self._caches.classes.get(device_class) is None or await self._supply.total(device_class):
            return None
        return without_devices(device_class)

    async def _tell(self, case: _Case) -> bool:
        """Tell a Pod what there is to tell; whether that is anything new."""
        uid, now = case.ref.uid, self._clock.monotonic()
        shown = case.pod.denied.get(USABLE) if case.pod else None
        told = self._told.get(uid) or (Told(*shown, now) if shown else None)
        news = to_tell(case.trouble, self._before.get(uid), told, now)
        if news is None:
            return False
        self._told[uid] = news
        self._recorder.record(case.ref, news.reason, news.note, "Warning", "Watch")
        if case.pod is None or shown == (news.reason, news.note):
            return news is not told
        await self._write(case.pod, "False", news.reason, news.note)
        return True

    async def _over(self, pod: PodView) -> None:
        """Say so where the opposite stands."""
        reason, _ = pod.denied[USABLE]
        await self._write(pod, "True", Reason.DEVICES_USABLE, f"{reason} is over")

    async def _write(self, pod: PodView, status: str, reason: str, message: str) -> None:
        """Write the condition. The UID keeps it off a later Pod of the same name."""
        condition = pod_condition(USABLE, status, reason, message, meta_time(self._clock.wall()))
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        try:
            raw = await self._client.patch(
                PODS, pod.namespace, pod.name, body, PatchType.STRATEGIC, subresource="status"
            )
        except (Missing, Conflict):
            return
        self._caches.pods.seen(raw)
        _log.info("condition written", pod=pod.key, status=status, reason=reason)
