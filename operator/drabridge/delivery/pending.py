"""Pending Pods that ask for extended resources which were not rewritten: why, said on the Pod. Lease holder only.

Most carry no mark of ours, so no watch selects them; a paginated list of unscheduled Pods finds them. Of the others,
which are served for one name and left alone for another, the caches know.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import structlog

from drabridge.core.errors import DrabridgeError, InvalidInput
from drabridge.core.podview import PodView
from drabridge.core.reasons import CURES, Reason
from drabridge.core.rewrite import DELIVERY_LABEL, ClaimNames, Objection, Rewrite, decide, our_claim
from drabridge.delivery.metrics import Metrics
from drabridge.kube.caches import Caches
from drabridge.kube.client import Client
from drabridge.kube.clock import SYSTEM, Clock
from drabridge.kube.recorder import ObjectRef, Recorder
from drabridge.kube.resources import PODS

UNTOLD = frozenset({Reason.NATIVE, Reason.NOT_SERVED, Reason.OPTED_OUT})
"""Nothing is wrong with these as far as we know: somebody else serves the Pod, or its author wants it so."""

_log = structlog.get_logger(__name__)


class PendingPods:
    """Looks for them every `interval` seconds."""

    def __init__(
        self,
        caches: Caches,
        client: Client,
        recorder: Recorder,
        metrics: Metrics,
        *,
        interval: float,
        clock: Clock = SYSTEM,
    ) -> None:
        self._caches = caches
        self._client = client
        self._recorder = recorder
        self._metrics = metrics
        self._interval = interval
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
        """Look once, and record an event on each Pod that is left alone for a reason its author can remove."""
        reasons: Counter[Reason] = Counter()
        async for page in self._client.list_pages(
            PODS, field_selector="spec.nodeName=,status.phase=Pending", label_selector=f"!{DELIVERY_LABEL}"
        ):
            for raw in page["items"]:
                try:
                    pod = PodView.of(raw)
                except InvalidInput as error:
                    _log.warning("cannot read a Pod", error=str(error))
                    continue
                reasons.update(self._tell(pod))
        for record in self._caches.pods:
            if not record.pod.node_name and record.pod.phase == "Pending":
                reasons.update(self._tell(record.pod))
        self._metrics.left_alone.clear()
        for reason, count in reasons.items():
            self._metrics.left_alone.labels(reason).set(count)

    def _tell(self, pod: PodView) -> list[Reason]:
        if pod.deleting or not (pod.extended() or _is_bare_copy(pod)):
            return []
        objections = self._objections(pod)
        for each in objections:
            if each.reason not in UNTOLD:
                note = f"{each.detail}. Cure: {CURES[each.reason]}."
                ref = ObjectRef("Pod", "v1", pod.namespace, pod.name, pod.uid)
                self._recorder.record(ref, each.reason, note, "Warning", "LeaveAlone")
        return [each.reason for each in objections]

    def _objections(self, pod: PodView) -> tuple[Objection, ...]:
        verdict = decide(pod, self._caches.cluster(pod.namespace), ClaimNames("drabridge-0000000000000000"))
        if not isinstance(verdict, Rewrite):
            return verdict.objections
        on_it = {ask.resource for ask in pod.extended()}
        names = ", ".join(sorted(on_it & {request.resource for request in verdict.asked.requests}))
        if not names:
            return verdict.left
        missed = Objection(Reason.MISSED, f"{pod.described} asks for {names} and did not pass the webhook")
        return (missed, *verdict.left)


def _is_bare_copy(pod: PodView) -> bool:
    """A copy of a rewritten Pod that lost our label: no watch of ours shows it, and nobody makes its claim."""
    return our_claim(pod) is not None and DELIVERY_LABEL not in pod.labels
