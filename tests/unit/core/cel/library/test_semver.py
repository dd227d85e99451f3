"""kubernetes.Semver: SemVer 2.0.0 with upstream's errors and its normalization."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.cel import semver
from drabridge.core.cel.library import LIBRARIES
from drabridge.core.cel.operators import equal
from drabridge.core.cel.semver import parse, parse_normalized
from drabridge.core.cel.values import CelError

OVERLOADS = {o.id: o for library in LIBRARIES for f in library.functions for o in f.overloads}

PRECEDENCE = [
    "0.9.9",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.1.0",
    "2.0.0",
]


@pytest.mark.parametrize("left", PRECEDENCE)
@pytest.mark.parametrize("right", PRECEDENCE)
def test_versions_are_ordered_by_precedence(left: str, right: str) -> None:
    order = PRECEDENCE.index(left) - PRECEDENCE.index(right)
    assert semver.compare(parse(left), parse(right)) == (order > 0) - (order < 0)
    assert OVERLOADS["semver_is_greater_than"].call(parse(left), parse(right)) is (order > 0)
    assert OVERLOADS["semver_is_less_than"].call(parse(left), parse(right)) is (order < 0)


def test_build_metadata_is_not_compared() -> None:
    assert equal(parse("1.0.0+a"), parse("1.0.0+b"))


def test_a_version_equals_versions_only() -> None:
    with pytest.raises(CelError, match=r"^no such overload$"):
        equal(parse("1.0.0"), "1.0.0")


@pytest.mark.parametrize("text", ["1.2.3", "1.2.3-rc.1.x-y", "1.2.3+b.01", "1.2.3-0+b"])
def test_a_version_prints_as_it_was_written(text: str) -> None:
    assert str(parse(text)) == text


ERRORS = {
    "": "Version string empty",
    "1": "No Major.Minor.Patch elements found",
    "1.2": "No Major.Minor.Patch elements found",
    "v1.2.3": 'Invalid character(s) found in major number "v1"',
    "1.x.3": 'Invalid character(s) found in minor number "x"',
    "1.2.3.4": 'Invalid character(s) found in patch number "3.4"',
    "01.2.3": 'Major number must not contain leading zeroes "01"',
    "1.02.3": 'Minor number must not contain leading zeroes "02"',
    "1.2.03": 'Patch number must not contain leading zeroes "03"',
    "1..3": 'strconv.ParseUint: parsing "": invalid syntax',
    "1.2.18446744073709551616": 'strconv.ParseUint: parsing "18446744073709551616": value out of range',
    "1.2.999999999999999999999": 'strconv.ParseUint: parsing "999999999999999999999": value out of range',
    "1.2.3-": "Prerelease is empty",
    "1.2.3-a..b": "Prerelease is empty",
    "1.2.3-01": 'Numeric PreRelease version must not contain leading zeroes "01"',
    "1.2.3-é": 'Invalid character(s) found in prerelease "é"',
    "1.2.3+": "Build meta data is empty",
    "1.2.3+a_b": 'Invalid character(s) found in build meta data "a_b"',
}


@pytest.mark.parametrize(("text", "message"), ERRORS.items())
def test_what_is_no_version_is_refused_with_upstreams_words(text: str, message: str) -> None:
    assert OVERLOADS["is_semver_string"].call(text) is False
    with pytest.raises(CelError) as error:
        OVERLOADS["string_to_semver"].call(text)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("v1.2.3", "1.2.3"),
        ("1", "1.0.0"),
        ("v1.2", "1.2.0"),
        ("01.02.03", "1.2.3"),
        ("00.0.000", "0.0.0"),
        ("1.2.03-rc1", "1.2.3-rc1"),
    ],
)
def test_normalization_makes_a_version_of_what_nearly_is_one(text: str, normal: str) -> None:
    assert str(OVERLOADS["string_bool_to_semver"].call(text, True)) == normal
    assert OVERLOADS["is_semver_string_bool"].call(text, True) is True
    assert OVERLOADS["is_semver_string_bool"].call(text, False) is False


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1.2-rc1", "short version cannot contain PreRelease/Build meta data"),
        ("1+b", "short version cannot contain PreRelease/Build meta data"),
        (" 1.2.3", 'Invalid character(s) found in major number "0 1"'),
        ("x", 'Invalid character(s) found in major number "x"'),
        ("0x1.2.3", 'Invalid character(s) found in major number "0x1"'),
    ],
)
def test_normalization_does_not_help_everywhere(text: str, message: str) -> None:
    with pytest.raises(CelError) as error:
        parse_normalized(text)
    assert str(error.value) == message


def test_numbers_beyond_int64_wrap_around() -> None:
    version = parse("18446744073709551615.9223372036854775808.7")
    assert OVERLOADS["semver_major"].call(version) == -1
    assert OVERLOADS["semver_minor"].call(version) == -(2**63)
    assert OVERLOADS["semver_patch"].call(version) == 7


NUMBER = st.integers(0, 2**64 - 1)
VERSIONS = st.builds(
    "{}.{}.{}{}".format, NUMBER, NUMBER, NUMBER, st.sampled_from(["", "-a", "-a.1", "-1", "+x", "-b+y"])
)


@given(VERSIONS)
def test_normalization_leaves_versions_alone(text: str) -> None:
    assert str(parse_normalized(text)) == str(parse(text)) == text


@given(VERSIONS, VERSIONS)
def test_comparing_the_other_way_round_gives_the_opposite(left: str, right: str) -> None:
    assert semver.compare(parse(left), parse(right)) == -semver.compare(parse(right), parse(left))
