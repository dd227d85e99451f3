"""The well-known messages: `google.protobuf.Timestamp{seconds: 1}` and the like become plain values."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

from drabridge.core.cel.operators import MAX_INT, MAX_SECONDS, MIN_INT, MIN_SECONDS, SECOND, type_name
from drabridge.core.cel.values import CelError, Duration, Timestamp, Uint

Fields = Mapping[str, Any]


def build(name: str, fields: Fields) -> Any:
    """Make the value of a message literal whose fields have been checked. Raises CelError for values out of range."""
    builder = _BUILDERS.get(name)
    if builder is None:
        raise CelError(f"unknown type '{name}'")
    return builder(name, fields)


def _wrapper(zero: Any, low: int = MIN_INT, high: int = 2**64 - 1) -> Callable[[str, Fields], Any]:
    def builder(name: str, fields: Fields) -> Any:
        value = fields.get("value")
        if value is None:
            return zero
        if value.__class__ is not zero.__class__:
            actual, wanted = type_name(value), type_name(zero)
            problem = f"unsupported native conversion from {actual} to '{_GO_NAMES.get(wanted, wanted)}'"
            raise CelError(f"field type conversion error for {name}.value value type: {problem}")
        if isinstance(value, int) and not low <= value <= high:
            kind = "unsigned integer" if isinstance(value, Uint) else "integer"
            raise CelError(f"field type conversion error for {name}.value value type: {kind} overflow")
        return value

    return builder


_GO_NAMES: Final = {"int": "int64", "uint": "uint64", "double": "float64", "bytes": "[]uint8"}


def _float(name: str, fields: Fields) -> float:
    """Round to the 32 bits that a FloatValue has."""
    value: float = _wrapper(0.0)(name, fields)
    try:
        rounded: float = struct.unpack("f", struct.pack("f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)
    return rounded


def _timestamp(_: str, fields: Fields) -> Timestamp:
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    if not MIN_SECONDS <= seconds + nanos // SECOND <= MAX_SECONDS:
        raise CelError("timestamp overflow")
    return Timestamp(seconds * SECOND + nanos)


def _duration(_: str, fields: Fields) -> Duration:
    nanoseconds = fields.get("seconds", 0) * SECOND + fields.get("nanos", 0)
    return Duration(max(MIN_INT, min(nanoseconds, MAX_INT)))


def _value(_: str, fields: Fields) -> Any:
    return next((value for name, value in fields.items() if name != "null_value"), None)


_BUILDERS: Final[Mapping[str, Callable[[str, Fields], Any]]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.BoolValue": _wrapper(False),
    "google.protobuf.BytesValue": _wrapper(b""),
    "google.protobuf.DoubleValue": _wrapper(0.0),
    "google.protobuf.FloatValue": _float,
    "google.protobuf.Int32Value": _wrapper(0, -(2**31), 2**31 - 1),
    "google.protobuf.Int64Value": _wrapper(0),
    "google.protobuf.StringValue": _wrapper(""),
    "google.protobuf.UInt32Value": _wrapper(Uint(0), 0, 2**32 - 1),
    "google.protobuf.UInt64Value": _wrapper(Uint(0)),
    "google.protobuf.ListValue": lambda _, fields: fields.get("values", []),
    "google.protobuf.Struct": lambda _, fields: fields.get("fields", {}),
    "google.protobuf.Value": _value,
}
