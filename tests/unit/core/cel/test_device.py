"""A device as expressions see it, and devices that cannot be seen."""

from __future__ import annotations

from typing import Any

import pytest

from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.selector import compile_selector

DRIVER = "gpu.example.com"

TRUE: dict[str, tuple[dict[str, Any], str]] = {
    "names without a domain belong to the driver": (
        {"attributes": {"a": {"int": 1}}},
        "device.attributes['gpu.example.com'].a == 1",
    ),
    "names are split at the first slash": (
        {"attributes": {"b.example.com/c/d": {"int": 1}}},
        "device.attributes['b.example.com']['c/d'] == 1",
    ),
    "an unknown domain is looked up as an empty map": ({}, "device.attributes['x'] == {}"),
    "but it is not there": ({}, "!('x' in device.attributes) && device.attributes.size() == 0"),
    "an attribute of each kind": (
        {"attributes": {"i": {"int": 7}, "b": {"bool": False}, "s": {"string": "x"}, "v": {"version": "1.2.3"}}},
        (
            "cel.bind(a, device.attributes['gpu.example.com'], "
            "a.i == 7 && !a.b && a.s == 'x' && a.v.isLessThan(semver('1.3.0')))"
        ),
    ),
    "lists of each kind": (
        {
            "attributes": {
                "i": {"ints": [1, 2]},
                "b": {"bools": [True]},
                "s": {"strings": []},
                "v": {"versions": ["1.0.0"]},
            }
        },
        (
            "cel.bind(a, device.attributes['gpu.example.com'], "
            "a.i == [1, 2] && a.b[0] && a.s.size() == 0 && a.v.exists(x, x == semver('1.0.0')))"
        ),
    ),
    "lists come before single values": (
        {"attributes": {"a": {"int": 1, "strings": ["x"]}}},
        "device.attributes['gpu.example.com'].a == ['x']",
    ),
    "capacities are quantities": (
        {"capacity": {"memory": {"value": "40Gi"}}},
        "device.capacity['gpu.example.com'].memory.compareTo(quantity('40960Mi')) == 0",
    ),
    "nothing said of sharing is no": ({}, "device.allowMultipleAllocations == false"),
    "sharing": ({"allowMultipleAllocations": True}, "device.allowMultipleAllocations"),
    "the driver": ({}, "device.driver == 'gpu.example.com'"),
}


@pytest.mark.parametrize(("device", "expression"), TRUE.values(), ids=TRUE)
def test_it_holds_of_the_device(device: dict[str, Any], expression: str) -> None:
    assert compile_selector(expression).matches(DeviceView.of(DRIVER, device)).matched


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an attribute without a value": ({"attributes": {"a": {}}}, "attribute a: unsupported attribute value"),
    "a version that is none": (
        {"attributes": {"a": {"version": "1.0"}}},
        "attribute a: parse semantic version: No Major.Minor.Patch elements found",
    ),
    "a list with one that is none": (
        {"attributes": {"a": {"versions": ["1.0.0", ""]}}},
        "attribute a: parse semantic version: Version string empty",
    ),
    "a capacity without a value": ({"capacity": {"a": {}}}, "capacity a: "),
    "a capacity that is no quantity": ({"capacity": {"a": {"value": "x"}}}, "capacity a: quantities must match"),
}


@pytest.mark.parametrize(("device", "message"), BAD.values(), ids=BAD)
def test_a_device_cannot_be_seen(device: dict[str, Any], message: str) -> None:
    with pytest.raises(BadDevice) as bad:
        DeviceView.of(DRIVER, device)
    assert str(bad.value).startswith(message)
