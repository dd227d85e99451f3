"""How Kopf runs here: in a thread and loop of its own, which end when we say so.

Kopf takes over the loop it runs in: it sets signal handlers, and at its end waits for all tasks of the loop and cancels
them, whoever made them. In its own thread it has none but its own, and a burst of events does not hold up the webhook.

Nor is Kopf waited for at its end. When one of its tasks fails, others may wait for what that one would have done, for
ever: `asyncio.Condition.wait` takes no cancellation before it has its lock again, and Kopf goes on waiting for them.
As it only watches, nothing is lost with what is left behind.
"""

from __future__ import annotations

import asyncio
import importlib
import threading

import kopf
import structlog

from drabridge.delivery.operator import Operator
from drabridge.handlers.setup import Inbox, settings

HANDLERS = ("pods", "claims", "classes", "policies", "nodes", "slices", "namespaces", "caps")
"""The modules with the registrations."""

HANDLERS_OF_BIND = ("templates",)
"""Those of what nobody looks at, and the role does not allow to watch, without delivery Bind."""

ENDS_WITHIN = 2.0
"""Seconds that Kopf has to close its watches."""

_log = structlog.get_logger(__name__)


async def watch(operator: Operator, stop: asyncio.Event) -> None:
    """Run Kopf until `stop` is set, and again should it fail: API servers say all sorts of things in a bad hour.

    Raises InvalidInput if it failed because the cluster lacks what we need: without watches nobody may believe us
    alive.
    """
    for name in (*HANDLERS, *(HANDLERS_OF_BIND if operator.caches.bind else ())):
        importlib.import_module(f"drabridge.handlers.{name}")
    inbox = Inbox(operator)
    while not stop.is_set():
        try:
            await _watch_once(inbox, stop)
        except Exception as error:  # whatever Kopf lets through
            _log.warning("watching failed and begins anew", error=str(error) or type(error).__name__)
            await operator.wait_watchable(stop)


async def _watch_once(inbox: Inbox, stop: asyncio.Event) -> None:
    flag = threading.Event()
    running = asyncio.create_task(asyncio.to_thread(_run, inbox, flag))
    stopping = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        flag.set()
        stopping.cancel()
        await running


def _run(inbox: Inbox, flag: threading.Event) -> None:
    """Not by `asyncio.Runner`, which would wait for what Kopf waits for."""
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(_run_kopf(inbox, flag))
    finally:
        loop.close()


async def _run_kopf(inbox: Inbox, flag: threading.Event) -> None:
    """Run Kopf until `flag` is set or one of its root tasks ends. Raises what that one failed with."""
    loop = asyncio.get_running_loop()
    ours = asyncio.all_tasks()
    roots = await kopf.spawn_tasks(clusterwide=True, standalone=True, settings=settings(), memo=inbox, stop_flag=flag)
    ended, _ = await asyncio.wait(roots, return_when=asyncio.FIRST_COMPLETED)
    flag.set()  # a thread of the loop waits for it
    # From here on asyncio would report each task that has failed, too, and each that is left behind.
    loop.set_exception_handler(lambda *_: None)
    deadline = loop.time() + ENDS_WITHIN
    cancelled: set[asyncio.Task[object]] = set()
    while (left := asyncio.all_tasks() - ours) and loop.time() < deadline:
        for task in left - cancelled:
            task.cancel()
        cancelled |= left
        await asyncio.wait(left, timeout=0.1)
    if left:
        _log.info("left behind", tasks=sorted(task.get_name() for task in left))
    for task in ended:
        await task
