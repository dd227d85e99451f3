"""ResourceSlices as they are written: what is read of them, and what is said of the broken ones."""

from __future__ import annotations

from typing import Any

import pytest

from drabridge.core.errors import InvalidInput
from drabridge.core.resourceslice import DeviceID, ReadSlice, device_faults, newest, read_slice

OBJ = "ResourceSlice node-1 (slices.yaml)"
GPU = {"name": "gpu-0", "attributes": {"model": {"string": "a100"}}, "capacity": {"memory": {"value": "40Gi"}}}


def slice_of(*devices: Any, version: str = "v1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": "node-1-gpu"},
        "spec": {
            "driver": "gpu.example.com",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
            **spec,
        },
    }


def read(body: dict[str, Any], *, strict: bool = True) -> ReadSlice:
    return read_slice(body, OBJ, strict=strict)


def said(faults: tuple[InvalidInput, ...]) -> list[str]:
    assert all(fault.object == OBJ for fault in faults)
    return [f"{fault.path}: {fault.problem}" for fault in faults]


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
def test_a_device_is_read_as_it_is(version: str) -> None:
    found = read(slice_of(GPU, version=version))
    assert (found.driver, found.pool, found.generation, found.faults) == ("gpu.example.com", "node-1", 1, ())
    (device,) = found.devices
    assert str(device.id) == "gpu.example.com/node-1/gpu-0"
    assert (device.device, device.node, device.slice, device.source) == (GPU, "node-1", "node-1-gpu", OBJ)
    assert device.faults == ()


def test_a_device_of_v1beta1_gets_the_shape_of_v1() -> None:
    basic = {key: value for key, value in GPU.items() if key != "name"}
    (device,) = read(slice_of({"name": "gpu-0", "basic": basic}, version="v1beta1")).devices
    assert device.device == GPU
    assert device.faults == ()


NODES = {
    "the slice's": ({"nodeName": "n"}, {}, "n"),
    "all of them": ({"nodeName": None, "allNodes": True}, {}, "*"),
    "the device's": ({"nodeName": None, "perDeviceNodeSelection": True}, {"nodeName": "m"}, "m"),
    "the device is on all": ({"nodeName": None, "perDeviceNodeSelection": True}, {"allNodes": True}, "*"),
    "a selector says it": ({"nodeName": None, "nodeSelector": {"nodeSelectorTerms": []}}, {}, ""),
}


@pytest.mark.parametrize(("spec", "device", "node"), NODES.values(), ids=NODES)
def test_the_node_is(spec: dict[str, Any], device: dict[str, Any], node: str) -> None:
    (found,) = read(slice_of({**GPU, **device}, **spec)).devices
    assert (found.node, found.faults) == (node, ())


UNREADABLE = {
    "another version": ({"apiVersion": "resource.k8s.io/v1alpha3"}, "apiVersion: is 'resource.k8s.io/v1alpha3'"),
    "no version": ({"apiVersion": None}, "apiVersion: is missing"),
    "a version that is no text": ({"apiVersion": 1}, "apiVersion: is 1"),
    "no spec": ({"spec": None}, "spec: is missing"),
    "a spec that is none": ({"spec": []}, "spec: is [], not an object"),
    "no driver": ({"spec": {"pool": {"name": "p"}}}, "spec.driver: is missing"),
    "a driver that is no text": ({"spec": {"driver": 5}}, "spec.driver: is 5, not a text"),
    "no pool": ({"spec": {"driver": "d"}}, "spec.pool: is missing"),
    "a pool without a name": ({"spec": {"driver": "d", "pool": {}}}, "spec.pool.name: is missing"),
    "devices that are no list": (
        {"spec": {"driver": "d", "pool": {"name": "p"}, "devices": {"a": 1}}},
        "spec.devices: is {'a': 1}, not a list",
    ),
}


@pytest.mark.parametrize(("change", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_slice_cannot_be_read(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read({**slice_of(GPU), **change})
    assert said((refused.value,)) == [message]
    assert refused.value.cure


D = "spec.devices[1]"
BROKEN: dict[str, tuple[Any, list[str]]] = {
    "no object": (5, [f"{D}: is 5, not an object", f"{D}.name: is missing"][:1]),
    "no name": ({}, [f"{D}.name: is missing"]),
    "a name that is no text": ({"name": 5}, [f"{D}.name: is 5"]),
    "a field that nobody knows": ({"name": "x", "atributes": {}}, [f"{D}.atributes: is no field here"]),
    "a field whose name is none": ({"name": "x", 5: {}}, [f"{D}.5: is no field here"]),
    "attributes that are no object": ({"name": "x", "attributes": []}, [f"{D}.attributes: is [], not an object"]),
    "an attribute that is no object": (
        {"name": "x", "attributes": {"model": "a100"}},
        [f"{D}.attributes['model']: is 'a100', not an object"],
    ),
    "an attribute whose name is no text": (
        {"name": "x", "attributes": {5: {"int": 1}}},
        [f"{D}.attributes[5]: its name is no text"],
    ),
    "an attribute without a value": (
        {"name": "x", "attributes": {"model": {}}},
        [f"{D}.attributes['model']: has no value"],
    ),
    "an attribute with two": (
        {"name": "x", "attributes": {"model": {"string": "a", "int": 1}}},
        [f"{D}.attributes['model']: has string, int"],
    ),
    "a kind of value that there is not": (
        {"name": "x", "attributes": {"model": {"text": "a"}}},
        [f"{D}.attributes['model'].text: is no field here", f"{D}.attributes['model']: has no value"],
    ),
    "a version without quotes": (
        {"name": "x", "attributes": {"v": {"version": 1.2}}},
        [f"{D}.attributes['v'].version: is 1.2"],
    ),
    "a bool for an int": ({"name": "x", "attributes": {"i": {"int": True}}}, [f"{D}.attributes['i'].int: is True"]),
    "an int that is too large": (
        {"name": "x", "attributes": {"i": {"int": 2**63}}},
        [f"{D}.attributes['i'].int: is 9223372036854775808"],
    ),
    "a text for a bool": (
        {"name": "x", "attributes": {"b": {"bool": "yes"}}},
        [f"{D}.attributes['b'].bool: is 'yes'"],
    ),
    "a list that is none": (
        {"name": "x", "attributes": {"s": {"strings": "a"}}},
        [f"{D}.attributes['s'].strings: is 'a', not a list"],
    ),
    "an element that does not fit": (
        {"name": "x", "attributes": {"s": {"strings": ["a", 5]}}},
        [f"{D}.attributes['s'].strings[1]: is 5"],
    ),
    "capacity that is no object": ({"name": "x", "capacity": 1}, [f"{D}.capacity: is 1, not an object"]),
    "a capacity that is no object": (
        {"name": "x", "capacity": {"memory": "40Gi"}},
        [f"{D}.capacity['memory']: is '40Gi', not an object"],
    ),
    "a capacity without a value": (
        {"name": "x", "capacity": {"memory": {}}},
        [f"{D}.capacity['memory'].value: is missing"],
    ),
    "a value that is no quantity": (
        {"name": "x", "capacity": {"memory": {"value": True}}},
        [f"{D}.capacity['memory'].value: is True"],
    ),
    "allowMultipleAllocations that is no bool": (
        {"name": "x", "allowMultipleAllocations": "yes"},
        [f"{D}.allowMultipleAllocations: is 'yes'"],
    ),
}


@pytest.mark.parametrize(("device", "faults"), BROKEN.values(), ids=BROKEN)
def test_a_broken_device_says_what_is_wrong_and_the_others_are_read(device: Any, faults: list[str]) -> None:
    found = read(slice_of(GPU, device, {**GPU, "name": "gpu-2"}))
    assert [bool(each.faults) for each in found.devices] == [False, True, False]
    assert said(found.devices[1].faults) == faults
    assert all(fault.cure for fault in found.devices[1].faults)


def test_a_broken_quantity_is_told_with_its_text() -> None:
    (device,) = read(slice_of({**GPU, "capacity": {"memory": {"value": "40Gib"}}})).devices
    (fault,) = device.faults
    assert fault.path == "spec.devices[0].capacity['memory'].value"
    assert fault.problem.startswith("'40Gib' is not a quantity")


@pytest.mark.parametrize("value", ["40Gi", 40, 1.5, "1e3"])
def test_quantities_may_be_numbers(value: Any) -> None:
    (device,) = read(slice_of({**GPU, "capacity": {"memory": {"value": value}}})).devices
    assert device.faults == ()


@pytest.mark.parametrize("attribute", [{"ints": []}, {"bools": [True]}, {"versions": ["1.0.0"]}, {"int": 0}])
def test_every_kind_of_value_fits(attribute: dict[str, Any]) -> None:
    (device,) = read(slice_of({**GPU, "attributes": {"a": attribute}})).devices
    assert device.faults == ()


def test_a_misspelt_field_of_the_slice_is_told_and_the_devices_are_read() -> None:
    found = read({**slice_of(GPU, nodename="x"), "sepc": {}})
    assert said(found.faults) == ["sepc: is no field here", "spec.nodename: is no field here"]
    assert [fault.cure for fault in found.faults] == ["did you mean spec?", "did you mean nodeName?"]
    assert [device.faults for device in found.devices] == [()]


def test_a_generation_that_is_no_number_is_told() -> None:
    found = read(slice_of(GPU, pool={"name": "p", "generation": "new"}))
    assert said(found.faults) == ["spec.pool.generation: is 'new', not an integer"]
    assert found.generation == 0


def test_a_cluster_may_know_more_fields_than_we_do() -> None:
    found = read({**slice_of({**GPU, "later": 1, "attributes": {}}, later=1), "later": 1}, strict=False)
    assert found.faults == ()
    assert [device.faults for device in found.devices] == [()]


OLD: dict[str, tuple[dict[str, Any], list[str]]] = {
    "basic is missing": ({"name": "x", "attributes": {}}, ["attributes: is no field here", "basic: is missing"]),
    "basic is no object": ({"name": "x", "basic": 5}, ["basic: is 5, not an object"]),
    "something in basic is wrong": (
        {"name": "x", "basic": {"attributes": {"a": {"int": "1"}}}},
        ["basic.attributes['a'].int: is '1'"],
    ),
    "the name is missing": ({"basic": {}}, ["name: is missing"]),
}


@pytest.mark.parametrize(("device", "faults"), OLD.values(), ids=OLD)
def test_in_v1beta1(device: dict[str, Any], faults: list[str]) -> None:
    (found,) = read(slice_of(device, version="v1beta1")).devices
    assert said(found.faults) == [f"spec.devices[0].{fault}" for fault in faults]


def test_a_device_of_v1beta1_that_is_no_object_is_told() -> None:
    (found,) = read(slice_of("gpu-0", version="v1beta1")).devices
    assert said(found.faults) == ["spec.devices[0].basic: is 'gpu-0', not an object"]


def test_a_device_without_a_name_is_called_by_its_place() -> None:
    (found,) = read(slice_of({"attributes": {}})).devices
    assert found.id == DeviceID("gpu.example.com", "node-1", "<spec.devices[0]>")


def test_a_slice_without_a_name_has_none() -> None:
    (found,) = read({**slice_of(GPU), "metadata": None}).devices
    assert found.slice == ""


def test_only_the_newest_generation_of_a_pool_counts() -> None:
    slices = [
        read(slice_of(GPU, pool={"name": pool, "generation": generation}))
        for pool, generation in (("a", 1), ("b", 1), ("a", 2), ("a", 2))
    ]
    assert [(each.pool, each.generation) for each in newest(slices)] == [("b", 1), ("a", 2), ("a", 2)]


def test_a_device_without_a_slice_is_looked_at_for_its_types_only() -> None:
    assert device_faults({"attributes": {"a": {}, "b": {"int": 1, "string": ""}}, "later": 1}, OBJ) == ()
    assert said(device_faults({"attributes": {"a": {"int": "1"}}}, OBJ)) == ["device.attributes['a'].int: is '1'"]
    assert said(device_faults([], OBJ)) == ["device: is [], not an object"]
