"""The queue's promises, on a clock that only moves when a test moves it."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.errors import AlreadyExists, Conflict, InvalidInput, Unavailable
from drabridge.kube.clock import Clock
from drabridge.kube.workqueue import CONFLICTS_AT_ONCE, LONGEST_BACKOFF, QueueMetrics, WorkQueue

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


async def settle() -> None:
    """Let everything happen that needs no time to pass. Nothing here does I/O, so some turns of the loop are enough."""
    for _ in range(50):
        await asyncio.sleep(0)


class StillTime:
    """A clock that stands still until `advance`."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._alarms: list[tuple[float, asyncio.Event]] = []

    def clock(self, jitter: float = 1.0) -> Clock:
        return Clock(monotonic=lambda: self.now, pause=self.pause, jitter=lambda: jitter)

    async def pause(self, event: asyncio.Event, seconds: float | None) -> None:
        alarm = asyncio.Event()
        if seconds is not None:
            self._alarms.append((self.now + seconds, alarm))
        waiters = [asyncio.create_task(event.wait()), asyncio.create_task(alarm.wait())]
        try:
            await asyncio.wait(waiters, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in waiters:
                waiter.cancel()

    async def advance(self, seconds: float) -> None:
        await settle()
        end = self.now + seconds
        while due := [alarm for alarm in self._alarms if alarm[0] <= end]:
            first = min(due, key=lambda alarm: alarm[0])
            self._alarms.remove(first)
            self.now = max(self.now, first[0])
            first[1].set()
            await settle()
        self.now = end
        await settle()


class Worker:
    """A handler that notes when it was called for what; a key in `held` is worked on until it is let go."""

    def __init__(self, time: StillTime) -> None:
        self._time = time
        self.calls: list[tuple[float, str]] = []
        self.running: Counter[str] = Counter()
        self.most_at_once = 0
        self.held: dict[str, asyncio.Event] = {}
        self.failures: dict[str, list[Exception]] = {}

    @property
    def keys(self) -> str:
        return "".join(key for _, key in self.calls)

    def times(self, key: str) -> list[float]:
        return [round(at - 1000.0, 6) for at, called in self.calls if called == key]

    async def __call__(self, key: str) -> None:
        self.calls.append((self._time.now, key))
        self.running[key] += 1
        self.most_at_once = max(self.most_at_once, self.running.total())
        assert self.running[key] == 1, "the same key twice at once"
        try:
            if key in self.held:
                await self.held[key].wait()
            if self.failures.get(key):
                raise self.failures[key].pop(0)
        finally:
            self.running[key] -= 1


class Counts(QueueMetrics):
    def __init__(self) -> None:
        self.adds = self.retries = 0
        self.waits: list[float] = []
        self.works: list[float] = []

    def added(self) -> None:
        self.adds += 1

    def retried(self) -> None:
        self.retries += 1

    def waited(self, seconds: float) -> None:
        self.waits.append(seconds)

    def worked(self, seconds: float) -> None:
        self.works.append(seconds)


@asynccontextmanager
async def running(queue: WorkQueue[str]) -> AsyncIterator[asyncio.Event]:
    stop = asyncio.Event()
    task = asyncio.create_task(queue.run(stop))
    try:
        yield stop
    finally:
        stop.set()
        await asyncio.wait_for(task, 5)


async def test_keys_come_in_the_order_in_which_they_were_woken_and_each_once() -> None:
    time = StillTime()
    worker = Worker(time)
    queue = WorkQueue(worker, workers=1, clock=time.clock())
    for key in "abacab":
        queue.wake(key)
    assert queue.depth == 3
    async with running(queue):
        await settle()
        assert worker.keys == "abc"
        assert queue.depth == 0


async def test_a_wake_during_the_handling_leads_to_one_more_run_and_never_to_two_at_once() -> None:
    time = StillTime()
    worker = Worker(time)
    worker.held["a"] = asyncio.Event()
    queue = WorkQueue(worker, workers=4, clock=time.clock())
    async with running(queue):
        queue.wake("a")
        await settle()
        for _ in range(3):
            queue.wake("a")
        await settle()
        assert worker.keys == "a"
        worker.held["a"].set()
        await settle()
        assert worker.keys == "aa"


@given(count=st.integers(1, 6), keys=st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=20))
def test_no_more_keys_run_at_once_than_there_are_workers_and_none_is_forgotten(count: int, keys: list[str]) -> None:
    async def scenario() -> None:
        time = StillTime()
        worker = Worker(time)
        worker.held = {key: asyncio.Event() for key in keys}
        queue = WorkQueue(worker, workers=count, clock=time.clock())
        async with running(queue):
            for key in keys:
                queue.wake(key)
            await settle()
            assert worker.running.total() == min(count, len(set(keys)))
            for held in worker.held.values():
                held.set()
            await settle()
        assert worker.keys == "".join(dict.fromkeys(keys))
        assert worker.most_at_once <= count

    asyncio.run(scenario())


async def test_of_several_delays_for_a_key_the_earliest_is_kept() -> None:
    time = StillTime()
    worker = Worker(time)
    queue = WorkQueue(worker, clock=time.clock())
    async with running(queue):
        queue.wake_after("a", 5)
        queue.wake_after("a", 2)
        queue.wake_after("a", 9)
        queue.wake_after("b", 1)
        await time.advance(20)
        assert worker.times("a") == [2]
        assert worker.times("b") == [1]


async def test_a_wake_does_not_cancel_what_was_asked_for_later() -> None:
    time = StillTime()
    worker = Worker(time)
    queue = WorkQueue(worker, clock=time.clock())
    async with running(queue):
        queue.wake_after("a", 5)
        queue.wake("a")
        await time.advance(20)
        assert worker.times("a") == [0, 5]


UNAVAILABLE = [Unavailable("try later")] * 12
RETRIES: dict[str, tuple[Sequence[Exception], list[float]]] = {
    "delays double from 0.1 s up to a minute": (
        UNAVAILABLE,
        [0, 0.1, 0.3, 0.7, 1.5, 3.1, 6.3, 12.7, 25.5, 51.1, 102.3, 162.3, 222.3],
    ),
    "an error nobody knows is repeated like the others": ([KeyError("x"), ValueError("y")], [0, 0.1, 0.3]),
    "broken input is repeated, too: what it depends on may change": (
        [InvalidInput("Pod default/a", "spec", "is odd", "repair it")],
        [0, 0.1],
    ),
    "the API server's wish is granted when it is the longer one": (
        [Unavailable("busy", 7.0), Unavailable("busy", 0.0)],
        [0, 7, 7.2],
    ),
    "conflicts are repeated at once": ([Conflict("a"), AlreadyExists("b"), Conflict("c")], [0, 0, 0, 0]),
    "but not for ever": ([Conflict("a")] * (CONFLICTS_AT_ONCE + 2), [0, 0, 0, 0, 0.8, 2.4]),
}


@pytest.mark.parametrize(("failures", "times"), RETRIES.values(), ids=RETRIES)
async def test_failures(failures: Sequence[Exception], times: list[float]) -> None:
    time = StillTime()
    worker = Worker(time)
    worker.failures["a"] = list(failures)
    counts = Counts()
    queue = WorkQueue(worker, clock=time.clock(), metrics=counts)
    async with running(queue):
        queue.wake("a")
        await time.advance(1000)
    assert worker.times("a") == times
    assert counts.retries == len(failures)


async def test_a_success_forgets_the_failures_before_it() -> None:
    time = StillTime()
    worker = Worker(time)
    worker.failures["a"] = list(UNAVAILABLE[:4])
    queue = WorkQueue(worker, clock=time.clock())
    async with running(queue):
        queue.wake("a")
        await time.advance(10)
        worker.calls.clear()
        worker.failures["a"] = [Unavailable("again")]
        queue.wake("a")
        await time.advance(10)
        assert worker.times("a") == [10, 10.1]


@given(jitter=st.floats(0, 1, exclude_max=True), failures=st.integers(1, 40))
def test_jitter_takes_at_most_half_of_a_delay_and_adds_nothing(jitter: float, failures: int) -> None:
    async def scenario() -> None:
        time = StillTime()
        worker = Worker(time)
        worker.failures["a"] = [Unavailable("later")] * failures
        queue = WorkQueue(worker, clock=time.clock(jitter))
        async with running(queue):
            queue.wake("a")
            await time.advance(failures * LONGEST_BACKOFF)
        at = worker.times("a")
        assert len(at) == failures + 1
        for tried, (before, after) in enumerate(itertools.pairwise(at)):
            full = min(LONGEST_BACKOFF, 0.1 * 2**tried)
            assert full / 2 - 1e-5 <= after - before <= full + 1e-5

    asyncio.run(scenario())


async def test_a_failing_key_does_not_hold_up_the_others() -> None:
    time = StillTime()
    worker = Worker(time)
    worker.failures["a"] = list(UNAVAILABLE)
    queue = WorkQueue(worker, workers=1, clock=time.clock())
    async with running(queue):
        queue.wake("a")
        queue.wake("b")
        await settle()
        assert worker.keys == "ab"


async def test_a_wake_during_a_run_that_fails_is_not_made_to_wait_for_the_back_off() -> None:
    time = StillTime()
    worker = Worker(time)
    worker.held["a"] = asyncio.Event()
    worker.failures["a"] = [Unavailable("later")]
    queue = WorkQueue(worker, clock=time.clock())
    async with running(queue):
        queue.wake("a")
        await settle()
        queue.wake("a")
        worker.held["a"].set()
        await settle()
        assert worker.times("a") == [0, 0]


async def test_stop_lets_running_handlers_end_and_starts_no_other() -> None:
    time = StillTime()
    worker = Worker(time)
    worker.held["a"] = asyncio.Event()
    queue = WorkQueue(worker, workers=1, clock=time.clock())
    stop = asyncio.Event()
    task = asyncio.create_task(queue.run(stop))
    queue.wake("a")
    queue.wake("b")
    await settle()
    stop.set()
    await settle()
    assert not task.done()
    worker.held["a"].set()
    await asyncio.wait_for(task, 5)
    assert worker.keys == "a"
    assert queue.depth == 1


async def test_metrics_see_adds_waits_and_work_and_the_queue_knows_its_oldest_key() -> None:
    time = StillTime()
    worker = Worker(time)
    worker.held["a"] = asyncio.Event()
    counts = Counts()
    queue = WorkQueue(worker, workers=1, metrics=counts, clock=time.clock())
    assert queue.oldest == 0
    async with running(queue):
        queue.wake("a")
        await settle()
        queue.wake("b")
        queue.wake("b")
        await time.advance(3)
        queue.wake("c")
        await time.advance(1)
        assert (queue.depth, queue.oldest) == (2, 4)
        worker.held["a"].set()
        await settle()
    assert counts.adds == 3
    assert counts.waits == [0, 4, 1]
    assert counts.works == [4, 0, 0]


async def test_a_cancelled_queue_cancels_its_handlers() -> None:
    time = StillTime()
    ended: list[str] = []
    released = asyncio.Event()

    async def handler(key: str) -> None:
        try:
            await released.wait()
        finally:
            ended.append(key)

    queue = WorkQueue[str](handler, clock=time.clock())
    task = asyncio.create_task(queue.run(asyncio.Event()))
    queue.wake("a")
    await settle()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["a"]
    async with running(queue) as stop:  # and can be run anew, as in a next term of leadership
        queue.wake("a")
        await settle()
        assert queue.depth == 0
        stop.set()
        released.set()
    assert ended == ["a", "a"]


async def test_a_handler_may_ask_to_be_woken_again() -> None:
    time = StillTime()
    seen: list[float] = []

    async def handler(key: str) -> None:
        seen.append(time.now - 1000)
        if len(seen) < 4:
            queue.wake_after(key, 10)

    queue: WorkQueue[str] = WorkQueue(handler, clock=time.clock())
    async with running(queue):
        queue.wake("a")
        await time.advance(100)
    assert seen == [0, 10, 20, 30]
