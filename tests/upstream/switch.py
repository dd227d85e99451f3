"""A port that leads to another one, which can be changed: what a Service does whose selector finds another Pod."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from upstream.processes import free_port

if TYPE_CHECKING:
    from types import TracebackType


class Switch:
    """The port; `async with` opens it. Connections stay with whom they were made to, as they do there."""

    def __init__(self) -> None:
        self.port = free_port()
        self.target = 0
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._connections.add(task)
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        finally:
            self._connections.discard(task)
        pipes = [asyncio.create_task(_pipe(reader, back)), asyncio.create_task(_pipe(there, writer))]
        self._connections.update(pipes)
        await asyncio.wait(pipes)
        self._connections.difference_update(pipes)


async def _pipe(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await source.read(65536):
            sink.write(data)
            await sink.drain()
    with suppress(OSError):
        sink.close()
