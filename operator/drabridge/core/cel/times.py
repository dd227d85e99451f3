"""Timestamps and durations: reading, writing and taking apart, as Go's package time does for cel-go."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, Final
from zoneinfo import ZoneInfo

from drabridge.core.cel.operators import MAX_SECONDS, MIN_INT, MIN_SECONDS, NO_OVERLOAD, SECOND, decimal_text
from drabridge.core.cel.values import CelError, Duration, Timestamp

_UNITS: Final = {
    "ns": 1, "us": 1000, "µs": 1000, "μs": 1000, "ms": 10**6, "s": SECOND, "m": 60 * SECOND, "h": 3600 * SECOND,
}  # fmt: skip
_PART: Final = re.compile(r"([0-9]*)(?:\.([0-9]*))?([^0-9.]+)")

_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?(?:Z|([+-])([0-9]{2}):([0-9]{2}))"
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZONE_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
_DAY: Final = 86_400
_CYCLE: Final = 146_097 * _DAY
"""Seconds of 400 years, after which the calendar repeats itself, week days included."""

_LONGEST: Final = 1000
"""Characters of a time's text; beyond, Python would refuse the digits."""


def parse_duration(text: str) -> Duration | None:
    """Read "1h30m", "-1.5s" and the like; None if it is no duration or beyond int64 nanoseconds."""
    sign = -1 if text.startswith("-") else 1
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return Duration(0)
    if not rest or len(rest) > _LONGEST:
        return None
    total = end = 0
    for match in _PART.finditer(rest):
        whole, fraction, unit = match.groups()
        if match.start() != end or unit not in _UNITS or not (whole or fraction):
            return None
        total += int(whole or "0") * _UNITS[unit]
        total += int(int(fraction or "0") * _UNITS[unit] // 10 ** len(fraction or ""))
        end = match.end()
    if end != len(rest) or total > 2**63 - (sign > 0):
        return None
    return Duration(sign * total)


def duration_text(value: Duration) -> str:
    """Write a duration in seconds: "5400s", "0.5s"."""
    nanoseconds = abs(value.nanoseconds)
    # Go goes by way of a double; so do the digits.
    seconds = float(nanoseconds // SECOND) + float(nanoseconds % SECOND) / 1e9
    return f"{'-' if value.nanoseconds < 0 else ''}{decimal_text(seconds)}s"


def parse_timestamp(text: str) -> Timestamp | None:
    """Read RFC 3339; None if it is none. Raises CelError beyond the years 1 to 9999."""
    match = _RFC3339.fullmatch(text) if len(text) <= _LONGEST else None
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(group) for group in match.groups()[:6])
    fraction, sign, hours, minutes = match.groups()[6:]
    offset = (int(hours or 0) * 60 + int(minutes or 0)) * (-1 if sign == "-" else 1)
    if int(hours or 0) > 24 or int(minutes or 0) > 60 or hour > 23 or minute > 59 or second > 59:
        return None
    cycles = 0 if year else 1
    try:
        days = (datetime(year + 400 * cycles, month, day, tzinfo=UTC) - _EPOCH).days - cycles * _CYCLE // _DAY
    except ValueError:
        return None
    seconds = days * 86400 + hour * 3600 + (minute - offset) * 60 + second
    if not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise CelError("timestamp overflow")
    return Timestamp(seconds * SECOND + int((fraction or "").ljust(9, "0")[:9]), offset)


def timestamp_text(value: Timestamp) -> str:
    """Write RFC 3339 with as many digits of the second as are needed."""
    local, years = _moment(value.nanoseconds // SECOND + value.offset * 60)
    year = local.year + years
    fraction = f"{value.nanoseconds % SECOND:09d}".rstrip("0")
    zone = "Z"
    if value.offset:
        hours, minutes = divmod(abs(value.offset), 60)
        zone = f"{'-' if value.offset < 0 else '+'}{hours:02d}:{minutes:02d}"
    date = f"{'-' if year < 0 else ''}{abs(year):04d}{local:-%m-%dT%H:%M:%S}"
    return date + (f".{fraction}" if fraction else "") + zone


def wrapped(number: int) -> int:
    """What Go's int64 makes of a number."""
    return (number - MIN_INT) % 2**64 + MIN_INT


def _moment(seconds: int) -> tuple[datetime, int]:
    """The moment so many seconds after 1970 within a calendar that Python has, and the years to add to it."""
    if MIN_SECONDS + _DAY <= seconds <= MAX_SECONDS - _DAY:
        return _EPOCH + timedelta(seconds=seconds), 0
    base = MIN_SECONDS + _CYCLE if seconds < 0 else MAX_SECONDS - 2 * _CYCLE
    cycles, rest = divmod(seconds - base, _CYCLE)
    return _EPOCH + timedelta(seconds=base + rest), 400 * cycles


def zone(name: str) -> tzinfo | int:
    """Find a time zone: "UTC" or a name of the IANA data base; the seconds east of UTC of one such as "-07:00".

    Names are looked up in the data base of the system: the only place where this package reads files.
    Raises CelError for what is none.
    """
    if ":" in name:
        return _offset(name)
    if name in ("", "UTC"):
        return UTC
    if ".." in name or name[0] in "/\\":
        raise CelError("time: invalid location name")
    try:
        if _ZONE_NAME.fullmatch(name):
            return ZoneInfo(name)
    except (OSError, ValueError, LookupError):
        pass
    raise CelError(f"unknown time zone {name}")


def _offset(name: str) -> int:
    hours, _, minutes = name.partition(":")
    parts = []
    for part in (hours, minutes):
        if not re.fullmatch("[+-]?[0-9]+", part):
            raise CelError(f'strconv.Atoi: parsing "{part}": invalid syntax')
        if len(part.lstrip("+-0")) > 19 or wrapped(int(part)) != int(part):
            raise CelError(f'strconv.Atoi: parsing "{part}": value out of range')
        parts.append(int(part))
    minutes_east = parts[0] * 60 + (-parts[1] if name.startswith("-") else parts[1])
    return wrapped(wrapped(minutes_east) * 60)  # upstream has no bound


def _local(value: Timestamp, name: str) -> tuple[datetime, int]:
    """The time in a zone, and the years to add to it: there it may be the year 0 or 10000, which Python has not."""
    seconds, place = value.nanoseconds // SECOND, zone(name)
    if isinstance(place, int):
        return _moment(seconds + place)
    moment, years = _moment(seconds)
    return moment.astimezone(place), years


_FIELDS: Final[dict[str, Callable[[datetime], int]]] = {
    "getFullYear": lambda local: local.year,
    "getMonth": lambda local: local.month - 1,
    "getDayOfYear": lambda local: local.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda local: local.day - 1,
    "getDate": lambda local: local.day,
    "getDayOfWeek": lambda local: local.isoweekday() % 7,
    "getHours": lambda local: local.hour,
    "getMinutes": lambda local: local.minute,
    "getSeconds": lambda local: local.second,
}

FIELDS: Final = (*_FIELDS, "getMilliseconds")
"""The accessors of a timestamp."""

DURATION_FIELDS: Final = {
    "getHours": 3600 * SECOND, "getMinutes": 60 * SECOND, "getSeconds": SECOND, "getMilliseconds": 10**6,
}  # fmt: skip
"""The accessors of a duration: the whole of it, in that unit."""


def timestamp_field(name: str) -> Callable[..., int]:
    """Return the function behind an accessor: (timestamp, zone="UTC") -> int."""

    def accessor(value: Timestamp, zone_name: str = "UTC") -> int:
        if name == "getMilliseconds":
            zone(zone_name)
            return value.nanoseconds % SECOND // 10**6
        local, years = _local(value, zone_name)
        return _FIELDS[name](local) + (years if name == "getFullYear" else 0)

    return accessor


def duration_field(name: str) -> Callable[[Any], int]:
    """Return the function behind an accessor of durations."""
    unit = DURATION_FIELDS[name]

    def accessor(value: Any) -> int:
        if value.__class__ is not Duration:
            raise CelError(NO_OVERLOAD)
        whole: int = abs(value.nanoseconds) // unit
        return -whole if value.nanoseconds < 0 else whole

    return accessor
