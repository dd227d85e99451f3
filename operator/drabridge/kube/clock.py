"""Time and chance as the elector, the queue and the recorder are given them; tests give them others."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_BOOT_TIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def monotonic() -> float:
    """Seconds that never run backwards and, on Linux, go on while the machine is suspended.

    `time.monotonic` stands still in a suspended machine: a leader that wakes up would believe in its Lease.
    """
    return time.clock_gettime(_BOOT_TIME)


def wall() -> datetime:
    """Now, in UTC. For people who read objects; nothing is decided by it."""
    return datetime.now(UTC)


async def pause(event: asyncio.Event, seconds: float | None) -> None:
    """Return once the event is set or, if that is sooner, after the seconds (None: only by the event)."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(event.wait(), seconds)


@dataclass(frozen=True, slots=True)
class Clock:
    """The functions above, and `jitter`: an even chance from 0 up to 1."""

    monotonic: Callable[[], float] = monotonic
    wall: Callable[[], datetime] = wall
    pause: Callable[[asyncio.Event, float | None], Awaitable[None]] = pause
    jitter: Callable[[], float] = random.random


SYSTEM = Clock()


def meta_time(moment: datetime) -> str:
    """Write a metav1.Time: RFC 3339 in UTC, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(moment: datetime) -> str:
    """Write a metav1.MicroTime: RFC 3339 in UTC, with all six digits of the microseconds even if they are zero."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
