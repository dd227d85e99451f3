"""Several replicas behind one port, as a Service has them in a cluster.

Here no kube-proxy runs, and the webhook's Service leads to one port of this machine. So a TCP balancer on that port
plays both sides of readiness, with the same weaknesses, because it is them that the tests are about:
- like the kubelet it asks /readyz now and then, so a replica that was killed stays in for up to `PROBE_SECONDS`;
- like kube-proxy it chooses among the ready ones when a connection is made, and then neither looks again nor tries
  another one: a connection that is refused fails, one that is established stays with its replica until either end
  closes it, also when that replica is not ready any more.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import aiohttp

if TYPE_CHECKING:
    from types import TracebackType

    from upstream.installation import Replica

PROBE_SECONDS = 0.5
PROBE_TIMEOUT = 2.0
TIMEOUTS_MAX = 2
"""Probes in a row without an answer after which a replica is not ready: the failureThreshold of our manifests."""


@dataclass(slots=True)
class Endpoint:
    """One replica, and since when (time.time) it is ready or not."""

    replica: Replica
    port: int
    ready: bool
    since: float = field(default_factory=time.time)
    timeouts: int = 0


class Balancer:
    """The balancer on `port` at 127.0.0.1; `async with` starts and stops it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.failed: list[float] = []
        """When (time.time) a connection was refused, by a replica or because none was ready."""

        self._endpoints: list[Endpoint] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self._probing = asyncio.create_task(self._probe())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._probing.cancel()
        self._server.close()
        for connection in list(self._connections):
            connection.cancel()
        await asyncio.gather(self._probing, *self._connections, return_exceptions=True)
        await self._server.wait_closed()

    def add(self, replica: Replica, port: int) -> None:
        """Let a replica that is ready, with its webhook at `port`, take part."""
        self._endpoints.append(Endpoint(replica, port, ready=True))

    def remove(self, replica: Replica) -> None:
        """Forget a replica, as when its Pod is gone."""
        self._endpoints = [each for each in self._endpoints if each.replica is not replica]

    def is_ready(self, replica: Replica) -> bool:
        """Whether the replica takes part at this moment, as far as the balancer knows."""
        return any(each.ready for each in self._endpoints if each.replica is replica)

    async def _probe(self) -> None:
        while True:
            for endpoint in list(self._endpoints):
                ready = await _is_ready(endpoint.replica)
                endpoint.timeouts = endpoint.timeouts + 1 if ready is None else 0
                if ready is None and endpoint.timeouts < TIMEOUTS_MAX:
                    continue
                ready = bool(ready)
                if ready != endpoint.ready:
                    endpoint.ready, endpoint.since = ready, time.time()
            await asyncio.sleep(PROBE_SECONDS)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            await self._connect(reader, writer)
        finally:
            self._connections.discard(task)
            writer.close()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ready = [each for each in self._endpoints if each.ready]
        try:
            if not ready:
                raise ConnectionRefusedError
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", random.choice(ready).port)
        except OSError:
            self.failed.append(time.time())
            writer.transport.abort()
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_copy(reader, far_writer))
                both.create_task(_copy(far_reader, writer))
        finally:
            far_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes until one end closes, then close the other one."""
    with suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _is_ready(replica: Replica) -> bool | None:
    """Ask once; None if there was no answer in time."""
    if replica.process.exit_code is not None:
        return False
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            return (await replica.get("/readyz"))[0] == 200
    except TimeoutError:
        return None
    except (aiohttp.ClientError, OSError):
        return False
