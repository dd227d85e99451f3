"""`drabridge select --jsonl`: questions about selectors, one JSON object a line, each answered by one line.

A question has `expression`, and may have `name`, `driver` (""), `device` ({}, resource.k8s.io/v1) and the environment:
`newExpressions` for that of admission, with `enableConsumableCapacity` and `enableListTypeAttributes` as its gates
(true unless they are false). The texts of errors are those of k8s.io/dynamic-resource-allocation/cel, without advice.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Final, TextIO

from drabridge.cli.sources import STDIN
from drabridge.core.cel.device import BadDevice, DeviceView
from drabridge.core.cel.environment import new_expressions, stored_expressions
from drabridge.core.cel.selector import HINT, CompileError, Selector, SelectorError, compile_selector
from drabridge.core.errors import InvalidInput, quoted
from drabridge.core.resourceslice import device_faults

Answer = dict[str, Any]

_GATES: Final = ("enableConsumableCapacity", "enableListTypeAttributes")
_COMPILED: Final = 256
"""Selectors that are kept for the questions to come."""


def run(paths: Iterable[str], output: TextIO) -> int:
    """Answer all lines of all files; give the exit code: 2 if a line was no question, else 0."""
    code = 0
    with ExitStack() as stack:
        for path in paths:
            try:
                lines: IO[bytes] = sys.stdin.buffer if path == STDIN else stack.enter_context(Path(path).open("rb"))
                given = _answers(lines)
                for answer in given:
                    code = 2 if answer.get("stage") == "input" else code
                    output.write(json.dumps(answer) + "\n")
                    output.flush()  # whoever asks may wait for the answer before the next question
            except OSError as error:
                if isinstance(error, BrokenPipeError):
                    raise
                problem = (error.strerror or str(error)).lower()
                sys.stderr.write(f"drabridge: {InvalidInput(path, '', problem, 'name a file that can be read')}\n")
                code = 2
    return code


def _answers(lines: Iterable[bytes]) -> Iterator[Answer]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _answer(line, f"line {number}", number)


def _answer(line: bytes, where: str, number: int) -> Answer:
    question: Any = None
    try:
        question = _question(line, where)
        return _named(question) | _evaluated(question, where)
    except InvalidInput as error:
        return _named(question) | {"line": number, "error": str(error), "stage": "input"}


def _named(question: Any) -> Answer:
    return {"name": question["name"]} if isinstance(question, Mapping) and "name" in question else {}


def _question(line: bytes, where: str) -> Mapping[str, Any]:
    """Read a line. Raises InvalidInput if it is no JSON object."""
    cure = 'write {"name": …, "expression": …, "driver": …, "device": …}'
    try:
        loaded = json.loads(line.decode())
    except UnicodeDecodeError as error:
        raise InvalidInput(where, "", f"byte {error.start} is no UTF-8", cure) from None
    except RecursionError:
        raise InvalidInput(where, "", "it is nested too deeply", cure) from None
    except ValueError as error:
        raise InvalidInput(where, "", f"it is no JSON: {error}", cure) from None
    if not isinstance(loaded, Mapping):
        raise InvalidInput(where, "", f"is {quoted(loaded)}, not an object", cure)
    return loaded


def _evaluated(question: Mapping[str, Any], where: str) -> Answer:
    """Answer a question. Raises InvalidInput if a field of it is broken."""
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
