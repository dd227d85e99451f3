"""How libraries declare their functions to checker and compiler."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from drabridge.core.cel.types import Type

Cost = Callable[..., int]
"""(*arguments, result) -> actual cost of one call, as upstream's tracker counts it, without that of the arguments."""


def unit(*_: Any) -> int:
    """One unit: what a call costs where nothing else is said."""
    return 1


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    `id` is cel-go's overload id where it shows in error texts, else any unique name. `member` says that the first
    argument is the receiver (`a.f(b)`). `call` gets the Python values and raises CelError; it is called only with
    arguments that fit `arguments` (dyn fits all: a library checks what it gets there). `cost` is its actual cost.
    """

    id: str
    arguments: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    member: bool = False
    cost: Cost = unit


@dataclass(frozen=True, slots=True)
class Function:
    """A function by its CEL name ("size", "sets.contains", "isGreaterThan") with all overloads a library gives it."""

    name: str
    overloads: tuple[Overload, ...]


@dataclass(frozen=True, slots=True)
class Library:
    """What one library adds. Libraries may add overloads to functions of others (`indexOf`)."""

    name: str
    functions: tuple[Function, ...]
