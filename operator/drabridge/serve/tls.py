"""Where the webhook's certificate comes from.

Mounted: a directory with tls.crt and tls.key, as cert-manager's Secret; somebody else fills in caBundle.
Self-managed: authorities of our own in a Secret that all replicas share, created by whichever comes first. Each replica
signs its own certificate with the current one; the Lease holder replaces authorities that grow old.
"""

from __future__ import annotations

import asyncio
import base64
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import structlog

from drabridge.core.errors import AlreadyExists, Conflict, DrabridgeError, InvalidInput, Missing
from drabridge.delivery.metrics import Metrics
from drabridge.kube.client import Client, PatchType
from drabridge.kube.clock import SYSTEM, Clock
from drabridge.kube.resources import SECRETS
from drabridge.serve.certificates import (
    AUTHORITY_LIFETIME,
    SERVING_LIFETIME,
    Authorities,
    Authority,
    expiry,
    is_certificate,
    issue_ca,
    issue_serving,
    needs_renewal,
    rotated,
)

AUTHORITY_SECRET = "drabridge-webhook-ca"  # noqa: S105 - the name of a Secret, not one
SERVICE = "drabridge-webhook"
LOOK_EVERY = 10.0
CURE = "delete it; it is made anew"

_log = structlog.get_logger(__name__)


class Certificates(Protocol):
    """A source of the webhook's serving certificate."""

    async def refresh(self, context: ssl.SSLContext) -> None:
        """Load the certificate into the context if there is a new one. New connections use it at once."""

    async def bundle(self, writer: Client) -> bytes | None:
        """What API servers are to trust, after replacing what is too old; None where that is not our business."""


class MountedCertificates:
    """tls.crt and tls.key in a directory, read again when they change."""

    def __init__(self, directory: Path, metrics: Metrics) -> None:
        self._directory = directory
        self._metrics = metrics
        self._loaded: tuple[bytes, bytes] | None = None

    async def refresh(self, context: ssl.SSLContext) -> None:
        """Load both files if their content is new. Raises InvalidInput where they cannot be used."""
        cert, key = self._directory / "tls.crt", self._directory / "tls.key"
        try:
            pair = (cert.read_bytes(), key.read_bytes())
            if pair != self._loaded:
                _load(context, *pair)
                self._loaded = pair
                self._metrics.certificate_expiry.labels("serving").set(expiry(pair[0]).timestamp())
                _log.info("certificate loaded", directory=str(self._directory))
        except (OSError, ssl.SSLError, ValueError) as error:
            raise InvalidInput(
                str(self._directory), "", f"tls.crt and tls.key cannot be loaded: {error}", "check the mounted Secret"
            ) from error

    async def bundle(self, writer: Client) -> bytes | None:  # noqa: ARG002 - the other source writes
        """None: cert-manager's cainjector, or whoever mounts the files, does that."""
        return None


@dataclass(frozen=True, slots=True)
class Lifetimes:
    """How long certificates of ours hold, and how long a new authority is trusted before it signs."""

    authority: timedelta = AUTHORITY_LIFETIME
    serving: timedelta = SERVING_LIFETIME
    overlap: timedelta = timedelta(minutes=5)


class SelfManagedCertificates:
    """Authorities in a Secret, and a certificate for a Service of ours signed with the current one."""

    def __init__(  # noqa: PLR0913 - wired together in one place, by keyword
        self,
        client: Client,
        namespace: str,
        metrics: Metrics,
        lifetimes: Lifetimes | None = None,
        *,
        secret: str = AUTHORITY_SECRET,
        service: str = SERVICE,
        label: str = "",
        clock: Clock = SYSTEM,
    ) -> None:
        self._label = label
        self._secret = secret
        self._service = service
        self._client = client
        self._namespace = namespace
        self._metrics = metrics
        self._lifetimes = lifetimes or Lifetimes()
        self._clock = clock
        self._authority: Authority | None = None
        self._serving: bytes | None = None

    async def refresh(self, context: ssl.SSLContext) -> None:
        """Sign a new certificate if the authority is another or two thirds of the present one's life are over."""
        self.renew(context, (await self.authorities()).current)

    def renew(self, context: ssl.SSLContext, authority: Authority) -> None:
        """As `refresh`, by an authority that has just been read."""
        now = self._clock.wall()
        if authority == self._authority and self._serving and not needs_renewal(self._serving, now):
            return
        service = f"{self._service}.{self._namespace}"
        names = [f"{service}.svc", f"{service}.svc.cluster.local"]
        try:
            serving = issue_serving(authority, names, now, self._lifetimes.serving)
        except InvalidInput as error:
            field = {"certificate": "data['ca.crt']", "private key": "data['ca.key']"}[error.path]
            raise InvalidInput(self._described, field, error.problem, CURE) from error
        _load(context, serving.cert_pem, serving.key_pem)
        self._authority, self._serving = authority, serving.cert_pem
        self._metrics.certificate_expiry.labels(f"{self._label}serving").set(serving.not_after.timestamp())
        self._metrics.certificate_expiry.labels(f"{self._label}authority").set(expiry(authority.cert_pem).timestamp())
        _log.info("certificate issued", names=names, not_after=serving.not_after.isoformat())

    async def bundle(self, writer: Client) -> bytes | None:
        """Bring the authorities up to date. Conditional on what was read, so that two holders cannot both rotate."""
        authorities, version = await self._read_or_create()
        wanted = rotated(authorities, self._clock.wall(), self._lifetimes.authority, self._lifetimes.overlap)
        if wanted != authorities:
            body = {"metadata": {"resourceVersion": version}, "data": _data(wanted)}
            await writer.patch(SECRETS, self._namespace, self._secret, body, PatchType.MERGE)
            _log.info("authorities rotated", following=wanted.following is not None, former=bool(wanted.former))
        return wanted.bundle

    async def authorities(self) -> Authorities:
        """What there is, made if need be."""
        return (await self._read_or_create())[0]

    async def _read_or_create(self) -> tuple[Authorities, str]:
        """The authorities and the resourceVersion of their Secret."""
        now = self._clock.wall()
        try:
            authorities, version = self._read(await self._client.get(SECRETS, self._namespace, self._secret))
        except Missing:
            return await self._create(Authorities(issue_ca(now, self._lifetimes.authority)))
        if expiry(authorities.current.cert_pem) > now:
            return authorities, version
        # Nobody was there to rotate it in time. Nothing signed by it is trusted any more, so there is nothing to keep.
        body = {
            "metadata": {"resourceVersion": version},
            "data": _data(Authorities(issue_ca(now, self._lifetimes.authority))),
        }
        try:
            return self._read(await self._client.patch(SECRETS, self._namespace, self._secret, body, PatchType.MERGE))
        except Conflict:  # another replica was faster
            return self._read(await self._client.get(SECRETS, self._namespace, self._secret))

    async def _create(self, authorities: Authorities) -> tuple[Authorities, str]:
        body = {
            "metadata": {"name": self._secret, "labels": {"app.kubernetes.io/managed-by": "drabridge"}},
            "type": "Opaque",
            "data": {key: value for key, value in _data(authorities).items() if value},
        }
        try:
            return self._read(await self._client.create(SECRETS, self._namespace, body))
        except AlreadyExists:  # another replica was faster
            return self._read(await self._client.get(SECRETS, self._namespace, self._secret))

    def _read(self, secret: Mapping[str, Any]) -> tuple[Authorities, str]:
        try:
            data = {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items() if value}
            following = Authority(data["following.crt"], data["following.key"]) if "following.crt" in data else None
            current = Authority(data["ca.crt"], data["ca.key"])
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(self._described, "data", "has no ca.crt and ca.key", CURE) from error
        if not is_certificate(current.cert_pem):  # API servers would be given it to trust
            raise InvalidInput(self._described, "data['ca.crt']", "is not a certificate in PEM", CURE)
        return Authorities(current, following, data.get("former.crt", b"")), str(secret["metadata"]["resourceVersion"])

    @property
    def _described(self) -> str:
        return f"Secret {self._namespace}/{self._secret}"


class MutualCertificates:
    """A server's certificates, and the authorities that the certificates of its clients must come from: the same."""

    def __init__(self, own: SelfManagedCertificates) -> None:
        self.own = own
        self._trusted = b""

    async def refresh(self, context: ssl.SSLContext) -> None:
        """Load what is new. What was trusted once stays so while the process runs; its key never was anybody else's."""
        authorities = await self.own.authorities()
        self.own.renew(context, authorities.current)
        bundle = authorities.bundle
        if bundle != self._trusted:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=bundle.decode())
            self._trusted = bundle

    async def bundle(self, writer: Client) -> bytes | None:
        """As of the server's own certificates."""
        return await self.own.bundle(writer)


def _data(authorities: Authorities) -> dict[str, str | None]:
    """The Secret's data; None removes a key in a merge patch."""
    following = authorities.following
    values = {
        "ca.crt": authorities.current.cert_pem,
        "ca.key": authorities.current.key_pem,
        "following.crt": following.cert_pem if following else b"",
        "following.key": following.key_pem if following else b"",
        "former.crt": authorities.former,
    }
    return {key: base64.b64encode(value).decode() if value else None for key, value in values.items()}


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


async def keep_fresh(certificates: Certificates, context: ssl.SSLContext, stop: asyncio.Event) -> None:
    """Refresh every ten seconds until `stop` is set. A failure leaves the present certificate in use."""
    while not stop.is_set():
        await SYSTEM.pause(stop, LOOK_EVERY)
        try:
            await certificates.refresh(context)
        except DrabridgeError as error:
            _log.warning("the certificate was not renewed", error=str(error))
