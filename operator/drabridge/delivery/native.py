"""Stepping aside: whether the API server's gate is on, and since when kube-scheduler could serve each name itself.

Every replica asks for the gate, since every replica answers the webhook. Since when a name could be served natively is
kept in a ConfigMap, written by the Lease holder, so that replicas agree and a restart does not start the wait again.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import structlog

from drabridge.core.auto import hindrance_of
from drabridge.core.cluster import ClusterView, Gate
from drabridge.core.errors import DrabridgeError, Missing
from drabridge.kube.caches import Caches
from drabridge.kube.client import Client, PatchType
from drabridge.kube.clock import SYSTEM, Clock
from drabridge.kube.resources import CONFIGMAPS, DEVICE_CLASSES

PROBE = "drabridge-gate-probe"
"""The DeviceClass that is created as a dry run only; rights are limited to this name."""

STATE = "drabridge-state"
SINCE_KEY = "nativeSince"

_log = structlog.get_logger(__name__)


async def gate_of(client: Client) -> Gate:
    """A dry run of a DeviceClass with an extended name: with the gate off the API server drops the field."""
    body = {"metadata": {"name": PROBE}, "spec": {"extendedResourceName": "drabridge.io/gate-probe"}}
    answer = await client.patch(
        DEVICE_CLASSES, None, PROBE, body, PatchType.APPLY, field_manager="drabridge-gate-probe", dry_run=True
    )
    return Gate.ON if answer["spec"].get("extendedResourceName") else Gate.OFF


def since_of(text: str) -> dict[str, datetime] | None:
    """Read what the ConfigMap keeps: resource name -> RFC 3339. None for anything else."""
    try:
        return {name: datetime.fromisoformat(moment).astimezone(UTC) for name, moment in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def text_of(since: Mapping[str, datetime]) -> str:
    """What the ConfigMap keeps, for `since_of`."""
    return json.dumps({name: moment.isoformat() for name, moment in since.items()}, sort_keys=True)


def continued(stored: Mapping[str, datetime], cluster: ClusterView, now: datetime) -> dict[str, datetime]:
    """Since when each name that could be served natively now could be: as stored, or from now on.

    A moment that is yet to come (a clock was wrong, or somebody edited it) is no reason to wait longer.
    """
    return {
        name: min(stored.get(name, now), now)
        for name in sorted(cluster.classes.names())
        if hindrance_of(name, cluster) is None
    }


class NativeWatch:
    """Keeps `caches.gate` and `caches.settled` current."""

    def __init__(  # noqa: PLR0913 - wired together in one place, by keyword
        self,
        caches: Caches,
        client: Client,
        writer: Client,
        namespace: str,
        *,
        settle: float,
        interval: float,
        is_leader: Callable[[], bool],
        changed: Callable[[], None],
        clock: Clock = SYSTEM,
    ) -> None:
        self._caches = caches
        self._client = client
        self._writer = writer
        self._namespace = namespace
        self._settle = settle
        self._interval = interval
        self._is_leader = is_leader
        self._changed = changed
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Look every `interval` seconds until `stop` is set."""
        while not stop.is_set():
            await self.look()
            await self._clock.pause(stop, self._interval)

    async def look(self) -> None:
        """Look once. What cannot be found out leaves the gate unknown, and unknown means that Pods are rewritten."""
        before = (self._caches.gate, self._caches.settled)
        try:
            self._caches.gate = await gate_of(self._client)
            since = await self._since()
        except DrabridgeError as error:
            _log.warning("cannot find out the gate DRAExtendedResource", error=str(error))
            self._caches.gate, since = Gate.UNKNOWN, {}
        now = self._clock.wall()
        self._caches.settled = frozenset(
            name for name, start in since.items() if (now - start).total_seconds() >= self._settle
        )
        if before != (self._caches.gate, self._caches.settled):
            _log.info("native delivery", gate=self._caches.gate, names=sorted(self._caches.settled))
            self._changed()

    async def _since(self) -> Mapping[str, datetime]:
        """Since when each name could be served natively without a break; the Lease holder writes what changes."""
        stored = await self._stored()
        if not self._is_leader():
            return stored
        since = continued(stored, self._caches.cluster(), self._clock.wall().replace(microsecond=0))
        if since != stored:
            await self._store(since)
        return since

    async def _stored(self) -> dict[str, datetime]:
        try:
            config_map = await self._client.get(CONFIGMAPS, self._namespace, STATE)
        except Missing:
            return {}
        since = since_of(config_map.get("data", {}).get(SINCE_KEY, "{}"))
        if since is None:
            # Somebody edited it. Starting the wait anew is safe: until it is over, Pods are rewritten.
            _log.warning("ConfigMap cannot be read and is written anew", name=STATE, namespace=self._namespace)
        return since or {}

    async def _store(self, since: Mapping[str, datetime]) -> None:
        await self._writer.patch(
            CONFIGMAPS,
            self._namespace,
            STATE,
            {"metadata": {"name": STATE}, "data": {SINCE_KEY: text_of(since)}},
            PatchType.APPLY,
            force=True,
        )
