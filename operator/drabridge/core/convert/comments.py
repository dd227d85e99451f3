"""Comments of a text, told from what only looks like one by the nodes that stand there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from drabridge.core.convert import tree
from drabridge.core.convert.tree import Node

_COMMENT: Final = re.compile(r"(?<![^\s\[\]{},:])#[^\r\n]*")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment and where it begins."""

    start: int
    text: str

    @property
    def end(self) -> int:
        """Where its line ends."""
        return self.start + len(self.text)


def within(text: str, start: int, end: int, nodes: Iterable[Node]) -> list[Comment]:
    """Give the comments between two offsets; `nodes` are all that stand there, keys included."""
    found: list[Comment] = []
    position = start
    spans = sorted(span for node in nodes for span in _scalars(node) if start <= span[0] < end)
    for begin, stop in [*spans, (end, end)]:
        while comment := _COMMENT.search(text, position, max(begin, position)):
            # its own end: `search` would cut it at the next scalar, which never stands in a comment
            found.append(Comment(comment.start(), comment[0].rstrip()))
            position = comment.end()
        position = max(position, stop)
    return found


def _scalars(node: Node) -> Iterator[tuple[int, int]]:
    """Where the scalars and aliases of a node are."""
    pending: list[Node] = [node]
    while pending:
        each = pending.pop()
        if isinstance(each, tree.Mapping):
            for key, value in each.entries:
                pending += [key, value]
        elif isinstance(each, tree.Sequence):
            pending += each.items
        elif each.end > each.start:
            yield each.start, each.end
