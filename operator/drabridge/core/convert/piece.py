"""A document on its way through a conversion, and changes of it that are made only where they do no harm."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from drabridge.core.convert import anchors, backward, tree, versions
from drabridge.core.convert.change import PodChange, PodText
from drabridge.core.convert.documents import Document, Object, Parse, Unreadable, list_indent
from drabridge.core.convert.findings import Finding, Outcome, dotted
from drabridge.core.convert.forward import Remark
from drabridge.core.convert.layout import Edit, Layout, Unsafe, applied
from drabridge.core.convert.serving import Serving
from drabridge.core.convert.shape import Template
from drabridge.core.convert.tree import Path, value_of
from drabridge.core.reasons import Reason

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
    `runtime_class` goes from Pods that are converted: CDI needs none.
    `used` are the templates that stay in use after the way back; None keeps all of them.
    """

    serving: Serving
    parse: Parse
    direction: Direction = Direction.FORWARD
    templates: backward.Templates = field(default_factory=dict)
    collect: bool = False
    namespace: str = ""
    runtime_class: str = ""
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


class Step:
    """One object of a document on its way: first it is decided what changes, then all objects change at once."""

    def __init__(self, run: Run, piece: Piece, subject: Object) -> None:
        self.run = run
        self.piece = piece
        self.object = subject
        self.changes: Mapping[Path, PodChange] = {}

    def decide(self) -> bool:
        """Find out what is to change, and say what is left; whether there is anything to change."""
        raise NotImplementedError

    def done(self) -> None:
        """Say what has changed."""
        raise NotImplementedError

    def failed(self) -> None:
        """Say that it could not be changed."""
        for path in self.changes:
            self.say(Outcome.LEFT, _cannot(self.piece), path)

    def say_anchors(self, path: Path, change: PodChange) -> None:
        """Say which anchors hold something else now, and which aliases were written out, of a PodSpec that changed."""
        for each, written_out in anchors.concerned(
            self.piece.document, self.piece.root, self.object.path, path, change
        ):
            detail = f"the alias {each} is written out" if written_out else f"what {each} holds has changed"
            self.say(Outcome.NOTE, Remark(Reason.ANCHOR_CHANGED, detail), path)

    def edits(self, layout: Layout, root: tree.Node, *, write_out: bool) -> list[Edit]:
        """The changes as edits of the piece's text as it is by now. Raises Unsafe."""
        found: list[Edit] = []
        for path, change in self.changes.items():
            where = (*self.object.path, *path)
            found += PodText(layout, root, where, at(self.piece.value, where), write_out).edits(change)
        return found

    def after(self, value: Any) -> Any:
        """What the document means with the changes."""
        for path, change in self.changes.items():
            where = (*self.object.path, *path)
            value = versions.replaced(value, where, change.spec(at(value, where)))
        return value

    def say(self, outcome: Outcome, remark: Remark, path: Path = ()) -> None:
        """Note a finding; the line is that of the document before any change."""
        where = (*path, *remark.path)
        document = self.piece.document
        node = tree.find(document.root, (*self.object.path, *where)) or tree.find(document.root, self.object.path)
        line, described = document.line_of(node), self.object.described
        self.run.findings.append(Finding(outcome, remark.reason, line, described, dotted(where), remark.detail))

    def namespace(self) -> str:
        """Where the Pods run that the object describes; "" where that is left open."""
        if self.object.kind.startswith("Cluster") and not self.object.namespace:
            return self.run.conversion.namespace
        return self.object.namespace


_ODD_LINE_END: Final = re.compile("\r(?!\n)|[\x85\u2028\u2029]")


def _cannot(piece: Piece) -> Remark:
    """Why a text cannot be changed."""
    if _ODD_LINE_END.search(piece.document.chunk.text):
        return Remark(Reason.LINE_ENDS, "a line ends in something else than a line feed")
    detail = "the text cannot be changed there without changing what something else means"
    return Remark(Reason.EDIT_UNSAFE, detail)


def settle(steps: Sequence[Step]) -> None:
    """Change all objects of a document, or as many as can be without harm.

    All at once, since a document may be a List of thousands; where that would change what somebody else means (of an
    anchor), with aliases written out; then half by half, down to the one that cannot be changed.
    """
    if not steps:
        return
    texts: list[str] = []
    for write_out in (False, True):
        text = _edited(steps, write_out=write_out)
        if text is None or text in texts:
            continue
        texts.append(text)
        expected = steps[0].piece.value
        for step in steps:
            expected = step.after(expected)
        if accept(steps[0].run, steps[0].piece, text, expected):
            for step in steps:
                step.done()
            return
    if len(steps) == 1:
        steps[0].failed()
        return
    middle = len(steps) // 2
    settle(steps[:middle])
    settle(steps[middle:])


def _edited(steps: Sequence[Step], *, write_out: bool) -> str | None:
    piece = steps[0].piece
    if piece.root is None:
        return None
    layout = layout_of(steps[0].run, piece)
    try:
        found = [edit for step in steps for edit in step.edits(layout, piece.root, write_out=write_out)]
        return applied(layout.text, found)
    except Unsafe:
        return None


def layout_of(run: Run, piece: Piece) -> Layout:
    """The piece's text as it is by now."""
    return Layout(piece.text, run.newline, list_indent(piece.root, piece.text), piece.document.json)


def accept(run: Run, piece: Piece, text: str, expected: Any) -> bool:
    """Take the text if it means what it should."""
    try:
        root = run.conversion.parse(text)
    except Unreadable:
        return False
    if value_of(root) != expected:
        return False
    piece.text, piece.root, piece.value = text, root, expected
    return True
