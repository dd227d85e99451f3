"""string.format of cel-go's string library, version 2: at run time and in the checker."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.cel import types
from drabridge.core.cel.library.formatting import FormatArgument, FormatFault, check_format, format_text
from drabridge.core.cel.quantity import parse
from drabridge.core.cel.types import Type, list_of, map_of
from drabridge.core.cel.values import CelError, Duration, Optional, Timestamp, TypeValue, Uint

NAN, INFINITY = math.nan, math.inf
TIMES = "\u00d7"

# sentence -> format, arguments, result
RESULTS: dict[str, tuple[str, list[Any], str]] = {
    "percent signs": ("é%%%s%%", ["ü"], "é%ü%"),
    "strings": ("%s %s %s", ["a", True, None], "a true null"),
    "numbers as strings": ("%s %s %s", [1, Uint(2), 1.5], "1 2 1.5"),
    "large doubles as strings": ("%s %s", [123456789.0, 1e-7], "1.23456789e+08 1e-07"),
    "bytes as strings": ("%s", [b"\xc3\xa9"], "é"),
    "times as strings": (
        "%s %s",
        [Duration(3600_001_000_000), Timestamp(500_000_000)],
        "3600.001s 1970-01-01T00:00:00.5Z",
    ),
    "types as strings": ("%s", [TypeValue("int")], "int"),
    "lists as literals": (
        "%s",
        [[1.5, NAN, INFINITY, -INFINITY, 'a"b', b"x", None, True, [1]]],
        '[1.500000, "NaN", "+Inf", "-Inf", "a\\"b", b"x", null, true, [1]]',
    ),
    "times in lists": (
        "%s",
        [[Duration(1), Timestamp(0)]],
        '[duration("0.000000001s"), timestamp("1970-01-01T00:00:00Z")]',
    ),
    "types in lists": ("%s", [[TypeValue("int")]], "[int]"),
    "maps by their keys as text": ("%s", [{Uint(2): 1, Uint(10): 2}], "{10:2, 2:1}"),
    "maps with all kinds of values": ("%s", [{"b": b"x", "a": [1.0]}], '{"a":[1.000000], "b":b"x"}'),
    "maps with bools for keys": ("%s", [{True: 1, False: "x"}], '{false:"x", true:1}'),
    "decimals": ("%d %d", [-5, Uint(2**64 - 1)], "-5 18446744073709551615"),
    "fixed points are grouped": ("%.2f %f", [1234567.0, -1234.5], "1,234,567.00 -1,234.500000"),
    "fixed points go by the exact value": ("%.2f %.0f %.1f", [2.675, 2.5, 0.25], "2.67 2 0.2"),
    "fixed points beyond the double": ("%.20f", [0.1], "0.10000000000000000555"),
    "zero has no sign, what rounds to it has": ("%f %.3f", [-0.0, -1e-10], "0.000000 -0.000"),
    "what is not finite": ("%f %f %f", [NAN, INFINITY, -INFINITY], "NaN ∞ -∞"),
    "words for what is not finite": ("%f %e", ["NaN", "-Infinity"], "NaN     -∞"),
    "scientific": ("%e %e", [123456.789, -1e300], f"1.234568{TIMES}10⁰⁵ -1.000000{TIMES}10³⁰⁰"),
    "the precision of a scientific is its width": (
        "%.3e|%.20e",
        [9.999, 1e-300],
        f"9.999000{TIMES}10⁰⁰|     1.000000{TIMES}10⁻³⁰⁰",
    ),
    "the width of what is not finite": ("%e|%.0e", [NAN, NAN], "   NaN|NaN"),
    "binary": ("%b %b %b %b", [-5, Uint(5), True, False], "-101 101 1 0"),
    "hexadecimal": ("%x %X %x %x %X", [-255, 255, "abc", b"\xff\x01", "xyz"], "-ff FF 616263 ff01 78797A"),
    "octal": ("%o %o", [-8, Uint(8)], "-10 10"),
    "precision where it means nothing": ("%.3s %.3d", ["abcdef", 5], "abcdef 5"),
    "more arguments than clauses": ("%s", [1, 2], "1"),
}


@pytest.mark.parametrize("case", RESULTS.values(), ids=RESULTS)
def test_results(case: tuple[str, list[Any], str]) -> None:
    text, arguments, result = case
    assert format_text(text, arguments) == result


DURING = "error during formatting: "
CLAUSE = "could not parse formatting clause: "
PRECISION = f"{CLAUSE}error while parsing precision: "
ATOI = f"{PRECISION}error while converting precision to integer: strconv.Atoi: parsing "
NO_UTF8 = "invalid UTF-8 in bytes, cannot convert to string"
NO_HEX = f"{DURING}only integers, byte buffers, and strings can be formatted as hex, was given "
NO_STRING = (
    f"{DURING}string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, "
    "and timestamps, was given "
)

# sentence -> format, arguments, message
ERRORS: dict[str, tuple[str, list[Any], str]] = {
    "no argument": ("%s%s", [1], "index 1 out of range"),
    "a missing argument before a missing verb": ("%", [], "index 0 out of range"),
    "no verb": ("%", [1], "unexpected end of string"),
    "an unknown verb": ("%z", [1], f'{CLAUSE}unrecognized formatting clause "z"'),
    "an unknown verb beyond ASCII shows its first byte": ("%é", [1], f'{CLAUSE}unrecognized formatting clause "Ã"'),
    "a precision without digits": ("%.f", [1.0], f'{ATOI}"": invalid syntax'),
    "a precision that is no int": (
        "%.99999999999999999999f",
        [1.0],
        f'{ATOI}"99999999999999999999": value out of range',
    ),
    "a precision just beyond int64": (
        "%.9223372036854775808f",
        [1.0],
        f'{ATOI}"9223372036854775808": value out of range',
    ),
    "a precision without an end": ("%.5", [1.0], f"{PRECISION}could not find end of precision specifier"),
    "an optional as a string": ("%s", [Optional(True, 1)], f"{NO_STRING}optional_type"),
    "a quantity as a string": ("%s", [parse("1")], f"{NO_STRING}kubernetes.Quantity"),
    "a quantity in a list": ("%s", [[parse("1")]], f"{DURING}no formatting function for kubernetes.Quantity"),
    "a double for a key": ("%s", [{1.5: 2}], f"{DURING}no formatting function for map key of type double"),
    "bytes that are no text": ("%s", [b"\xff"], f'{DURING}could not convert argument "{NO_UTF8}" to string'),
    "a string as a decimal": ("%d", ["x"], f"{DURING}decimal clause can only be used on integers, was given string"),
    "a bool as a decimal": ("%d", [True], f"{DURING}decimal clause can only be used on integers, was given bool"),
    "an int as a fixed point": ("%f", [1], f"{DURING}fixed-point clause can only be used on doubles, was given int"),
    "another word as a fixed point": (
        "%f",
        ["nan"],
        f"{DURING}fixed-point clause can only be used on doubles, was given string",
    ),
    "an int as scientific": ("%e", [1], f"{DURING}scientific clause can only be used on doubles, was given int"),
    "a double as binary": (
        "%b",
        [1.5],
        f"{DURING}only integers and bools can be formatted as binary, was given double",
    ),
    "a double as hexadecimal": ("%X", [1.5], f"{NO_HEX}double"),
    "a bool as octal": ("%o", [True], f"{DURING}octal clause can only be used on integers, was given bool"),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_errors(case: tuple[str, list[Any], str]) -> None:
    text, arguments, message = case
    with pytest.raises(CelError) as error:
        format_text(text, arguments)
    assert str(error.value) == message


@pytest.mark.parametrize("text", ["%.1000001f", "%.1000001e"])
def test_absurd_precisions_are_an_error(text: str) -> None:
    with pytest.raises(CelError, match="more than an expression may ask for"):
        format_text(text, [1.0])


def test_text_that_does_not_fit_into_memory_is_an_error() -> None:
    with pytest.raises(CelError, match="more than an expression may make"):
        format_text("%s" * 1001, ["x" * 10_000] * 1001)


def argument(node: Any, type_: Type, *parts: FormatArgument) -> FormatArgument:
    return FormatArgument(node, type_, parts)


INT, STRING = argument("i", types.INT), argument("s", types.STRING)

# sentence -> format, arguments, what is wrong
FAULTS: dict[str, tuple[str, list[FormatArgument], FormatFault | None]] = {
    "nothing": ("%% %s %d %.2f", [STRING, INT, argument("f", types.DOUBLE)], None),
    "no arguments at all": ("x", [], None),
    "what is known at run time only": ("%d", [argument("d", types.DYN)], None),
    "a string may say NaN": ("%f", [STRING], None),
    "a type that the verb cannot print": (
        "%d",
        [STRING],
        FormatFault("s", f"{DURING}decimal clause can only be used on integers, was given string"),
    ),
    "too few arguments": ("%s %d", [INT], FormatFault(None, "index 1 out of range")),
    "too many arguments": (
        "%s",
        [INT, STRING],
        FormatFault(None, "too many arguments supplied to string.format (expected 1, got 2)"),
    ),
    "a missing verb before a missing argument": ("%", [], FormatFault(None, "unexpected end of string")),
    "an unknown verb": ("%5", [INT], FormatFault(None, f'{CLAUSE}unrecognized formatting clause "5"')),
    "an element that no verb can print": (
        "%s",
        [argument("l", list_of(types.DYN), INT, argument("q", types.QUANTITY))],
        FormatFault("q", f"{NO_STRING}kubernetes.Quantity"),
    ),
    "a value in a map in a list": (
        "%s",
        [
            argument(
                "l", list_of(types.DYN), argument("m", map_of(types.STRING, types.IP), STRING, argument("ip", types.IP))
            )
        ],
        FormatFault("ip", f"{NO_STRING}net.IP"),
    ),
    "an element that is none of the verb's business": (
        "%d",
        [argument("l", list_of(types.IP), argument("ip", types.IP))],
        FormatFault("l", f"{DURING}decimal clause can only be used on integers, was given list"),
    ),
}


@pytest.mark.parametrize("case", FAULTS.values(), ids=FAULTS)
def test_what_the_checker_finds(case: tuple[str, list[FormatArgument], FormatFault | None]) -> None:
    text, arguments, fault = case
    assert check_format(text, arguments) == fault


ASCII = st.text(st.characters(codec="ascii")).map(str.encode)
SCALARS = st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(), ASCII, st.floats(), st.none())
NAMES = {
    bool: types.BOOL,
    int: types.INT,
    str: types.STRING,
    bytes: types.BYTES,
    float: types.DOUBLE,
    type(None): types.NULL,
}


@given(st.lists(st.sampled_from(["%s", "%d", "%b", "%x", "%o", "%%", "a"])).map("".join), st.lists(SCALARS))
def test_what_the_checker_passes_has_no_wrong_type_at_run_time(text: str, values: list[Any]) -> None:
    if check_format(text, [argument(None, NAMES[type(value)]) for value in values]) is None:
        assert format_text(text, values) is not None
