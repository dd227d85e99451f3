"""A bind under faults: each write failing in each way, one after the other, and requests that arrive much later.

The end that is asked for is always the same: the Pod is bound once with devices of its own, nothing is allocated twice,
and no claim is left over.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bind_rig import TRIES, Rig
from bind_world import Fault, Object
from builders import GPU, IMPLICIT_GPU, PodBuilder, pod
from drabridge.core.bind.podclaims import special_name
from drabridge.core.bind.taints import TaintRule
from drabridge.core.errors import Conflict, DrabridgeError, InvalidInput, NotLeader, Refused, Unavailable
from drabridge.core.policy import Strategy
from drabridge.delivery.metrics import Metrics
from upstream import kubelet

METRICS = Metrics()


@pytest.fixture
def rig() -> Rig:
    return Rig(metrics=METRICS)


def bound(raw: Object) -> str:
    return str(raw["spec"].get("nodeName", ""))


async def test_a_bind_is_four_writes(rig: Rig) -> None:
    made = rig.add_pod(pod().app(gpu=2))
    assert not await rig.schedule(made)
    assert rig.world.writes == [
        "create ResourceClaim",
        "patch ResourceClaim/status",
        "patch Pod/status",
        "create binding",
    ]
    assert bound(rig.world.pods()[0]) == "node-0"
    rig.check()


WRITES = {"claim": 0, "claim status": 1, "pod status": 2, "binding": 3}


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("write", WRITES)
async def test_one_fault_at_each_write(rig: Rig, write: str, fault: Fault) -> None:
    rig.world.faults = {WRITES[write]: fault}
    made = rig.add_pod(pod().app(gpu=2))
    await rig.settle()
    rig.world.deliver()
    await rig.settle()
    assert bound(rig.world.pods()[0]), rig.world.writes
    assert made["metadata"]["uid"]
    rig.check()


@pytest.mark.parametrize("fault", [Fault.UNSENT, Fault.LOST, Fault.LATE], ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("write", WRITES)
async def test_an_api_server_that_does_not_answer_for_long(rig: Rig, write: str, fault: Fault) -> None:
    first = WRITES[write]
    rig.world.faults = dict.fromkeys(range(first, first + 12), fault)
    rig.add_pod(pod().app(gpu=2))
    await rig.settle()
    rig.world.deliver()
    await rig.settle()
    assert bound(rig.world.pods()[0]), rig.world.writes
    rig.check()


async def test_a_binding_that_arrives_after_its_claim_was_taken_back_fails(rig: Rig) -> None:
    rig.world.faults = dict.fromkeys(range(3, 7), Fault.LATE)
    made = rig.add_pod(pod().app(gpu=2))
    with pytest.raises(DrabridgeError):
        await rig.schedule(made)
    assert not rig.world.claims()
    rig.world.deliver()
    assert not bound(rig.world.pods()[0])
    await rig.settle()
    assert bound(rig.world.pods()[0])
    rig.check()


async def test_two_binds_at_once_do_not_get_the_same_devices(rig: Rig) -> None:
    made = [rig.add_pod(pod(f"pod-{number}").app(gpu=2)) for number in range(2)]
    for each in made:
        assert (await rig.bindings.filter(each, rig.names)).nodes == rig.names
    calls = [
        rig.bindings.bind("default", f"pod-{number}", made[number]["metadata"]["uid"], "node-0") for number in range(2)
    ]
    won, lost = await asyncio.gather(*calls, return_exceptions=True)
    assert won is None
    assert isinstance(lost, Conflict)
    assert "DevicesTakenMeanwhile" in str(lost)
    assert len(rig.world.writes) == 4, "the second one has nothing to take back"
    await rig.settle()
    assert sorted(map(bound, rig.world.pods())) == ["node-0", "node-1"]
    rig.check()


async def test_a_quota_that_refuses_the_claim_is_said_and_nothing_is_left(rig: Rig) -> None:
    rig.world.faults = {0: Fault.REFUSED}
    made = rig.add_pod(pod().app(gpu=2))
    with pytest.raises(Refused, match="exceeded quota"):
        await rig.schedule(made)
    assert not rig.world.claims()
    assert (await rig.bindings.filter(made, rig.names)).nodes == rig.names
    rig.check()


async def test_a_bind_called_twice_is_one_bind(rig: Rig) -> None:
    made = rig.add_pod(pod().app(gpu=2))
    await rig.bindings.filter(made, rig.names)
    call = ("default", "web", made["metadata"]["uid"])
    assert await asyncio.gather(rig.bindings.bind(*call, "node-1"), rig.bindings.bind(*call, "node-1")) == [None, None]
    assert len(rig.world.writes) == 4
    rig.check()
    # And again, when it is over: the answer may have been lost.
    await rig.bindings.bind(*call, "node-1")
    rig.check()
    with pytest.raises(Conflict, match="bound to node-1"):
        await rig.bindings.bind(*call, "node-0")
    rig.check()


async def test_while_a_pod_is_bound_to_one_node_it_is_not_bound_to_another(rig: Rig) -> None:
    made = rig.add_pod(pod().app(gpu=2))
    call = ("default", "web", made["metadata"]["uid"])
    first = asyncio.create_task(rig.bindings.bind(*call, "node-1"))
    await asyncio.sleep(0)
    with pytest.raises(Conflict, match="is being bound to node-1"):
        await rig.bindings.bind(*call, "node-0")
    await first
    rig.check()


async def test_a_pod_that_was_deleted_between_filter_and_bind_leaves_nothing(rig: Rig) -> None:
    made = rig.add_pod(pod().app(gpu=2))
    await rig.bindings.filter(made, rig.names)
    del rig.world.objects["Pod", "default/web"]
    with pytest.raises(DrabridgeError):
        await rig.bindings.bind("default", "web", made["metadata"]["uid"], "node-0")
    assert not rig.world.claims()
    rig.check()


async def test_a_new_pod_of_the_same_name_is_not_the_one_that_was_filtered(rig: Rig) -> None:
    made = rig.add_pod(pod().app(gpu=2))
    await rig.bindings.filter(made, rig.names)
    rig.add_pod(pod().meta(uid="another").app(gpu=2))
    with pytest.raises(DrabridgeError):
        await rig.bindings.bind("default", "web", made["metadata"]["uid"], "node-0")
    assert not rig.world.claims()
    assert not bound(rig.world.pods()[0])
    await rig.settle()
    rig.check()


async def test_a_claim_of_the_name_that_is_somebody_elses_stays_and_the_pod_is_told(rig: Rig) -> None:
    made = rig.add_pod(pod().app(gpu=1))
    name = special_name(made["metadata"]["uid"])
    foreign = {"metadata": {"namespace": "default", "name": name}, "spec": {"devices": {}}}
    rig.world.add("ResourceClaim", foreign)
    text = await rig.schedule(made)
    assert "ClaimOfAnotherOwner" in text
    assert name in text
    assert rig.world.writes == []


async def test_a_claim_left_by_a_leader_that_died_is_taken_back_by_the_next_one(rig: Rig) -> None:
    for writes in (1, 2, 3):
        made = rig.add_pod(pod(f"pod-{writes}").app(gpu=2))
        rig.world.writes.clear()
        rig.world.faults = {writes: Fault.OVER}
        with pytest.raises(NotLeader):
            await rig.schedule(made)
        assert len(rig.world.claims()) == 1
        rig.world.faults = {}
        rig.lead()
        await rig.bindings.sweep(first=True)
        assert not rig.world.claims()
        rig.check()
        del rig.world.objects["Pod", f"default/pod-{writes}"]


async def test_who_does_not_lead_answers_nothing(rig: Rig) -> None:
    made = rig.add_pod(pod().app(gpu=1))
    rig.bindings.serving = False
    for call in (
        rig.bindings.filter(made, rig.names),
        rig.bindings.prioritize(made, rig.names),
        rig.bindings.bind("default", "web", made["metadata"]["uid"], "node-0"),
    ):
        with pytest.raises(NotLeader):
            await call
    assert rig.world.writes == []


async def test_a_plain_pod_is_only_bound(rig: Rig) -> None:
    made = rig.add_pod(pod().app(cpu="1"))
    assert not await rig.schedule(made)
    assert rig.world.writes == ["create binding"]


async def test_nodes_short_of_devices_are_told_apart_from_others(rig: Rig) -> None:
    rig.add_node("old", 2)
    node = rig.world.objects["Node", "old"]
    node["status"]["nodeInfo"]["kubeletVersion"] = "v1.35.4"
    rig.world.add("Node", node)
    rig.add_node("plugin", 0, allocatable={GPU: "4"})
    made = rig.add_pod(pod().app(gpu=3))
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
    await rig.bindings.bind("default", "web", made["metadata"]["uid"], "plugin")
    assert not rig.world.claims(), "a device plugin serves it there"
    assert rig.world.writes == ["create binding"]


async def test_a_filter_that_is_repeated_looks_only_at_nodes_that_changed(rig: Rig) -> None:
    first, second = (rig.add_pod(pod(f"pod-{number}").app(gpu=1)) for number in range(2))
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
    made = rig.add_pod(pod().app(gpu=1).with_spec(schedulingGroup={"podGroupName": "ring"}))
    assert (await rig.schedule(made)).startswith("SchedulingGroup: ")


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    faults=st.dictionaries(st.integers(0, 60), st.sampled_from(Fault), max_size=25),
    pods=st.integers(1, 4),
    late=st.integers(0, 6),
)
async def test_any_faults_in_any_order(faults: dict[int, Fault], pods: int, late: int) -> None:
    rig = Rig(metrics=METRICS)
    rig.world.faults = faults
    for number in range(pods):
        rig.add_pod(pod(f"pod-{number}").app(gpu=1))
    for number in range(TRIES):
        await rig.settle(1)
        if number == late:
            rig.world.deliver()
    rig.world.faults = {}
    rig.world.deliver()
    await rig.settle()
    assert all(bound(raw) for raw in rig.world.pods()), rig.world.writes
    rig.check()


# --- binding conditions


def rig_with_binding_conditions() -> Rig:
    rig = Rig(nodes=2, devices=0, metrics=METRICS)
    node = rig.world.objects["Node", "node-1"]
    raw = kubelet.resource_slice(node, driver="gpu.example.com", pool="node-1", devices=1)
    raw["spec"]["devices"][0] |= {
        "bindsToNode": True,
        "bindingConditions": ["example.com/attached"],
        "bindingFailureConditions": ["example.com/broken"],
    }
    rig.world.add("ResourceSlice", raw)
    return rig


def say(rig: Rig, condition: str) -> None:
    """Have the driver say something of the device."""
    (claim,) = rig.world.claims()
    result = claim["status"]["allocation"]["devices"]["results"][0]
    place = {name: result[name] for name in ("driver", "pool", "device")}
    claim["status"]["devices"] = [{**place, "conditions": [{"type": condition, "status": "True"}]}]
    rig.world._stored("ResourceClaim", f"default/{claim['metadata']['name']}")


async def test_a_pod_waits_on_its_node_while_its_devices_are_prepared() -> None:
    rig = rig_with_binding_conditions()
    made = rig.add_pod(pod().app(gpu=1))
    with pytest.raises(Unavailable, match=r"node-1/gpu-0: example\.com/attached"):
        await rig.schedule(made)
    assert len(rig.world.claims()) == 1
    found = await rig.bindings.filter(made, rig.names)
    assert found.nodes == ["node-1"]
    assert found.failed["node-0"].startswith("DevicesBeingPrepared")
    say(rig, "example.com/attached")
    assert await rig.schedule(made) == ""
    assert bound(rig.world.pods()[0]) == "node-1"
    assert rig.world.writes.count("create ResourceClaim") == 1
    rig.check()


async def test_devices_that_cannot_be_prepared_are_given_back_and_chosen_anew() -> None:
    rig = rig_with_binding_conditions()
    made = rig.add_pod(pod().app(gpu=1))
    with pytest.raises(Unavailable):
        await rig.schedule(made)
    say(rig, "example.com/broken")
    with pytest.raises(Unavailable, match=r"example\.com/attached"):
        await rig.schedule(made)
    assert rig.world.writes.count("create ResourceClaim") == 2
    assert rig.world.writes.count("delete ResourceClaim") == 1
    rig.now += 601
    await rig.bindings.sweep(first=False)
    assert not rig.world.claims()
    rig.check()


async def test_a_claim_that_was_released_while_its_devices_were_prepared_is_not_taken_for_granted() -> None:
    rig = rig_with_binding_conditions()
    made = rig.add_pod(pod().app(gpu=1))
    with pytest.raises(Unavailable):
        await rig.schedule(made)
    claim = rig.world.claims()[0]
    del claim["status"]
    rig.world._stored("ResourceClaim", f"default/{claim['metadata']['name']}")
    with pytest.raises(Conflict, match="was released meanwhile"):
        await rig.bindings.bind("default", "web", made["metadata"]["uid"], "node-1")
    assert not rig.world.claims()
    rig.check()


# --- the Pod's other claims


def claim(name: str, *, count: int = 1, owner: str = "", **status: Any) -> Object:
    metadata: Object = {"namespace": "default", "name": name}
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    spec = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
    return {"metadata": metadata, "spec": spec} | ({"status": status} if status else {})


async def test_named_and_extended_claims_are_allocated_together_or_not_at_all(rig: Rig) -> None:
    rig.world.add("ResourceClaim", claim("mine", count=2))
    made = rig.add_pod(pod().app(gpu=1).claim("a", claim="mine"))
    assert await rig.schedule(made) == f"NotEnoughDevices: {GPU}: 1, ResourceClaim mine"
    rig.add_node("node-2", 3)
    rig.names.append("node-2")
    assert await rig.schedule(made) == ""
    assert bound(rig.world.pods()[0]) == "node-2"
    rig.check()


async def test_an_allocated_claim_is_shared_on_its_node_and_released_by_its_last_consumer(rig: Rig) -> None:
    rig.world.add("ResourceClaim", claim("shared"))
    made = [rig.add_pod(pod(f"pod-{number}").app(gpu=1).claim("a", claim="shared")) for number in range(2)]
    assert await rig.schedule(made[0]) == ""
    found = await rig.bindings.filter(made[1], rig.names)
    assert found.nodes == []
    assert found.failed == {
        "node-0": f"NotEnoughDevices: {GPU}: 1",
        "node-1": "ClaimAllocatedElsewhere: ResourceClaim default/shared",
    }


@pytest.mark.parametrize("fault", [Fault.UNSENT, Fault.LOST, Fault.CONFLICT, Fault.LATE], ids=lambda one: one.name)
@pytest.mark.parametrize("write", range(6))
async def test_a_shared_claim_under_faults(write: int, fault: Fault) -> None:
    rig = Rig(nodes=2, devices=4, metrics=METRICS)
    rig.world.add("ResourceClaim", claim("shared"))
    rig.world.faults = dict.fromkeys(range(write, write + 5), fault)
    for number in range(2):
        rig.add_pod(pod(f"pod-{number}").app(gpu=1).claim("a", claim="shared"))
    await rig.settle()
    rig.world.deliver()
    await rig.settle()
    shared = next(each for each in rig.world.claims() if each["metadata"]["name"] == "shared")
    assert len({bound(each) for each in rig.world.pods()}) == 1
    assert {each["uid"] for each in shared["status"]["reservedFor"]} == {
        each["metadata"]["uid"] for each in rig.world.pods()
    }
    rig.check()


async def test_a_claim_with_all_its_consumers_takes_no_more(rig: Rig) -> None:
    consumers = [{"resource": "pods", "name": f"p{number}", "uid": f"u{number}"} for number in range(256)]
    full = claim("full", allocation={"devices": {"results": []}}, reservedFor=consumers)
    full["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    rig.world.add("ResourceClaim", full)
    made = rig.add_pod(pod().app(cpu="1").claim("a", claim="full"))
    told = await rig.schedule(made)
    assert told.startswith("ClaimHasAllConsumers: ResourceClaim default/full has 256 consumers already. Cure: ")
    del full["status"]["reservedFor"][7]
    rig.world._stored("ResourceClaim", "default/full")
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
    rig.world.add("ResourceClaim", claim("foreign", owner="somebody"))
    assert (await rig.schedule(rig.add_pod(builder))).startswith(f"{reason}: ")
    assert rig.world.writes == []


# --- devices


async def test_a_taint_rule_keeps_pods_off_the_devices_it_selects(rig: Rig) -> None:
    taint = {"key": "example.com/sick", "effect": "NoSchedule"}
    body = {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"pool": "node-0"}, "taint": taint}}
    made = rig.add_pod(pod().app(gpu=1))
    assert (await rig.bindings.filter(made, rig.names)).nodes == ["node-0", "node-1"]
    assert rig.devices.taint((TaintRule.of(body),))
    assert (await rig.bindings.filter(made, rig.names)).nodes == ["node-1"]
    assert not rig.devices.taint((TaintRule.of(body),))
    assert rig.devices.taint(())
    assert (await rig.bindings.filter(made, rig.names)).nodes == ["node-0", "node-1"]


async def test_two_claims_with_one_device_are_seen_and_the_device_is_free_when_both_are_gone(rig: Rig) -> None:
    made = rig.add_pod(pod().app(gpu=2))
    assert not await rig.schedule(made)
    ours = rig.world.claims()[0]
    stolen = claim("stolen", **{**ours["status"], "reservedFor": []})
    stolen["metadata"]["finalizers"] = ["example.com/x"]
    rig.world.add("ResourceClaim", stolen)
    assert rig.devices.overlaps == {"default/stolen": "gpu.example.com/node-0/gpu-0, gpu.example.com/node-0/gpu-1"}
    name = ours["metadata"]["name"]
    assert rig.devices.holders("default/stolen") == {f"default/{name}"}
    del rig.world.objects["ResourceClaim", f"default/{name}"]
    rig.world._watched("ResourceClaim", ours, deleted=True)
    assert rig.devices.overlaps == {}
    second = rig.add_pod(pod("second").app(gpu=1))
    assert (await rig.bindings.filter(second, rig.names)).nodes == ["node-1"]
    del stolen["status"]
    rig.world._stored("ResourceClaim", "default/stolen")
    assert (await rig.bindings.filter(second, rig.names)).nodes == ["node-0", "node-1"]


async def test_a_claim_that_holds_one_device_twice_is_told_as_well(rig: Rig) -> None:
    result = {"request": "r", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}
    odd = claim("odd", allocation={"devices": {"results": [result, result]}})
    odd["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    rig.world.add("ResourceClaim", odd)
    assert rig.devices.overlaps == {"default/odd": "gpu.example.com/node-0/gpu-0"}
    assert rig.devices.in_use("node-0") == (1, 2)


async def test_an_allocation_that_cannot_be_read_does_not_stop_anybody(rig: Rig) -> None:
    odd = claim("odd", allocation={"devices": {"results": [{"request": "r", "driver": 3}]}})
    odd["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    rig.world.add("ResourceClaim", odd)
    rig.add_pod(pod().app(gpu=1))
    await rig.settle()
    assert bound(rig.world.pods()[0])


async def test_scores_follow_the_strategy(rig: Rig) -> None:
    made = rig.add_pod(pod().app(gpu=1))
    assert not await rig.schedule(made)
    for strategy, scores in (
        (Strategy.FIRST_FIT, {"node-0": 0, "node-1": 0}),
        (Strategy.PACK, {"node-0": 5, "node-1": 0}),
        (Strategy.SPREAD, {"node-0": 5, "node-1": 10}),
    ):
        spec = {"resourceName": GPU, "devices": [{"deviceClassName": "gpu"}], "strategy": strategy.value}
        metadata = {"name": "gpu", "resourceVersion": str(next(rig.world._versions))}
        rig.caches.policies.seen({"metadata": metadata, "spec": spec})
        assert await rig.bindings.prioritize(made, rig.names) == scores


REFUSED_BY_POLICY = {
    "a policy that is off": ({"delivery": "Off"}, "PolicyOff"),
    "a policy for other Pods": ({"podSelector": {"matchLabels": {"team": "a"}}}, "NotSelected"),
}


@pytest.mark.parametrize(("spec", "reason"), REFUSED_BY_POLICY.values(), ids=REFUSED_BY_POLICY)
async def test_a_pod_is_not_let_run_without_its_devices_under(rig: Rig, spec: Object, reason: str) -> None:
    body = {"resourceName": GPU, "devices": [{"deviceClassName": "gpu"}], **spec}
    metadata = {"name": "gpu", "resourceVersion": str(next(rig.world._versions))}
    rig.caches.policies.seen({"metadata": metadata, "spec": body})
    assert (await rig.schedule(rig.add_pod(pod().app(gpu=1)))).startswith(reason)


ODD_QUANTITIES = {
    "a fraction by implicit name": (pod().app(**{IMPLICIT_GPU: "1500m"}), "QuantityNotWhole"),
    "more than a claim holds": (pod().app(gpu=33), "TooManyDevices"),
}


@pytest.mark.parametrize(("builder", "reason"), ODD_QUANTITIES.values(), ids=ODD_QUANTITIES)
async def test_refused_for(rig: Rig, builder: PodBuilder, reason: str) -> None:
    assert (await rig.schedule(rig.add_pod(builder))).startswith(reason)


async def test_names_of_one_pod_are_split_between_device_plugin_and_dra(rig: Rig) -> None:
    rig.add_node("mixed", 2, allocatable={IMPLICIT_GPU: "4"})
    made = rig.add_pod(pod().app(**{GPU: 1, IMPLICIT_GPU: 3}))
    assert (await rig.bindings.filter(made, [*rig.names, "mixed"])).nodes == ["mixed"]
    await rig.bindings.bind("default", "web", made["metadata"]["uid"], "mixed")
    (found,) = rig.world.claims()
    assert [each["exactly"]["count"] for each in found["spec"]["devices"]["requests"]] == [1]
    (shown,) = rig.world.pods()[0]["status"]["extendedResourceClaimStatus"]["requestMappings"]
    assert shown["resourceName"] == GPU
    rig.check()
