"""The fields of a scenario and their types: what a misspelt or mistyped field is told from one that is not there by.

Slow and thorough. Scenarios are read with it, since nobody has validated their objects before; objects of an API server
only if something went wrong with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from drabridge.core.allocation.reading import parse_quantity, written
from drabridge.core.allocation.slices import Slice
from drabridge.core.errors import Bug, InvalidInput, quoted


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


@dataclass(frozen=True, slots=True)
class Checker:
    """Checks values against what is known of them. `object` is whose they are; `strict` refuses unknown fields."""

    object: str
    strict: bool = True

    def check(self, raw: Any, spec: Spec, path: str = "") -> None:
        """Check a value. Raises InvalidInput with the path of the first thing that is wrong."""
        match spec:
            case Leaf():
                if problem := spec.problem(raw):
                    raise self._invalid(path, problem)
            case ListOf():
                for index, element in enumerate(self._list(raw, path)):
                    self.check(element, spec.element, f"{path}[{index}]")
            case MapOf():
                for key, value in self._mapping(raw, path).items():
                    self.check(value, spec.value, f"{path}[{key}]")
            case _:
                self._check_fields(self._mapping(raw, path), spec, path)

    def _check_fields(self, raw: Mapping[str, Any], spec: Mapping[str, Spec], path: str) -> None:
        for key, value in raw.items():
            at = f"{path}.{key}" if path else str(key)
            if key in spec:
                if value is not None:
                    self.check(value, spec[key], at)
            elif self.strict:
                raise self._invalid(at, "is no field")

    def _mapping(self, raw: Any, path: str) -> Mapping[str, Any]:
        if not isinstance(raw, Mapping):
            raise self._invalid(path, f"is {quoted(raw)}, not an object")
        return raw

    def _list(self, raw: Any, path: str) -> Sequence[Any]:
        if not isinstance(raw, (list, tuple)):
            raise self._invalid(path, f"is {quoted(raw)}, not a list")
        return raw

    def _invalid(self, path: str, problem: str) -> InvalidInput:
        return InvalidInput(self.object, path, problem, f"correct the {self.object.partition(' ')[0]}")


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
SLICE: Final[Spec] = {
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
    "slices": ListOf(SLICE),
    "node": _NODE,
    "claims": ListOf(_CLAIM),
    "tags": TEXTS,
    "note": TEXT,
}
"""A scenario of the JSON-lines format."""


def blamed(slices: Iterable[Slice], error: Exception) -> Exception:
    """Find out which slice is to blame for an exception that no check foresaw."""
    for slice_ in slices:
        try:
            Checker(f"ResourceSlice {slice_.name}", strict=False).check({"spec": slice_.spec}, SLICE)
        except InvalidInput as invalid:
            return invalid
    return Bug(f"{type(error).__name__} in an allocation: {error}")
