"""Quantities against Python's own exact numbers."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.quantity import MAX_VALUE, Quantity

SUFFIXES = {
    **{
        suffix: Fraction(10) ** power
        for suffix, power in zip(["n", "u", "m", "k", "M", "G", "T", "P", "E"], range(-9, 19, 3), strict=False)
    },
    **{suffix: Fraction(1024) ** (rank + 1) for rank, suffix in enumerate(["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"])},
    "": Fraction(1),
}
SUFFIXES |= {"k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9)}
SUFFIXES |= {"T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18)}
NANO = Fraction(1, 10**9)


class Written(NamedTuple):
    text: str
    value: Fraction


@st.composite
def written(draw: st.DrawFn) -> Written:
    """A text of the grammar, and what it is worth once it is rounded to nano and capped."""
    sign = draw(st.sampled_from(["", "+", "-"]))
    whole = draw(st.from_regex(r"[0-9]{1,25}", fullmatch=True))
    fraction = draw(st.from_regex(r"[0-9]{0,15}", fullmatch=True))
    exponent = draw(st.none() | st.integers(-40, 40))
    suffix = draw(st.sampled_from([*SUFFIXES])) if exponent is None else f"{draw(st.sampled_from('eE'))}{exponent}"
    scale = SUFFIXES[suffix] if exponent is None else Fraction(10) ** exponent
    size = (int(whole + fraction) * scale) / 10 ** len(fraction)
    size = ceil(size / NANO) * NANO
    if suffix.endswith("i"):
        size = min(size, Fraction(MAX_VALUE))
    point = "." if fraction or draw(st.booleans()) else ""
    return Written(f"{sign}{whole}{point}{fraction}{suffix}", -size if sign == "-" else size)


def value(quantity: Quantity) -> Fraction:
    return Fraction(quantity.mantissa) * Fraction(10) ** quantity.exponent


@given(written())
def test_parsing_is_exact(given_: Written) -> None:
    assert value(Quantity.parse(given_.text)) == given_.value


@given(written())
def test_the_canonical_form_has_the_same_value_and_is_its_own_canonical_form(given_: Written) -> None:
    quantity = Quantity.parse(given_.text)
    canonical = str(quantity)
    assert Quantity.parse(canonical) == quantity
    assert str(Quantity.parse(canonical)) == canonical
    assert "." not in canonical


@given(written())
def test_whole_and_rounded_values(given_: Written) -> None:
    quantity, exact = Quantity.parse(given_.text), given_.value
    away = floor(exact) if exact < 0 else ceil(exact)
    assert quantity.ceil() == max(-MAX_VALUE, min(away, MAX_VALUE))
    assert quantity.is_whole == (exact.denominator == 1)
    assert quantity.as_int() == (quantity.ceil() if quantity.is_whole else None)


@given(written(), written())
def test_order_sums_and_hashes_follow_the_values(a: Written, b: Written) -> None:
    x, y = Quantity.parse(a.text), Quantity.parse(b.text)
    assert (x < y, x <= y, x == y, x > y) == (
        a.value < b.value,
        a.value <= b.value,
        a.value == b.value,
        a.value > b.value,
    )
    assert value(x + y) == a.value + b.value
    assert value(x - y) == a.value - b.value
    assert x + y == y + x
    assert hash(x + y - y) == hash(x)


@given(written(), written())
def test_one_value_is_one_quantity_however_it_came_about(a: Written, b: Written) -> None:
    x, y = Quantity.parse(a.text), Quantity.parse(b.text)
    assert x + y - y == x
    assert x - x == Quantity.parse("0")


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP ", max_size=12) | st.text(max_size=12))
def test_any_text_is_a_quantity_or_a_value_error(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except ValueError:
        return
    assert Quantity.parse(str(quantity)) == quantity


@given(st.integers(-(2**31), 2**31 - 10), st.integers(-(2**31), 2**31 - 10))
def test_no_exponent_costs_time_or_memory(a: int, b: int) -> None:
    # Written out, these numbers would have two billion digits: that the test ends is the point of it.
    x, y = Quantity.parse(f"7e{a}"), Quantity.parse(f"7e{b}")
    assert (x < y) == (max(a, -10) < max(b, -10))
    assert x.ceil() <= MAX_VALUE
    assert len(str(x)) < 20
    if abs(max(a, -9) - max(b, -9)) > 4000:
        with pytest.raises(OverflowError):
            x + y
