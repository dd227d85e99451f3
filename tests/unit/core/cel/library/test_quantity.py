"""kubernetes.Quantity: the answers of resource.Quantity, among them those that follow from how it keeps values."""

import math
from typing import NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from drabridge.core.cel import quantity
from drabridge.core.cel.library import LIBRARIES
from drabridge.core.cel.operators import equal
from drabridge.core.cel.quantity import Quantity, parse
from drabridge.core.cel.values import CelError

OVERLOADS = {o.id: o for library in LIBRARIES for f in library.functions for o in f.overloads}

FORMAT_WRONG = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


@pytest.mark.parametrize(
    ("text", "integer"),
    [
        ("0", 0),
        ("1", 1),
        ("-1", -1),
        ("+1", 1),
        ("000", 0),
        ("007", 7),
        ("1.5k", 1500),
        ("1e3", 1000),
        ("1E3", 1000),
        ("Mi", 0),
        (".", 0),
        ("5.", 5),
        ("1Gi", 2**30),
        ("123456789012345678", 123456789012345678),
    ],
)
def test_what_upstream_keeps_as_int64_is_an_integer(text: str, integer: int) -> None:
    assert quantity.is_integer(parse(text))
    assert quantity.as_integer(parse(text)) == integer


@pytest.mark.parametrize(
    "text",
    [
        "1.0",  # scale -1
        "1000m",
        "100m",
        "1.5Gi",  # a fraction with a binary suffix is a decimal
        "1.0Gi",
        "16Ei",
        "9223372036854775807",  # 19 digits
        "1e19",  # beyond int64
        "1e400",
    ],
)
def test_what_upstream_keeps_as_a_decimal_or_with_a_fraction_is_no_integer(text: str) -> None:
    assert not quantity.is_integer(parse(text))
    with pytest.raises(CelError, match="cannot convert value to integer"):
        quantity.as_integer(parse(text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", FORMAT_WRONG),
        ("abc", FORMAT_WRONG),
        ("1 Gi", FORMAT_WRONG),
        ("1Gi ", FORMAT_WRONG),
        ("1.1.1", FORMAT_WRONG),
        ("1K", "unable to parse quantity's suffix"),
        ("1e", "unable to parse quantity's suffix"),
        ("1e+", "unable to parse quantity's suffix"),
        ("1eE5", "unable to parse quantity's suffix"),
        ("1e99999999999999999999", "unable to parse quantity's suffix"),
        ("Pi", "unable to parse numeric part of quantity"),
        (".Ei", "unable to parse numeric part of quantity"),
        ("e-10", "unable to parse numeric part of quantity"),
    ],
)
def test_what_is_no_quantity_is_refused_with_upstreams_words(text: str, message: str) -> None:
    assert not quantity.is_quantity(text)
    with pytest.raises(CelError) as error:
        parse(text)
    assert str(error.value) == message


def test_a_quantity_of_too_many_characters_is_an_error_but_still_called_a_quantity() -> None:
    text = "1" * 3000
    assert quantity.is_quantity(text)
    with pytest.raises(CelError, match="2000 characters"):
        parse(text)


class Comparison(NamedTuple):
    left: str
    right: str
    order: int


@pytest.mark.parametrize(
    "case",
    [
        Comparison("1", "1000m", 0),
        Comparison("1Ki", "1k", 1),
        Comparison("-1", "1", -1),
        Comparison("100m", "0.2", -1),
        Comparison("1e1000", "1e999", 1),
        Comparison("10Gi", "16Gi", -1),
        Comparison("1n", "0", 1),
    ],
)
def test_quantities_are_ordered_by_value(case: Comparison) -> None:
    left, right = parse(case.left), parse(case.right)
    assert quantity.compare(left, right) == case.order
    assert OVERLOADS["quantity_is_greater_than"].call(left, right) is (case.order > 0)
    assert OVERLOADS["quantity_is_less_than"].call(left, right) is (case.order < 0)


@pytest.mark.parametrize(("text", "sign"), [("0", 0), ("-0", 0), ("1n", 1), ("-1e30", -1)])
def test_sign(text: str, sign: int) -> None:
    assert quantity.sign(parse(text)) == sign


SUMS = {
    "int64 plus int64 stays an integer": ("50k", "20", 50020, True),
    "what overflows becomes a decimal": ("900000000000000000k", "900000000000000000k", 18 * 10**20, False),
    "a decimal stays one even if its value is an integer": ("1.5Gi", "0.5Gi", 2 * 2**30, False),
    "a fraction keeps its scale": ("1.5", "0.5", 2, False),
    "nothing added keeps the left scale": ("1.0", "0", 1, False),
    "added to nothing, the right scale counts": ("0", "1.0", 1, False),
    "zero plus zero is an integer": ("0", "0", 0, True),
}


@pytest.mark.parametrize("case", SUMS.values(), ids=SUMS)
def test_sum(case: tuple[str, str, int, bool]) -> None:
    left, right, value, is_integer = case
    total = quantity.add(parse(left), parse(right))
    assert total.exact.ceil() == min(value, 2**63 - 1)
    assert quantity.is_integer(total) is is_integer
    assert total.derived


def test_sums_of_absurd_magnitudes_are_an_error() -> None:
    with pytest.raises(CelError, match="digits"):
        quantity.add(parse("1e100000"), parse("1"))


@pytest.mark.parametrize(
    ("left", "right", "difference"),
    [
        ("1", 1, 0),
        ("5k", -5, 5005),
        ("0", 7, -7),
        # The smallest int64 has no opposite: upstream subtracts what it finds instead, as long as that fits.
        ("1", -(2**63), 1 - 2**63),
        ("-9223372036854775808", -(2**63), 0),  # a decimal already
    ],
)
def test_ints_can_be_subtracted(left: str, right: int, difference: int) -> None:
    result = OVERLOADS["quantity_sub_int"].call(parse(left), right)
    assert result.exact.mantissa * 10**result.exact.exponent == difference


def test_the_smallest_int64_is_subtracted_exactly_where_the_result_is_a_decimal() -> None:
    result = OVERLOADS["quantity_sub_int"].call(parse("1000m"), -(2**63))
    assert result.exact.mantissa * 10**result.exact.exponent == 2**63 + 1


def test_quantities_can_be_subtracted_and_ints_added() -> None:
    assert quantity.as_integer(OVERLOADS["quantity_sub"].call(parse("50k"), parse("20"))) == 49980
    assert quantity.as_integer(OVERLOADS["quantity_add_int"].call(parse("50k"), 20)) == 50020


@pytest.mark.parametrize(
    ("text", "double"),
    [
        ("0", 0.0),
        ("1.5Gi", 1610612736.0),
        ("3m", 0.003),
        ("1e400", math.inf),
        ("5e-400", 1e-9),  # rounded up to nano
        ("-12345678901234567890", -1.234567890123457e19),
        ("-12345678901234567890e400", -math.inf),
        ("-12345678901234567890e2000", -math.inf),
        ("1e33", 1.0000000000000001e33),
    ],
)
def test_the_approximate_float_is_what_upstreams_multiplication_gives(text: str, double: float) -> None:
    assert quantity.as_approximate_float(parse(text)) == double


def test_nothing_times_an_infinite_power_is_no_number() -> None:
    assert math.isnan(quantity.as_approximate_float(parse("0e400")))


def test_a_zero_of_a_vanishing_power_is_zero() -> None:
    assert quantity.as_approximate_float(parse("0.0e-400")) == 0.0


def test_a_derived_quantity_is_refused_on_the_right_of_an_equality_only() -> None:
    total = quantity.add(parse("50k"), parse("20"))
    assert equal(total, parse("50020"))
    with pytest.raises(CelError, match=r"^no such overload$"):
        equal(parse("50020"), total)
    with pytest.raises(CelError, match=r"^no such overload$"):
        equal(parse("50020"), "50020")


def test_a_quantity_prints_its_canonical_form() -> None:
    assert str(parse("1536Mi")) == "1536Mi"
    assert str(parse("1.5Gi")) == "1536Mi"


NUMBERS = st.builds(
    "{}{}".format,
    st.one_of(st.integers(-(10**20), 10**20), st.decimals(-1000, 1000, places=3)),
    st.sampled_from(["", "m", "k", "M", "Ki", "Gi", "e3", "e-3"]),
)


@given(NUMBERS, NUMBERS)
def test_sum_and_difference_undo_each_other(left: str, right: str) -> None:
    a, b = parse(left), parse(right)
    back: Quantity = quantity.sub(quantity.add(a, b), b)
    assert quantity.compare(back, a) == 0


@given(NUMBERS, NUMBERS)
def test_order_is_the_sign_of_the_difference(left: str, right: str) -> None:
    a, b = parse(left), parse(right)
    assert quantity.compare(a, b) == quantity.sign(quantity.sub(a, b)) == -quantity.compare(b, a)


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_ints_are_added_exactly(left: int, right: int) -> None:
    assume(left != -(2**63))
    total = quantity.add(quantity.from_int(left), quantity.from_int(right))
    assert total.exact.mantissa * 10**total.exact.exponent == left + right
    assert quantity.is_integer(total) is (-(2**63) <= left + right < 2**63)
