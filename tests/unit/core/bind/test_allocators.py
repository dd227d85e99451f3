"""What a policy's status says of others that allocate the devices of its drivers."""

from __future__ import annotations

from typing import Any

import pytest

from builders import GPU_CLASS, cluster, policy
from drabridge.core.bind.allocators import SHOWN, Allocators, Overlap, verdict
from drabridge.core.bind.podclaims import ClaimRecord
from drabridge.core.cluster import Gate
from drabridge.core.policy import Delivery
from drabridge.core.policystatus import status_of
from drabridge.core.reasons import Reason
from drabridge.core.usage import Usage

THEN, NOW = "2026-10-01T00:00:00Z", "2026-11-01T00:00:00Z"


def claim(name: str, manager: str = "kube-scheduler", time: str = THEN) -> ClaimRecord:
    results = [{"request": "r", "driver": "gpu.example.com", "pool": "node-0", "device": "gpu-0"}]
    fields = {"f:status": {"f:allocation": {}}}
    entries = [{"manager": "someone", "fieldsV1": {"f:metadata": {}}}]
    if manager:
        entries.append({"manager": manager, "time": time, "subresource": "status", "fieldsV1": fields})
    metadata = {"namespace": "default", "name": name, "uid": name, "resourceVersion": "1", "managedFields": entries}
    status = {"allocation": {"devices": {"results": results}}}
    return ClaimRecord.of({"metadata": metadata, "spec": {}, "status": status})


def overlap(*names: str) -> Overlap:
    return Overlap("gpu.example.com/node-0/gpu-0", frozenset({"gpu.example.com"}), tuple(map(claim, names)))


MINE, THEIRS = claim("mine", "drabridge"), claim("theirs")

# sentence -> what is seen, status, reason, part of the message
CASES: dict[str, tuple[Allocators, bool, Reason, str]] = {
    "nobody else": (Allocators(), True, Reason.ONE_ALLOCATOR, "were allocated by drabridge"),
    "a claim that another has allocated is named, with who and when": (
        Allocators((), 1, (THEIRS,)),
        False,
        Reason.OTHER_ALLOCATOR,
        f"ResourceClaim default/theirs (by kube-scheduler, {THEN})",
    ),
    "of many the last ones are named": (
        Allocators((), 30_000, tuple(claim(f"c{number}") for number in range(SHOWN))),
        False,
        Reason.OTHER_ALLOCATOR,
        f"default/c4 (by kube-scheduler, {THEN}) and 29995 more",
    ),
    "the same device twice, with both claims": (
        Allocators((Overlap("gpu.example.com/node-0/gpu-0", frozenset(), (THEIRS, MINE)),), 1, (THEIRS,)),
        False,
        Reason.DEVICES_OVERLAP,
        (
            f"gpu.example.com/node-0/gpu-0: ResourceClaim default/theirs (by kube-scheduler, {THEN}),"
            f" ResourceClaim default/mine (by drabridge, {THEN})"
        ),
    ),
    "who allocated it may not be known": (
        Allocators((Overlap("d", frozenset(), (claim("a", ""), claim("b", ""))),)),
        False,
        Reason.DEVICES_OVERLAP,
        "d: ResourceClaim default/a, ResourceClaim default/b. Cure:",
    ),
    "many overlaps": (
        Allocators(tuple(overlap(f"a{number}", f"b{number}") for number in range(12))),
        False,
        Reason.DEVICES_OVERLAP,
        "; and 7 more",
    ),
    "claims with long names do not make the message too long": (
        Allocators(tuple(overlap(*("x" * 253 for _ in range(200))) for _ in range(100))),
        False,
        Reason.DEVICES_OVERLAP,
        "; and 95 more",
    ),
}


@pytest.mark.parametrize(("seen", "good", "reason", "part"), CASES.values(), ids=CASES)
def test_the_condition(seen: Allocators, good: bool, reason: Reason, part: str) -> None:
    found = verdict(seen)
    assert found[:2] == (good, reason)
    assert part in found[2]
    assert len(found[2]) < 32768


def status(
    seen: Allocators | None, delivery: Delivery = Delivery.BIND, former: list[dict[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    subject = policy(delivery=delivery)
    view = cluster(GPU_CLASS, policies=[subject], gate=Gate.ON)
    shown = status_of(subject, view, Usage(), 8, former or [], NOW, seen)
    return {each["type"]: each for each in shown["conditions"]}


def test_it_says_since_when_and_other_deliveries_have_none() -> None:
    assert set(status(Allocators(), Delivery.NATIVE)) == {"Ready"}
    first = status(Allocators((), 1, (THEIRS,)))["OneAllocator"]
    assert (first["status"], first["lastTransitionTime"]) == ("False", NOW)
    former = [{**first, "lastTransitionTime": THEN}]
    assert status(Allocators((overlap("a", "b"),)), former=former)["OneAllocator"]["lastTransitionTime"] == THEN
    assert status(Allocators(), former=former)["OneAllocator"]["lastTransitionTime"] == NOW


def test_a_leader_that_does_not_know_yet_leaves_what_was_shown() -> None:
    assert set(status(None)) == {"Ready"}
    former = [{"type": "OneAllocator", "status": "False", "message": "as it was"}]
    assert status(None, former=former)["OneAllocator"] == former[0]
    assert set(status(None, Delivery.REWRITE, former=former)) == {"Ready"}
