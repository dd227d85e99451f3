"""Where the webhook's certificate comes from, and how the API server learns whom to trust.

Mounted: a directory with tls.crt and tls.key, as cert-manager's Secret; somebody else fills in caBundle.
Self-managed: an authority of our own in a Secret that all replicas share, created by whichever comes first; each
replica signs its own certificate with it, and the Lease holder writes it into the webhook configuration.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import structlog

from drabridge.core.errors import AlreadyExists, DrabridgeError, InvalidInput, Missing
from drabridge.kube.client import Client, PatchType
from drabridge.kube.clock import SYSTEM, Clock
from drabridge.kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS, SECRETS
from drabridge.serve.certificates import Authority, issue_ca, issue_serving, needs_renewal

AUTHORITY_SECRET = "drabridge-webhook-ca"  # noqa: S105 - the name of a Secret, not one
WEBHOOK_CONFIGURATION = "drabridge"
SERVICE = "drabridge-webhook"
LOOK_EVERY = 10.0
CURE = "delete it; it is made anew"

_log = structlog.get_logger(__name__)


class Certificates(Protocol):
    """A source of the webhook's serving certificate."""

    async def refresh(self, context: ssl.SSLContext) -> None:
        """Load the certificate into the context if there is a new one. New connections use it at once."""

    async def publish(self, writer: Client) -> None:
        """Tell the API server whom to trust, if that is our business. For the Lease holder."""


class MountedCertificates:
    """tls.crt and tls.key in a directory, read again when they change."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._loaded: tuple[bytes, bytes] | None = None

    async def refresh(self, context: ssl.SSLContext) -> None:
        """Load both files if their content is new. Raises InvalidInput where they cannot be used."""
        cert, key = self._directory / "tls.crt", self._directory / "tls.key"
        try:
            pair = (cert.read_bytes(), key.read_bytes())
            if pair != self._loaded:
                _load(context, *pair)
                self._loaded = pair
                _log.info("certificate loaded", directory=str(self._directory))
        except (OSError, ssl.SSLError) as error:
            raise InvalidInput(
                str(self._directory), "", f"tls.crt and tls.key cannot be loaded: {error}", "check the mounted Secret"
            ) from error

    async def publish(self, writer: Client) -> None:
        """Nothing: cert-manager's cainjector, or whoever mounts the files, does that."""


class SelfManagedCertificates:
    """An authority in the Secret `drabridge-webhook-ca`, and a certificate of 90 days signed with it."""

    def __init__(self, client: Client, namespace: str, *, clock: Clock = SYSTEM) -> None:
        self._client = client
        self._namespace = namespace
        self._clock = clock
        self._authority: Authority | None = None
        self._serving: bytes | None = None

    async def refresh(self, context: ssl.SSLContext) -> None:
        """Sign a new certificate if the authority is another or two thirds of the present one's life are over."""
        authority = await self._read_or_create()
        now = self._clock.wall()
        if authority == self._authority and self._serving and not needs_renewal(self._serving, now):
            return
        names = [f"{SERVICE}.{self._namespace}.svc", f"{SERVICE}.{self._namespace}.svc.cluster.local"]
        try:
            serving = issue_serving(authority, names, now)
        except InvalidInput as error:
            field = {"certificate": "data['ca.crt']", "private key": "data['ca.key']"}[error.path]
            raise InvalidInput(_described(self._namespace), field, error.problem, CURE) from error
        _load(context, serving.cert_pem, serving.key_pem)
        self._authority, self._serving = authority, serving.cert_pem
        _log.info("certificate issued", names=names, not_after=serving.not_after.isoformat())

    async def publish(self, writer: Client) -> None:
        """Write our authority into each webhook of our configuration that has another one."""
        if self._authority is None:
            return
        bundle = base64.b64encode(self._authority.cert_pem).decode()
        try:
            configuration = await self._client.get(MUTATING_WEBHOOK_CONFIGURATIONS, None, WEBHOOK_CONFIGURATION)
        except Missing:
            _log.warning("no webhook configuration, no Pod is rewritten", name=WEBHOOK_CONFIGURATION)
            return
        patch = [
            # The test keeps us from writing into another webhook, should the list change in between.
            operation
            for index, webhook in enumerate(configuration.get("webhooks", ()))
            if webhook["clientConfig"].get("caBundle") != bundle
            for operation in (
                {"op": "test", "path": f"/webhooks/{index}/name", "value": webhook["name"]},
                {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": bundle},
            )
        ]
        if patch:
            await writer.patch(MUTATING_WEBHOOK_CONFIGURATIONS, None, WEBHOOK_CONFIGURATION, patch, PatchType.JSON)
            _log.info("caBundle written", name=WEBHOOK_CONFIGURATION)

    async def _read_or_create(self) -> Authority:
        try:
            return _authority_of(await self._client.get(SECRETS, self._namespace, AUTHORITY_SECRET), self._namespace)
        except Missing:
            authority = issue_ca(self._clock.wall())
        body = {
            "metadata": {"name": AUTHORITY_SECRET, "labels": {"app.kubernetes.io/managed-by": "drabridge"}},
            "type": "Opaque",
            "data": {
                "ca.crt": base64.b64encode(authority.cert_pem).decode(),
                "ca.key": base64.b64encode(authority.key_pem).decode(),
            },
        }
        try:
            await self._client.create(SECRETS, self._namespace, body)
        except AlreadyExists:  # another replica was faster
            return _authority_of(await self._client.get(SECRETS, self._namespace, AUTHORITY_SECRET), self._namespace)
        return authority


def _load(context: ssl.SSLContext, cert_pem: bytes, key_pem: bytes) -> None:
    """Have the context use this certificate, or raise OSError or SSLError and leave it with the one it has.

    The TLS library takes a certificate over before it finds that the key does not belong to it, so another context has
    to try first. It reads from files only.
    """
    with tempfile.TemporaryDirectory() as directory:
        cert, key = Path(directory) / "tls.crt", Path(directory) / "tls.key"
        for path, pem in ((cert, cert_pem), (key, key_pem)):
            path.touch(mode=0o600)
            path.write_bytes(pem)
        for each in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), context):
            # With no password given, an encrypted key would have the library ask for one on the terminal.
            each.load_cert_chain(cert, key, password="")


def _authority_of(secret: Mapping[str, Any], namespace: str) -> Authority:
    try:
        return Authority(base64.b64decode(secret["data"]["ca.crt"]), base64.b64decode(secret["data"]["ca.key"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(_described(namespace), "data", "has no ca.crt and ca.key", CURE) from error


def _described(namespace: str) -> str:
    return f"Secret {namespace}/{AUTHORITY_SECRET}"


async def keep_fresh(certificates: Certificates, context: ssl.SSLContext, stop: asyncio.Event) -> None:
    """Refresh every ten seconds until `stop` is set. A failure leaves the present certificate in use."""
    while not stop.is_set():
        await SYSTEM.pause(stop, LOOK_EVERY)
        try:
            await certificates.refresh(context)
        except DrabridgeError as error:
            _log.warning("the certificate was not renewed", error=str(error))


async def keep_published(certificates: Certificates, writer: Client, stop: asyncio.Event) -> None:
    """Publish every ten seconds until `stop` is set: applying the manifests again must not undo it for long."""
    while not stop.is_set():
        try:
            await certificates.publish(writer)
        except DrabridgeError as error:
            _log.warning("caBundle was not written", error=str(error))
        await SYSTEM.pause(stop, LOOK_EVERY)
