"""A proxy in front of the API server that goes wrong on purpose: what a network, a load balancer or an API server in
distress does to a client, at the requests that a test names, or anywhere at random.

It ends TLS with a certificate of its own and passes everything else on, the bearer token included, so the API server
sees the same identity and rights as without it.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
import tempfile
import threading
from collections import Counter
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Self

import aiohttp
import yaml
from aiohttp import web
from yarl import URL

from upstream.credentials import Authority, write_kubeconfig
from upstream.processes import free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

# RFC 9110 7.6.1: of one connection only. Host and length are set by whoever sends.
HOP_BY_HOP = frozenset(
    {"connection", "content-length", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
FIRST_BYTES_BEFORE_CUT = 1
DELAY_SECONDS = 1.0
RETRY_AFTER_SECONDS = 1


class Fault(StrEnum):
    """What becomes of a request. All but LOST, UNANSWERED, DELAYED and CUT never reach the API server."""

    CONFLICT = "409 Conflict"
    TOO_MANY_REQUESTS = "429 with Retry-After"
    INTERNAL_ERROR = "500"
    UNAVAILABLE = "503"
    GONE = "410"
    GONE_IN_STREAM = "410 in a watch"
    ERROR_IN_STREAM = "500 in a watch"
    DROPPED = "connection closed before it was sent"
    LOST = "done, but the connection closed before the answer"
    UNANSWERED = "done, but never answered"
    DELAYED = "answered late"
    CUT = "answer cut off in the middle"


STATUSES: Mapping[Fault, tuple[int, str]] = {
    Fault.CONFLICT: (409, "Conflict"),
    Fault.TOO_MANY_REQUESTS: (429, "TooManyRequests"),
    Fault.INTERNAL_ERROR: (500, "InternalError"),
    Fault.UNAVAILABLE: (503, "ServiceUnavailable"),
    Fault.GONE: (410, "Expired"),
}
STREAMED: Mapping[Fault, tuple[int, str]] = {
    Fault.GONE_IN_STREAM: (410, "Expired"),
    Fault.ERROR_IN_STREAM: (500, "InternalError"),
}
OF_WATCHES = frozenset({Fault.GONE, Fault.CUT, *STREAMED})


@dataclass(slots=True)
class Injection:
    """A fault for the next `left` requests of that method whose path and query match `pattern`."""

    fault: Fault
    method: str
    pattern: re.Pattern[str]
    left: int
    hits: list[str] = field(default_factory=list)
    """Method and path of each request that it befell."""


class FaultProxy:
    """The proxy, in a thread and loop of its own: `with FaultProxy(server, authority) as proxy`.

    `server` is the API server's URL and `authority` the PEM certificate that its own verifies by. Without injections
    and rates everything passes.
    """

    def __init__(self, server: str, authority: str) -> None:
        self.port = free_port()
        self.hits: Counter[Fault] = Counter()
        self._server = server
        self._upstream_tls = ssl.create_default_context(cadata=authority)
        self._authority = Authority("fault-proxy")
        self._injections: list[Injection] = []
        self._rates: dict[Fault, float] = {}
        self._random = random.Random(0)
        self._watches: set[asyncio.Task[object]] = set()
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._started: Future[None] = Future()
        self._thread = threading.Thread(target=self._loop.run_until_complete, args=(self._run(),), daemon=True)

    @classmethod
    def before(cls, kubeconfig: Path) -> Self:
        """A proxy in front of the API server of a kubeconfig."""
        config = yaml.safe_load(kubeconfig.read_text())
        cluster = config["clusters"][0]["cluster"]
        ca = yaml.safe_load(f"!!binary {cluster['certificate-authority-data']}").decode()
        return cls(cluster["server"], ca)

    def __enter__(self) -> Self:
        self._thread.start()
        self._started.result(timeout=10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(timeout=10)
        self._loop.close()

    def kubeconfig(self, original: Path) -> Path:
        """Write a kubeconfig beside `original`, of the same identity, that leads through the proxy."""
        user = yaml.safe_load(original.read_text())["users"][0]["user"]
        return write_kubeconfig(
            original.with_suffix(".faulty.kubeconfig"),
            server=f"https://127.0.0.1:{self.port}",
            authority=self._authority.pair.certificate,
            user=user,
        )

    def inject(self, fault: Fault, method: str, pattern: str, times: int = 1) -> Injection:
        """Have `fault` befall the next requests that match: `pattern` is searched for in path and query."""
        injection = Injection(fault, method, re.compile(pattern), times)
        with self._lock:
            self._injections.append(injection)
        return injection

    def at_random(self, seed: int, rates: Mapping[Fault, float]) -> None:
        """Have faults befall any request that they make sense for, each with its own probability (0 to 1)."""
        with self._lock:
            self._random = random.Random(seed)
            self._rates = dict(rates)

    def calm(self) -> None:
        """No more faults."""
        with self._lock:
            self._injections.clear()
            self._rates.clear()

    def cut_watches(self) -> int:
        """Close the connections of all watches that are open now; give their number."""

        async def cut() -> int:
            watches = list(self._watches)
            for watch in watches:
                watch.cancel()
            return len(watches)

        return asyncio.run_coroutine_threadsafe(cut(), self._loop).result(timeout=10)

    async def _run(self) -> None:
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        pair = self._authority.issue("fault-proxy", hosts=["127.0.0.1"])
        await asyncio.to_thread(_load, tls, pair.certificate, pair.key)
        app = web.Application(client_max_size=8 * 1024 * 1024)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # Without cancellation a watch whose client has gone would stay until the API server ends it.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        connector = aiohttp.TCPConnector(ssl=self._upstream_tls, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        try:
            async with aiohttp.ClientSession(
                connector=connector, timeout=timeout, auto_decompress=False, trust_env=False
            ) as self._session:
                await runner.setup()
                await web.TCPSite(runner, "127.0.0.1", self.port, ssl_context=tls).start()
                self._started.set_result(None)
                await self._over.wait()
                await runner.cleanup()
        except BaseException as error:
            if not self._started.done():
                self._started.set_exception(error)
            raise

    def _fault_for(self, request: web.Request) -> Fault | None:
        target = request.path_qs
        with self._lock:
            for injection in self._injections:
                if injection.left and injection.method == request.method and injection.pattern.search(target):
                    injection.left -= 1
                    injection.hits.append(f"{request.method} {target}")
                    self.hits[injection.fault] += 1
                    return injection.fault
            for fault, rate in self._rates.items():
                if _makes_sense(fault, request) and self._random.random() < rate:
                    self.hits[fault] += 1
                    return fault
        return None

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        fault = self._fault_for(request)
        if fault and (refusal := STATUSES.get(fault)):
            return _refusal(*refusal)
        if fault and (error := STREAMED.get(fault)):
            event = {"type": "ERROR", "object": _status(*error)}
            return web.json_response(text=json.dumps(event) + "\n")
        if fault is Fault.DROPPED:
            return _abort(request)
        if fault is Fault.DELAYED:
            await asyncio.sleep(DELAY_SECONDS)
        task = asyncio.current_task()
        assert task
        watching = _is_watch(request)
        if watching:
            self._watches.add(task)
        try:
            return await self._forward(request, body, fault)
        except (aiohttp.ClientError, ConnectionResetError):
            return _abort(request)  # the API server is away, or the client
        except asyncio.CancelledError:
            if watching:
                _abort(request)
            raise
        finally:
            self._watches.discard(task)

    async def _forward(self, request: web.Request, body: bytes, fault: Fault | None) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        async with self._session.request(
            request.method,
            URL(self._server + request.raw_path, encoded=True),
            headers=headers,
            data=body or None,
            allow_redirects=False,
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type", "User-Agent"),
        ) as answer:
            if fault is Fault.LOST:
                await answer.read()
                return _abort(request)
            if fault is Fault.UNANSWERED:
                await answer.read()
                await asyncio.Event().wait()  # until the client gives up
            response = web.StreamResponse(status=answer.status, reason=answer.reason)
            for name, value in answer.headers.items():
                if name.lower() not in HOP_BY_HOP:
                    response.headers.add(name, value)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                if fault is Fault.CUT:
                    await response.write(chunk[:FIRST_BYTES_BEFORE_CUT])
                    return _abort(request)
                await response.write(chunk)
            with suppress(ConnectionResetError):
                await response.write_eof()
            return response


def _makes_sense(fault: Fault, request: web.Request) -> bool:
    if fault is Fault.CONFLICT:
        return request.method != "GET"
    return fault not in OF_WATCHES or _is_watch(request)


def _is_watch(request: web.Request) -> bool:
    return request.query.get("watch") == "true"


def _status(code: int, reason: str) -> dict[str, object]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the fault proxy says so",
        "reason": reason,
        "code": code,
    }


def _refusal(code: int, reason: str) -> web.Response:
    headers = {"Retry-After": str(RETRY_AFTER_SECONDS)} if code == 429 else None
    return web.json_response(_status(code, reason), status=code, headers=headers)


def _abort(request: web.Request) -> web.Response:
    """Close the connection without a word. The response goes nowhere."""
    if request.transport:
        request.transport.abort()
    return web.Response()


def _load(tls: ssl.SSLContext, certificate: str, key: str) -> None:
    with tempfile.NamedTemporaryFile() as pem:  # ssl takes certificates from files only
        pem.write((certificate + key).encode())
        pem.flush()
        tls.load_cert_chain(pem.name)
