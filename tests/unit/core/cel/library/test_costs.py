"""What calls of the extension libraries cost, and that the tables which declare them are sound."""

from collections import Counter
from typing import Any

import pytest

from drabridge.core.cel.library import LIBRARIES
from drabridge.core.cel.library.addresses import parse_cidr, parse_ip
from drabridge.core.cel.library.costs import traversal
from drabridge.core.cel.library.named_formats import FORMATS
from drabridge.core.cel.quantity import parse as quantity
from drabridge.core.cel.quoting import quote
from drabridge.core.cel.values import CelError, Opaque

FUNCTIONS = [f for library in LIBRARIES for f in library.functions]
OVERLOADS = {o.id: o for f in FUNCTIONS for o in f.overloads}
ERROR = CelError("no such overload")

# overload -> arguments with the result, units; all of them are upstream's answers
COSTS: list[tuple[str, tuple[Any, ...], int]] = [
    ("string_to_quantity", ("10Gi", quantity("10Gi")), 1),
    ("string_to_quantity", ("12345678901", ERROR), 2),
    ("is_semver_string_bool", ("1.2.3-alpha.10", True, True), 2),
    ("quantity_add", (quantity("1"), quantity("1"), quantity("2")), 1),
    ("string_char_at_int", ("x" * 100, 1, "x"), 1),
    ("string_index_of_string", ("x" * 9, "x", 0), 0),
    ("string_index_of_string", ("é" * 9, "x", -1), 1),
    ("string_lower_ascii", ("é" * 9, "é" * 9), 1),
    ("string_trim", ("x" * 70, "x"), 7),
    ("string_replace_string_string", ("x" * 16, "x", "", ""), 4),
    ("list_join", ([], "x" * 16), 4),
    ("list_join", ([1], ERROR), 1),
    ("strings_quote", ("x" * 11, "x"), 2),
    ("string_format", ("x" * 11, [], "x"), 2),
    ("string_find_string", ("", "abcde", ""), 2),
    ("string_find_all_string_int", ("x" * 20, "abcde", 1, []), 6),
    ("string_to_url", ("/" * 11, None), 2),
    ("is_url_string", ("/" * 11, True), 1),
    ("ip_is_canonical", ("2001:db8::1", True), 3),
    ("ip_family", (parse_ip("::1"), 6), 1),
    ("cidr_contains_ip_ip", (parse_cidr("::/128"), parse_ip("::"), True), 4),
    ("cidr_contains_ip_ip", (parse_cidr("::/0"), parse_ip("::"), True), 0),
    ("cidr_contains_ip_string", (parse_cidr("10.0.0.0/8"), "10.0.0.1", True), 2),
    ("cidr_contains_cidr", (parse_cidr("10.0.0.0/8"), parse_cidr("10.0.0.0/8"), True), 3),
    ("cidr_contains_cidr_string", (parse_cidr("10.0.0.0/8"), "10.0.0.0/8", True), 4),
    ("cidr_ip", (parse_cidr("10.0.0.0/8"), None), 1),
    ("format-validate", (FORMATS["dns1123Label"], "A", None), 8),
    ("format-validate", (FORMATS["uri"], "x", None), 276),
    ("format-validate", (FORMATS["datetime"], "2020-02-03T24:00:00Z", None), 54),
    ("format-validate", (ERROR, "x", ERROR), 1),
    ("format.uuid", (FORMATS["uuid"],), 1),
    ("optional_or_optional", (None, None, None), 0),
    ("list_first", ([1, 2], None), 1),
    ("list_sets_contains_list", ([1, 2], [1, 2, 3], False), 7),
    ("list_sets_equivalent_list", ([1, 2], [1, 2, 3], False), 13),
    ("list_slice", ([1, 2, 3], 1, 5, ERROR), 12),
    ("lists_range", (5, [0, 1, 2, 3, 4]), 16),
    ("list_flatten", ([[1], [2]], [1, 2]), 13),
    ("list_flatten_int", ([[1], [2]], 3, [1, 2]), 17),
    ("list_flatten_int", ([[1], [2]], -1, ERROR), 13),
    ("list_int_sort", ([1, 2, 3], [1, 2, 3]), 29),
    ("list_string_sort", (["a", "b", "c"], []), 29),
    ("list_string_sort", (["a"] * 10, []), 221),
    ("list_int_sort", ([], []), 11),
    ("list_int_sort", (5, ERROR), 13),
    ("list_string_sortByAssociatedKeys", ([1, 2], ["a", "b"], [1, 2]), 19),
    ("list_distinct", ([1, 2], [1, 2]), 19),
    ("list_int_sum_int", ([1, 2, 3], 6), 3),
    ("list_string_max_string", (["x" * 25, "é" * 5], "x"), 3),
    ("list_includes_dyn_dyn", ("fish", "fish", True), 0),
    ("list_includes_dyn_dyn", (True, "fish", False), 1),
]


@pytest.mark.parametrize(("overload", "values", "units"), COSTS)
def test_costs(overload: str, values: tuple[Any, ...], units: int) -> None:
    assert OVERLOADS[overload].cost(*values) == units


@pytest.mark.parametrize(
    ("function", "values", "units"),
    [
        ("indexOf", ("x" * 25, "x", 0), 2),  # by the function's name
        ("sort", ([1, 2, 3], []), 1),  # by the overload, which is not known
        ("ip", (parse_cidr("::/128"), parse_ip("::")), 2),
        ("containsIP", (parse_cidr("10.0.0.0/8"), "10.0.0.1", True), 1),
    ],
)
def test_calls_without_a_decided_overload_cost_what_the_name_says(
    function: str, values: tuple[Any, ...], units: int
) -> None:
    undecided = [f.undecided for f in FUNCTIONS if f.name == function]
    assert {cost(*values) for cost in undecided} == {units}


@pytest.mark.parametrize(
    ("value", "units"),
    [
        ("x" * 19, 1),
        (b"x" * 20, 2),
        ([1, "x" * 10, [2, 3]], 4),
        ({"x" * 10: ["a", 1]}, 2),
        (None, 1),
        (quantity("1"), 1),
    ],
)
def test_traversal(value: Any, units: int) -> None:
    assert traversal(value) == units


def test_no_two_overloads_have_one_id() -> None:
    assert [name for name, count in Counter(o.id for f in FUNCTIONS for o in f.overloads).items() if count > 1] == []


def test_results_speak_of_the_parameters_that_arguments_have() -> None:
    for function in FUNCTIONS:
        for overload in function.overloads:
            known = {name for argument in overload.arguments for name in argument.parameters()}
            assert overload.id == "optional_none" or set(overload.result.parameters()) <= known
            assert overload.arguments or not overload.member


def test_all_kinds_of_values_say_what_they_are() -> None:
    kinds = {cls.type_name for cls in Opaque.__subclasses__() if cls.__module__.startswith("drabridge.core.cel")}
    assert kinds >= {
        "kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL", "kubernetes.NamedFormat", "net.IP", "net.CIDR",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("a", '"a"'), ('"\\', r'"\"\\"'), ("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"'), ("\x01\x7f", r'"\x01\x7f"'),
     ("é\u2028\U000e0001", '"é\\u2028\\U000e0001"'), ("\xa0", r'"\u00a0"')],
)  # fmt: skip
def test_text_is_quoted_as_go_does(text: str, quoted: str) -> None:
    assert quote(text) == quoted
