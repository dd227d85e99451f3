"""Derived attributes: expressions that make a value of a device, for constraints (DRADerivedAttributes)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from drabridge.core.cel import cost
from drabridge.core.cel.checker import check
from drabridge.core.cel.compiler import Compiled, compile_plan
from drabridge.core.cel.device import DeviceView
from drabridge.core.cel.diagnostics import SourceError
from drabridge.core.cel.environment import Environment, stored_expressions
from drabridge.core.cel.parser import parse
from drabridge.core.cel.plan import Halted, Plan
from drabridge.core.cel.planner import InstantiationError, plan
from drabridge.core.cel.selector import LONGEST_EXPRESSION, CompileError, SelectorError
from drabridge.core.cel.types import ANY, BOOL, DYN, INT, STRING, Type
from drabridge.core.cel.validation import validate
from drabridge.core.cel.values import CelError, Optional

_SCALARS: Final = frozenset({BOOL, INT, STRING, DYN, ANY, Type("kubernetes.Semver")})


@dataclass(frozen=True, slots=True)
class DerivedExpression:
    """A compiled expression whose result is a scalar or a list of scalars, as far as its type says."""

    expression: str
    type: Type
    _plan: Plan
    _compiled: Compiled | None

    def evaluate(self, view: DeviceView, *, limit: int = cost.LIMIT) -> Any:
        """Return the value of the expression on a device. Raises SelectorError with upstream's text."""
        if self._compiled is not None:
            try:
                result, units = self._compiled(view.fields, limit, None)
                if units <= limit and not isinstance(result, Optional):
                    return result
            except Exception:  # noqa: S110 -- whatever it was, the plan finds out what there is to say
                pass
        try:
            result, units = self._plan.evaluate(view.fields, limit, None)
        except Halted as halted:
            raise SelectorError(str(halted), halted.cost) from None
        if isinstance(result, CelError):
            raise SelectorError(str(result), units)
        while isinstance(result, Optional):
            if not result.present:
                raise SelectorError("optional.none() dereference", units)
            result = result.value
        return result


def compile_derived(expression: str, environment: Environment | None = None) -> DerivedExpression:
    """Compile the expression of a derived attribute. Raises CompileError."""
    known = stored_expressions() if environment is None else environment
    if len(expression) > LONGEST_EXPRESSION:
        raise CompileError(f"expression is longer than {LONGEST_EXPRESSION} characters")
    try:
        checked = check(parse(expression), known)
        validate(checked)
        type_ = checked.types[checked.root.id]
        if not _is_attribute(type_, known):
            raise CompileError(
                "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these scalars, "
                f"not {type_}"
            )
        planned = plan(checked, known)
    except SourceError as error:
        raise CompileError(f"compilation failed: {error}") from None
    except InstantiationError as error:
        raise CompileError(f"program instantiation failed: {error}") from None
    except RecursionError:
        raise CompileError("expression nested too deeply") from None
    return DerivedExpression(expression, type_, planned, compile_plan(planned))


def _is_attribute(type_: Type, known: Environment) -> bool:
    element = type_.args[0] if type_.name == "list" else type_
    return element in _SCALARS or element == known.attribute
