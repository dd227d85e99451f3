"""Conversions between types: int(x), string(x), … as cel-go's ConvertToType has them."""

from __future__ import annotations

import math
import re
from typing import Any, Final

from drabridge.core.cel import times
from drabridge.core.cel.operators import (
    MAX_INT,
    MAX_SECONDS,
    MAX_UINT,
    MIN_INT,
    MIN_SECONDS,
    NO_OVERLOAD,
    SECOND,
    double_text,
    type_name,
)
from drabridge.core.cel.values import CelError, Duration, Timestamp, TypeValue, Uint

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_UNSIGNED: Final = re.compile(r"[0-9]+")
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_HEXADECIMAL: Final = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+")
_UNDERSCORED: Final = re.compile(r"[+-]?(?:0[xX]_?)?[0-9a-zA-Z]+(?:_[0-9a-zA-Z]+)*(?:\.[0-9a-zA-Z_+-]*)?")
"""Go lets underscores stand between the digits of a double, but not of an integer."""

_WORDS: Final = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE)

_TRUE: Final = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "FALSE", "false", "False"})


def _failed(value: Any, target: str) -> CelError:
    return CelError(f"type conversion error from '{type_name(value)}' to '{target}'")


def to_int(value: Any) -> int:
    """int(x): of doubles the whole part, of durations nanoseconds, of timestamps seconds."""
    cls = value.__class__
    if cls is Uint:
        if value > MAX_INT:
            raise CelError("integer overflow")
        return int(value)
    if cls is float:
        if not math.isfinite(value) or not float(MIN_INT) < value < float(MAX_INT):
            raise CelError("integer overflow")
        return int(value)
    if cls is str:
        if (number := _integer(_INTEGER, value)) is None or not MIN_INT <= number <= MAX_INT:
            raise _failed(value, "int")
        return number
    if cls is Duration:
        return int(value.nanoseconds)
    if cls is Timestamp:
        return times.wrapped(value.nanoseconds // SECOND)
    return int(value)


def to_uint(value: Any) -> Uint:
    """uint(x)."""
    cls = value.__class__
    if cls is str:
        if (number := _integer(_UNSIGNED, value)) is None or number > MAX_UINT:
            raise _failed(value, "uint")
        return Uint(number)
    if cls is float and not (math.isfinite(value) and 0 <= value < 2.0**64):
        raise CelError("unsigned integer overflow")
    if value < 0:
        raise CelError("unsigned integer overflow")
    return Uint(int(value))


def _integer(form: re.Pattern[str], text: str) -> int | None:
    if form.fullmatch(text) is None:
        return None
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > 20:
        return MAX_UINT + 1
    return -int(digits) if text.startswith("-") else int(digits)


def to_double(value: Any) -> float:
    """double(x)."""
    if value.__class__ is str:
        return _double(value)
    return float(value)


def _double(text: str) -> float:
    if "_" in text and _UNDERSCORED.fullmatch(text):
        text = text.replace("_", "")
    if _WORDS.fullmatch(text):
        return float(text)
    if _DECIMAL.fullmatch(text):
        number = float(text)
    elif _HEXADECIMAL.fullmatch(text):
        try:
            number = float.fromhex(text)
        except OverflowError:
            number = math.inf
    else:
        raise _failed(text, "double")
    if math.isinf(number):
        raise _failed(text, "double")
    return number


def to_bool(value: Any) -> bool:
    """bool(x)."""
    if value.__class__ is bool:
        return bool(value)
    if value in _TRUE:
        return True
    if value in _FALSE:
        return False
    raise _failed(value, "bool")


def to_bytes(value: Any) -> bytes:
    """bytes(x)."""
    return value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")


def to_string(value: Any) -> str:
    """string(x)."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return double_text(value)
        case Duration():
            return times.duration_text(value)
        case Timestamp():
            return times.timestamp_text(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise CelError("invalid UTF-8 in bytes, cannot convert to string") from None
        case _:
            raise CelError(NO_OVERLOAD)


def to_duration(value: Any) -> Duration:
    """duration(x)."""
    if isinstance(value, Duration):
        return value
    if (duration := times.parse_duration(value)) is None:
        raise _failed(value, "google.protobuf.Duration")
    return duration


def to_timestamp(value: Any) -> Timestamp:
    """timestamp(x): of ints, seconds since 1970."""
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, int):
        if not MIN_SECONDS <= value <= MAX_SECONDS:
            raise CelError("timestamp overflow")
        return Timestamp(value * SECOND)
    if (timestamp := times.parse_timestamp(value)) is None:
        raise _failed(value, "google.protobuf.Timestamp")
    return timestamp


def to_type(value: Any) -> TypeValue:
    """type(x)."""
    return TypeValue(type_name(value))


def identity(value: Any) -> Any:
    """dyn(x): the value, with nothing known of its type."""
    return value
