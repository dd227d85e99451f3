"""The long forms of `test_crashes.py`, with the figures that are promised. `make soak` runs them; each prints JSON."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from churn import Churn, Fleet, kill_in_turn, private_site, settled
from upstream.faultproxy import Fault, FaultProxy
from upstream.installation import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from cluster_site import Site
    from e2e.conftest import Report, Serve

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, where things can be broken"
    ),
]

OPTIONS = ("--lease-seconds=6", "--probe-every=1", "--log-format=json")
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/drabridge"
RATES = {
    Fault.LOST: 0.02,
    Fault.DROPPED: 0.02,
    Fault.INTERNAL_ERROR: 0.02,
    Fault.UNAVAILABLE: 0.02,
    Fault.TOO_MANY_REQUESTS: 0.02,
    Fault.CONFLICT: 0.02,
    Fault.DELAYED: 0.02,
    Fault.UNANSWERED: 0.005,
    Fault.CUT: 0.3,
    Fault.GONE_IN_STREAM: 0.1,
}
CUT_EVERY = 5.0


@pytest_asyncio.fixture(scope="module")
async def site(controlplane_binary: Path, controlplane_directory: Path) -> AsyncIterator[Site]:
    async with private_site(controlplane_binary, controlplane_directory / "soak", *OPTIONS) as site:
        yield site


async def transitions(site: Site) -> int:
    """How often the Lease has changed hands."""
    return int((await site.api.call("GET", LEASE))["spec"]["leaseTransitions"])


async def test_fifty_kills_while_300_pods_come_and_go(site: Site, ns: str, serve: Serve, report: Report) -> None:
    gpu = await serve(devices=12, nodes=2)
    async with Fleet(site) as fleet:
        await fleet.start()
        await fleet.start()
        await site.installed.wait_trusted()
        await site.ready(gpu.policy, "Serving")
        churn = Churn(site, ns, gpu, count=300, at_once=14, stay=8, a_second=0.9, seed=50)
        going = asyncio.create_task(churn.run())
        gaps = await kill_in_turn(fleet, kills=50, led=True)
        await going
        found = await settled(site, ns, gpu.name)
    outside = [life.name for life in churn.missed if life.outside(gaps)]
    report(
        kills=len(gaps),
        pods=len(churn.lives),
        missed_while_a_ready_replica_was_asked=len(outside),
        missed_before_the_balancer_knew=len(churn.missed) - len(outside),
        seconds_until_the_balancer_knew=round(sum(gap.end - gap.start for gap in gaps), 1),
        reported_after_seconds=[round((life.reported or 0) - life.created, 1) for life in churn.missed],
        left=found.pods,
        lease_transitions=await transitions(site),
    )
    assert outside == []
    assert found.missed == []


async def test_2000_pods_under_random_faults(site: Site, ns: str, serve: Serve, report: Report) -> None:
    gpu = await serve(devices=100, nodes=4)
    original = await site.cluster.kubeconfig_for(NAMESPACE, "drabridge")
    with FaultProxy.before(original) as proxy:
        async with Fleet(site, f"--kubeconfig={proxy.kubeconfig(original)}") as fleet:
            await fleet.start()
            await fleet.start()
            await site.installed.wait_trusted()
            await site.ready(gpu.policy, "Serving")
            before = await transitions(site)
            proxy.at_random(2000, RATES)
            churn = Churn(site, ns, gpu, count=2000, at_once=150, stay=100, a_second=50, seed=2000)
            going = asyncio.create_task(churn.run())
            while not going.done():
                await asyncio.wait([going], timeout=CUT_EVERY)
                proxy.cut_watches()
            await going
            under_faults = await settled(site, ns, gpu.name, deadline=120)
            proxy.calm()
            found = await settled(site, ns, gpu.name)
            alive = [replica.process.exit_code is None for replica in fleet.replicas]
            tracebacks = sum("Traceback" in replica.process.said() for replica in fleet.replicas)
    report(
        pods=len(churn.lives),
        missed=len(churn.missed),
        left=found.pods,
        faults={fault.value: count for fault, count in proxy.hits.items()},
        lease_transitions=await transitions(site) - before,
        replicas_alive=sum(alive),
        replicas_with_tracebacks=tracebacks,
    )
    assert churn.missed == []
    assert under_faults == found
    assert all(alive)
    assert tracebacks == 0
