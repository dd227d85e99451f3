"""Answers that end their connections."""

from __future__ import annotations

import aiohttp
import pytest
from aiohttp import web

from drabridge.serve.leaving import end_connections


@pytest.mark.parametrize("leaving", [False, True])
async def test_who_leaves_says_so_in_each_answer_before_the_connection_ends(leaving: bool) -> None:
    """A client that is not told would send its next request on a connection that is about to end."""

    async def hello(_: web.Request) -> web.Response:
        return web.json_response({"hello": "world"})

    app = web.Application()
    app.router.add_post("/", hello)
    end_connections(app, lambda: leaving)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        async with aiohttp.ClientSession() as session, session.post(url) as response:
            assert await response.json() == {"hello": "world"}
            assert response.headers.get("Connection") == ("close" if leaving else None)
    finally:
        await runner.cleanup()
