"""A plan that notes what its nodes come to, for `explain`.

The plan is that of `planner`, with recorders around the nodes that stand for a piece of the source text. A node's value
is noted in a scope: that of the round of the innermost loop around it, or the one outside of all loops. Of the rounds
of a loop only a few are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from drabridge.core.cel import ast, cost
from drabridge.core.cel.checker import check
from drabridge.core.cel.environment import Environment
from drabridge.core.cel.literals import literal
from drabridge.core.cel.operators import GrowingList, GrowingMap
from drabridge.core.cel.parser import parse
from drabridge.core.cel.plan import (
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
    Qualifier,
    Relative,
    Variable,
)
from drabridge.core.cel.planner import Planner
from drabridge.core.cel.trampoline import Step, run
from drabridge.core.cel.values import CelError, Stopped

EXAMPLES: Final = 3
"""Rounds of a loop that are kept where no single one decided."""

_LONGEST_CHAIN: Final = 16
"""Steps of an access of which the last one that worked is looked for."""

_NODES: Final = (
    Constant, Access, Logic, Equality, Invocation, NotStrictlyFalse, Membership, Alternative, NewList, NewMap,
    NewMessage, Loop,
)  # fmt: skip
_PATHS: Final = (Variable, Relative, Conditional)

# What is recorded


@dataclass(slots=True)
class Record:
    """What a node came to. `reached` are the steps of an access that worked, and where they led."""

    value: Any
    cost: int
    reached: tuple[int, Any] | None = None
    loop: LoopTrace | None = None


Scope = dict[int, Record]
"""Records by the ids of the syntax tree's nodes, of one round of a loop or of what is outside of all loops."""


@dataclass(slots=True)
class RoundTrace:
    """A round of a loop: its position from 0, the values of the loop's variables, and what was noted in it."""

    position: int
    variables: tuple[Any, ...]
    scope: Scope


@dataclass(slots=True)
class LoopTrace:
    """What is kept of the rounds of a loop. `scope` is where its range and its first value are recorded."""

    scope: Scope
    decisive: bool | None
    count: int = 0
    first: list[RoundTrace] = field(default_factory=list)
    failed: RoundTrace | None = None
    last: RoundTrace | None = None

    def begin(self, variables: tuple[Any, ...]) -> RoundTrace:
        """Count a round; it is kept for as long as it is the last one, or for good if it is one of the first."""
        self.last = RoundTrace(self.count, variables, {})
        self.count += 1
        if len(self.first) < EXAMPLES:
            self.first.append(self.last)
        return self.last

    def shown(self, result: Any) -> tuple[list[RoundTrace], bool]:
        """Choose the rounds to be told, and say whether it is the one that decided."""
        if result.__class__ is CelError and self.last is not None:  # or else it was stopped in the last one
            return [self.failed or self.last], self.failed is not None
        if self.decisive is not None and result is self.decisive and self.last is not None:
            return [self.last], True
        return self.first, False


class RecordingFrame(Frame):
    """The state of an evaluation that is recorded."""

    __slots__ = ("loops", "scope")

    def __init__(self, device: Any, variables: int, limit: int) -> None:
        super().__init__(device, variables, limit, None)
        self.scope: Scope = {}
        self.loops: dict[int, LoopTrace] = {}

    def apart(self) -> RecordingFrame:
        """Make a frame that sees the same variables and whose costs and records do not matter."""
        other = RecordingFrame(self.device, 0, cost.LIMIT)
        other.variables = self.variables
        other.loops = self.loops
        return other


class Text(str):
    """A literal that was written at once, since the value goes on growing."""

    __slots__ = ()


# The nodes that record


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A node whose result is noted."""

    inner: Any
    id: int

    def evaluate(self, frame: RecordingFrame) -> Any:
        before = frame.cost
        try:
            value = self.inner.evaluate(frame)
        except Stopped as stop:
            frame.scope[self.id] = Record(CelError(str(stop)), frame.cost - before)
            raise
        record = frame.scope[self.id] = Record(value, frame.cost - before)
        if value.__class__ is CelError:
            record.reached = _reached(frame, self.inner)
        elif value.__class__ in (GrowingList, GrowingMap):
            record.value = Text(literal(value))
        return value


@dataclass(frozen=True, slots=True)
class _RecordedPath:
    """A branch of `?:` or an index that is an access, whose result is noted."""

    inner: Any
    id: int

    def resolve(self, frame: RecordingFrame) -> Any:
        before = frame.cost
        value = self.inner.resolve(frame)
        frame.scope[self.id] = Record(value, frame.cost - before)
        return value


@dataclass(frozen=True, slots=True)
class _RecordedLoop:
    """A loop whose rounds are noted."""

    inner: Loop
    id: int
    decisive: bool | None

    def evaluate(self, frame: RecordingFrame) -> Any:
        before = frame.cost
        trace = frame.loops[self.id] = LoopTrace(frame.scope, self.decisive)
        try:
            value = self.inner.evaluate(frame)
        except Stopped as stop:
            frame.scope[self.id] = Record(CelError(str(stop)), frame.cost - before, loop=trace)
            raise
        frame.scope[self.id] = Record(value, frame.cost - before, loop=trace)
        return value


@dataclass(frozen=True, slots=True)
class _RecordedRound:
    """The step of a loop: each round has records of its own."""

    inner: Any
    id: int
    slots: tuple[int, ...]

    def evaluate(self, frame: RecordingFrame) -> Any:
        trace, outside = frame.loops[self.id], frame.scope
        round_ = trace.begin(tuple(frame.variables[slot] for slot in self.slots))
        frame.scope = round_.scope
        try:
            value = self.inner.evaluate(frame)
        finally:
            frame.scope = outside
        if value.__class__ is CelError and trace.failed is None:
            trace.failed = round_
        return value


@dataclass(frozen=True, slots=True)
class _RecordedStart:
    """The first value of an accumulator, or what cel.bind() binds: found in some round, it belongs outside of it."""

    inner: Any
    id: int

    def evaluate(self, frame: RecordingFrame) -> Any:
        here, frame.scope = frame.scope, frame.loops[self.id].scope
        try:
            return self.inner.evaluate(frame)
        finally:
            frame.scope = here


def _reached(frame: RecordingFrame, node: Any) -> tuple[int, Any] | None:
    """Find how far an access came that failed, and what it had found there."""
    if node.__class__ is not Access or node.path.__class__ is not Variable:
        return None
    found = None
    qualifiers = node.path.qualifiers
    for count in range(1, min(len(qualifiers), _LONGEST_CHAIN)):
        value = Variable(node.path.slot, qualifiers[:count]).resolve(frame.apart())
        if value.__class__ is CelError:
            break
        found = count, value
    return found


# From the plan to one that records


class _NotingPlanner(Planner):
    """Notes what each node of the syntax tree became, with the length of an access by then."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.notes: list[tuple[int, Node, int]] = []

    def plan(self, node: ast.Node) -> Step[Node]:
        planned: Node = yield super().plan(node)
        self.notes.append((node.id, planned, _length(planned.path) if isinstance(planned, Access) else 0))
        return planned


def _length(path: Path) -> int:
    """Count the steps of an access. It grows by selections from a `?:`, which go to both branches."""
    if isinstance(path, Conditional):
        return _length(path.truthy) + _length(path.falsy)
    return len(path.qualifiers)


class _Instrumenter:
    """Puts recorders around the nodes of a plan that stand for a piece of the source."""

    def __init__(self, notes: list[tuple[int, Node, int]], spans: dict[int, tuple[int, int]]) -> None:
        self.recorded: set[int] = set()
        self._spans = spans
        self._nodes = {id(planned): node for node, planned, _ in notes}
        self._paths = {
            id(planned.path): (node, length) for node, planned, length in notes if isinstance(planned, Access)
        }

    def node(self, node: Any) -> Step[Any]:
        """Give the node with all below it recorded, and itself if it has a place in the source."""
        id_ = self._nodes[id(node)]
        copy = yield self._copy(node)
        if isinstance(copy, Loop):
            return self._loop(copy, id_)
        return self._wrapped(_Recorded, copy, id_)

    def _wrapped(self, recorder: type[_Recorded | _RecordedPath], copy: Any, id_: int) -> Any:
        if id_ not in self._spans:
            return copy
        self.recorded.add(id_)
        return recorder(copy, id_)

    def _loop(self, loop: Loop, id_: int) -> _RecordedLoop:
        slots = (loop.first,) if loop.second < 0 else (loop.first, loop.second)
        decisive = loop.step.decisive if isinstance(loop.step, Logic) else None
        start: Any = _RecordedStart(loop.init, id_)
        step: Any = _RecordedRound(loop.step, id_, slots)
        recorded = replace(loop, init=start, step=step)
        self.recorded.add(id_)
        return _RecordedLoop(recorded, id_, decisive)

    def _copy(self, value: Any) -> Step[Any]:
        """Copy a node, or whatever else it is made of, with recorders in it."""
        if isinstance(value, Constant):
            return value
        if isinstance(value, Access):  # it notes its own result; only paths that stand elsewhere need recorders
            return replace(value, path=(yield self._copy(value.path)))
        changed = {}
        for each in fields(value):
            changed[each.name] = yield self._any(getattr(value, each.name))
        return replace(value, **changed)

    def _any(self, value: Any) -> Step[Any]:
        if isinstance(value, _NODES):
            return (yield self.node(value))
        if isinstance(value, _PATHS):
            return (yield self._path(value))
        if isinstance(value, Qualifier):
            return (yield self._copy(value))
        if isinstance(value, tuple | list):
            found = []
            for each in value:
                found.append((yield self._any(each)))  # noqa: PERF401 -- no comprehension can yield
            return value.__class__(found)
        return value

    def _path(self, path: Path) -> Step[Any]:
        """Copy the path of an access; one that another access goes on from has no value of its own any more."""
        copy = yield self._copy(path)
        id_, length = self._paths.get(id(path), (0, -1))
        return self._wrapped(_RecordedPath, copy, id_) if length == _length(path) else copy


@dataclass(frozen=True, slots=True)
class RecordingPlan:
    """A plan that notes, the tree it was made of, and the ids of the tree's nodes that it notes.

    `spans` has the nodes' places in the source. It has no state: what is noted is in the frame of an evaluation.
    """

    root: Any
    tree: ast.Node
    spans: dict[int, tuple[int, int]]
    recorded: frozenset[int]
    variables: int


def recording_plan(expression: str, environment: Environment) -> RecordingPlan:
    """Plan an expression, which is known to compile, with recorders."""
    checked = check(parse(expression), environment)
    planner = _NotingPlanner(checked, environment)
    planned = run(planner.plan(checked.root))
    spans = checked.parsed.spans
    instrumenter = _Instrumenter(planner.notes, spans)
    root = run(instrumenter.node(planned))
    return RecordingPlan(root, checked.root, spans, frozenset(instrumenter.recorded), planner.variables)
