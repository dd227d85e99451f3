"""Raw JSON requests to the API server. No typed models: they lose the fields that are newer than they are.

kubernetes_asyncio reads kubeconfigs, aiohttp keeps the connections. Watches belong to Kopf.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, Self

import aiohttp
import structlog

from drabridge.core.errors import AlreadyExists, Conflict, Missing, Refused, Unavailable
from drabridge.kube.credentials import Credentials

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from drabridge.kube.resources import Resource

FIELD_MANAGER = "drabridge"
"""Who owns fields that a caller does not claim for a more precise manager."""

TIMEOUT = 30.0
"""Seconds that one request may take, from waiting for a connection to the last byte of the answer."""

_WARNING = re.compile(r'299 \S+ "((?:[^"\\]|\\.)*)"')  # RFC 7234 5.5, as the API server writes it

Body = Mapping[str, Any]
_log = structlog.get_logger(__name__)


class PatchType(StrEnum):
    """How the API server reads the body of a PATCH: its media type."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class Fence(Protocol):
    """Whoever knows how long writing is still allowed."""

    def check(self) -> float:
        """Return the seconds of leadership left. Raises NotLeader if there are none."""
        ...


@functools.lru_cache(maxsize=256)
def log_warning(text: str) -> None:
    """Log what the API server warns of, each text once (until 256 others came)."""
    _log.warning("the API server warns", text=text)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    retry_after: str | None
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Client:
    """The API server as seen by one identity. All bodies are decoded JSON; cluster-scoped objects have namespace None.

    Every method raises Missing, Conflict or AlreadyExists, Refused, or Unavailable, the writing ones of a fenced client
    NotLeader as well. The error's text names the object; the exception it came from is its cause.
    """

    _credentials: Credentials
    _connections: aiohttp.ClientSession
    _user_agent: str
    _timeout: float
    _on_warning: Callable[[str], None]
    _fence: Fence | None = None

    @classmethod
    async def connect(
        cls,
        kubeconfig: Path | None,
        context: str | None = None,
        *,
        user_agent: str,
        request_timeout: float = TIMEOUT,
        on_warning: Callable[[str], None] = log_warning,
    ) -> Self:
        """Make a client; nothing is sent yet. Use it by `async with`, which closes the connections at the end.

        `kubeconfig` and `context` as in `Credentials.load`; raises InvalidInput like it.
        """
        credentials = await Credentials.load(kubeconfig, context)
        return cls(credentials, credentials.connect(), user_agent, request_timeout, on_warning)

    @property
    def credentials(self) -> Credentials:
        """Who we are, for others that connect to the same API server."""
        return self._credentials

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connections.close()

    def fenced(self, fence: Fence) -> Self:
        """Return a client on the same connections that writes only while the fence allows it.

        The fence is asked right before a request is sent, and the request is given up when the time is over that the
        fence answered, so it cannot leave later. Reading is not fenced.
        """
        return replace(self, _fence=fence)

    async def version(self) -> dict[str, Any]:
        """GET /version: gitVersion, major, minor, emulationMinor, …."""
        return await self._request("GET", "/version", "version of the API server")

    async def get(self, resource: Resource, namespace: str | None, name: str) -> dict[str, Any]:
        """Read one object."""
        return await self._request("GET", resource.path(namespace, name), resource.label(namespace, name))

    async def list_pages(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
        metadata_only: bool = False,
        resource_version: str | None = None,
    ) -> AsyncIterator[dict[str, Any]]:
        """Iterate over the pages of a list, `{metadata: {resourceVersion, …}, items: […]}`; the items carry no kind.

        All pages show the moment of the first. If the API server drops that moment on the way (410), the list goes on
        from the same place as of now, with another resourceVersion: no object comes twice, one made meanwhile may be
        missed. `list_all` never mixes moments. `metadata_only` asks for PartialObjectMetadata instead of whole objects.
        """
        query = _given(limit=str(limit), labelSelector=label_selector, fieldSelector=field_selector)
        first = _given(resourceVersion=resource_version)
        headers = {}
        if metadata_only:
            headers["Accept"] = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        path, what = resource.path(namespace), resource.label(namespace)
        while True:
            page = await self._exchange("GET", path, what, query={**query, **first}, headers=headers)
            token = page.body.get("metadata", {}).get("continue")
            if page.status == 410 and token and token != query.get("continue"):
                query["continue"] = token
                continue
            body = _checked(page, what)
            yield {**body, "items": body.get("items") or []}  # Go writes an empty list of PartialObjectMetadata as null
            first = {}
            if not token:
                return
            query["continue"] = token

    async def list_all(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
        metadata_only: bool = False,
    ) -> list[dict[str, Any]]:
        """Read all items as of one moment. A list that outlives its moment is read again from its start, once."""
        for _ in range(2):
            items: list[dict[str, Any]] = []
            moments = set()
            async for page in self.list_pages(
                resource,
                namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                limit=limit,
                metadata_only=metadata_only,
            ):
                items += page["items"]
                moments.add(page["metadata"]["resourceVersion"])
            if len(moments) == 1:
                return items
        raise Unavailable(f"{resource.label(namespace)}: the API server drops the list before it is read (410)")

    async def create(
        self,
        resource: Resource,
        namespace: str | None,
        body: Body,
        *,
        dry_run: bool = False,
        field_manager: str = FIELD_MANAGER,
    ) -> dict[str, Any]:
        """Create an object; apiVersion and kind are filled in. Raises AlreadyExists if the name is taken."""
        metadata = body.get("metadata", {})
        return await self._request(
            "POST",
            resource.path(namespace),
            resource.label(namespace, metadata.get("name") or f"{metadata.get('generateName', '')}*"),
            body={"apiVersion": resource.api_version, "kind": resource.kind, **body},
            query=_given(fieldManager=field_manager, dryRun="All" if dry_run else None),
        )

    async def post(
        self, resource: Resource, namespace: str | None, name: str, subresource: str, body: Body
    ) -> dict[str, Any]:
        """Create a subresource of an object, such as the binding of a Pod."""
        path = resource.path(namespace, name, subresource)
        return await self._request("POST", path, resource.label(namespace, name), body=body)

    async def patch(  # noqa: PLR0913 - the API's own options, by keyword
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        body: Body | Sequence[Body],
        patch_type: PatchType,
        *,
        subresource: str | None = None,
        field_manager: str = FIELD_MANAGER,
        force: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Patch an object. APPLY creates it if need be, and `force` takes fields from other managers.

        apiVersion, kind and name are filled in for it.
        A `metadata.resourceVersion` in a MERGE or STRATEGIC body makes it conditional: Conflict if somebody wrote
        meanwhile. A failed `test` of a JSON patch is Refused, status 422.
        """
        if patch_type is PatchType.APPLY and isinstance(body, Mapping):
            metadata = {"name": name, **body.get("metadata", {})}
            body = {"apiVersion": resource.api_version, "kind": resource.kind, **body, "metadata": metadata}
        return await self._request(
            "PATCH",
            resource.path(namespace, name, subresource),
            resource.label(namespace, name),
            body=body,
            query=_given(
                fieldManager=field_manager,
                force="true" if force else None,
                dryRun="All" if dry_run else None,
            ),
            headers={"Content-Type": patch_type.value},
        )

    async def delete(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        propagation_policy: str | None = None,
    ) -> dict[str, Any]:
        """Delete an object; with a uid only that very object, else Conflict. Answers the object or a Status."""
        return await self._request(
            "DELETE",
            resource.path(namespace, name),
            resource.label(namespace, name),
            body={
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                **_given(preconditions={"uid": uid} if uid else None, propagationPolicy=propagation_policy),
            },
        )

    async def _request(self, method: str, path: str, what: str, **options: Any) -> dict[str, Any]:
        return _checked(await self._exchange(method, path, what, **options), what)

    async def _exchange(self, method: str, path: str, what: str, **options: Any) -> _Answer:
        """Send, with a fresh token if the first one is rejected. Raises Unavailable or NotLeader."""
        authorization = await self._credentials.headers()
        answer = await self._send(method, path, what, authorization, **options)
        if answer.status == 401 and authorization:
            authorization = await self._credentials.headers(rejected=authorization)
            answer = await self._send(method, path, what, authorization, **options)
        return answer

    async def _send(
        self,
        method: str,
        path: str,
        what: str,
        authorization: Mapping[str, str],
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> _Answer:
        seconds = self._timeout
        if self._fence is not None and method != "GET":
            seconds = min(seconds, self._fence.check())
        try:
            async with self._connections.request(
                method,
                self._credentials.host + path,
                params=query,
                headers={
                    "Accept": "application/json",
                    "User-Agent": self._user_agent,
                    "Content-Type": "application/json",
                    **(headers or {}),
                    **authorization,
                },
                data=None if body is None else json.dumps(body),
                timeout=aiohttp.ClientTimeout(total=seconds),
                server_hostname=self._credentials.server_name,
            ) as response:
                content = await response.read()
        except TimeoutError as error:
            raise Unavailable(f"{what}: no answer to {method} within {seconds:.1f} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(
                f"{what}: {method} did not reach the API server: {str(error) or type(error).__name__}"
            ) from error
        for text in _WARNING.findall(",".join(response.headers.getall("Warning", ()))):
            self._on_warning(re.sub(r"\\(.)", r"\1", text))
        return _Answer(response.status, response.headers.get("Retry-After"), _decoded(content, response.status, what))


def _decoded(content: bytes, status: int, what: str) -> dict[str, Any]:
    text = content[:200].decode(errors="replace").strip()
    try:
        body = json.loads(content)
    except ValueError as error:
        if status < 300:
            raise Unavailable(f"{what}: the answer is not JSON: {text!r}") from error
        return {"message": text}  # of a proxy in between, or of an API server in distress
    if isinstance(body, dict):
        return body
    raise Unavailable(f"{what}: the answer is not a JSON object: {text!r}")


def _checked(answer: _Answer, what: str) -> dict[str, Any]:
    """Return the body of a success, raise what a failure is in our tree (metav1.Status: reason, message)."""
    if 200 <= answer.status < 300:
        return answer.body
    reason = str(answer.body.get("reason", ""))
    message = f"{what}: {answer.body.get('message') or f'HTTP {answer.status}'}"
    if answer.status == 404:
        raise Missing(message)
    if answer.status == 409:
        raise (AlreadyExists if reason == "AlreadyExists" else Conflict)(message)
    if answer.status == 429 or answer.status >= 500:
        raise Unavailable(message, _retry_after(answer))
    raise Refused(answer.status, reason, message)


def _retry_after(answer: _Answer) -> float | None:
    asked = answer.retry_after or (answer.body.get("details") or {}).get("retryAfterSeconds")
    try:
        return float(asked) if asked else None
    except ValueError:  # an HTTP date, which no API server sends
        return None


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
