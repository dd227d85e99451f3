"""Expressions of selectors and derived attributes: compiled once, and what of a device they can see."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from drabridge.core.allocation.kinds import UNKNOWN, Attribute
from drabridge.core.cel import cost
from drabridge.core.cel.ast import Call, Ident, Literal, Node, Select, children
from drabridge.core.cel.derived import DerivedExpression, compile_derived
from drabridge.core.cel.device import DeviceView
from drabridge.core.cel.diagnostics import SourceError
from drabridge.core.cel.parser import parse
from drabridge.core.cel.selector import CompileError, Selector, SelectorError, compile_selector
from drabridge.core.cel.semver import Semver
from drabridge.core.cel.values import Uint


@lru_cache(maxsize=2048)
def selector_of(expression: str) -> Selector | CompileError:
    """Compile a selector; the error is a value, since upstream reports it only when a device is looked at."""
    try:
        return compile_selector(expression)
    except CompileError as error:
        return error


@lru_cache(maxsize=1024)
def derived_of(expression: str) -> DerivedExpression | CompileError:
    """Compile the expression of a derived attribute."""
    try:
        return compile_derived(expression)
    except CompileError as error:
        return error


class DerivedProblem(Exception):
    """A derived attribute that has no value; the text is upstream's cause."""


_GO_TYPES: Final[dict[type, str]] = {
    float: "float64",
    Uint: "uint64",
    bytes: "[]uint8",
    type(None): "structpb.NullValue",
}


def evaluate_derived(expression: DerivedExpression, view: DeviceView) -> Attribute:
    """Return the attribute that an expression makes of a device. Raises DerivedProblem."""
    try:
        value = expression.evaluate(view, limit=cost.LIMIT)
    except SelectorError as error:
        raise DerivedProblem(str(error)) from None
    if isinstance(value, list | tuple):
        return _list(value)
    kind = _kind(value)
    if kind is None:
        raise DerivedProblem(f"unsupported CEL return type: {_go_type(value)}")
    return Attribute(kind, frozenset((_plain(value),)), False)


def _list(values: Any) -> Attribute:
    if not values:
        return UNKNOWN
    kind = _kind(values[0])
    if kind is None:
        raise DerivedProblem(f"unsupported list element type: {_go_type(values[0])}")
    for index, value in enumerate(values):
        if _kind(value) != kind:
            raise DerivedProblem(
                f"expected list element at index {index} to be {_expected(kind)}, got {_go_type(value)}"
            )
    return Attribute(kind, frozenset(map(_plain, values)), True)


def _kind(value: Any) -> str | None:
    return {bool: "bool", int: "int", str: "string", Semver: "version"}.get(value.__class__)


def _expected(kind: str) -> str:
    return "semver" if kind == "version" else kind


def _go_type(value: Any) -> str:
    kind = _kind(value)
    if kind is not None:
        return {"version": "semver.Version", "int": "int64"}.get(kind, kind)
    name: str = _GO_TYPES.get(value.__class__, getattr(value, "go_type", value.__class__.__name__))
    return name


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Semver) else value


Read = tuple[str, str]
"""(domain, identifier) of an attribute."""


@lru_cache(maxsize=2048)
def attributes_read(expression: str) -> frozenset[Read] | None:
    """Return the attributes that an expression can see; None if that cannot be told from its text.

    An expression that does not parse sees nothing.
    """
    try:
        root = parse(expression).root
    except SourceError:
        return frozenset()
    except RecursionError:
        return None
    found: set[Read] = set()
    pending: list[Node] = [root]
    while pending:
        node = pending.pop()
        step = _access(node)
        if step is None:
            return None
        read, rest = step
        if read is not None:
            found.add(read)
        pending.extend(rest)
    return frozenset(found)


def _access(node: Node) -> tuple[Read | None, tuple[Node, ...]] | None:
    """Return what a node reads, and the nodes to look at next; None if it hands the device itself around."""
    if isinstance(node, Ident):
        return None if node.name.lstrip(".") == "device" else (None, ())
    parts = _path(node)
    if parts is not None:
        match parts:
            case ["driver" | "allowMultipleAllocations"] | ["capacity", *_]:
                return None, ()
            case ["attributes", str(domain), str(identifier), *_]:
                return (domain, identifier), ()
        return None
    return None, tuple(children(node))


_INDEX: Final = frozenset({"_[_]", "_[?_]", "_?._"})


def _path(node: Node) -> list[str] | None:
    """Return the constant steps of `device.x["y"].?z`; None if the node is no such path."""
    steps: list[str] = []
    current: Node | None = node
    while True:
        if isinstance(current, Select):
            steps.append(current.field)
            current = current.operand
        elif isinstance(current, Call) and current.function in _INDEX and current.target is None:
            operand, key = current.args
            if not isinstance(key, Literal) or not isinstance(key.value, str):
                return None
            steps.append(key.value)
            current = operand
        elif isinstance(current, Ident) and current.name.lstrip(".") == "device" and steps:
            return steps[::-1]
        else:
            return None
