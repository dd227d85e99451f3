"""Answers of allocators, made comparable, and the recorded scenarios with upstream's answers."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from drabridge.core.quantity import Quantity

DATA = Path(__file__).parent / "data"

FEATURES = {
    "DRAAdminAccess": "adminAccess",
    "DRAPrioritizedList": "prioritizedList",
    "DRAPartitionableDevices": "partitionableDevices",
    "DRADeviceTaints": "deviceTaints",
    "DRADeviceBindingConditions+DRAResourceClaimDeviceStatus": "deviceBindingAndStatus",
    "DRAConsumableCapacity": "consumableCapacity",
    "DRAFractionalCapacityRange": "fractionalCapacityRange",
    "DRAListTypeAttributes": "listTypeAttributes",
    "DRADerivedAttributes": "derivedAttributes",
    "DRADeviceCompatibilityGroups": "compatibilityGroups",
    "DRAOptionalNodeOperations": "optionalNodeOperations",
}
"""Upstream's names, and those of scenarios."""

_WORDED_BY_OTHERS = re.compile(
    r"((?:CEL (?:compile|runtime) error|derived attribute \S+ (?:on device \S+ )?failed"
    r"|failed to perform node selection for (?:slice|device)|failed to parse node selector"
    r"|checking capacity for device \S+:"  # with several bad capacities, any of them may be named
    r"|bad scenario|panic)).*",
    re.DOTALL,
)


class Outcome(NamedTuple):
    """What two allocators must agree on."""

    results: Any
    error: str | None
    node_only: bool

    @classmethod
    def of(cls, answer: Mapping[str, Any]) -> Outcome:
        """Take it from an answer: quantities by value, and no text that comes from CEL or a parser."""
        error = answer.get("error")
        return cls(
            _plain(answer.get("results")),
            None if error is None else _WORDED_BY_OTHERS.sub(r"\1", error),
            answer.get("errorOnNodeOnly") is True,
        )

    @property
    def kind(self) -> str:
        """ "fit", "no fit", "error" or, without claims, "nothing"."""
        if self.error is not None:
            return "error"
        return "no fit" if self.results is None else "fit" if self.results else "nothing"


def _plain(value: Any, key: str = "") -> Any:
    """Without what says nothing: absent fields and empty ones are the same."""
    if isinstance(value, Mapping):
        if key == "consumedCapacity":
            return {name: Quantity.parse(str(each)) for name, each in value.items()}
        if key == "parameters":  # of a driver: not ours to read
            return value
        plain = {name: _plain(each, name) for name, each in value.items()}
        return {name: each for name, each in plain.items() if each not in (None, "", [], {}) or name == "devices"}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


@dataclass(frozen=True, slots=True)
class Recorded:
    """A scenario and what upstream said, by flavour. Flavours that lack a feature have no answer."""

    name: str
    scenario: dict[str, Any]
    answers: Mapping[str, dict[str, Any]]


@cache
def table() -> tuple[Recorded, ...]:
    """Upstream's own test cases."""
    return tuple(map(_case, json.loads((DATA / "allocator_cases.json").read_text())))


@cache
def random_scenarios() -> tuple[Recorded, ...]:
    """Random scenarios with the answers of the experimental flavour."""
    with gzip.open(DATA / "allocator_random.jsonl.gz", "rt") as lines:
        pairs = map(json.loads, lines)
        return tuple(
            Recorded(each["scenario"]["id"], each["scenario"], {"experimental": each["answer"]}) for each in pairs
        )


def _case(case: dict[str, Any]) -> Recorded:
    scenario = {name: case[name] for name in ("classes", "slices", "node", "claims")}
    scenario |= {
        "id": case["name"],
        "features": {FEATURES[name]: True for name in case["features"] or ()},
        "allocatedDevices": [_id(each) for each in case["allocatedDevices"] or ()],
        "allocatedSharedDeviceIDs": [
            f"{_id(each)}/{each['ShareID']}" for each in case["allocatedSharedDeviceIDs"] or ()
        ],
        "aggregatedCapacity": {_id(each): each["Capacity"] for each in case["aggregatedCapacity"] or ()},
    }
    answers = {
        flavour: {
            "results": _numbered(outcome["results"]),
            "error": outcome.get("error"),
            "errorOnNodeOnly": outcome.get("error") == "invalid resource pools were encountered",
            "allocateOneInvocations": outcome["numAllocateOneInvocations"],
        }
        for flavour, outcome in case["outcomes"].items()
    }
    return Recorded(case["name"], scenario, answers)


def _id(device: Mapping[str, str]) -> str:
    return f"{device['Driver']}/{device['Pool']}/{device['Device']}"


def _numbered(results: Any) -> Any:
    """The table has one share ID for all shares."""
    numbers = iter(range(10**9))
    for result in results or ():
        for device in _devices(result):
            if "shareID" in device:
                device["shareID"] = f"share-{next(numbers)}"
    return results


def _devices(result: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield from result["devices"].get("results") or ()
