"""Types of an expression: cel-go's checker, with its texts.

The checker may rewrite the tree: qualified names become identifiers, and calls of namespaced functions lose what looked
like their target.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from drabridge.core.cel import ast
from drabridge.core.cel.declarations import Overload
from drabridge.core.cel.diagnostics import Issue, SourceError
from drabridge.core.cel.environment import CONSTANTS, MESSAGES, TYPES, Declared, Environment
from drabridge.core.cel.parser import Parsed
from drabridge.core.cel.trampoline import Step, run
from drabridge.core.cel.types import (
    BOOL,
    BYTES,
    DEVICE,
    DOUBLE,
    DYN,
    ERROR,
    INT,
    NULL,
    STRING,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    type_of,
)
from drabridge.core.cel.unification import Bindings, described, is_dyn, most_general
from drabridge.core.cel.values import TypeValue, Uint

_STRUCTS: Final = frozenset({"kubernetes.Quantity", "kubernetes.Semver", "kubernetes.URL", "kubernetes.NamedFormat"})
"""Types of libraries that cel-go takes for messages, whose fields it then does not find."""

_LITERALS: Final[dict[type, Type]] = {
    bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL,
}  # fmt: skip


@dataclass(slots=True)
class Checked:
    """A tree with what is known of its nodes, by id.

    `types` has all nodes, `overloads` the calls with the overloads that may be meant, `constants` the identifiers that
    stand for values (types, mostly).
    """

    parsed: Parsed
    root: ast.Node
    types: dict[int, Type] = field(default_factory=dict)
    overloads: dict[int, tuple[Overload, ...]] = field(default_factory=dict)
    constants: dict[int, Any] = field(default_factory=dict)


def check(parsed: Parsed, environment: Environment) -> Checked:
    """Check the types of an expression. Raises SourceError with all that is wrong."""
    checker = _Checker(parsed, environment)
    root = run(checker.check(parsed.root))
    if checker.issues:
        raise SourceError(parsed.source, checker.issues)
    checked = checker.checked
    checked.root = root
    for id_, type_ in checked.types.items():
        checked.types[id_] = checker.bindings.substitute(type_, free_to_dyn=True)
    return checked


class _Checker:
    def __init__(self, parsed: Parsed, environment: Environment) -> None:
        self.checked = Checked(parsed, parsed.root)
        self.issues: list[Issue] = []
        self.bindings = Bindings()
        self._environment = environment
        self._scopes: list[dict[str, Type]] = []

    def _issue(self, id_: int, message: str) -> None:
        self.issues.append(Issue(self.checked.parsed.offsets[id_], message))

    def _typed(self, node: ast.Node, type_: Type) -> ast.Node:
        self.checked.types[node.id] = type_
        return node

    def _type(self, node: ast.Node) -> Type:
        return self.checked.types[node.id]

    def check(self, node: ast.Node) -> Step[ast.Node]:
        """Check a tree; return it as it is to be evaluated."""
        match node:
            case ast.Literal():
                return self._typed(node, _LITERALS[node.value.__class__])
            case ast.Ident():
                return self._ident(node)
            case _:
                checked: ast.Node = yield self._compound(node)
                return checked

    def _compound(self, node: ast.Node) -> Step[ast.Node]:
        match node:
            case ast.Select():
                return self._select(node)
            case ast.Call() if node.function == "_?._":
                return self._optional_select(node)
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

    # Names

    def _local(self, name: str) -> Type | None:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return None

    def _ident(self, node: ast.Ident) -> ast.Node:
        local = self._local(node.name)
        if local is not None:
            return self._typed(node, local)
        resolved = self._global(node.id, node.name.removeprefix("."), shadowed=node.name.startswith("."))
        if resolved is not None:
            return resolved
        self._issue(node.id, f"undeclared reference to '{node.name}' (in container '')")
        return self._typed(node, ERROR)

    def _global(self, id_: int, name: str, *, shadowed: bool) -> ast.Node | None:
        if name == "device":
            return self._typed(ast.Ident(id_, ".device" if shadowed else name), DEVICE)
        if name in CONSTANTS:
            self.checked.constants[id_] = CONSTANTS[name]
            return self._typed(ast.Ident(id_, name), INT)
        if name in TYPES:
            self.checked.constants[id_] = TypeValue(_named(TYPES[name]))
            return self._typed(ast.Ident(id_, name), type_of(TYPES[name]))
        return None

    def _qualified(self, node: ast.Select) -> ast.Node | None:
        """Resolve `a.b.c` as one name, unless `a` is a variable of a loop."""
        names = _path(node)
        if names is None or (self._local(names[0]) is not None and not names[0].startswith(".")):
            return None
        return self._global(node.id, ".".join(names).removeprefix("."), shadowed=False)

    # Selection

    def _select(self, node: ast.Select) -> Step[ast.Node]:
        if (resolved := self._qualified(node)) is not None:
            return resolved
        operand = yield self.check(node.operand)
        result = self._field(node.id, operand, node.field, optional=False)
        node = ast.Select(node.id, operand, node.field, node.test_only)
        return self._typed(node, BOOL if node.test_only else self.bindings.substitute(result))

    def _optional_select(self, node: ast.Call) -> Step[ast.Node]:
        operand = yield self.check(node.args[0])
        name = node.args[1]
        text = name.value if isinstance(name, ast.Literal) else ""
        self._typed(name, STRING)
        result = self._field(node.id, operand, text, optional=True)
        return self._typed(ast.Call(node.id, node.function, None, (operand, name)), self.bindings.substitute(result))

    def _field(self, id_: int, operand: ast.Node, name: str, *, optional: bool) -> Type:
        target = self.bindings.substitute(self._type(operand))
        unwrapped = target.args[0] if target.name == "optional_type" else target
        result = self._field_of(id_, unwrapped, name)
        return optional_of(result) if optional or unwrapped is not target else result

    def _field_of(self, id_: int, target: Type, name: str) -> Type:
        if target.name == "map":
            return target.args[1]
        if target == DEVICE:
            if (declared := self._environment.device.get(name)) is not None:
                return declared
            self._issue(id_, f"undefined field '{name}'")
            return ERROR
        if target.name in _STRUCTS:
            self._issue(id_, f"unexpected failed resolution of '{target.name}'")
            return ERROR
        if target.is_parameter:
            self.bindings.assignable(DYN, target)
        elif not is_dyn(target) and target != ERROR:
            self._issue(id_, f"type '{described(target)}' does not support field selection")
        return DYN

    # Calls

    def _call(self, node: ast.Call) -> Step[ast.Node]:
        args = []
        for arg in node.args:
            args.append((yield self.check(arg)))  # noqa: PERF401 -- no comprehension can yield
        if node.target is None:
            return self._free_call(node, node.function.removeprefix("."), args)
        path = _path(node.target)
        if path is not None and ".".join((*path, node.function)).removeprefix(".") in self._environment.functions:
            return self._free_call(node, ".".join((*path, node.function)).removeprefix("."), args)
        target = yield self.check(node.target)
        call = ast.Call(node.id, node.function, target, tuple(args))
        declared = self._environment.functions.get(node.function)
        if declared is None:
            return self._undeclared(call)
        return self._resolved(call, declared, (target, *args))

    def _free_call(self, node: ast.Call, name: str, args: list[ast.Node]) -> ast.Node:
        call = ast.Call(node.id, name, None, tuple(args))
        declared = self._environment.functions.get(name)
        if declared is None:
            return self._undeclared(ast.Call(node.id, node.function, None, tuple(args)))
        return self._resolved(call, declared, call.args)

    def _undeclared(self, call: ast.Call) -> ast.Node:
        self._issue(call.id, f"undeclared reference to '{call.function}' (in container '')")
        return self._typed(call, ERROR)

    def _resolved(self, call: ast.Call, declared: Declared, args: tuple[ast.Node, ...]) -> ast.Node:
        if call.function in ("_&&_", "_||_"):
            return self._logic(call, declared)
        types = tuple([self._type(arg) for arg in args])
        member = call.target is not None
        found: list[Overload] = []
        result: Type | None = None
        for candidate in declared.candidates:
            overload = candidate.overload
            if overload.member is not member:
                continue
            arguments, declared_result = overload.arguments, overload.result
            if candidate.parameters:
                fresh = {name: self.bindings.fresh() for name in candidate.parameters}
                arguments = tuple([_renamed(argument, fresh) for argument in arguments])
                declared_result = _renamed(declared_result, fresh)
            if not self.bindings.all_assignable(types, arguments):
                continue
            found.append(overload)
            this = self.bindings.substitute(declared_result)
            if result is None:
                result = this
            elif not is_dyn(result) and this != result:
                result = DYN
        if result is None:
            return self._no_overload(call, types)
        self.checked.overloads[call.id] = tuple(found)
        return self._typed(call, result)

    def _logic(self, call: ast.Call, declared: Declared) -> ast.Node:
        wrong = False
        for arg in call.args:
            if not self.bindings.assignable(self._type(arg), BOOL):
                self._issue(arg.id, f"expected type 'bool' but found '{described(self._type(arg))}'")
                wrong = True
        self.checked.overloads[call.id] = declared.function.overloads
        return self._typed(call, ERROR if wrong else BOOL)

    def _no_overload(self, call: ast.Call, types: tuple[Type, ...]) -> ast.Node:
        shown = [described(self.bindings.substitute(type_, free_to_dyn=True)) for type_ in types]
        receiver = f"{shown.pop(0)}." if call.target is not None else ""
        message = f"found no matching overload for '{call.function}' applied to '{receiver}({', '.join(shown)})'"
        self._issue(call.id, message)
        return self._typed(call, ERROR)

    # Literals of containers and messages

    def _join(self, previous: Type | None, current: Type) -> Type:
        if previous is None:
            return current
        if self.bindings.assignable(previous, current):
            return most_general(previous, current)
        return DYN  # literals of mixed types are refused later, by validation

    def _mismatch(self, node: ast.Node, expected: Type, actual: Type) -> None:
        self._issue(node.id, f"expected type '{described(expected)}' but found '{described(actual)}'")

    def _unwrapped(self, node: ast.Node, type_: Type) -> Type:
        """Return the type in an optional that a question mark asks for."""
        if type_.name == "optional_type":
            return type_.args[0]
        if not is_dyn(type_):
            self._mismatch(node, optional_of(type_), type_)
        return type_

    def _list(self, node: ast.ListLiteral) -> Step[ast.Node]:
        joined: Type | None = None
        elements = []
        for position, element in enumerate(node.elements):
            checked = yield self.check(element)
            elements.append(checked)
            type_ = self._type(checked)
            if position in node.optionals:
                type_ = self._unwrapped(checked, type_)
            joined = self._join(joined, type_)
        literal = ast.ListLiteral(node.id, tuple(elements), node.optionals)
        return self._typed(literal, list_of(self.bindings.fresh() if joined is None else joined))

    def _map(self, node: ast.MapLiteral) -> Step[ast.Node]:
        keys: Type | None = None
        values: Type | None = None
        entries = []
        for entry in node.entries:
            key = yield self.check(entry.key)
            keys = self._join(keys, self._type(key))
            value = yield self.check(entry.value)
            type_ = self._type(value)
            if entry.optional:
                type_ = self._unwrapped(value, type_)
            values = self._join(values, type_)
            entries.append(ast.Entry(entry.id, key, value, entry.optional))
        if keys is None or values is None:
            keys, values = self.bindings.fresh(), self.bindings.fresh()
        return self._typed(ast.MapLiteral(node.id, tuple(entries)), map_of(keys, values))

    def _message(self, node: ast.Message) -> Step[ast.Node]:
        name = node.type_name.removeprefix(".")
        if name not in TYPES:
            self._issue(node.id, f"undeclared reference to '{node.type_name}' (in container '')")
            return self._typed(node, ERROR)
        result = TYPES[name]
        fields = self._environment.device if result == DEVICE else MESSAGES.get(name)
        if fields is None:
            self._issue(node.id, f"'{described(result)}' is not a message type")
            result = ERROR
        entries = []
        for entry in node.fields:
            field_name = entry.key.value if isinstance(entry.key, ast.Literal) else ""
            value = yield self.check(entry.value)
            entries.append(ast.Entry(entry.id, entry.key, value, entry.optional))
            declared = (fields or {}).get(field_name, ERROR)
            if declared == ERROR and fields is not None:
                self._issue(entry.id, f"undefined field '{field_name}'")
            actual = self._type(value)
            if entry.optional:
                actual = self._unwrapped(value, actual)
            if not self.bindings.assignable(declared, actual):
                text = f"'{described(declared)}' but provided type is '{described(actual)}'"
                self._issue(entry.id, f"expected type of field '{field_name}' is {text}")
        return self._typed(ast.Message(node.id, name, tuple(entries)), result)

    # Loops

    def _comprehension(self, node: ast.Comprehension) -> Step[ast.Node]:
        range_ = yield self.check(node.range)
        init = yield self.check(node.init)
        accumulator = self._type(init)
        first, second = self._variables(range_, self.bindings.substitute(self._type(range_)), bool(node.second))
        self._scopes.append({node.accumulator: accumulator})
        self._scopes.append({node.variable: first, **({node.second: second} if node.second else {})})
        condition = yield self.check(node.condition)
        self._assert(condition, BOOL)
        step = yield self.check(node.step)
        self._assert(step, accumulator)
        self._scopes.pop()
        result = yield self.check(node.result)
        self._scopes.pop()
        names = node.variable, node.second, node.accumulator
        loop = ast.Comprehension(node.id, range_, *names, init, condition, step, result)
        return self._typed(loop, self.bindings.substitute(self._type(result)))

    def _variables(self, node: ast.Node, range_: Type, two: bool) -> tuple[Type, Type]:
        if range_.name == "list":
            return (INT, range_.args[0]) if two else (range_.args[0], DYN)
        if range_.name == "map":
            return range_.args[0], range_.args[1]
        if range_ in (DYN, ERROR) or range_.is_parameter:
            self.bindings.assignable(DYN, range_)
            return DYN, DYN
        must = "(must be list, map, or dynamic)"
        self._issue(node.id, f"expression of type '{described(range_)}' cannot be range of a comprehension {must}")
        return ERROR, ERROR

    def _assert(self, node: ast.Node, expected: Type) -> None:
        if not self.bindings.assignable(expected, self._type(node)):
            self._mismatch(node, expected, self._type(node))


def _named(type_: Type) -> str:
    """Name a type as a value: that of a wrapper is the wrapped one's."""
    return type_.args[0].name if type_.name == "wrapper" else type_.name


def _path(node: ast.Node) -> tuple[str, ...] | None:
    """Return the names of `a.b.c`, or None if it is something else."""
    names: list[str] = []
    while isinstance(node, ast.Select):
        if node.test_only:
            return None
        names.append(node.field)
        node = node.operand
    return (node.name, *reversed(names)) if isinstance(node, ast.Ident) else None


def _renamed(type_: Type, fresh: dict[str, Type]) -> Type:
    if type_.is_parameter:
        return fresh[type_.name]
    return Type(type_.name, tuple([_renamed(arg, fresh) for arg in type_.args])) if type_.args else type_
