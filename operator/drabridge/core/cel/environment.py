"""What an expression may name: the variable `device`, functions, types, and what the feature gates take away.

Upstream has two kinds of environments (k8s.io/dynamic-resource-allocation/cel): one for expressions that are stored
already, which knows everything, and one for new expressions, which goes by the feature gates of the API server.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from drabridge.core.cel.declarations import Function, Library, Overload
from drabridge.core.cel.library import LIBRARIES
from drabridge.core.cel.standard import AUTHORIZATION, STANDARD
from drabridge.core.cel.types import (
    ANY,
    BOOL,
    BYTES,
    CIDR,
    DEVICE,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    IP,
    NULL,
    QUANTITY,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    wrapper_of,
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """An overload as the checker tries it: with the names of its type parameters."""

    overload: Overload
    parameters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Declared:
    """A function with the overloads of all libraries."""

    function: Function
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Environment:
    """Names and their meaning. `attribute` is the type of the values in device.attributes."""

    functions: Mapping[str, Declared]
    attribute: Type
    device: Mapping[str, Type]


MESSAGES: Final[Mapping[str, Mapping[str, Type]]] = {
    "google.protobuf.Timestamp": {"seconds": INT, "nanos": INT},
    "google.protobuf.Duration": {"seconds": INT, "nanos": INT},
    "google.protobuf.BoolValue": {"value": BOOL},
    "google.protobuf.BytesValue": {"value": BYTES},
    "google.protobuf.DoubleValue": {"value": DOUBLE},
    "google.protobuf.FloatValue": {"value": DOUBLE},
    "google.protobuf.Int32Value": {"value": INT},
    "google.protobuf.Int64Value": {"value": INT},
    "google.protobuf.StringValue": {"value": STRING},
    "google.protobuf.UInt32Value": {"value": UINT},
    "google.protobuf.UInt64Value": {"value": UINT},
    "google.protobuf.ListValue": {"values": list_of(DYN)},
    "google.protobuf.Struct": {"fields": map_of(STRING, DYN)},
    "google.protobuf.Value": {
        "null_value": INT,
        "number_value": DOUBLE,
        "string_value": STRING,
        "bool_value": BOOL,
        "struct_value": map_of(STRING, DYN),
        "list_value": list_of(DYN),
    },
}
"""The well-known messages that can be written as `type{field: value}`, with their fields."""

_MESSAGE_TYPES: Final[Mapping[str, Type]] = {
    "google.protobuf.Timestamp": TIMESTAMP,
    "google.protobuf.Duration": DURATION,
    "google.protobuf.ListValue": list_of(DYN),
    "google.protobuf.Struct": map_of(STRING, DYN),
    "google.protobuf.Value": DYN,
    "google.protobuf.Any": ANY,
    "google.protobuf.NullValue": NULL,
    **{name: wrapper_of(fields["value"]) for name, fields in MESSAGES.items() if "value" in fields},
}

TYPES: Final[Mapping[str, Type]] = {
    **{type_.name: type_ for type_ in (BOOL, BYTES, DOUBLE, INT, STRING, UINT, IP, CIDR)},
    "null_type": NULL,
    "list": list_of(DYN),
    "map": map_of(DYN, DYN),
    "type": Type("type"),
    "optional_type": optional_of(DYN),
    DEVICE.name: DEVICE,
    **_MESSAGE_TYPES,
}
"""The types that have names in expressions."""

CONSTANTS: Final[Mapping[str, int]] = {"google.protobuf.NullValue.NULL_VALUE": 0}


def _declare(libraries: Iterable[Library], without: frozenset[str]) -> dict[str, Declared]:
    functions: dict[str, Function] = {}
    for library in libraries:
        for function in library.functions:
            if function.name in without:
                continue
            known = functions.get(function.name)
            if known is not None:
                function = Function(function.name, known.overloads + function.overloads, function.undecided)  # noqa: PLW2901
            functions[function.name] = function
    return {
        name: Declared(function, tuple(map(_candidate, function.overloads))) for name, function in functions.items()
    }


def _candidate(overload: Overload) -> Candidate:
    names = dict.fromkeys(name for type_ in (*overload.arguments, overload.result) for name in type_.parameters())
    return Candidate(overload, tuple(names))


def _environment(*, attribute: Type, consumable_capacity: bool, without: frozenset[str]) -> Environment:
    device = {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, attribute)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    if consumable_capacity:
        device["allowMultipleAllocations"] = BOOL
    return Environment(_declare((STANDARD, *LIBRARIES, AUTHORIZATION), without), attribute, device)


@lru_cache(maxsize=1)
def stored_expressions() -> Environment:
    """The environment of expressions that the API server has stored: everything is known. The scheduler's, and ours."""
    return _environment(attribute=DYN, consumable_capacity=True, without=frozenset())


@lru_cache(maxsize=4)
def new_expressions(*, consumable_capacity: bool, list_attributes: bool) -> Environment:
    """The environment of admission, by the API server's feature gates.

    `consumable_capacity` (DRAConsumableCapacity) adds device.allowMultipleAllocations; `list_attributes`
    (DRAListTypeAttributes) adds includes() and lets attributes be lists.
    """
    return _environment(
        attribute=DYN if list_attributes else ANY,
        consumable_capacity=consumable_capacity,
        without=frozenset() if list_attributes else frozenset({"includes"}),
    )
