"""The webhook's certificates: ours, shared by all replicas, and those that somebody mounts."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from cluster_site import Site
from drabridge.core.errors import InvalidInput, Missing
from drabridge.delivery.metrics import Metrics
from drabridge.kube.client import Client
from drabridge.kube.resources import SECRETS
from drabridge.serve.certificates import Authority, Serving, issue_ca, issue_serving
from drabridge.serve.registration import Registration
from drabridge.serve.tls import AUTHORITY_SECRET, MountedCertificates, SelfManagedCertificates
from upstream.api import JSON_PATCH, MERGE_PATCH, Object, wait_for
from upstream.controlplane import ControlPlane
from upstream.installation import CONFIGURATION, NAMESPACE, PROGRAM, REPOSITORY
from upstream.processes import Process, free_port

DAY = timedelta(days=1)
PUT_BACK = 15.0  # seconds
SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/{AUTHORITY_SECRET}"


def server_context() -> ssl.SSLContext:
    return ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)


@asynccontextmanager
async def listening(context: ssl.SSLContext) -> AsyncIterator[int]:
    """Serve TLS with the context, as the webhook's server does; gives the port."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1]
    server.close()


async def connect(port: int, authority: bytes, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect as an API server does that has `authority` for its caBundle. Raises ssl.SSLError if it does not trust."""
    trusted = ssl.create_default_context(cadata=authority.decode())
    return await asyncio.open_connection("127.0.0.1", port, ssl=trusted, server_hostname=host)


async def trusts(port: int, authority: bytes, host: str) -> bool:
    try:
        _, writer = await connect(port, authority, host)
    except ssl.SSLCertVerificationError:
        return False
    writer.close()
    return True


# Ours


@pytest_asyncio.fixture
async def clients(plane_135: ControlPlane) -> AsyncIterator[list[Client]]:
    """Three replicas."""
    path = plane_135.kubeconfig_admin()
    async with (
        await Client.connect(path, user_agent="one") as one,
        await Client.connect(path, user_agent="two") as two,
        await Client.connect(path, user_agent="three") as three,
    ):
        yield [one, two, three]


async def test_replicas_that_start_together_share_one_authority(clients: list[Client], namespace: str) -> None:
    host = f"drabridge-webhook.{namespace}.svc"
    contexts = [server_context() for _ in clients]
    replicas = [SelfManagedCertificates(client, namespace, Metrics()) for client in clients]
    await asyncio.gather(*(each.refresh(context) for each, context in zip(replicas, contexts, strict=True)))
    (secret,) = [
        each for each in await clients[0].list_all(SECRETS, namespace) if each["metadata"]["name"] == AUTHORITY_SECRET
    ]
    authority = base64.b64decode(secret["data"]["ca.crt"])
    for context in contexts:
        async with listening(context) as port:
            assert await trusts(port, authority, host)
            assert await trusts(port, authority, f"{host}.cluster.local")
            assert not await trusts(port, authority, "drabridge-webhook.another.svc")
            assert not await trusts(port, issue_ca(datetime.now(UTC)).cert_pem, host)


async def test_a_new_authority_takes_effect_without_a_restart(clients: list[Client], namespace: str) -> None:
    host = f"drabridge-webhook.{namespace}.svc"
    context, replica = server_context(), SelfManagedCertificates(clients[0], namespace, Metrics())
    await replica.refresh(context)
    first = await clients[0].get(SECRETS, namespace, AUTHORITY_SECRET)
    async with listening(context) as port:
        await replica.refresh(context)
        assert (await clients[0].get(SECRETS, namespace, AUTHORITY_SECRET)) == first
        await clients[0].delete(SECRETS, namespace, AUTHORITY_SECRET)
        await replica.refresh(context)
        second = await clients[0].get(SECRETS, namespace, AUTHORITY_SECRET)
        old, new = (base64.b64decode(each["data"]["ca.crt"]) for each in (first, second))
        assert old != new
        assert await trusts(port, new, host)
        assert not await trusts(port, old, host)


def secret_of(**data: bytes) -> Object:
    names = {"cert": "ca.crt", "key": "ca.key"}
    return {
        "metadata": {"name": AUTHORITY_SECRET},
        "data": {names[key]: base64.b64encode(value).decode() for key, value in data.items()},
    }


def _rubbish() -> dict[str, tuple[Object, str]]:
    now = datetime.now(UTC)
    good, other = issue_ca(now), issue_ca(now)
    server = issue_serving(good, ["a"], now)
    return {
        "nothing": ({"metadata": {"name": AUTHORITY_SECRET}}, "data: has no ca.crt and ca.key"),
        "no key": (secret_of(cert=good.cert_pem), "data: has no ca.crt and ca.key"),
        "a text for a certificate": (
            secret_of(cert=b"hello", key=good.key_pem),
            "data['ca.crt']: is not a certificate in PEM",
        ),
        "bytes for a key": (
            secret_of(cert=good.cert_pem, key=b"\x00\xff"),
            "data['ca.key']: is not a private key in PEM without a password",
        ),
        "the key of another": (
            secret_of(cert=good.cert_pem, key=other.key_pem),
            "data['ca.key']: does not belong to the certificate",
        ),
        "a server's certificate": (
            secret_of(cert=server.cert_pem, key=server.key_pem),
            "data['ca.crt']: is not that of an authority",
        ),
    }


async def test_an_authority_that_is_over_is_replaced_by_whoever_starts(clients: list[Client], namespace: str) -> None:
    over = issue_ca(datetime.now(UTC) - 30 * DAY, lifetime=20 * DAY)
    await clients[0].create(SECRETS, namespace, secret_of(cert=over.cert_pem, key=over.key_pem))
    context, replica = server_context(), SelfManagedCertificates(clients[0], namespace, Metrics())
    await replica.refresh(context)
    secret = await clients[0].get(SECRETS, namespace, AUTHORITY_SECRET)
    fresh = base64.b64decode(secret["data"]["ca.crt"])
    assert fresh != over.cert_pem
    async with listening(context) as port:
        assert await trusts(port, fresh, f"drabridge-webhook.{namespace}.svc")


RUBBISH = _rubbish()


@pytest.mark.parametrize("case", RUBBISH)
async def test_rubbish_in_the_secret_is_named_and_left_for_a_person_to_see(
    clients: list[Client], namespace: str, case: str
) -> None:
    body, problem = RUBBISH[case]
    stored = await clients[0].create(SECRETS, namespace, body)
    with pytest.raises(InvalidInput) as raised:
        await SelfManagedCertificates(clients[0], namespace, Metrics()).refresh(server_context())
    want = f"Secret {namespace}/{AUTHORITY_SECRET}: {problem}; delete it; it is made anew"
    assert str(raised.value) == want
    if "is not a certificate" in problem:  # the rest matters to who signs with it only
        with pytest.raises(InvalidInput) as published:
            await SelfManagedCertificates(clients[0], namespace, Metrics()).bundle(clients[0])
        assert str(published.value) == want
    assert await clients[0].get(SECRETS, namespace, AUTHORITY_SECRET) == stored


async def test_without_a_webhook_configuration_there_is_nothing_to_publish(
    clients: list[Client], namespace: str
) -> None:
    registration = Registration(SelfManagedCertificates(clients[0], namespace, Metrics()), clients[0])
    await registration.look()
    await registration.look()
    with pytest.raises(Missing):
        await clients[0].get(SECRETS, namespace, "another")


# Mounted


@dataclass(frozen=True, slots=True)
class Mount:
    """A Secret's volume as a kubelet keeps it: files are links into ..data, which is a link that is swapped."""

    path: Path

    def put(self, cert: bytes, key: bytes) -> None:
        version = self.path / f"..{len(list(self.path.iterdir()))}"
        version.mkdir()
        (version / "tls.crt").write_bytes(cert)
        (version / "tls.key").write_bytes(key)
        link = self.path / "..data_tmp"
        link.symlink_to(version.name)
        link.replace(self.path / "..data")
        for name in ("tls.crt", "tls.key"):
            if not (self.path / name).is_symlink():
                (self.path / name).symlink_to(f"..data/{name}")


HOST = "drabridge-webhook.drabridge-system.svc"


def issued() -> tuple[Authority, Serving]:
    now = datetime.now(UTC)
    authority = issue_ca(now)
    return authority, issue_serving(authority, [HOST], now)


async def test_a_certificate_that_is_replaced_is_used_without_a_restart(tmp_path: Path) -> None:
    mount, context = Mount(tmp_path), server_context()
    (old, first), (new, second) = issued(), issued()
    mount.put(first.cert_pem, first.key_pem)
    certificates = MountedCertificates(tmp_path, Metrics())
    await certificates.refresh(context)
    async with listening(context) as port:
        reader, writer = await connect(port, old.cert_pem, HOST)
        mount.put(second.cert_pem, second.key_pem)
        assert await trusts(port, old.cert_pem, HOST)
        await certificates.refresh(context)
        assert await trusts(port, new.cert_pem, HOST)
        assert not await trusts(port, old.cert_pem, HOST)
        writer.write(b"still there\n")  # the connection from before goes on
        assert await reader.readline() == b"still there\n"
        writer.close()


def _encrypted(serving: Serving) -> bytes:
    key = load_pem_private_key(serving.key_pem, None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))


UNUSABLE: dict[str, Callable[[Serving, Serving], tuple[bytes, bytes]]] = {
    "nothing in them": lambda _, __: (b"", b""),
    "texts": lambda _, __: (b"hello", b"hello"),
    "the key of another": lambda one, other: (one.cert_pem, other.key_pem),
    "half a certificate": lambda one, _: (one.cert_pem[:200], one.key_pem),
    "a key with a password": lambda one, _: (one.cert_pem, _encrypted(one)),
}


@pytest.mark.parametrize("case", UNUSABLE)
async def test_files_that_cannot_be_used_are_named_and_change_nothing(tmp_path: Path, case: str) -> None:
    mount, context = Mount(tmp_path), server_context()
    authority, good = issued()
    certificates = MountedCertificates(tmp_path, Metrics())
    mount.put(good.cert_pem, good.key_pem)
    await certificates.refresh(context)
    mount.put(*UNUSABLE[case](issued()[1], issued()[1]))
    async with listening(context) as port:
        for _ in range(2):
            with pytest.raises(
                InvalidInput, match=r"tls\.crt and tls\.key cannot be loaded: .+; check the mounted Secret"
            ):
                await certificates.refresh(context)
            assert await trusts(port, authority.cert_pem, HOST)
        mount.put(good.cert_pem, good.key_pem)
        await certificates.refresh(context)
        assert await trusts(port, authority.cert_pem, HOST)


async def test_a_directory_without_files_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="No such file") as raised:
        await MountedCertificates(tmp_path, Metrics()).refresh(server_context())
    assert str(raised.value).startswith(f"{tmp_path}: tls.crt and tls.key cannot be loaded")


# In a cluster


async def bundle(site: Site) -> str:
    body = await site.api.call("GET", CONFIGURATION)
    return str(body["webhooks"][0]["clientConfig"].get("caBundle", ""))


async def authority(site: Site) -> str:
    return str((await site.api.call("GET", SECRET))["data"]["ca.crt"])


@pytest_asyncio.fixture
async def trusted(site_135: Site) -> AsyncIterator[Site]:
    """A site whose webhook is trusted, now and at the end of the test."""
    site = site_135
    assert await bundle(site) == await authority(site)
    yield site
    ports = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/service/port", "value": site.installed.webhook_port}
        for index in range(2)
    ]
    await site.api.call("PATCH", CONFIGURATION, ports, JSON_PATCH)

    async def settled() -> bool:
        status, secret = await site.api.request("GET", SECRET)
        return status == 200 and secret.get("data", {}).get("ca.crt") == await bundle(site)

    await wait_for(settled, "the API server to trust our authority", deadline=30)


async def test_a_caBundle_that_somebody_empties_is_put_back(trusted: Site) -> None:  # noqa: N802 - the field's name
    patch = [{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": ""}]
    await trusted.api.call("PATCH", CONFIGURATION, patch, JSON_PATCH)
    want = await authority(trusted)
    await wait_for(lambda: bundle(trusted), "caBundle", until=lambda seen: seen == want, deadline=PUT_BACK)


async def test_applying_the_manifests_again_does_not_take_the_caBundle_away(trusted: Site) -> None:  # noqa: N802
    manifest = str(REPOSITORY / "manifests" / "base" / "webhook.yaml")
    await trusted.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", manifest)
    assert await bundle(trusted) == await authority(trusted)


async def test_replacing_the_configuration_takes_it_away_for_a_moment_only(trusted: Site) -> None:
    manifest = str(REPOSITORY / "manifests" / "base" / "webhook.yaml")
    await trusted.cluster.kubectl("replace", "-f", manifest)
    want = await authority(trusted)
    await wait_for(lambda: bundle(trusted), "caBundle", until=lambda seen: seen == want, deadline=PUT_BACK)


async def test_a_second_replica_takes_the_same_authority(trusted: Site) -> None:
    before = await authority(trusted)
    port = free_port()
    second = await trusted.installed.start_replica(webhook_port=port)
    assert await trusts(port, base64.b64decode(before), HOST)
    assert await second.stop() == 0
    assert await authority(trusted) == before


async def test_rubbish_in_the_secret_stops_who_starts_and_nobody_who_runs(trusted: Site, tmp_path: Path) -> None:
    problem = "data['ca.crt']: is not a certificate in PEM; delete it; it is made anew"
    said = f"Secret {NAMESPACE}/{AUTHORITY_SECRET}: {problem}"
    before = await bundle(trusted)
    rubbish = {"data": {"ca.crt": base64.b64encode(b"rubbish").decode()}}
    await trusted.api.call("PATCH", SECRET, rubbish, MERGE_PATCH)
    try:
        starting = Process(
            "starting",
            [
                PROGRAM,
                "operator",
                f"--kubeconfig={await trusted.cluster.kubeconfig_for(NAMESPACE, 'drabridge')}",
                f"--webhook-address=127.0.0.1:{free_port()}",
                f"--probe-address=127.0.0.1:{free_port()}",
            ],
            log=tmp_path / "log",
            env=os.environ,
        )
        code = await wait_for(
            lambda: starting.exit_code, "the operator to give up", until=lambda code: code is not None
        )
        assert (code, starting.said(1)) == (1, f"drabridge: {said}")
        assert "Traceback" not in starting.said()
        running = next(each for each in trusted.installed.replicas if each.process.exit_code is None)
        await wait_for(running.process.said, "the replica that runs to say so", until=lambda text: said in text)
        assert await bundle(trusted) == before
    finally:  # without an authority of ours no other test gets an answer
        await trusted.api.call("DELETE", SECRET)
    await wait_for(lambda: bundle(trusted), "a new authority", until=lambda seen: seen and seen != before)


async def test_a_mounted_certificate_serves_the_webhook_and_is_replaced(trusted: Site, tmp_path: Path) -> None:
    mount = Mount(tmp_path)
    (old, first), (new, second) = issued(), issued()
    mount.put(first.cert_pem, first.key_pem)
    port = free_port()
    replica = await trusted.installed.start_replica(f"--tls-dir={tmp_path}", webhook_port=port)
    assert await trusts(port, old.cert_pem, HOST)
    mount.put(second.cert_pem, second.key_pem)
    await wait_for(lambda: trusts(port, new.cert_pem, HOST), "the new certificate", deadline=PUT_BACK)
    assert await replica.stop() == 0
