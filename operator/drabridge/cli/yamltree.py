"""YAML text -> tree, by libyaml, of which the reader of Kubernetes' own tools is a translation.

Events are taken one by one: nothing recurses over foreign input, and no alias is written out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import yaml

from drabridge.core.convert.documents import Unreadable
from drabridge.core.convert.tree import MERGE, Alias, Mapping, Node, Scalar, Sequence, value_of
from drabridge.core.reasons import Reason

MAX_DEPTH: Final = 200
"""Collections inside each other. Schemas of CustomResourceDefinitions, the deepest of manifests, have some 60."""

MAX_EXPANDED: Final = 400_000
"""Nodes of a document once its aliases are written out; Kubernetes' own reader begins to refuse them there."""

_LOADER = getattr(yaml, "CLoader", yaml.Loader)


def parse(text: str) -> Node | None:
    """Read one document; None if there is nothing in it. Raises Unreadable."""
    builder = _Builder(text)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise _broken(text, error.problem or "it is no YAML", mark.index if mark else 0) from error
    except yaml.reader.ReaderError as error:
        problem = f"the character {chr(int(error.character))!a} must not stand in YAML"
        raise _broken(text, problem, int(error.position)) from error
    return builder.finished()


_COLON: Final = re.compile(r"[ \t]*:")

_TEMPLATE: Final = re.compile(
    r"^\s*(?:- +)?\{[{%]|: +\{[{%]|\{\{-|-\}\}|\{\{ *(?:\.|include|template|end)", re.MULTILINE
)
"""What stands in text for Go templates or Jinja: braces as a line or a value of their own. In quotes they are YAML."""

_TEMPLATE_PROBLEM: Final = "there are {{ }} where YAML wants a value"


def _broken(text: str, problem: str, offset: int) -> Unreadable:
    reason = Reason.INVALID_YAML
    if _TEMPLATE.search(text):
        reason, problem = Reason.TEMPLATE_TEXT, _TEMPLATE_PROBLEM
    elif text[offset : offset + 1] == "\t":
        problem = "a tab where YAML wants spaces"
    return Unreadable(reason, problem, text.count("\n", 0, min(offset, len(text))))


def _start(event: yaml.Event) -> int:
    return event.start_mark.index if event.start_mark else 0


def _end(event: yaml.Event) -> int:
    return event.end_mark.index if event.end_mark else 0


@dataclass(slots=True)
class _Builder:
    text: str
    root: Node | None = None
    anchors: dict[str, Node | None] = field(default_factory=dict)
    open: list[tuple[Mapping | Sequence, str | None, bool]] = field(default_factory=list)
    keys: list[Scalar | None] = field(default_factory=list)
    seen: list[set[str]] = field(default_factory=list)
    repeated: list[Scalar] = field(default_factory=list)
    documents: int = 0

    def finished(self) -> Node | None:
        if self.repeated and isinstance(self.root, Mapping):
            self.root.repeated = tuple(self.repeated)
        return self.root

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._finish(event)
        elif isinstance(event, yaml.MappingStartEvent):
            self._begin(Mapping(_start(event), 0, bool(event.flow_style)), event)
            self.keys.append(None)
            self.seen.append(set())
        elif isinstance(event, yaml.SequenceStartEvent):
            self._begin(Sequence(_start(event), 0, bool(event.flow_style)), event)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.DocumentStartEvent):
            self.documents += 1
            if self.documents > 1:
                raise self._error(Reason.INVALID_YAML, "a second document begins without ---", _start(event))

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        start, end = _start(event), _end(event)
        if event.style in ("|", ">"):
            end = self._block_end(start, end)
        scalar = Scalar(start, end, event.value, not event.style, None if event.tag in (None, "!") else event.tag)
        if event.anchor:
            self.anchors[event.anchor] = scalar
        self._put(scalar)

    def _begin(self, node: Mapping | Sequence, event: yaml.CollectionStartEvent) -> None:
        if len(self.open) >= MAX_DEPTH:
            raise self._error(Reason.INVALID_YAML, f"more than {MAX_DEPTH} levels", _start(event))
        if event.anchor:
            self.anchors[event.anchor] = None  # not before it is complete
        self.open.append((node, event.anchor, bool(event.flow_style)))

    def _finish(self, event: yaml.CollectionEndEvent) -> None:
        node, anchor, flow = self.open.pop()
        if isinstance(node, Mapping):
            self.keys.pop()
            self.seen.pop()
            last: Node | None = node.entries[-1][1] if node.entries else None
            if isinstance(last, Scalar) and last.start == last.end:
                last = Scalar(0, self._after_colon(node.entries[-1][0]), "", plain=True)
        else:
            last = node.items[-1] if node.items else None
        node.end = _end(event) if flow or last is None else last.end
        if node.size > MAX_EXPANDED:
            problem = f"it has more than {MAX_EXPANDED} nodes with its aliases written out"
            raise self._error(Reason.ALIAS_BOMB, problem, node.start)
        if anchor:
            self.anchors[anchor] = node
        self._put(node)

    def _alias(self, event: yaml.AliasEvent) -> None:
        target = self.anchors.get(event.anchor or "")
        if target is None or isinstance(target, Alias):
            known = event.anchor in self.anchors
            problem = f"the alias *{event.anchor} " + ("stands inside what it means" if known else "has no anchor")
            raise self._error(Reason.INVALID_YAML, problem, _start(event))
        self._put(Alias(_start(event), _end(event), target))

    def _put(self, node: Node) -> None:
        if not self.open:
            self.root = node
            return
        parent = self.open[-1][0]
        if isinstance(parent, Sequence):
            parent.items.append(node)
        else:
            key = self.keys[-1]
            if key is None:
                self.keys[-1] = self._key(node)
                return
            if key.value in self.seen[-1]:
                self._repeat(parent, key, node)
            self.seen[-1].add(key.value)
            parent.entries.append((key, node))
            self.keys[-1] = None
        target = node.target if isinstance(node, Alias) else node
        parent.size += 1 if isinstance(target, Scalar) else target.size

    def _key(self, node: Node) -> Scalar:
        if not isinstance(node, Scalar):
            if self.text.startswith("{", node.start):
                raise self._error(Reason.TEMPLATE_TEXT, _TEMPLATE_PROBLEM, node.start)
            raise self._error(Reason.INVALID_YAML, "a key that is no text", node.start)
        return node

    def _repeat(self, parent: Mapping, key: Scalar, node: Node) -> None:
        """A key that stands twice: readers take the one or the other, which is the same if both say the same."""
        found = parent.own(key.value)
        if found is None or key.value == MERGE or value_of(found[2]) != value_of(node):
            problem = f"the key {key.value[:80]!a} stands there twice, with different values"
            raise self._error(Reason.DUPLICATE_KEY, problem, key.start)
        self.repeated.append(key)

    def _error(self, reason: Reason, problem: str, offset: int) -> Unreadable:
        return Unreadable(reason, problem, self.text.count("\n", 0, offset))

    def _block_end(self, start: int, end: int) -> int:
        """The mark is behind all empty lines; those belong to the text only where it says so (`|+`)."""
        text = self.text
        header = text[start : text.find("\n", start)]
        if "+" in header.partition("#")[0].rpartition("|")[2] or "+" in header.partition("#")[0].rpartition(">")[2]:
            while end > start and text[end - 1] not in "\r\n":
                end -= 1
            return end - 1 if text[end - 1 : end] == "\n" else end
        while end > start and text[end - 1] in " \t\r\n":
            end -= 1
        return end

    def _after_colon(self, key: Scalar) -> int:
        """Where a value would stand that is not there; `{key}` has not even a colon."""
        match = _COLON.match(self.text, key.end)
        return match.end() if match else key.end
