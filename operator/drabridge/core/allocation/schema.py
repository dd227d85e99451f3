"""The fields of a scenario: strict reading, which tells a misspelt field from one that is not there.

Only for scenarios, where nobody has validated the objects before: what the API server stores has no unknown fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from drabridge.core.allocation.reading import parse_quantity, written
from drabridge.core.errors import InvalidInput, quoted


@dataclass(frozen=True, slots=True)
class Leaf:
    """A value without fields. `problem` says what is wrong with it, "" for nothing."""

    problem: Callable[[Any], str]


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list."""

    element: Spec


@dataclass(frozen=True, slots=True)
class MapOf:
    """An object with any keys."""

    value: Spec


Spec = Leaf | ListOf | MapOf | Mapping[str, "Spec"]


def check(raw: Any, spec: Spec, path: str = "") -> None:
    """Check a value against what is known of it. Raises InvalidInput with the path of the first thing that is wrong."""
    if raw is None:
        return
    match spec:
        case Leaf():
            if problem := spec.problem(raw):
                raise _invalid(path, problem)
        case ListOf():
            for index, element in enumerate(_list(raw, path)):
                check(element, spec.element, f"{path}[{index}]")
        case MapOf():
            for key, value in _mapping(raw, path).items():
                check(value, spec.value, f"{path}[{key}]")
        case _:
            for key, value in _mapping(raw, path).items():
                at = f"{path}.{key}" if path else str(key)
                if key not in spec:
                    raise _invalid(at, "is no field")
                check(value, spec[key], at)


def _mapping(raw: Any, path: str) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise _invalid(path, f"is {quoted(raw)}, not an object")
    return raw


def _list(raw: Any, path: str) -> Sequence[Any]:
    if not isinstance(raw, list | tuple):
        raise _invalid(path, f"is {quoted(raw)}, not a list")
    return raw


def _invalid(path: str, problem: str) -> InvalidInput:
    return InvalidInput("scenario", path, problem, "correct the scenario")


def _instance(type_: type, name: str) -> Leaf:
    return Leaf(lambda raw: "" if raw.__class__ is type_ else f"is {quoted(raw)}, not {name}")


def _int64(raw: Any) -> str:
    if raw.__class__ is int and -(2**63) <= raw < 2**63:
        return ""
    return f"is {quoted(raw)}, not an int64"


def _quantity(raw: Any) -> str:
    try:
        parse_quantity(written(raw))
    except ValueError as error:
        return str(error)
    return ""


TEXT: Final = _instance(str, "a string")
FLAG: Final = _instance(bool, "a bool")
WHOLE: Final = Leaf(_int64)
QUANTITY: Final = Leaf(_quantity)
ANYTHING: Final = Leaf(lambda _: "")
TEXTS: Final = ListOf(TEXT)

_METADATA: Final[Spec] = {
    **dict.fromkeys(
        ("name", "generateName", "namespace", "selfLink", "uid", "resourceVersion", "creationTimestamp"), TEXT
    ),
    "deletionTimestamp": TEXT,
    "deletionGracePeriodSeconds": WHOLE,
    "generation": WHOLE,
    "labels": MapOf(TEXT),
    "annotations": MapOf(TEXT),
    "ownerReferences": ANYTHING,
    "finalizers": TEXTS,
    "managedFields": ANYTHING,
}

_OBJECT: Final[Mapping[str, Spec]] = {"apiVersion": TEXT, "kind": TEXT, "metadata": _METADATA}

_REQUIREMENT: Final[Spec] = {"key": TEXT, "operator": TEXT, "values": TEXTS}
_NODE_SELECTOR: Final[Spec] = {
    "nodeSelectorTerms": ListOf({"matchExpressions": ListOf(_REQUIREMENT), "matchFields": ListOf(_REQUIREMENT)})
}
_SELECTORS: Final[Spec] = ListOf({"cel": {"expression": TEXT}})
_OPAQUE: Final[Mapping[str, Spec]] = {"opaque": {"driver": TEXT, "parameters": ANYTHING}}

_COUNTERS: Final[Spec] = MapOf({"value": QUANTITY})
_POLICY: Final[Spec] = {
    "default": QUANTITY,
    "validValues": ListOf(QUANTITY),
    "validRange": {"min": QUANTITY, "max": QUANTITY, "step": QUANTITY},
}
_ATTRIBUTE: Final[Spec] = {
    "int": WHOLE, "bool": FLAG, "string": TEXT, "version": TEXT,
    "ints": ListOf(WHOLE), "bools": ListOf(FLAG), "strings": TEXTS, "versions": TEXTS,
}  # fmt: skip
_PLACE: Final[Mapping[str, Spec]] = {"nodeName": TEXT, "nodeSelector": _NODE_SELECTOR, "allNodes": FLAG}
_DEVICE: Final[Spec] = {
    **_PLACE,
    "name": TEXT,
    "attributes": MapOf(_ATTRIBUTE),
    "capacity": MapOf({"value": QUANTITY, "requestPolicy": _POLICY}),
    "consumesCounters": ListOf({"counterSet": TEXT, "counters": _COUNTERS, "compatibilityGroups": TEXTS}),
    "taints": ListOf({"key": TEXT, "value": TEXT, "effect": TEXT, "timeAdded": TEXT}),
    "bindsToNode": FLAG,
    "bindingConditions": TEXTS,
    "bindingFailureConditions": TEXTS,
    "allowMultipleAllocations": FLAG,
    "nodeAllocatableResources": ANYTHING,
    "nodeAllocatableResourceMappings": ANYTHING,
}
_SLICE: Final[Spec] = {
    **_OBJECT,
    "spec": {
        **_PLACE,
        "driver": TEXT,
        "pool": {"name": TEXT, "generation": WHOLE, "resourceSliceCount": WHOLE},
        "devices": ListOf(_DEVICE),
        "perDeviceNodeSelection": FLAG,
        "sharedCounters": ListOf({"name": TEXT, "counters": _COUNTERS}),
        "skipNodeOperations": TEXTS,
        "partitionTypeAttribute": TEXT,
    },
}
_CLASS: Final[Spec] = {
    **_OBJECT,
    "spec": {"selectors": _SELECTORS, "config": ListOf(_OPAQUE), "extendedResourceName": TEXT},
}
_TOLERATION: Final[Spec] = {
    "key": TEXT, "operator": TEXT, "value": TEXT, "effect": TEXT, "tolerationSeconds": WHOLE,
}  # fmt: skip
_EXACTLY: Final[Mapping[str, Spec]] = {
    "deviceClassName": TEXT,
    "selectors": _SELECTORS,
    "allocationMode": TEXT,
    "count": WHOLE,
    "tolerations": ListOf(_TOLERATION),
    "capacity": {"requests": MapOf(QUANTITY)},
    "derivedAttributes": ListOf({"name": TEXT, "expression": TEXT}),
}
_CLAIM: Final[Spec] = {
    **_OBJECT,
    "spec": {
        "devices": {
            "requests": ListOf(
                {
                    "name": TEXT,
                    "exactly": {**_EXACTLY, "adminAccess": FLAG},
                    "firstAvailable": ListOf({**_EXACTLY, "name": TEXT}),
                }
            ),
            "constraints": ListOf({"requests": TEXTS, "matchAttribute": TEXT, "distinctAttribute": TEXT}),
            "config": ListOf({**_OPAQUE, "requests": TEXTS}),
        }
    },
    "status": ANYTHING,
}
_NODE: Final[Spec] = {
    **_OBJECT,
    "spec": dict.fromkeys(
        ("podCIDR", "podCIDRs", "providerID", "unschedulable", "taints", "configSource", "externalID"), ANYTHING
    ),
    "status": {
        **dict.fromkeys(
            (
                "capacity", "allocatable", "phase", "conditions", "addresses", "daemonEndpoints", "nodeInfo", "images",
                "volumesInUse", "volumesAttached", "config", "runtimeHandlers", "features",
            ),
            ANYTHING,
        ),
        "declaredFeatures": TEXTS,
    },
}  # fmt: skip

SCENARIO: Final[Spec] = {
    "id": TEXT,
    "features": MapOf(FLAG),
    "allocatedDevices": TEXTS,
    "allocatedSharedDeviceIDs": TEXTS,
    "aggregatedCapacity": MapOf(MapOf(QUANTITY)),
    "classes": ListOf(_CLASS),
    "slices": ListOf(_SLICE),
    "node": _NODE,
    "claims": ListOf(_CLAIM),
    "tags": TEXTS,
    "note": TEXT,
}
"""A scenario of the JSON-lines format."""
