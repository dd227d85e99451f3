"""Checks of literals that upstream adds to the checker's (cel-go's AST validators).

Durations, timestamps and patterns must be readable, the elements of a list or map literal must be of one type, and
format() must suit its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from drabridge.core.cel import ast, conversions, regex
from drabridge.core.cel.checker import Checked
from drabridge.core.cel.diagnostics import Issue, SourceError
from drabridge.core.cel.library.formatting import FormatArgument, check_format
from drabridge.core.cel.types import Type
from drabridge.core.cel.unification import described, equivalent
from drabridge.core.cel.values import CelError

_READERS: Final[dict[str, Callable[[Any], object]]] = {
    "duration": conversions.to_duration,
    "timestamp": conversions.to_timestamp,
    "matches": regex.pattern,
}


def validate(checked: Checked) -> None:
    """Check the literals of an expression. Raises SourceError with all that is wrong."""
    nodes = tuple(ast.walk(checked.root))
    exempt = _in_format_calls(nodes)
    issues: list[Issue] = []
    for node in nodes:
        match node:
            case ast.Call():
                issues.extend(_unreadable(checked, node))
                issues.extend(_misfit(checked, node))
            case ast.ListLiteral() if node.id not in exempt:
                elements = ((element, i in node.optionals) for i, element in enumerate(node.elements))
                issues.extend(list(_mixed(checked, elements))[:1])
            case ast.MapLiteral() if node.id not in exempt:
                issues.extend(_mixed(checked, ((entry.key, False) for entry in node.entries)))
                issues.extend(_mixed(checked, ((entry.value, entry.optional) for entry in node.entries)))
    if issues:
        raise SourceError(checked.parsed.source, issues)


def _unreadable(checked: Checked, node: ast.Call) -> Iterator[Issue]:
    """Look at the first argument if it is a literal.

    For matches() that is the pattern of `text.matches(pattern)` and the text of `matches(text, pattern)`; upstream does
    not tell them apart.
    """
    read = _READERS.get(node.function)
    literal = node.args[0] if node.args else None
    if read is None or not isinstance(literal, ast.Literal):
        return
    if node.function == "matches" and not isinstance(literal.value, str):
        return
    try:
        read(literal.value)
    except (CelError, regex.InvalidRegex):
        yield Issue(checked.parsed.offsets[literal.id], f"invalid {node.function} argument")


def _mixed(checked: Checked, nodes: Iterable[tuple[ast.Node, bool]]) -> Iterator[Issue]:
    """Compare the types of a literal's elements with that of the first one; dyn is a type like others here."""
    expected: Type | None = None
    for node, optional in nodes:
        type_ = checked.types[node.id]
        if optional and type_.args:
            type_ = type_.args[0]
        if expected is None:
            expected = type_
        elif not equivalent(expected, type_):
            text = f"expected type '{described(expected)}' but found '{described(type_)}'"
            yield Issue(checked.parsed.offsets[node.id], text)


def _in_format_calls(nodes: Iterable[ast.Node]) -> set[int]:
    """Find the nodes below calls of format(), whose arguments may be of any types."""
    found: set[int] = set()
    for node in nodes:  # parents come first
        if node.id in found or (isinstance(node, ast.Call) and node.function == "format"):
            found.update(child.id for child in ast.children(node))
    return found


def _misfit(checked: Checked, node: ast.Call) -> Iterator[Issue]:
    """Check a literal format against a literal list of arguments."""
    text = node.target
    if node.function != "format" or not isinstance(text, ast.Literal) or not isinstance(text.value, str):
        return
    arguments = node.args[0]
    if not isinstance(arguments, ast.ListLiteral):
        return
    fault = check_format(text.value, [_argument(checked, element) for element in arguments.elements])
    if fault is not None:
        place = node if fault.node is None else fault.node
        yield Issue(checked.parsed.offsets[place.id], fault.message)


def _argument(checked: Checked, node: ast.Node) -> FormatArgument:
    type_ = checked.types[node.id]
    if type_.name == "wrapper":
        type_ = type_.args[0]
    parts: tuple[ast.Node, ...] = ()
    if isinstance(node, ast.ListLiteral | ast.MapLiteral):
        parts = tuple(ast.children(node))
    return FormatArgument(node, type_, tuple(_argument(checked, part) for part in parts))
