"""What our kube-scheduler needs to call us: its client certificate and our authority. For the Lease holder.

kube-scheduler reads them once, when it starts, so that its Deployment is rolled when they change. The authority changes
long before the old one ends, and both are trusted meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
from datetime import timedelta

import structlog

from drabridge.core.errors import AlreadyExists, DrabridgeError, Missing
from drabridge.kube.client import Client, PatchType
from drabridge.kube.clock import SYSTEM, Clock
from drabridge.kube.resources import DEPLOYMENTS, SECRETS
from drabridge.serve.certificates import SERVING_LIFETIME, Authority, is_signed_by, issue_client, needs_renewal
from drabridge.serve.tls import SelfManagedCertificates

AUTHORITY_SECRET = "drabridge-extender-ca"  # noqa: S105 - the name of a Secret, not one
SERVICE = "drabridge-extender"
CLIENT_SECRET = "drabridge-scheduler-tls"  # noqa: S105 - the name of a Secret, not one
DEPLOYMENT = "drabridge-scheduler"
COMMON_NAME = "drabridge-scheduler"
ROLLED = "drabridge.io/credentials"
"""The annotation on the Deployment's Pods that says which credentials they have read."""

LOOK_EVERY = 10.0

_log = structlog.get_logger(__name__)


class SchedulerCredentials:
    """Keeps the Secret `drabridge-scheduler-tls` current: tls.crt, tls.key, ca.crt."""

    def __init__(
        self,
        certificates: SelfManagedCertificates,
        writer: Client,
        namespace: str,
        lifetime: timedelta = SERVING_LIFETIME,
        *,
        clock: Clock = SYSTEM,
    ) -> None:
        self._certificates = certificates
        self._writer = writer
        self._namespace = namespace
        self._lifetime = lifetime
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Look every few seconds until `stop` is set."""
        while not stop.is_set():
            try:
                await self.look()
            except DrabridgeError as error:
                _log.warning("the scheduler's credentials were not written", error=str(error))
            await self._clock.pause(stop, LOOK_EVERY)

    async def look(self) -> None:
        """Compare once, and write what differs."""
        bundle = await self._certificates.bundle(self._writer)
        current = (await self._certificates.authorities()).current
        if bundle is None:
            return
        try:
            secret = await self._writer.get(SECRETS, self._namespace, CLIENT_SECRET)
        except Missing:
            await self._create(self._fresh(current, bundle))
            secret = await self._writer.get(SECRETS, self._namespace, CLIENT_SECRET)
        have = {name: _decoded(value) for name, value in (secret.get("data") or {}).items()}
        wanted = have
        certificate = have.get("tls.crt", b"")
        stale = needs_renewal(certificate, self._clock.wall()) or not is_signed_by(certificate, current)
        if stale or not have.get("tls.key"):
            wanted = self._fresh(current, bundle)
        elif have.get("ca.crt") != bundle:
            wanted = {**have, "ca.crt": bundle}
        if wanted != have:
            body = {"metadata": {"resourceVersion": secret["metadata"]["resourceVersion"]}, "data": _encoded(wanted)}
            await self._writer.patch(SECRETS, self._namespace, CLIENT_SECRET, body, PatchType.MERGE)
            _log.info("the scheduler's credentials are renewed", secret=CLIENT_SECRET)
        await self._roll(wanted)

    def _fresh(self, authority: Authority, bundle: bytes) -> dict[str, bytes]:
        issued = issue_client(authority, COMMON_NAME, self._clock.wall(), self._lifetime)
        return {"tls.crt": issued.cert_pem, "tls.key": issued.key_pem, "ca.crt": bundle}

    async def _create(self, data: dict[str, bytes]) -> None:
        metadata = {"name": CLIENT_SECRET, "labels": {"app.kubernetes.io/managed-by": "drabridge"}}
        body = {"metadata": metadata, "type": "kubernetes.io/tls", "data": _encoded(data)}
        try:
            await self._writer.create(SECRETS, self._namespace, body)
        except AlreadyExists:
            return
        _log.info("the scheduler's credentials are made", secret=CLIENT_SECRET)

    async def _roll(self, data: dict[str, bytes]) -> None:
        """Have the Deployment's Pods start anew if theirs are others."""
        text = hashlib.sha256(data["tls.crt"] + data["ca.crt"]).hexdigest()[:16]
        try:
            deployment = await self._writer.get(DEPLOYMENTS, self._namespace, DEPLOYMENT)
        except Missing:
            return
        template = deployment["spec"]["template"]["metadata"]
        if (template.get("annotations") or {}).get(ROLLED) == text:
            return
        body = {"spec": {"template": {"metadata": {"annotations": {ROLLED: text}}}}}
        await self._writer.patch(DEPLOYMENTS, self._namespace, DEPLOYMENT, body, PatchType.STRATEGIC)
        _log.info("the scheduler is rolled for its credentials", deployment=DEPLOYMENT)


def _encoded(data: dict[str, bytes]) -> dict[str, str]:
    return {name: base64.b64encode(value).decode() for name, value in data.items()}


def _decoded(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except ValueError:
        return b""
