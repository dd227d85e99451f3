"""Short forms for the tables in which libraries declare their functions."""

from collections.abc import Callable
from typing import Any

from drabridge.core.cel.declarations import Cost, Function, Overload, unit
from drabridge.core.cel.types import Type


def function(name: str, *overloads: Overload, by_name: Cost = unit) -> Function:
    """A function. `by_name` is the cost of calls without a decided overload, where upstream goes by the name."""
    return Function(name, overloads, by_name)


def member(
    name: str,
    arguments: tuple[Type, ...],
    result: Type,
    call: Callable[..., Any],
    cost: Cost = unit,
    *,
    guarded: bool = True,
) -> Overload:
    """An overload of that id which is called on its first argument."""
    return Overload(name, arguments, result, call, member=True, cost=cost, guarded=guarded)
