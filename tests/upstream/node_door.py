"""Lets a real node's network namespace reach the API server on this machine's loopback.

Run by an interpreter without site-packages: `node_door.py PID PORT`. It listens on 127.0.0.1:PORT in the network
namespace of process PID and leads each connection to 127.0.0.1:PORT in its own: one kubeconfig is right in both.
"""

from __future__ import annotations

import asyncio
import ctypes
import socket
import sys
from contextlib import suppress
from pathlib import Path

CLONE_NEWNET = 0x40000000
CHUNK = 1 << 16


def listen_in(pid: str, port: int) -> socket.socket:
    """Give a listening socket of another network namespace. A socket stays in the one it was made in."""
    with Path("/proc/self/ns/net").open() as home, Path(f"/proc/{pid}/ns/net").open() as there:
        enter(there.fileno())
        listener = socket.create_server(("127.0.0.1", port), backlog=128)
        enter(home.fileno())
    return listener


def enter(namespace: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()


async def serve(listener: socket.socket, port: int) -> None:
    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:  # the API server is down: so is the door
            writer.close()
            return
        await asyncio.gather(pump(reader, back), pump(there, writer))

    async with await asyncio.start_server(lead, sock=listener) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(listen_in(sys.argv[1], int(sys.argv[2])), int(sys.argv[2])))
