"""`drabridge operator`: run the operator, one of any number of replicas."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import ssl
import sys
import time
import uuid
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import structlog
import typer
from aiohttp import web

from drabridge.cli import logs
from drabridge.cli.options import Context
from drabridge.core.errors import InvalidInput, Unavailable
from drabridge.core.podview import DEFAULT_SCHEDULER
from drabridge.delivery.bind import Bindings
from drabridge.delivery.operator import Operator, Options, Part, cluster_must_have
from drabridge.handlers.thread import watch
from drabridge.kube.client import Client
from drabridge.kube.lease import Durations
from drabridge.serve import extender, probes, scheduler, webhook
from drabridge.serve.certificates import AUTHORITY_LIFETIME, SERVING_LIFETIME
from drabridge.serve.registration import Registration
from drabridge.serve.scheduler import SchedulerCredentials
from drabridge.serve.tls import (
    Certificates,
    Lifetimes,
    MountedCertificates,
    MutualCertificates,
    SelfManagedCertificates,
    keep_fresh,
)

HELP = """Run the operator: webhook, claims and binding back.

Run any number of replicas: all of them answer the webhook, the one that holds the Lease writes.

\b
Examples:
  In a cluster, as the manifests do:
    drabridge operator
  On a workstation, against the cluster of a kubeconfig:
    drabridge operator --kubeconfig ~/.kube/config --context kind-drabridge
  Also for Pods of a second scheduler that allocates ResourceClaims:
    drabridge operator --scheduler-names default-scheduler,batch-scheduler
"""

COLLECT_AFTER = (20_000, 10, 10)
"""Thresholds of the garbage collector. Python's own (700, 10, 10) would walk through all caches many times a minute."""

SWITCH_AFTER = 0.0001
"""Seconds that one thread may keep the interpreter while another waits for it. While Kopf's thread takes a list apart,
each answer of the webhook waits that long several times; with Python's own 5 ms answers pile up for seconds."""

START_AGAIN = 2.0
"""Seconds between two tries to reach the API server at the start."""

REQUEST_TIMEOUT = 10.0
"""Seconds. A term of the Lease holder ends only when its last request does, and the next one waits for that."""

Address = tuple[str | None, int]


@dataclass(frozen=True, slots=True)
class Serving:
    """Where and how this replica serves; `start_within` and `leave_after` are in seconds."""

    webhook: Address
    probe: Address
    extender: Address | None
    tls_dir: Path | None
    lifetimes: Lifetimes
    strict: bool
    start_within: float
    leave_after: float


_log = structlog.get_logger(__name__)


def _env(name: str) -> str:
    return f"DRABRIDGE_{name}"


def operator(  # noqa: PLR0913, PLR0917 - an option each; typer passes them by keyword
    kubeconfig: Annotated[
        Path | None,
        typer.Option(envvar="KUBECONFIG", help="Default: the Pod's ServiceAccount, else ~/.kube/config."),
    ] = None,
    context: Context = None,
    namespace: Annotated[
        str, typer.Option(envvar="POD_NAMESPACE", help="Where drabridge itself lives: Lease, state, certificates.")
    ] = "drabridge-system",
    identity: Annotated[
        str, typer.Option(envvar="POD_NAME", help="This replica's name in Lease and events. Default: the host's.")
    ] = "",
    scheduler_names: Annotated[
        str,
        typer.Option(
            envvar=_env("SCHEDULER_NAMES"),
            help="Comma-separated values of spec.schedulerName whose Pods may be rewritten: schedulers that"
            " allocate ResourceClaims.",
        ),
    ] = DEFAULT_SCHEDULER,
    extender_address: Annotated[
        str,
        typer.Option(
            envvar=_env("EXTENDER"),
            help="ADDRESS:PORT of the scheduler extender (HTTPS), for delivery Bind. Default: no Bind.",
        ),
    ] = "",
    bind_scheduler: Annotated[
        str,
        typer.Option(envvar=_env("BIND_SCHEDULER"), help="The schedulerName of the profile that calls the extender."),
    ] = "drabridge-scheduler",
    native_after: Annotated[
        float,
        typer.Option(
            envvar=_env("NATIVE_AFTER"),
            min=0,
            help="Seconds for which kube-scheduler must have been able to serve a name before Auto leaves it to it.",
        ),
    ] = 600.0,
    probe_every: Annotated[
        float,
        typer.Option(envvar=_env("PROBE_EVERY"), min=0.1, help="Seconds between two looks at the API server's gate."),
    ] = 15.0,
    pending_every: Annotated[
        float,
        typer.Option(
            envvar=_env("PENDING_EVERY"), min=0.1, help="Seconds between two looks for Pods left alone or in trouble."
        ),
    ] = 15.0,
    webhook_address: Annotated[
        str,
        typer.Option(envvar=_env("WEBHOOK_ADDRESS"), help="ADDRESS:PORT of the webhook (HTTPS); no address is all."),
    ] = ":9443",
    probe_address: Annotated[
        str, typer.Option(envvar=_env("PROBE_ADDRESS"), help="ADDRESS:PORT of probes and metrics (HTTP).")
    ] = ":8080",
    tls_dir: Annotated[
        Path | None,
        typer.Option(
            envvar=_env("TLS_DIR"),
            help="Directory with tls.crt and tls.key, as cert-manager mounts it. Default: own certificates.",
        ),
    ] = None,
    cert_hours: Annotated[
        float,
        typer.Option(envvar=_env("CERT_HOURS"), min=0.001, metavar="<hours>", help="Life of own serving certificates."),
    ] = SERVING_LIFETIME / timedelta(hours=1),
    authority_hours: Annotated[
        float,
        typer.Option(
            envvar=_env("AUTHORITY_HOURS"),
            min=0.001,
            metavar="<hours>",
            help="Life of the own authority that signs them.",
        ),
    ] = AUTHORITY_LIFETIME / timedelta(hours=1),
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            envvar=_env("STRICT"),
            help="Keep the webhook's match condition to exactly the served names, for failurePolicy Fail.",
        ),
    ] = False,
    start_within: Annotated[
        float,
        typer.Option(
            envvar=_env("START_WITHIN"),
            min=0,
            help="Seconds in which the API server must answer at the start; until then it is asked again.",
        ),
    ] = 60.0,
    leave_after: Annotated[
        float,
        typer.Option(
            envvar=_env("LEAVE_AFTER"),
            min=0,
            help="Seconds for which a replica that ends is unready and still answers.",
        ),
    ] = 5.0,
    lease_seconds: Annotated[
        int, typer.Option(envvar=_env("LEASE_SECONDS"), min=6, help="How long the Lease holds without renewal.")
    ] = 12,
    log_level: Annotated[
        logs.Level,
        typer.Option(envvar=_env("LOG_LEVEL"), metavar="<level>", help="debug, info, warning or error."),
    ] = logs.Level.INFO,
    log_format: Annotated[logs.Format, typer.Option(envvar=_env("LOG_FORMAT"), help="auto is text on a terminal.")] = (
        logs.Format.AUTO
    ),
) -> None:
    """Parse the options and run until SIGTERM or SIGINT."""
    name = identity or socket.gethostname()
    options = Options(
        namespace=namespace,
        identity=f"{name}_{uuid.uuid4()}",
        instance=name,
        schedulers=_names(scheduler_names, "--scheduler-names"),
        bind_scheduler=bind_scheduler if extender_address else "",
        native_after=native_after,
        probe_every=probe_every,
        pending_every=pending_every,
        lease=_durations(lease_seconds),
    )
    addresses = (_address(webhook_address, "--webhook-address"), _address(probe_address, "--probe-address"))
    authority = timedelta(hours=authority_hours)
    lifetimes = Lifetimes(
        authority=authority,
        serving=timedelta(hours=cert_hours),
        overlap=min(Lifetimes().overlap, authority / 10),
    )
    extender_at = _address(extender_address, "--extender-address") if extender_address else None
    serving = Serving(*addresses, extender_at, tls_dir, lifetimes, strict, start_within, leave_after)
    logs.configure(log_level, log_format)
    gc.set_threshold(*COLLECT_AFTER)
    sys.setswitchinterval(SWITCH_AFTER)
    asyncio.run(_run(options, kubeconfig, context, serving))


async def _run(options: Options, kubeconfig: Path | None, context: str | None, serving: Serving) -> None:
    leaving, stop = asyncio.Event(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, leaving.set)
    _log.info("starting", version=version("drabridge"), identity=options.identity, namespace=options.namespace)
    async with (
        await Client.connect(
            kubeconfig, context, user_agent=f"drabridge/{version('drabridge')}", request_timeout=REQUEST_TIMEOUT
        ) as client,
        AsyncExitStack() as servers,
    ):
        parts = Operator(client, client.credentials, options)
        certificates: Certificates = (
            MountedCertificates(serving.tls_dir, parts.metrics)
            if serving.tls_dir
            else SelfManagedCertificates(client, options.namespace, parts.metrics, serving.lifetimes)
        )
        tls = _tls()
        answering = asyncio.Event()

        def unready() -> str:
            if leaving.is_set():
                return "this replica is about to end"
            return parts.unready() or ("" if answering.is_set() else "the webhook does not listen yet")

        probe = probes.application(parts.metrics, unready, parts.measure)
        await _serve(servers, probe, serving.probe, "--probe-address")
        extending = _Extender.of(parts, client, options, serving)
        if await _done(_prepare(parts, certificates, tls, extending, serving.start_within), leaving):
            hook = webhook.application(parts.admission, parts.metrics, leaving.is_set)
            await _serve(servers, hook, serving.webhook, "--webhook-address", tls)
            names = parts.rewritten_names if serving.strict else None
            leads: list[Part] = [Registration(certificates, parts.writer, names).run]
            async with asyncio.TaskGroup() as tasks:
                if extending:
                    await extending.serve(servers)
                    leads.append(extending.credentials.run)
                    tasks.create_task(keep_fresh(extending.certificates, extending.tls, stop))
                answering.set()
                tasks.create_task(_leave(leaving, stop, serving.leave_after))
                tasks.create_task(keep_fresh(certificates, tls, stop))
                await _live(parts, leads, stop)
    _log.info("stopped")


def _tls() -> ssl.SSLContext:
    """Without session tickets: API servers and kube-scheduler never use them, and they are an eighth of a handshake."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.num_tickets = 0
    return tls


async def _leave(leaving: asyncio.Event, stop: asyncio.Event, seconds: float) -> None:
    """Answer on while it gets about that this replica is not ready: API servers send it Pods until then."""
    await leaving.wait()
    _log.info("leaving", seconds=seconds)
    await asyncio.sleep(seconds)
    stop.set()


@dataclass(frozen=True, slots=True)
class _Extender:
    """What Bind takes besides: a server behind mutual TLS, and the credentials of its one client."""

    bindings: Bindings
    address: Address
    certificates: MutualCertificates
    credentials: SchedulerCredentials
    tls: ssl.SSLContext

    @classmethod
    def of(cls, parts: Operator, client: Client, options: Options, serving: Serving) -> _Extender | None:
        """None where Bind is not asked for."""
        if parts.bind is None or serving.extender is None:
            return None
        own = SelfManagedCertificates(
            client,
            options.namespace,
            parts.metrics,
            serving.lifetimes,
            secret=scheduler.AUTHORITY_SECRET,
            service=scheduler.SERVICE,
            label="extender-",
        )
        credentials = SchedulerCredentials(own, parts.writer, options.namespace, serving.lifetimes.serving)
        tls = _tls()
        return cls(parts.bind.bindings, serving.extender, MutualCertificates(own), credentials, tls)

    async def serve(self, servers: AsyncExitStack) -> None:
        """Listen. Who has no certificate of ours is not let in by TLS itself."""
        await _serve(servers, extender.application(self.bindings), self.address, "--extender-address", self.tls)


async def _prepare(
    parts: Operator, certificates: Certificates, tls: ssl.SSLContext, extending: _Extender | None, within: float
) -> None:
    """What must succeed before the webhook can answer.

    Raises InvalidInput where the cluster is not made for us, Unavailable where it does not answer within so many
    seconds. It is asked again before that: the kubelet would wait longer and longer, up to 5 minutes, until it starts
    us again.
    """
    give_up = time.monotonic() + within
    while True:
        try:
            with cluster_must_have():
                await certificates.refresh(tls)
                if extending:
                    await extending.certificates.refresh(extending.tls)
            await parts.prepare()
        except Unavailable as error:
            if time.monotonic() > give_up:
                raise
            _log.warning("cannot start yet", error=str(error))
            await asyncio.sleep(START_AGAIN)
        else:
            break
    # What the caches hold now will mostly stay; a collection that walks through it holds up the webhook for as long.
    gc.collect()
    gc.freeze()


async def _done(work: Coroutine[Any, Any, None], stop: asyncio.Event) -> bool:
    """Do the work unless `stop` is set before it is done; whether it was done. Raises what the work raises.

    An API server that hangs must not keep us from ending: the kubelet would have to kill us.
    """
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        await working
        return True
    working.cancel()
    await asyncio.wait((working,))
    return False


async def _live(parts: Operator, leads: list[Part], stop: asyncio.Event) -> None:
    """Run all parts until `stop`, or until one fails. Watching ends last: those who write need it until they stop."""
    watching_over = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(parts.follow(stop))
        tasks.create_task(watch(parts, watching_over))
        await parts.lead(stop, *leads)
        watching_over.set()


async def _serve(
    servers: AsyncExitStack,
    app: web.Application,
    address: Address,
    option: str,
    tls: ssl.SSLContext | None = None,
) -> None:
    """Serve until `servers` is closed. Raises InvalidInput where the address cannot be had."""
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    servers.push_async_callback(runner.cleanup)
    try:
        await web.TCPSite(runner, *address, ssl_context=tls).start()
    except OSError as error:
        host, port = address
        raise InvalidInput(
            f"{option}={host or ''}:{port}",
            "",
            f"cannot listen there: {error.strerror or error}",
            "end the process that has the port, or choose another",
        ) from error


def _names(text: str, option: str) -> frozenset[str]:
    names = frozenset(filter(None, (each.strip() for each in text.split(","))))
    if not names:
        raise typer.BadParameter("it names nobody, so no Pod would be served", param_hint=option)
    return names


def _durations(lease: int) -> Durations:
    """The election's times, in the proportions of Kubernetes' own components."""
    return Durations(lease=lease, renew=lease * 2 / 3, retry=lease * 2 / 15, margin=lease * 2 / 15)


def _address(text: str, option: str) -> Address:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or not 0 <= int(port) < 65536:
        raise typer.BadParameter(f"{text!r} is not ADDRESS:PORT", param_hint=option)
    return host.strip("[]") or None, int(port)  # no host is every address of both IP versions
