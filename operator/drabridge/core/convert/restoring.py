"""An object on its way from claims to extended resources: what changes in its text, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drabridge.core.convert import backward, tree
from drabridge.core.convert.change import TOLERATION_MARK, PodChange
from drabridge.core.convert.documents import Object
from drabridge.core.convert.edits import Unsafe, applied, remove_items
from drabridge.core.convert.findings import Finding, Outcome
from drabridge.core.convert.forward import Remark
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
                changes[path] = replace(restored.change, drop_tolerations=self._marked(path, restored.names))
                self.names[path] = restored.names
        self.changes = changes
        return bool(changes)

    def done(self) -> None:
        """Say what has changed."""
        for path, names in self.names.items():
            self.say(Outcome.CHANGED, Remark(Reason.CONVERTED, f"asks for {', '.join(sorted(names))}"), path)
            self._say_what_tolerations_stay(path, names)

    def _say_what_tolerations_stay(self, path: Path, names: frozenset[str]) -> None:
        present = at(self.piece.value, (*self.object.path, *path)).get("tolerations")
        for each in present if isinstance(present, list) else ():
            if isinstance(each, dict) and each.get("key") in names and each.get("effect") == "NoSchedule":
                self.say(
                    Outcome.NOTE, Remark(Reason.TOLERATION_LEFT, f"toleration of {each['key']}:NoSchedule stays"), path
                )

    def _marked(self, path: Path, names: frozenset[str]) -> frozenset[int]:
        """The tolerations that we added: they carry our comment."""
        document = self.piece.document
        node = tree.followed(tree.find(document.root, (*self.object.path, *path, "tolerations")))
        found = set()
        for i, item in enumerate(node.items if isinstance(node, tree.Sequence) and not node.flow else ()):
            line = document.chunk.text[item.start : document.chunk.text.find("\n", item.start)]
            key = value_of(item)
            if line.rstrip().endswith(TOLERATION_MARK) and isinstance(key, dict) and key.get("key") in names:
                found.add(i)
        return frozenset(found)


def remove_templates(run: Run, piece: Piece, objects: Sequence[Object]) -> None:
    """Take the templates out that we made and nobody uses: a document, or items of a List."""
    gone = [each for each in objects if each.kind == TEMPLATE_KIND and _unused(each, run)]
    positions = [each.path[1] for each in gone if each.path]
    if positions and not _remove_items(run, piece, [each for each in positions if isinstance(each, int)]):
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
