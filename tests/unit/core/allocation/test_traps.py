"""Traps: small scenarios that a search falls into if it skips too much. All techniques, and each one alone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import pytest

from allocation_shapes import (
    DRIVER,
    Json,
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
    scenario,
    share,
    slice_of,
    with_counters,
)
from drabridge.core.allocation.scenario import answer
from drabridge.core.allocation.techniques import Techniques
from drabridge.core.allocation.upstream_faults import UpstreamFaults

SINGLY = {
    "all": Techniques(),
    "none": Techniques.none(),
    **{
        f"without {field.name}": dataclasses.replace(Techniques(), **{field.name: False})
        for field in dataclasses.fields(Techniques)
    },
    **{
        f"only {field.name}": dataclasses.replace(Techniques.none(), **{field.name: True})
        for field in dataclasses.fields(Techniques)
    },
}


@dataclass(frozen=True, slots=True)
class Trap:
    """A scenario, and what comes of it: the devices in order, None for no fit, or the error's end."""

    scenario: Json
    devices: list[str] | None = None
    error: str | None = None


def index(text: str) -> str:
    return f"device.attributes['{DRIVER}'].index {text}"


def listed(name: str, kind: str, *values: str) -> Json:
    found = device(name, kind=kind)
    value = {"strings": list(values)} if len(values) != 1 else {"string": values[0]}
    found["attributes"][f"{DRIVER}/value"] = value
    return found


def of_kind(kind: str) -> str:
    return f"device.attributes['{DRIVER}'].kind == '{kind}'"


def all_of(name: str, *selectors: str) -> Json:
    return request(name, 0, *selectors, allocationMode="All")


def first_of(name: str, *counts: int) -> Json:
    return {
        "name": name,
        "firstAvailable": [
            {"name": f"s{i}", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
            for i, count in enumerate(counts)
        ],
    }


def partition(name: str, amount: int) -> Json:
    counters = {"c": {"value": str(amount)}}
    return {**device(name), "consumesCounters": [{"counterSet": "s", "counters": counters}]}


def broken(name: str) -> Json:
    """A device that fails the selector `broken_by`."""
    return {"name": name, "attributes": {}}


BROKEN_BY = index(">= 0")

TRAPS = {
    "a list is accepted first, and a scalar differs from it: the order of devices matters": Trap(
        scenario(
            [slice_of([listed("d0", "b", "x", "y"), listed("d1", "a", "x"), listed("d2", "b", "x", "y")])],
            claim(
                request("r0", 1, of_kind("b")), request("r1", 2), constraints=[distinct("value", "r1")]
            ),
        ),
        ["d2", "d0", "d1"],
    ),
    "All fails silently at a device in use, and with an error where it gets to the constraint": Trap(
        scenario(
            [slice_of([device("d0", value=0), device("d1", value=1), device("d2", value=0)])],
            claim(request("r", 1, f"device.attributes['{DRIVER}'].value == 0"), name="one"),
            claim(all_of("all"), name="two", constraints=[match("value")]),
        ),
        None,
        "request all: cannot add device gpu.example.com/node-1/d1 because a claim constraint would not be satisfied",
    ),
    "an error device behind an impossible request is never looked at": Trap(
        scenario(
            [slice_of([*plain(9), broken("z")])],
            claim(
                request("r0", 4, f"has(device.attributes['{DRIVER}'].index)"),
                request("r1", 1, f"has(device.attributes['{DRIVER}'].nothing)"),
                request("r2", 1, BROKEN_BY),
            ),
        ),
    ),
    "the device that breaks a selector is taken by the first request, until that tries the next": Trap(
        scenario(
            [slice_of([broken("d0"), device("d1", index=1), device("d2", index=2)])],
            claim(request("r0"), request("r1", 2, index("> 0")), request("r2", 1, index("> 1"))),
        ),
        None,
        "no such key: index. consider using CEL optional chaining (.? followed by orValue()) or guarding the check "
        "with has() for optional fields",
    ),
    "too large is no failure: it jumps over the devices of earlier requests": Trap(
        scenario(
            [slice_of([*plain(40), broken("z")])],
            claim(first_of("r0", 2, 1), request("r1", 31), request("r2", 0, BROKEN_BY)),
        ),
        ["d-0000", *(f"d-{i:04}" for i in range(1, 32))],
    ),
    "a device that was in use counts as in use for every request, whatever its role": Trap(
        {
            **scenario([slice_of(plain(3))], claim(request("r0"), request("r1", 2, index("< 2")))),
            "allocatedDevices": [f"{DRIVER}/node-1/d-0001"],
        },
    ),
    "an admin request sees devices in use, an ordinary one after it does not see what it took": Trap(
        {
            **scenario(
                [slice_of(plain(3))], claim(request("a", 2, adminAccess=True), request("r", 2)),
            ),
            "allocatedDevices": [f"{DRIVER}/node-1/d-0000"],
        },
    ),
    "an admin request leaves what the next one needs, if it tries long enough": Trap(
        {
            **scenario([slice_of(plain(4))], claim(request("a", 2, adminAccess=True), request("r", 2))),
            "allocatedDevices": [f"{DRIVER}/node-1/d-0000"],
        },
        ["d-0000", "d-0001", "d-0002", "d-0003"],
    ),
    "requests with admin access of two claims pay for the same device twice, and it is the cheapest": Trap(
        scenario(
            with_counters(
                [partition("big", 2), partition("small", 1), partition("other", 2)],
                [{"name": "s", "counters": {"c": {"value": "3"}}}],
            ),
            *(claim(request("r", adminAccess=True), name=f"claim-{i}") for i in range(3)),
        ),
        ["small", "small", "small"],
    ),
    "a device without the attribute is another one, even if no two devices have the same value": Trap(
        scenario(
            [slice_of([device("d0", serial="a"), device("d1", serial="b"), device("d2", serial="c"), device("d3")])],
            claim(request("r"), name="one"),
            claim(request("r", 3), name="two", constraints=[distinct("serial")]),
        ),
        ["d3", "d0", "d1", "d2"],
    ),
    "All breaks a constraint before it finds out that the device is full": Trap(
        scenario(
            [
                slice_of(
                    [
                        {
                            **device(f"sh-{i}", side=i),
                            "allowMultipleAllocations": True,
                            "capacity": {"c": {"value": "1"}},
                        }
                        for i in range(2)
                    ]
                )
            ],
            claim(request("r"), name="one"),
            claim(all_of("all"), name="two", constraints=[match("side")]),
        ),
        None,
        "request all: cannot add device gpu.example.com/node-1/sh-1 because a claim constraint would not be satisfied",
    ),
    "amounts of shared devices are part of the state": Trap(
        scenario(
            [slice_of(nics(2))],
            claim(share("a", "6G"), share("b", "4G"), share("c", "4G"), share("d", "6G")),
        ),
        ["nic-0", "nic-0", "nic-1", "nic-1"],
    ),
    "a partition charges its counters once however often it is shared": Trap(
        scenario(
            [
                slice_of(
                    [
                        {
                            **nics(1)[0],
                            "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "3"}}}],
                        },
                        {**device("p"), "consumesCounters": [{"counterSet": "s", "counters": {"c": {"value": "2"}}}]},
                    ],
                    name="a", count=2,
                ),
                {
                    "metadata": {"name": "b"},
                    "spec": {
                        "driver": DRIVER, "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 2},
                        "nodeName": "node-1", "sharedCounters": [{"name": "s", "counters": {"c": {"value": "4"}}}],
                    },
                },
            ],
            claim(share("a", "2G"), share("b", "2G"), share("c", "2G")),
        ),
        ["nic-0", "nic-0", "nic-0"],
    ),
    "values that only one device has do not make a distinctAttribute harmless if the device is shared": Trap(
        scenario(
            [slice_of(nics(1))],
            claim(share("a", "1G"), share("b", "1G"), constraints=[distinct("index")]),
        ),
    ),
    "match keeps the first value it has seen when it goes on to another request": Trap(
        scenario(
            [
                slice_of(
                    [device("a0", root="x"), device("a1", root="y"), device("b0", root="y", kind="nic")]
                )
            ],
            claim(
                request("g", 1, f"!has(device.attributes['{DRIVER}'].kind)"),
                request("n", 1, f"has(device.attributes['{DRIVER}'].kind)"),
                constraints=[match("root")],
            ),
        ),
        ["a1", "b0"],
    ),
    "partitions of several profiles that fit only in one way": Trap(
        scenario(mig(1), claim(request("a", 1, profile("4g")), request("b", 1, profile("3g")))),
        ["gpu-0-4g-0", "gpu-0-3g-0"],
    ),
    "a class that fails on a device that nobody asks about": Trap(
        scenario(
            [slice_of([device("d0", index=0), broken("z")])],
            claim(request("r", 1)),
            classes=[device_class("gpu", DRIVER, BROKEN_BY)],
        ),
        ["d0"],
    ),
}  # fmt: skip


def given(trap: Trap, techniques: Techniques) -> tuple[list[str] | None, Any]:
    found = answer(trap.scenario, techniques=techniques, faults=UpstreamFaults.all())
    results = found["results"]
    devices = None if results is None else [d["device"] for r in results for d in r["devices"].get("results", ())]
    return devices, found["error"]


@pytest.mark.parametrize("techniques", SINGLY.values(), ids=SINGLY)
@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_traps(trap: Trap, techniques: Techniques) -> None:
    devices, error = given(trap, techniques)
    assert (error or "").endswith(trap.error or "")
    assert (error is None) == (trap.error is None)
    if trap.error is None:
        assert devices == trap.devices
