"""Our CEL, asked and answering as the oracle is: see upstream.cel."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from drabridge.core.cel import cost
from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.environment import Environment as Names
from drabridge.core.cel.environment import new_expressions, stored_expressions
from drabridge.core.cel.selector import HINT, CompileError, Match, Selector, SelectorError, compile_selector
from upstream.cel import Answer, Environment, Question


def ask(question: Question) -> Answer:
    """Give our answer. Its stage is "crash" where something was raised that is none of our errors."""
    return _guarded(question, Selector.matches)


def ask_slowly(question: Question) -> Answer:
    """Give the answer of the plan that the compiled function was made of, and from which it must not differ."""
    return _guarded(question, lambda selector, view: selector.walk(view, cost.LIMIT, None))


def _guarded(question: Question, evaluate: Callable[[Selector, DeviceView], Match]) -> Answer:
    try:
        return _ask(question, evaluate)
    except Exception as crash:
        where = traceback.extract_tb(crash.__traceback__)[-1]
        text = f"{type(crash).__name__}: {str(crash)[:200]} ({Path(where.filename).name}:{where.lineno})"
        return Answer(None, text, "crash")


def _ask(question: Question, evaluate: Callable[[Selector, DeviceView], Match]) -> Answer:
    try:
        selector = compile_selector(question.expression, names(question.environment))
        view = DeviceView.of(question.driver, question.device)
        match = evaluate(selector, view)
    except CompileError as error:
        return Answer(None, str(error), "compile")
    except BadDevice as error:
        return Answer(None, str(error), "runtime")
    except SelectorError as error:
        if error.__cause__ is not None:
            raise error.__cause__ from None
        return Answer(None, str(error).removesuffix(HINT), "runtime", error.cost)
    return Answer(match.matched, cost=match.cost)


def names(environment: Environment) -> Names:
    if not environment.new_expressions:
        return stored_expressions()
    return new_expressions(
        consumable_capacity=environment.enable_consumable_capacity,
        list_attributes=environment.enable_list_type_attributes,
    )
