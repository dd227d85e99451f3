"""The documents of a text, and the Kubernetes objects in them."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from drabridge.core.convert.tree import Mapping, Node, Path, Sequence, followed, value_of
from drabridge.core.reasons import Reason

_SEPARATOR = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)


class Unreadable(Exception):
    """A document is no YAML, or none that can be worked on. `line` counts from 0, in the text that was given."""

    def __init__(self, reason: Reason, problem: str, line: int) -> None:
        super().__init__(reason, problem, line)
        self.reason = reason
        self.problem = problem
        self.line = line


Parse = Callable[[str], Node | None]
"""Reads one document; None if there is nothing in it. Raises Unreadable."""


@dataclass(frozen=True, slots=True)
class Object:
    """A Kubernetes object; `path` leads to it from the root of its document (an item of a List has one)."""

    path: Path
    value: dict[str, Any]

    @property
    def api_version(self) -> str:
        """The `apiVersion` as written."""
        return str(self.value.get("apiVersion") or "")

    @property
    def group(self) -> str:
        """The API group; "" for the core."""
        group, slash, _ = self.api_version.partition("/")
        return group if slash else ""

    @property
    def kind(self) -> str:
        """The kind as written."""
        return str(self.value.get("kind") or "")

    @property
    def namespace(self) -> str:
        """The namespace as written; "" where the one counts that the object is applied to."""
        return _meta(self.value, "namespace")

    @property
    def name(self) -> str:
        """The name as written; "" if it has none."""
        return _meta(self.value, "name")

    @property
    def described(self) -> str:
        """How messages name it: "Deployment shop/web"."""
        name = self.name or (_meta(self.value, "generateName") + "*")
        return f"{self.kind} {self.namespace}/{name}" if self.namespace else f"{self.kind} {name}"


def _meta(value: dict[str, Any], key: str) -> str:
    metadata = value.get("metadata")
    found = metadata.get(key) if isinstance(metadata, dict) else None
    return "" if found is None else str(found)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A document's text from its `---` on, and where it begins in the whole text."""

    start: int
    text: str
    line: int

    @property
    def end(self) -> int:
        """Where the next one begins."""
        return self.start + len(self.text)


def chunks(text: str) -> list[Chunk]:
    """Cut a text at its `---` lines: those end a document wherever they stand, so a broken one harms no other."""
    cuts = [match.start() for match in _SEPARATOR.finditer(text)]
    starts = sorted({0, *cuts})
    found: list[Chunk] = []
    start, line = 0, 0
    for following in [*starts[1:], len(text)]:
        part = text[start:following]
        if following < len(text) and _is_preface(part):
            continue  # directives belong to the document that they stand before
        found.append(Chunk(start, part, line))
        line += part.count("\n")
        start = following
    return found


def _is_preface(part: str) -> bool:
    """Whether there are directives (`%YAML 1.2`) and nothing else but comments."""
    lines = part.splitlines() if "%" in part else []
    return any(line.startswith("%") for line in lines) and all(not line.strip() or line[0] in "%#" for line in lines)


@lru_cache(maxsize=4)
def _line_ends(text: str) -> list[int]:
    """Where the line feeds of a document are; asked for often, and of one document at a time."""
    return [match.start() for match in re.finditer("\n", text)]


@dataclass(frozen=True, slots=True)
class Document:
    """A document that could be read: `root` stands in `chunk.text`, and `value` is what it means."""

    chunk: Chunk
    root: Node | None
    value: Any

    @classmethod
    def read(cls, chunk: Chunk, parse: Parse) -> Document:
        """Read a chunk. Raises Unreadable, with the line in the whole text."""
        try:
            root = parse(chunk.text)
        except Unreadable as problem:
            raise Unreadable(problem.reason, problem.problem, chunk.line + problem.line) from problem
        return cls(chunk, root, value_of(root))

    def objects(self) -> Iterator[Object]:
        """Give the Kubernetes objects: the document itself, or the items of a List."""
        if not isinstance(self.value, dict) or not _is_object(self.value):
            return
        items = self.value.get("items")
        if str(self.value["kind"]).endswith("List") and isinstance(items, list):
            for i, item in enumerate(items):
                if isinstance(item, dict) and _is_object(item):
                    yield Object(("items", i), item)
        else:
            yield Object((), self.value)

    def line_of(self, node: Node | None) -> int:
        """The line of a node in the whole text, from 1 on."""
        offset = node.start if node is not None else 0
        return self.chunk.line + bisect_left(_line_ends(self.chunk.text), offset) + 1

    @property
    def json(self) -> bool:
        """Whether it is written as JSON: braces around it, and keys in double quotes."""
        root = followed(self.root)
        if isinstance(root, Mapping) and root.flow and root.entries:
            return not root.entries[0][0].plain and self.chunk.text[root.entries[0][0].start] == '"'
        return False


def list_indent(root: Node | None, text: str) -> int:
    """How far lists stand in from their key, as the first one of a document has it; 0 where there is none."""
    pending: list[Node | None] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, Sequence):
            pending += reversed(node.items)
        if not isinstance(node, Mapping):
            continue
        for key, value in node.entries:
            if isinstance(value, Sequence) and not value.flow and value.items:
                dash = text.rfind("-", 0, value.items[0].start)
                indent = dash - text.rfind("\n", 0, dash) - (key.start - text.rfind("\n", 0, key.start))
                return indent if 0 <= indent <= 8 else 0
        pending += [value for _, value in reversed(node.entries)]
    return 0


def _is_object(value: dict[str, Any]) -> bool:
    return isinstance(value.get("apiVersion"), str) and isinstance(value.get("kind"), str)
