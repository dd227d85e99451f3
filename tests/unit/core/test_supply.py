"""How many published devices a DeviceClass selects."""

from __future__ import annotations

from typing import Any

import pytest

from drabridge.core.resourceslice import newest
from drabridge.core.supply import ClassSelectors, Published, SliceView

DRIVER = "gpu.example.com"


def view(
    *devices: dict[str, Any], name: str = "s", pool: str = "p", generation: int = 1, expected: int = 1
) -> SliceView:
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": expected},
        "devices": [{"name": f"d{number}", **device} for number, device in enumerate(devices)],
    }
    return SliceView.of({"metadata": {"name": name}, "spec": spec})


def model(text: str) -> dict[str, Any]:
    return {"attributes": {"model": {"string": text}}}


A_B_BARE = view(model("a"), model("b"), {})
BROKEN_VERSION = {"attributes": {"driverVersion": {"version": "one"}}}

COUNTS = {
    "no selector selects every device": ((), A_B_BARE, 3),
    "the driver": ((f"device.driver == '{DRIVER}'",), A_B_BARE, 3),
    "another driver": (("device.driver == 'nic.example.com'",), A_B_BARE, 0),
    "a device that the evaluation fails on does not count": (
        (f"device.attributes['{DRIVER}'].model == 'a'",),
        A_B_BARE,
        1,
    ),
    "all selectors must match": (("true", f"device.attributes['{DRIVER}'].?model.orValue('') == 'b'"), A_B_BARE, 1),
    "an expression that does not compile selects nothing": (("device.",), A_B_BARE, 0),
    "a device with a value that no expression can see does not count": (("true",), view(BROKEN_VERSION, {}), 1),
    "a slice without devices, such as one of shared counters": (("true",), view(), 0),
}


@pytest.mark.parametrize(("expressions", "slice_", "want"), COUNTS.values(), ids=COUNTS)
def test_devices_of_a_class(expressions: tuple[str, ...], slice_: SliceView, want: int) -> None:
    assert ClassSelectors.of(expressions).count(slice_) == want


def test_only_the_newest_generation_of_each_pool_counts() -> None:
    slices = [
        view(name="old", generation=1),
        view(name="new-1", generation=2),
        view(name="older", generation=0),
        view(name="new-2", generation=2),
        view(name="other", pool="q", generation=1),
    ]
    assert [piece.name for piece in newest(slices)] == ["new-1", "new-2", "other"]


def test_a_slice_is_equal_to_itself_and_not_to_one_with_another_device() -> None:
    assert view(model("a")) == view(model("a")) != view(model("b"))
    assert view(model("a")).devices() == [{"name": "d0", **model("a")}]


def tainted(*effects: str) -> dict[str, Any]:
    return {"taints": [{"key": f"k{number}", "effect": effect} for number, effect in enumerate(effects)]}


PUBLISHED = {
    "a pool of two slices": (
        [view({}, name="one", expected=2), view({"name": "x"}, name="two", expected=2)],
        {"p": {"d0": "", "x": ""}},
    ),
    "a pool of which a slice is missing": ([view({}, expected=2)], {"p": None}),
    "a generation that is left over": ([view({"name": "old"}, name="old"), view({}, generation=2)], {"p": {"d0": ""}}),
    "a generation that is not whole yet": ([view({}, name="old"), view({}, generation=2, expected=2)], {"p": None}),
    "a pool without devices": ([view()], {"p": {}}),
    "two pools": ([view({}), view({}, pool="q", name="t")], {"p": {"d0": ""}, "q": {"d0": ""}}),
    "taints": (
        [view(tainted("NoExecute"), tainted("None"), tainted("None", "NoSchedule"))],
        {"p": {"d0": "k0:NoExecute", "d1": "", "d2": "k1:NoSchedule"}},
    ),
    "a taint with a value": (
        [view({"taints": [{"key": "hot", "value": "yes", "effect": "NoSchedule"}]})],
        {"p": {"d0": "hot=yes:NoSchedule"}},
    ),
}


@pytest.mark.parametrize(("slices", "want"), PUBLISHED.values(), ids=PUBLISHED)
def test_devices_that_are_published(slices: list[SliceView], want: dict[str, dict[str, str] | None]) -> None:
    assert Published.of(slices).pools == {(DRIVER, pool): devices for pool, devices in want.items()}
