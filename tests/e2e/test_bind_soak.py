"""Delivery Bind for a long time, with everything that can go wrong at once. `make soak` runs it; it prints JSON."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import pytest_asyncio

from bind_site import RESOURCE_API, SCHEDULER, BindSite, bind, bind_cluster, check, held_twice
from churn import Churn, Fleet
from upstream.api import JSON_PATCH, Object, wait_for
from upstream.faultproxy import Fault
from upstream.processes import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from e2e.conftest import Report, Serve
    from upstream.installation import Replica

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, where things can be broken"
    ),
]

WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/drabridge"
LEASE_SECONDS = 6
PODS = 2000
RATES = {
    Fault.LOST: 0.02,
    Fault.DROPPED: 0.02,
    Fault.INTERNAL_ERROR: 0.02,
    Fault.TOO_MANY_REQUESTS: 0.02,
    Fault.CONFLICT: 0.02,
    Fault.DELAYED: 0.02,
    Fault.UNANSWERED: 0.002,
    Fault.CUT: 0.3,
    Fault.GONE_IN_STREAM: 0.1,
}
BREAK_EVERY = 8.0
LOOK_EVERY = 1.0


class BindFleet(Fleet):
    """Replicas with extenders. kube-scheduler is led to the one that leads, as its label does it in a cluster."""

    def __init__(self, site: BindSite) -> None:
        super().__init__(site, f"--kubeconfig={site.kubeconfig}")
        self._switch = site.switch
        self._extenders: list[tuple[Replica, int]] = []

    async def start(self, *options: str) -> Replica:
        port = free_port()
        replica = await super().start(f"--extender-address=127.0.0.1:{port}", *options)
        self._extenders.append((replica, port))
        return replica

    async def follow(self) -> None:
        """Lead to whoever leads, until cancelled."""
        while True:
            for replica, port in self._extenders:
                if replica not in self.replicas:
                    continue
                with suppress(aiohttp.ClientError, TimeoutError):
                    async with asyncio.timeout(1):
                        if await replica.metric("drabridge_leader"):
                            self._switch.target = port
            await asyncio.sleep(0.2)


@pytest_asyncio.fixture(name="site")
async def broken_site(controlplane_binary: Path, controlplane_directory: Path) -> AsyncIterator[BindSite]:
    """The site that `serve` and `ns` use; things are broken on it."""
    options = (f"--lease-seconds={LEASE_SECONDS}", "--probe-every=1", "--log-format=json")
    async with bind_cluster(controlplane_binary, controlplane_directory / "bind-soak", *options, qps=1000) as site:
        yield site


async def break_something(site: BindSite, fleet: BindFleet, dice: random.Random) -> str:
    """Break one thing and mend it; say which."""
    what = dice.choice(["API server", "etcd", "killed leader", "paused leader", "scheduler", "watches"])
    if what == "API server":
        await site.cluster.restart("kube-apiserver")
    elif what == "etcd":
        await site.cluster.restart("etcd")
    elif what == "killed leader":
        await fleet.kill(await fleet.leader())
        await fleet.start()
    elif what == "paused leader":
        leader = await fleet.leader()
        leader.process.send(signal.SIGSTOP)
        await asyncio.sleep(LEASE_SECONDS * 1.5)
        leader.process.send(signal.SIGCONT)
    elif what == "scheduler":
        site.scheduler.stop()
        await site.scheduler.start()
    else:
        site.proxy.cut_watches()
    return what


async def never_twice(site: BindSite, ns: str) -> None:
    """Look, until cancelled, whether two claims hold one device. Each look is one list: one moment."""
    while True:
        with suppress(aiohttp.ClientError):
            status, listed = await site.api.request("GET", f"{RESOURCE_API}/namespaces/{ns}/resourceclaims")
            assert status != 200 or not held_twice(listed["items"]), "allocated twice"
        await asyncio.sleep(LOOK_EVERY)


async def settled(site: BindSite, ns: str) -> list[Object]:
    """The Pods, once each has a node and nothing is wrong with the claims."""

    async def wrong() -> Any:
        pods = (await site.api.call("GET", f"/api/v1/namespaces/{ns}/pods"))["items"]
        waiting = [each["metadata"]["name"] for each in pods if not each["spec"].get("nodeName")]
        try:
            await check(site, ns)
        except AssertionError as error:
            return str(error), waiting
        return waiting

    await wait_for(wrong, "all Pods to be bound, and no claim left over", until=lambda found: not found, deadline=120)
    return list((await site.api.call("GET", f"/api/v1/namespaces/{ns}/pods"))["items"])


async def test_2000_pods_under_faults_of_everything(site: BindSite, ns: str, serve: Serve, report: Report) -> None:
    # A Pod that no webhook saw would be the default scheduler's, and so would devices of the same driver.
    strict = [{"op": "replace", "path": "/webhooks/0/failurePolicy", "value": "Fail"}]
    await site.api.call("PATCH", WEBHOOKS, strict, JSON_PATCH)
    async with BindFleet(site) as fleet:
        await fleet.start()
        await fleet.start()
        await site.installed.wait_trusted()
        following = asyncio.create_task(fleet.follow())
        await site.scheduler.start()
        gpu = await bind(site, serve, devices=50, nodes=4)
        looking = asyncio.create_task(never_twice(site, ns))
        site.proxy.at_random(PODS, RATES)
        dice = random.Random(PODS)
        broken: Counter[str] = Counter()
        churn = Churn(
            site,
            ns,
            gpu,
            count=PODS,
            at_once=120,
            stay=60,
            a_second=20,
            seed=PODS,
            missing=lambda made, _: made["spec"]["schedulerName"] != SCHEDULER,
        )
        going = asyncio.create_task(churn.run())
        while not going.done():
            await asyncio.wait([going, looking], timeout=BREAK_EVERY, return_when=asyncio.FIRST_COMPLETED)
            assert not looking.done(), looking.exception()
            if not going.done():
                broken[await break_something(site, fleet, dice)] += 1
        await going
        site.proxy.calm()
        mended = time.monotonic()
        left = await settled(site, ns)
        settled_after = round(time.monotonic() - mended, 1)
        looking.cancel()
        following.cancel()
        alive = [replica.process.exit_code is None for replica in fleet.replicas]
        tracebacks = sum("Traceback" in replica.process.said() for replica in fleet.replicas)
        stray = await strays(site, ns)
    report(
        pods=len(churn.lives),
        missed=len(churn.missed),
        left=len(left),
        settled_after_s=settled_after,
        faults={fault.value: count for fault, count in site.proxy.hits.items()},
        broken=dict(broken),
        replicas_with_tracebacks=tracebacks,
    )
    assert churn.missed == []
    assert all(alive)
    assert tracebacks == 0
    assert stray == []


async def strays(site: BindSite, ns: str) -> list[str]:
    """Special claims whose Pod is not there."""
    pods = (await site.api.call("GET", f"/api/v1/namespaces/{ns}/pods"))["items"]
    alive = {each["metadata"]["uid"] for each in pods}
    listed = await site.api.call("GET", f"{RESOURCE_API}/namespaces/{ns}/resourceclaims")
    return [
        each["metadata"]["name"]
        for each in listed["items"]
        if not alive & {owner["uid"] for owner in each["metadata"].get("ownerReferences", ())}
    ]
