"""Sending callers elsewhere: clients keep their connections, and a Service leads new ones only."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web


def end_connections(app: web.Application, leaving: Callable[[], bool]) -> None:
    """Have each answer end its connection, and say so, while `leaving` says so.

    It has to be said: a client that is not told sends its next request on that connection, finds out too late, and does
    not repeat a POST. aiohttp writes the header only where this is known before it asks for more headers.
    """

    async def end(_: web.Request, response: web.StreamResponse) -> None:
        if leaving():
            response.force_close()
            response.headers["Connection"] = "close"

    app.on_response_prepare.append(end)
