"""An object on its way from claims to extended resources: what changes in its text, and what is said of it."""

from __future__ import annotations

from drabridge.core.convert import backward, tree, versions
from drabridge.core.convert.change import TOLERATION_MARK, PodChange
from drabridge.core.convert.edits import Unsafe, applied, remove_items
from drabridge.core.convert.findings import Outcome
from drabridge.core.convert.forward import Remark
from drabridge.core.convert.piece import TEMPLATE_KIND, Step, at
from drabridge.core.convert.podspecs import pod_specs
from drabridge.core.convert.shape import ASKED
from drabridge.core.convert.tree import Path, value_of
from drabridge.core.reasons import Reason


class Backward(Step):
    """An object on its way from claims to extended resources."""

    def take(self) -> None:
        """Restore what can be, and say what cannot."""
        run = self.run
        if self.object.kind == TEMPLATE_KIND and self.object.group == versions.GROUP:
            self._template()
            return
        changes: dict[Path, PodChange] = {}
        names: dict[Path, frozenset[str]] = {}
        for path in pod_specs(self.object.value):
            spec = at(self.object.value, path)
            restored = backward.decide(spec, self.namespace(), run.conversion.templates, run.conversion.serving)
            for remark in restored.left:
                self.say(Outcome.LEFT, remark, path)
            if restored.change:
                marked = self._marked(path, restored.names)
                changes[path] = PodChange(
                    restored.change.containers, restored.change.drop_entries, drop_tolerations=marked
                )
                names[path] = restored.names
        if not changes:
            return
        if not self.edit(changes):
            for path in changes:
                detail = "the text cannot be changed there without changing what something else means"
                self.say(Outcome.LEFT, Remark(Reason.EDIT_UNSAFE, detail), path)
            return
        for path in changes:
            self.say(Outcome.CHANGED, Remark(Reason.CONVERTED, f"asks for {', '.join(sorted(names[path]))}"), path)
            self._say_what_tolerations_stay(path, names[path])

    def _say_what_tolerations_stay(self, path: Path, names: frozenset[str]) -> None:
        present = at(self.piece.value, (*self.object.path, *path)).get("tolerations")
        for each in present if isinstance(present, list) else ():
            if isinstance(each, dict) and each.get("key") in names and each.get("effect") == "NoSchedule":
                self.say(Outcome.NOTE, Remark(Reason.TOLERATION_LEFT, f"of {each['key']}:NoSchedule"), path)

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

    def _template(self) -> None:
        metadata = self.object.value.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        ours = isinstance(annotations, dict) and ASKED in annotations
        used = self.run.conversion.used
        if not ours or used is None or (self.object.namespace, self.object.name) in used:
            return
        if self.object.path:
            if not self._remove_item():
                return
        else:
            self.piece.removed = True
        self.say(Outcome.CHANGED, Remark(Reason.TEMPLATE_REMOVED, f"{TEMPLATE_KIND} {self.object.name}"))

    def _remove_item(self) -> bool:
        """Take it out of its List; positions may have changed since the document was read."""
        items = tree.followed(tree.find(self.piece.root, ("items",)))
        values = self.piece.value["items"]
        if not isinstance(items, tree.Sequence) or self.object.value not in values:
            return False
        i = values.index(self.object.value)
        expected = {**self.piece.value, "items": values[:i] + values[i + 1 :]}
        try:
            return self.accept(applied(self.piece.text, remove_items(self.layout(), items, [i])), expected)
        except Unsafe:
            return False
