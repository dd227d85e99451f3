"""What the webhook configuration must say for API servers to call us. For the Lease holder.

`caBundle` where the certificates are ours; and, in strict mode, the names that Pods are matched by: with
`failurePolicy: Fail` a Pod that does not concern us must not wait for us.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterable
from typing import Any

import structlog

from drabridge.core.errors import DrabridgeError, Missing
from drabridge.core.matching import created_condition
from drabridge.kube.client import Client, PatchType
from drabridge.kube.clock import SYSTEM
from drabridge.kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS
from drabridge.serve.tls import Certificates

CONFIGURATION = "drabridge"
CONDITION = "extended-resources-or-our-claim"
"""The match condition that strict mode narrows down (manifests/base/webhook.yaml)."""

LOOK_EVERY = 10.0
LOOK_EVERY_STRICT = 2.0

_log = structlog.get_logger(__name__)


class Registration:
    """Keeps the configuration as it must be: applying the manifests again must not undo it for long.

    `names` gives the served names where the webhook is strict; None leaves match conditions alone.
    """

    def __init__(
        self, certificates: Certificates, writer: Client, names: Callable[[], Iterable[str]] | None = None
    ) -> None:
        self._certificates = certificates
        self._writer = writer
        self._names = names

    async def run(self, stop: asyncio.Event) -> None:
        """Look every few seconds until `stop` is set."""
        while not stop.is_set():
            try:
                await self.look()
            except DrabridgeError as error:
                _log.warning("the webhook configuration was not written", error=str(error))
            await SYSTEM.pause(stop, LOOK_EVERY if self._names is None else LOOK_EVERY_STRICT)

    async def look(self) -> None:
        """Compare once, and patch what differs."""
        bundle = await self._certificates.bundle(self._writer)
        if bundle is None and self._names is None:
            return  # it is none of our business then, and we have no right to read it
        try:
            configuration = await self._writer.get(MUTATING_WEBHOOK_CONFIGURATIONS, None, CONFIGURATION)
        except Missing:
            _log.warning("no webhook configuration, no Pod is rewritten", name=CONFIGURATION)
            return
        patch: list[dict[str, Any]] = []
        for index, webhook in enumerate(configuration.get("webhooks", ())):
            changes = [*self._bundle(index, webhook, bundle), *self._condition(index, webhook)]
            if changes:
                # The test keeps us from writing into another webhook, should the list change in between.
                patch += [{"op": "test", "path": f"/webhooks/{index}/name", "value": webhook["name"]}, *changes]
        if patch:
            await self._writer.patch(MUTATING_WEBHOOK_CONFIGURATIONS, None, CONFIGURATION, patch, PatchType.JSON)
            _log.info("webhook configuration written", name=CONFIGURATION)

    def _bundle(self, index: int, webhook: dict[str, Any], bundle: bytes | None) -> list[dict[str, Any]]:
        if bundle is None:
            return []
        text = base64.b64encode(bundle).decode()
        if webhook["clientConfig"].get("caBundle") == text:
            return []
        return [{"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": text}]

    def _condition(self, index: int, webhook: dict[str, Any]) -> list[dict[str, Any]]:
        if self._names is None:
            return []
        wanted = created_condition(self._names())
        return [
            {"op": "add", "path": f"/webhooks/{index}/matchConditions/{position}/expression", "value": wanted}
            for position, condition in enumerate(webhook.get("matchConditions", ()))
            if condition["name"] == CONDITION and condition["expression"] != wanted
        ]
