"""Who of the replicas may write: an elector on a coordination.k8s.io Lease, and the fence that its writers ask.

The rules that make it safe:
- A holder is gone when its record has not changed for the record's own duration, measured by our monotonic clock from
  the moment we saw it. Clocks of two machines are never compared; the timestamps in the Lease are for people.
- Every write is conditional on the resourceVersion that was read.
- Leadership is counted from the start of the request that renewed it: the others saw the record later than that.
- An attempt that fails in whatever way is repeated until the renew deadline, and then leadership is lost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import structlog

from drabridge.core.errors import Conflict, DrabridgeError, Missing, NotLeader
from drabridge.kube.client import PatchType
from drabridge.kube.clock import SYSTEM, Clock, micro_time
from drabridge.kube.resources import LEASES

if TYPE_CHECKING:
    from collections.abc import Callable

    from drabridge.kube.client import Client

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Durations:
    """Seconds of an election; the defaults are those of Kubernetes' own components.

    `margin` is what a fence keeps back of the Lease's duration: for the way of a last request to the API server, and
    for clocks that do not run equally fast.
    """

    lease: int = 15
    renew: float = 10.0
    retry: float = 2.0
    margin: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew < self.lease - self.margin < self.lease:
            raise ValueError(f"an election needs 0 < retry < renew < lease - margin < lease, not {self}")


@dataclass(frozen=True, slots=True)
class _Record:
    """What a Lease says, as far as the election needs it."""

    holder: str
    duration: float
    transitions: int
    renewed: str
    version: str = field(compare=False)  # somebody's annotation on the Lease is no sign of its holder's life

    @classmethod
    def of(cls, lease: dict[str, Any]) -> Self:
        spec = lease.get("spec") or {}
        return cls(
            holder=spec.get("holderIdentity") or "",
            duration=float(spec.get("leaseDurationSeconds") or 0),
            transitions=spec.get("leaseTransitions") or 0,
            renewed=spec.get("renewTime") or "",
            version=lease["metadata"]["resourceVersion"],
        )


class Elector:
    """Competes for one Lease under one identity, which no other process ever has (Pod name and a UUID).

    Is a `Fence`: `client.fenced(elector)` writes only while the Lease is surely ours. To leave in order: end the
    writers, set the event that `run` was given and wait for `run`, then `release`.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        durations: Durations | None = None,
        on_transition: Callable[[bool], None] = lambda _: None,
        clock: Clock = SYSTEM,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._durations = durations or Durations()
        self._on_transition = on_transition
        self._clock = clock
        self._record: _Record | None = None  # last seen; also what stays of a Lease that somebody deleted
        self._free_at = 0.0  # when the record's holder counts as gone, by our clock
        self._since: float | None = None  # start of the request that made us the leader or kept us so
        self._acquired = asyncio.Event()
        self._lost = asyncio.Event()
        self._complaint = ""

    @property
    def is_leader(self) -> bool:
        """Whether a write may be sent now."""
        return self._left() > 0

    def check(self) -> float:
        """Return the seconds for which the Lease is surely ours. Raises NotLeader if it may be another's."""
        if (left := self._left()) > 0:
            return left
        raise NotLeader(f"{LEASES.label(self._namespace, self._name)} is not held by {self._identity}, or no longer")

    async def wait_acquired(self) -> None:
        """Return when we lead."""
        await self._acquired.wait()

    async def wait_lost(self) -> None:
        """Return when leadership has been lost or released, and not been won again since."""
        await self._lost.wait()

    async def run(self, stop: asyncio.Event) -> None:
        """Compete, lead, lose and compete again until `stop` is set. Does not release, see there.

        After a loss the writers of the old term should be ended before `on_transition(True)` comes again; the fence
        holds them back only in between.
        """
        while not stop.is_set():
            if self._since is not None and self._until_deadline() <= 0:
                self._lose("not renewed in time")
            try:
                async with asyncio.timeout(self._patience()):
                    await self._attempt()
            except Exception as error:  # an elector that dies of an answer nobody thought of leads nobody
                self._complain(str(error) or "no answer in time")
            if stop.is_set():
                return
            await self._clock.pause(stop, self._interval())

    async def release(self) -> None:
        """Give the Lease up, so that the next replica takes it at its next look.

        To be called when `run` is over and nothing of ours is being written any more. An API server that does not
        answer is logged, not raised: the Lease expires anyway.
        """
        if self._since is None:
            return
        self._lose("released")
        try:
            async with asyncio.timeout(self._durations.renew):
                lease = await self._client.get(LEASES, self._namespace, self._name)
                if (record := _Record.of(lease)).holder == self._identity:
                    await self._patch(record, {"holderIdentity": "", "leaseDurationSeconds": 1})
        except (DrabridgeError, TimeoutError) as error:
            _log.warning("the Lease was not released, it will expire", lease=self._name, error=str(error))

    def _left(self) -> float:
        if self._since is None:
            return 0.0
        return self._since + self._durations.lease - self._durations.margin - self._clock.monotonic()

    def _until_deadline(self) -> float:
        if self._since is None:
            return self._durations.renew
        return self._since + self._durations.renew - self._clock.monotonic()

    def _patience(self) -> float:
        """Half of the deadline for one attempt: a connection that hangs must leave time for another one."""
        return min(self._durations.renew / 2, max(self._until_deadline(), 0.0))

    def _interval(self) -> float:
        if self._since is not None:
            return min(self._durations.retry, max(self._until_deadline(), 0.0))
        pause = self._durations.retry * (1 + self._clock.jitter() / 5)
        # The moment that the Lease runs out should not be slept through. A little later, lest several collide.
        left = self._free_at - self._clock.monotonic()
        return min(pause, left + self._clock.jitter() / 10) if left > 0 else pause

    async def _attempt(self) -> None:
        """Renew, take or watch the Lease, once. A lost race is looked at again at once."""
        if self._since is None:
            await self._look()
        try:
            await self._take()
        except (Conflict, Missing):  # a renewal may have arrived although its answer did not
            await self._look()
            await self._take()

    async def _look(self) -> None:
        try:
            lease = await self._client.get(LEASES, self._namespace, self._name)
        except Missing:
            # Deleted under its holder, who still believes in it: wait for what it believes, it will make a new one.
            if self._record is not None:
                self._record = replace(self._record, version="")
            return
        record = _Record.of(lease)
        if record != self._record:
            self._free_at = self._clock.monotonic() + record.duration
        self._record = record

    async def _take(self) -> None:
        record = self._record
        ours = record is not None and record.holder == self._identity
        if record is not None and not ours and record.holder and self._clock.monotonic() < self._free_at:
            self._lose(f"taken by {record.holder}")
            return
        started = self._clock.monotonic()
        now = micro_time(self._clock.wall())
        spec = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._durations.lease,
            "leaseTransitions": 0 if record is None else record.transitions + (not ours),
            "renewTime": now,
        }
        if self._since is None or record is None or not record.version:
            spec["acquireTime"] = now
        if record is not None and record.version:
            lease = await self._patch(record, spec)
        else:
            lease = await self._client.create(LEASES, self._namespace, {"metadata": {"name": self._name}, "spec": spec})
        self._record = _Record.of(lease)
        self._lead(started)

    async def _patch(self, record: _Record, spec: dict[str, Any]) -> dict[str, Any]:
        body = {"metadata": {"resourceVersion": record.version}, "spec": spec}
        return await self._client.patch(LEASES, self._namespace, self._name, body, PatchType.MERGE)

    def _lead(self, started: float) -> None:
        first = self._since is None
        self._since = started
        self._complaint = ""
        if first:
            self._lost.clear()
            self._acquired.set()
            _log.info("leading", lease=self._name, identity=self._identity)
            self._on_transition(True)

    def _lose(self, why: str) -> None:
        if self._since is None:
            return
        self._since = None
        self._acquired.clear()
        self._lost.set()
        _log.warning("no longer leading", lease=self._name, identity=self._identity, why=why)
        self._on_transition(False)

    def _complain(self, problem: str) -> None:
        """Log what is wrong with the Lease once, not every two seconds."""
        if problem != self._complaint:
            self._complaint = problem
            _log.warning("the election does not get on", lease=self._name, leading=self.is_leader, error=problem)
