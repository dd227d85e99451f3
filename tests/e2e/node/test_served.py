"""What KEP-5004's own end-to-end tests ask, and the life of Pods around it, by what the containers see.

Each test runs where drabridge rewrites Pods, where kube-scheduler serves them, and where drabridge allocates their
devices. Numbers in names are those of upstream's list (KEP-5004, "Test Plan"; test/e2e/dra).
"""

from __future__ import annotations

from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from cluster_site import allocation, claim_name, container
from real_site import FPGA, GPU, GPUS, HARDWARE, NIC, RealSite, body, simple
from upstream.api import MERGE_PATCH, wait_for

if TYPE_CHECKING:
    from upstream.api import Object

LONG = pytest.mark.node
EACH = pytest.mark.parametrize(
    "real", ["Rewrite", "Native", pytest.param("Bind", marks=LONG)], indirect=True, scope="session"
)
THREE = (FPGA, GPU, NIC)


def kinds(real: RealSite, live: Object, name: str = "main") -> dict[str, int]:
    """Driver -> how many of its devices a container saw."""
    return dict(Counter(each.partition("/")[0] for each in real.look(live, name).devices))


async def counted(real: RealSite, kind: str, allocated: int) -> None:
    """Wait until drabridge counts so many allocated devices of a kind."""
    await real.site.policy(
        kind, lambda seen: seen.get("devices", {}).get("allocated") == allocated, f"{allocated} allocated devices"
    )


@EACH
async def test_1_one_container_with_one_resource(real: RealSite, ns: str) -> None:
    live = await real.start(ns, simple())
    assert kinds(real, live) == {"gpu.example.com": 1}
    await counted(real, "gpu", 1)
    if real.delivery == "Rewrite":
        bound = await real.site.bound_back(live)
        seen = {f"{each['driver']}/{each['pool']}/{each['device']}" for each in allocation(bound)}
        assert seen == set(real.look(live).devices)
    elif real.delivery == "Native":
        assert not any("drabridge" in entry["manager"] for entry in live["metadata"]["managedFields"])


@LONG
@EACH
async def test_2_one_container_with_three_resources(real: RealSite, ns: str) -> None:
    live = await real.start(ns, body("three", container(limits=dict.fromkeys(THREE, 1))))
    assert kinds(real, live) == {"fpga.example.com": 1, "gpu.example.com": 1, "nic.example.com": 1}


@LONG
@EACH
async def test_3_three_containers_with_one_resource_each(real: RealSite, ns: str) -> None:
    each = (container(f"c{index}", limits={name: 1}) for index, name in enumerate(THREE))
    live = await real.start(ns, body("each", *each))
    seen = [kinds(real, live, f"c{index}") for index in range(3)]
    assert seen == [{"fpga.example.com": 1}, {"gpu.example.com": 1}, {"nic.example.com": 1}]


@EACH
async def test_4_three_containers_with_one_two_and_three_resources(real: RealSite, ns: str) -> None:
    each = (container(f"c{index}", limits=dict.fromkeys(THREE[1 : index + 2], 1)) for index in range(2))
    live = await real.start(ns, body("more", *each, container("c2", limits={GPU: 3, NIC: 2, FPGA: 1})))
    assert kinds(real, live, "c0") == {"gpu.example.com": 1}
    assert kinds(real, live, "c1") == {"gpu.example.com": 1, "nic.example.com": 1}
    assert kinds(real, live, "c2") == {"gpu.example.com": 3, "nic.example.com": 2, "fpga.example.com": 1}
    apart = [set(real.look(live, f"c{index}").devices) for index in range(3)]
    assert not apart[0] & apart[1] | apart[0] & apart[2] | apart[1] & apart[2]


@EACH
async def test_7_devices_are_free_when_their_pod_has_ended_although_it_is_still_there(real: RealSite, ns: str) -> None:
    ends = container(limits={GPU: 8}, command=["sleep", "1"])
    live = await real.start(ns, body("ends", ends, restartPolicy="Never"))
    ended = await real.phase(live, "Succeeded")
    await real.free(ns)
    assert ended["status"]["phase"] == "Succeeded"
    await real.start(ns, simple("next", 8))


@EACH
async def test_8_a_second_pod_waits_while_the_devices_are_taken_and_gets_them_afterwards(
    real: RealSite, ns: str
) -> None:
    first = await real.start(ns, simple("first", 5))
    second = await real.site.create(ns, simple("second", 4))

    def waits(seen: Object) -> bool:
        conditions = {each["type"]: each for each in seen["status"].get("conditions", ())}
        return bool(conditions.get("PodScheduled", {}).get("reason") == "Unschedulable")

    await wait_for(lambda: real.site.pod(second), "it to be unschedulable", until=waits)
    assert real.node.seen(second, "main") is None
    await real.delete(first)
    live = await real.started(second)
    assert kinds(real, live) == {"gpu.example.com": 4}


@EACH
async def test_init_containers_and_sidecars_see_what_the_mappings_say(real: RealSite, ns: str) -> None:
    init = (
        container("sidecar", limits={GPU: 1}, restartPolicy="Always"),
        container("warm-up", limits={GPU: 2}, command=["sh", "-c", "exit 0"]),
        container("network", limits={NIC: 1}, command=["sh", "-c", "exit 0"]),
        container("plain", command=["sh", "-c", "exit 0"]),
    )
    live = await real.start(ns, body("inits", container(limits={GPU: 2}), initContainers=list(init)))
    assert kinds(real, live) == {"gpu.example.com": 2}
    assert kinds(real, live, "sidecar") == {"gpu.example.com": 1}
    assert kinds(real, live, "network") == {"nic.example.com": 1}
    assert kinds(real, live, "plain") == {}
    # The init container runs before the app's, with the same devices; the sidecar's stay its own.
    assert real.look(live, "warm-up").devices == real.look(live).devices
    assert not set(real.look(live, "sidecar").devices) & set(real.look(live).devices)
    assert real.look(live, "warm-up").at < real.look(live).at


@EACH
async def test_a_claim_of_the_pods_own_comes_besides(real: RealSite, ns: str) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": GPUS, "count": 2}}
    claim = {"metadata": {"name": "mine"}, "spec": {"devices": {"requests": [request]}}}
    await real.api.call("POST", f"/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims", claim)
    both = container("both", limits={GPU: 3})
    both["resources"]["claims"] = [{"name": "own"}]
    only = {**container("only"), "resources": {"claims": [{"name": "own"}]}}
    spec = {"resourceClaims": [{"name": "own", "resourceClaimName": "mine"}]}
    live = await real.start(ns, body("own", both, only, container("none"), **spec))
    assert kinds(real, live, "both") == {"gpu.example.com": 5}
    assert kinds(real, live, "only") == {"gpu.example.com": 2}
    assert set(real.look(live, "only").devices) < set(real.look(live, "both").devices)
    assert kinds(real, live, "none") == {}


@LONG
@EACH
async def test_jobs_finish_and_free_their_devices(real: RealSite, ns: str) -> None:
    worker = container("worker", limits={GPU: 3}, command=["sleep", "0.5"])
    template = {"spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [worker]}}
    job = {
        "metadata": {"name": "job"},
        "spec": {"completions": 6, "parallelism": 6, "backoffLimit": 0, "template": template},
    }
    path = f"/apis/batch/v1/namespaces/{ns}/jobs"
    await real.api.call("POST", path, job)

    async def succeeded() -> int:
        await real.check_nothing_twice()
        return int((await real.api.call("GET", f"{path}/job"))["status"].get("succeeded", 0))

    await wait_for(succeeded, "all its Pods to succeed", until=lambda done: done == 6, deadline=90)
    pods = (await real.api.call("GET", f"/api/v1/namespaces/{ns}/pods"))["items"]
    assert [len(real.look(each, "worker").devices) for each in pods] == [3] * 6
    await real.free(ns)
    await counted(real, "gpu", 0)


@LONG
@EACH
async def test_a_deployment_is_rolled_over_on_a_full_node(real: RealSite, ns: str) -> None:
    template: Object = {
        "metadata": {"labels": {"app": "web", "round": "1"}},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container(limits={GPU: 2})]},
    }
    deployment = {
        "metadata": {"name": "web"},
        "spec": {"replicas": 4, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    path = f"/apis/apps/v1/namespaces/{ns}/deployments"
    await real.api.call("POST", path, deployment)

    async def complete(number: str) -> list[Object]:
        query = {"labelSelector": f"round={number}"}
        pods = (await real.api.call("GET", f"/api/v1/namespaces/{ns}/pods", query=query))["items"]
        await real.check_nothing_twice()
        return [each for each in pods if each["status"]["phase"] == "Running"]

    await wait_for(lambda: complete("1"), "four Pods", until=lambda pods: len(pods) == 4, deadline=90)
    change = {"spec": {"template": {"metadata": {"labels": {"round": "2"}}}}}
    await real.api.call("PATCH", f"{path}/web", change, MERGE_PATCH)
    pods = await wait_for(lambda: complete("2"), "four new Pods", until=lambda pods: len(pods) == 4, deadline=90)
    seen = [name for each in pods for name in (await real.node.wait_seen(each)).devices]
    assert len(set(seen)) == len(seen) == 8


@LONG
@EACH
async def test_a_pod_that_is_deleted_while_it_is_pending_leaves_nothing(real: RealSite, ns: str) -> None:
    made = await real.site.create(ns, simple("big", 9))
    if real.delivery == "Rewrite":
        await wait_for(lambda: real.site.claim_exists(made), "its claim")
    await real.delete(made)
    await real.gone(made)
    await real.free(ns)


@LONG
@EACH
async def test_a_pod_that_is_deleted_while_its_devices_are_prepared_leaves_nothing(
    real: RealSite, ns: str, afterwards: AsyncExitStack
) -> None:
    await changed(real, afterwards, prepare_delay=3.0)
    made = await real.site.create(ns, simple())
    await wait_for(lambda: f'"Preparing" claim="{ns}/' in real.node.part(GPUS).said(), "it to be prepared")
    assert real.node.cdi_specs() == []
    await real.delete(made)
    await real.gone(made)
    await real.free(ns)
    assert real.node.seen(made, "main") is None


@EACH
async def test_a_pod_that_is_deleted_by_force_frees_its_devices(real: RealSite, ns: str) -> None:
    live = await real.start(ns, simple("first", 8))
    await real.delete(live, gracePeriodSeconds=0)
    await real.gone(live)
    await real.free(ns)
    await real.start(ns, simple("second", 8))


@LONG
@EACH
async def test_a_restart_of_the_kubelet_is_not_noticed(real: RealSite, ns: str) -> None:
    before = await real.phase(await real.start(ns, simple("before", 3)), "Running")
    await real.node.restart("kubelet")
    after = await real.start(ns, simple("after", 5))
    assert containers_of(await real.site.pod(before)) == containers_of(before)
    for each in (before, after):
        await real.delete(each)
        await real.gone(each)
    await real.free(ns)


@LONG
@EACH
async def test_a_restart_of_the_driver_is_not_noticed(real: RealSite, ns: str) -> None:
    before = await real.phase(await real.start(ns, simple("before", 3)), "Running")
    await real.node.restart(GPUS)
    await real.start(ns, simple("after", 5))
    assert containers_of(await real.site.pod(before)) == containers_of(before)
    await real.delete(before)
    await real.gone(before)
    await wait_for(real.node.cdi_specs, "the first to be unprepared", until=lambda specs: len(specs) == 1)


@EACH
async def test_a_pod_starts_when_preparing_has_been_healed(real: RealSite, ns: str, afterwards: AsyncExitStack) -> None:
    await changed(real, afterwards, prepare_error="the device does not answer")
    made = await real.site.create(ns, simple())
    event = await real.of_kubelet(made, "FailedPrepareDynamicResources")
    assert "the device does not answer" in event["message"]
    await real.told(made, "PreparingFails", "the device does not answer", "see the DRA driver's log")
    assert real.node.seen(made, "main") is None
    await real.node.change(GPUS, HARDWARE[GPUS])
    await real.started(made, deadline=90)
    await real.over(made)


@LONG
@EACH
async def test_pods_start_and_end_although_the_operator_is_down(real: RealSite, ns: str) -> None:
    ending = await real.start(ns, simple("ending", 4))
    stored = await real.site.create(ns, simple("stored", 2))
    real.installed.replicas[-1].process.kill()
    await real.delete(ending)
    await real.gone(ending)
    if real.delivery == "Native":
        await real.started(stored)
        await real.start(ns, simple("meanwhile", 2))
    await real.start_operator()
    await real.started(stored)
    assert bool(claim_name(stored)) == (real.delivery == "Rewrite")
    await real.start(ns, simple("afterwards", 4))


async def changed(real: RealSite, afterwards: AsyncExitStack, **what: object) -> None:
    """Change how the GPUs' driver fares, until the end of the test."""
    await real.node.change(GPUS, replace(HARDWARE[GPUS], **what))  # type: ignore[arg-type]
    afterwards.push_async_callback(real.node.change, GPUS, HARDWARE[GPUS])


def containers_of(live: Object) -> list[tuple[str, int]]:
    """What a container runtime calls a Pod's containers, and how often they were restarted."""
    return [(each["containerID"], each["restartCount"]) for each in live["status"]["containerStatuses"]]
