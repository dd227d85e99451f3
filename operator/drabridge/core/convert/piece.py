"""A document on its way through a conversion, and changes of it that are made only where they do no harm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from drabridge.core.convert import backward, tree, versions
from drabridge.core.convert.change import PodChange, PodText
from drabridge.core.convert.documents import Document, Object, Parse, Unreadable, list_indent
from drabridge.core.convert.edits import Edit, Layout, Unsafe, applied
from drabridge.core.convert.findings import Finding, Outcome, dotted
from drabridge.core.convert.forward import Remark
from drabridge.core.convert.serving import Serving
from drabridge.core.convert.shape import Template
from drabridge.core.convert.tree import Path, value_of

TEMPLATE_KIND: Final = "ResourceClaimTemplate"


class Direction(StrEnum):
    """Which way a conversion goes."""

    FORWARD = "forward"
    REVERSE = "reverse"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What is the same for all files of a run.

    `templates` are those of all files. `collect`: templates are gathered for a file of their own instead of standing
    before the first document that uses them. `namespace` is that of the Pods of objects that have none themselves.
    `used` are the templates that stay in use after the way back; None keeps all of them.
    """

    serving: Serving
    parse: Parse
    direction: Direction = Direction.FORWARD
    templates: backward.Templates = field(default_factory=dict)
    collect: bool = False
    namespace: str = ""
    used: frozenset[tuple[str, str]] | None = None


@dataclass(slots=True)
class Run:
    """The state of one file on its way. `single_json`: it is one JSON value, without any `---`."""

    conversion: Conversion
    newline: str
    single_json: bool
    present: dict[tuple[str, str], dict[str, Any]]
    findings: list[Finding] = field(default_factory=list)
    collected: dict[tuple[str, str], Template] = field(default_factory=dict)


@dataclass(slots=True)
class Piece:
    """A document on its way: `text`, `root` and `value` as they are by now, and what is to stand before it."""

    document: Document
    text: str
    root: tree.Node | None
    value: Any
    before: list[Template] = field(default_factory=list)
    removed: bool = False


def at(value: Any, path: Path) -> Any:
    """Give the value at a path that is there."""
    for step in path:
        value = value[step]
    return value


@dataclass(slots=True)
class Step:
    """One object of a document, and the tools that both ways need."""

    run: Run
    piece: Piece
    object: Object

    def say(self, outcome: Outcome, remark: Remark, path: Path = ()) -> None:
        """Note a finding; the line is that of the document before any change."""
        where = (*path, *remark.path)
        node = tree.find(self.piece.document.root, (*self.object.path, *where))
        line = self.piece.document.line_of(node)
        if node is None:
            line = self.piece.document.line_of(tree.find(self.piece.document.root, self.object.path))
        described = self.object.described
        self.run.findings.append(Finding(outcome, remark.reason, line, described, dotted(where), remark.detail))

    def namespace(self) -> str:
        """Where the Pods run that the object describes; "" where that is left open."""
        if self.object.kind.startswith("Cluster") and not self.object.namespace:
            return self.run.conversion.namespace
        return self.object.namespace

    def layout(self) -> Layout:
        """The piece's text as it is by now."""
        text = self.piece.text
        return Layout(text, self.run.newline, list_indent(self.piece.root, text), self.piece.document.json)

    def edit(self, changes: Mapping[Path, PodChange]) -> bool:
        """Change PodSpecs of the object, at paths from its root. False, and nothing happens, where that is unsafe.

        All of them at once: several may be one text, by an anchor. In place first; if that would change what others
        mean, with aliases written out.
        """
        expected = self.piece.value
        for path, change in changes.items():
            where = (*self.object.path, *path)
            expected = versions.replaced(expected, where, change.spec(at(expected, where)))
        texts = (self._edited(changes, write_out=write_out) for write_out in (False, True))
        return any(text is not None and self.accept(text, expected) for text in texts)

    def _edited(self, changes: Mapping[Path, PodChange], *, write_out: bool) -> str | None:
        layout, root = self.layout(), self.piece.root
        if root is None:
            return None
        found: list[Edit] = []
        try:
            for path, change in changes.items():
                where = (*self.object.path, *path)
                found += PodText(layout, root, where, at(self.piece.value, where), write_out).edits(change)
            return applied(layout.text, found)
        except Unsafe:
            return None

    def accept(self, text: str, expected: Any) -> bool:
        """Take the text if it means what it should."""
        try:
            root = self.run.conversion.parse(text)
        except Unreadable:
            return False
        if value_of(root) != expected:
            return False
        self.piece.text, self.piece.root, self.piece.value = text, root, expected
        return True
