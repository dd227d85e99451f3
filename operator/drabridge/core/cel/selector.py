"""Device selectors: compile an expression once, match it against many devices.

    selector = compile_selector("device.driver == 'gpu.example.com'")
    view = DeviceView.of("gpu.example.com", device)
    selector.matches(view).matched

The answers, the errors' texts and the costs are those of k8s.io/dynamic-resource-allocation/cel v0.37.2.
Three outcomes are kept apart: a Match (which matched or not), a SelectorError (the evaluation failed, which fails the
whole allocation upstream), and a CompileError. A device that cannot be evaluated at all is a BadDevice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from drabridge.core.cel import cost, messages, operators, work
from drabridge.core.cel.checker import check
from drabridge.core.cel.compiler import Compiled, compile_plan
from drabridge.core.cel.device import DeviceView
from drabridge.core.cel.diagnostics import SourceError
from drabridge.core.cel.environment import Environment, stored_expressions
from drabridge.core.cel.parser import parse
from drabridge.core.cel.plan import Halted, Plan
from drabridge.core.cel.planner import InstantiationError, plan
from drabridge.core.cel.types import BOOL, Type, wrapper_of
from drabridge.core.cel.validation import validate
from drabridge.core.cel.values import CelError, Optional, Stopped

LONGEST_EXPRESSION: Final = 10 * 1024
"""CELSelectorExpressionMaxLength of resource.k8s.io, in characters. The API server's validation refuses more."""

HINT: Final = (
    ". consider using CEL optional chaining (.? followed by orValue()) "
    "or guarding the check with has() for optional fields"
)


class CompileError(Exception):
    """An expression that cannot be used, with upstream's text."""


class SelectorError(Exception):
    """An evaluation that failed, with upstream's text and what it had cost by then."""

    def __init__(self, message: str, units: int) -> None:
        super().__init__(message)
        self.cost = units


class Match(NamedTuple):
    """The outcome of an evaluation, and its cost in upstream's units."""

    matched: bool
    cost: int


_WRAPPED: Final = wrapper_of(BOOL)

_MATCHES: Final = tuple(tuple(Match(matched, units) for units in range(1024)) for matched in (False, True))
"""The common outcomes, made once: that is cheaper than to make one at each evaluation."""


@dataclass(frozen=True, slots=True)
class Selector:
    """A compiled expression. It has no state: any number of threads may use it at once."""

    expression: str
    type: Type
    environment: Environment = field(repr=False, compare=False)
    _plan: Plan
    _compiled: Compiled | None

    def matches(
        self, view: DeviceView, *, limit: int = cost.LIMIT, interrupt: Callable[[], bool] | None = None
    ) -> Match:
        """Evaluate the expression on a device. Raises SelectorError.

        `interrupt` is asked every 100 rounds of loops whether to stop.
        """
        if self._compiled is not None:
            try:
                result, units = self._compiled(view.fields, limit, interrupt)
                if units <= limit and result.__class__ is bool:
                    return _MATCHES[result][units] if units < 1024 else Match(result, units)
            except Halted as halted:
                raise SelectorError(str(halted), halted.cost) from None
            except work.Overworked as overworked:
                raise SelectorError(str(overworked), limit + 1) from None
            except Exception:  # noqa: S110 -- whatever it was, the plan finds out what there is to say
                pass
        return self.walk(view, limit, interrupt)

    @property
    def has_function(self) -> bool:
        """Whether the expression became a Python function. The others are walked, which is slower and no different."""
        return self._compiled is not None

    def walk(self, view: DeviceView, limit: int, interrupt: Callable[[], bool] | None) -> Match:
        """Evaluate the expression step by step, as `matches` does when something goes wrong. Raises SelectorError."""
        try:
            result, units = self._plan.evaluate(view.fields, limit, interrupt)
        except Halted as halted:
            raise SelectorError(str(halted), halted.cost) from None
        except Exception as bug:
            # A bug of ours must not end more than this evaluation: expressions come from anybody.
            raise SelectorError(f"internal error: {bug.__class__.__name__}: {bug}", 0) from bug
        return answered(result, units)


def answered(result: Any, units: int) -> Match:
    """Take the result of an evaluation (a CelError for a failure) for an answer. Raises SelectorError if it is none."""
    answer = result
    while answer.__class__ is Optional and answer.present:
        answer = answer.value
    if answer.__class__ is bool:
        return Match(answer, units)
    raise SelectorError(_failure(result, answer), units)


def _failure(result: Any, inner: Any) -> str:
    """Say why a result is no answer; `inner` is what optionals around it hold."""
    if isinstance(result, CelError):
        message = str(result)
        return message + HINT if "no such key:" in message else message
    reason = messages.inconvertible(inner, "bool")
    return f"CEL result of type {operators.type_name(result)} could not be converted to bool: {reason}"


def compile_selector(expression: str, environment: Environment | None = None) -> Selector:
    """Compile an expression. Raises CompileError.

    The environment is that of stored expressions unless another one is given (`environment.new_expressions`).
    """
    known = stored_expressions() if environment is None else environment
    if len(expression) > LONGEST_EXPRESSION:
        raise CompileError(f"expression is longer than {LONGEST_EXPRESSION} characters")
    work.begin()
    try:
        checked = check(parse(expression), known)
        validate(checked)
        type_ = checked.types[checked.root.id]
        if type_ not in (BOOL, _WRAPPED, known.attribute):
            raise CompileError(f"must evaluate to bool or the unknown type, not {type_}")
        planned = plan(checked, known)
    except SourceError as error:
        raise CompileError(f"compilation failed: {error}") from None
    except (InstantiationError, Stopped) as error:
        raise CompileError(f"program instantiation failed: {error}") from None
    except RecursionError:
        raise CompileError("expression nested too deeply") from None
    return Selector(expression, type_, known, planned, compile_plan(planned))
