"""Several replicas: all answer the webhook, one writes, and another one goes on when it stops, dies or sleeps.

The API server asks the replica that does not lead, so that what happens to the leader shows in claims only.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import pytest
import pytest_asyncio
import yaml

from cluster_site import Site, claim_name, container, pod
from conftest import GATE_OFF, SITE_OPTIONS
from upstream.api import wait_for
from upstream.controlplane import ControlPlane
from upstream.installation import CONFIGURATION, NAMESPACE, Installation, Replica
from upstream.processes import free_port

if TYPE_CHECKING:
    from e2e.conftest import Serve
    from upstream.api import Object

pytestmark = pytest.mark.skipif(
    "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, where replicas can be killed"
)

LEASE_SECONDS = 6
USER = f"system:serviceaccount:{NAMESPACE}:drabridge"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/drabridge"
CREDENTIAL = "authentication.kubernetes.io/credential-id"


@dataclass(frozen=True, slots=True)
class Member:
    """A replica, the port of its webhook, and the id of its token, by which the audit log knows it from others."""

    replica: Replica
    webhook_port: int
    credential: str

    async def leads(self) -> bool:
        return bool(await self.replica.metric("drabridge_leader"))


@dataclass(frozen=True, slots=True)
class Pair:
    leader: Member
    follower: Member


@pytest_asyncio.fixture(scope="module")
async def site(controlplane_binary: Path, controlplane_directory: Path) -> AsyncIterator[Site]:
    """A control plane with drabridge's manifests; each test starts the replicas it wants."""
    directory = controlplane_directory / "replicas"
    async with AsyncExitStack() as stack:
        plane = ControlPlane(controlplane_binary, GATE_OFF, directory=directory, audit=True)
        stack.push_async_callback(plane.stop)
        await plane.start()
        installation = Installation(plane, options=(*SITE_OPTIONS, f"--lease-seconds={LEASE_SECONDS}"))
        await installation.install()
        yield Site(plane, installation)


async def join(site: Site, *, webhook_port: int) -> Member:
    replica = await site.installed.start_replica(webhook_port=webhook_port)
    kubeconfig = yaml.safe_load((site.cluster.directory / f"{NAMESPACE}.drabridge.kubeconfig").read_text())
    payload = kubeconfig["users"][0]["user"]["token"].split(".")[1]
    identity = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["jti"]
    return Member(replica, webhook_port, f"JTI={identity}")


@pytest_asyncio.fixture
async def pair(site: Site) -> AsyncIterator[Pair]:
    """One replica that leads, and one that does not and answers the API server's reviews."""
    members: list[Member] = []
    try:
        members.append(await join(site, webhook_port=free_port()))
        await wait_for(members[0].leads, "the first replica to lead", deadline=LEASE_SECONDS + 5)
        members.append(await join(site, webhook_port=site.installed.webhook_port))
        await site.installed.wait_trusted()
        yield Pair(*members)
    finally:
        for member in members:
            member.replica.process.send(signal.SIGCONT)
            await member.replica.stop()


async def created(site: Site, ns: str, gpu: str, name: str = "pod") -> Object:
    """Create a Pod, which must have passed the webhook."""
    made = await site.create(ns, pod(name, container(limits={gpu: 1})))
    assert claim_name(made), "the webhook did not rewrite it"
    return made


def writes(site: Site, member: Member, *, of: str = "") -> list[Object]:
    """The requests of one replica that stored something, its Lease apart; `of` limits them to one resource."""
    plane = site.cluster
    assert isinstance(plane, ControlPlane)
    return [
        entry
        for entry in plane.audit_entries(USER)
        if entry["user"].get("extra", {}).get(CREDENTIAL) == [member.credential]
        and entry["verb"] not in ("get", "list", "watch")
        and "dryRun=All" not in entry["requestURI"]
        and entry["objectRef"]["resource"] != "leases"
        and of in ("", entry["objectRef"]["resource"])
        and entry["responseStatus"]["code"] < 300
    ]


def claim_creates(site: Site, member: Member, made: Object) -> int:
    namespace = made["metadata"]["namespace"]
    return sum(entry["objectRef"]["namespace"] == namespace for entry in writes(site, member, of="resourceclaims"))


async def review(site: Site, member: Member, ns: str, gpu: str) -> Object:
    """Ask a replica's webhook as the API server does: by the Service's name, trusting what caBundle says."""
    configuration = await site.api.call("GET", CONFIGURATION)
    bundle = base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"]).decode()
    tls = ssl.create_default_context(cadata=bundle)
    request = {
        "uid": "0",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": ns,
        "object": pod("asked", container(limits={gpu: 1})),
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    url = f"https://127.0.0.1:{member.webhook_port}/mutate"
    host = f"drabridge-webhook.{NAMESPACE}.svc"
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, json=body, ssl=tls, server_hostname=host) as response,
    ):
        assert response.status == 200
        answer: Object = (await response.json())["response"]
        return answer


async def test_all_replicas_answer_the_webhook_and_only_the_leader_writes(
    site: Site, ns: str, serve: Serve, pair: Pair
) -> None:
    gpu = await serve()
    await site.ready(gpu.policy, "Serving")
    for member in (pair.leader, pair.follower):
        assert await member.replica.ready()
        answer = await review(site, member, ns, gpu.name)
        assert answer["allowed"]
        patch = json.loads(base64.b64decode(answer["patch"]))
        assert any(operation["path"].startswith("/spec/resourceClaims") for operation in patch)
    assert await pair.leader.leads()
    assert not await pair.follower.leads()

    for index in range(3):
        await site.bound_back(await created(site, ns, gpu.name, f"p{index}"))
    assert await pair.follower.replica.metric("drabridge_admission_reviews_total", outcome="Rewrite") >= 3
    assert len(writes(site, pair.leader, of="resourceclaims")) == 3
    assert writes(site, pair.follower) == []


async def test_a_leader_that_is_told_to_stop_hands_over_within_three_seconds(
    site: Site, ns: str, serve: Serve, pair: Pair
) -> None:
    gpu = await serve()
    await site.ready(gpu.policy, "Serving")
    stopping = asyncio.create_task(pair.leader.replica.stop())
    made = await created(site, ns, gpu.name)
    await wait_for(pair.follower.leads, "the other replica to lead", deadline=3)
    assert await stopping == 0
    await site.bound_back(made)
    assert claim_creates(site, pair.leader, made) + claim_creates(site, pair.follower, made) == 1
    holder = (await site.api.call("GET", LEASE))["spec"]["holderIdentity"]
    assert holder.startswith(f"{pair.follower.replica.process.name.replace('operator', 'replica')}_")


async def test_a_leader_that_is_killed_is_followed_once_its_lease_is_over_and_waiting_pods_are_served(
    site: Site, ns: str, serve: Serve, pair: Pair
) -> None:
    gpu = await serve()
    await site.ready(gpu.policy, "Serving")
    pair.leader.replica.process.kill()
    made = await created(site, ns, gpu.name)
    assert not await pair.follower.leads(), "the Lease of the dead leader still holds"
    await wait_for(pair.follower.leads, "the other replica to lead", deadline=LEASE_SECONDS + 2)
    await site.bound_back(made)
    assert claim_creates(site, pair.follower, made) == 1


async def test_a_leader_that_sleeps_longer_than_its_lease_writes_nothing_when_it_wakes_up(
    site: Site, ns: str, serve: Serve, pair: Pair
) -> None:
    gpu = await serve()
    await site.ready(gpu.policy, "Serving")
    before = len(writes(site, pair.leader))
    pair.leader.replica.process.send(signal.SIGSTOP)
    made = await created(site, ns, gpu.name)
    await wait_for(pair.follower.leads, "the other replica to lead", deadline=LEASE_SECONDS + 2)
    await site.bound_back(made)

    pair.leader.replica.process.send(signal.SIGCONT)
    await wait_for(pair.leader.leads, "the old leader to notice", until=lambda leads: not leads, deadline=10)
    # Proof that it has caught up with what happened, this Pod included: it knows of its devices.
    await wait_for(
        lambda: pair.leader.replica.metric("drabridge_devices_allocated", resource=gpu.name),
        "the old leader's caches to have the claim",
        until=lambda devices: devices == 1,
    )
    assert len(writes(site, pair.leader)) == before
    assert claim_creates(site, pair.follower, made) == 1
    assert await pair.follower.leads()
    # It is a good follower again: it leads when the other stops.
    assert await pair.follower.replica.stop() == 0
    await wait_for(pair.leader.leads, "the first replica to lead again", deadline=LEASE_SECONDS + 2)
