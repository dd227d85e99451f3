"""Restarts, crashes and faults: whatever happens, in the end each Pod has its one claim, and no device two owners.

The short forms; `test_soak.py` has the long ones.
"""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from churn import REPORTED_WITHIN, Churn, Fleet, insist, judge, kill_in_turn, private_site, settled
from cluster_site import Site, allocation, claim_name, container, pod
from upstream.api import wait_for
from upstream.controlplane import ControlPlane
from upstream.faultproxy import Fault, FaultProxy
from upstream.installation import NAMESPACE, REPOSITORY, Replica

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from e2e.conftest import Serve
    from upstream.api import Object

pytestmark = pytest.mark.skipif(
    "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, where things can be broken"
)

LEASE_SECONDS = 6
WATCHES = 9
"""One for each kind that the caches hold."""
OPTIONS = (f"--lease-seconds={LEASE_SECONDS}", "--probe-every=1", "--log-format=json", "--log-level=debug")
USER = f"system:serviceaccount:{NAMESPACE}:drabridge"
RECREATE = REPOSITORY / "manifests" / "components" / "recreate-missed-pods" / "rbac.yaml"
PODS_A_SECOND = 20


@pytest_asyncio.fixture(scope="module")
async def site(controlplane_binary: Path, controlplane_directory: Path) -> AsyncIterator[Site]:
    """Each test starts the replicas it wants. `missedPods: Recreate` is allowed."""
    async with private_site(controlplane_binary, controlplane_directory / "crashes", *OPTIONS) as site:
        await site.cluster.kubectl("apply", "-f", str(RECREATE))
        yield site


@pytest.fixture(scope="module")
def plane(site: Site) -> ControlPlane:
    assert isinstance(site.cluster, ControlPlane)
    return site.cluster


@pytest_asyncio.fixture
async def fleet(site: Site) -> AsyncIterator[Fleet]:
    """Two replicas behind one port."""
    async with Fleet(site, "--leave-after=2") as fleet:
        await fleet.start()
        await fleet.start()
        await site.installed.wait_trusted()
        await fleet.leader()
        yield fleet


async def create_steadily(site: Site, ns: str, gpu: str, enough: asyncio.Event, at_most: int) -> list[Object]:
    """Create 20 Pods a second, whether or not the ones before are answered yet."""
    creating: list[asyncio.Task[Object]] = []
    loop = asyncio.get_running_loop()
    start = loop.time()
    while not enough.is_set() and len(creating) < at_most:
        body = pod(f"p{len(creating)}", container(limits={gpu: 1}))
        creating.append(asyncio.create_task(insist(site, ns, body)))
        await asyncio.sleep(start + len(creating) / PODS_A_SECOND - loop.time())
    return list(await asyncio.gather(*creating))


@pytest.mark.slow
async def test_a_rolling_restart_misses_no_pod(site: Site, ns: str, serve: Serve, fleet: Fleet) -> None:
    gpu = await serve(devices=125, nodes=6)
    await site.ready(gpu.policy, "Serving")
    enough = asyncio.Event()
    creating = asyncio.create_task(create_steadily(site, ns, gpu.name, enough, at_most=6 * 125))
    at_least = asyncio.create_task(asyncio.sleep(15))
    for old in list(fleet.replicas):
        await fleet.start()
        await fleet.stop(old)
    await at_least
    enough.set()
    created = await creating
    assert len(created) >= 15 * PODS_A_SECOND - 1
    assert [each["metadata"]["name"] for each in created if not claim_name(each)] == []
    assert fleet.balancer.failed == []
    found = await settled(site, ns, gpu.name)
    assert found.pods == len(created)
    assert found.missed == []


async def test_a_replica_that_leaves_sends_its_callers_elsewhere_before_it_ends(
    site: Site, ns: str, serve: Serve
) -> None:
    """API servers keep connections; one that closes with the next request on its way would be a missed Pod."""
    gpu = await serve(devices=16)
    async with Fleet(site, "--leave-after=10") as fleet:
        old = await fleet.start()
        await site.installed.wait_trusted()
        await site.ready(gpu.policy, "Serving")
        await site.create(ns, pod("first", container(limits={gpu.name: 1})))
        new = await fleet.start()
        old.process.send(signal.SIGTERM)
        await wait_for(lambda: fleet.balancer.is_ready(old), "the balancer to notice", until=lambda ready: not ready)
        for number in range(10):
            made = await site.create(ns, pod(f"p{number}", container(limits={gpu.name: 1})))
            assert claim_name(made)
        assert await new.metric("drabridge_admission_reviews_total", outcome="Rewrite") > 0
        assert old.process.exit_code is None


@pytest.mark.slow
async def test_replicas_that_are_killed_one_at_a_time_leave_nothing_behind(
    site: Site, ns: str, serve: Serve, fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    gpu = await serve(devices=12, nodes=2)
    await site.ready(gpu.policy, "Serving")
    churn = Churn(site, ns, gpu, count=60, at_once=14, stay=8, a_second=4)
    going = asyncio.create_task(churn.run())
    gaps = await kill_in_turn(fleet, kills=5, led=False)
    await going
    found = await settled(site, ns, gpu.name)
    assert found.missed == []
    # While the balancer does not know yet, some are sent to the dead one: that is what no webhook can help.
    record_property("missed", len(churn.missed))
    record_property("seconds until the balancer knew", sum(gap.end - gap.start for gap in gaps))
    assert [life.name for life in churn.missed if life.outside(gaps)] == []


async def test_pods_that_come_while_no_replica_lives_are_reported_and_made_anew_where_that_is_allowed(
    site: Site, ns: str, serve: Serve, fleet: Fleet
) -> None:
    """With the default `--pending-every`, within the minute that is promised."""
    gpu = await serve(devices=8)
    again = await serve(devices=8, policy={"missedPods": "Recreate"})
    for served in (gpu, again):
        await site.ready(served.policy, "Serving")
    for replica in list(fleet.replicas):
        await fleet.kill(replica)
    missed = [await site.create(ns, pod(f"missed-{index}", container(limits={gpu.name: 1}))) for index in range(3)]
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("", container(limits={again.name: 1}))["spec"]}
    body = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template},
    }
    await site.api.call("POST", f"/apis/apps/v1/namespaces/{ns}/deployments", body)

    async def of_the_deployment() -> list[Object]:
        listed = await site.api.call("GET", f"/api/v1/namespaces/{ns}/pods", query={"labelSelector": "app=web"})
        return list(listed["items"])

    before = await wait_for(of_the_deployment, "the Deployment's Pods", until=lambda pods: len(pods) == 3)
    assert not any(map(claim_name, [*missed, *before]))

    await fleet.start()
    await fleet.start()
    returned = asyncio.get_running_loop().time()
    for each in missed:
        await site.event(each, "MissedByWebhook", deadline=REPORTED_WITHIN)
    assert asyncio.get_running_loop().time() - returned < REPORTED_WITHIN
    await wait_for(
        of_the_deployment,
        "the Deployment to have Pods with devices",
        until=lambda pods: len(pods) == 3 and all(map(allocation, pods)),
        deadline=REPORTED_WITHIN,
    )


async def test_the_api_server_and_etcd_may_restart_while_pods_come(
    site: Site, plane: ControlPlane, ns: str, serve: Serve, fleet: Fleet
) -> None:
    gpu = await serve(devices=64)
    await site.ready(gpu.policy, "Serving")
    enough = asyncio.Event()

    async def one_after_the_other() -> list[Object]:
        created: list[Object] = []
        while not enough.is_set() and len(created) < 64:
            created.append(await insist(site, ns, pod(f"p{len(created)}", container(limits={gpu.name: 1}))))
        return created

    creating = asyncio.create_task(one_after_the_other())
    for component in ("kube-apiserver", "etcd", "kube-apiserver"):
        await plane.restart(component)
    enough.set()
    created = await creating
    assert [each["metadata"]["name"] for each in created if not claim_name(each)] == []
    assert (await settled(site, ns, gpu.name)).pods == len(created)
    for replica in fleet.replicas:
        assert replica.process.exit_code is None
        assert "Traceback" not in replica.process.said()
    await fleet.leader()


# --- faults on the way to the API server


@pytest_asyncio.fixture(scope="module")
async def proxy(site: Site) -> AsyncIterator[FaultProxy]:
    with FaultProxy.before(await site.cluster.kubeconfig_for(NAMESPACE, "drabridge")) as proxy:
        yield proxy


@pytest_asyncio.fixture(scope="module")
async def replica(site: Site, proxy: FaultProxy) -> AsyncIterator[Replica]:
    """One replica, whose way to the API server is the proxy. No replica of `fleet` runs when these tests do."""
    kubeconfig = proxy.kubeconfig(await site.cluster.kubeconfig_for(NAMESPACE, "drabridge"))
    replica = await site.installed.start_replica(
        f"--kubeconfig={kubeconfig}", "--pending-every=1", webhook_port=site.installed.webhook_port
    )
    await site.installed.wait_trusted()
    yield replica
    await replica.stop()


def writes_on(plane: ControlPlane, created: Object) -> tuple[int, int]:
    """How often the operator created the claim of a Pod, and how often it wrote on the Pod, with success."""
    metadata = created["metadata"]
    done = [
        (entry["objectRef"]["resource"], entry["objectRef"].get("name"))
        for entry in plane.audit_entries(USER)
        if entry["verb"] in ("create", "patch")
        and entry["objectRef"].get("namespace") == metadata["namespace"]
        and entry["responseStatus"]["code"] < 300
    ]
    return done.count(("resourceclaims", claim_name(created))), done.count(("pods", metadata["name"]))


@pytest.mark.parametrize(
    "fault",
    [
        Fault.CONFLICT,
        pytest.param(Fault.TOO_MANY_REQUESTS, marks=pytest.mark.slow),
        Fault.INTERNAL_ERROR,
        pytest.param(Fault.UNAVAILABLE, marks=pytest.mark.slow),
        pytest.param(Fault.DROPPED, marks=pytest.mark.slow),
        Fault.LOST,
        Fault.UNANSWERED,
    ],
    ids=lambda fault: fault.value,
)
async def test_a_fault_at_each_write_once_leads_to_the_same_end(
    site: Site, plane: ControlPlane, ns: str, serve: Serve, proxy: FaultProxy, replica: Replica, fault: Fault
) -> None:
    await wait_for(lambda: replica.metric("drabridge_leader"), "it to lead")
    writes = {
        "quota": proxy.inject(fault, "PATCH", f"/namespaces/{ns}/resourcequotas/"),
        "claim": proxy.inject(fault, "POST", f"/namespaces/{ns}/resourceclaims"),
        "Pod status": proxy.inject(fault, "PATCH", f"/namespaces/{ns}/pods/[^/]+/status"),
        "event": proxy.inject(fault, "POST", f"/namespaces/{ns}/events"),
        "policy status": proxy.inject(fault, "PATCH", "/extendedresourcepolicies/[^/]+/status"),
        "Lease": proxy.inject(fault, "PATCH", "/leases/drabridge"),
    }
    gpu = await serve(devices=8)
    quotas = f"/api/v1/namespaces/{ns}/resourcequotas"
    await site.api.call("POST", quotas, {"metadata": {"name": "team"}, "spec": {"hard": {f"requests.{gpu.name}": "8"}}})
    await site.ready(gpu.policy, "Serving")
    await wait_for(
        lambda: site.api.request("GET", f"{quotas}/drabridge-team"),
        "the companion quota",
        until=lambda answer: answer[0] == 200 and answer[1].get("status", {}).get("hard"),
    )
    created = [await site.create(ns, pod(f"p{index}", container(limits={gpu.name: 2}))) for index in range(2)]
    for each in created:
        await site.bound_back(each, deadline=45)
        for reason in ("ClaimCreated", "DevicesAllocated"):
            await site.event(each, reason)
    assert (await settled(site, ns, gpu.name)).missed == []
    assert {name: len(injection.hits) for name, injection in writes.items()} == dict.fromkeys(writes, 1)
    for each in created:
        claims, binds = writes_on(plane, await site.pod(each))
        assert claims == 1
        # If nobody said that it was done, it may be done again before the watch shows it: the same, once more.
        assert binds == 1 or (binds == 2 and fault in {Fault.LOST, Fault.UNANSWERED})
        seen = await site.events(each)
        assert sorted(event["reason"] for event in seen) == ["ClaimCreated", "DevicesAllocated"]
    await wait_for(lambda: replica.metric("drabridge_leader"), "it to lead again")
    assert replica.process.exit_code is None


@pytest.mark.parametrize(
    "fault",
    [
        Fault.GONE,
        pytest.param(Fault.GONE_IN_STREAM, marks=pytest.mark.slow),
        Fault.ERROR_IN_STREAM,
        pytest.param(Fault.TOO_MANY_REQUESTS, marks=pytest.mark.slow),
        pytest.param(Fault.INTERNAL_ERROR, marks=pytest.mark.slow),
        pytest.param(Fault.DROPPED, marks=pytest.mark.slow),
        Fault.CUT,
    ],
    ids=lambda fault: fault.value,
)
async def test_watches_that_break_are_begun_anew(
    site: Site, ns: str, serve: Serve, proxy: FaultProxy, replica: Replica, fault: Fault
) -> None:
    """All watches are cut, and what begins them anew has a fault, too; what happens meanwhile is not lost."""
    gpu = await serve(devices=8)
    await site.ready(gpu.policy, "Serving")
    goner = await site.bound_back(await site.create(ns, pod("goner", container(limits={gpu.name: 1}))))
    injected = proxy.inject(fault, "GET", "watch=true", times=WATCHES)
    assert proxy.cut_watches() == WATCHES
    await site.delete(goner)
    created = [await site.create(ns, pod(f"p{index}", container(limits={gpu.name: 2}))) for index in range(2)]
    for each in created:
        await site.bound_back(each, deadline=45)
    await wait_for(lambda: len(injected.hits), "the fault to have hit", until=lambda hits: hits == WATCHES)
    found = await settled(site, ns, gpu.name)
    assert found.missed == []
    assert found.pods == 2
    await wait_for(
        lambda: replica.metric("drabridge_devices_allocated", resource=gpu.name),
        "the deletion to be noticed",
        until=lambda devices: devices == 4,
    )
    assert replica.process.exit_code is None
    assert (await judge(site, ns, gpu.name)).clean
