"""A cluster with drabridge and its own kube-scheduler (delivery Bind), and what tests of it see."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp

from cluster_site import CLASSES, Served, Site
from conftest import SITE_OPTIONS
from upstream.api import MERGE_PATCH, Object, wait_for
from upstream.cluster import pod_path
from upstream.controlplane import ControlPlane
from upstream.faultproxy import FaultProxy
from upstream.installation import NAMESPACE, Installation, Replica
from upstream.processes import free_port
from upstream.scheduler import BindScheduler
from upstream.switch import Switch

if TYPE_CHECKING:
    from e2e.conftest import Serve

NEW = "v1.37.0"
SCHEDULER = "drabridge-scheduler"
RESOURCE_API = "/apis/resource.k8s.io/v1"
USER = f"system:serviceaccount:{NAMESPACE}:drabridge"


@dataclass
class BindSite(Site):
    """A site with the extender at `port`, the operator behind a proxy that can go wrong, and drabridge's scheduler."""

    cluster: ControlPlane
    installation: Installation
    proxy: FaultProxy
    scheduler: BindScheduler
    kubeconfig: Path
    switch: Switch

    def __post_init__(self) -> None:
        self.api = self.cluster.api

    async def start_operator(self, *options: str, webhook_port: int | None = None) -> tuple[Replica, int]:
        """Start a replica; give it and the port of its extender, which nothing leads to yet."""
        port = free_port()
        replica = await self.installation.start_replica(
            f"--kubeconfig={self.kubeconfig}",
            f"--extender-address=127.0.0.1:{port}",
            *options,
            webhook_port=webhook_port or self.installation.webhook_port,
        )
        await self.installation.wait_trusted()
        return replica, port

    async def start_leader(self, *options: str) -> Replica:
        """Start a replica that kube-scheduler is led to."""
        replica, self.switch.target = await self.start_operator(*options)
        return replica

    async def ask(self, path: str, body: object, *, certificate: bool = True) -> Any:
        """Ask the extender as kube-scheduler does; `body` is an object, or a text that may be none."""
        directory = self.scheduler.directory
        tls = ssl.create_default_context(cafile=str(directory / "ca.crt"))
        if certificate:
            tls.load_cert_chain(directory / "tls.crt", directory / "tls.key")
        url = f"https://127.0.0.1:{self.switch.port}{path}"
        host = f"drabridge-extender.{NAMESPACE}.svc"
        data = body if isinstance(body, str) else json.dumps(body)
        async with (
            aiohttp.ClientSession() as session,
            session.post(url, data=data, ssl=tls, server_hostname=host) as response,
        ):
            return await response.json()


@asynccontextmanager
async def bind_cluster(
    binary: Path, directory: Path, *options: str, version: str | None = None, qps: int | None = None
) -> AsyncIterator[BindSite]:
    """Kubernetes with the gate on, drabridge's manifests, and kubelets that are played. Nothing of drabridge runs yet.

    Replicas get `options`, kube-scheduler may send `qps` requests a second (None: its default).
    """
    async with AsyncExitStack() as stack:
        plane = ControlPlane(binary, version, directory=directory, audit=True)
        stack.push_async_callback(plane.stop)
        await plane.start()
        site = await stack.enter_async_context(_installed(plane, options, qps))
        playing = asyncio.create_task(plane.play_kubelets())
        stack.callback(playing.cancel)
        yield site


@asynccontextmanager
async def _installed(plane: ControlPlane, options: tuple[str, ...], qps: int | None) -> AsyncIterator[BindSite]:
    async with AsyncExitStack() as stack:
        switch = await stack.enter_async_context(Switch())
        installation = Installation(plane, options=options, overlay="bind")
        await installation.install()
        original = await plane.kubeconfig_for(NAMESPACE, "drabridge")
        proxy = stack.enter_context(FaultProxy.before(original))
        scheduler = BindScheduler(plane, switch.port, qps=qps)
        stack.push_async_exit(installation)
        stack.callback(scheduler.stop)
        yield BindSite(plane, installation, proxy, scheduler, proxy.kubeconfig(original), switch)


OPTIONS = (*SITE_OPTIONS, "--lease-seconds=6")


@asynccontextmanager
async def bind_on(plane: ControlPlane) -> AsyncIterator[BindSite]:
    """On a control plane that runs: drabridge with its extender, and the kube-scheduler that calls it."""
    async with _installed(plane, OPTIONS, None) as site:
        await site.start_leader()
        await site.scheduler.start()
        yield site


@asynccontextmanager
async def bind_site(binary: Path, directory: Path, version: str | None = None) -> AsyncIterator[BindSite]:
    """Kubernetes with the gate on, drabridge with its extender, and the kube-scheduler that calls it."""
    async with bind_cluster(binary, directory, *OPTIONS, version=version) as site:
        await site.start_leader()
        await site.scheduler.start()
        yield site


async def bind(site: Site, serve: Serve, *, policy: dict[str, Any] | None = None, **options: Any) -> Served:
    """A name that is served by Bind."""
    gpu = await serve(kubelet_version=NEW, policy={"delivery": "Bind", **(policy or {})}, **options)
    spec = {"extendedResourceName": gpu.name}
    await site.api.call("PATCH", f"{CLASSES}/{gpu.device_class}", {"spec": spec}, MERGE_PATCH)
    await site.ready(gpu.policy, "Serving")
    return gpu


async def bound(site: Site, made: Object, deadline: float = 30.0) -> Object:
    return await wait_for(
        lambda: site.pod(made),
        f"{pod_path(made)} to be bound",
        until=lambda seen: seen["spec"].get("nodeName"),
        deadline=deadline,
    )


async def unschedulable(site: Site, made: Object, saying: str = "") -> str:
    """What the scheduler says of a Pod that fits nowhere, once `saying` is in it."""

    async def message() -> str:
        conditions = (await site.pod(made))["status"].get("conditions", ())
        return next((each.get("message", "") for each in conditions if each["type"] == "PodScheduled"), "")

    return await wait_for(
        message, f"the Pod to be unschedulable: {saying}", until=lambda text: bool(text) and saying in text
    )


def claim_body(name: str, device_class: str, count: int = 1) -> Object:
    exactly = {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count}
    spec = {"devices": {"requests": [{"name": "req", "exactly": exactly}]}}
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim"}
    return {**kind, "metadata": {"name": name}, "spec": spec}


async def claims(site: Site, ns: str) -> list[Object]:
    return list((await site.api.call("GET", f"{RESOURCE_API}/namespaces/{ns}/resourceclaims"))["items"])


async def special(site: Site, seen: Object) -> Object:
    name = seen["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
    return await site.api.call(
        "GET", f"{RESOURCE_API}/namespaces/{seen['metadata']['namespace']}/resourceclaims/{name}"
    )


def devices_of(claim: Object) -> list[tuple[str, str, str]]:
    results = claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    return [(each["driver"], each["pool"], each["device"]) for each in results]


def held_twice(found: Iterable[Object]) -> list[tuple[str, str, str]]:
    """Devices that several of the claims hold."""
    held = Counter(device for claim in found for device in devices_of(claim))
    return [device for device, count in held.items() if count > 1]


async def check(site: Site, ns: str) -> None:
    """What must hold of a namespace, by what the API server shows alone."""
    pods = (await site.api.call("GET", f"/api/v1/namespaces/{ns}/pods"))["items"]
    found = {claim["metadata"]["name"]: claim for claim in await claims(site, ns)}
    assert not held_twice(found.values()), "allocated twice"
    wanted = set()
    for each in pods:
        if shown := each["status"].get("extendedResourceClaimStatus"):
            assert each["spec"].get("nodeName"), "it says that it has devices, and has no node"
            wanted.add(shown["resourceClaimName"])
            claim = found[shown["resourceClaimName"]]
            assert each["metadata"]["uid"] in [one["uid"] for one in claim["status"]["reservedFor"]]
    left = {name for name, claim in found.items() if name.startswith("extended-resources-")} - wanted
    assert not left, f"claims without a Pod: {left}"
