"""A client whose writes fail as a test says, by their number. All that arrives is the real API server's to answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from enum import StrEnum
from typing import Any

from drabridge.core.errors import Conflict, DrabridgeError, NotLeader, Refused, Unavailable
from drabridge.kube.client import Client
from drabridge.kube.resources import Resource

Object = dict[str, Any]


class Fault(StrEnum):
    """What becomes of a write."""

    UNSENT = "not done, no answer"
    LOST = "done, no answer"
    CONFLICT = "409"
    REFUSED = "403"
    LATE = "no answer, done much later"
    OVER = "the Lease is over: not sent"


NEVER_SENT: dict[Fault, tuple[type[DrabridgeError], *tuple[Any, ...]]] = {
    Fault.UNSENT: (Unavailable, "no answer"),
    Fault.CONFLICT: (Conflict, "somebody was faster"),
    Fault.REFUSED: (Refused, 403, "Forbidden", "exceeded quota"),
    Fault.OVER: (NotLeader, "the Lease is over"),
}


class FailingClient:
    """`faults` is the number of a write, counted from 0, -> what becomes of it; `writes` is what was tried so far.

    So many lists as `unlisted` says are not answered.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._late: list[Callable[[], Awaitable[Object]]] = []
        self.faults: dict[int, Fault] = {}
        self.writes: list[str] = []
        self.unlisted = 0

    async def deliver(self) -> None:
        """Let what was late arrive now, in its order."""
        waiting, self._late = self._late, []
        for request in waiting:
            with suppress(DrabridgeError):
                await request()

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        return await self._client.get(resource, namespace, name)

    async def list_pages(self, resource: Resource, *args: Any, **options: Any) -> AsyncIterator[Object]:
        if self.unlisted:
            self.unlisted -= 1
            raise Unavailable("not now")
        async for page in self._client.list_pages(resource, *args, **options):
            yield page

    async def create(self, resource: Resource, *args: Any, **options: Any) -> Object:
        return await self._write(f"create {resource.kind}", lambda: self._client.create(resource, *args, **options))

    async def post(
        self, resource: Resource, namespace: str | None, name: str, subresource: str, body: Object
    ) -> Object:
        return await self._write(
            f"create {subresource}", lambda: self._client.post(resource, namespace, name, subresource, body)
        )

    async def patch(self, resource: Resource, *args: Any, subresource: str | None = None, **options: Any) -> Object:
        return await self._write(
            f"patch {resource.kind}/{subresource or ''}",
            lambda: self._client.patch(resource, *args, subresource=subresource, **options),
        )

    async def delete(self, resource: Resource, *args: Any, **options: Any) -> Object:
        return await self._write(f"delete {resource.kind}", lambda: self._client.delete(resource, *args, **options))

    async def _write(self, what: str, send: Callable[[], Awaitable[Object]]) -> Object:
        fault = self.faults.get(len(self.writes))
        self.writes.append(f"{what}{f': {fault}' if fault else ''}")
        if fault is None:
            return await send()
        if fault in NEVER_SENT:
            error, *args = NEVER_SENT[fault]
            raise error(*args)
        if fault is Fault.LATE:
            self._late.append(send)
        else:
            with suppress(DrabridgeError):
                await send()
        raise Unavailable("no answer")
