"""A YAML document as a tree of nodes that know where they stand in the text, and the values they mean.

The parser builds it (`cli/yamltree`). Aliases stay aliases here, so a tree is never larger than its text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

Path = tuple[str | int, ...]
"""Where a value is in a document: keys and positions from the root on."""

MERGE: Final = "<<"
STR: Final = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar; `start` and `end` are offsets in the text, the anchor and quotes included."""

    start: int
    end: int
    value: str
    plain: bool
    tag: str | None = None


@dataclass(slots=True, eq=False)
class Mapping:
    """A mapping. `end` is where its last content ends, comments and empty lines behind it not included.

    `repeated`, on the root of a document, are the keys in all of it that stand twice with the same value.
    """

    start: int
    end: int
    flow: bool
    entries: list[tuple[Scalar, Node]] = field(default_factory=list)
    size: int = 1
    repeated: tuple[Scalar, ...] = ()

    def own(self, key: str) -> tuple[int, Scalar, Node] | None:
        """Give position, key and value of an entry that is written in this mapping itself; None if it is not."""
        for position, (scalar, value) in enumerate(self.entries):
            if scalar.value == key:
                return position, scalar, value
        return None

    def get(self, key: str) -> Node | None:
        """Give a value, one that is merged in (`<<`) included; None if there is none."""
        if found := self.own(key):
            return found[2]
        for merged in merges(self):
            if (value := merged.get(key)) is not None:
                return value
        return None


@dataclass(slots=True, eq=False)
class Sequence:
    """A sequence; `end` as of a mapping."""

    start: int
    end: int
    flow: bool
    items: list[Node] = field(default_factory=list)
    size: int = 1


@dataclass(frozen=True, slots=True)
class Alias:
    """An alias and the node that it stands for."""

    start: int
    end: int
    target: Scalar | Mapping | Sequence


Node = Scalar | Mapping | Sequence | Alias


def followed(node: Node | None) -> Scalar | Mapping | Sequence | None:
    """Give what an alias stands for, and everything else as it is."""
    return node.target if isinstance(node, Alias) else node


def merges(mapping: Mapping) -> Iterator[Mapping]:
    """Give the mappings that are merged into this one, the strongest first."""
    if (found := mapping.own(MERGE)) is None:
        return
    value = followed(found[2])
    for each in value.items if isinstance(value, Sequence) else [value]:
        if isinstance(merged := followed(each), Mapping):
            yield merged


def find(root: Node | None, path: Path) -> Node | None:
    """Give the node at `path`, through aliases and merges; None if there is none. The last one may be an alias."""
    node: Node | None = root
    for step in path:
        node = _child(followed(node), step)
    return node


def is_literal(root: Node, path: Path) -> bool:
    """Whether the node at `path` is written where the path says, and is no alias."""
    node: Node | None = root
    for step in path:
        if isinstance(node, Mapping) and isinstance(step, str):
            found = node.own(step)
            node = found[2] if found else None
        else:
            node = _child(node, step) if isinstance(node, Sequence) else None
    return node is not None and not isinstance(node, Alias)


def _child(node: Node | None, step: str | int) -> Node | None:
    if isinstance(node, Mapping) and isinstance(step, str):
        return node.get(step)
    if isinstance(node, Sequence) and isinstance(step, int) and step < len(node.items):
        return node.items[step]
    return None


@dataclass(frozen=True, slots=True)
class Tagged:
    """A value with a tag of its own (`!Ref x`), which means nothing to Kubernetes."""

    tag: str
    value: str


def value_of(node: Node | None) -> Any:
    """Give what a node means: dicts, lists, texts, numbers, booleans and None, fresh ones at each call.

    Plain scalars are resolved as the YAML 1.1 readers of Kubernetes do. Aliases are written out, so only for trees
    whose `size` is bounded.
    """
    node = followed(node)
    if isinstance(node, Scalar):
        return _scalar_value(node)
    if isinstance(node, Sequence):
        return [value_of(item) for item in node.items]
    if node is None:
        return None
    value: dict[str, Any] = {}  # keys are texts once YAML is read as JSON
    for merged in reversed(list(merges(node))):
        value |= value_of(merged)
    for key, each in node.entries:
        if key.value != MERGE or not key.plain:
            value[key.value] = value_of(each)
    return value


_RESOLVED = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float"))
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_INT = re.compile(r"[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|(?:0|[1-9][0-9_]*))")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)"
)


def _scalar_value(node: Scalar) -> Any:
    if node.tag == STR or (node.tag is None and not node.plain):
        return node.value
    if node.tag is None or node.tag in _RESOLVED:
        return plain_value(node.value)
    return Tagged(node.tag, node.value)


def plain_value(text: str) -> Any:
    """Give what a text means that stands in a document without quotes."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] in "+-.0123456789" and len(text) <= 40:  # longer ones are no numbers that anybody counts with
        if _INT.fullmatch(text):
            return _integer(text.replace("_", ""))
        if _FLOAT.fullmatch(text):
            return _float(text.replace("_", ""))
    return text


def _integer(text: str) -> int | str:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    if len(digits) > 1 and digits[0] == "0" and digits[1] not in "xXbBoO":
        digits = "0o" + digits[1:]  # YAML 1.1
    try:
        return sign * int(digits, 0)
    except ValueError:
        return text


def _float(text: str) -> float | str:
    try:
        return float(text.lstrip("+").replace(".inf", "inf").replace(".nan", "nan"))
    except ValueError:
        return text
