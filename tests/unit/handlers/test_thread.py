"""Kopf's thread ends when it is told to, and begins anew when Kopf fails, whatever Kopf leaves undone."""

from __future__ import annotations

import asyncio
import gc
import threading
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import kopf
import pytest

from drabridge.delivery.operator import Operator
from drabridge.handlers import thread


class Kopf:
    """Spawns what Kopf would: a root task that ends on the flag or fails, and a watch that may be deaf."""

    def __init__(self, *, fails: int, deaf: bool) -> None:
        self.begun = 0
        self._fails = fails
        self._deaf = deaf
        self._tasks: list[asyncio.Task[None]] = []

    async def spawn_tasks(self, *, stop_flag: threading.Event, **_: Any) -> set[asyncio.Task[None]]:
        self.begun += 1
        self._tasks.append(asyncio.create_task(self._watch()))
        self._tasks.append(asyncio.create_task(self._broken()))
        return {asyncio.create_task(self._root(stop_flag, fails=self.begun <= self._fails))}

    async def _root(self, stop_flag: threading.Event, *, fails: bool) -> None:
        await asyncio.sleep(0.01)
        if fails:
            raise RuntimeError("Error in the watch-stream")
        await asyncio.get_running_loop().run_in_executor(None, stop_flag.wait)

    async def _broken(self) -> None:
        if self.begun <= self._fails:
            raise RuntimeError("Error in another watch-stream")

    async def _watch(self) -> None:
        lock = asyncio.Condition()
        async with lock:
            waiting = asyncio.create_task(self._wait(lock))
            self._tasks.append(waiting)
            await asyncio.sleep(0)
        if self._deaf:
            await lock.acquire()  # and never gives it back, so that `waiting` takes no cancellation
        await waiting

    @staticmethod
    async def _wait(lock: asyncio.Condition) -> None:
        async with lock:
            await lock.wait()


class Watched:
    """The operator as far as watching needs it."""

    def __init__(self) -> None:
        self.caches = SimpleNamespace(bind=None)
        self.asked = 0

    async def wait_watchable(self, stop: asyncio.Event) -> None:
        assert not stop.is_set()
        self.asked += 1


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(thread, "ENDS_WITHIN", 0.3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


async def watched(kopf_: Kopf, monkeypatch: pytest.MonkeyPatch, runs: int) -> Watched:
    """Watch until Kopf was begun so many times, then stop."""
    monkeypatch.setattr(kopf, "spawn_tasks", kopf_.spawn_tasks)
    operator, stop = Watched(), asyncio.Event()
    async with asyncio.timeout(10):
        watching = asyncio.create_task(thread.watch(cast("Operator", operator), stop))
        while kopf_.begun < runs:  # noqa: ASYNC110 - it begins in another loop
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.05)
        assert not watching.done()
        stop.set()
        await watching
    return operator


@pytest.mark.parametrize("deaf", [False, True])
async def test_it_ends_when_told_to(monkeypatch: pytest.MonkeyPatch, deaf: bool) -> None:
    kopf_ = Kopf(fails=0, deaf=deaf)
    operator = await watched(kopf_, monkeypatch, 1)
    assert (kopf_.begun, operator.asked) == (1, 0)


@pytest.mark.parametrize("deaf", [False, True])
async def test_it_begins_anew_when_kopf_fails(monkeypatch: pytest.MonkeyPatch, deaf: bool) -> None:
    kopf_ = Kopf(fails=2, deaf=deaf)
    operator = await watched(kopf_, monkeypatch, 3)
    assert (kopf_.begun, operator.asked) == (3, 2)


async def test_what_failed_is_reported_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []
    monkeypatch.setattr(thread, "_log", SimpleNamespace(warning=lambda _, error: said.append(error)))
    await watched(Kopf(fails=2, deaf=False), monkeypatch, 3)
    gc.collect()
    assert said == ["Error in the watch-stream"] * 2
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []


async def test_what_kopf_leaves_behind_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[list[str]] = []
    monkeypatch.setattr(thread, "_log", SimpleNamespace(info=lambda _, tasks: said.append(tasks)))
    await watched(Kopf(fails=0, deaf=True), monkeypatch, 1)
    await watched(Kopf(fails=0, deaf=False), monkeypatch, 1)
    assert [len(tasks) for tasks in said] == [2]
