"""A bind under faults: each write failing in each way, one after the other, and requests that arrive much later.

The end that is asked for is always the same: the Pod is bound once with devices of its own, nothing is allocated twice,
and no claim is left over.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bind_rig import DRIVER, SLICES, TRIES, BindApi, Rig, claim
from builders import GPU, IMPLICIT_GPU, PodBuilder, pod
from drabridge.core.bind.podclaims import special_name
from drabridge.core.bind.taints import TaintRule
from drabridge.core.errors import Conflict, DrabridgeError, InvalidInput, NotLeader, Refused, Unavailable
from drabridge.core.policy import Strategy
from drabridge.delivery.metrics import Metrics
from drabridge.kube.resources import NODES
from failing_client import Fault
from upstream import kubelet
from upstream.api import JSON, Object

METRICS = Metrics()


@pytest_asyncio.fixture
async def rig(bind_api: BindApi) -> AsyncIterator[Rig]:
    async with Rig.on(bind_api, metrics=METRICS) as rig:
        yield rig


async def test_a_bind_is_four_writes(rig: Rig) -> None:
    made = await rig.add_pod(pod().app(gpu=2))
    assert not await rig.schedule(made)
    assert rig.client.writes == [
        "create ResourceClaim",
        "patch ResourceClaim/status",
        "patch Pod/status",
        "create binding",
    ]
    assert (await rig.bound())[0] == "node-0"
    await rig.check()


WRITES = {"claim": 0, "claim status": 1, "pod status": 2, "binding": 3}


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("write", WRITES)
async def test_one_fault_at_each_write(rig: Rig, write: str, fault: Fault) -> None:
    rig.client.faults = {WRITES[write]: fault}
    made = await rig.add_pod(pod().app(gpu=2))
    await rig.settle()
    await rig.client.deliver()
    await rig.settle()
    assert (await rig.bound())[0], rig.client.writes
    assert made["metadata"]["uid"]
    await rig.check()


@pytest.mark.parametrize("fault", [Fault.UNSENT, Fault.LOST, Fault.LATE], ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("write", WRITES)
async def test_an_api_server_that_does_not_answer_for_long(rig: Rig, write: str, fault: Fault) -> None:
    first = WRITES[write]
    rig.client.faults = dict.fromkeys(range(first, first + 12), fault)
    await rig.add_pod(pod().app(gpu=2))
    await rig.settle()
    await rig.client.deliver()
    await rig.settle()
    assert (await rig.bound())[0], rig.client.writes
    await rig.check()


async def test_a_binding_that_arrives_after_its_claim_was_taken_back_fails(rig: Rig) -> None:
    rig.client.faults = dict.fromkeys(range(3, 7), Fault.LATE)
    made = await rig.add_pod(pod().app(gpu=2))
    with pytest.raises(DrabridgeError):
        await rig.schedule(made)
    assert not await rig.claims()
    await rig.client.deliver()
    assert not (await rig.bound())[0]
    await rig.settle()
    assert (await rig.bound())[0]
    await rig.check()


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_whose_answer_was_lost_is_found_by_its_repeat(rig: Rig, write: str) -> None:
    rig.client.faults = {WRITES[write]: Fault.LOST}
    assert not await rig.schedule(await rig.add_pod(pod().app(gpu=2)))
    assert "delete ResourceClaim" not in rig.client.writes
    await rig.check()


async def test_a_binding_that_arrives_before_it_is_taken_back_is_found(rig: Rig) -> None:
    rig.client.faults = dict.fromkeys(range(3, 7), Fault.LATE) | dict.fromkeys(range(7, 11), Fault.UNSENT)
    made = await rig.add_pod(pod().app(gpu=2))
    with pytest.raises(Unavailable):
        await rig.schedule(made)
    await rig.client.deliver()
    assert await rig.bound() == ["node-0"]
    await rig.bindings.sweep(first=False)
    await rig.check()


async def test_a_pod_status_that_arrives_after_a_later_try_says_nothing(rig: Rig) -> None:
    rig.client.faults = dict.fromkeys(range(2, 6), Fault.LATE)
    made = await rig.add_pod(pod().app(gpu=2))
    with pytest.raises(Unavailable):
        await rig.schedule(made)
    await rig.bindings.filter(made, rig.names)
    await rig.bind(made, "node-1")
    await rig.client.deliver()
    await rig.check()


async def test_no_new_try_begins_before_the_one_before_was_taken_back(rig: Rig) -> None:
    rig.client.faults = {3: Fault.REFUSED} | dict.fromkeys(range(4, 8), Fault.UNSENT)
    made = await rig.add_pod(pod().app(gpu=2))
    with pytest.raises(DrabridgeError):
        await rig.schedule(made)
    tried = len(rig.client.writes)
    with pytest.raises(Unavailable, match="has not been taken back yet"):
        await rig.bind(made, "node-1")
    assert len(rig.client.writes) == tried
    await rig.settle()
    await rig.check()


async def test_two_binds_at_once_do_not_get_the_same_devices(rig: Rig) -> None:
    made = [await rig.add_pod(pod(f"pod-{number}").app(gpu=2)) for number in range(2)]
    for each in made:
        assert (await rig.bindings.filter(each, rig.names)).nodes == rig.names
    won, lost = await asyncio.gather(*(rig.bind(each, "node-0") for each in made), return_exceptions=True)
    assert won is None
    assert isinstance(lost, Conflict)
    assert "DevicesTakenMeanwhile" in str(lost)
    assert len(rig.client.writes) == 4, "the second one has nothing to take back"
    await rig.settle()
    assert sorted(await rig.bound()) == ["node-0", "node-1"]
    await rig.check()


async def test_a_quota_that_refuses_the_claim_is_said_and_nothing_is_left(rig: Rig) -> None:
    rig.client.faults = {0: Fault.REFUSED}
    made = await rig.add_pod(pod().app(gpu=2))
    with pytest.raises(Refused, match="exceeded quota"):
        await rig.schedule(made)
    assert not await rig.claims()
    assert (await rig.bindings.filter(made, rig.names)).nodes == rig.names
    await rig.check()


async def test_a_bind_called_twice_is_one_bind(rig: Rig) -> None:
    made = await rig.add_pod(pod().app(gpu=2))
    await rig.bindings.filter(made, rig.names)
    assert await asyncio.gather(rig.bind(made, "node-1"), rig.bind(made, "node-1")) == [None, None]
    assert len(rig.client.writes) == 4
    await rig.check()
    # And again, when it is over: the answer may have been lost.
    await rig.bind(made, "node-1")
    await rig.check()
    with pytest.raises(Conflict, match="bound to node-1"):
        await rig.bind(made, "node-0")
    await rig.check()


async def test_while_a_pod_is_bound_to_one_node_it_is_not_bound_to_another(rig: Rig) -> None:
    made = await rig.add_pod(pod().app(gpu=2))
    first = asyncio.create_task(rig.bind(made, "node-1"))
    await asyncio.sleep(0)
    with pytest.raises(Conflict, match="is being bound to node-1"):
        await rig.bind(made, "node-0")
    await first
    await rig.check()


async def test_a_pod_that_was_deleted_between_filter_and_bind_leaves_nothing(rig: Rig) -> None:
    made = await rig.add_pod(pod().app(gpu=2))
    await rig.bindings.filter(made, rig.names)
    await rig.delete_pod(made)
    with pytest.raises(DrabridgeError):
        await rig.bind(made, "node-0")
    assert not await rig.claims()
    await rig.check()


async def test_a_new_pod_of_the_same_name_is_not_the_one_that_was_filtered(rig: Rig) -> None:
    made = await rig.add_pod(pod().app(gpu=2))
    await rig.bindings.filter(made, rig.names)
    await rig.delete_pod(made)
    await rig.add_pod(pod().app(gpu=2))
    with pytest.raises(DrabridgeError):
        await rig.bind(made, "node-0")
    assert not await rig.claims()
    (another,) = await rig.pods()
    assert not another["spec"].get("nodeName")
    assert not another["status"].get("conditions")
    await rig.settle()
    await rig.check()


async def test_a_claim_of_the_name_that_is_somebody_elses_stays_and_the_pod_is_told(rig: Rig) -> None:
    made = await rig.add_pod(pod().app(gpu=1))
    name = special_name(made["metadata"]["uid"])
    foreign = {"metadata": {"namespace": "default", "name": name}, "spec": {"devices": {}}}
    await rig.add_claim(foreign)
    text = await rig.schedule(made)
    assert "ClaimOfAnotherOwner" in text
    assert name in text
    assert rig.client.writes == []


async def test_a_claim_left_by_a_leader_that_died_is_taken_back_by_the_next_one(rig: Rig) -> None:
    for writes in (1, 2, 3):
        made = await rig.add_pod(pod(f"pod-{writes}").app(gpu=2))
        rig.client.writes.clear()
        rig.client.faults = {writes: Fault.OVER}
        with pytest.raises(NotLeader):
            await rig.schedule(made)
        assert len(await rig.claims()) == 1
        rig.client.faults = {}
        await rig.lead()
        await rig.bindings.sweep(first=True)
        assert not await rig.claims()
        await rig.check()
        await rig.delete_pod(made)


async def test_who_does_not_lead_answers_nothing(rig: Rig) -> None:
    made = await rig.add_pod(pod().app(gpu=1))
    rig.bindings.serving = False
    for call in (
        rig.bindings.filter(made, rig.names),
        rig.bindings.prioritize(made, rig.names),
        rig.bind(made, "node-0"),
    ):
        with pytest.raises(NotLeader):
            await call
    assert rig.client.writes == []


async def test_a_plain_pod_is_only_bound(rig: Rig) -> None:
    made = await rig.add_pod(pod().app(cpu="1"))
    assert not await rig.schedule(made)
    assert rig.client.writes == ["create binding"]


async def test_nodes_short_of_devices_are_told_apart_from_others(rig: Rig) -> None:
    await rig.add_node("old", 2, kubelet_version="v1.35.4")
    await rig.add_node("plugin", 0, allocatable={GPU: 4})
    made = await rig.add_pod(pod().app(gpu=3))
    found = await rig.bindings.filter(made, [*rig.names, "old", "plugin", "nowhere"])
    assert found.nodes == ["plugin"], (
        "its device plugin serves the Pod; whether it has enough is kube-scheduler's to say"
    )
    assert found.failed == {
        "node-0": f"NotEnoughDevices: {GPU}: 3",
        "node-1": f"NotEnoughDevices: {GPU}: 3",
        "old": "KubeletTooOld: its kubelet would start the Pod without its devices",
        "nowhere": "NodeUnknown: drabridge has not seen it yet",
    }
    await rig.bind(made, "plugin")
    assert not await rig.claims(), "a device plugin serves it there"
    assert rig.client.writes == ["create binding"]


async def test_a_pod_that_was_told_of_a_claim_comes_to_no_node_where_it_would_have_none(rig: Rig) -> None:
    """The API server keeps `extendedResourceClaimStatus`; the kubelet starts nothing until that claim is there."""
    await rig.add_node("plugin", 0, allocatable={GPU: 4})
    rig.client.faults = {3: Fault.REFUSED}
    made = await rig.add_pod(pod().app(gpu=2))
    other = await rig.add_pod(pod("other").app(gpu=2))
    with pytest.raises(Refused):
        await rig.schedule(made)
    (_, told) = await rig.pods()
    assert told["status"]["extendedResourceClaimStatus"]
    nodes = [*rig.names, "plugin"]
    found = await rig.bindings.filter(told, nodes)
    assert found.nodes == rig.names
    assert found.failed["plugin"].startswith("ClaimStaysOnPod: ")
    assert (await rig.bindings.filter(other, nodes)).nodes == nodes
    await rig.schedule(told)
    await rig.schedule(other)
    await rig.check()


async def test_a_filter_that_is_repeated_looks_only_at_nodes_that_changed(rig: Rig) -> None:
    first, second = [await rig.add_pod(pod(f"pod-{number}").app(gpu=1)) for number in range(2)]
    asked: list[str] = []
    allocate = rig.devices.allocate

    def counted(node: Any, *rest: Any) -> Any:
        asked.append(node.name)
        return allocate(node, *rest)

    rig.devices.allocate = counted  # type: ignore[method-assign]
    await rig.bindings.filter(first, rig.names)
    await rig.bindings.filter(second, rig.names)
    assert asked == rig.names
    await rig.schedule(first)
    asked.clear()
    await rig.bindings.filter(second, rig.names)
    assert asked == ["node-0"]


BAD_PODS = {
    "without a uid": {"metadata": {"name": "a", "namespace": "b"}, "spec": {}},
    "with a list for its metadata": {"metadata": [], "spec": {}},
    "with odd claim statuses": {
        "metadata": {"name": "a", "namespace": "b", "uid": "c"},
        "spec": {},
        "status": {"resourceClaimStatuses": [{}]},
    },
}


@pytest.mark.parametrize("raw", BAD_PODS.values(), ids=BAD_PODS)
async def test_a_pod_that_cannot_be_read_is_an_error_for_the_scheduler(rig: Rig, raw: Object) -> None:
    with pytest.raises(InvalidInput):
        await rig.bindings.filter(raw, rig.names)


async def test_a_pod_of_a_scheduling_group_is_refused_with_a_reason(rig: Rig) -> None:
    """API servers drop the field while its gate is off, so it is added to what kube-scheduler shows."""
    made = await rig.add_pod(pod().app(gpu=1))
    made["spec"]["schedulingGroup"] = {"podGroupName": "ring"}
    assert (await rig.schedule(made)).startswith("SchedulingGroup: ")


UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
FAULTS = st.dictionaries(st.integers(0, 60), st.sampled_from(Fault), max_size=25)


@settings(UNHURRIED, max_examples=40)
@given(faults=FAULTS, pods=st.integers(1, 4), late=st.integers(0, 6))
async def test_any_faults_in_any_order(bind_api: BindApi, faults: dict[int, Fault], pods: int, late: int) -> None:
    await any_faults(bind_api, faults, pods, late)


@pytest.mark.slow
@settings(UNHURRIED, max_examples=1000)
@given(faults=FAULTS, pods=st.integers(1, 4), late=st.integers(0, 6))
async def test_many_faults_in_any_order(bind_api: BindApi, faults: dict[int, Fault], pods: int, late: int) -> None:
    await any_faults(bind_api, faults, pods, late)


async def any_faults(bind_api: BindApi, faults: dict[int, Fault], pods: int, late: int) -> None:
    async with Rig.on(bind_api, metrics=METRICS) as rig:
        rig.client.faults = faults
        for number in range(pods):
            await rig.add_pod(pod(f"pod-{number}").app(gpu=1))
        for number in range(TRIES):
            await rig.settle(1)
            if number == late:
                await rig.client.deliver()
        rig.client.faults = {}
        await rig.client.deliver()
        await rig.settle()
        assert all(await rig.bound()), rig.client.writes
        await rig.check()


# --- binding conditions


@pytest_asyncio.fixture
async def slow(bind_api: BindApi) -> AsyncIterator[Rig]:
    """A rig whose only device has to be attached to its node, slow-1."""
    async with Rig.on(bind_api, {"slow-0": 0, "slow-1": 0}, metrics=METRICS) as rig:
        node = await bind_api.plane.api.call("GET", NODES.path(name="slow-1"))
        raw = kubelet.resource_slice(node, driver=DRIVER, pool="slow-1", devices=1)
        raw["spec"]["devices"][0] |= {
            "bindsToNode": True,
            "bindingConditions": ["example.com/attached"],
            "bindingFailureConditions": ["example.com/broken"],
        }
        made = await rig.write("POST", SLICES, raw, JSON)
        yield rig
        await bind_api.plane.api.call("DELETE", f"{SLICES}/{made['metadata']['name']}")


async def say(rig: Rig, condition: str) -> None:
    """Have the driver say something of the device."""
    (claim,) = await rig.claims()
    result = claim["status"]["allocation"]["devices"]["results"][0]
    place = {name: result[name] for name in ("driver", "pool", "device")}
    said = {
        "type": condition,
        "status": "True",
        "reason": "Said",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    await rig.patch_claim(claim, {"status": {"devices": [{**place, "conditions": [said]}]}})


async def test_a_pod_waits_on_its_node_while_its_devices_are_prepared(slow: Rig) -> None:
    made = await slow.add_pod(pod().app(gpu=1))
    with pytest.raises(Unavailable, match=r"slow-1/gpu-0: example\.com/attached"):
        await slow.schedule(made)
    assert len(await slow.claims()) == 1
    found = await slow.bindings.filter(made, slow.names)
    assert found.nodes == ["slow-1"]
    assert found.failed["slow-0"].startswith("DevicesBeingPrepared")
    await say(slow, "example.com/attached")
    assert await slow.schedule(made) == ""
    assert (await slow.bound())[0] == "slow-1"
    assert slow.client.writes.count("create ResourceClaim") == 1
    await slow.check()


async def test_devices_that_cannot_be_prepared_are_given_back_and_chosen_anew(slow: Rig) -> None:
    made = await slow.add_pod(pod().app(gpu=1))
    with pytest.raises(Unavailable):
        await slow.schedule(made)
    await say(slow, "example.com/broken")
    with pytest.raises(Unavailable, match=r"example\.com/attached"):
        await slow.schedule(made)
    assert slow.client.writes.count("create ResourceClaim") == 2
    assert slow.client.writes.count("delete ResourceClaim") == 1
    slow.now += 601
    await slow.bindings.sweep(first=False)
    assert not await slow.claims()
    await slow.check()


async def test_a_claim_that_was_released_while_its_devices_were_prepared_is_not_taken_for_granted(slow: Rig) -> None:
    made = await slow.add_pod(pod().app(gpu=1))
    with pytest.raises(Unavailable):
        await slow.schedule(made)
    (claim,) = await slow.claims()
    await slow.patch_claim(claim, {"status": {"allocation": None, "reservedFor": None}})
    with pytest.raises(Conflict, match="was released meanwhile"):
        await slow.bind(made, "slow-1")
    assert not await slow.claims()
    await slow.check()


# --- the Pod's other claims


async def test_named_and_extended_claims_are_allocated_together_or_not_at_all(rig: Rig) -> None:
    await rig.add_claim(claim("mine", count=2))
    made = await rig.add_pod(pod().app(gpu=1).claim("a", claim="mine"))
    assert await rig.schedule(made) == f"NotEnoughDevices: {GPU}: 1, ResourceClaim mine"
    await rig.add_node("large", 3)
    rig.names.append("large")
    assert await rig.schedule(made) == ""
    assert await rig.bound() == ["large"]
    await rig.check()


async def test_an_allocated_claim_is_shared_on_its_node_and_released_by_its_last_consumer(rig: Rig) -> None:
    await rig.add_claim(claim("shared"))
    made = [await rig.add_pod(pod(f"pod-{number}").app(gpu=1).claim("a", claim="shared")) for number in range(2)]
    assert await rig.schedule(made[0]) == ""
    found = await rig.bindings.filter(made[1], rig.names)
    assert found.nodes == []
    assert found.failed == {
        "node-0": f"NotEnoughDevices: {GPU}: 1",
        "node-1": "ClaimAllocatedElsewhere: ResourceClaim default/shared",
    }


@pytest.mark.parametrize("fault", [Fault.UNSENT, Fault.LOST, Fault.CONFLICT, Fault.LATE], ids=lambda one: one.name)
@pytest.mark.parametrize("write", range(6))
async def test_a_shared_claim_under_faults(bind_api: BindApi, write: int, fault: Fault) -> None:
    async with Rig.on(bind_api, {"large-0": 4, "large-1": 4}, metrics=METRICS) as rig:
        await rig.add_claim(claim("shared"))
        rig.client.faults = dict.fromkeys(range(write, write + 5), fault)
        for number in range(2):
            await rig.add_pod(pod(f"pod-{number}").app(gpu=1).claim("a", claim="shared"))
        await rig.settle()
        await rig.client.deliver()
        await rig.settle()
        shared = next(each for each in await rig.claims() if each["metadata"]["name"] == "shared")
        assert len(set(await rig.bound())) == 1
        assert {each["uid"] for each in shared["status"]["reservedFor"]} == {
            each["metadata"]["uid"] for each in await rig.pods()
        }
        await rig.check()


async def test_a_claim_with_all_its_consumers_takes_no_more(rig: Rig) -> None:
    consumers = [{"resource": "pods", "name": f"p{number}", "uid": f"u{number}"} for number in range(256)]
    full = claim("full", allocation={"devices": {"results": []}}, reservedFor=consumers)
    full["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    await rig.add_claim(full)
    made = await rig.add_pod(pod().app(cpu="1").claim("a", claim="full"))
    told = await rig.schedule(made)
    assert told.startswith("ClaimHasAllConsumers: ResourceClaim default/full has 256 consumers already. Cure: ")
    await rig.patch_claim(full, {"status": {"reservedFor": consumers[1:]}})
    assert await rig.schedule(made) == ""


CLAIMS_AWAITED = {
    "a claim that does not exist": (pod().app(gpu=1).claim("a", claim="absent"), "ClaimAwaited"),
    "a claim of a template that is not made yet": (pod().app(gpu=1).claim("a", template="t"), "ClaimAwaited"),
    "a claim that was made for another Pod": (
        pod()
        .app(gpu=1)
        .claim("a", template="t")
        .with_status(resourceClaimStatuses=[{"name": "a", "resourceClaimName": "foreign"}]),
        "ClaimOfAnotherOwner",
    ),
}


@pytest.mark.parametrize(("builder", "reason"), CLAIMS_AWAITED.values(), ids=CLAIMS_AWAITED)
async def test_a_pod_waits_for(rig: Rig, builder: PodBuilder, reason: str) -> None:
    await rig.add_claim(claim("foreign", owner="somebody"))
    assert (await rig.schedule(await rig.add_pod(builder))).startswith(f"{reason}: ")
    assert rig.client.writes == []


# --- devices


async def test_a_taint_rule_keeps_pods_off_the_devices_it_selects(rig: Rig) -> None:
    taint = {"key": "example.com/sick", "effect": "NoSchedule"}
    body = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"pool": "node-0"}, "taint": taint}}
    made = await rig.add_pod(pod().app(gpu=1))
    assert (await rig.bindings.filter(made, rig.names)).nodes == ["node-0", "node-1"]
    assert rig.devices.taint((TaintRule.of(body),))
    assert (await rig.bindings.filter(made, rig.names)).nodes == ["node-1"]
    assert not rig.devices.taint((TaintRule.of(body),))
    assert rig.devices.taint(())
    assert (await rig.bindings.filter(made, rig.names)).nodes == ["node-0", "node-1"]


async def test_two_claims_with_one_device_are_seen_and_the_device_is_free_when_both_are_gone(rig: Rig) -> None:
    made = await rig.add_pod(pod().app(gpu=2))
    assert not await rig.schedule(made)
    (ours,) = await rig.claims()
    results = [{**each, "request": "r"} for each in ours["status"]["allocation"]["devices"]["results"]]
    stolen = await rig.add_claim(claim("stolen", allocation={"devices": {"results": results}}))
    assert rig.devices.overlaps == {"default/stolen": "gpu.example.com/node-0/gpu-0, gpu.example.com/node-0/gpu-1"}
    name = ours["metadata"]["name"]
    assert rig.devices.holders("default/stolen") == {f"default/{name}"}
    await rig.delete_claim(ours)
    assert rig.devices.overlaps == {}
    second = await rig.add_pod(pod("second").app(gpu=1))
    assert (await rig.bindings.filter(second, rig.names)).nodes == ["node-1"]
    await rig.patch_claim(stolen, {"status": {"allocation": None}})
    assert (await rig.bindings.filter(second, rig.names)).nodes == ["node-0", "node-1"]


async def test_a_claim_that_holds_one_device_twice_is_told_as_well(rig: Rig) -> None:
    result = {"request": "r", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}
    odd = claim("odd", allocation={"devices": {"results": [result, result]}})
    await rig.add_claim(odd)
    assert rig.devices.overlaps == {"default/odd": "gpu.example.com/node-0/gpu-0"}
    assert rig.devices.room("node-0") == (2, 1)


async def test_scores_follow_the_strategy(rig: Rig) -> None:
    made = await rig.add_pod(pod().app(gpu=1))
    assert not await rig.schedule(made)
    for strategy, scores in (
        (Strategy.FIRST_FIT, {"node-0": 1, "node-1": 1}),
        (Strategy.PACK, {"node-0": 5, "node-1": 1}),
        (Strategy.SPREAD, {"node-0": 5, "node-1": 10}),
    ):
        await rig.set_policy(strategy=strategy.value)
        assert await rig.bindings.prioritize(made, rig.names) == scores


REFUSED_BY_POLICY = {
    "a policy that is off": ({"delivery": "Off"}, "PolicyOff"),
    "a policy for other Pods": ({"podSelector": {"matchLabels": {"team": "a"}}}, "NotSelected"),
}


@pytest.mark.parametrize(("spec", "reason"), REFUSED_BY_POLICY.values(), ids=REFUSED_BY_POLICY)
async def test_a_pod_is_not_let_run_without_its_devices_under(rig: Rig, spec: Object, reason: str) -> None:
    await rig.set_policy(**spec)
    assert (await rig.schedule(await rig.add_pod(pod().app(gpu=1)))).startswith(reason)


ODD_QUANTITIES = {
    "a fraction by implicit name": (pod().app(**{IMPLICIT_GPU: "1500m"}), "QuantityNotWhole"),
    "more than a claim holds": (pod().app(gpu=33), "TooManyDevices"),
}


@pytest.mark.parametrize(("builder", "reason"), ODD_QUANTITIES.values(), ids=ODD_QUANTITIES)
async def test_refused_for(rig: Rig, builder: PodBuilder, reason: str) -> None:
    assert (await rig.schedule(await rig.add_pod(builder))).startswith(reason)


async def test_names_of_one_pod_are_split_between_device_plugin_and_dra(rig: Rig) -> None:
    await rig.add_node("mixed", 2, allocatable={IMPLICIT_GPU: 4})
    made = await rig.add_pod(pod().app(**{GPU: 1, IMPLICIT_GPU: 3}))
    assert (await rig.bindings.filter(made, [*rig.names, "mixed"])).nodes == ["mixed"]
    await rig.bind(made, "mixed")
    (found,) = await rig.claims()
    assert [each["exactly"]["count"] for each in found["spec"]["devices"]["requests"]] == [1]
    (bound,) = await rig.pods()
    (shown,) = bound["status"]["extendedResourceClaimStatus"]["requestMappings"]
    assert shown["resourceName"] == GPU
    await rig.check()
