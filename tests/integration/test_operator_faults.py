"""The operator when things around it break: API server, etcd, watches, rights, and the order of an installation."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from cluster_site import CLASSES, POLICIES, Served, Site, claim_name, container, pod
from conftest import GATE_OFF, SITE_OPTIONS
from upstream.api import wait_for
from upstream.controlplane import ControlPlane
from upstream.installation import NAMESPACE, PROGRAM, Installation, Replica
from upstream.processes import Process, free_port

if TYPE_CHECKING:
    from upstream.api import Object

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest_asyncio.fixture(scope="module")
async def bare(controlplane_binary: Path, controlplane_directory: Path) -> AsyncIterator[ControlPlane]:
    """A control plane of this module. drabridge is in it once a test asks for `site`: tests without it come first."""
    plane = ControlPlane(controlplane_binary, GATE_OFF, directory=controlplane_directory / "faults", qps=1000)
    try:
        await plane.start()
        yield plane
    finally:
        await plane.stop()


@pytest_asyncio.fixture(scope="module")
async def site(bare: ControlPlane) -> AsyncIterator[Site]:
    """drabridge with one replica."""
    async with Installation(bare, options=(*SITE_OPTIONS, "--lease-seconds=6")) as installation:
        yield Site(bare, installation)


@pytest_asyncio.fixture
async def ns(site: Site, unique: Callable[[], str], afterwards: AsyncExitStack) -> str:
    name = unique()
    await site.cluster.add_namespace(name)
    afterwards.push_async_callback(site.cluster.remove_namespace, name)
    return name


@pytest_asyncio.fixture
async def gpu(site: Site, unique: Callable[[], str], afterwards: AsyncExitStack) -> Served:
    """A name that is served."""
    served = await site.serve(unique(), afterwards, devices=128)
    await site.ready(served.policy, "Serving")
    return served


def start(plane: ControlPlane, kubeconfig: Path, name: str, *options: str) -> Replica:
    """Start an operator that need not become ready."""
    probe = f"127.0.0.1:{free_port()}"
    command: list[str | Path] = [
        *(PROGRAM, "operator", f"--kubeconfig={kubeconfig}", "--identity=alone"),
        *(f"--webhook-address=127.0.0.1:{free_port()}", f"--probe-address={probe}", *SITE_OPTIONS, *options),
    ]
    process = Process(name, command, log=plane.logs / f"{name}.log", env=os.environ)
    return Replica(process, f"http://{probe}")


async def complaint(replica: Replica) -> str:
    """The one line that an operator ends with."""
    code = await wait_for(lambda: replica.process.exit_code, "it to end", until=lambda code: code is not None)
    said = replica.process.said()
    assert code == 1, said
    assert "Traceback" not in said
    lines = [line for line in said.splitlines() if line.startswith("drabridge: ")]
    assert len(lines) == 1, said
    return lines[0]


# --- before drabridge is installed


async def test_without_its_crd_it_says_what_to_apply(bare: ControlPlane) -> None:
    await bare.api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    line = await complaint(start(bare, bare.kubeconfig_admin(), "no-crd"))
    assert "ExtendedResourcePolic" in line
    assert "apply drabridge's manifests (CRDs" in line


async def test_without_rights_it_says_which_and_what_to_apply(bare: ControlPlane) -> None:
    line = await complaint(start(bare, await bare.kubeconfig_for("default", "default"), "no-rights"))
    assert "system:serviceaccount:default:default" in line
    assert "cannot get resource" in line
    assert "RBAC" in line


# --- once it is installed


async def test_a_restart_after_the_manifests_came_just_works(site: Site, ns: str, gpu: Served) -> None:
    await site.bound_back(await site.create(ns, pod("first", container(limits={gpu.name: 1}))))


async def test_a_webhook_port_in_use_is_one_line(bare: ControlPlane, site: Site) -> None:
    kubeconfig = await bare.kubeconfig_for(NAMESPACE, "drabridge")
    address = f"127.0.0.1:{site.installed.webhook_port}"
    line = await complaint(start(bare, kubeconfig, "port-in-use", f"--webhook-address={address}"))
    assert f"--webhook-address={address}" in line
    assert "already in use" in line


async def test_it_can_be_stopped_while_it_starts_and_the_api_server_hangs(bare: ControlPlane, site: Site) -> None:
    kubeconfig = await bare.kubeconfig_for(NAMESPACE, "drabridge")
    bare.pause("kube-apiserver")
    try:
        replica = start(bare, kubeconfig, "hangs")
        await wait_for(lambda: replica.get("/readyz"), "its probes", until=lambda answer: answer[0] == 503)
        assert await replica.stop(deadline=5) == 0
        assert "Traceback" not in replica.process.said()
    finally:
        bare.resume("kube-apiserver")


async def insist(site: Site, ns: str, body: Object) -> Object:
    """Create a Pod through whatever happens to the API server: a client that tries again."""

    async def attempt() -> Object | None:
        status, answer = await site.api.request("POST", f"/api/v1/namespaces/{ns}/pods", body)
        if status == 409:
            return await site.pod({"metadata": {"namespace": ns, "name": body["metadata"]["name"]}})
        return answer if status < 300 else None

    created = await wait_for(attempt, "the Pod to be created", deadline=90)
    assert created
    return created


async def all_served(site: Site, created: list[Object]) -> None:
    for each in created:
        assert claim_name(each), f"{each['metadata']['name']} passed by the webhook"
    bound = await asyncio.gather(*(site.bound_back(each, deadline=90) for each in created))
    claims = [await site.claim(each) for each in bound]
    results = [each for claim in claims for each in claim["status"]["allocation"]["devices"]["results"]]
    devices = {(each["pool"], each["device"]) for each in results}
    assert len(devices) == len(results) == len(created)


async def test_pods_that_come_while_the_api_server_restarts_are_served_by_the_same_process(
    bare: ControlPlane, site: Site, ns: str, gpu: Served
) -> None:
    replica = site.installed.replicas[-1]
    restarted = asyncio.Event()

    async def keep_creating() -> list[Object]:
        created: list[Object] = []
        while not (restarted.is_set() and len(created) >= 10):
            created.append(await insist(site, ns, pod(f"p{len(created)}", container(limits={gpu.name: 1}))))
            await asyncio.sleep(0.1)  # a pace that leaves enough devices for all
        return created

    creating = asyncio.create_task(keep_creating())
    await wait_for(
        lambda: replica.metric("drabridge_claim_creates_total", result="created"), "the first claims to be created"
    )
    await bare.restart("kube-apiserver")
    restarted.set()
    await all_served(site, await creating)
    assert replica.process.exit_code is None
    assert "Traceback" not in replica.process.said()


async def test_it_lives_through_a_time_without_etcd(bare: ControlPlane, site: Site, ns: str, gpu: Served) -> None:
    replica = site.installed.replicas[-1]
    bare.kill("etcd")
    creating = asyncio.create_task(insist(site, ns, pod("patient", container(limits={gpu.name: 1}))))
    try:
        await wait_for(lambda: replica.metric("drabridge_leader"), "it to lose the Lease", until=lambda on: not on)
        assert await replica.ready(), "a webhook that cannot answer helps nobody; ours can"
    finally:
        await bare.restart("etcd")
    await all_served(site, [await creating])
    assert replica.process.exit_code is None


async def test_what_was_deleted_while_nobody_watched_is_noticed(
    bare: ControlPlane, site: Site, ns: str, gpu: Served, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    """One deletion of each sort: an object among others, and the last one of its kind, which leaves an empty list."""
    goner = await site.serve(unique(), afterwards)
    await site.ready(goner.policy, "Serving")
    limits = f"/api/v1/namespaces/{ns}/limitranges"
    cap = {"metadata": {"name": "cap"}, "spec": {"limits": [{"type": "Container", "min": {gpu.name: "1"}}]}}
    await site.api.call("POST", limits, cap)
    asking = pod("asking", container(limits={gpu.name: 1}))

    async def is_rewritten(body: Object) -> bool:
        path = f"/api/v1/namespaces/{ns}/pods"
        return bool(claim_name(await site.api.call("POST", path, body, query={"dryRun": "All"})))

    await wait_for(lambda: is_rewritten(asking), "the LimitRange to be seen", until=lambda yes: not yes)

    process = site.installed.replicas[-1].process
    process.send(signal.SIGSTOP)
    try:
        await bare.restart("kube-apiserver")  # its watches are cut, and what comes now is not waiting in their sockets
        await site.api.call("DELETE", f"{limits}/cap")
        await site.api.call("DELETE", f"{POLICIES}/{goner.policy}")
        await site.api.call("DELETE", f"{CLASSES}/{gpu.device_class}")
        await bare.restart("kube-apiserver")  # it remembers nothing of that, so that watches must begin with a list
    finally:
        process.send(signal.SIGCONT)
    assert (await site.ready(gpu.policy, "DeviceClassMissing"))["status"] == "False"
    # kube-scheduler's implicit name of that class is a question to the class alone.
    ask_gone = pod("gone", container(limits={goner.name: 1}))
    await wait_for(lambda: is_rewritten(ask_gone), "the policy's end to be seen", until=lambda yes: not yes)
    await site.add_class(gpu.device_class, f"{gpu.policy}.example.com", afterwards)
    await site.ready(gpu.policy, "Serving")
    await wait_for(lambda: is_rewritten(asking), "the LimitRange's end to be seen")
    assert process.exit_code is None
    assert "Traceback" not in process.said()


async def test_watching_begins_anew_after_the_crd_was_gone_for_a_moment(
    site: Site, ns: str, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    """As when manifests are deleted and applied again. Kopf gives up all watches then."""
    replica = site.installed.replicas[-1]
    before = await site.serve(unique(), afterwards)
    await site.ready(before.policy, "Serving")
    definition = await remove_definition(site)
    await wait_for(lambda: "has failed: 404" in replica.process.said(), "Kopf to give up")
    await site.api.call("POST", DEFINITIONS, definition)
    await wait_for(lambda: site.api.request("GET", POLICIES), "it to be back", until=lambda answer: answer[0] == 200)

    after = await site.serve(unique(), afterwards)
    await site.ready(after.policy, "Serving")
    await site.bound_back(await site.create(ns, pod("again", container(limits={after.name: 1}))))
    assert replica.process.exit_code is None
    # Of the first policy nothing is left.
    ask_gone = pod("gone", container(limits={before.name: 1}))
    path = f"/api/v1/namespaces/{ns}/pods"
    assert not claim_name(await site.api.call("POST", path, ask_gone, query={"dryRun": "All"}))


async def remove_definition(site: Site) -> Object:
    """Delete our CRD and wait until it is gone; give it, to be created again."""
    path = f"{DEFINITIONS}/extendedresourcepolicies.drabridge.io"
    stored = await site.api.call("GET", path)
    await site.api.call("DELETE", path)
    await wait_for(lambda: site.api.request("GET", POLICIES), "it to be gone", until=lambda answer: answer[0] == 404)
    return {"metadata": {"name": stored["metadata"]["name"]}, "spec": stored["spec"]}


@pytest.mark.slow
async def test_its_memory_does_not_grow_with_the_pods_that_have_been(site: Site, ns: str, gpu: Served) -> None:
    replica = site.installed.replicas[-1]

    async def come_and_go(batch: int) -> None:
        before = await replica.metric("drabridge_claim_creates_total", result="created")
        await asyncio.gather(
            *(site.create(ns, pod(f"b{batch}-{index}", container(limits={gpu.name: 1}))) for index in range(100))
        )
        await wait_for(
            lambda: replica.metric("drabridge_claim_creates_total", result="created"),
            "100 claims",
            until=lambda created: created >= before + 100,
            deadline=60,
        )
        await site.api.call("DELETE", f"/api/v1/namespaces/{ns}/pods", {"gracePeriodSeconds": 0})

        async def left() -> int:
            claims = await site.api.call("GET", f"/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims")
            return len(claims["items"]) + int(await replica.metric("drabridge_pods", resource=gpu.name))

        await wait_for(left, "Pods and claims to be gone", until=lambda count: not count, deadline=60)

    await come_and_go(0)
    before = replica.process.resident_mb
    for batch in range(1, 5):
        await come_and_go(batch)
    assert replica.process.resident_mb - before < 25, "MiB more after 400 Pods more"


async def test_it_ends_when_its_crd_is_gone_for_good(site: Site) -> None:
    """It could not tell any more who is to be served; the API server leaves Pods alone while no webhook answers."""
    definition = await remove_definition(site)
    replica = site.installed.replicas[-1]
    code = await wait_for(lambda: replica.process.exit_code, "it to end", until=lambda code: code is not None)
    assert code == 1
    last = replica.process.said(1)
    assert last.startswith("drabridge: ")
    assert "ExtendedResourcePolic" in last
    assert "apply drabridge's manifests (CRDs" in last
    await site.api.call("POST", DEFINITIONS, definition)
    await wait_for(lambda: site.api.request("GET", POLICIES), "it to be back", until=lambda answer: answer[0] == 200)
    await site.installed.start_replica()
