"""The syntax tree of an expression. Each node has an id, by which positions, types and references are kept aside."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant of the source text, as its Python value."""

    id: int
    value: Any


@dataclass(frozen=True, slots=True)
class Ident:
    """A name; with a leading dot it is looked up outside of all comprehensions."""

    id: int
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """`operand.field`; `test_only` for has(operand.field)."""

    id: int
    operand: Node
    field: str
    test_only: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function or an operator; operators have names such as "_+_" (cel-go's common/operators)."""

    id: int
    function: str
    target: Node | None
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListLiteral:
    """`[a, ?b]`; `optionals` are the indices of the elements with a question mark."""

    id: int
    elements: tuple[Node, ...]
    optionals: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Entry:
    """`key: value` of a map or, with a string for the key, `field: value` of a message."""

    id: int
    key: Node
    value: Node
    optional: bool = False


@dataclass(frozen=True, slots=True)
class MapLiteral:
    """`{key: value, ?key: value}`."""

    id: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """`type{field: value}`."""

    id: int
    type_name: str
    fields: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Comprehension:
    """What all loops expand to: fold `step` over `range` while `condition`, then give `result`."""

    id: int
    range: Node
    variable: str
    second: str
    accumulator: str
    init: Node
    condition: Node
    step: Node
    result: Node


Node = Literal | Ident | Select | Call | ListLiteral | MapLiteral | Message | Comprehension


def children(node: Node) -> Iterator[Node]:
    """Give a node's direct children in the order of cel-go's traversal."""
    match node:
        case Select():
            yield node.operand
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.args
        case ListLiteral():
            yield from node.elements
        case MapLiteral():
            for entry in node.entries:
                yield entry.key
                yield entry.value
        case Message():
            for entry in node.fields:
                yield entry.value
        case Comprehension():
            yield from (node.range, node.init, node.condition, node.step, node.result)
        case _:
            return


def walk(node: Node) -> Iterator[Node]:
    """Give a node and all below it, without recursion."""
    pending = [node]
    while pending:
        current = pending.pop()
        yield current
        pending.extend(reversed(tuple(children(current))))
