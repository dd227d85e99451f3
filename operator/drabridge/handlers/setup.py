"""What Kopf is told: who we are, that it only watches, and where events go.

Events cross over from Kopf's loop to the operator's one by one, in their order.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import kopf
import structlog

from drabridge.core.errors import Bug
from drabridge.core.rewrite import WATCHED
from drabridge.delivery.operator import Operator
from drabridge.kube.caches import Caches, Store
from drabridge.kube.credentials import Endpoint

TOKEN_LIFETIME = timedelta(minutes=10)
"""Kopf asks again after this time; the kubelet replaces a mounted token long before it expires."""

LOGIN_EVERY = 5.0
"""Seconds between two logins of Kopf's."""

AT_ONCE = 10
"""Events taken in before the webhook and others get their turn: about a millisecond's worth."""

_log = structlog.get_logger(__name__)


class Inbox:
    """The operator as handlers see it: made in the operator's loop, used from Kopf's."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._loop = asyncio.get_running_loop()
        self._asked_at = float("-inf")
        self._events: deque[tuple[Store[Any], Mapping[str, Any]]] = deque()
        self._draining = False

    @property
    def caches(self) -> Caches:
        """The stores, as names for where an event belongs; not to be read from here."""
        return self._operator.caches

    def put(self, store: Store[Any], event: Mapping[str, Any]) -> None:
        """Have the operator take in one event."""
        self._events.append((store, event))
        if not self._draining:
            self._draining = True
            self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        """Take in some events, and the rest when others have had their turn: a list of Kopf's brings thousands."""
        self._draining = False  # first, so that whoever puts an event from now on calls us again
        for _ in range(min(AT_ONCE, len(self._events))):
            self._operator.wakeups.seen(*self._events.popleft())
        if self._events and not self._draining:
            self._draining = True
            self._loop.call_soon(self._drain)

    async def endpoint(self) -> Endpoint:
        """How to reach the API server as the same identity, at most every few seconds.

        Kopf asks again whenever it is refused, and a ServiceAccount that was deleted is refused for good.
        """
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(self._asked_at + LOGIN_EVERY - now)
        self._asked_at = asyncio.get_running_loop().time()
        future = asyncio.run_coroutine_threadsafe(self._operator.credentials.endpoint(), self._loop)
        return await asyncio.wrap_future(future)


@kopf.on.login()
async def login(memo: Inbox, **_: Any) -> kopf.ConnectionInfo:
    """Let Kopf be the same identity as our own client.

    Connections that were made here (kopf.AiohttpSession) would not do: at its end Kopf closes them before its watches,
    which then wait for another login for ever.
    """
    endpoint = await memo.endpoint()
    return kopf.ConnectionInfo(
        server=endpoint.host,
        ca_path=endpoint.ca_file,
        insecure=not endpoint.verify,
        certificate_path=endpoint.cert_file,
        private_key_path=endpoint.key_file,
        scheme="Bearer" if endpoint.token else None,
        token=endpoint.token,
        proxy_url=endpoint.proxy,
        trust_env=endpoint.trust_env,
        expiration=datetime.now(UTC) + TOKEN_LIFETIME if endpoint.token else None,
    )


class NoDiffBase(kopf.DiffBaseStorage):
    """Keeps no copy of objects to compare with. Kopf would make one of each object at each event, for change handlers.

    Storing is refused outright: no object gets an annotation of Kopf's from us.
    """

    def build(self, *, body: kopf.Body, extra_fields: object = None) -> kopf.BodyEssence:
        """Nothing of the object is looked at."""
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        """Nothing was stored."""
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        """Refuse."""
        raise Bug("Kopf wants to write its own state on an object")


class NoProgress(kopf.ProgressStorage):
    """Keeps no progress of handlers, which event handlers have none of."""

    def fetch(self, *, key: object, body: kopf.Body) -> None:
        """Nothing was stored."""

    def store(self, *, key: object, record: object, body: kopf.Body, patch: kopf.Patch) -> None:
        """Refuse."""
        raise Bug("Kopf wants to write its own state on an object")

    def purge(self, *, key: object, body: kopf.Body, patch: kopf.Patch) -> None:
        """Nothing was stored."""

    def touch(self, *, body: kopf.Body, patch: kopf.Patch, value: str | None) -> None:
        """Nothing was stored."""

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        """Nothing was stored."""
        return essence


def settings() -> kopf.OperatorSettings:
    """Settings under which Kopf only watches."""
    result = kopf.OperatorSettings()
    result.scanning.disabled = True
    result.posting.enabled = False
    result.persistence.diffbase_storage = NoDiffBase()
    result.persistence.progress_storage = NoProgress()
    result.watching.label_selectors["pods"] = WATCHED
    result.watching.chunk_size = 50  # no other thread runs while the JSON of a page is parsed
    result.queueing.idle_timeout = 0.1  # a worker keeps its last object as long, and a list makes thousands of workers
    result.watching.server_timeout = 300
    result.watching.connect_timeout = 10
    result.networking.request_timeout = 30
    result.networking.connect_timeout = 10
    # Kopf's own go up to 21 s, for which a watch that met a restarting API server would show nothing.
    result.networking.error_backoffs = (1, 1, 2, 3, 5, 5, 5, 5, 5, 5)
    return result
