"""A level-triggered queue of keys: it says that something about a key may have changed, never what.

The rules are those of client-go's work queue: a key waits at most once, is never handled twice at the same time, and a
wake-up during its handling leads to one more run. A key whose handler failed comes back later and later.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import structlog

from drabridge.core.errors import Conflict, DrabridgeError, Unavailable
from drabridge.kube.clock import SYSTEM, Clock

FIRST_BACKOFF = 0.1
"""Seconds before the first repeat after a failure, doubled by each further one."""

LONGEST_BACKOFF = 60.0
"""Seconds that back-off alone never exceeds; an API server that asks for more gets more."""

CONFLICTS_AT_ONCE = 3
"""So many failures in a row by Conflict are repeated at once: reading again is the cure, waiting is not."""

K = TypeVar("K", bound=Hashable)
_log = structlog.get_logger(__name__)


class QueueMetrics:
    """What a queue tells about itself. This one drops it; a subclass counts."""

    def added(self) -> None:
        """Count a key that began to wait (one that waits already is not added again)."""

    def retried(self) -> None:
        """Count a key that comes back because its handler failed."""

    def waited(self, seconds: float) -> None:
        """Observe how long a key waited until its handler was called."""

    def worked(self, seconds: float) -> None:
        """Observe how long a handler ran, well or not."""


class WorkQueue(Generic[K]):
    """Calls `handler` for each key that is woken, at most `workers` keys at a time and each key once at a time.

    A handler looks at the world anew in each run, so it must ask again (`wake_after`) for what it still waits for.
    An exception repeats the key: at once for the first Conflicts, else after a doubling delay with jitter, and never
    sooner than `Unavailable.retry_after`. A handler that returns has forgotten all earlier failures.
    """

    def __init__(
        self,
        handler: Callable[[K], Awaitable[None]],
        *,
        workers: int = 4,
        metrics: QueueMetrics | None = None,
        clock: Clock = SYSTEM,
    ) -> None:
        self._handler = handler
        self._workers = workers
        self._metrics = metrics or QueueMetrics()
        self._clock = clock
        self._ready: dict[K, float] = {}  # in order of arrival, with the time of it
        self._active: set[K] = set()
        self._again: set[K] = set()  # woken while active
        self._due: dict[K, float] = {}
        self._alarms: list[tuple[float, int, K]] = []  # heap; an entry that `_due` contradicts is void
        self._alarm_count = 0  # keeps heap entries of one moment in order, and keys from being compared
        self._failures: Counter[K] = Counter()
        self._changed = asyncio.Event()

    @property
    def depth(self) -> int:
        """How many keys wait for a worker now."""
        return len(self._ready)

    @property
    def oldest(self) -> float:
        """Seconds that the first key in line has waited; 0 if none does."""
        return self._clock.monotonic() - next(iter(self._ready.values())) if self._ready else 0.0

    def wake(self, key: K) -> None:
        """Have the key handled as soon as a worker is free."""
        if key in self._active:
            self._again.add(key)
        elif key not in self._ready:
            self._ready[key] = self._clock.monotonic()
            self._metrics.added()
            self._changed.set()

    def wake_after(self, key: K, seconds: float) -> None:
        """Have the key handled in so many seconds; of several such wishes the earliest is kept."""
        due = self._clock.monotonic() + seconds
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            self._alarm_count += 1
            heapq.heappush(self._alarms, (due, self._alarm_count, key))
            self._changed.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Handle keys until `stop` is set, then let the handlers that run come to their end. Waiting keys stay."""
        async with asyncio.TaskGroup() as tasks:
            watcher = tasks.create_task(self._notice(stop))
            while not stop.is_set():
                self._changed.clear()
                next_alarm = self._ring()
                while self._ready and len(self._active) < self._workers:
                    tasks.create_task(self._handle(self._take()))
                await self._clock.pause(self._changed, next_alarm)
            watcher.cancel()

    async def _notice(self, stop: asyncio.Event) -> None:
        await stop.wait()
        self._changed.set()

    def _ring(self) -> float | None:
        """Wake what is due. Returns the seconds until the next alarm, None without one."""
        while self._alarms:
            due, _, key = self._alarms[0]
            if self._due.get(key) == due:
                if (left := due - self._clock.monotonic()) > 0:
                    return left
                del self._due[key]
                self.wake(key)
            heapq.heappop(self._alarms)
        return None

    def _take(self) -> K:
        key = next(iter(self._ready))
        self._metrics.waited(self._clock.monotonic() - self._ready.pop(key))
        self._active.add(key)
        return key

    async def _handle(self, key: K) -> None:
        started = self._clock.monotonic()
        try:
            await self._handler(key)
        except Exception as error:  # whatever a handler raises, the queue lives on and the key comes back
            self._retry(key, error)
        else:
            self._failures.pop(key, None)
        finally:
            self._active.discard(key)
            self._metrics.worked(self._clock.monotonic() - started)
        if key in self._again:
            self._again.discard(key)
            self.wake(key)
        self._changed.set()

    def _retry(self, key: K, error: Exception) -> None:
        self._failures[key] += 1
        failures = self._failures[key]
        self._metrics.retried()
        if isinstance(error, Conflict) and failures <= CONFLICTS_AT_ONCE:
            self.wake(key)
            return
        # The exponent is bounded so that a key that fails for months does not overflow a float.
        delay = min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(failures - 1, 30)) * (0.5 + self._clock.jitter() / 2)
        if isinstance(error, Unavailable) and error.retry_after is not None:
            delay = max(delay, error.retry_after)
        known = isinstance(error, DrabridgeError)  # it says all there is to say; anything else needs its traceback
        _log.warning(
            "will be tried again",
            key=str(key),
            failures=failures,
            seconds=round(delay, 3),
            error=str(error),
            exc_info=None if known else error,
        )
        self.wake_after(key, delay)
