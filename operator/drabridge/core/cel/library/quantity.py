"""Kubernetes' quantity library: quantity, isQuantity, sign, comparisons, sums, conversions."""

from typing import Final

from drabridge.core.cel import quantity
from drabridge.core.cel.declarations import Library, Overload
from drabridge.core.cel.library.costs import scan_target
from drabridge.core.cel.library.declaring import function, member
from drabridge.core.cel.quantity import Quantity
from drabridge.core.cel.types import BOOL, DOUBLE, INT, QUANTITY, STRING

_TWO: Final = (QUANTITY, QUANTITY)


def is_greater_than(left: Quantity, right: Quantity) -> bool:
    """Left > right."""
    return quantity.compare(left, right) > 0


def is_less_than(left: Quantity, right: Quantity) -> bool:
    """Left < right."""
    return quantity.compare(left, right) < 0


def add_int(left: Quantity, right: int) -> Quantity:
    """Left + right."""
    return quantity.add(left, quantity.from_int(right))


def sub_int(left: Quantity, right: int) -> Quantity:
    """Left - right."""
    return quantity.sub(left, quantity.from_int(right))


LIBRARY: Final = Library(
    "kubernetes.quantity",
    (
        function(
            "quantity",
            Overload("string_to_quantity", (STRING,), QUANTITY, quantity.parse, cost=scan_target),
            by_name=scan_target,
        ),
        function(
            "isQuantity",
            Overload("is_quantity_string", (STRING,), BOOL, quantity.is_quantity, cost=scan_target),
            by_name=scan_target,
        ),
        function("sign", Overload("quantity_sign", (QUANTITY,), INT, quantity.sign)),
        function("isGreaterThan", member("quantity_is_greater_than", _TWO, BOOL, is_greater_than)),
        function("isLessThan", member("quantity_is_less_than", _TWO, BOOL, is_less_than)),
        function("compareTo", member("quantity_compare_to", _TWO, INT, quantity.compare)),
        function(
            "asApproximateFloat", member("quantity_get_float", (QUANTITY,), DOUBLE, quantity.as_approximate_float)
        ),
        function("asInteger", member("quantity_get_int", (QUANTITY,), INT, quantity.as_integer)),
        function("isInteger", member("quantity_is_integer", (QUANTITY,), BOOL, quantity.is_integer)),
        function(
            "add",
            member("quantity_add", _TWO, QUANTITY, quantity.add),
            member("quantity_add_int", (QUANTITY, INT), QUANTITY, add_int),
        ),
        function(
            "sub",
            member("quantity_sub", _TWO, QUANTITY, quantity.sub),
            member("quantity_sub_int", (QUANTITY, INT), QUANTITY, sub_int),
        ),
    ),
)
