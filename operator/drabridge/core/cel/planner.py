"""Checked tree to plan, as cel-go's planner and its optimizations go about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from drabridge.core.cel import ast, cost, operators, regex
from drabridge.core.cel.checker import Checked
from drabridge.core.cel.declarations import Cost, Overload
from drabridge.core.cel.environment import Environment
from drabridge.core.cel.plan import (
    UNKNOWN,
    Access,
    Alternative,
    Conditional,
    Constant,
    Equality,
    Frame,
    Invocation,
    Logic,
    Loop,
    Membership,
    NewList,
    NewMap,
    NewMessage,
    Node,
    NotStrictlyFalse,
    Path,
    Plan,
    Qualifier,
    Relative,
    Variable,
    add_qualifier,
    certain,
    checked_key,
)
from drabridge.core.cel.quantity import Quantity
from drabridge.core.cel.semver import Semver
from drabridge.core.cel.standard import CONVERSIONS
from drabridge.core.cel.trampoline import Step, run
from drabridge.core.cel.types import BOOL, DEVICE, Type
from drabridge.core.cel.values import CelError, Opaque, Optional, Stopped, TypeValue, Uint

_PATTERNS: Final = frozenset({"matches", "find", "findAll"})
"""Functions whose second argument is a regular expression."""

_LISTS_THAT_ARE_COMPARED: Final = {"distinct": 0, "sort": 0, "@sortByAssociatedKeys": 1}

_LARGE: Final = frozenset({"string", "bytes", "list", "map", "dyn", "optional_type"})
"""Types whose values take room: they are made when they are needed, within the limit on costs."""

_SET_MEMBERS: Final = frozenset({bool, int, Uint, float, str})


class InstantiationError(Exception):
    """A constant part of the expression that cannot be evaluated. Upstream finds out when it makes the program."""


def plan(checked: Checked, environment: Environment) -> Plan:
    """Plan an expression. Raises InstantiationError."""
    planner = Planner(checked, environment)
    root = run(planner.plan(checked.root))
    return Plan(root, planner.variables)


class Planner:
    """Plans the nodes of one checked expression. `explain` notes which node became which."""

    def __init__(self, checked: Checked, environment: Environment) -> None:
        self.variables = 0
        self._checked = checked
        self._environment = environment
        self._scopes: list[dict[str, int]] = []

    def _type(self, node: ast.Node) -> Type:
        return self._checked.types[node.id]

    def plan(self, node: ast.Node) -> Step[Node]:
        """Plan a tree."""
        if node.id in self._checked.constants:
            return self._constant(node)
        match node:
            case ast.Literal():
                return Constant(node.value, self._type(node))
            case ast.Ident():
                return Access(Variable(self._slot(node.name)), self._type(node))
            case _:
                planned: Node = yield self._compound(node)
                return planned

    def _compound(self, node: ast.Node) -> Step[Node]:
        match node:
            case ast.Select():
                return self._select(node)
            case ast.Call():
                return self._call(node)
            case ast.ListLiteral():
                return self._list(node)
            case ast.MapLiteral():
                return self._map(node)
            case ast.Message():
                return self._message(node)
            case ast.Comprehension():
                return self._comprehension(node)
            case _:
                raise TypeError(node)

    def _constant(self, node: ast.Node) -> Constant:
        value = self._checked.constants[node.id]
        if value == TypeValue(DEVICE.name):
            raise InstantiationError(f"reference to undefined type: {DEVICE.name}")
        return Constant(value, self._type(node))

    def _slot(self, name: str) -> int:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return -1

    # Accesses

    def _select(self, node: ast.Select) -> Step[Node]:
        operand = yield self.plan(node.operand)
        on_map = self._type(node.operand).name in ("map", DEVICE.name)
        qualifier = Qualifier(node.field, test=node.test_only, on_map=on_map)
        return self._qualified(operand, qualifier, self._type(node))

    def _qualified(self, operand: Node, qualifier: Qualifier, type_: Type) -> Access:
        path = _path(operand)
        add_qualifier(path, qualifier)
        return Access(path, type_, qualifier.test)

    def _index(self, node: ast.Call, args: tuple[Node, ...]) -> Node:
        operand, key = args
        optional = node.function != "_[_]"
        on_map = self._type(node.args[0]).name == "map"
        if isinstance(key, Constant):
            try:
                qualifier = Qualifier(checked_key(key.value), None, optional, on_map=on_map)
            except CelError as error:
                raise InstantiationError(str(error)) from None
        else:
            qualifier = Qualifier(None, _path(key), optional, on_map=on_map)
        return self._qualified(operand, qualifier, self._type(node))

    # Calls

    def _call(self, node: ast.Call) -> Step[Node]:
        parts = node.args if node.target is None else (node.target, *node.args)
        planned = []
        for part in parts:
            planned.append((yield self.plan(part)))  # noqa: PERF401 -- no comprehension can yield
        args = tuple(planned)
        known = _OPERATORS.get(node.function)
        return self._function(node, args) if known is None else known(self, node, args)

    def _logic(self, node: ast.Call, args: tuple[Node, ...]) -> Node:
        return Logic(args, node.function == "_||_", BOOL)

    def _equality(self, node: ast.Call, args: tuple[Node, ...]) -> Node:
        return Equality(args[0], args[1], node.function == "_!=_", BOOL)

    def _conditional(self, node: ast.Call, args: tuple[Node, ...]) -> Node:
        condition, truthy, falsy = args
        return Access(Conditional(condition, _path(truthy), _path(falsy)), self._type(node))

    def _not_strictly_false(self, _: ast.Call, args: tuple[Node, ...]) -> Node:
        return NotStrictlyFalse(args[0], BOOL)

    def _alternative(self, node: ast.Call, args: tuple[Node, ...]) -> Node:
        return Alternative(args[0], args[1], node.function == "orValue", self._type(node))

    def _function(self, node: ast.Call, args: tuple[Node, ...]) -> Node:
        overloads = self._checked.overloads[node.id]
        only = overloads[0] if len(overloads) == 1 else None
        if only is not None and only.id == "in_list" and isinstance(args[1], Constant):
            membership = self._membership(args[0], args[1].value)
            if membership is not None:
                return membership
        type_ = self._type(node)
        if node.function in _PATTERNS and isinstance(args[1], Constant) and isinstance(args[1].value, str):
            return self._with_pattern(node, args, only)
        if only is not None:
            fitting = all(map(_fits_for_sure, only.arguments, args))
            call = only.call if fitting or not only.guarded else _guarded(node.function, (only,))
            invocation = Invocation(call, _price(node.function, only), args, len(args) > 2, type_)
        else:
            function = self._environment.functions[node.function].function
            first = function.overloads[0]
            call = _guarded(node.function, function.overloads) if first.guarded else first.call
            early = first.guarded or len(args) > 2
            invocation = Invocation(call, function.undecided, args, early, type_)
        open_ = any(map(_is_open, (overload.result for overload in overloads)))
        certain_ = not open_ or all(certain(arg) and not _is_open(arg.type) for arg in args)
        invocation = replace(invocation, known=_known(invocation), certain=certain_)
        if node.function in CONVERSIONS and len(args) == 1 and isinstance(args[0], Constant):
            return self._folded(invocation)
        return invocation

    def _with_pattern(self, node: ast.Call, args: tuple[Node, ...], only: Overload | None) -> Node:
        """Plan a call with a known pattern: it is compiled now, the other arguments are looked at when it is called."""
        function = self._environment.functions[node.function].function
        pattern = args[1].value if isinstance(args[1], Constant) else ""
        try:
            compiled = regex.pattern(pattern)
        except regex.InvalidRegex as error:
            raise InstantiationError(str(error)) from None
        overload = next(o for o in function.overloads if len(o.arguments) == len(args))
        price = function.undecided if only is None else only.cost
        return Invocation(_on_text(overload.call, compiled), price, args, True, self._type(node))

    def _folded(self, invocation: Invocation) -> Constant:
        try:
            value = invocation.evaluate(_nowhere())
        except Stopped as stop:
            raise InstantiationError(str(stop)) from None
        if isinstance(value, CelError):
            raise InstantiationError(str(value))
        return Constant(value, invocation.type)

    def _membership(self, operand: Node, values: Any) -> Node | None:
        if not values:
            return Constant(False, BOOL)
        if any(value.__class__ not in _SET_MEMBERS for value in values):
            return None
        return Membership(operand, frozenset(values), values[0].__class__ is bool, BOOL)

    # Literals

    def _list(self, node: ast.ListLiteral) -> Step[Node]:
        elements = []
        for element in node.elements:
            elements.append((yield self.plan(element)))  # noqa: PERF401 -- no comprehension can yield
        made = NewList(tuple(elements), node.optionals, self._type(node))
        if all(isinstance(element, Constant) for element in elements):
            return Constant(made.evaluate(_nowhere()), made.type)
        return made

    def _map(self, node: ast.MapLiteral) -> Step[Node]:
        entries = []
        for entry in node.entries:
            key = yield self.plan(entry.key)
            value = yield self.plan(entry.value)
            entries.append((key, value, entry.optional))
        made = NewMap(tuple(entries), self._type(node))
        if all(isinstance(key, Constant) and isinstance(value, Constant) for key, value, _ in entries):
            try:
                return Constant(made.evaluate(_nowhere()), made.type)
            except Stopped as stop:
                raise InstantiationError(str(stop)) from None
        return made

    def _message(self, node: ast.Message) -> Step[Node]:
        fields = []
        for entry in node.fields:
            name = entry.key.value if isinstance(entry.key, ast.Literal) else ""
            fields.append((name, (yield self.plan(entry.value)), entry.optional))
        return NewMessage(node.type_name, tuple(fields), self._type(node))

    # Loops

    def _new_slot(self) -> int:
        self.variables += 1
        return self.variables - 1

    def _comprehension(self, node: ast.Comprehension) -> Step[Node]:
        init = yield self.plan(node.init)
        range_ = yield self.plan(node.range)
        accumulator, first = self._new_slot(), self._new_slot()
        second = self._new_slot() if node.second else -1
        inner = {node.variable: first}
        if node.second:
            inner[node.second] = second
        inner[node.accumulator] = accumulator
        self._scopes.append(inner)
        condition = yield self.plan(node.condition)
        step = yield self.plan(node.step)
        self._scopes[-1] = {node.accumulator: accumulator}
        result = yield self.plan(node.result)
        self._scopes.pop()
        return Loop(range_, first, second, accumulator, init, condition, step, result, self._type(node))


_OPERATORS: Final[dict[str, Callable[[Planner, ast.Call, tuple[Node, ...]], Node]]] = {
    "_&&_": Planner._logic,  # noqa: SLF001 -- the class's own table
    "_||_": Planner._logic,  # noqa: SLF001
    "_==_": Planner._equality,  # noqa: SLF001
    "_!=_": Planner._equality,  # noqa: SLF001
    "_?_:_": Planner._conditional,  # noqa: SLF001
    "_[_]": Planner._index,  # noqa: SLF001
    "_[?_]": Planner._index,  # noqa: SLF001
    "_?._": Planner._index,  # noqa: SLF001
    "@not_strictly_false": Planner._not_strictly_false,  # noqa: SLF001
    "or": Planner._alternative,  # noqa: SLF001
    "orValue": Planner._alternative,  # noqa: SLF001
}


def _path(node: Node) -> Path:
    """Return a node as something that can be gone along."""
    return node.path if isinstance(node, Access) else Relative(node)


def _nowhere() -> Frame:
    """Make the frame in which constants are evaluated."""
    return Frame(None, 0, cost.LIMIT, None)


def _fits_for_sure(declared: Type, arg: Node) -> bool:
    """Whether an argument fits at run time, too."""
    return declared.is_parameter or declared.name == "dyn" or (_covers(declared, arg.type) and certain(arg))


def _covers(declared: Type, actual: Type) -> bool:
    if declared.is_parameter or declared.name == "dyn":
        return True
    return declared.name == actual.name and all(map(_covers, declared.args, actual.args))


def _is_open(type_: Type) -> bool:
    """Whether values of this type may hold anything, or what the arguments hold."""
    return type_.is_parameter or type_.name == "dyn" or any(map(_is_open, type_.args))


_CLASSES: Final[dict[str, type]] = {
    "string": str,
    "int": int,
    "bool": bool,
    "double": float,
    "bytes": bytes,
    **{opaque.type_name: opaque for opaque in (Quantity, Semver)},
}
"""Types whose values are all of one class, and a class whose values are all of that type."""


def _guarded(name: str, overloads: tuple[Overload, ...]) -> Callable[..., Any]:
    """Make a function that takes the first overload whose arguments fit."""
    first = overloads[0]
    simple = tuple(_CLASSES.get(declared.name) for declared in first.arguments)

    def call(*arguments: Any) -> Any:
        if tuple(map(type, arguments)) == simple:  # what `fits` would find out, in a third of the time
            return first.call(*arguments)
        for overload in overloads:
            if len(overload.arguments) == len(arguments) and all(map(operators.fits, overload.arguments, arguments)):
                return overload.call(*arguments)
        raise operators.no_such_overload(name, *arguments)

    return call


def _held(value: Any) -> Any:
    while value.__class__ is Optional and value.present:
        value = value.value
    return value


def _on_text(function: Callable[..., Any], compiled: regex.Pattern) -> Callable[..., Any]:
    """Make a function of a text, this pattern and perhaps a count; the text may be something else at run time.

    Upstream looks at Go's value then, which for a type is its name, and for an optional what it holds.
    """

    def call(text: Any, _: str, *count: Any) -> Any:
        if text.__class__ is str and not count:
            return function(text, compiled)
        text = text.name if text.__class__ is TypeValue else _held(text)
        count = tuple(map(_held, count))
        if not isinstance(text, str) or any(number.__class__ is not int for number in count):
            raise CelError(operators.NO_OVERLOAD)
        return function(text, compiled, *count)

    return call


def _known(invocation: Invocation) -> Any:
    """Call a function whose arguments are constants, if neither they nor its result can be large."""
    values = [arg.value for arg in invocation.args if isinstance(arg, Constant)]
    small = all(value.__class__ in _SET_MEMBERS or isinstance(value, Opaque) for value in values)
    if not values or len(values) < len(invocation.args) or not small or invocation.type.name in _LARGE:
        return UNKNOWN
    try:
        return invocation.call(*values)
    except CelError as error:
        return error


def _price(name: str, overload: Overload) -> Cost:
    """Return the cost of an overload, which upstream cannot find for some functions if there is no list to compare."""
    position = _LISTS_THAT_ARE_COMPARED.get(name)
    if position is None:
        return overload.cost

    def price(*values: Any) -> int:
        value = values[position]
        failed = isinstance(value, CelError)
        if failed or (name == "distinct" and not isinstance(value, list | tuple)):
            go_type = "*types.Err" if failed else operators.go_type(value)
            missing = "Contains" if not failed and operators.can_be_added(value) else "Add"
            raise Stopped(
                f"internal error: interface conversion: {go_type} is not traits.Lister: missing method {missing}"
            )
        return overload.cost(*values)

    return price
