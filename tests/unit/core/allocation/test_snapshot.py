"""Snapshots: what is derived step by step equals what is built at once, and answers follow the changes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from allocation_shapes import MODEL, NODE, claim, cluster, device, device_class, match, mig, plain, request, slice_of
from drabridge.core.allocation.allocate import allocate
from drabridge.core.allocation.claims import Claim, claims_of
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.outcomes import Allocated, Unfit
from drabridge.core.allocation.passes import fits
from drabridge.core.allocation.settings import Settings
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState, Holding
from drabridge.core.errors import DrabridgeError

CLASSES = [device_class()]
ONE = claims_of([claim(request("r"))])
PAIR = claims_of([claim(request("r", 2, MODEL), constraints=[match("numa")])])


def node(name: str, **labels: str) -> Node:
    return Node.of({"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}}})


def outcome(snapshot: Snapshot, state: AllocatedState, where: Node, claims: tuple[Claim, ...]) -> Any:
    try:
        found = allocate(snapshot, state, where, claims)
    except DrabridgeError as error:
        return str(error)
    return found.results if isinstance(found, Allocated) else type(found).__name__


def random_slice(dice: random.Random, name: str) -> dict[str, Any]:
    place: dict[str, Any] = dice.choice(
        [{"nodeName": "node-0"}, {"nodeName": "node-1"}, {"nodeName": "node-2"}, {"allNodes": True}]
    )
    devices = [device(f"{name}-{i}", model="a100", numa=dice.randrange(2)) for i in range(dice.randrange(3))]
    found = slice_of(devices, name=name, pool=f"pool-{dice.randrange(3)}", count=dice.choice([1, 1, 2]), place=place)
    found["spec"]["pool"]["generation"] = dice.choice([1, 1, 2])
    return found


@pytest.mark.parametrize("seed", range(25))
def test_a_derived_snapshot_answers_as_one_that_is_built_at_once(seed: int) -> None:
    dice = random.Random(seed)
    nodes = [node(f"node-{i}") for i in range(3)]
    slices: dict[str, dict[str, Any]] = {}
    snapshot = Snapshot.of([], CLASSES)
    state = AllocatedState()
    held = 0
    for _ in range(30):
        name = f"s-{dice.randrange(6)}"
        if dice.randrange(5) == 0:
            slices.pop(name, None)
            snapshot = snapshot.without_slice(name)
        else:
            raw = random_slice(dice, name)
            slices[name] = raw
            snapshot = snapshot.with_slice(raw)
        if dice.randrange(3) == 0:
            held += 1
            holding = Holding("gpu.example.com", f"pool-{dice.randrange(3)}", f"s-{dice.randrange(6)}-0")
            try:
                state = state.commit(f"default/{held}", [holding])
            except DrabridgeError:
                state = state.release(next(iter(sorted(state.claims()))))
        built = Snapshot.of(slices.values(), CLASSES)
        for claims in (ONE, PAIR):
            single = [outcome(snapshot, state, each, claims) for each in nodes]
            assert single == [outcome(built, state, each, claims) for each in nodes]
            if not any(isinstance(found, str) and found != "Unfit" for found in single):
                passed = fits(snapshot, state, nodes, claims)
                assert [each in passed.fitting for each in nodes] == [found != "Unfit" for found in single]


def test_a_pass_follows_commits_and_slices_without_looking_at_all_nodes_again() -> None:
    raw = cluster(20)
    nodes = [node(f"node-{i}") for i in range(20)]
    snapshot, state = Snapshot.of(raw, CLASSES), AllocatedState()
    claims = claims_of([claim(request("r", 8))])
    assert len(fits(snapshot, state, nodes, claims).fitting) == 20
    state = state.commit("default/a", [Holding("gpu.example.com", "node-3", "gpu-0")])
    found = fits(snapshot, state, nodes, claims)
    assert [each.name for each, _ in found.others] == ["node-3"]
    assert isinstance(found.others[0][1], Unfit)
    raw[5]["spec"]["devices"].pop()
    snapshot = snapshot.with_slice(raw[5])
    assert [each.name for each, _ in fits(snapshot, state, nodes, claims).others] == ["node-3", "node-5"]
    state = state.release("default/a")
    assert [each.name for each, _ in fits(snapshot, state, nodes, claims).others] == ["node-5"]
    snapshot = snapshot.with_slice(slice_of(plain(8), name="net", pool="net", place={"allNodes": True}))
    assert fits(snapshot, state, nodes, claims).others == ()
    for i in range(100):  # more changes than are remembered
        state = state.commit(f"default/c{i}", [Holding("other.example.com", "p", f"d{i}")])
    assert fits(snapshot, state, nodes, claims).others == ()
    snapshot = snapshot.without_slice("net").without_slice("never was")
    assert [each.name for each, _ in fits(snapshot, state, nodes, claims).others] == ["node-5"]


def test_classes_come_and_go() -> None:
    snapshot, state = Snapshot.of(cluster(1), []), AllocatedState()
    where = node("node-0")
    assert "could not retrieve device class gpu" in outcome(snapshot, state, where, ONE)
    assert outcome(snapshot.with_class(CLASSES[0]), state, where, ONE)[0]["devices"]["results"][0]["device"] == "gpu-0"
    stricter = device_class("gpu", "gpu.example.com", "false")
    assert outcome(snapshot.with_class(stricter), state, where, ONE) == "Unfit"
    assert "could not retrieve" in outcome(snapshot.with_class(stricter).without_class("gpu"), state, where, ONE)


def test_labels_of_a_node_may_change() -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}]}
    snapshot = Snapshot.of([slice_of(plain(1), place={"nodeSelector": selector})], CLASSES)
    assert outcome(snapshot, AllocatedState(), node("n"), ONE) == "Unfit"
    assert outcome(snapshot, AllocatedState(), node("n", gpu="yes"), ONE) != "Unfit"
    assert outcome(snapshot, AllocatedState(), node("n"), ONE) == "Unfit"


def test_nodes_of_one_shape_share_what_was_found_out() -> None:
    snapshot = Snapshot.of(cluster(3), CLASSES)
    for i in range(3):
        allocate(snapshot, AllocatedState(), node(f"node-{i}"), PAIR)
    assert len(snapshot.findings.shapes) == 1
    assert len(snapshot.findings.kinds) == 2  # of two NUMA nodes; serial numbers make no kinds


def test_a_claim_that_is_allocated_on_one_node_of_a_partitioned_pool_is_seen_on_another() -> None:
    raw = mig(1)
    for each in raw:
        each["spec"] |= {"perDeviceNodeSelection": True}
        del each["spec"]["nodeName"]
        for number, found in enumerate(each["spec"].get("devices", ())):
            found["nodeName"] = f"node-{number % 2}"
    snapshot = Snapshot.of(raw, CLASSES)
    state = AllocatedState().commit("default/a", [Holding("gpu.example.com", NODE, "gpu-0-7g-0")])
    assert outcome(snapshot, AllocatedState(), node("node-1"), ONE) != "Unfit"
    assert outcome(snapshot, state, node("node-1"), ONE) == "Unfit"


def test_settings_have_answers_of_their_own() -> None:
    snapshot = Snapshot.of(cluster(1), CLASSES)
    claims = claims_of([claim(request("r", 9))])
    undecided = Settings(budget=3)
    first = allocate(snapshot, AllocatedState(), node("node-0"), claims, undecided)
    assert type(first).__name__ == "Undecided"
    assert isinstance(allocate(snapshot, AllocatedState(), node("node-0"), claims), Unfit)
    assert allocate(snapshot, AllocatedState(), node("node-0"), claims, undecided) == first


def test_a_caller_can_end_a_search_and_ask_again() -> None:
    snapshot = Snapshot.of(cluster(1, 200), CLASSES)
    claims = claims_of([claim(request(f"r{i}", 32), name=f"c{i}") for i in range(7)])
    causes = iter([None, "the caller went away"])
    found = allocate(snapshot, AllocatedState(), node("node-0"), claims, interrupt=lambda: next(causes))
    assert type(found).__name__ == "Undecided"
    assert getattr(found, "error", "") == "filter operation aborted: the caller went away"
    passed = fits(snapshot, AllocatedState(), [node("node-0")], claims, interrupt=lambda: "gone")
    assert [type(each).__name__ for _, each in passed.others] == ["Undecided"]
    assert isinstance(allocate(snapshot, AllocatedState(), node("node-0"), claims), Unfit)


def allocated(name: str, *values: str) -> dict[str, Any]:
    selector = {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [*values]}]}]
    }
    kept = {"devices": {"results": [{"request": "r", "driver": "d", "pool": "p", "device": "x"}]}}
    return {**claim(request("r"), name=name), "status": {"allocation": {**kept, "nodeSelector": selector}}}


def test_allocated_claims_keep_their_allocation_and_their_node() -> None:
    snapshot, state = Snapshot.of(cluster(2), CLASSES), AllocatedState()
    nodes = [node("node-0"), node("node-1")]
    both = claims_of([claim(request("r"), name="new"), allocated("old", "node-1")])
    assert isinstance(allocate(snapshot, state, nodes[0], both), Unfit)
    found = allocate(snapshot, state, nodes[1], both)
    assert isinstance(found, Allocated)
    assert [result["devices"]["results"][0]["device"] for result in found.results] == ["gpu-0", "x"]
    passed = fits(snapshot, state, nodes, both)
    assert passed.fitting == (nodes[1],)
    assert [each for each, _ in passed.others] == [nodes[0]]
    too_many = claims_of([claim(request("r", 9), name="new"), allocated("old", "node-1")])
    assert isinstance(allocate(snapshot, state, nodes[1], too_many), Unfit)
    assert fits(snapshot, state, nodes, too_many).fitting == ()
    for broken in (allocated("old", "a", "b"), {**claim(), "status": {"allocation": {"nodeSelector": 7}}}):
        with pytest.raises(DrabridgeError, match=r"status.allocation.nodeSelector: cannot be read"):
            allocate(snapshot, state, nodes[0], claims_of([broken]))
