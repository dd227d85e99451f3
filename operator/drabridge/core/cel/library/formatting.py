"""The verbs of string.format: what they print at run time, and what the checker finds wrong with a literal call.

Doubles are printed as cel-go prints them for the locale en_US: digits in groups, powers of ten as superscripts. Its
precision of %e is a width (upstream's mistake, kept in versions before 4 of the library).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from drabridge.core.cel import conversions, operators, work
from drabridge.core.cel.library.costs import MAX_TEXT
from drabridge.core.cel.quoting import quote
from drabridge.core.cel.types import Type
from drabridge.core.cel.values import CelError, Duration, Timestamp, TypeValue

_DEFAULT_PRECISION: Final = 6
_SUPERSCRIPTS: Final = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_TIMES: Final = "\u00d7"
_FLOAT_WORDS: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_MAX_PRECISION: Final = 1_000_000

_STRING_TYPES: Final = (
    "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"  # upstream's words
)
_REFUSALS: Final = {
    "s": f"string clause can only be used on {_STRING_TYPES}, was given ",
    "d": "decimal clause can only be used on integers, was given ",
    "f": "fixed-point clause can only be used on doubles, was given ",
    "e": "scientific clause can only be used on doubles, was given ",
    "b": "only integers and bools can be formatted as binary, was given ",
    "x": "only integers, byte buffers, and strings can be formatted as hex, was given ",
    "X": "only integers, byte buffers, and strings can be formatted as hex, was given ",
    "o": "octal clause can only be used on integers, was given ",
}
_CHECKED: Final = {
    "d": {"int", "uint"},
    "f": {"double", "string"},
    "e": {"double", "string"},
    "b": {"int", "uint", "bool"},
    "x": {"int", "uint", "string", "bytes"},
    "X": {"int", "uint", "string", "bytes"},
    "o": {"int", "uint"},
    "s": {
        "list",
        "map",
        "int",
        "uint",
        "double",
        "bool",
        "string",
        "google.protobuf.Timestamp",
        "bytes",
        "google.protobuf.Duration",
        "type",
        "null_type",
    },
}


@dataclass(frozen=True, slots=True)
class _Clause:
    """A verb with its precision; `end` is where the text goes on."""

    verb: str
    precision: int | None
    end: int


@dataclass(frozen=True, slots=True)
class FormatArgument:
    """An argument of a literal call, for the checker: its type, and its parts if it is a list or map literal.

    `node` is whatever the caller wants back to find the place again. A map's parts are its keys and values in turn.
    """

    node: Any
    type: Type
    parts: "tuple[FormatArgument, ...]" = ()


@dataclass(frozen=True, slots=True)
class FormatFault:
    """What is wrong with a literal call. `node` is that of the argument at fault, or None for the call itself."""

    node: Any
    message: str


def format_text(text: str, arguments: Any) -> str:
    """The text with its clauses replaced by the arguments. Raises CelError with cel-go's text."""
    pieces, start, place = [], 0, 0
    while (at := text.find("%", start)) >= 0:
        pieces.append(text[start:at])
        if text.startswith("%%", at):
            pieces.append("%")
            start = at + 2
            continue
        if place >= len(arguments):
            raise CelError(f"index {place} out of range")
        clause = _clause(text, at + 1)
        try:
            pieces.append(_VERBS[clause.verb](arguments[place], clause.precision))
        except CelError as error:
            raise CelError(f"error during formatting: {error}") from None
        start, place = clause.end, place + 1
    pieces.append(text[start:])
    if (length := sum(map(len, pieces))) > MAX_TEXT:
        raise CelError(f"a string of {length} characters is more than an expression may make ({MAX_TEXT})")
    return "".join(pieces)


def check_format(text: str, arguments: Sequence[FormatArgument]) -> FormatFault | None:
    """Check a literal format against the literal list of its arguments (cel-go's validator `string_format`)."""
    start, place = 0, 0
    while (at := text.find("%", start)) >= 0:
        if text.startswith("%%", at):
            start = at + 2
            continue
        if at + 1 < len(text) and place >= len(arguments):
            return FormatFault(None, f"index {place} out of range")
        try:
            clause = _clause(text, at + 1)
        except CelError as error:
            return FormatFault(None, str(error))
        if (wrong := _misfit(clause.verb, arguments[place])) is not None:
            message = f"error during formatting: {_REFUSALS[clause.verb]}{_name(wrong.type)}"
            return FormatFault(wrong.node, message)
        start, place = clause.end, place + 1
    if len(arguments) > place:
        expected = f"expected {place}, got {len(arguments)}"
        return FormatFault(None, f"too many arguments supplied to string.format ({expected})")
    return None


def _misfit(verb: str, argument: FormatArgument) -> FormatArgument | None:
    """The argument or the part of it that the verb cannot print."""
    if argument.type.name != "dyn" and _name(argument.type) not in _CHECKED[verb]:
        return argument
    if verb != "s":
        return None
    return next((wrong for part in argument.parts if (wrong := _misfit(verb, part))), None)


def _name(type_: Type) -> str:
    """Name a type as its values do at run time: google.protobuf.DoubleValue gives doubles."""
    return type_.args[0].name if type_.name == "wrapper" else type_.name


def _clause(text: str, start: int) -> _Clause:
    """Read what follows a percent sign."""
    if start >= len(text):
        raise CelError("unexpected end of string")
    precision, at = None, start
    if text[at] == ".":
        at += 1
        while at < len(text) and text[at] in "0123456789":
            at += 1
        try:
            precision = _precision(text[start + 1 : at], ended=at < len(text))
        except CelError as error:
            message = f"could not parse formatting clause: error while parsing precision: {error}"
            raise CelError(message) from None
    verb = text[at]
    if verb not in _VERBS:
        byte = chr(verb.encode("utf-8", "replace")[0])  # upstream goes by bytes
        raise CelError(f'could not parse formatting clause: unrecognized formatting clause "{byte}"')
    return _Clause(verb, precision, at + 1)


def _precision(digits: str, *, ended: bool) -> int:
    if not ended:
        raise CelError("could not find end of precision specifier")
    fault = "invalid syntax" if not digits else "value out of range" if len(digits.lstrip("0")) > 19 else None
    value = int(digits) if fault is None else 0
    if value >= 2**63:
        fault = "value out of range"
    if fault is not None:
        raise CelError(f"error while converting precision to integer: strconv.Atoi: parsing {quote(digits)}: {fault}")
    return value


def _refuse(verb: str, value: Any) -> CelError:
    return CelError(f"{_REFUSALS[verb]}{operators.type_name(value)}")


def _string(value: Any, _precision: int | None = None) -> str:
    if isinstance(value, list | tuple):
        return _list(value)
    if isinstance(value, dict):
        return _map(value)
    if value is None:
        return "null"
    name = operators.type_name(value)
    if name not in _CHECKED["s"]:
        raise _refuse("s", value)
    if isinstance(value, TypeValue):
        return value.name
    try:
        return conversions.to_string(value)
    except CelError as error:
        raise CelError(f"could not convert argument {quote(str(error))} to string") from None


def _decimal(value: Any, _precision: int | None = None) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refuse("d", value)
    return str(int(value))


def _double(verb: str, value: Any) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, str) and value in _FLOAT_WORDS:
        return _FLOAT_WORDS[value]
    raise _refuse(verb, value)


def _fixed(value: Any, precision: int | None) -> str:
    number = _double("f", value)
    if not math.isfinite(number):
        return _not_finite(number)
    places = _DEFAULT_PRECISION if precision is None else precision
    if places > _MAX_PRECISION:
        raise CelError(f"a precision of {places} is more than an expression may ask for ({_MAX_PRECISION})")
    work.spend(places * _STEPS_PER_DIGIT)
    return f"{number or 0.0:,.{places}f}"  # zero loses its sign


def _scientific(value: Any, precision: int | None) -> str:
    number = _double("e", value)
    width = _DEFAULT_PRECISION if precision is None else precision
    if width > _MAX_PRECISION:
        raise CelError(f"a width of {width} is more than an expression may ask for ({_MAX_PRECISION})")
    work.spend(width)
    if not math.isfinite(number):
        return _not_finite(number).rjust(width)
    mantissa, _, power = f"{number or 0.0:.{_DEFAULT_PRECISION}e}".partition("e")
    return f"{mantissa}{_TIMES}10{power.removeprefix('+').translate(_SUPERSCRIPTS)}".rjust(width)


def _not_finite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "∞" if number > 0 else "-∞"


def _binary(value: Any, _precision: int | None) -> str:
    if not isinstance(value, int):
        raise _refuse("b", value)
    return f"{int(value):b}"


def _hex(value: Any, _precision: int | None = None) -> str:
    if isinstance(value, str | bytes):
        return (value.encode("utf-8", "replace") if isinstance(value, str) else value).hex()
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refuse("x", value)
    return f"{int(value):x}"


def _upper_hex(value: Any, _precision: int | None) -> str:
    return _hex(value).upper()


def _octal(value: Any, _precision: int | None) -> str:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _refuse("o", value)
    return f"{int(value):o}"


_VERBS: Final[dict[str, Callable[[Any, int | None], str]]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "x": _hex,
    "X": _upper_hex,
    "o": _octal,
}


_STEPS_PER_DIGIT: Final = 4


def _list(elements: Any) -> str:
    work.spend(len(elements) * work.WRITING)
    return f"[{', '.join(map(_element, elements))}]"


def _map(entries: dict[Any, Any]) -> str:
    work.spend(len(entries) * work.WRITING)
    pairs = sorted(((_key(key), _element(value)) for key, value in entries.items()), key=lambda pair: pair[0])
    return f"{{{', '.join(f'{key}:{value}' for key, value in pairs)}}}"


def _key(key: Any) -> str:
    if isinstance(key, bool | str):
        return _element(key)
    if isinstance(key, int):
        return _decimal(key)
    raise CelError(f"no formatting function for map key of type {operators.type_name(key)}")


def _element(value: Any) -> str:
    """A value inside of a list or map, as a CEL literal."""
    if isinstance(value, float):
        # Without groups, so that it is a literal; what is not finite stands in quotes.
        return f"{value:.{_DEFAULT_PRECISION}f}" if math.isfinite(value) else quote(operators.double_text(value))
    if isinstance(value, str | bytes):
        prefix = "b" if isinstance(value, bytes) else ""
        return prefix + quote(_string(value))
    if isinstance(value, Timestamp | Duration):
        return f"{'timestamp' if isinstance(value, Timestamp) else 'duration'}({quote(_string(value))})"
    if operators.type_name(value) not in _CHECKED["s"]:
        raise CelError(f"no formatting function for {operators.type_name(value)}")
    return _string(value)
