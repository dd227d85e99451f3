"""An object on its way from claims to extended resources: what changes in its text, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from drabridge.core.convert import backward, forward, tree
from drabridge.core.convert.change import TOLERATION_MARK, PodChange
from drabridge.core.convert.comments import within
from drabridge.core.convert.documents import Object
from drabridge.core.convert.edits import remove_items
from drabridge.core.convert.findings import Finding, Outcome
from drabridge.core.convert.forward import Remark
from drabridge.core.convert.layout import Unsafe, applied
from drabridge.core.convert.piece import TEMPLATE_KIND, Piece, Run, Step, accept, at, layout_of
from drabridge.core.convert.podspecs import pod_specs
from drabridge.core.convert.shape import ASKED
from drabridge.core.convert.tree import Path, value_of
from drabridge.core.reasons import Reason


class Backward(Step):
    """An object on its way from claims to extended resources."""

    def decide(self) -> bool:
        """Find out which claims become extended resources again, and say which cannot."""
        conversion = self.run.conversion
        changes: dict[Path, PodChange] = {}
        self.names: dict[Path, frozenset[str]] = {}
        for path in pod_specs(self.object.value):
            spec = at(self.object.value, path)
            restored = backward.decide(spec, self.namespace(), conversion.templates, conversion.serving)
            for remark in restored.left:
                self.say(Outcome.LEFT, remark, path)
            if restored.change:
                changes[path] = replace(restored.change, drop_tolerations=self._added(path, restored))
                self.names[path] = restored.names
        self.changes = changes
        return bool(changes)

    def done(self) -> None:
        """Say what has changed."""
        for path, names in self.names.items():
            self.say(Outcome.CHANGED, Remark(Reason.CONVERTED, f"asks for {', '.join(sorted(names))}"), path)
            self._say_what_tolerations_stay(path, names)
            self.say_anchors(path, self.changes[path])

    def _say_what_tolerations_stay(self, path: Path, names: frozenset[str]) -> None:
        present = at(self.piece.value, (*self.object.path, *path)).get("tolerations")
        for each in present if isinstance(present, list) else ():
            if isinstance(each, dict) and each.get("key") in names and each.get("effect") == "NoSchedule":
                self.say(
                    Outcome.NOTE, Remark(Reason.TOLERATION_LEFT, f"toleration of {each['key']}:NoSchedule stays"), path
                )

    def _added(self, path: Path, restored: backward.Restored) -> frozenset[int]:
        """The tolerations that we added: they carry our comment, for which there is no room in flow style."""
        document = self.piece.document
        node = tree.followed(tree.find(document.root, (*self.object.path, *path, "tolerations")))
        found = set()
        for i, item in enumerate(node.items if isinstance(node, tree.Sequence) else ()):
            value, line = value_of(item), document.chunk.text[item.start :].partition("\n")[0]
            name = value.get("key") if isinstance(value, dict) else None
            if isinstance(node, tree.Sequence) and node.flow:
                is_ours = name in restored.ours and value == forward.toleration(name)
            else:
                is_ours = name in restored.names and line.rstrip().endswith(TOLERATION_MARK)
            found |= {i} if is_ours else set()
        return frozenset(found)


def remove_templates(run: Run, piece: Piece, objects: Sequence[Object]) -> None:
    """Take the templates out that we made and nobody uses: a document, or items of a List."""
    gone = [each for each in objects if each.kind == TEMPLATE_KIND and _unused(each, run)]
    positions = [each.path[1] for each in gone if each.path and isinstance(each.path[1], int)]
    if positions and not _unwrapped(run, piece, positions) and not _remove_items(run, piece, positions):
        return
    piece.removed = any(not each.path for each in gone)
    for each in gone:
        remark = Remark(Reason.TEMPLATE_REMOVED, f"{TEMPLATE_KIND} {each.name}")
        line = piece.document.line_of(tree.find(piece.document.root, each.path))
        run.findings.append(Finding(Outcome.CHANGED, remark.reason, line, each.described, "", remark.detail))


def _unused(template: Object, run: Run) -> bool:
    metadata = template.value.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    ours = isinstance(annotations, dict) and ASKED in annotations
    used = run.conversion.used
    return ours and used is not None and (template.namespace, template.name) not in used


def _unwrapped(run: Run, piece: Piece, positions: Sequence[int]) -> bool:
    """Let a JSON file have its one object again, if it became a List only to hold templates, too, which stand first."""
    items = tree.followed(tree.find(piece.root, ("items",)))
    root = tree.followed(piece.root)
    if not (run.single_json and isinstance(root, tree.Mapping) and isinstance(items, tree.Sequence)):
        return False
    last = len(items.items) - 1
    if len(root.entries) != len(_WRAPPER) or piece.value["kind"] != "List" or set(positions) != set(range(last)):
        return False
    item, text = items.items[last], piece.text
    outside = [*within(text, root.start, item.start, [root]), *within(text, item.end, root.end, [root])]
    if outside or not last:
        return False
    return accept(run, piece, text[: root.start] + text[item.start : item.end] + text[root.end :], value_of(item))


_WRAPPER: Final = ("apiVersion", "kind", "items")


def _remove_items(run: Run, piece: Piece, positions: Sequence[int]) -> bool:
    items = tree.followed(tree.find(piece.root, ("items",)))
    if not isinstance(items, tree.Sequence):
        return False
    kept = [each for i, each in enumerate(piece.value["items"]) if i not in positions]
    try:
        text = applied(piece.text, remove_items(layout_of(run, piece), items, positions))
    except Unsafe:
        return False
    return accept(run, piece, text, {**piece.value, "items": kept})
