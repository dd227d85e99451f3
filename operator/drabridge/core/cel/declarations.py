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
    arguments that fit `arguments` (dyn fits all: a library checks what it gets there). `cost` is its actual cost; for a
    failed call the result is the CelError. `guarded` is false for the few functions that upstream calls with anything
    at run time: they check their arguments themselves.
    """

    id: str
    arguments: tuple[Type, ...]
    result: Type
    call: Callable[..., Any]
    member: bool = False
    cost: Cost = unit
    guarded: bool = True


@dataclass(frozen=True, slots=True)
class Function:
    """A function by its CEL name ("size", "sets.contains", "isGreaterThan") with all overloads a library gives it.

    Overloads stand in upstream's order: a call that the checker could not decide takes the first that fits at run time.
    `undecided` is the actual cost of such a call. Upstream finds some costs by the overload, which is unknown there
    (one unit then), and others by the function's name.
    """

    name: str
    overloads: tuple[Overload, ...]
    undecided: Cost = unit


@dataclass(frozen=True, slots=True)
class Library:
    """What one library adds. Libraries may add overloads to functions of others (`indexOf`)."""

    name: str
    functions: tuple[Function, ...]
