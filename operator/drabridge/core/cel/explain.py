"""Why a selector matches a device: what each part of the expression came to.

    explanation = explain(selector, view)
    explanation.outcome                   # Match(matched=False, cost=12), or a Failure
    for part in explanation.root.parts:   # "device.driver == 'gpu.example.com'", State.TRUE, "true", cost 4

The outcome is that of `Selector.matches`, cost included. The expression is planned once more for it, with a recorder
around each node that stands for a piece of the source text; `matches` itself knows nothing of that. It takes about a
millisecond for the plan and a few times as long as walking it for each device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from drabridge.core.cel import ast, cost, macros, work
from drabridge.core.cel.device import DeviceView
from drabridge.core.cel.literals import literal
from drabridge.core.cel.recording import Record, RecordingFrame, RecordingPlan, Scope, Text, recording_plan
from drabridge.core.cel.selector import Match, Selector, SelectorError, answered
from drabridge.core.cel.trampoline import Step, run
from drabridge.core.cel.values import CelError, Stopped

_LOGIC: Final = {"_&&_": "&&", "_||_": "||"}


class State(StrEnum):
    """What became of a part."""

    TRUE = "true"
    FALSE = "false"
    VALUE = "value"
    """It came to a value that is no bool."""

    FAILED = "failed"
    """It ended in an error; an operator around it may have absorbed that."""

    NOT_EVALUATED = "not evaluated"
    """Something before it decided."""


class Failure(NamedTuple):
    """An evaluation that failed: the text of SelectorError, and what it had cost by then."""

    message: str
    cost: int


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of the source text, `start` to `end` in code points, and what it came to.

    `shown` is the value as a CEL literal of bounded length, the error's text if it failed, "" if it was not evaluated.
    `cost` includes that of its parts, in upstream's units. `operator` is && or || if the parts are terms of that.
    A loop has `rounds`; parts that are constants or plain names are left out.
    """

    start: int
    end: int
    text: str
    state: State
    shown: str = ""
    cost: int = 0
    operator: str = ""
    parts: tuple[Part, ...] = ()
    rounds: Rounds | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """A round of a loop: its position from 0, the loop's variables with their values as literals, and the parts."""

    position: int
    variables: tuple[tuple[str, str], ...]
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Rounds:
    """What a loop did: `count` rounds. `shown` is the one that decided, or else the first (`recording.EXAMPLES`)."""

    count: int
    decided: bool
    shown: tuple[Round, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """What `explain` found. `whole` is false for expressions nested too deeply to be told in parts."""

    expression: str
    outcome: Match | Failure
    root: Part
    whole: bool = True

    def deciding(self) -> Part:
        """The smallest part that made the whole false: the first false term of the chain of && that it is, if any."""
        part = self.root
        while part.operator == "&&":
            false = next((term for term in part.parts if term.state is State.FALSE), None)
            if false is None:
                break
            part = false
        return part


def explain(selector: Selector, view: DeviceView, *, limit: int = cost.LIMIT) -> Explanation:
    """Say what each part of the expression comes to on a device. Raises nothing: a failure is an outcome here."""
    return instrument(selector).explain(view, limit=limit)


@dataclass(frozen=True, slots=True)
class Instrumented:
    """A selector that can explain itself, for many devices. It has no state, as selectors have none."""

    selector: Selector
    _plan: RecordingPlan

    def explain(self, view: DeviceView, *, limit: int = cost.LIMIT) -> Explanation:
        """Say what each part of the expression comes to on a device, as the function `explain` does."""
        frame = RecordingFrame(view.fields, self._plan.variables, limit)
        work.begin()
        try:
            try:
                result = self._plan.root.evaluate(frame)
            except Stopped as stop:
                outcome: Match | Failure = Failure(str(stop), frame.cost)
            else:
                outcome = _outcome(result, frame.cost)
        except RecursionError:  # recorders need twice the stack, and the compiled function next to none
            return self._in_one_piece(view, limit)
        expression = self.selector.expression
        return Explanation(expression, outcome, _Teller(expression, self._plan).root(frame.scope))

    def _in_one_piece(self, view: DeviceView, limit: int) -> Explanation:
        text = self.selector.expression
        try:
            match = self.selector.matches(view, limit=limit)
        except SelectorError as error:
            failed = Part(0, len(text), text, State.FAILED, str(error), error.cost)
            return Explanation(text, Failure(str(error), error.cost), failed, whole=False)
        state = State.TRUE if match.matched else State.FALSE
        return Explanation(text, match, Part(0, len(text), text, state, state.value, match.cost), whole=False)


def _outcome(result: Any, units: int) -> Match | Failure:
    try:
        return answered(result, units)
    except SelectorError as error:
        return Failure(str(error), error.cost)


def instrument(selector: Selector) -> Instrumented:
    """Plan a selector anew so that it can be explained on many devices."""
    work.begin()
    return Instrumented(selector, recording_plan(selector.expression, selector.environment))


# From the records to the parts

_Told = tuple[list[Part], Rounds | None]
"""The parts that stand for a node, and the rounds of a loop in it that has no text of its own."""


class _Teller:
    """Reads the records along the syntax tree."""

    def __init__(self, source: str, plan: RecordingPlan) -> None:
        self._source = source
        self._tree = plan.tree
        self._spans = plan.spans
        self._recorded = plan.recorded

    def root(self, scope: Scope) -> Part:
        """Give the whole expression as a part."""
        node = self._tree
        parts, rounds = run(self._below(node, scope))
        return self._part(node, scope[node.id], parts, rounds)

    def _tell(self, node: ast.Node, scope: Scope) -> Step[_Told]:
        """Tell of a node, or of what is below it if it is not worth a line."""
        shown = node.id in self._recorded and node.id in self._spans and not isinstance(node, ast.Literal | ast.Ident)
        record = scope.get(node.id)
        if shown and record is None:
            start, end = self._spans[node.id]
            return [Part(start, end, self._source[start:end], State.NOT_EVALUATED, operator=_operator(node))], None
        parts, rounds = yield self._below(node, scope)
        if not shown or record is None:
            return parts, rounds
        part = self._part(node, record, parts, rounds)
        return (parts, rounds) if _says_itself(part) else ([part], None)

    def _part(self, node: ast.Node, record: Record, parts: list[Part], rounds: Rounds | None) -> Part:
        start, end = self._spans[node.id]
        value = record.value
        if value.__class__ is bool:
            state = State.TRUE if value else State.FALSE
        else:
            state = State.FAILED if value.__class__ is CelError else State.VALUE
        shown = str(value) if isinstance(value, CelError | Text) else literal(value)
        if record.reached is not None:
            parts = [*self._reached(node, *record.reached), *parts]
        text = self._source[start:end]
        return Part(start, end, text, state, shown, record.cost, _operator(node), tuple(parts), rounds)

    def _reached(self, node: ast.Node, count: int, value: Any) -> Iterator[Part]:
        """Tell of the longest beginning of an access that worked."""
        chain = [node]
        while (operand := _operand(chain[-1])) is not None:
            chain.append(operand)
        at = len(chain) - 1 - count
        if 0 < at < len(chain) - 1 and chain[at].id in self._spans:
            start, end = self._spans[chain[at].id]
            state = State.VALUE if value.__class__ is not bool else State.TRUE if value else State.FALSE
            yield Part(start, end, self._source[start:end], state, literal(value))

    def _below(self, node: ast.Node, scope: Scope) -> Step[_Told]:
        if isinstance(node, ast.Comprehension):
            told: _Told = yield self._comprehension(node, scope)
            return told
        found: list[Part] = []
        rounds: Rounds | None = None
        for child in ast.children(node):
            parts, inner = yield self._tell(child, scope)
            rounds = rounds or inner
            if len(parts) == 1 and parts[0].operator and parts[0].operator == _operator(node) and parts[0].parts:
                parts = list(parts[0].parts)  # a chain of && is one thing to a reader
            found += parts
        return found, rounds

    def _comprehension(self, node: ast.Comprehension, scope: Scope) -> Step[_Told]:
        found, rounds = yield self._tell(node.range, scope)
        found = list(found)
        if node.variable == macros.UNUSED:  # cel.bind()
            for part in (node.init, node.result):
                parts, inner = yield self._tell(part, scope)
                found += parts
                rounds = rounds or inner
            return found, rounds
        record = scope.get(node.id)
        if record is None or record.loop is None or not record.loop.count:
            return found, rounds
        chosen, decided = record.loop.shown(record.value)
        told = []
        for each in chosen:
            parts, _ = yield self._tell(node.step, each.scope)
            names = (node.variable, node.second)
            variables = tuple((name, literal(value)) for name, value in zip(names, each.variables, strict=False))
            told.append(Round(each.position, variables, tuple(parts)))
        return found, Rounds(record.loop.count, decided, tuple(told))


def _operator(node: ast.Node) -> str:
    return _LOGIC.get(node.function, "") if isinstance(node, ast.Call) else ""


def _operand(node: ast.Node) -> ast.Node | None:
    """Return what a selection or index goes on from."""
    match node:
        case ast.Select():
            return node.operand
        case ast.Call(function="_[_]" | "_[?_]" | "_?._"):
            return node.args[0]
        case _:
            return None


def _says_itself(part: Part) -> bool:
    """Whether the value is what the text says already, as for `quantity('10Gi')`."""
    return part.state is State.VALUE and part.text.replace("'", '"').replace(" ", "") == part.shown.replace(" ", "")
