"""Events (events.k8s.io/v1): what users see in `kubectl describe`. Recording never waits and never fails its caller."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import structlog

from drabridge.core.errors import AlreadyExists, Conflict, Unavailable
from drabridge.kube.clock import SYSTEM, Clock, micro_time
from drabridge.kube.resources import EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from drabridge.core.podview import PodView
    from drabridge.kube.client import Client

CONTROLLER = "drabridge.io/operator"
"""`reportingController` of all our Events."""

NOTE_BYTES = 1024
"""The longest `note` that the API server accepts, in UTF-8."""

REPEAT_AFTER = 3600.0
"""Seconds for which an Event is not sent again: as long as API servers keep one (--event-ttl)."""

LOOK_AGAIN = 0.25
"""Seconds after which it is looked at again whether there are more urgent things."""

REMEMBERED = 10_000
"""Events that are remembered in order not to be sent again."""

RETRIES = (1.0, 2.0, 0.0)
"""Seconds to wait after each try to send an Event that may get through later; so many tries are made."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ObjectRef:
    """The object that an Event is about; namespace "" if it has none."""

    kind: str
    api_version: str
    namespace: str
    name: str
    uid: str

    @classmethod
    def of_pod(cls, pod: PodView) -> Self:
        """Refer to a Pod."""
        return cls("Pod", "v1", pod.namespace, pod.name, pod.uid)


@dataclass(frozen=True, slots=True)
class _Event:
    namespace: str
    name: str
    body: dict[str, Any]
    since: float


class Recorder:
    """Sends Events one after the other while `run` runs.

    An Event is known by object, reason and note, and its name is made of them: what was recorded before is not sent
    again within the hour, and after a restart the API server answers that it is there already. While there are things
    to do that are more urgent (`busy`), one waits for up to `late_after` seconds.
    """

    def __init__(
        self,
        client: Client,
        instance: str,
        *,
        capacity: int = 10_000,
        busy: Callable[[], bool] = lambda: False,
        late_after: float = 0.0,
        clock: Clock = SYSTEM,
    ) -> None:
        self._client = client
        self._instance = instance
        self._clock = clock
        self._busy = busy
        self._late_after = late_after
        self._hurry = asyncio.Event()
        self._queue: asyncio.Queue[_Event] = asyncio.Queue(capacity)
        self._sent: OrderedDict[tuple[str, str], float] = OrderedDict()  # when it was recorded, oldest first
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """How many Events were given up: the queue was full, or the API server did not take them."""
        return self._dropped

    def record(
        self,
        regarding: ObjectRef,
        reason: str,
        note: str,
        type: Literal["Normal", "Warning"],  # noqa: A002 - the API's own name
        action: str,
    ) -> None:
        """Have an Event sent soon, unless it was within the last hour.

        `reason` and `action` are UpperCamelCase words of ours (what happened, what we did or tried); `note` is for
        people and is cut after 1024 bytes.
        """
        name = _name(regarding, reason, note)
        namespace = regarding.namespace or "default"  # the API server wants Events of cluster-scoped objects there
        now = self._clock.monotonic()
        if now - self._sent.get((namespace, name), float("-inf")) < REPEAT_AFTER:
            return
        body = {
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": micro_time(self._clock.wall()),
            "reportingController": CONTROLLER,
            "reportingInstance": self._instance[:128],
            "action": action,
            "reason": reason,
            "type": type,
            "note": note.encode(errors="replace")[:NOTE_BYTES].decode(errors="ignore"),
            "regarding": {
                "kind": regarding.kind,
                "apiVersion": regarding.api_version,
                "name": regarding.name,
                "uid": regarding.uid,
                **({"namespace": regarding.namespace} if regarding.namespace else {}),
            },
        }
        try:
            self._queue.put_nowait(_Event(namespace, name, body, now))
        except asyncio.QueueFull:
            self._dropped += 1
            return
        self._sent[namespace, name] = now
        self._sent.move_to_end((namespace, name))
        if len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)

    async def run(self) -> None:
        """Send what is recorded, until cancelled."""
        while True:
            event = await self._queue.get()
            try:
                await self._let_others_go_first(event)
                await self._send(event)
            finally:
                self._queue.task_done()

    async def flush(self, seconds: float) -> bool:
        """Wait until everything recorded was sent or given up, but no longer than so many seconds; say if it was.

        `run` must still be running.
        """
        self._hurry.set()
        try:
            async with asyncio.timeout(seconds):
                await self._queue.join()
        except TimeoutError:
            return False
        finally:
            self._hurry.clear()
        return True

    async def _let_others_go_first(self, event: _Event) -> None:
        while self._busy() and not self._hurry.is_set() and self._clock.monotonic() - event.since < self._late_after:
            await self._clock.pause(self._hurry, LOOK_AGAIN)

    async def _send(self, event: _Event) -> None:
        problem = ""
        for wait in RETRIES:
            try:
                await self._client.create(EVENTS, event.namespace, event.body)
            except AlreadyExists:
                return
            except (Conflict, Unavailable) as error:  # quotas on Events conflict with each other
                problem = str(error)
                await self._clock.pause(asyncio.Event(), wait)
            except Exception as error:  # a namespace that is going away, a lost Lease: an Event is not worth more
                problem = str(error)
                break
            else:
                return
        self._dropped += 1
        self._sent.pop((event.namespace, event.name), None)  # the next one may get through
        _log.warning("an Event was given up", namespace=event.namespace, name=event.name, error=problem)


def _name(regarding: ObjectRef, reason: str, note: str) -> str:
    """Name an Event after its object (cut, so that it stays a DNS subdomain) and its content."""
    content = "\0".join((regarding.uid, reason, note))
    digest = hashlib.sha256(content.encode(errors="replace")).hexdigest()[:16]
    return f"{regarding.name[: 252 - len(digest)].rstrip('.-')}.{digest}"
