"""/healthz, /readyz and /metrics, on plain HTTP."""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from drabridge.delivery.metrics import Metrics


def application(metrics: Metrics, unready: Callable[[], str], measure: Callable[[], None]) -> web.Application:
    """The server for kubelet and Prometheus. `unready` says what is missing, or nothing; `measure` updates gauges."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        missing = unready()
        return web.Response(status=503 if missing else 200, text=f"{missing or 'ok'}\n")

    async def show(_: web.Request) -> web.Response:
        measure()
        return web.Response(body=generate_latest(metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", show)
    return app
