"""An expression ready to be evaluated, and the exact evaluation of it.

The nodes are those of cel-go's interpreter after its optimizations, because its costs depend on them: a chain of
selections is one access with qualifiers, constant lists are values, a ternary's branches are not accesses of their own.
`evaluate` walks them and counts costs step by step, also on the way through errors, as cel-go's cost tracker does.
The compiler makes a Python function of the same nodes for the case that nothing goes wrong.

Values are returned; an error is a CelError returned as a value, since operators may absorb it. `Stopped` is raised.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from drabridge.core.cel import cost, messages, operators, work
from drabridge.core.cel.declarations import unit
from drabridge.core.cel.types import Type
from drabridge.core.cel.values import NONE, CelError, Optional, Stopped, Uint

LIMIT_EXCEEDED: Final = "operation cancelled: actual cost limit exceeded"
INTERRUPTED: Final = "operation interrupted"


UNKNOWN: Final = object()
"""Stands for a result that is not known before the evaluation."""


class Frame:
    """The state of one evaluation."""

    __slots__ = ("cost", "device", "interrupt", "limit", "rounds", "variables")

    def __init__(self, device: Any, variables: int, limit: int, interrupt: Callable[[], bool] | None) -> None:
        self.device = device
        self.variables: list[Any] = [None] * variables
        self.cost = 0
        self.limit = limit
        self.rounds = 0
        self.interrupt = interrupt

    def charge(self, units: int) -> None:
        """Add to the cost. Raises Stopped beyond the limit."""
        self.cost += units
        if self.cost > self.limit:
            raise Stopped(LIMIT_EXCEEDED)

    def round(self) -> None:
        """Count a round of a loop. Raises Stopped if the caller wants to stop."""
        self.rounds += 1
        if self.interrupt is not None and self.rounds % cost.INTERRUPT_EVERY == 0 and self.interrupt():
            raise Stopped(INTERRUPTED)


@dataclass(frozen=True, slots=True)
class Constant:
    """A value that is known. It costs nothing."""

    value: Any
    type: Type

    def evaluate(self, _: Frame) -> Any:
        """Give the value."""
        return self.value


@dataclass(frozen=True, slots=True)
class Qualifier:
    """A step of an access: a key that is known (`key`) or found by an access (`path`).

    `optional` for `?`, `test` for the last step of has(). `on_map` says that a map with that kind of key is certain.
    """

    key: Any
    path: Path | None = None
    optional: bool = False
    test: bool = False
    on_map: bool = False


@dataclass(slots=True)
class Variable:
    """The device (slot -1) or a variable of a loop."""

    slot: int
    qualifiers: list[Qualifier] = field(default_factory=list)
    price: int = 1

    def resolve(self, frame: Frame) -> Any:
        """Give the value."""
        if self.slot < 0:
            value = frame.device
        else:
            value = frame.variables[self.slot]
            if value.__class__ is Pending:
                value = value.start(frame)
            if value.__class__ is CelError:
                return value
        return _qualify(frame, value, self.qualifiers) if self.qualifiers else value


@dataclass(slots=True)
class Relative:
    """A selection from what another node gives."""

    operand: Node
    qualifiers: list[Qualifier] = field(default_factory=list)
    price: int = 1

    def resolve(self, frame: Frame) -> Any:
        """Give what the steps lead to."""
        value = self.operand.evaluate(frame)
        return value if value.__class__ is CelError else _qualify(frame, value, self.qualifiers)


@dataclass(slots=True)
class Conditional:
    """`condition ? truthy : falsy`; qualifiers behind it belong to both branches."""

    condition: Node
    truthy: Path
    falsy: Path
    price: int = 0

    def resolve(self, frame: Frame) -> Any:
        """Give the value of one branch."""
        value = self.condition.evaluate(frame)
        if value is True:
            return self.truthy.resolve(frame)
        if value is False:
            return self.falsy.resolve(frame)
        return value if value.__class__ is CelError else CelError(operators.NO_OVERLOAD)


Path = Variable | Relative | Conditional


def add_qualifier(path: Path, qualifier: Qualifier) -> None:
    """Let an access go one step further."""
    if isinstance(path, Conditional):
        add_qualifier(path.truthy, qualifier)
        add_qualifier(path.falsy, qualifier)
    else:
        path.qualifiers.append(qualifier)


def _qualify(frame: Frame, value: Any, qualifiers: list[Qualifier]) -> Any:
    optional = value.__class__ is Optional
    if optional:
        if not value.present:
            return value
        value = value.value
    for qualifier in qualifiers:
        optional = optional or qualifier.optional
        try:
            key = qualifier.key if qualifier.path is None else _key(frame, qualifier.path)
            if not optional:
                value = _step(value, key, test=qualifier.test)
                frame.charge(1)
                continue
            found = operators.index_if_present(value, key)
        except CelError as error:
            if not optional:
                frame.charge(1)
            return error
        if not found.present:
            return NONE
        frame.charge(1)
        value = found.value
    return Optional(True, value) if optional else value


def _step(value: Any, key: Any, *, test: bool) -> Any:
    return operators.index_if_present(value, key).present if test else operators.index(value, key)


def _key(frame: Frame, path: Path) -> Any:
    key = path.resolve(frame)
    if key.__class__ is CelError:
        raise key
    return checked_key(key)


def checked_key(key: Any) -> Any:
    """Return what may be a key. Raises CelError for all else."""
    if key.__class__ in (str, int, Uint, bool, float):
        return key
    raise CelError(f"invalid qualifier type: {operators.go_type(key)}")


@dataclass(frozen=True, slots=True)
class Access:
    """A variable or another value with the steps behind it. `test` for has()."""

    path: Path
    type: Type
    test: bool = False

    def evaluate(self, frame: Frame) -> Any:
        """Give the value, or whether there is one."""
        path = self.path
        if path.__class__ is Variable and not path.qualifiers and path.slot >= 0:  # the short way for loops
            value = frame.variables[path.slot]
            if value.__class__ is Pending:
                value = value.start(frame)
        else:
            value = path.resolve(frame)
        frame.cost += path.price - self.test
        if frame.cost > frame.limit:
            raise Stopped(LIMIT_EXCEEDED)
        if self.test and value.__class__ is Optional:
            return value.present
        return value


@dataclass(frozen=True, slots=True)
class Logic:
    """`&&` (decisive False) or `||` (decisive True), which absorb errors."""

    terms: tuple[Node, ...]
    decisive: bool
    type: Type

    def evaluate(self, frame: Frame) -> Any:
        """Evaluate terms until one decides."""
        failure: CelError | None = None
        for term in self.terms:
            value = term.evaluate(frame)
            if value is self.decisive:
                return value
            if value.__class__ is not bool and failure is None:
                failure = value if value.__class__ is CelError else CelError(operators.NO_OVERLOAD)
        return not self.decisive if failure is None else failure


@dataclass(frozen=True, slots=True)
class Equality:
    """`==`, or `!=` if negated."""

    left: Node
    right: Node
    negated: bool
    type: Type

    def evaluate(self, frame: Frame) -> Any:
        """Compare both sides."""
        left = self.left.evaluate(frame)
        right = self.right.evaluate(frame)
        if left.__class__ is CelError:
            result: Any = left
        elif right.__class__ is CelError:
            result = right
        else:
            try:
                result = operators.differ(left, right) if self.negated else operators.equal(left, right)
            except CelError as error:
                result = error
        frame.charge(cost.equality(left, right) if self.negated else cost.equals(left, right))
        return result


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call of a function.

    `early` calls give up at the first failed argument. Their cost is lost then, unless it was the last one.
    """

    call: Callable[..., Any]
    price: Callable[..., int]
    args: tuple[Node, ...]
    early: bool
    type: Type
    known: Any = UNKNOWN
    """The result, if the arguments are constants and it is a small value or an error."""
    certain: bool = True
    """Whether the result is of the static type for sure; see `certain`."""

    def evaluate(self, frame: Frame) -> Any:
        """Evaluate the arguments and call the function."""
        values = []
        result: Any = None
        for arg in self.args:
            value = arg.evaluate(frame)
            values.append(value)
            if value.__class__ is CelError and result is None:
                if self.early and len(values) < len(self.args):
                    return value
                result = value
        if result is None:
            if self.known is not UNKNOWN:
                result = self.known
            else:
                try:
                    result = self.call(*values)
                except CelError as error:
                    result = error
        frame.cost += 1 if self.price is unit else self.price(*values, result)
        if frame.cost > frame.limit:
            raise Stopped(LIMIT_EXCEEDED)
        return result


@dataclass(frozen=True, slots=True)
class NotStrictlyFalse:
    """The condition of all() and exists(): an error lets the loop go on."""

    operand: Node
    type: Type

    def evaluate(self, frame: Frame) -> Any:
        """Say whether to go on."""
        value = self.operand.evaluate(frame)
        frame.cost += 1
        if frame.cost > frame.limit:
            raise Stopped(LIMIT_EXCEEDED)
        return value if value.__class__ is bool else True


@dataclass(frozen=True, slots=True)
class Membership:
    """`x in [constants]`: a look-up, which costs nothing."""

    operand: Node
    values: frozenset[Any]
    booleans: bool
    type: Type

    def evaluate(self, frame: Frame) -> Any:
        """Look the value up."""
        value = self.operand.evaluate(frame)
        return value if value.__class__ is CelError else self.holds(value)

    def holds(self, value: Any) -> bool:
        """Whether a value is one of the constants. Raises Stopped where upstream's look-up panics."""
        cls = value.__class__
        if isinstance(value, list | tuple | dict | Optional) or value != value:  # noqa: PLR0124 -- NaN
            return False
        if operators.unhashable(value):
            raise Stopped(f"internal error: runtime error: hash of unhashable type {operators.go_type(value)}")
        return (cls is bool) is self.booleans and value in self.values


@dataclass(frozen=True, slots=True)
class Alternative:
    """`optional.or(other)`, or `optional.orValue(other)` with `value`: the other one is evaluated if it is needed."""

    optional: Node
    other: Node
    value: bool
    type: Type

    def evaluate(self, frame: Frame) -> Any:
        """Evaluate the other one if need be."""
        optional = self.optional.evaluate(frame)
        if optional.__class__ is CelError:
            return optional
        if optional.__class__ is not Optional:
            return CelError(operators.NO_OVERLOAD)
        if not optional.present:
            return self.other.evaluate(frame)
        return optional.value if self.value else optional


@dataclass(frozen=True, slots=True)
class NewList:
    """A list with elements that are not all constant."""

    elements: tuple[Node, ...]
    optionals: frozenset[int]
    type: Type

    def evaluate(self, frame: Frame) -> Any:
        """Make the list."""
        result = self._build(frame)
        frame.charge(cost.LIST_CREATION)
        return result

    def _build(self, frame: Frame) -> Any:
        values: list[Any] = []
        for position, element in enumerate(self.elements):
            value = element.evaluate(frame)
            if value.__class__ is CelError:
                return value
            if position in self.optionals:
                if value.__class__ is not Optional:
                    return not_optional(value)
                if not value.present:
                    continue
                value = value.value
            values.append(value)
        return values


def not_optional(value: Any) -> CelError:
    """Make the error of `[?x]` with an x that is no optional."""
    return CelError(f"cannot initialize optional list element from non-optional value {operators.text(value)}")


@dataclass(frozen=True, slots=True)
class NewMap:
    """A map with entries that are not all constant: (key, value, optional)."""

    entries: tuple[tuple[Node, Node, bool], ...]
    type: Type

    def evaluate(self, frame: Frame) -> Any:
        """Make the map."""
        result = self._build(frame)
        frame.charge(cost.MAP_CREATION)
        return result

    def _build(self, frame: Frame) -> Any:
        built: dict[Any, Any] = {}
        for key_node, value_node, optional in self.entries:
            key = key_node.evaluate(frame)
            if key.__class__ is CelError:
                return key
            value = value_node.evaluate(frame)
            if value.__class__ is CelError:
                return value
            try:
                put(built, key, value, optional=optional)
            except CelError as error:
                return error
        return built


def put(built: dict[Any, Any], key: Any, value: Any, *, optional: bool) -> None:
    """Add an entry to a map literal that is being built."""
    if optional:
        if value.__class__ is not Optional:
            text = f"optional entry '{operators.text(key)}' from non-optional value {operators.text(value)}"
            raise CelError(f"cannot initialize {text}")
        if not value.present:
            if operators.unhashable(key):
                raise Stopped(f"internal error: hash of unhashable type: {operators.go_type(key)}")
            if not isinstance(key, list | tuple | dict):
                built.pop(key, None)
            return
        value = value.value
    built[map_key(key)] = value


class _ListKey(list[Any]):
    """A list that is a key: no other one is the same key."""

    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment]  # a list has none
    __eq__ = object.__eq__


class _MapKey(dict[Any, Any]):
    """A map that is a key: no other one is the same key."""

    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment]  # a map has none
    __eq__ = object.__eq__


def map_key(key: Any) -> Any:
    """Return a key of a map literal as Python can hash it. Raises Stopped where Go cannot."""
    if isinstance(key, list | tuple):
        return _ListKey(key)
    if isinstance(key, dict):
        return _MapKey(key)
    if isinstance(key, Optional) and key.present:
        return Optional(True, key.value)  # not the same one as any other, see there
    if operators.unhashable(key):
        raise Stopped(f"internal error: runtime error: hash of unhashable type {operators.go_type(key)}")
    return key


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A well-known message: (field, value, optional)."""

    name: str
    fields: tuple[tuple[str, Node, bool], ...]
    type: Type

    def evaluate(self, frame: Frame) -> Any:
        """Make the value of the message."""
        result = self._build(frame)
        frame.charge(cost.MESSAGE_CREATION)
        return result

    def _build(self, frame: Frame) -> Any:
        values: dict[str, Any] = {}
        for name, node, optional in self.fields:
            value = node.evaluate(frame)
            if value.__class__ is CelError:
                return value
            try:
                put(values, name, value, optional=optional)
            except CelError as error:
                return error
        try:
            return messages.build(self.name, values)
        except CelError as error:
            return error


class Pending:
    """An accumulator that nobody has asked for yet: its first value is found when somebody does."""

    __slots__ = ("_loop",)

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def start(self, frame: Frame) -> Any:
        """Evaluate the first value and put it in place."""
        value = growing(self._loop.init.evaluate(frame))
        frame.variables[self._loop.accumulator] = value
        return value


def growing(value: Any) -> Any:
    """Make an empty list or map one that grows in place. That shows: with x = [], `x + [1] == x + [2]` holds."""
    if isinstance(value, list | tuple) and not value:
        return operators.GrowingList()
    if isinstance(value, dict) and not value:
        return operators.GrowingMap()
    return value


def grown(value: Any) -> Any:
    """Make a result one that does not grow any more."""
    if value.__class__ is operators.GrowingList:
        return list(value)
    return dict(value) if value.__class__ is operators.GrowingMap else value


@dataclass(frozen=True, slots=True)
class Loop:
    """A comprehension. Variables are slots; `second` is -1 for loops with one variable."""

    range: Node
    first: int
    second: int
    accumulator: int
    init: Node
    condition: Node
    step: Node
    result: Node
    type: Type

    def evaluate(self, frame: Frame) -> Any:
        """Run the loop."""
        container = self.range.evaluate(frame)
        if container.__class__ is CelError:
            return container
        frame.variables[self.accumulator] = Pending(self)
        try:
            rounds = operators.elements(container) if self.second < 0 else operators.entries(container)
        except CelError as error:
            return error
        variables = frame.variables
        for item in rounds:
            if self.second < 0:
                variables[self.first] = item
            else:
                variables[self.first], variables[self.second] = item
            condition = self.condition.evaluate(frame)
            if condition is False:
                break
            variables[self.accumulator] = self.step.evaluate(frame)
            frame.round()
        return grown(self.result.evaluate(frame))


Node = (
    Constant
    | Access
    | Logic
    | Equality
    | Invocation
    | NotStrictlyFalse
    | Membership
    | Alternative
    | NewList
    | NewMap
    | NewMessage
    | Loop
)


def certain(node: Node) -> bool:
    """Whether a node's value is of its static type for sure.

    Where dyn was involved it may not be: `(dyn(['a']) + [1])[0]` is an int to the checker.
    """
    match node:
        case Access():
            return _surely_leads(node.path)
        case Invocation():
            return node.certain
        case Alternative():
            return certain(node.optional) and certain(node.other)
        case NewList():
            return all(map(certain, node.elements))
        case NewMap():
            return all(certain(key) and certain(value) for key, value, _ in node.entries)
        case _:
            return not isinstance(node, Loop)


def _surely_leads(path: Path) -> bool:
    if isinstance(path, Variable):
        return path.slot < 0
    if isinstance(path, Relative):
        return certain(path.operand)
    return _surely_leads(path.truthy) and _surely_leads(path.falsy)


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole expression: its root and how many variables its loops need."""

    root: Node
    variables: int

    def evaluate(self, device: Any, limit: int, interrupt: Callable[[], bool] | None) -> tuple[Any, int]:
        """Return the result (a CelError for a failure) and the cost. Raises Halted if the evaluation was stopped."""
        work.begin()
        frame = Frame(device, self.variables, limit, interrupt)
        try:
            return self.root.evaluate(frame), frame.cost
        except Stopped as stop:
            raise Halted(str(stop), frame.cost) from None
        except RecursionError:
            raise Halted("expression nested too deeply to be evaluated", frame.cost) from None


class Halted(Exception):
    """An evaluation that was stopped, with what it had cost by then."""

    def __init__(self, message: str, units: int) -> None:
        super().__init__(message)
        self.cost = units
