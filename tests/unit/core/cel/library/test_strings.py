"""cel-go's string library, version 2."""

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.cel.library import LIBRARIES, strings
from drabridge.core.cel.operators import no_such_overload
from drabridge.core.cel.values import CelError, Duration, Optional

OVERLOADS = {o.id: o for library in LIBRARIES for f in library.functions for o in f.overloads}


class Case(NamedTuple):
    overload: str
    arguments: tuple[Any, ...]
    result: Any


CASES = {
    "charAt counts code points": Case("string_char_at_int", ("a日b", 1), "日"),
    "charAt of the end is empty": Case("string_char_at_int", ("abc", 3), ""),
    "indexOf counts code points": Case("string_index_of_string", ("日本x", "x"), 2),
    "indexOf of what is not there": Case("string_index_of_string", ("abc", "d"), -1),
    "indexOf of nothing is the start": Case("string_index_of_string_int", ("abc", "", 2), 2),
    "indexOf of nothing stops at the end": Case("string_index_of_string_int", ("abc", "", 9), 3),
    "indexOf beyond the end": Case("string_index_of_string_int", ("abc", "a", 9), -1),
    "indexOf from the middle": Case("string_index_of_string_int", ("abab", "a", 1), 2),
    "lastIndexOf": Case("string_last_index_of_string", ("abab", "ab"), 2),
    "lastIndexOf of nothing": Case("string_last_index_of_string", ("abc", ""), 3),
    "lastIndexOf of something longer": Case("string_last_index_of_string", ("a", "abc"), -1),
    "lastIndexOf begins at the start or before": Case("string_last_index_of_string_int", ("ababab", "ab", 3), 2),
    "lastIndexOf beyond the end": Case("string_last_index_of_string_int", ("abc", "c", 3), -1),
    "lastIndexOf of nothing from the middle": Case("string_last_index_of_string_int", ("abc", "", 1), 1),
    "lastIndexOf of nothing stops at the end": Case("string_last_index_of_string_int", ("abc", "", 9), 3),
    "lowerAscii leaves other letters alone": Case("string_lower_ascii", ("TacoCÆt",), "tacocÆt"),
    "upperAscii leaves other letters alone": Case("string_upper_ascii", ("tacocæt ß",), "TACOCæT ß"),
    "replace all": Case("string_replace_string_string", ("aXbX", "X", "--"), "a--b--"),
    "replace nothing puts the text everywhere": Case("string_replace_string_string", ("ab", "", "-"), "-a-b-"),
    "replace some": Case("string_replace_string_string_int", ("aXbX", "X", "y", 1), "aybX"),
    "replace none": Case("string_replace_string_string_int", ("aXbX", "X", "yy", 0), "aXbX"),
    "a negative limit replaces all": Case("string_replace_string_string_int", ("aXbX", "X", "yy", -7), "ayybyy"),
    "split": Case("string_split_string", ("a,b,,c", ","), ["a", "b", "", "c"]),
    "split without the separator in it": Case("string_split_string", ("abc", ","), ["abc"]),
    "split of nothing": Case("string_split_string", ("", ","), [""]),
    "split into characters": Case("string_split_string", ("a日", ""), ["a", "日"]),
    "split of nothing into characters": Case("string_split_string", ("", ""), []),
    "split into none": Case("string_split_string_int", ("a,b", ",", 0), []),
    "split into one": Case("string_split_string_int", ("a,b", ",", 1), ["a,b"]),
    "split into two": Case("string_split_string_int", ("a,b,c", ",", 2), ["a", "b,c"]),
    "split into as many as there are": Case("string_split_string_int", ("a,b,c", ",", -1), ["a", "b", "c"]),
    "split into some characters": Case("string_split_string_int", ("abcd", "", 2), ["a", "bcd"]),
    "split into one character": Case("string_split_string_int", ("abcd", "", 1), ["abcd"]),
    "substring to the end": Case("string_substring_int", ("a日b", 1), "日b"),
    "substring of the end": Case("string_substring_int", ("abc", 3), ""),
    "substring": Case("string_substring_int_int", ("a日bc", 1, 3), "日b"),
    "trim takes Unicode's white space": Case("string_trim", ("\u00a0\u2003\t x \u3000\n",), "x"),
    "trim leaves separators that are no white space": Case("string_trim", ("\x1cx\u200b",), "\x1cx\u200b"),
    "quote escapes what CEL escapes": Case("strings_quote", ('a"b\n\t\\\x07é\x01',), '"a\\"b\\n\\t\\\\\\aé\x01"'),
    "join": Case("list_join", (["a", "b"],), "ab"),
    "join with a separator": Case("list_join_string", (["a", "b", "c"], ", "), "a, b, c"),
    "join of nothing": Case("list_join_string", ([], ", "), ""),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_results(case: Case) -> None:
    assert OVERLOADS[case.overload].call(*case.arguments) == case.result


ERRORS = {
    "charAt beyond the end": Case("string_char_at_int", ("abc", 4), "index out of range: 4"),
    "charAt before the start": Case("string_char_at_int", ("abc", -1), "index out of range: -1"),
    "indexOf before the start": Case("string_index_of_string_int", ("abc", "a", -1), "index out of range: -1"),
    "lastIndexOf before the start": Case("string_last_index_of_string_int", ("abc", "a", -2), "index out of range: -2"),
    "substring beyond the end": Case("string_substring_int", ("abc", 4), "index out of range: 4"),
    "substring to beyond the end": Case("string_substring_int_int", ("abc", 1, 9), "index out of range: 9"),
    "substring before the start": Case("string_substring_int_int", ("abc", -1, 1), "index out of range: -1"),
    "substring backwards": Case("string_substring_int_int", ("abc", 2, 1), "invalid substring range. start: 2, end: 1"),
    "join of a number": Case("list_join", (["a", 1],), "join: invalid input: 1"),
    "join of null": Case("list_join_string", (["a", None], ","), "join: invalid input: 0"),
    "join of bytes": Case("list_join", (["a", b"xy"],), "join: invalid input: [120 121]"),
    "join of an optional": Case("list_join", (["a", Optional(True, 1)],), "join: invalid input: optional(1)"),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_errors(case: Case) -> None:
    with pytest.raises(CelError) as error:
        OVERLOADS[case.overload].call(*case.arguments)
    assert str(error.value) == case.result


def test_text_that_does_not_fit_into_memory_is_not_made() -> None:
    text = "x" * 10_000
    with pytest.raises(CelError, match="more than an expression may make"):
        strings.replace(text, "", text)
    with pytest.raises(CelError, match="more than an expression may make"):
        strings.join([""] * 10_000, text)


def test_the_error_of_a_missing_overload_names_the_types() -> None:
    assert str(no_such_overload("trim", Duration(1))) == "no such overload: trim(google.protobuf.Duration)"


@given(st.text(), st.text(max_size=3), st.integers(-1, 5))
def test_joining_undoes_splitting(text: str, separator: str, limit: int) -> None:
    if limit:
        assert strings.join(strings.split(text, separator, limit), separator) == text


@given(st.text(), st.text(max_size=2))
def test_what_is_found_stands_there(text: str, part: str) -> None:
    place = strings.index_of(text, part)
    assert (place >= 0) is (part in text)
    if place >= 0:
        assert strings.substring(text, place, place + len(part)) == part
        assert place <= strings.last_index_of(text, part)


@given(st.text())
def test_case_is_changed_in_ascii_only(text: str) -> None:
    for changed in (strings.lower_ascii(text), strings.upper_ascii(text)):
        for old, new in zip(text, changed, strict=True):
            assert old == new or (old.isascii() and old.swapcase() == new)
