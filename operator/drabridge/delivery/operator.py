"""All parts of one running operator, wired together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from drabridge.core.auto import rewritten
from drabridge.core.cluster import Gate
from drabridge.core.errors import InvalidInput, Missing, Refused, Unavailable
from drabridge.delivery.admission import Admission
from drabridge.delivery.bindterm import BindTerm
from drabridge.delivery.burst import TOLD_WITHIN, Burst
from drabridge.delivery.classes import ClassNotices
from drabridge.delivery.metrics import Metrics
from drabridge.delivery.native import NativeWatch
from drabridge.delivery.pending import PendingPods
from drabridge.delivery.policies import PolicyStatuses
from drabridge.delivery.quotas import CompanionQuotas
from drabridge.delivery.rewrite import Rewrites
from drabridge.delivery.supply import Supply
from drabridge.delivery.troubles import Troubles
from drabridge.delivery.wakeups import Wakeups
from drabridge.kube.caches import Caches
from drabridge.kube.client import Client
from drabridge.kube.clock import SYSTEM, Clock
from drabridge.kube.credentials import Credentials
from drabridge.kube.lease import Durations, Elector
from drabridge.kube.recorder import Recorder

LEASE = "drabridge"
FLUSH_WITHIN = 3.0
CHECK_EVERY = 1.0

_log = structlog.get_logger(__name__)

Part = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
"""Something that runs until the event is set."""


@dataclass(frozen=True, slots=True)
class Options:
    """What `drabridge operator` can be told, apart from its ports and certificates."""

    namespace: str
    identity: str
    instance: str
    schedulers: frozenset[str]
    bind_scheduler: str
    native_after: float
    probe_every: float
    pending_every: float
    lease: Durations


@contextmanager
def cluster_must_have() -> Iterator[None]:
    """Turn what the API server does not have or does not let us do into InvalidInput with the cure."""
    try:
        yield
    except (Missing, Refused) as error:
        cure = "apply drabridge's manifests (CRDs, namespace, RBAC); Kubernetes must be 1.34 or newer"
        raise InvalidInput("the cluster", "", str(error), cure) from error


class Operator:
    """The parts, and how they live: what every replica does, and what only the Lease holder does."""

    def __init__(self, client: Client, credentials: Credentials, options: Options, *, clock: Clock = SYSTEM) -> None:
        self.credentials = credentials
        self.metrics = Metrics()
        self.caches = Caches(options.schedulers, options.bind_scheduler)
        self.elector = Elector(
            client, options.namespace, LEASE, options.identity, durations=options.lease, on_transition=self._transition
        )
        self.writer = client.fenced(self.elector)
        burst = Burst()
        self.recorder = Recorder(self.writer, options.instance, busy=burst.lasts, late_after=TOLD_WITHIN)
        self.rewrites = Rewrites(self.caches, self.writer, self.recorder, self.metrics, burst)
        self.bind = (
            BindTerm(
                self.caches,
                self.caches.bind,
                client,
                self.writer,
                self.recorder,
                self.metrics,
                options.namespace,
                options.instance,
                self.wake_all,
            )
            if self.caches.bind
            else None
        )
        supply = Supply(self.caches)
        self.policies = PolicyStatuses(
            self.caches,
            supply,
            self.writer,
            self.metrics,
            self.bind.allocators if self.bind else lambda _drivers: None,
            burst,
        )
        self.quotas = CompanionQuotas(self.caches, self.writer, self.recorder, self.metrics)
        self.classes = ClassNotices(self.caches, self.recorder)
        troubles = Troubles(self.caches, self.writer, self.recorder, self.metrics, supply)
        self.pending = PendingPods(
            self.caches, self.writer, self.recorder, self.metrics, troubles, interval=options.pending_every
        )
        self.admission = Admission(self.caches, supply, client)
        self.wakeups = Wakeups(
            self.caches,
            client,
            self.rewrites,
            self.policies,
            self.quotas,
            self.bind.changed if self.bind else lambda _store, _change: None,
            burst,
            leading=lambda: self.elector.is_leader,
        )
        self.native = NativeWatch(
            self.caches,
            client,
            self.writer,
            options.namespace,
            settle=options.native_after,
            interval=options.probe_every,
            is_leader=lambda: self.elector.is_leader,
            changed=self.wake_all,
        )
        self._client = client
        self._clock = clock

    def unready(self) -> str:
        """What this replica still lacks to answer the webhook; empty if nothing."""
        return "" if self.caches.synced else "caches are being filled"

    def wake_all(self) -> None:
        """Look at everything again."""
        self.rewrites.wake_waiting()
        self.policies.wake_all()
        self.quotas.wake_all()

    def rewritten_names(self) -> frozenset[str]:
        """The names whose Pods are rewritten now."""
        cluster = self.caches.cluster()
        return frozenset(rewritten(cluster.classes.names() | cluster.policies.keys(), cluster))

    def measure(self) -> None:
        """Bring the gauges up to date."""
        self.rewrites.measure()
        self.policies.measure()
        self.quotas.measure()
        if self.bind:
            self.bind.measure()
        self.metrics.gate.set({Gate.ON: 1, Gate.OFF: 0, Gate.UNKNOWN: -1}[self.caches.gate])
        self.metrics.events_dropped.set(self.recorder.dropped)

    async def prepare(self) -> None:
        """Fill the caches and find out the gate; afterwards the webhook may be asked.

        Raises InvalidInput where the cluster is not made for us, Unavailable where it does not answer.
        """
        with cluster_must_have():
            await self.caches.load(self._client)
        await self.native.look()

    async def wait_watchable(self, stop: asyncio.Event) -> None:
        """Return when the API server lists everything that we watch, or `stop` is set. Raises InvalidInput if it won't.

        To be used after watching has failed.
        """
        while True:
            await self._clock.pause(stop, CHECK_EVERY)
            try:
                with cluster_must_have():
                    await self.caches.check(self._client)
            except Unavailable as error:
                _log.warning("cannot watch yet", error=str(error))
            else:
                return
            if stop.is_set():
                return

    async def follow(self, stop: asyncio.Event) -> None:
        """What every replica does until `stop` is set."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.wakeups.prune(stop))
            tasks.create_task(self.native.run(stop))

    async def lead(self, stop: asyncio.Event, *others: Part) -> None:
        """What the Lease holder does, in each of its terms, until `stop` is set. `others` are run as well.

        At the end the writers stop first, then the Lease is released, so that the next holder need not wait for it.
        """
        election_over = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.elector.run(election_over))
            while await self._won(stop):
                await self._term(stop, others)
            election_over.set()
        await self.elector.release()

    async def _won(self, stop: asyncio.Event) -> bool:
        await _first(self.elector.wait_acquired(), stop.wait())
        return not stop.is_set()

    async def _term(self, stop: asyncio.Event, others: tuple[Part, ...]) -> None:
        over = asyncio.Event()
        self.rewrites.wake_all()
        self.policies.wake_all()
        self.quotas.wake_all()
        recorder = asyncio.create_task(self.recorder.run())
        try:
            async with asyncio.TaskGroup() as tasks:
                for part in (
                    self.rewrites.queue.run,
                    self.policies.queue.run,
                    self.quotas.queue.run,
                    self.pending.run,
                    self.classes.run,
                    *([self.bind.run] if self.bind else []),
                    *others,
                ):
                    tasks.create_task(part(over))
                await _first(self.elector.wait_lost(), stop.wait())
                over.set()
            await self.recorder.flush(FLUSH_WITHIN)  # what the last handlers had to say is in it by now
        finally:
            recorder.cancel()

    def _transition(self, leading: bool) -> None:
        self.metrics.leader.set(int(leading))


async def _first(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when one of them does."""
    tasks = [asyncio.create_task(wait) for wait in waits]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
