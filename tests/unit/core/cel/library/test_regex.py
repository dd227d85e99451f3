"""Regular expressions: Go's syntax, errors and matches."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.cel import work
from drabridge.core.cel.library import LIBRARIES
from drabridge.core.cel.regex import InvalidRegex, compile_regex, pattern
from drabridge.core.cel.values import CelError
from drabridge.core.cel.work import Overworked

OVERLOADS = {o.id: o for library in LIBRARIES for f in library.functions for o in f.overloads}


# sentence -> pattern, text, all matches
MATCHES: dict[str, tuple[str, str, list[str]]] = {
    "a literal": ("ab", "abxab", ["ab", "ab"]),
    "the first alternative wins, not the longest": ("a|ab", "ab", ["a"]),
    "an empty match behind a match does not count": ("a*", "baac", ["", "aa", ""]),
    "an empty pattern matches between characters": ("", "aé", ["", "", ""]),
    "lazy repetition": ("a+?", "aa", ["a", "a"]),
    "lazy by flag, greedy by mark": ("(?U)a+b+?", "aabb", ["aabb"]),
    "counted repetition": ("a{2}", "aaaaa", ["aa", "aa"]),
    "counted from": ("a{2,}", "aaaaa", ["aaaaa"]),
    "counted to": ("a{1,2}", "aaa", ["aa", "a"]),
    "counted not at all": ("ba{0}", "ba", ["b"]),
    "any number by count": ("a{0,}", "aab", ["aa", ""]),
    "braces that count nothing are characters": ("a{,2}|x{|{a}", "a{,2}x{{a}", ["a{,2}", "x{", "{a}"]),
    "classes": ("[a-c]+", "abcdab", ["abc", "ab"]),
    "a negated class": ("[^a-c]+", "abxyc", ["xy"]),
    "a class with brackets and dashes": (r"[]a\-[-]+", "a]-[x", ["a]-["]),
    "a class of what other engines take for set operations": ("[a&&b||c~~[]+", "a&b|c~[d", ["a&b|c~["]),
    "digits are ASCII": (r"\d+", "1٣2", ["1", "2"]),
    "words are ASCII": (r"\w+", "aéb_1", ["a", "b_1"]),
    "white space has no vertical tab": (r"\s", "\v\t ", ["\t", " "]),
    "negated escapes": (r"\D\W\S", "a-b", ["a-b"]),
    "escapes in a negated class": (r"[^\d\s]+", "a1 b", ["a", "b"]),
    "word boundaries are ASCII": (r"\bé\b|\bx\b", "x é xé", ["x", "x"]),
    "no word boundary": (r"\Bb", "ab b", ["b"]),
    "no word boundary within a character": (r"\B", "2É", [""]),
    "anchors": ("^a|b$", "aabb", ["a", "b"]),
    "the end is the end, not the last line's": ("a$", "a\n", []),
    "lines by flag": ("(?m)^a$", "a\nb\na", ["a", "a"]),
    "text anchors are no line anchors": (r"(?m)\Aa|a\z", "a\na", ["a", "a"]),
    "the dot stops at a line's end": ("a.?", "a\n", ["a"]),
    "unless a flag says otherwise": ("(?s)a.", "a\n", ["a\n"]),
    "case by flag": ("(?i)aBc", "AbC", ["AbC"]),
    "flags end with their group": ("(?:(?i)a)b", "AbAB", ["Ab"]),
    "flags of a group": ("(?i:a)b", "Ab", ["Ab"]),
    "flags can be taken back": ("(?i)a(?-i)b", "AbAB", ["Ab"]),
    "case has three forms sometimes": ("(?i)k+", "kK\u212a", ["kK\u212a"]),
    "words have more letters without case": (r"(?i)\w+", "a\u017f\u212aé", ["a\u017f\u212a"]),
    "and so their opposite has fewer": (r"(?i)\W+", "s\u017fké", ["é"]),
    "POSIX classes": ("[[:alpha:]]+[[:^alpha:]]", "ab1", ["ab1"]),
    "POSIX classes without case": ("(?i)[[:lower:]]+", "aB\u017f", ["aB\u017f"]),
    "Unicode scripts": (r"\p{Greek}+", "a\u03b1\u03b2", ["\u03b1\u03b2"]),
    "no category inside of a class": (r"[\p{Cn}a]+[^\p{Cn}]", "a\u0378b", ["a\u0378b"]),
    "letters without case inside of a class": (r"[\P{LC}]+", "aé日ˠ", ["日ˠ"]),
    "not ASCII inside of a class": (r"[\P{ASCII}a]+", "aéb", ["aé"]),
    "Unicode categories": (r"\pL+", "aé1", ["aé"]),
    "Unicode categories by name": (r"\p{Lu}\P{Lu}", "Éa", ["Éa"]),
    "Unicode categories by long name": (r"\p{uppercase_letter}", "aÉ", ["É"]),
    "negated twice": (r"[^\P{^Lu}]+", "aÉ", ["a"]),
    "letters with case": (r"\p{LC}+\P{LC}", "aÉ日", ["aÉ日"]),
    "anything": (r"\p{Any}+", "a\n", ["a\n"]),
    "nothing": (r"\P{Any}|a", "ab", ["a"]),
    "ASCII": (r"\p{ASCII}+", "aé", ["a"]),
    "what Unicode has assigned": (r"\p{Assigned}+", "a\u0378", ["a"]),
    "escaped characters": (r"\x41\x{e9}\101\n\t\_\-\\", "AéA\n\t_-\\", ["AéA\n\t_-\\"]),
    "quoted text": (r"\Qa*\Eb+", "a*bb", ["a*bb"]),
    "quoted to the end": (r"\Q(", "((", ["(", "("]),
    "groups with names, even twice": ("(?P<x>a)(?<x>b)", "ab", ["ab"]),
    "repeated groups": ("(ab)+", "ababa", ["abab"]),
    "repeated repetitions": ("(?:a*)+b", "aab", ["aab"]),
    "a surrogate matches nothing": (r"\x{D800}|[\x{D800}-\x{DFFF}]|a", "a", ["a"]),
    "a repeated anchor": ("^*a", "a", ["a"]),
    "one character of a class without any": (r"[^\x00-\x{10FFFF}]|b", "ab", ["b"]),
}


@pytest.mark.parametrize("case", MATCHES.values(), ids=MATCHES)
def test_matches(case: tuple[str, str, list[str]]) -> None:
    pattern, text, matches = case
    compiled = compile_regex(pattern)
    assert compiled.find_all(text) == matches
    assert compiled.find(text) == (matches[0] if matches else "")
    assert compiled.matches(text) is bool(matches)


@pytest.mark.parametrize(("limit", "count"), [(-1, 3), (0, 0), (2, 2), (9, 3)])
def test_the_number_of_matches_can_be_limited(limit: int, count: int) -> None:
    assert compile_regex("a").find_all("aaa", limit) == ["a"] * count


FAULTS: dict[str, str] = {
    "(": "missing closing ): `(`",
    "a(b": "missing closing ): `a(b`",
    ")": "unexpected ): `)`",
    "[a": "missing closing ]: `[a`",
    "x[": "missing closing ]: `[`",
    "[]": "missing closing ]: `[]`",
    "[^]": "missing closing ]: `[^]`",
    "[z-a]": "invalid character class range: `z-a`",
    r"[a-\d]": r"invalid escape sequence: `\d`",
    "[[:foo:]]": "invalid character class range: `[:foo:]`",
    r"\pX": r"invalid character class range: `\pX`",
    r"\p": r"invalid character class range: `\p`",
    r"\p{Lu": r"invalid character class range: `\p{Lu`",
    r"\p{Old_Italic}": r"invalid character class range: `\p{Old_Italic}`",
    "\\p\u017f": "invalid character class range: `\\p\u017f`",
    "*a": "missing argument to repetition operator: `*`",
    "a|*": "missing argument to repetition operator: `*`",
    "(?i)+?": "missing argument to repetition operator: `+?`",
    "a**": "invalid nested repetition operator: `**`",
    "a*{2}?": "invalid nested repetition operator: `*{2}?`",
    "a++": "invalid nested repetition operator: `++`",
    "a{1001}": "invalid repeat count: `{1001}`",
    "a{2,1}": "invalid repeat count: `{2,1}`",
    "a{10000000000}": "invalid repeat count: `{10000000000}`",
    "(?:a{500}){3}": "invalid repeat count: `{3}`",
    "\\": "trailing backslash at end of expression: ``",
    r"\8": r"invalid escape sequence: `\8`",
    r"\1": r"invalid escape sequence: `\1`",
    r"\C": r"invalid escape sequence: `\C`",
    r"\Z": r"invalid escape sequence: `\Z`",
    r"\é": r"invalid escape sequence: `\é`",
    r"\x": r"invalid escape sequence: `\x`",
    r"\x4": r"invalid escape sequence: `\x4`",
    r"\xzz": r"invalid escape sequence: `\xzz`",
    r"\x{": r"invalid escape sequence: `\x{`",
    r"\x{}": r"invalid escape sequence: `\x{}`",
    r"\x{110000}": r"invalid escape sequence: `\x{110000`",
    "(?=a)": "invalid or unsupported Perl syntax: `(?=`",
    "(?z)": "invalid or unsupported Perl syntax: `(?z`",
    "(?-)": "invalid or unsupported Perl syntax: `(?-)`",
    "(?i": "invalid or unsupported Perl syntax: `(?i`",
    "(?P=n)": "invalid or unsupported Perl syntax: `(?P`",
    "(?<=a)": "invalid named capture: `(?<=a)`",
    "(?P<>x)": "invalid named capture: `(?P<>`",
    "(?P<a-b>x)": "invalid named capture: `(?P<a-b>`",
}


@pytest.mark.parametrize(("pattern", "fault"), FAULTS.items())
def test_faults(pattern: str, fault: str) -> None:
    with pytest.raises(InvalidRegex) as error:
        compile_regex(pattern)
    assert str(error.value) == f"error parsing regexp: {fault}"


@pytest.mark.parametrize(
    ("pattern", "fault"),
    [
        ("(" * 1500 + ")" * 1500, "expression nests too deeply"),
        ("(?:" + "(?:a|" * 1200 + ")" * 1200 + ")", "expression nests too deeply"),
        ("(?:" + "ab" * 1800 + "){1000}", "expression too large"),
    ],
    ids=["captures", "alternatives", "a repeated text"],
)
def test_hostile_patterns_are_refused(pattern: str, fault: str) -> None:
    with pytest.raises(InvalidRegex, match=fault):
        compile_regex(pattern)


def test_large_patterns_on_long_texts_are_too_much_work() -> None:
    work.begin()
    large = compile_regex(".{0,1000}x")
    assert not large.matches("z" * 1000)
    with pytest.raises(Overworked):
        large.matches("z" * 20_000)


@pytest.mark.parametrize("source", [r"[a-z]{{{}}}", r"(.{{0,{}}}x)*", r"\\pL{{{}}}", "({}"])
def test_many_patterns_are_too_much_work(source: str) -> None:
    work.begin()
    for number in range(10_000):
        try:
            pattern(source.format(number % 1000) + "x" * (number // 1000))
        except InvalidRegex:
            continue
        except Overworked:
            break
    else:
        pytest.fail("no end of it")


def test_a_pattern_counts_once() -> None:
    work.begin(30_000)
    for _ in range(100):
        pattern("a+")
        with pytest.raises(InvalidRegex):
            pattern("a++")


def test_a_refused_pattern_is_an_evaluation_error() -> None:
    with pytest.raises(CelError) as error:
        OVERLOADS["string_find_string"].call("abc", "(")
    assert str(error.value) == "Illegal regex: error parsing regexp: missing closing ): `(`"


def test_the_functions_of_the_library() -> None:
    assert OVERLOADS["string_find_string"].call("abc 123", "[0-9]+") == "123"
    assert OVERLOADS["string_find_all_string"].call("1a2", "[0-9]") == ["1", "2"]
    assert OVERLOADS["string_find_all_string_int"].call("1a2", "[0-9]", 1) == ["1"]


def test_text_that_is_no_utf_8_is_matched_all_the_same() -> None:
    assert compile_regex("a\ud800").find("xa\udfff") == "a\ufffd"


TEXTS = st.text("ab\n.é*", max_size=8)


@given(TEXTS, TEXTS)
def test_an_escaped_text_finds_itself(before: str, text: str) -> None:
    pattern = compile_regex("".join(f"\\x{{{ord(character):x}}}" for character in text))
    assert pattern.find(before + text) == text


@given(st.text(r"ab|*+?()[]^$\d{2,}-.", max_size=10), TEXTS)
def test_any_text_is_a_pattern_or_is_refused(pattern: str, text: str) -> None:
    try:
        compiled = compile_regex(pattern)
    except InvalidRegex:
        return
    found = compiled.find_all(text)
    assert bool(found) is compiled.matches(text)
    assert all(match in text for match in found)


@given(st.text("ab|*+?().", max_size=8), TEXTS)
def test_where_pythons_syntax_means_the_same_it_finds_the_same(pattern: str, text: str) -> None:
    try:
        mine = compile_regex(pattern).matches(text)
        theirs = re.search(pattern, text) is not None
    except (InvalidRegex, re.error):
        return
    assert mine is theirs
