"""The plain HTTP server for kubelet and Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest_asyncio
from aiohttp import web
from prometheus_client.parser import text_string_to_metric_families

from drabridge.delivery.metrics import Metrics
from drabridge.serve.probes import application


@dataclass
class Probes:
    """The server, and what it is told."""

    session: aiohttp.ClientSession
    url: str
    missing: str = "caches are being filled"
    metrics: Metrics = field(default_factory=Metrics)
    measured: int = 0

    def measure(self) -> None:
        self.measured += 1
        self.metrics.leader.set(self.measured)

    async def get(self, path: str) -> tuple[int, str]:
        async with self.session.get(self.url + path) as response:
            return response.status, await response.text()


@pytest_asyncio.fixture(loop_scope="session")
async def probes() -> AsyncIterator[Probes]:
    async with aiohttp.ClientSession() as session:
        probes = Probes(session, "")
        app = application(probes.metrics, lambda: probes.missing, probes.measure)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        probes.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield probes
        await runner.cleanup()


async def test_alive_is_not_the_same_as_ready(probes: Probes) -> None:
    assert await probes.get("/healthz") == (200, "ok\n")
    assert await probes.get("/readyz") == (503, "caches are being filled\n")
    probes.missing = ""
    assert await probes.get("/readyz") == (200, "ok\n")


async def test_gauges_are_measured_when_they_are_asked_for(probes: Probes) -> None:
    for count in (1, 2):
        status, text = await probes.get("/metrics")
        samples = {
            sample.name: sample.value for family in text_string_to_metric_families(text) for sample in family.samples
        }
        assert (status, samples["drabridge_leader"]) == (200, count)


async def test_metrics_say_what_runs_and_come_as_prometheus_expects(probes: Probes) -> None:
    async with probes.session.get(probes.url + "/metrics") as response:
        assert response.headers["Content-Type"].startswith("text/plain; version=")
        assert 'drabridge_build_info{version="' in await response.text()


async def test_the_webhook_is_not_to_be_had_without_tls(probes: Probes) -> None:
    assert (await probes.get("/mutate"))[0] == 404
