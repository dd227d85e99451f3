"""What a selector says of published devices."""

from __future__ import annotations

from typing import Any

import pytest

from drabridge.core.cel.explain import Explanation, Instrumented, instrument
from drabridge.core.cel.selector import HINT, compile_selector
from drabridge.core.errors import InvalidInput
from drabridge.core.resourceslice import DeviceID, PublishedDevice, ReadSlice
from drabridge.core.selection import (
    Broken,
    Failed,
    Matched,
    NotMatched,
    compile_failure,
    explained,
    judge,
    resolve,
    runtime_failure,
    why_not,
    without_duplicates,
)

FAULT = InvalidInput("ResourceSlice s", "spec.devices[0]", "is broken", "mend it")


def device(name: str = "gpu-0", *faults: InvalidInput, source: str = "s", **attributes: Any) -> PublishedDevice:
    return PublishedDevice(
        DeviceID("gpu.example.com", "pools/node-1", name), {"attributes": attributes}, "node-1", "s", source, faults
    )


def selector(expression: str) -> Instrumented:
    return instrument(compile_selector(expression))


MODEL = "device.attributes['gpu.example.com'].model"
A100 = selector(f"device.driver == 'gpu.example.com' && {MODEL} == 'a100'")


def test_a_device_matches() -> None:
    assert judge(A100, device(model={"string": "a100"})) == Matched(9)


def test_a_device_does_not_match_for_a_reason() -> None:
    verdict = judge(A100, device(model={"string": "b200"}))
    assert isinstance(verdict, NotMatched)
    assert why_not(verdict.deciding) == f"{MODEL} == 'a100' is false: {MODEL} = \"b200\""
    assert verdict.cost == 9


def test_an_evaluation_fails_with_what_it_had_cost() -> None:
    assert judge(A100, device()) == Failed(f"no such key: model{HINT}", 9)


def test_a_device_with_a_value_that_does_not_parse_fails_before_the_evaluation() -> None:
    verdict = judge(A100, device(model={"version": "one"}))
    assert isinstance(verdict, Failed)
    assert verdict.message.startswith("attribute model: parse semantic version: ")
    assert verdict.cost is None


def test_a_broken_device_is_not_evaluated() -> None:
    assert judge(A100, device("x", FAULT)) == Broken((FAULT,))


def test_an_explanation_needs_a_device_that_can_be_evaluated() -> None:
    assert isinstance(explained(A100, device()), Explanation)
    assert explained(A100, device("x", FAULT)) == Broken((FAULT,))
    assert isinstance(explained(A100, device(model={"version": "one"})), Failed)


REASONS = {
    "no value to name": ("1 == 2", "1 == 2 is false"),
    "two values, no more": (
        "[device.driver, device.driver, device.driver] == []",
        (
            "[device.driver, device.driver, device.driver] == [] is false: "
            'device.driver = "gpu.example.com", device.driver = "gpu.example.com"'
        ),
    ),
    "on one line": ("device.driver\n  == ''", "device.driver == '' is false: device.driver = \"gpu.example.com\""),
}


@pytest.mark.parametrize(("expression", "reason"), REASONS.values(), ids=REASONS)
def test_the_reason_names(expression: str, reason: str) -> None:
    verdict = judge(selector(expression), device())
    assert isinstance(verdict, NotMatched)
    assert why_not(verdict.deciding) == reason


def test_failures_are_told_as_the_scheduler_tells_them() -> None:
    id_ = DeviceID("d", "p", "x")
    assert compile_failure("class gpu", 1, "no") == "class gpu: selector #1: CEL compile error: no"
    assert runtime_failure("claim a/b", 0, id_, "no") == "claim a/b: selector #0 on device d/p/x: CEL runtime error: no"


RESOLVED = {
    "all of it": ("gpu.example.com/pools/node-1/gpu-1", ["gpu-1"]),
    "pool and device": ("node-1/gpu-1", ["gpu-1"]),
    "the device": ("gpu-1", ["gpu-1"]),
    "what several have at the end": ("node-1/gpu-0", ["gpu-0", "node-1/gpu-0"]),
    "no more than whole names": ("pu-1", []),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("wanted", "names"), RESOLVED.values(), ids=RESOLVED)
def test_a_device_is_found_by(wanted: str, names: list[str]) -> None:
    devices = [device(name) for name in ("gpu-0", "gpu-1", "node-1/gpu-0")]
    assert [each.id.device for each in resolve(wanted, devices)] == names


def test_an_exact_name_is_not_ambiguous() -> None:
    first = PublishedDevice(DeviceID("b", "c", "d"), {}, "", "s", "s")
    second = PublishedDevice(DeviceID("a", "b/c", "d"), {}, "", "s", "s")
    assert resolve("b/c/d", [first, second]) == [first]


def test_devices_that_are_published_again_are_told() -> None:
    def slices(source: str, *names: str) -> ReadSlice:
        return ReadSlice("gpu.example.com", "p", 1, tuple(device(name, source=source) for name in names), ())

    devices, faults = without_duplicates([slices("s", "a", "b", "b"), slices("t", "a", "c")])
    assert [each.id.device for each in devices] == ["a", "b", "c"]
    assert [(fault.object, fault.problem) for fault in faults] == [
        ("s", "publishes device gpu.example.com/pools/node-1/b twice"),
        ("t", "publishes device gpu.example.com/pools/node-1/a as s does"),
    ]
