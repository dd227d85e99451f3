"""Plan to Python function, for evaluations in which nothing goes wrong.

The function computes the result and its exact cost as long as no error comes up; any exception that it raises means
that the plan has to be evaluated step by step instead, from the start (`plan.Plan.evaluate`). So operators that absorb
errors, and the costs of what has failed, need no code here.

The source is made of numbered names and of fixed fragments only. Whatever comes from the expression (names, texts,
numbers) is a value in the function's table of globals, never text in its source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from drabridge.core.cel import cost, messages, operators, work
from drabridge.core.cel.declarations import unit
from drabridge.core.cel.plan import (
    INTERRUPTED,
    LIMIT_EXCEEDED,
    UNKNOWN,
    Access,
    Alternative,
    Conditional,
    Constant,
    Equality,
    Halted,
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
    certain,
    checked_key,
    growing,
    grown,
    put,
)
from drabridge.core.cel.trampoline import Step, run
from drabridge.core.cel.types import BOOL, INT, STRING, UINT, Type
from drabridge.core.cel.values import NONE, CelError, Optional

Compiled = Callable[[Any, int, Callable[[], bool] | None], tuple[Any, int]]
"""(device, cost limit, interrupt) -> (result, cost)."""

MOST_LINES: Final = 5_000
"""Lines of source beyond which a function would not pay."""


class NotCompiled(Exception):
    """What the function does not cover: the plan has to do."""


class Unfinished(Exception):
    """Raised by the function where the plan has to take over."""


def compile_plan(plan: Plan) -> Compiled | None:
    """Make the function of a plan; None for the few plans that need to be walked."""
    writer = _Writer()
    try:
        run(writer.root(plan.root))
        return writer.function()
    except (NotCompiled, SyntaxError, RecursionError, MemoryError, OverflowError):
        # Python has limits of its own on indentation and on loops in loops.
        return None


# What the source calls


def _walk(value: Any, keys: tuple[Any, ...]) -> tuple[Optional, int]:
    """Go along an optional chain; return what is there, and how many steps were possible."""
    if value.__class__ is Optional:
        if not value.present:
            return value, 0
        value = value.value
    for steps, key in enumerate(keys):
        found = operators.index_if_present(value, key)
        if not found.present:
            return NONE, steps
        value = found.value
    return Optional(True, value), len(keys)


def _plain(value: Any) -> Any:
    if value.__class__ is Optional:
        raise Unfinished
    return value


def _boolean(value: Any) -> Any:
    if value.__class__ is bool:
        return value
    raise Unfinished


def _optional(value: Any) -> Any:
    if value.__class__ is Optional:
        return value
    raise Unfinished


def _has(container: Any, key: Any) -> bool:
    return operators.index_if_present(container, key).present


def _list(values: tuple[Any, ...], optionals: frozenset[int]) -> list[Any]:
    built = []
    for position, value in enumerate(values):
        if position not in optionals:
            built.append(value)
        elif _optional(value).present:
            built.append(value.value)
    return built


def _map(entries: tuple[tuple[Any, Any, bool], ...]) -> dict[Any, Any]:
    built: dict[Any, Any] = {}
    for key, value, optional in entries:
        put(built, key, value, optional=optional)
    return built


def _tick(units: int, limit: int, interrupt: Callable[[], bool] | None) -> None:
    """Look after a loop: the limit and the caller's wish to stop."""
    if units > limit:
        raise Halted(LIMIT_EXCEEDED, limit + 1)
    if interrupt is not None and interrupt():
        raise Halted(INTERRUPTED, units)


_GLOBALS: Final[dict[str, Any]] = {
    "__builtins__": {"len": len, "str": str, "int": int, "bool": bool},
    "begin": work.begin,
    "boolean": _boolean,
    "checked_key": checked_key,
    "differ": operators.differ,
    "DefaultMap": operators.DefaultMap,
    "elements": operators.elements,
    "entries": operators.entries,
    "equal": operators.equal,
    "equality_cost": cost.equality,
    "equals_cost": cost.equals,
    "grow": growing,
    "grown": grown,
    "has": _has,
    "index": operators.index,
    "make_list": _list,
    "make_map": _map,
    "make_message": messages.build,
    "optional": _optional,
    "plain": _plain,
    "TENTHS": cost.TENTHS,
    "tick": _tick,
    "Unfinished": Unfinished,
    "walk": _walk,
}

_INLINE: Final[dict[Callable[..., Any], str]] = {
    operators.less: "<",
    operators.less_equals: "<=",
    operators.greater: ">",
    operators.greater_equals: ">=",
}
"""Comparisons that Python's own do just as well, on two values of one of these types."""

_ORDERED: Final = frozenset({INT, UINT, STRING})

_UNSIZED: Final = frozenset({"bool", "int", "uint", "double", "google.protobuf.Timestamp", "google.protobuf.Duration"})


class _Writer:
    """Writes the source. Each method for a node returns the code of its value, which is free of side effects."""

    def __init__(self) -> None:
        self._lines: list[str] = ["def compiled(d, limit, interrupt):", " c = n = 0"]
        self._names = dict(_GLOBALS)
        self._constants: dict[tuple[type, Any], str] = {}
        self._indent = 1
        self._temporary = 0
        self._owed = 0
        """Units that are not in `c` yet."""
        self._laborious = False
        """Whether there may be work to count; see `work`."""

    def function(self) -> Compiled:
        """Let Python compile what has been written."""
        if self._laborious:
            self._lines.insert(1, " begin()")
        code = compile("\n".join(self._lines), "<selector>", "exec")
        exec(code, self._names)  # noqa: S102 -- the source has fixed fragments and numbers only, see above
        compiled: Compiled = self._names["compiled"]
        return compiled

    # Lines and names

    def _line(self, text: str) -> None:
        if len(self._lines) >= MOST_LINES:
            raise NotCompiled
        self._lines.append(" " * self._indent + text)

    def _new(self) -> str:
        self._temporary += 1
        return f"t{self._temporary}"

    def _name(self, code: str) -> str:
        """Give a value a name, so that it can be used twice."""
        if code.isidentifier():
            return code
        name = self._new()
        self._line(f"{name} = {code}")
        return name

    def _constant(self, value: Any) -> str:
        if value is True or value is False or value is None:
            return repr(value)
        name = f"k{len(self._names)}"
        if isinstance(value, str | int):
            name = self._constants.setdefault((value.__class__, value), name)
        self._names[name] = value
        return name

    def _pay(self) -> None:
        """Put what is owed into `c`, before the flow of control splits or joins."""
        if self._owed:
            self._line(f"c += {self._owed}")
            self._owed = 0

    # The root

    def root(self, node: Node) -> Step[None]:
        """Write the whole function."""
        if isinstance(node, Logic):
            yield self._root_logic(node)
        else:
            value = yield self._value(node)
            self._return(value)

    def _return(self, value: str) -> None:
        self._line(f"return {value}, c + {self._owed}" if self._owed else f"return {value}, c")

    def _root_logic(self, node: Logic) -> Step[None]:
        terms = _flattened(node)
        for term in terms[:-1]:
            value = self._name((yield self._checked(term)))
            self._line(f"if {'' if node.decisive else 'not '}{value}:")
            self._indent += 1
            self._return(repr(node.decisive))
            self._indent -= 1
        last = yield self._checked(terms[-1])
        self._return(last)

    # Values

    def _value(self, node: Node) -> Step[str]:
        match node:
            case Constant():
                if isinstance(node.value, Exception):
                    raise NotCompiled
                return self._constant(node.value)
            case Access():
                value: str = yield self._path(node.path, test=node.test)
                self._owed += node.path.price - node.test
                return value
            case _:
                code: str = yield self._compound(node)
                return code

    def _compound(self, node: Node) -> Step[str]:
        match node:
            case Logic():
                return self._logic(node)
            case Equality():
                return self._equality(node)
            case Invocation():
                return self._invocation(node)
            case NotStrictlyFalse():
                return self._not_strictly_false(node)
            case Membership():
                return self._membership(node)
            case Alternative():
                return self._alternative(node)
            case Loop():
                return self._loop(node)
            case NewList() | NewMap() | NewMessage():
                return self._literal(node)
            case _:
                raise NotCompiled

    def _not_strictly_false(self, node: NotStrictlyFalse) -> Step[str]:
        value: str = yield self._checked(node.operand)
        self._owed += 1
        return value

    def _checked(self, node: Node) -> Step[str]:
        """Write a value that has to be a bool."""
        value: str = yield self._value(node)
        if _is_bool(node):
            return value
        return f"boolean({value})"

    def _values(self, nodes: tuple[Node, ...]) -> Step[list[str]]:
        found = []
        for node in nodes:
            found.append(self._name((yield self._value(node))))  # noqa: PERF401 -- no comprehension can yield
        return found

    # Accesses

    def _path(self, path: Path, *, test: bool) -> Step[str]:
        if isinstance(path, Conditional):
            chosen: str = yield self._conditional(path, test=test)
            return chosen
        if isinstance(path, Variable):
            value, certain = ("d", True) if path.slot < 0 else (f"v{path.slot}", False)
        else:
            value = yield self._value(path.operand)
            certain = path.operand.type.name in ("map", "list")
        if not path.qualifiers:
            return value
        if isinstance(path, Relative) and path.operand.type.name == "optional_type":
            return self._chain(value, path.qualifiers, test=test)
        if not certain:
            value = f"plain({value})"
        for position, qualifier in enumerate(path.qualifiers):
            if qualifier.optional:
                return self._chain(value, path.qualifiers[position:], test=test)
            value = yield self._step(value, qualifier)
        return value

    def _step(self, value: str, qualifier: Qualifier) -> Step[str]:
        self._owed += 1
        if qualifier.path is not None:
            value = self._name(value)
            key = yield self._path(qualifier.path, test=False)
            return f"index({value}, checked_key({key}))"
        key = self._constant(qualifier.key)
        if qualifier.test:
            return f"has({value}, {key})"
        return f"{value}[{key}]" if qualifier.on_map and isinstance(qualifier.key, str) else f"index({value}, {key})"

    def _chain(self, value: str, qualifiers: list[Qualifier], *, test: bool) -> str:
        if any(qualifier.path is not None or qualifier.test for qualifier in qualifiers):
            raise NotCompiled
        keys = self._constant(tuple(qualifier.key for qualifier in qualifiers))
        name, steps = self._new(), self._new()
        self._line(f"{name}, {steps} = walk({value}, {keys})")
        self._line(f"c += {steps}")
        return f"{name}.present" if test else name

    def _conditional(self, path: Conditional, *, test: bool) -> Step[str]:
        condition = yield self._checked(path.condition)
        self._pay()
        name = self._new()
        for head, branch in ((f"if {condition}:", path.truthy), ("else:", path.falsy)):
            self._line(head)
            self._indent += 1
            value = yield self._path(branch, test=test)
            self._line(f"{name} = {value}")
            self._pay()
            self._indent -= 1
        return name

    # Operators

    def _logic(self, node: Logic) -> Step[str]:
        name = self._new()
        for position, term in enumerate(_flattened(node)):
            if position:
                self._pay()
                self._line(f"if {'not ' if node.decisive else ''}{name}:")
                self._indent += 1
            value = yield self._checked(term)
            self._line(f"{name} = {value}")
            if position:
                self._pay()
                self._indent -= 1
        return name

    def _equality(self, node: Equality) -> Step[str]:
        left = self._name((yield self._value(node.left)))
        right = self._name((yield self._value(node.right)))
        result = self._new()
        one, other = node.left, node.right
        if isinstance(one, Constant):
            one, other, left, right = other, one, right, left
        constant = other.value if isinstance(other, Constant) else None
        if constant.__class__ is str:
            self._text_equality(node, result, (one, left), (constant, right))
        elif constant.__class__ is int or constant.__class__ is bool:
            self._scalar_equality(node, result, left, (constant, right))
        elif _plainly_equal(one, other):
            self._line(f"{result} = {left} {'!=' if node.negated else '=='} {right}")
            self._owed += 1
        else:
            if isinstance(node.left, Constant):
                left, right = right, left
            self._any_equality(node, result, left, right)
        return result

    def _any_equality(self, node: Equality, result: str, left: str, right: str) -> None:
        self._laborious |= not (_is_small(node.left.type) or _is_small(node.right.type))
        compared, price = ("differ", "equality_cost") if node.negated else ("equal", "equals_cost")
        self._line(f"{result} = {compared}({left}, {right})")
        self._line(f"c += {price}({left}, {right})")

    def _text_equality(self, node: Equality, result: str, one: tuple[Node, str], constant: tuple[str, str]) -> None:
        value = one[1]
        text, name = constant
        symbol = "!=" if node.negated else "=="
        known = one[0].type == STRING and certain(one[0])
        if not known:
            self._line(f"if {value}.__class__ is str:")
            self._indent += 1
        self._line(f"{result} = {value} {symbol} {name}")
        if text:
            self._line(f"c += {cost.tenth(len(text))} if len({value}) >= {len(text)} else {self._tenth(value, text)}")
        if not known:
            self._indent -= 1
            self._line("else:")
            self._indent += 1
            left, right = (name, value) if isinstance(node.left, Constant) else (value, name)
            self._any_equality(node, result, left, right)
            self._indent -= 1

    def _tenth(self, value: str, text: str) -> str:
        if len(text) > len(cost.TENTHS):
            raise NotCompiled
        return f"TENTHS[len({value})]"

    def _scalar_equality(self, node: Equality, result: str, value: str, constant: tuple[Any, str]) -> None:
        self._line(f"if {value}.__class__ is {constant[0].__class__.__name__}:")
        self._indent += 1
        self._line(f"{result} = {value} {'!=' if node.negated else '=='} {constant[1]}")
        self._line("c += 1")
        self._indent -= 1
        self._line("else:")
        self._indent += 1
        left, right = (constant[1], value) if isinstance(node.left, Constant) else (value, constant[1])
        self._any_equality(node, result, left, right)
        self._indent -= 1

    def _invocation(self, node: Invocation) -> Step[str]:
        args = yield self._values(node.args)
        if node.known is not UNKNOWN and not isinstance(node.known, CelError):
            values = [arg.value for arg in node.args if isinstance(arg, Constant)]
            self._owed += node.price(*values, node.known)
            return self._constant(node.known)
        result = self._new()
        code = f"{self._constant(node.call)}({', '.join(args)})"
        self._laborious |= not all(_is_small(arg.type) for arg in node.args)
        if node.call is operators.negation:
            code = f"not {args[0] if _is_bool(node.args[0]) else f'boolean({args[0]})'}"
        elif node.call in _INLINE:
            code = self._comparison(node, args, code)
        self._line(f"{result} = {code}")
        if node.price is unit:
            self._owed += 1
        else:
            self._line(f"c += {self._constant(node.price)}({', '.join((*args, result))})")
        return result

    def _comparison(self, node: Invocation, args: list[str], code: str) -> str:
        left, right = node.args
        symbol = _INLINE[node.call]
        if left.type == right.type and left.type in _ORDERED and certain(left) and certain(right):
            return f"{args[0]} {symbol} {args[1]}"
        if isinstance(right, Constant) and right.value.__class__ is int:
            return f"{args[0]} {symbol} {args[1]} if {args[0]}.__class__ is int else {code}"
        return code

    def _membership(self, node: Membership) -> Step[str]:
        value = yield self._value(node.operand)
        if node.operand.type == STRING:
            return f"{value} in {self._constant(node.values)}"
        return f"{self._constant(node.holds)}({value})"

    def _alternative(self, node: Alternative) -> Step[str]:
        chosen = yield self._value(node.optional)
        chosen = self._name(f"optional({chosen})" if node.optional.type.name == "dyn" else chosen)
        self._pay()
        result = self._new()
        self._line(f"if {chosen}.present:")
        self._line(f" {result} = {chosen}{'.value' if node.value else ''}")
        self._line("else:")
        self._indent += 1
        other = yield self._value(node.other)
        self._line(f"{result} = {other}")
        self._pay()
        self._indent -= 1
        return result

    # Literals

    def _literal(self, node: NewList | NewMap | NewMessage) -> Step[str]:
        if isinstance(node, NewList):
            values = yield self._values(node.elements)
            self._owed += cost.LIST_CREATION
            if not node.optionals:
                return self._name(f"[{', '.join(values)}]")
            return self._name(f"make_list(({', '.join(values)},), {self._constant(node.optionals)})")
        if isinstance(node, NewMap):
            values = yield self._values(tuple(part for key, value, _ in node.entries for part in (key, value)))
            self._owed += cost.MAP_CREATION
            flags = [optional for _, _, optional in node.entries]
            entries = "".join(f"({k}, {v}, {o})," for k, v, o in zip(values[::2], values[1::2], flags, strict=True))
            return self._name(f"make_map(({entries}))")
        self._laborious = True
        values = yield self._values(tuple(value for _, value, _ in node.fields))
        self._owed += cost.MESSAGE_CREATION
        keys = [self._constant(name) for name, _, _ in node.fields]
        flags = [optional for _, _, optional in node.fields]
        entries = "".join(f"({k}, {v}, {o})," for k, v, o in zip(keys, values, flags, strict=True))
        return self._name(f"make_message({self._constant(node.name)}, make_map(({entries})))")

    # Loops

    def _loop(self, node: Loop) -> Step[str]:
        accumulator = f"v{node.accumulator}"
        if isinstance(node.range, Constant) and not node.range.value and isinstance(node.range.value, list):
            # cel.bind(): a loop over nothing, whose accumulator is the bound name.
            if not isinstance(node.init, Constant) and not _surely_used(node.result, node.accumulator):
                raise NotCompiled
            init = yield self._value(node.init)
            self._line(f"{accumulator} = grow({init})")
        else:
            yield self._rounds(node, accumulator)
        result = yield self._value(node.result)
        if node.type.name in ("list", "map", "dyn"):
            result = f"grown({result})"
        return self._name(result)

    def _rounds(self, node: Loop, accumulator: str) -> Step[None]:
        if not isinstance(node.init, Constant):
            raise NotCompiled
        range_ = self._name((yield self._value(node.range)))
        self._pay()
        self._line(f"{accumulator} = grow({self._constant(node.init.value)})")
        if node.second < 0:
            self._line(f"for v{node.first} in elements({range_}):")
        else:
            self._line(f"for v{node.first}, v{node.second} in entries({range_}):")
        self._indent += 1
        if not isinstance(node.condition, Constant):
            condition = self._name((yield self._value(node.condition)))
            self._pay()
            self._line(f"if not {condition}:")
            self._line(" break")
        step = yield self._value(node.step)
        self._line(f"{accumulator} = {step}")
        self._pay()
        self._line("n += 1")
        self._line(f"if c > limit or n % {cost.INTERRUPT_EVERY} == 0:")
        self._line(" tick(c, limit, interrupt)")
        self._indent -= 1


def _flattened(node: Logic) -> list[Node]:
    """Return the terms of a whole chain of && or ||: without errors, only their order matters."""
    terms: list[Node] = []
    pending: list[Node] = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, Logic) and current.decisive is node.decisive:
            pending.extend(reversed(current.terms))
        else:
            terms.append(current)
    return terms


def _is_small(type_: Type) -> bool:
    """Whether values of a type are small, so that no function of them can take long."""
    return type_.name in _UNSIZED or type_.name.startswith(("kubernetes.", "net."))


def _plainly_equal(one: Node, other: Node) -> bool:
    """Whether Python's `==` does for two nodes."""
    same = one.type == other.type and one.type.name in _UNSIZED and one.type.name != "double"
    return same and certain(one) and certain(other)


def _is_bool(node: Node) -> bool:
    return node.type == BOOL and _surely(node) and certain(node)


def _surely(node: Node) -> bool:
    """Whether a value that the checker takes for a bool is one for certain.

    A test in a ternary's branch gives an optional there, and a loop's variable holds what the loop found.
    """
    return not isinstance(node, Access) or (node.test and not isinstance(node.path, Conditional))


def _surely_used(node: Node, slot: int) -> bool:
    """Whether evaluating a node always evaluates a variable."""
    pending: list[Node | Path] = [node]
    while pending:
        current = pending.pop()
        if isinstance(current, Variable) and current.slot == slot:
            return True
        pending.extend(_always_evaluated(current))
    return False


def _always_evaluated(node: Node | Path) -> tuple[Node | Path, ...]:  # noqa: PLR0911 -- a case a kind of node
    match node:
        case Access():
            return (node.path,)
        case Relative() | NotStrictlyFalse() | Membership():
            return (node.operand,)
        case Conditional():
            return (node.condition,)
        case Logic():
            return node.terms[:1]
        case Equality():
            return (node.left, node.right)
        case Invocation():
            return node.args
        case Alternative():
            return (node.optional,)
        case NewList():
            return node.elements
        case Loop():
            return (node.range,)
        case _:
            return ()
