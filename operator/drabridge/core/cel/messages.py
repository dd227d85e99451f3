"""The well-known messages: `google.protobuf.Timestamp{seconds: 1}` and the like become plain values.

A field takes values of its own type only; what the checker could not know is found out here. Struct, ListValue and
Value hold JSON, so that numbers become doubles, and bytes and times become texts.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from drabridge.core.cel import times, work
from drabridge.core.cel.operators import MAX_INT, MIN_INT, MIN_SECONDS, SECOND, NativeMap, text, type_name, type_text
from drabridge.core.cel.values import CelError, Duration, Opaque, Optional, Timestamp, Uint

Fields = Mapping[str, Any]
Converter = Callable[[Any], Any]

_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that JSON holds as a number; beyond, it becomes a text."""


def build(name: str, fields: Fields) -> Any:
    """Make the value of a message literal. Raises CelError for values that do not fit their fields."""
    converters = _FIELDS.get(name)
    if converters is None:
        raise CelError(f"unknown type '{name}'")
    return _ASSEMBLED[name]({field: _field(name, field, converters[field], value) for field, value in fields.items()})


def _field(name: str, field: str, convert: Converter, value: Any) -> Any:
    container = _CONTAINERS.get(f"{name}.{field}")
    if container is not None and not isinstance(value, container):
        raise CelError(f"unsupported field type for {name}.{field}: {type_text(value)}")
    try:
        return convert(value)
    except CelError as error:
        raise CelError(f"field type conversion error for {name}.{field} value type: {error}") from None


def inconvertible(value: Any, target: str) -> str:
    """Say, in cel-go's many words, that a value is no value of a Go type."""
    name = type_name(value)
    if name in ("int", "uint"):
        return f"unsupported type conversion from '{name}' to {target}"
    if name == "type":
        return "type conversion not supported for 'type'"
    if name == "optional_type":
        return "optional.none() dereference"
    if name == "string":
        return f"unsupported native conversion from string to '{target}'"
    short = _SHORT.get(name) or f"'{name.rpartition('.')[2].removeprefix('Named')}'"
    return f"type conversion error from {short} to '{target}'"


_SHORT: Final = {"bool": "bool", "bytes": "Bytes", "double": "Double", "list": "list", "map": "map"}


# Converters: a value to what a field holds


def _inner(value: Any) -> Any:
    """What an optional holds; an optional of nothing stays."""
    while value.__class__ is Optional and value.present:
        value = value.value
    return value


def _scalar(cls: type, target: str) -> Converter:
    def convert(value: Any) -> Any:
        value = _inner(value)
        if value.__class__ is not cls:
            raise CelError(inconvertible(value, target))
        return value

    return convert


_plain_text = _scalar(str, "string")


def _text(value: Any) -> Any:
    value = _inner(value)
    return str(value) if isinstance(value, Opaque) and value.is_text else _plain_text(value)


def _integer(cls: type, target: str, low: int, high: int) -> Converter:
    plain = _scalar(cls, target)

    def convert(value: Any) -> Any:
        number = plain(value)
        if not low <= number <= high:
            raise CelError(f"{'unsigned ' if cls is Uint else ''}integer overflow")
        return number

    return convert


def _float32(value: Any) -> float:
    """Round to the 32 bits that a FloatValue has."""
    number: float = _scalar(float, "float32")(value)
    try:
        rounded: float = struct.unpack("f", struct.pack("f", number))[0]
    except OverflowError:
        return math.copysign(math.inf, number)
    return rounded


def _json(value: Any) -> Any:
    """A value as JSON holds it."""
    value = _inner(value)
    match value:
        case None | bool() | str() | float():
            return value
        case int():
            return float(value) if abs(value) <= _SAFE_INTEGER else str(int(value))
        case bytes():
            work.spend(len(value) // 4)
            return base64.b64encode(value).decode()
        case Timestamp():
            return times.timestamp_text(value)
        case Duration():
            return times.duration_text(value)
        case list() | tuple():
            work.spend((len(value) + 1) * 2 * work.COMPARISON)
            return [_json(element) for element in value]
        case dict():
            work.spend(len(value) * work.WRITING)
            return NativeMap((_KEY(key), _json(element)) for key, element in value.items())
        case _:
            raise CelError(inconvertible(value, "*structpb.Value"))


_KEY: Final = _plain_text


def _json_list(value: Any) -> Any:
    value = _inner(value)
    if isinstance(value, dict):
        if not value:
            return []
        name = text(next(iter(value)))
        raise CelError(
            f"type conversion error, no such field '{name[:1].upper()}{name[1:]}' in type 'structpb.ListValue'"
        )
    if not isinstance(value, list | tuple):
        raise CelError(inconvertible(value, "*structpb.ListValue"))
    return _json(value)


def _json_map(value: Any) -> Any:
    value = _inner(value)
    if not isinstance(value, dict):
        raise CelError(inconvertible(value, "*structpb.Struct"))
    return _json(value)


# Assembly: the fields to the value


def _timestamp(fields: Fields) -> Timestamp:
    """The moment; it may lie beyond the years 1 to 9999. Go counts seconds from the year 1 on, and so overflows."""
    seconds, nanos = fields.get("seconds", 0), fields.get("nanos", 0)
    since_year_1 = times.wrapped(seconds + nanos // SECOND - MIN_SECONDS)
    return Timestamp((since_year_1 + MIN_SECONDS) * SECOND + nanos % SECOND)


def _duration(fields: Fields) -> Duration:
    nanoseconds = fields.get("seconds", 0) * SECOND + fields.get("nanos", 0)
    return Duration(max(MIN_INT, min(nanoseconds, MAX_INT)))


def _last(fields: Fields) -> Any:
    """The value of the last field: there can be only one, and which of several upstream takes is left to chance."""
    field, value = next(reversed([*fields.items()]), ("null_value", None))
    return None if field == "null_value" else value


_INT64: Final = _integer(int, "int64", MIN_INT, MAX_INT)
_TIME_FIELDS: Final = {"seconds": _INT64, "nanos": _integer(int, "int32", -(2**31), 2**31 - 1)}
_WRAPPERS: Final[Mapping[str, tuple[Converter, Any]]] = {
    "google.protobuf.BoolValue": (_scalar(bool, "bool"), False),
    "google.protobuf.BytesValue": (_scalar(bytes, "[]uint8"), b""),
    "google.protobuf.DoubleValue": (_scalar(float, "float64"), 0.0),
    "google.protobuf.FloatValue": (_float32, 0.0),
    "google.protobuf.Int32Value": (_integer(int, "int32", -(2**31), 2**31 - 1), 0),
    "google.protobuf.Int64Value": (_INT64, 0),
    "google.protobuf.StringValue": (_text, ""),
    "google.protobuf.UInt32Value": (_integer(Uint, "uint32", 0, 2**32 - 1), Uint(0)),
    "google.protobuf.UInt64Value": (_scalar(Uint, "uint64"), Uint(0)),
}
"""How the field `value` is converted, and what it is if it is not set."""

_CONTAINERS: Final[Mapping[str, type | tuple[type, ...]]] = {
    "google.protobuf.ListValue.values": (list, tuple),
    "google.protobuf.Struct.fields": dict,
}
_FIELDS: Final[Mapping[str, Mapping[str, Converter]]] = {
    "google.protobuf.Timestamp": _TIME_FIELDS,
    "google.protobuf.Duration": _TIME_FIELDS,
    "google.protobuf.ListValue": {"values": _json},
    "google.protobuf.Struct": {"fields": _json},
    "google.protobuf.Value": {
        "null_value": _integer(int, "protoreflect.EnumNumber", -(2**31), 2**31 - 1),
        "number_value": _scalar(float, "float64"),
        "string_value": _text,
        "bool_value": _scalar(bool, "bool"),
        "struct_value": _json_map,
        "list_value": _json_list,
    },
    **{name: {"value": convert} for name, (convert, _) in _WRAPPERS.items()},
}
_ASSEMBLED: Final[Mapping[str, Callable[[Fields], Any]]] = {
    "google.protobuf.Timestamp": _timestamp,
    "google.protobuf.Duration": _duration,
    "google.protobuf.ListValue": lambda fields: fields.get("values", []),
    "google.protobuf.Struct": lambda fields: fields.get("fields", {}),
    "google.protobuf.Value": _last,
    **{name: partial(lambda zero, fields: fields.get("value", zero), zero) for name, (_, zero) in _WRAPPERS.items()},
}
