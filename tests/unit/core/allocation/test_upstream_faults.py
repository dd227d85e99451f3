"""Upstream's faults: what we do by default, and that the switches bring them back."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from allocation_shapes import (
    DRIVER,
    NODE,
    Json,
    claim,
    device,
    mig,
    nics,
    plain,
    profile,
    request,
    scenario,
    share,
    slice_of,
)
from drabridge.core.allocation.scenario import answer
from drabridge.core.allocation.upstream_faults import UpstreamFaults


def newer(found: Json, generation: int) -> Json:
    found["spec"]["pool"]["generation"] = generation
    return found


def with_range(value: str, **policy: str) -> Json:
    found = nics(1)
    found[0]["capacity"]["bandwidth"] = {
        "value": value,
        "requestPolicy": {"default": policy["min"], "validRange": policy},
    }
    return found[0]


STALE = scenario(
    [
        slice_of(plain(1), name="old"),
        newer(slice_of(plain(1), name="new", place={"nodeName": "elsewhere"}), 2),
    ],
    claim(request("r")),
)
ADMIN_FALSE = scenario([slice_of(plain(1))], claim(request("r", adminAccess=False)), features={"adminAccess": False})
HUGE = scenario([slice_of([with_range("100Ei", min="1Gi", step="1Gi")])], claim(share("r", "10Pi")))
OVERDRAWN = {
    **scenario(mig(2), claim(request("r", 1, profile("1g"), f"device.attributes['{DRIVER}'].card == 1"))),
    "allocatedDevices": [f"{DRIVER}/{NODE}/gpu-0-7g-0", f"{DRIVER}/{NODE}/gpu-0-1g-0"],
}
FORGOTTEN = {
    **scenario([slice_of([device("d")])], claim(request("r"))),
    "allocatedSharedDeviceIDs": [f"{DRIVER}/{NODE}/d/share"],
}

FITS, NO_FIT, ERROR = "fits", "no fit", "error"

CASES = {
    "7: slices of an old generation": ("stale_slices", STALE, NO_FIT, FITS),
    "8: adminAccess false": ("admin_false_is_admin", ADMIN_FALSE, FITS, ERROR),
    "10: large requests of whole ranges": ("thousandths_for_whole_ranges", HUGE, FITS, ERROR),
    "12: an overdrawn counter of another set": ("overallocated_counter_blocks_pool", OVERDRAWN, FITS, NO_FIT),
    "13: shares of what is no longer shared": ("shares_forgotten", FORGOTTEN, NO_FIT, FITS),
}


def outcome(found: dict[str, Any]) -> str:
    if found["error"] is not None:
        return ERROR
    return NO_FIT if found["results"] is None else FITS


@pytest.mark.parametrize(("switch", "given", "ours", "upstreams"), CASES.values(), ids=CASES)
def test_faults(switch: str, given: Json, ours: str, upstreams: str) -> None:
    assert outcome(answer(given)) == ours
    assert outcome(answer(given, faults=UpstreamFaults(**{switch: True}))) == upstreams
    assert outcome(answer(given, faults=UpstreamFaults.all())) == upstreams
    others = dataclasses.replace(UpstreamFaults.all(), **{switch: False})
    assert outcome(answer(given, faults=others)) == ours


def test_each_fault_has_a_case() -> None:
    assert {field.name for field in dataclasses.fields(UpstreamFaults)} == {switch for switch, *_ in CASES.values()}


def test_a_range_with_a_fraction_is_computed_in_thousandths() -> None:
    given = scenario([slice_of([with_range("10", min="500m", step="250m")])], claim(share("r", "600m")))
    (result,) = answer(given)["results"]
    assert result["devices"]["results"][0]["consumedCapacity"] == {"bandwidth": "750m"}


def test_an_overdrawn_counter_blocks_what_consumes_it() -> None:
    given = {**OVERDRAWN, "claims": [claim(request("r", 1, f"device.attributes['{DRIVER}'].card == 0"))]}
    assert outcome(answer(given)) == NO_FIT
