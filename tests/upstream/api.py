"""The API server as JSON, for tests: one request, one answer, and waiting for a state."""

from __future__ import annotations

import asyncio
import base64
import inspect
import json
import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar, overload

import aiohttp
import yaml

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

Object: TypeAlias = dict[str, Any]  # a Kubernetes object, a list of them or a Status, as JSON
T = TypeVar("T")

JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
POLL_SECONDS = 0.1


class Refused(Exception):
    """The API server did not do what a test took for granted. `status` is the HTTP status, `body` the answer."""

    def __init__(self, request: str, status: int, body: Object) -> None:
        super().__init__(f"{request}: {status} {body.get('message', body)}")
        self.status = status
        self.body = body


class Api:
    """A client with the identity of one kubeconfig. It must be closed."""

    def __init__(self, server: str, tls: ssl.SSLContext, *, token: str | None = None) -> None:
        self.server = server
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connector = aiohttp.TCPConnector(ssl=tls)
        self._http = aiohttp.ClientSession(
            headers=headers, connector=connector, timeout=aiohttp.ClientTimeout(total=60), trust_env=False
        )

    @classmethod
    def from_kubeconfig(cls, path: Path) -> Self:
        """Read a kubeconfig's current context. Its data must be inline: certificates or a token, no exec plugin.

        `kubectl config view --raw --flatten` makes such a file from another. Raises ValueError for what it lacks.
        """
        config = yaml.safe_load(path.read_text())
        context = _named(config, "context", config["current-context"])
        cluster = _named(config, "cluster", context["cluster"])
        user = _named(config, "user", context["user"])
        authority = cluster.get("certificate-authority-data")
        if not authority or not (user.get("token") or user.get("client-certificate-data")):
            raise ValueError(
                f"{path}: wanted certificate-authority-data, and a token or client-certificate-data, in the current "
                "context; `kubectl config view --raw --flatten` puts files inline"
            )
        tls = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
        if "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile() as pem:  # ssl takes client certificates from files only
                for part in ("client-certificate-data", "client-key-data"):
                    pem.write(base64.b64decode(user[part]))
                pem.flush()
                tls.load_cert_chain(pem.name)
        return cls(cluster["server"], tls, token=user.get("token"))

    async def request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> tuple[int, Object]:
        """Send one request, give the HTTP status and the answer's JSON ({"message": text} where it is not JSON)."""
        data = None if body is None else json.dumps(body)
        headers = {"Content-Type": content_type} if data is not None else None
        url = path if path.startswith("https://") else self.server + path
        async with self._http.request(method, url, data=data, headers=headers, params=query) as response:
            text = await response.text()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, {"message": text}

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = JSON,
        query: Mapping[str, str] | None = None,
    ) -> Object:
        """Send one request, give the answer's JSON. Raises Refused for a status of 400 or more."""
        status, answer = await self.request(method, path, body, content_type, query)
        if status >= 400:
            raise Refused(f"{method} {path}", status, answer)
        return answer

    async def watch(self, path: str, resource_version: str) -> AsyncIterator[tuple[str, Object]]:
        """Iterate over what happens to a collection from that version on: ADDED, MODIFIED or DELETED, and the object.

        Raises AssertionError when the API server ends the watch, which it does after half an hour at the soonest.
        """
        query = {"watch": "true", "resourceVersion": resource_version}
        async with self._http.get(
            self.server + path, params=query, timeout=aiohttp.ClientTimeout(), read_bufsize=2**20
        ) as response:
            async for line in response.content:
                event = json.loads(line)
                assert event["type"] in ("ADDED", "MODIFIED", "DELETED"), event
                yield event["type"], event["object"]
        raise AssertionError(f"the watch of {path} ended")

    async def close(self) -> None:
        """Close the connections."""
        await self._http.close()


@overload
async def wait_for(
    condition: Callable[[], Awaitable[T]], what: str, *, until: Callable[[T], object] = ..., deadline: float = ...
) -> T: ...
@overload
async def wait_for(
    condition: Callable[[], T], what: str, *, until: Callable[[T], object] = ..., deadline: float = ...
) -> T: ...
async def wait_for(
    condition: Callable[[], Any],
    what: str,
    *,
    until: Callable[[Any], object] = bool,
    deadline: float = 30.0,
) -> Any:
    """Ask `condition` until `until` is content with what it gives, and give that.

    A server that cannot be reached counts as "not yet". After `deadline` seconds an AssertionError says what was waited
    for and the last thing seen.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + deadline
    last: object = "nothing"
    trouble = ""
    while True:
        try:
            async with asyncio.timeout_at(end):
                value = condition()
                last = await value if inspect.isawaitable(value) else value
            trouble = ""
            if until(last):
                return last
        except (aiohttp.ClientConnectionError, TimeoutError) as unreachable:
            trouble = f", then {unreachable!r}"
        if loop.time() >= end:
            seen = last if isinstance(last, str) else json.dumps(last, indent=2, default=repr)
            raise AssertionError(f"waited {deadline:g} s for {what}; last seen: {seen}{trouble}")
        await asyncio.sleep(POLL_SECONDS)


def _named(config: Object, kind: str, name: str) -> Object:
    for entry in config[f"{kind}s"]:
        if entry["name"] == name:
            found: Object = entry[kind]
            return found
    raise ValueError(f"kubeconfig: no {kind} is named {name!r}")
