"""What callers send, or begin to send."""

from __future__ import annotations

import asyncio
import logging

import pytest
from aiohttp import web

from drabridge.serve.requests import body


async def served(sent: bytes, *, goes: bool = False) -> tuple[bytes, list[bytes]]:
    """What a server answered to `sent`, whose caller may go without an answer, and the bodies that it has read."""
    bodies: list[bytes] = []
    ended = asyncio.Event()

    async def take(request: web.Request) -> web.Response:
        try:
            bodies.append(await body(request))
            return web.Response(text="taken")
        finally:
            ended.set()

    app = web.Application(client_max_size=1024)
    app.router.add_post("/", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", runner.addresses[0][1])
        writer.write(sent)
        await writer.drain()
        answer = b"" if goes else await reader.read()
        writer.close()
        await asyncio.wait_for(ended.wait(), 5)
    finally:
        await runner.cleanup()
    return answer, bodies


def request(length: int, content: bytes) -> bytes:
    return b"POST / HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s" % (length, content)


async def test_a_whole_body_is_read() -> None:
    answer, bodies = await served(request(5, b"hello"))
    assert bodies == [b"hello"]
    assert answer.endswith(b"taken")


async def test_a_body_that_is_too_large_is_refused() -> None:
    answer, bodies = await served(request(2000, b"x" * 2000))
    assert bodies == []
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_a_caller_who_goes_in_the_middle_of_its_request_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    """As when an API server is killed."""
    with caplog.at_level(logging.INFO):
        _, bodies = await served(request(500, b"half of it"), goes=True)
    assert bodies == []
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []
