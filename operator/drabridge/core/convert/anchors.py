"""Which anchors and aliases of a document a change of a PodSpec concerns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from drabridge.core.convert import tree
from drabridge.core.convert.change import QUANTITIES, PodChange
from drabridge.core.convert.documents import Document
from drabridge.core.convert.tree import Node, Path, value_of

_ANCHOR: Final = re.compile(r"(?:![^\s]*\s+)?(&[^\s,\[\]{}]+)")


def concerned(
    document: Document, after: Node | None, subject: Path, path: Path, change: PodChange
) -> Iterator[tuple[str, bool]]:
    """Give each anchor whose value is another one now, and each alias that was written out (True with it), once.

    `document` is that before the change, `after` its root afterwards; the object is at `subject`, its PodSpec at `path`
    in it.
    """
    seen: set[str] = set()
    for where in _paths(change):
        at = (*subject, *path, *where)
        before, now = tree.find(document.root, at), tree.find(after, at)
        if before is None or now is None:
            continue
        text = document.chunk.text
        if isinstance(before, tree.Alias):
            name, is_concerned = text[before.start : before.end], not isinstance(now, tree.Alias)
        elif found := _ANCHOR.match(text, before.start):
            name, is_concerned = found[1], value_of(before) != value_of(now)
        else:
            continue
        if is_concerned and name not in seen:
            seen.add(name)
            yield name, name.startswith("*")


def _paths(change: PodChange) -> Iterator[Path]:
    """What a change may reach in a PodSpec, from the outside to the inside."""
    yield ()
    fields = dict.fromkeys(each.path[0] for each in change.containers)
    yield from ((field,) for field in (*fields, "resourceClaims", "tolerations"))
    for each in change.containers:
        yield each.path
        resources = (*each.path, "resources")
        yield resources
        yield from ((*resources, key) for key in (*QUANTITIES, "claims"))
