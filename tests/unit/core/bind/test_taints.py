"""DeviceTaintRules on the devices of a ResourceSlice."""

from __future__ import annotations

from typing import Any

import pytest

from drabridge.core.bind.taints import TaintRule, tainted

TAINT = {"key": "example.com/sick", "effect": "NoExecute"}
SLICE: dict[str, Any] = {
    "spec": {
        "driver": "gpu.example.com",
        "pool": {"name": "node-0"},
        "devices": [{"name": "a", "taints": [{"key": "own"}]}, {"name": "b"}],
    }
}


def rule(selector: dict[str, str] | None) -> TaintRule:
    spec: dict[str, Any] = {"taint": TAINT} | ({} if selector is None else {"deviceSelector": selector})
    return TaintRule.of({"metadata": {"name": "rule"}, "spec": spec})


SELECTED = {
    "an empty selector selects all devices": ({}, ["a", "b"]),
    "no selector selects none": (None, []),
    "a driver": ({"driver": "gpu.example.com"}, ["a", "b"]),
    "another driver": ({"driver": "nic.example.com"}, []),
    "a pool": ({"pool": "node-0"}, ["a", "b"]),
    "another pool": ({"pool": "node-1"}, []),
    "one device": ({"device": "b"}, ["b"]),
    "all of it must hold": ({"driver": "nic.example.com", "device": "b"}, []),
}


@pytest.mark.parametrize(("selector", "names"), SELECTED.values(), ids=SELECTED)
def test_selection(selector: dict[str, str] | None, names: list[str]) -> None:
    devices = tainted(SLICE, [rule(selector)])["spec"]["devices"]
    assert [device["name"] for device in devices if TAINT in device.get("taints", ())] == names


def test_taints_of_the_slice_stay_and_a_slice_without_any_is_the_same_object() -> None:
    assert tainted(SLICE, [rule({})])["spec"]["devices"][0]["taints"] == [{"key": "own"}, TAINT]
    assert tainted(SLICE, [rule(None)]) is SLICE
