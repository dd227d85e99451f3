"""Why something does not fit, and what would change that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from allocation_shapes import (
    DRIVER,
    NODE,
    claim,
    device,
    device_class,
    distinct,
    match,
    mig,
    nics,
    plain,
    profile,
    request,
    share,
    slice_of,
)
from drabridge.core.allocation.allocate import allocate
from drabridge.core.allocation.claims import claims_of
from drabridge.core.allocation.features import Features
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.outcomes import Unfit
from drabridge.core.allocation.pools import PoolState
from drabridge.core.allocation.reasons import CANNOT_ALLOCATE, Remedy, Removal
from drabridge.core.allocation.settings import Settings
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState, Holding
from drabridge.core.allocation.why import Why, explain
from drabridge.core.errors import InvalidInput

WHERE = Node.of({"metadata": {"name": NODE, "labels": {"kubernetes.io/hostname": NODE}}})
TAINT = {"key": "broken", "value": "yes", "effect": "NoSchedule"}


def why(
    slices: Sequence[dict[str, Any]],
    *claims: dict[str, Any],
    held: Sequence[tuple[str, str]] = (),
    classes: Sequence[dict[str, Any]] = (),
    features: Features | None = None,
) -> Why:
    snapshot = Snapshot.of(slices, classes or [device_class()])
    state = AllocatedState()
    for holder, name in held:
        state = state.commit(holder, [Holding(DRIVER, NODE, name)])
    settings = Settings(features or Features())
    known = claims_of(claims)
    assert isinstance(allocate(snapshot, state, WHERE, known, settings), Unfit)
    return explain(snapshot, state, WHERE, known, settings)


def remedies(found: Why) -> list[tuple[Remedy, str]]:
    return [(change.remedy, change.detail) for change in found.changes]


def test_each_device_has_what_removed_it() -> None:
    devices = [
        device("d0", model="a"),
        {**device("d1", model="a"), "taints": [TAINT]},
        device("d2", model="b"),
        device("d3", model="a"),
        {"name": "d4"},
    ]
    found = why(
        [slice_of(devices), slice_of(plain(1), name="x", pool="x", place={"nodeName": "elsewhere"})],
        claim(request("r", 2, f"device.attributes['{DRIVER}'].model == 'a'")),
        held=[("default/other", "d0")],
        classes=[device_class("gpu", DRIVER, f"'model' in device.attributes['{DRIVER}']")],
    )
    (request_,) = found.requests
    assert [(removed.device, removed.removal) for removed in request_.removed] == [
        (f"{DRIVER}/{NODE}/d0", Removal.IN_USE),
        (f"{DRIVER}/{NODE}/d1", Removal.TAINT),
        (f"{DRIVER}/{NODE}/d2", Removal.REQUEST_SELECTOR),
        (f"{DRIVER}/{NODE}/d4", Removal.CLASS_SELECTOR),
    ]
    assert request_.removed[0].detail == "default/other"
    assert request_.removed[1].detail == "broken=yes:NoSchedule"
    assert (request_.devices, request_.left, request_.needed, request_.is_met) == (5, 1, 2, False)
    assert found.conflict == ()
    assert found.upstream == CANNOT_ALLOCATE
    assert remedies(found) == [
        (Remedy.TOLERATE, "tolerate the taint broken=yes:NoSchedule"),
        (Remedy.RELEASE, "release what it holds"),
        (Remedy.ASK_FOR_FEWER, "ask for 1 instead of 2 in request r"),
        (Remedy.DROP_SELECTOR, "drop selector 0 of request r"),
    ]
    assert found.changes[1].object == "ResourceClaim default/other"
    assert str(found.changes[1]) == "ResourceClaim default/other: release what it holds"
    assert found.summary() == (
        "claim default/claim-0, request r: 2 needed, 1 of 5 devices left "
        "(1 InUse, 1 Taint, 1 RequestSelector, 1 ClassSelector)"
    )


def test_requests_that_each_could_be_met_but_not_together() -> None:
    found = why([slice_of(plain(3))], claim(request("a", 2), request("b", 1), request("c", 1)))
    assert [each.is_met for each in found.requests] == [True, True, True]
    assert found.conflict == ("default/claim-0: a", "default/claim-0: b", "default/claim-0: c")
    assert remedies(found) == [(Remedy.ASK_FOR_FEWER, "ask for 1 instead of 2 in request a")]
    assert found.summary().startswith("cannot be met together: default/claim-0: a")


def test_a_constraint_that_stands_in_the_way() -> None:
    found = why(
        [slice_of([device("a", root="x"), device("b", root="y"), device("c")])],
        claim(request("r", 2), constraints=[match("root")]),
    )
    assert found.requests[0].counts == {Removal.CONSTRAINT: 1}
    assert found.conflict == ("default/claim-0: r",)
    assert (Remedy.DROP_CONSTRAINT, f"drop constraint 0 on {DRIVER}/root") in remedies(found)


def test_counters_that_are_used_up() -> None:
    found = why(mig(1), claim(request("r", 1, profile("4g"))), held=[("default/a", "gpu-0-7g-0")])
    assert found.requests[0].counts == {Removal.REQUEST_SELECTOR: 13, Removal.COUNTER: 1}
    assert found.requests[0].removed[12].detail == "compute, memory"
    assert (Remedy.RELEASE, "release what it holds") in remedies(found)


def test_capacity_that_is_used_up_or_never_was() -> None:
    snapshot = Snapshot.of([slice_of(nics(2))], [device_class()])
    state = AllocatedState().commit("default/a", [Holding(DRIVER, NODE, "nic-0", "s", (("bandwidth", 9 * 10**18),))])
    found = explain(snapshot, state, WHERE, claims_of([claim(share("r", "2G"), share("s", "11G"))]))
    assert [removed.removal for removed in found.requests[0].removed] == [Removal.CAPACITY]
    assert found.requests[0].removed[0].detail == "in use by default/a"
    assert found.requests[1].counts == {Removal.CAPACITY: 2}
    assert "is more than its 10G" in found.requests[1].removed[0].detail


def test_several_claims_have_to_go() -> None:
    held = [("default/a", "d-0000"), ("default/b", "d-0001"), ("default/c", "d-0002")]
    found = why([slice_of(plain(3))], claim(request("r", 2, "true")), held=held)
    assert found.changes[-1].remedy is Remedy.RELEASE_SEVERAL
    assert found.changes[-1].object == "ResourceClaims default/a, default/b"


def test_pools_that_cannot_be_used() -> None:
    found = why([slice_of(plain(3), count=2)], claim(request("r")))
    assert found.pools == (((DRIVER, NODE), PoolState.INCOMPLETE, "it has 1 slices and should have 2"),)
    assert remedies(found) == [(Remedy.WAIT_FOR_POOL, "wait for its driver: it has 1 slices and should have 2")]
    assert found.summary() == "claim default/claim-0, request r: 1 needed, no devices"
    twice = why(
        [slice_of([device("a"), device("a")])], claim(request("r", 0, allocationMode="ExactCount"), request("s"))
    )
    assert twice.upstream == "invalid resource pools were encountered"
    assert twice.pools[0][2] == "device a is in it twice"


def test_devices_of_other_nodes_groups_and_gates() -> None:
    here = {**device("a"), "nodeName": NODE}
    there = {**device("b"), "nodeName": "elsewhere"}
    found = why([slice_of([here, there], place={"perDeviceNodeSelection": True})], claim(request("r", 2)))
    assert found.requests[0].counts == {Removal.NODE: 1}
    cards = mig(1, {"1g": 2})
    cards[0]["spec"]["devices"][0]["consumesCounters"][0]["compatibilityGroups"] = ["x"]
    held = [("default/a", "gpu-0-1g-1")]
    found = why(cards, claim(request("r")), held=held, features=Features.all())
    assert found.requests[0].counts == {Removal.GROUP: 1, Removal.IN_USE: 1}
    bound = [{**device("a"), "bindingConditions": ["x"]}]
    off = Features(binding_conditions=False, partitionable_devices=False)
    assert why([slice_of(bound)], claim(request("r")), features=off).requests[0].counts == {
        Removal.BINDING_CONDITIONS: 1
    }
    skipping = slice_of(plain(1), skipNodeOperations=["*"])
    assert why([skipping], claim(request("r"))).requests[0].counts == {Removal.NODE_OPERATIONS: 1}
    partitions = [slice_of(mig(1)[0]["spec"]["devices"][:1])]
    assert why(partitions, claim(request("r")), features=off).requests[0].counts == {Removal.PARTITIONS_OFF: 1}


def test_what_cannot_be_answered_is_an_error_here_too() -> None:
    snapshot = Snapshot.of([slice_of(plain(1))], [])
    with pytest.raises(InvalidInput, match="could not retrieve device class"):
        explain(snapshot, AllocatedState(), WHERE, claims_of([claim(request("r"))]))


def test_a_list_is_explained_entry_by_entry() -> None:
    entry = {"deviceClassName": "gpu", "allocationMode": "ExactCount"}
    asked = {"name": "r", "firstAvailable": [{"name": "a", "count": 3, **entry}, {"name": "b", "count": 2, **entry}]}
    found = why([slice_of(plain(1))], claim(asked, constraints=[distinct("index")]))
    assert [(each.request, each.needed, each.left) for each in found.requests] == [("r/a", 3, 1), ("r/b", 2, 1)]
