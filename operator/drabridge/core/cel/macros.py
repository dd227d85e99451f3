"""Macros: what has(), all(), map(), cel.bind() and the others stand for (cel-go's parser, ext and cel packages)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from drabridge.core.cel import ast

ACCUMULATOR: Final = "@result"
"""The hidden accumulator, which no expression can name."""

UNUSED: Final = "#unused"

MOST_NODES: Final = 20_000
"""No expression of 10,240 characters has as many by itself. optMap() and optFlatMap() copy what they are called on, so
that a chain of them doubles with each; upstream knows no limit and takes minutes for fifteen."""

SORTED: Final = "@__sortBy_input__"
"""The list that sortBy() sorts by the keys made of it."""


class TooManyNodes(Exception):
    """An expression whose macros expand to more than `MOST_NODES`."""


class MacroError(Exception):
    """A macro that was called with arguments it cannot take; `node` is the id of the argument."""

    def __init__(self, node: int, message: str) -> None:
        super().__init__(message)
        self.node = node


class Nodes:
    """Gives out node ids and keeps the offsets they stand for."""

    __slots__ = ("offsets",)

    def __init__(self) -> None:
        self.offsets: dict[int, int] = {}

    def new(self, offset: int) -> int:
        """Return a fresh id for a node at an offset of the source text. Raises TooManyNodes."""
        id_ = len(self.offsets) + 1
        if id_ > MOST_NODES:
            raise TooManyNodes
        self.offsets[id_] = offset
        return id_

    def copy(self, node: ast.Node) -> ast.Node:
        """Copy a tree with fresh ids at the same places."""
        id_ = self.new(self.offsets[node.id])
        match node:
            case ast.Select():
                return ast.Select(id_, self.copy(node.operand), node.field, node.test_only)
            case ast.Call():
                target = None if node.target is None else self.copy(node.target)
                return ast.Call(id_, node.function, target, tuple(map(self.copy, node.args)))
            case ast.ListLiteral():
                return ast.ListLiteral(id_, tuple(map(self.copy, node.elements)), node.optionals)
            case ast.MapLiteral():
                return ast.MapLiteral(id_, self._copy_entries(node.entries))
            case ast.Message():
                return ast.Message(id_, node.type_name, self._copy_entries(node.fields))
            case ast.Comprehension():
                parts = [self.copy(p) for p in (node.range, node.init, node.condition, node.step, node.result)]
                range_, init, condition, step, result = parts
                names = node.variable, node.second, node.accumulator
                return ast.Comprehension(id_, range_, *names, init, condition, step, result)
            case ast.Ident():
                return ast.Ident(id_, node.name)
            case ast.Literal():
                return ast.Literal(id_, node.value)

    def _copy_entries(self, entries: tuple[ast.Entry, ...]) -> tuple[ast.Entry, ...]:
        return tuple(
            ast.Entry(self.new(self.offsets[e.id]), self.copy(e.key), self.copy(e.value), e.optional) for e in entries
        )


class _Maker:
    """Makes nodes at the place of a macro's call."""

    def __init__(self, nodes: Nodes, call: int) -> None:
        self.nodes = nodes
        self.call_id = call
        self._offset = nodes.offsets[call]

    def id(self) -> int:
        return self.nodes.new(self._offset)

    def literal(self, value: object) -> ast.Node:
        return ast.Literal(self.id(), value)

    def ident(self, name: str) -> ast.Node:
        return ast.Ident(self.id(), name)

    def accumulator(self) -> ast.Node:
        return self.ident(ACCUMULATOR)

    def call(self, function: str, *args: ast.Node) -> ast.Node:
        return ast.Call(self.id(), function, None, args)

    def member(self, function: str, target: ast.Node, *args: ast.Node) -> ast.Node:
        return ast.Call(self.id(), function, target, args)

    def list(self, *elements: ast.Node) -> ast.Node:
        return ast.ListLiteral(self.id(), elements)

    def loop(
        self, range_: ast.Node, names: tuple[str, str], init: ast.Node, condition: ast.Node, step: ast.Node,
        result: ast.Node,
    ) -> ast.Node:  # fmt: skip
        return ast.Comprehension(self.id(), range_, *names, ACCUMULATOR, init, condition, step, result)

    def bound(self, name: str, init: ast.Node, result: ast.Node) -> ast.Node:
        """Bind a name to a value by a loop over nothing."""
        step = self.ident(name)
        return ast.Comprehension(
            self.id(), self.list(), UNUSED, "", name, init, self.literal(False), step, result
        )  # fmt: skip


Args = tuple[ast.Node, ...]
_Expander = Callable[[_Maker, ast.Node, Args], ast.Node | None]


def expand(nodes: Nodes, call: int, name: str, target: ast.Node | None, args: Args) -> ast.Node | None:
    """Return what a call stands for, or None if it is no macro. Raises MacroError."""
    maker = _Maker(nodes, call)
    if target is None:
        return _has(maker, args) if name == "has" and len(args) == 1 else None
    expander = _MACROS.get((name, len(args)))
    return None if expander is None else expander(maker, target, args)


def _has(make: _Maker, args: Args) -> ast.Node:
    operand = args[0]
    if not isinstance(operand, ast.Select) or operand.test_only:
        raise MacroError(operand.id, "invalid argument to has() macro")
    return ast.Select(make.id(), operand.operand, operand.field, test_only=True)


def _variable(node: ast.Node, message: str) -> str:
    if not isinstance(node, ast.Ident):
        raise MacroError(node.id, message)
    if node.name in (ACCUMULATOR, "__result__"):
        raise MacroError(node.id, "iteration variable overwrites accumulator variable")
    return node.name


def _names(args: Args, count: int, message: str = "argument must be a simple name") -> tuple[str, str]:
    """Return the names of one or two iteration variables."""
    if count == 1:
        return _variable(args[0], message), ""
    for node in args[:2]:
        if not isinstance(node, ast.Ident):
            raise MacroError(node.id, message)
    first, second = (node for node in args[:2] if isinstance(node, ast.Ident))
    if first.name == second.name:
        raise MacroError(second.id, f"duplicate variable name: {first.name}")
    return _variable(first, message), _variable(second, message)


def _all(variables: int) -> _Expander:
    def expander(make: _Maker, target: ast.Node, args: Args) -> ast.Node:
        names = _names(args, variables)
        condition = make.call("@not_strictly_false", make.accumulator())
        step = make.call("_&&_", make.accumulator(), args[variables])
        return make.loop(target, names, make.literal(True), condition, step, make.accumulator())

    return expander


def _exists(variables: int) -> _Expander:
    def expander(make: _Maker, target: ast.Node, args: Args) -> ast.Node:
        names = _names(args, variables)
        condition = make.call("@not_strictly_false", make.call("!_", make.accumulator()))
        step = make.call("_||_", make.accumulator(), args[variables])
        return make.loop(target, names, make.literal(False), condition, step, make.accumulator())

    return expander


def _exists_one(variables: int) -> _Expander:
    def expander(make: _Maker, target: ast.Node, args: Args) -> ast.Node:
        names = _names(args, variables)
        more = make.call("_+_", make.accumulator(), make.literal(1))
        step = make.call("_?_:_", args[variables], more, make.accumulator())
        result = make.call("_==_", make.accumulator(), make.literal(1))
        return make.loop(target, names, make.literal(0), make.literal(True), step, result)

    return expander


def _filtered(make: _Maker, step: ast.Node, condition: ast.Node | None) -> ast.Node:
    return step if condition is None else make.call("_?_:_", condition, step, make.accumulator())


def _map(make: _Maker, target: ast.Node, args: Args) -> ast.Node:
    names = _names(args, 1, "argument is not an identifier")
    step = make.call("_+_", make.accumulator(), make.list(args[-1]))
    step = _filtered(make, step, args[1] if len(args) == 3 else None)
    return make.loop(target, names, make.list(), make.literal(True), step, make.accumulator())


def _filter(make: _Maker, target: ast.Node, args: Args) -> ast.Node:
    names = _names(args, 1, "argument is not an identifier")
    step = _filtered(make, make.call("_+_", make.accumulator(), make.list(args[0])), args[1])
    return make.loop(target, names, make.list(), make.literal(True), step, make.accumulator())


def _transform_list(make: _Maker, target: ast.Node, args: Args) -> ast.Node:
    names = _names(args, 2)
    step = make.call("_+_", make.accumulator(), make.list(args[-1]))
    step = _filtered(make, step, args[2] if len(args) == 4 else None)
    return make.loop(target, names, make.list(), make.literal(True), step, make.accumulator())


def _transform_map(make: _Maker, target: ast.Node, args: Args) -> ast.Node:
    names = _names(args, 2)
    step = make.call("cel.@mapInsert", make.accumulator(), make.ident(names[0]), args[-1])
    step = _filtered(make, step, args[2] if len(args) == 4 else None)
    empty = ast.MapLiteral(make.id(), ())
    return make.loop(target, names, empty, make.literal(True), step, make.accumulator())


def _transform_map_entry(make: _Maker, target: ast.Node, args: Args) -> ast.Node:
    names = _names(args, 2)
    step = make.call("cel.@mapInsert", make.accumulator(), args[-1])
    step = _filtered(make, step, args[2] if len(args) == 4 else None)
    empty = ast.MapLiteral(make.id(), ())
    return make.loop(target, names, empty, make.literal(True), step, make.accumulator())


def _bind(make: _Maker, target: ast.Node, args: Args) -> ast.Node | None:
    if not isinstance(target, ast.Ident) or target.name != "cel":
        return None
    name = args[0]
    if not isinstance(name, ast.Ident):
        raise MacroError(name.id, "cel.bind() variable names must be simple identifiers")
    return make.bound(name.name, args[1], args[2])


def _sort_by(make: _Maker, target: ast.Node, args: Args) -> ast.Node:
    if not isinstance(target, (ast.ListLiteral, ast.Select, ast.Ident, ast.Comprehension, ast.Call)):
        message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression"
        raise MacroError(target.id, message)
    keys = _map(make, make.ident(SORTED), args)
    return make.bound(SORTED, target, make.member("@sortByAssociatedKeys", make.ident(SORTED), keys))


def _optional_map(name: str, *, flat: bool) -> _Expander:
    def expander(make: _Maker, target: ast.Node, args: Args) -> ast.Node:
        variable = args[0]
        if not isinstance(variable, ast.Ident):
            raise MacroError(variable.id, f"{name}() variable name must be a simple identifier")
        value = make.member("value", make.nodes.copy(target))
        mapped = make.bound(variable.name, value, args[1])
        if not flat:
            mapped = make.call("optional.of", mapped)
        return make.call("_?_:_", make.member("hasValue", target), mapped, make.call("optional.none"))

    return expander


_MACROS: Final[dict[tuple[str, int], _Expander]] = {
    ("all", 2): _all(1),
    ("all", 3): _all(2),
    ("exists", 2): _exists(1),
    ("exists", 3): _exists(2),
    ("exists_one", 2): _exists_one(1),
    ("exists_one", 3): _exists_one(2),
    ("existsOne", 3): _exists_one(2),
    ("map", 2): _map,
    ("map", 3): _map,
    ("filter", 2): _filter,
    ("transformList", 3): _transform_list,
    ("transformList", 4): _transform_list,
    ("transformMap", 3): _transform_map,
    ("transformMap", 4): _transform_map,
    ("transformMapEntry", 3): _transform_map_entry,
    ("transformMapEntry", 4): _transform_map_entry,
    ("bind", 3): _bind,
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _optional_map("optMap", flat=False),
    ("optFlatMap", 2): _optional_map("optFlatMap", flat=True),
}
