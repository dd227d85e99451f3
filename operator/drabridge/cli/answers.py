"""`drabridge select --jsonl`: questions about selectors, one JSON object a line, each answered by one line.

A question has `expression`, and may have `name`, `driver` (""), `device` ({}, resource.k8s.io/v1) and the environment:
`newExpressions` for that of admission, with `enableConsumableCapacity` and `enableListTypeAttributes` as its gates
(true unless they are false). `src` and `truth`, which collections of questions have, are not looked at; any other field
is refused, as it may be one of these that is misspelt. The texts of errors are those of
k8s.io/dynamic-resource-allocation/cel, without advice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from drabridge.cli import jsonlines
from drabridge.cli.jsonlines import BadLine
from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.environment import new_expressions, stored_expressions
from drabridge.core.cel.selector import HINT, CompileError, Selector, SelectorError, compile_selector
from drabridge.core.errors import InvalidInput, quoted
from drabridge.core.resourceslice import device_faults

Answer = dict[str, Any]

_GATES: Final = ("enableConsumableCapacity", "enableListTypeAttributes")
_FIELDS: Final = ("name", "expression", "driver", "device", "newExpressions", *_GATES)
_NOTES: Final = frozenset({"src", "truth"})
_COMPILED: Final = 256
"""Selectors that are kept for the questions to come."""


def answer(line: bytes, number: int) -> tuple[bool, str]:
    """Answer a line, for `jsonlines.run`."""
    where = f"line {number}"
    question: Any = None
    try:
        question = _question(line, where)
        return False, json.dumps(_named(question) | _evaluated(question, where))
    except InvalidInput as error:
        return True, json.dumps(_named(question) | {"line": number, "error": str(error), "stage": "input"})


def _named(question: Any) -> Answer:
    return {"name": question["name"]} if isinstance(question, Mapping) and "name" in question else {}


def _question(line: bytes, where: str) -> Mapping[str, Any]:
    """Read a line. Raises InvalidInput if it is no JSON object."""
    cure = 'write {"name": …, "expression": …, "driver": …, "device": …}'
    try:
        question = jsonlines.loaded(line)
    except BadLine as bad:
        raise InvalidInput(where, "", str(bad), cure) from None
    if not isinstance(question, Mapping):
        raise InvalidInput(where, "", f"is {quoted(question)}, not an object", cure)
    return question


def _check_fields(question: Mapping[str, Any], where: str) -> None:
    """Raise InvalidInput for a field that is none of a question's."""
    for name in question:
        if name not in _FIELDS and name not in _NOTES:
            raise InvalidInput(where, name, "there is no such field", f"the fields are {', '.join(_FIELDS)}")


def _evaluated(question: Mapping[str, Any], where: str) -> Answer:
    """Answer a question. Raises InvalidInput if a field of it is broken."""
    _check_fields(question, where)
    expression = _text(question, "expression", where, None)
    driver = _text(question, "driver", where, "")
    device = question.get("device")
    device = {} if device is None else device
    if faults := device_faults(device, where):
        raise faults[0]
    gates = tuple(_gate(question, name, where) is not False for name in _GATES)
    selector = _compiled(expression, gates if _gate(question, "newExpressions", where) else None)
    if isinstance(selector, CompileError):
        return {"error": str(selector), "stage": "compile"}
    try:
        match = selector.matches(DeviceView.of(driver, device))
    except BadDevice as error:
        return {"error": str(error), "stage": "runtime"}
    except SelectorError as error:
        return {"error": str(error).removesuffix(HINT), "stage": "runtime", "cost": {"actual": error.cost}}
    return {"match": match.matched, "cost": {"actual": match.cost}}


@lru_cache(maxsize=_COMPILED)
def _compiled(expression: str, gates: tuple[bool, ...] | None) -> Selector | CompileError:
    """Compile an expression, or say why not; `gates` are those of admission, None for stored expressions."""
    if gates is None:
        environment = stored_expressions()
    else:
        environment = new_expressions(consumable_capacity=gates[0], list_attributes=gates[1])
    try:
        return compile_selector(expression, environment)
    except CompileError as error:
        return error


def _text(question: Mapping[str, Any], name: str, where: str, default: str | None) -> str:
    value = question.get(name)
    if value is None and default is not None:
        return default
    if isinstance(value, str):
        return value
    problem = "is missing" if value is None else f"is {quoted(value)}, not a text"
    raise InvalidInput(where, name, problem, "write a text")


def _gate(question: Mapping[str, Any], name: str, where: str) -> bool | None:
    value = question.get(name)
    if value is None or value.__class__ is bool:
        return bool(value) if value is not None else None
    raise InvalidInput(where, name, f"is {quoted(value)}", "write true or false")
