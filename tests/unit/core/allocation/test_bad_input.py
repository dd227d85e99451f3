"""Broken objects: an error that names object, path and cure, or what upstream makes of them, never anything else."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest

from allocation_shapes import (
    DRIVER,
    Json,
    claim,
    device,
    device_class,
    mig,
    nics,
    plain,
    request,
    scenario,
    share,
    slice_of,
)
from drabridge.core.allocation.allocate import allocate
from drabridge.core.allocation.claims import Claim, DeviceClass, claims_of
from drabridge.core.allocation.features import JSON_NAMES, Features
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.outcomes import AllocationError
from drabridge.core.allocation.scenario import answer
from drabridge.core.allocation.settings import Settings
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState
from drabridge.core.errors import Bug, DrabridgeError, InvalidInput

FULL = Settings(Features.all())

SCENARIO = scenario([slice_of(plain(2))], claim(request("r")))


def changed(change: Callable[[Json], Any], of: Json = SCENARIO) -> Json:
    found = copy.deepcopy(of)
    change(found)
    return found


def spec(found: Json, number: int = 0) -> Json:
    return found["slices"][number]["spec"]  # type: ignore[no-any-return]


def exactly(found: Json) -> Json:
    return found["claims"][0]["spec"]["devices"]["requests"][0]["exactly"]  # type: ignore[no-any-return]


SHARED = scenario([slice_of(nics(1))], claim(share("r", "1G")))
PARTITIONS = scenario(mig(1), claim(request("r")))


def with_policy(policy: Json) -> Json:
    return changed(lambda s: spec(s)["devices"][0]["capacity"]["bandwidth"].update(requestPolicy=policy), SHARED)


BAD = {
    "no object": ([], "is no object"),
    "no node": (changed(lambda s: s.pop("node")), "no node"),
    "an unknown field": (changed(lambda s: s.update(colour=1)), "colour: is no field"),
    "an unknown field of a slice": (
        changed(lambda s: spec(s).update(colour=1)), r"slices\[0\].spec.colour: is no field",
    ),
    "an unknown field of a device": (
        changed(lambda s: spec(s)["devices"][1].update(basic={})), r"slices\[0\].spec.devices\[1\].basic: is no field",
    ),
    "an unknown field of a request": (
        changed(lambda s: exactly(s).update(cont=1)), r"requests\[0\].exactly.cont: is no field",
    ),
    "an unknown feature": (changed(lambda s: s["features"].update(telepathy=True)), "telepathy"),
    "devices that are no list": (changed(lambda s: spec(s).update(devices={})), r"spec.devices: is {}, not a list"),
    "a device that is no object": (
        changed(lambda s: spec(s).update(devices=[7])), r"spec.devices\[0\]: is 7, not an object",
    ),
    "a name that is no string": (
        changed(lambda s: s["slices"][0]["metadata"].update(name=7)), r"metadata.name: is 7, not a string",
    ),
    "a generation that is no integer": (
        changed(lambda s: spec(s)["pool"].update(generation="1")), r"pool.generation: is '1', not an int64",
    ),
    "a count that is too large for an integer": (
        changed(lambda s: exactly(s).update(count=2**63)), r"count: is 9223372036854775808, not an int64",
    ),
    "a negative count": (changed(lambda s: exactly(s).update(count=-5)), r"exactly.count: is -5; ask for at least"),
    "a bool that is none": (changed(lambda s: spec(s).update(allNodes="yes")), r"allNodes: is 'yes', not a bool"),
    "a broken quantity": (
        changed(lambda s: spec(s)["devices"][0].update(capacity={"m": {"value": "4 GB"}})), r"\[m\].value: '4 GB'",
    ),
    "a quantity beyond all bounds": (
        changed(lambda s: spec(s)["devices"][0].update(capacity={"m": {"value": "1e2000000000"}})), "is larger than",
    ),
    "a quantity that is no text": (
        changed(lambda s: spec(s)["devices"][0].update(capacity={"m": {"value": True}})), "True is not a quantity",
    ),
    "a request of nothing": (
        changed(lambda s: s["claims"][0]["spec"]["devices"]["requests"][0].pop("exactly")),
        r"ResourceClaim default/claim-0: spec.devices.requests\[0\]: has neither exactly nor firstAvailable",
    ),
    "a step without a beginning": (
        with_policy({"default": "1G", "validRange": {"step": "1G"}}), r"validRange.min: is missing, but there is a",
    ),
    "a step of nothing": (
        with_policy({"default": "1G", "validRange": {"min": "0", "step": "0"}}), r"validRange.step: is not larger",
    ),
    "a device name that is none": (
        changed(lambda s: s.update(allocatedDevices=["gpu-0"])), r"allocatedDevices: has 'gpu-0', which is not driver",
    ),
    "a class of an old API": (
        changed(lambda s: s["classes"][0].update(apiVersion="resource.k8s.io/v1beta1")),
        "DeviceClass gpu: apiVersion: is 'resource.k8s.io/v1beta1', whose fields are others; use resource.k8s.io/v1",
    ),
    "a slice of an old API": (
        changed(lambda s: s["slices"][0].update(apiVersion="resource.k8s.io/v1alpha3")), "slice-0: apiVersion",
    ),
    "a claim of an old API": (
        changed(lambda s: s["claims"][0].update(apiVersion="resource.k8s.io/v1beta1")), "claim-0: apiVersion",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("bad", "problem"), BAD.values(), ids=BAD)
def test_a_bad_scenario_is_an_answer(bad: Any, problem: str) -> None:
    found = answer(bad)
    assert found["results"] is None
    assert found["error"].startswith("bad scenario: ")
    assert re.search(problem, found["error"])


GARBAGE: tuple[Any, ...] = (None, 7, -1, "x", "", True, [], [7], ["x"], {}, {"x": 7}, {"x": {}}, [{}], 1.5, 2**70)


def paths(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*at, key)
        yield from paths(each, (*at, key))


def full() -> Json:
    """A scenario with all fields that anybody reads."""
    found = copy.deepcopy(PARTITIONS)
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]}
    first = spec(found)["devices"][0]
    first |= {
        "taints": [{"key": "t", "value": "v", "effect": "NoSchedule"}],
        "allowMultipleAllocations": True,
        "capacity": {"m": {"value": "8Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}},
        "bindingConditions": ["c"],
        "bindingFailureConditions": ["d"],
    }
    first["consumesCounters"][0]["compatibilityGroups"] = ["g"]
    first["attributes"] |= {"version": {"version": "1.2.3"}, "list": {"strings": ["a"]}}
    found["slices"].append(
        slice_of(
            [{**device("n"), "nodeSelector": selector}], name="n", pool="n", place={"perDeviceNodeSelection": True}
        )
    )
    found["slices"].append(
        slice_of([device("m")], name="m", pool="m", place={"nodeSelector": selector}, skipNodeOperations=["*"])
    )
    found["classes"][0]["spec"]["config"] = [{"opaque": {"driver": DRIVER, "parameters": {}}}]
    found["node"]["metadata"]["labels"]["a"] = "b"
    found["node"]["status"] = {"declaredFeatures": ["DRAOptionalNodeOperations"]}
    found["features"] = dict.fromkeys(JSON_NAMES.values(), True)
    exactly(found).update(
        capacity={"requests": {"m": "2Gi"}},
        tolerations=[{"key": "t", "operator": "Equal", "value": "v", "effect": "NoSchedule"}],
        derivedAttributes=[{"name": "a/b", "expression": "device.driver"}],
        selectors=[{"cel": {"expression": "true"}}],
    )
    devices = found["claims"][0]["spec"]["devices"]
    devices |= {
        "constraints": [
            {"matchAttribute": "a/b", "requests": ["r"]},
            {"distinctAttribute": f"{DRIVER}/profile", "requests": ["r"]},
        ],
        "config": [{"requests": ["r"], "opaque": {"driver": DRIVER, "parameters": {}}}],
    }
    devices["requests"].append(
        {
            "name": "l",
            "firstAvailable": [{"name": "s", "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}],
        }
    )
    found["allocatedDevices"] = [f"{DRIVER}/node-1/gpu-0-1g-3"]
    found["allocatedSharedDeviceIDs"] = [f"{DRIVER}/node-1/gpu-0-1g-0/s"]
    found["aggregatedCapacity"] = {f"{DRIVER}/node-1/gpu-0-1g-0": {"m": "1Gi"}}
    return found


def replaced(scenario: Json, path: tuple[Any, ...], value: Any) -> Json:
    found = copy.copy(scenario)
    at: Any = found
    for key in path[:-1]:
        at[key] = copy.copy(at[key])
        at = at[key]
    at[path[-1]] = value
    return found


def ask(bad: Json) -> object:
    """Ask the core itself, which nobody has validated the objects for."""
    snapshot = Snapshot.of(bad["slices"] or (), bad["classes"] or ())
    return allocate(snapshot, AllocatedState(), Node.of(bad["node"]), claims_of(bad["claims"] or ()), FULL)


def is_typical(path: tuple[Any, ...]) -> bool:
    """Whether a path leads to the first of several devices."""
    return not any(before == "devices" and key.__class__ is int and key > 0 for before, key in pairwise(path))


def test_garbage_anywhere_is_never_an_exception_that_is_not_ours() -> None:
    whole = full()
    assert answer(whole)["error"] is None
    assert type(ask(whole)).__name__ == "Allocated"
    raised = []
    for path in filter(is_typical, paths(whole)):
        for value in GARBAGE:
            try:
                answer(replaced(whole, path, value))
                if len(path) > 1:
                    ask(replaced(whole, path, value))
            except Bug as error:
                raised.append((path, value, repr(error)))
            except DrabridgeError:
                continue
            except Exception as error:
                raised.append((path, value, repr(error)))
    assert raised == []


UPSTREAM = {
    "an unknown class": (
        changed(lambda s: exactly(s).update(deviceClassName="x")),
        (
            "claim default/claim-0, request r: could not retrieve device class x: "
            'deviceclass.resource.k8s.io "x" not found'
        ),
    ),
    "no class": (
        changed(lambda s: exactly(s).pop("deviceClassName")),
        "claim default/claim-0, request r: missing device class name (unsupported request type?)",
    ),
    "no mode": (
        changed(lambda s: exactly(s).pop("allocationMode")),
        "claim default/claim-0, request r: unsupported count mode ",
    ),
    "a selector without CEL": (
        changed(lambda s: exactly(s).update(selectors=[{}])),
        "claim default/claim-0, request r, selector #0: CEL expression empty (unsupported selector type?)",
    ),
    "a selector of a class without CEL": (
        changed(lambda s: s["classes"][0]["spec"].update(selectors=[{}])),
        "claim default/claim-0, request r: class gpu: selector #0: CEL expression empty (unsupported selector type?)",
    ),
    "a constraint on nothing": (
        changed(lambda s: s["claims"][0]["spec"]["devices"].update(constraints=[{}])),
        "claim default/claim-0, constraint #0: empty constraint (unsupported constraint type?)",
    ),
    "broken CEL": (
        changed(lambda s: exactly(s).update(selectors=[{"cel": {"expression": "device."}}])),
        "claim default/claim-0: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:8: Syntax error",
    ),
    "a version that is none": (
        changed(lambda s: spec(s)["devices"][0].update(attributes={"v": {"version": "1"}})),
        (
            f"class gpu: selector #0 on device {DRIVER}/node-1/d-0000: CEL runtime error: attribute v: "
            "parse semantic version: No Major.Minor.Patch elements found"
        ),
    ),
    "an attribute without a value": (
        changed(lambda s: spec(s)["devices"][0].update(attributes={"v": {}})),
        (
            f"class gpu: selector #0 on device {DRIVER}/node-1/d-0000: CEL runtime error: attribute v: "
            "unsupported attribute value"
        ),
    ),
    "too many devices": (
        changed(lambda s: exactly(s).update(count=33)),
        (
            "claim default/claim-0, request r: adding 33 devices exceeds the claim limit of 32, "
            "with 0 already accounted for"
        ),
    ),
    "a feature that is off": (
        changed(lambda s: (exactly(s).update(adminAccess=True), s["features"].update(adminAccess=False))),
        "claim default/claim-0, request r: admin access is requested, but the feature is disabled",
    ),
    "counters that do not exist": (
        changed(lambda s: spec(s)["devices"][0]["consumesCounters"][0].update(counterSet="x"), PARTITIONS),
        "invalid resource pools were encountered",
    ),
    "a counter that does not exist": (
        changed(
            lambda s: spec(s)["devices"][0]["consumesCounters"][0]["counters"].update(x={"value": "1"}), PARTITIONS
        ),
        "invalid resource pools were encountered",
    ),
    "a counter set twice": (
        changed(lambda s: spec(s, 1)["sharedCounters"].append(spec(s, 1)["sharedCounters"][0]), PARTITIONS),
        "invalid resource pools were encountered",
    ),
    "a device twice": (
        changed(lambda s: spec(s)["devices"].append(spec(s)["devices"][0])),
        "invalid resource pools were encountered",
    ),
    "a node selector that cannot be parsed": (
        changed(
            lambda s: (
                spec(s).pop("nodeName"),
                spec(s).update(
                    nodeSelector={"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}
                ),
            )
        ),
        (
            "gather pool information: failed to perform node selection for slice slice-0: failed to parse "
            "node selector: nodeSelectorTerms[0].matchExpressions[0]: 'Near' is not a valid label selector operator"
        ),
    ),
    "a node selector of two terms": (
        changed(
            lambda s: (
                spec(s).pop("nodeName"),
                spec(s).update(
                    nodeSelector={
                        "nodeSelectorTerms": [
                            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}
                        ]
                        * 2
                    }
                ),
            )
        ),
        "create NodeSelector for claim claim-0: unsupported ResourceSlice.NodeSelector with 2 terms",
    ),
}


@pytest.mark.parametrize(("bad", "error"), UPSTREAM.values(), ids=UPSTREAM)
def test_what_upstream_makes_of_it(bad: Json, error: str) -> None:
    found = answer(bad)
    assert found["results"] is None
    assert found["error"].startswith(error)


def test_128_devices_of_32_counters_are_no_trouble() -> None:
    counters = {f"c{i}": {"value": "1"} for i in range(32)}
    devices = [{**device(f"d{i}"), "consumesCounters": [{"counterSet": "s", "counters": counters}]} for i in range(128)]
    sets = slice_of([], name="sets", count=2, sharedCounters=[
        {"name": "s", "counters": {f"c{i}": {"value": "31"} for i in range(32)}}
    ])  # fmt: skip
    found = answer(scenario([slice_of(devices, name="d", count=2), sets], claim(request("r", 32))))
    assert found["error"] is None
    assert found["results"] is None
    assert found["allocateOneInvocations"] < 40


ERRORS = {
    "a class": (lambda: DeviceClass.of({"metadata": {"name": "x"}, "spec": {"selectors": 7}}), "DeviceClass x"),
    "a claim": (lambda: Claim.of({"metadata": {"name": "x"}, "spec": 7}), "ResourceClaim x"),
    "a node": (lambda: Node.of({"metadata": {"name": "x", "labels": {"a": 1}}}), "Node x"),
    "a slice": (lambda: Snapshot.of([{"metadata": {"name": "x"}, "spec": []}], []), "ResourceSlice x"),
}


@pytest.mark.parametrize(("read", "named"), ERRORS.values(), ids=ERRORS)
def test_errors_name_the_object(read: Callable[[], Any], named: str) -> None:
    with pytest.raises(InvalidInput) as error:
        read()
    assert error.value.object == named
    assert error.value.path
    assert error.value.cure


def test_devices_are_read_when_they_are_looked_at() -> None:
    broken = slice_of([{"name": "d", "attributes": {"a": {"int": "1"}}}], name="other", place={"nodeName": "elsewhere"})
    snapshot = Snapshot.of([slice_of(plain(1)), broken], [device_class()])
    claims = claims_of([claim(request("r"))])
    where = Node.of({"metadata": {"name": "node-1"}})
    assert allocate(snapshot, AllocatedState(), where, claims)
    with pytest.raises(InvalidInput, match=r"ResourceSlice other: spec.devices\[0\].attributes\[a\].int: '1' is not"):
        allocate(snapshot, AllocatedState(), Node.of({"metadata": {"name": "elsewhere"}}), claims)


def test_an_error_says_where_and_what_to_do() -> None:
    snapshot = Snapshot.of([slice_of(plain(1))], [])
    with pytest.raises(AllocationError) as error:
        allocate(snapshot, AllocatedState(), Node.of(SCENARIO["node"]), claims_of(SCENARIO["claims"]))
    assert error.value.object == "ResourceClaim default/claim-0"
    assert error.value.path == "spec.devices.requests[0].exactly.deviceClassName"
    assert error.value.cure == "create the DeviceClass, or name another one"
    assert str(error.value).startswith("ResourceClaim default/claim-0: spec.devices.requests[0].exactly")
