"""Who gets through to the extender: its scheduler, by the certificate that was made for it, and nobody else."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web

from drabridge.core.errors import AlreadyExists, Missing
from drabridge.delivery.metrics import Metrics
from drabridge.kube.clock import Clock
from drabridge.kube.resources import DEPLOYMENTS, SECRETS, Resource
from drabridge.serve.certificates import issue_ca, issue_client, issue_serving
from drabridge.serve.scheduler import AUTHORITY_SECRET, CLIENT_SECRET, ROLLED, SERVICE, SchedulerCredentials
from drabridge.serve.tls import Lifetimes, MutualCertificates, SelfManagedCertificates
from upstream.processes import free_port

HOST = f"{SERVICE}.ns.svc"
METRICS = Metrics()


class Secrets:
    """Secrets and Deployments, as one namespace has them."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.writes = 0

    async def get(self, resource: Resource, _: str, name: str) -> dict[str, Any]:
        if (resource.kind, name) not in self.objects:
            raise Missing(name)
        return self.objects[resource.kind, name]

    async def create(self, resource: Resource, _: str, body: dict[str, Any]) -> dict[str, Any]:
        key = (resource.kind, body["metadata"]["name"])
        if key in self.objects:
            raise AlreadyExists(key[1])
        self.objects[key] = {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}}
        self.writes += 1
        return self.objects[key]

    async def patch(self, resource: Resource, _: str, name: str, body: dict[str, Any], __: object) -> dict[str, Any]:
        found = self.objects[resource.kind, name]
        self.writes += 1
        if resource is SECRETS:
            found["data"] = {key: value for key, value in {**found["data"], **body["data"]}.items() if value}
        else:
            found["spec"]["template"]["metadata"] = body["spec"]["template"]["metadata"]
        return found

    def data(self, name: str) -> dict[str, bytes]:
        return {key: base64.b64decode(value) for key, value in self.objects["Secret", name]["data"].items()}


class Rig:
    """The extender's server, and the credentials for its client, at a moment that can be moved."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = datetime.now(UTC)
        self.secrets = Secrets()
        client: Any = self.secrets
        clock = Clock(wall=lambda: self.now)
        lifetimes = Lifetimes(authority=timedelta(days=90), serving=timedelta(days=30), overlap=timedelta(minutes=5))
        own = SelfManagedCertificates(
            client, "ns", METRICS, lifetimes, secret=AUTHORITY_SECRET, service=SERVICE, label="extender-", clock=clock
        )
        self.certificates = MutualCertificates(own)
        self.credentials = SchedulerCredentials(own, client, "ns", timedelta(days=30), clock=clock)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self.port = free_port()

    async def ask(self, authority: bytes, pair: tuple[bytes, bytes] | None) -> str:
        """Send a request; "" if TLS does not let it through."""
        context = ssl.create_default_context(cadata=authority.decode())
        if pair:
            path = self.directory / "pair.pem"
            path.write_bytes(b"".join(pair))
            context.load_cert_chain(path)
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"https://127.0.0.1:{self.port}/", ssl=context, server_hostname=HOST) as response,
            ):
                return await response.text()
        except aiohttp.ClientError:
            return ""

    def scheduler(self) -> tuple[bytes, tuple[bytes, bytes]]:
        data = self.secrets.data(CLIENT_SECRET)
        return data["ca.crt"], (data["tls.crt"], data["tls.key"])


@pytest_asyncio.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    rig = Rig(tmp_path)
    await rig.certificates.refresh(rig.context)
    await rig.credentials.look()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text="bound")

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", rig.port, ssl_context=rig.context).start()
    yield rig
    await runner.cleanup()


async def test_the_scheduler_gets_through(rig: Rig) -> None:
    assert await rig.ask(*rig.scheduler()) == "bound"


async def test_nobody_else_does(rig: Rig) -> None:
    authority, pair = rig.scheduler()
    own = (await rig.certificates.own.authorities()).current
    serving = issue_serving(own, [HOST], rig.now)
    stranger = issue_client(issue_ca(rig.now), "drabridge-scheduler", rig.now)
    assert await rig.ask(authority, None) == ""
    assert await rig.ask(authority, (serving.cert_pem, serving.key_pem)) == "", "a server's certificate is no client's"
    assert await rig.ask(authority, (stranger.cert_pem, stranger.key_pem)) == ""
    assert await rig.ask(authority, pair) == "bound"


async def test_nothing_is_written_while_all_is_well(rig: Rig) -> None:
    before = rig.secrets.writes
    await rig.credentials.look()
    await rig.credentials.look()
    assert rig.secrets.writes == before


async def test_the_client_certificate_is_renewed_in_time_and_the_scheduler_rolled_once(rig: Rig) -> None:
    template = {"spec": {"template": {"metadata": {}}}}
    rig.secrets.objects["Deployment", "drabridge-scheduler"] = template
    await rig.credentials.look()
    first = template["spec"]["template"]["metadata"]["annotations"][ROLLED]
    _, former = rig.scheduler()
    rig.now += timedelta(days=21)
    await rig.credentials.look()
    assert rig.scheduler()[1] != former
    second = template["spec"]["template"]["metadata"]["annotations"][ROLLED]
    assert second != first
    await rig.credentials.look()
    assert template["spec"]["template"]["metadata"]["annotations"][ROLLED] == second
    assert (await rig.secrets.get(DEPLOYMENTS, "ns", "drabridge-scheduler")) is template


async def test_old_and_new_authority_overlap_and_nobody_is_locked_out_at_any_moment(rig: Rig) -> None:
    first_authority = (await rig.certificates.own.authorities()).current
    running = rig.scheduler()
    rig.now += timedelta(days=61)

    async def all_look() -> None:
        await rig.credentials.look()
        await rig.certificates.refresh(rig.context)

    await all_look()
    assert (await rig.certificates.own.authorities()).following, "it is trusted before it signs anything"
    assert len(rig.scheduler()[0]) > len(running[0])
    rig.now += timedelta(minutes=11)
    await all_look()
    await all_look()
    assert (await rig.certificates.own.authorities()).current != first_authority
    now = datetime.now(UTC)
    assert rig.now > now
    # The one that was read before it was renewed, by a scheduler that has not been rolled yet, knows both authorities.
    assert rig.context.verify_mode is ssl.CERT_REQUIRED
    assert len(rig.context.get_ca_certs()) >= 2
    await asyncio.sleep(0)


async def test_a_secret_that_somebody_broke_is_made_anew(rig: Rig) -> None:
    rig.secrets.objects["Secret", CLIENT_SECRET]["data"] = {"tls.crt": "!!!", "tls.key": ""}
    await rig.credentials.look()
    assert await rig.ask(*rig.scheduler()) == "bound"


@pytest.mark.parametrize("name", ["tls.crt", "tls.key"])
async def test_a_secret_that_lacks_a_part_is_made_whole(rig: Rig, name: str) -> None:
    del rig.secrets.objects["Secret", CLIENT_SECRET]["data"][name]
    await rig.credentials.look()
    assert await rig.ask(*rig.scheduler()) == "bound"
