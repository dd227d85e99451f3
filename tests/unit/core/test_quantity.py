"""Quantities. The expected values were computed by resource.Quantity of k8s.io/apimachinery v0.37.2."""

from __future__ import annotations

from itertools import pairwise

import pytest

from drabridge.core.quantity import MAX_LENGTH, MAX_VALUE, Quantity

# sentence -> text, whole value or None, rounded up, canonical form
VALUES: dict[str, tuple[str, int | None, int, str]] = {
    "a plain number": ("2", 2, 2, "2"),
    "zero": ("0", 0, 0, "0"),
    "zero in any dress": ("-00.000Gi", 0, 0, "0"),
    "leading zeros": ("007", 7, 7, "7"),
    "a plus sign": ("+1", 1, 1, "1"),
    "nothing before the point": (".5", None, 1, "500m"),
    "nothing behind the point": ("5.", 5, 5, "5"),
    "milli that make a whole": ("2000m", 2, 2, "2"),
    "milli that do not": ("1500m", None, 2, "1500m"),
    "micro and nano": ("1500u", None, 1, "1500u"),
    "nano": ("7n", None, 1, "7n"),
    "more precise than nano is rounded up": ("0.0000000001", None, 1, "1n"),
    "more precise than nano is rounded away from zero": ("-1.0000000001", None, -2, "-1000000001n"),
    "a tiny exponent costs nothing": ("1e-2000000000", None, 1, "1e-9"),
    "a zero with a tiny exponent is zero": ("0e-2000000000", 0, 0, "0"),
    "kilo is 1000": ("3k", 3000, 3000, "3k"),
    "the largest decimal suffix": ("2E", 2 * 10**18, 2 * 10**18, "2E"),
    "E followed by a number is an exponent": ("2E3", 2000, 2000, "2e3"),
    "a signed exponent": ("2e+2", 200, 200, "200"),
    "a negative exponent": ("25e-1", None, 3, "2500e-3"),
    "an exponent is a multiple of three": ("12e7", 120_000_000, 120_000_000, "120e6"),
    "Kibi is 1024": ("1Ki", 1024, 1024, "1Ki"),
    "a fraction of Gibi": ("1.5Gi", 1610612736, 1610612736, "1536Mi"),
    "less than 1Ki in a binary suffix is printed decimal": ("0.5Ki", 512, 512, "512"),
    "a broken binary value is printed decimal": ("1.0001Ki", None, 1025, "1024102400u"),
    "less than one in a binary suffix": ("0.0001Ki", None, 1, "102400u"),
    "negative values round away from zero": ("-1500m", None, -2, "-1500m"),
    "binary values are capped": ("8Ei", MAX_VALUE, MAX_VALUE, "9223372036854775807"),
    "negative binary values are capped": ("-9999999999Ei", -MAX_VALUE, -MAX_VALUE, "-9223372036854775807"),
    "decimal values keep their digits but count as 2^63-1": ("1e30", MAX_VALUE, MAX_VALUE, "1e30"),
    "one more than 2^63-1": ("9223372036854775808", MAX_VALUE, MAX_VALUE, "9223372036854775808"),
    "negative and huge": ("-1e30", -MAX_VALUE, -MAX_VALUE, "-1e30"),
    "huge and not whole": ("9999999999999999999.5", None, MAX_VALUE, "9999999999999999999500m"),
    "a huge exponent costs nothing": ("1e2000000000", MAX_VALUE, MAX_VALUE, "100e1999999998"),
    "exponents are kept in 32 bits, as Go does": ("3e4294967296", 3, 3, "3"),
    "no digit at all is zero, as upstream has it": ("k", 0, 0, "0"),
    "digits up to the limit": ("9" * MAX_LENGTH, MAX_VALUE, MAX_VALUE, "9" * MAX_LENGTH),
}


@pytest.mark.parametrize(("text", "whole", "rounded", "canonical"), VALUES.values(), ids=VALUES)
def test_a_quantity_is_read_exactly(text: str, whole: int | None, rounded: int, canonical: str) -> None:
    quantity = Quantity.parse(text)
    assert quantity.as_int() == whole
    assert quantity.is_whole == (whole is not None)
    assert quantity.ceil() == rounded
    assert str(quantity) == canonical


def test_decimal_values_beyond_the_suffixes_lose_nothing() -> None:
    # Here upstream prints "1": it drops a power of ten that has no suffix.
    assert str(Quantity.parse("1000E")) == "1000E"
    assert str(Quantity.parse("1Ki") + Quantity.parse("1e22")) == "10000000000000000001024"


INVALID = {
    "nothing": ("", "must not be empty"),
    "a word": ("two", "'two' is not a quantity"),
    "an unknown suffix": ("1KB", "Ki Mi Gi"),
    "a suffix in the wrong case": ("1ki", "is not a quantity"),
    "a space before the suffix": ("1 Gi", "is not a quantity"),
    "an exponent without digits": ("1e", "is not a quantity"),
    "a broken exponent": ("1e1.5", "is not a quantity"),
    "an exponent beyond 64 bits": ("1e99999999999999999999", "exponent is out of range"),
    "two signs": ("--1", "is not a quantity"),
    "not a number": ("NaN", "is not a quantity"),
    "digits of another script": ("٣", r"'\\u0663' is not a quantity"),
    "a line break at the end": ("1\n", r"'1\\n' is not a quantity"),
    "more text than anyone needs": ("1" * 3_000_000, "longer than the 2000 characters"),
}


@pytest.mark.parametrize(("text", "message"), INVALID.values(), ids=INVALID)
def test_a_malformed_quantity_is_named(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Quantity.parse(text)
    assert len(str(caught.value)) < 300


ORDER = ["-1e2000000000", "-1e30", "-2", "-1500m", "-1n", "0", "1n", "0.1", "999m", "1", "1001m", "1k", "1Ki", "1e30"]


def test_quantities_are_ordered_by_value() -> None:
    quantities = [Quantity.parse(text) for text in ORDER]
    assert sorted(quantities[5:] + quantities[:5]) == quantities
    assert all(a < b and b > a and a != b for a, b in pairwise(quantities))


def test_equal_values_are_one_key_however_they_are_written() -> None:
    assert len({Quantity.parse(text) for text in ("1024", "1Ki", "1.024k", "1024000m", "1.024e3")}) == 1


SUMS = {
    "milli and whole": ("500m", "1", "1500m", "-500m"),
    "the first format stays": ("1Ki", "1024", "2Ki", "0"),
    "zero takes the other's format": ("0", "1Ki", "1Ki", "-1Ki"),
    "zero changes nothing": ("1500m", "0", "1500m", "1500m"),
    "opposite signs": ("-2", "2", "0", "-4"),
}


@pytest.mark.parametrize(("a", "b", "added", "subtracted"), SUMS.values(), ids=SUMS)
def test_sums_are_exact(a: str, b: str, added: str, subtracted: str) -> None:
    assert str(Quantity.parse(a) + Quantity.parse(b)) == added
    assert str(Quantity.parse(a) - Quantity.parse(b)) == subtracted


def test_a_sum_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(OverflowError, match="would have 2000000010 digits"):
        Quantity.parse("1e2000000000") + Quantity.parse("1n")
