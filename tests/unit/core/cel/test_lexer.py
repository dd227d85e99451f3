"""Tokens: literals with their values, and what is none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.cel.diagnostics import SourceError
from drabridge.core.cel.lexer import integer, tokens
from drabridge.core.cel.values import Uint

LITERALS: dict[str, tuple[str, Any]] = {
    "single quotes": ("'a'", "a"),
    "double quotes with the other ones inside": ('"it\'s"', "it's"),
    "three quotes go over lines": ("'''a\nb'''", "a\nb"),
    "line ends are made one kind": ("'''a\r\nb\rc'''", "a\nb\nc"),
    "three quotes hold single ones": ('"""a"b"""', 'a"b'),
    "raw strings know no escapes": (r"r'\n'", r"\n"),
    "raw strings in three quotes": ('R"""a\\"""', "a\\"),
    "simple escapes": (r"'\a\b\f\n\r\t\v\\\'\"\`\?'", "\a\b\f\n\r\t\v\\'\"`?"),
    "a code point of four digits": (r"'\u00e9'", "é"),
    "a code point of eight digits": (r"'\U0001F600'", "😀"),
    "hexadecimal and octal escapes are code points in strings": (r"'\xe9\351'", "éé"),
    "and bytes in bytes": (r"b'\xe9\351'", b"\xe9\xe9"),
    "other characters of bytes are UTF-8": ("b'é'", "é".encode()),
    "escapes of letters in bytes": (r"b'\n\''", b"\n'"),
    "raw bytes": (r"br'\n'", rb"\n"),
    "unsigned": ("12u", Uint(12)),
    "unsigned and hexadecimal": ("0xFFU", Uint(255)),
    "the largest unsigned one": ("18446744073709551615u", Uint(2**64 - 1)),
    "a fraction": ("1.5", 1.5),
    "a fraction without a whole": (".5", 0.5),
    "an exponent": ("1e3", 1000.0),
    "an exponent with a sign": ("1.5E-2", 0.015),
    "a number too small is zero": ("1e-999", 0.0),
}


@pytest.mark.parametrize(("source", "value"), LITERALS.values(), ids=LITERALS)
def test_a_literal_has_the_value(source: str, value: Any) -> None:
    token = tokens(source)[0]
    assert (token.value, type(token.value)) == (value, type(value))


REFUSED = {
    "a sign that CEL does not have": ("a # b", "1:3: Syntax error: token recognition error at: '#'"),
    "a string without an end": ("'a", "1:1: Syntax error: token recognition error at: ''a'"),
    "an escape that is none": (r"'\q'", "1:1: Syntax error: token recognition error"),
    "a surrogate": (r"'\ud800'", "1:1: invalid unicode code point"),
    "beyond Unicode": (r"'\U00110000'", "1:1: invalid unicode code point"),
    "a code point in bytes": (r"b'\u00e9'", "1:1: unable to unescape string"),
    "an unsigned number out of range": ("18446744073709551616u", "1:1: invalid uint literal"),
    "a hexadecimal one out of range": ("0x10000000000000000u", "1:1: invalid uint literal"),
    "a double out of range": ("1e999", "1:1: invalid double literal"),
    "an empty identifier in backticks": ("a.``", "1:3: Syntax error: token recognition error"),
}


@pytest.mark.parametrize(("source", "message"), REFUSED.values(), ids=REFUSED)
def test_a_text_is_refused(source: str, message: str) -> None:
    with pytest.raises(SourceError) as refused:
        tokens(source)
    assert f"ERROR: <input>:{message}" in str(refused.value)


INTEGERS = {
    "the largest": ("9223372036854775807", False, 2**63 - 1),
    "the smallest": ("9223372036854775808", True, -(2**63)),
    "hexadecimal": ("0x10", True, -16),
    "leading zeros": ("0" * 5000 + "7", False, 7),
}


@pytest.mark.parametrize(("text", "negative", "value"), INTEGERS.values(), ids=INTEGERS)
def test_an_integer_has_the_value(text: str, negative: bool, value: int) -> None:
    assert integer(text, negative=negative) == value


@pytest.mark.parametrize("text", ["9223372036854775808", "0x8000000000000000", "9" * 5000, "0x" + "f" * 5000])
def test_an_integer_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid int literal"):
        integer(text, negative=False)


@given(st.text(max_size=30))
def test_any_text_becomes_tokens_or_a_source_error(source: str) -> None:
    try:
        found = tokens(source)
    except SourceError:
        return
    assert [token.offset for token in found] == sorted({token.offset for token in found})


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_string_survives_being_written_and_read(text: str) -> None:
    written = "".join(f"\\U{ord(char):08x}" for char in text)
    assert tokens(f"'{written}'")[0].value == text
