"""The functions of optional types."""

from typing import Any

import pytest

from drabridge.core.cel.library import LIBRARIES, optionals
from drabridge.core.cel.operators import MIN_SECONDS, SECOND
from drabridge.core.cel.quantity import parse
from drabridge.core.cel.values import NONE, CelError, Duration, Optional, Timestamp, TypeValue, Uint

OVERLOADS = {o.id: o for library in LIBRARIES for f in library.functions for o in f.overloads}

ZEROS: list[Any] = [False, 0, Uint(0), 0.0, -0.0, "", b"", None, [], {}, Duration(0), Timestamp(MIN_SECONDS * SECOND)]
OTHERS: list[Any] = [
    True, 1, 0.5, "0", b"\0", [0], {"a": 0}, Duration(1), Timestamp(0), parse("0"), TypeValue("int"), NONE,
]  # fmt: skip


@pytest.mark.parametrize("value", ZEROS, ids=lambda value: f"{type(value).__name__} {value!r}")
def test_a_zero_value_is_nothing(value: Any) -> None:
    assert OVERLOADS["optional_ofNonZeroValue"].call(value) is NONE


@pytest.mark.parametrize("value", OTHERS, ids=lambda value: f"{type(value).__name__} {value!r}")
def test_what_is_no_zero_value_is_there(value: Any) -> None:
    assert OVERLOADS["optional_ofNonZeroValue"].call(value) == Optional(True, value)


@pytest.mark.parametrize("value", [*ZEROS, *OTHERS], ids=lambda value: f"{type(value).__name__} {value!r}")
def test_any_value_can_be_put_in_and_taken_out(value: Any) -> None:
    optional = OVERLOADS["optional_of"].call(value)
    assert OVERLOADS["optional_hasValue"].call(optional) is True
    assert OVERLOADS["optional_value"].call(optional) is value


def test_none_has_no_value() -> None:
    none = OVERLOADS["optional_none"].call()
    assert OVERLOADS["optional_hasValue"].call(none) is False
    with pytest.raises(CelError, match=r"^optional.none\(\) dereference$"):
        OVERLOADS["optional_value"].call(none)


def test_the_first_value_counts() -> None:
    one, two = optionals.of(1), optionals.of(2)
    choose, value = OVERLOADS["optional_or_optional"].call, OVERLOADS["optional_orValue_value"].call
    assert (choose(one, two), choose(NONE, two), choose(NONE, NONE)) == (one, two, NONE)
    assert (value(one, 3), value(NONE, 3)) == (1, 3)


def test_the_ends_of_a_list() -> None:
    first, last = OVERLOADS["list_first"].call, OVERLOADS["list_last"].call
    assert (first([1, 2]), last([1, 2])) == (Optional(True, 1), Optional(True, 2))
    assert first([]) is last([]) is NONE


def test_unwrapping_keeps_what_is_there() -> None:
    for overload in ("optional_unwrap", "optional_unwrapOpt"):
        assert OVERLOADS[overload].call([optionals.of(1), NONE, optionals.of(None)]) == [1, None]


def test_what_is_no_optional_cannot_be_unwrapped() -> None:
    with pytest.raises(CelError, match=r"^value 5 is not optional$"):
        optionals.unwrap([optionals.of(1), 5])
