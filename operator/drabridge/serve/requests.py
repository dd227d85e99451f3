"""Reading what callers send."""

from __future__ import annotations

from aiohttp import web


async def body(request: web.Request) -> bytes:
    """Read a request's body. Raises web.HTTPException where it is too large or its caller has gone meanwhile.

    An API server that is killed goes in the middle of its requests; nothing is wrong here then, and nobody is answered.
    """
    try:
        return await request.read()
    except ConnectionError as error:
        raise web.HTTPBadRequest(text="drabridge: the connection ended before the request did\n") from error
