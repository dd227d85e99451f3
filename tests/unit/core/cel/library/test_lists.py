"""cel-go's lists and sets, Kubernetes' lists."""

import math
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.cel.library import LIBRARIES, kubernetes_lists, lists, sets
from drabridge.core.cel.quantity import add, parse
from drabridge.core.cel.semver import parse as version
from drabridge.core.cel.values import CelError, Duration, Timestamp, Uint

OVERLOADS = {o.id: o for library in LIBRARIES for f in library.functions for o in f.overloads}

SUM = add(parse("1"), parse("1"))


class Case(NamedTuple):
    overload: str
    arguments: tuple[Any, ...]
    result: Any


CASES = {
    "slice": Case("list_slice", ([1, 2, 3, 4], 1, 3), [2, 3]),
    "slice of nothing": Case("list_slice", ([1], 1, 1), []),
    "flatten one level": Case("list_flatten", ([1, [2, [3]], (4,)],), [1, 2, [3], 4]),
    "flatten no level": Case("list_flatten_int", ([[1]], 0), [[1]]),
    "flatten more levels than there are": Case("list_flatten_int", ([[1, [[2]]]], 9), [1, 2]),
    "sort": Case("list_int_sort", ([3, 1, 2],), [1, 2, 3]),
    "sort of nothing": Case("list_int_sort", ([],), []),
    "sort false before true": Case("list_bool_sort", ([True, False],), [False, True]),
    "sort texts by code points": Case("list_string_sort", (["b", "é", "a", "Z"],), ["Z", "a", "b", "é"]),
    "sort many": Case("list_int_sort", (list(range(20, 0, -1)),), list(range(1, 21))),
    "sort by keys": Case("list_int_sortByAssociatedKeys", (["c", "a", "b"], [3, 1, 2]), ["a", "b", "c"]),
    "equal keys keep their order": Case(
        "list_int_sortByAssociatedKeys", (["a", "b", "c", "d"], [1, 0, 1, 0]), ["b", "d", "a", "c"]
    ),
    "range": Case("lists_range", (3,), [0, 1, 2]),
    "reverse": Case("list_reverse", ((1, 2, 3),), [3, 2, 1]),
    "distinct keeps the first": Case("list_distinct", ([1, 2, 1, 1.0, Uint(2), "1"],), [1, 2, "1"]),
    "distinct takes what cannot be compared for different": Case("list_distinct", ([SUM, SUM, "x"],), [SUM, SUM, "x"]),
    "a set contains": Case("list_sets_contains_list", ([1, 2, 3], [3, 1, 3]), True),
    "a set contains nothing": Case("list_sets_contains_list", ([], []), True),
    "a set does not contain": Case("list_sets_contains_list", ([1], [1, 2]), False),
    "equivalent sets": Case("list_sets_equivalent_list", ([1, 2, 2], [2, 1.0]), True),
    "sets that are not equivalent": Case("list_sets_equivalent_list", ([1, 2], [2]), False),
    "sets intersect": Case("list_sets_intersects_list", ([1, 2], [2, 3]), True),
    "sets do not intersect": Case("list_sets_intersects_list", ([1, 2], []), False),
    "sorted": Case("list_int_is_sorted_bool", ([1, 1, 2],), True),
    "not sorted, found before what cannot be compared": Case("list_int_is_sorted_bool", ([2, 1, None],), False),
    "what cannot be compared with each other is sorted": Case("list_int_is_sorted_bool", ([2, "a", 1],), True),
    "sum of ints": Case("list_int_sum_int", ([1, 2, 3],), 6),
    "sum of no doubles": Case("list_double_sum_double", ([],), 0.0),
    "sum of durations": Case("list_duration_sum_duration", ([Duration(1), Duration(2)],), Duration(3)),
    "sum of uints": Case("list_uint_sum_uint", ([Uint(1), Uint(2)],), Uint(3)),
    "min": Case("list_int_min_int", ([2, 1, 3],), 1),
    "max of timestamps": Case("list_timestamp_max_timestamp", ([Timestamp(1), Timestamp(2)],), Timestamp(2)),
    "min passes over what it cannot compare with": Case("list_int_min_int", ([2, "a", 1],), 1),
    "max of bools": Case("list_bool_max_bool", ([False, True],), True),
    "indexOf": Case("list_a_index_of_int", ([1, 2, 1], 1), 0),
    "lastIndexOf": Case("list_a_last_index_of_int", ([1, 2, 1], 1.0), 2),
    "indexOf of what is not there": Case("list_a_index_of_int", ([1, 2, 1], "1"), -1),
    "lastIndexOf of what is not there": Case("list_a_last_index_of_int", ([], 1), -1),
    "a list includes": Case("list_includes_dyn_dyn", (["a", "b"], "b"), True),
    "a list does not include": Case("list_includes_dyn_dyn", (["a"], ["a"]), False),
    "a scalar includes itself": Case("list_includes_dyn_dyn", ("a", "a"), True),
    "a scalar includes nothing else": Case("list_includes_dyn_dyn", (version("1.0.0"), "1.0.0"), False),
    "a long list includes": Case("list_includes_dyn_dyn", (list(range(200)), 199), True),
    "a map includes itself": Case("list_includes_dyn_dyn", ({"a": 1}, {"a": 1}), True),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_results(case: Case) -> None:
    result = OVERLOADS[case.overload].call(*case.arguments)
    assert (result, type(result)) == (case.result, type(case.result))


SAME_TYPE = "list elements must have the same type"
ERRORS = {
    "slice beyond the end": Case("list_slice", ([1, 2, 3], 1, 5), "cannot slice(1, 5), list is length 3"),
    "slice before the start": Case("list_slice", ([1], -1, 1), "cannot slice(-1, 1), negative indexes not supported"),
    "slice backwards": Case(
        "list_slice", ([1], 1, 0), "cannot slice(1, 0), start index must be less than or equal to end index"
    ),
    "flatten to a negative depth": Case("list_flatten_int", ([], -1), "level must be non-negative"),
    "flatten of an int": Case("list_flatten", (5,), "no such overload: int.flatten()"),
    "sort of lists": Case("list_int_sort", ([[1]],), "list elements must be comparable"),
    "sort of quantities": Case("list_int_sort", ([parse("1")],), "list elements must be comparable"),
    "sort of several types": Case("list_int_sort", ([1, "a"],), SAME_TYPE),
    "sort of numbers of several types": Case("list_int_sort", ([1, 1.0],), SAME_TYPE),
    "sort of an int": Case("list_int_sort", (5,), "no such overload: sort"),
    "sort by too few keys": Case(
        "list_int_sortByAssociatedKeys",
        ([1, 2], [1]),
        "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, "
        "but got 2 and 1 elements respectively",
    ),
    "a negative range": Case("lists_range", (-1,), "lists.range: size must be non-negative, got -1"),
    "a huge range": Case("lists_range", (2_000_000,), "lists.range: size 2000000 exceeds maximum allowed (1000000)"),
    "isSorted of lists": Case("list_int_is_sorted_bool", ([[1]],), "no such overload"),
    "sum of several types": Case("list_int_sum_int", ([1, "a"],), "no such overload"),
    "a sum too large": Case("list_int_sum_int", ([2**63 - 1, 1],), "integer overflow"),
    "min of nothing": Case("list_int_min_int", ([],), "min called on empty list"),
    "max of nothing": Case("list_int_max_int", ([],), "max called on empty list"),
    "min of lists": Case("list_int_min_int", ([1, [1]],), "no such overload"),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_errors(case: Case) -> None:
    with pytest.raises(CelError) as error:
        OVERLOADS[case.overload].call(*case.arguments)
    assert str(error.value) == case.result


def test_nan_is_where_upstreams_sort_leaves_it() -> None:
    nan = math.nan
    assert str(lists.sort([3.0, nan, 1.0, 2.0])) == "[3.0, nan, 1.0, 2.0]"
    assert str(lists.sort([2.0, 1.0, nan])) == "[1.0, 2.0, nan]"


def test_nan_does_not_break_the_sort_of_a_long_list() -> None:
    numbers = [*map(float, range(15, 0, -1)), math.nan]
    assert len(lists.sort(numbers)) == 16


VALUES = st.one_of(st.integers(-3, 3), st.booleans(), st.text("ab", max_size=2))
LISTS = st.lists(VALUES, max_size=6)


@given(st.lists(st.integers()))
def test_sorting_agrees_with_python(numbers: list[int]) -> None:
    assert lists.sort(numbers) == sorted(numbers)
    assert kubernetes_lists.is_sorted(lists.sort(numbers))
    if numbers:
        assert (kubernetes_lists.smallest(numbers), kubernetes_lists.largest(numbers)) == (min(numbers), max(numbers))


@given(LISTS)
def test_distinct_elements_are_an_equivalent_set(elements: list[Any]) -> None:
    assert sets.equivalent(elements, lists.distinct(elements))
    assert lists.distinct(lists.distinct(elements)) == lists.distinct(elements)


@given(LISTS, LISTS)
def test_sets_intersect_whichever_comes_first(left: list[Any], right: list[Any]) -> None:
    assert sets.intersects(left, right) is sets.intersects(right, left)
    assert sets.contains(left, right) or right


@given(LISTS, VALUES)
def test_what_is_included_has_an_index(elements: list[Any], item: Any) -> None:
    assert kubernetes_lists.includes(elements, item) is (kubernetes_lists.index_of(elements, item) >= 0)
    assert kubernetes_lists.index_of(elements, item) <= kubernetes_lists.last_index_of(elements, item)
