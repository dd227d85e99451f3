"""A change of a PodSpec, in both of its forms: of the value, and of the text.

Both are computed from one description and compared in the end, so that a text which would mean something else is never
given out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from drabridge.core.convert import edits, emit, tree
from drabridge.core.convert.comments import within
from drabridge.core.convert.edits import New
from drabridge.core.convert.layout import Edit, Layout, Unsafe, entry_end
from drabridge.core.convert.tree import Node, Path

QUANTITIES: Final = ("requests", "limits")
_BEFORE: Final = ("initContainers", "containers")
TOLERATION_MARK: Final = "# as ExtendedResourceToleration does"
"""Behind a toleration that we add: says why it is there, and that it goes when the claim goes."""

_OWN_COMMENTS: Final = frozenset({TOLERATION_MARK})


@dataclass(frozen=True, slots=True)
class ContainerChange:
    """What happens to `resources` of a container at `path` in the PodSpec.

    `drop` are names that leave requests and limits, `add` is put into limits, and into requests if there are any.
    `drop_claims` are names of entries whose claims go, `claims` come behind those that stay.
    """

    path: tuple[str, int]
    drop: frozenset[str] = frozenset()
    add: Mapping[str, int] = field(default_factory=dict)
    drop_claims: frozenset[str] = frozenset()
    claims: tuple[dict[str, str], ...] = ()

    def resources(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Give `resources` after the change."""
        after = dict(before)
        for name in QUANTITIES:
            if isinstance(quantities := after.get(name), dict):
                kept = {key: value for key, value in quantities.items() if key not in self.drop}
                after[name] = kept
                if not kept and quantities:
                    del after[name]
        claims = [each for each in _claims(after) if each.get("name") not in self.drop_claims]
        claims += [dict(each) for each in self.claims]
        after.pop("claims", None)
        if claims:
            after["claims"] = claims
        for name in self.gains(after):
            after[name] = {**(after.get(name) or {}), **self.add}
        return after

    def gains(self, resources: Mapping[str, Any]) -> tuple[str, ...]:
        """Give the fields that `add` goes to: requests too, where it is written, as some controllers read only that."""
        if not self.add:
            return ()
        return QUANTITIES if resources.get("requests") else ("limits",)


@dataclass(frozen=True, slots=True)
class PodChange:
    """What happens to a PodSpec. Positions in `drop_tolerations` are those before the change."""

    containers: tuple[ContainerChange, ...]
    drop_entries: frozenset[str] = frozenset()
    entries: tuple[dict[str, str], ...] = ()
    tolerations: tuple[dict[str, str], ...] = ()
    drop_tolerations: frozenset[int] = frozenset()
    drop_fields: frozenset[str] = frozenset()

    def spec(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Give the PodSpec after the change."""
        after = {key: value for key, value in before.items() if key not in self.drop_fields}
        for each in self.containers:
            field_name, position = each.path
            containers = list(after[field_name])
            container = containers[position]
            containers[position] = {**container, "resources": each.resources(container.get("resources") or {})}
            after[field_name] = containers
        kept = [each for each in _list(after, "resourceClaims") if each.get("name") not in self.drop_entries]
        _put(after, "resourceClaims", [*kept, *self.entries])
        tolerations = [each for i, each in enumerate(_list(after, "tolerations")) if i not in self.drop_tolerations]
        _put(after, "tolerations", [*tolerations, *self.tolerations])
        return after


def _put(spec: dict[str, Any], key: str, value: list[Any]) -> None:
    if value:
        spec[key] = value
    elif spec.get(key):
        del spec[key]


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    return found if isinstance(found, list) else []


def _claims(resources: Mapping[str, Any]) -> list[Any]:
    return _list(resources, "claims")


# --- the same in the text


@dataclass(frozen=True, slots=True)
class PodText:
    """A PodSpec in a document's text. `write_out`: what is an alias or merged in is written out where it is changed."""

    layout: Layout
    root: Node
    path: Path
    value: Mapping[str, Any]
    write_out: bool

    def edits(self, change: PodChange) -> list[Edit]:
        """Make the edits. Raises Unsafe where the text is not one of those that can be changed in place."""
        found: list[Edit] = []
        for each in change.containers:
            found += self._container(each)
        gone = frozenset(
            i
            for i, entry in enumerate(_list(self.value, "resourceClaims"))
            if isinstance(entry, dict) and entry.get("name") in change.drop_entries
        )
        spec = self._mapping(self.path)
        out: list[str] = []
        for key in sorted(change.drop_fields):
            if spec.get(key) is not None:
                found += self._without(spec, key, out)
        new: list[New] = []
        for key, positions, values in (
            ("resourceClaims", gone, change.entries),
            ("tolerations", change.drop_tolerations, change.tolerations),
        ):
            if positions or values:
                found += self._list(spec, key, positions, values, out, new)
        return found + edits.change_before(self.layout, spec, _BEFORE, out, new)

    def _mapping(self, path: Path) -> tree.Mapping:
        node = tree.followed(tree.find(self.root, path))
        if not isinstance(node, tree.Mapping):
            raise Unsafe
        return node

    def _list(
        self,
        spec: tree.Mapping,
        key: str,
        gone: frozenset[int],
        values: Sequence[dict[str, str]],
        out: list[str],
        new: list[New],
    ) -> list[Edit]:
        """Change a list of the PodSpec where it is; where that is impossible, `out` and `new` say what comes for it."""
        before = _list(self.value, key)
        after = [each for i, each in enumerate(before) if i not in gone] + list(values)
        mark = TOLERATION_MARK if key == "tolerations" else ""
        own = spec.own(key)
        if own is None:
            new.append(New(key, after, mark, len(values)))
            return []
        sequence = tree.followed(own[2])
        if isinstance(own[2], tree.Alias) and self.write_out:
            return self._replaced(spec, key, after)
        if not after:
            return self._without(spec, key, out)
        if not before or not isinstance(sequence, tree.Sequence):
            out.append(key)
            new.append(New(key, after, mark, len(values), " ".join(edits.comments_behind(self.layout, spec, [key]))))
            return []
        made = edits.remove_items(self.layout, sequence, gone, _OWN_COMMENTS)
        return made + edits.append(self.layout, sequence, values, [mark] * len(values)) if values else made

    def _without(self, spec: tree.Mapping, key: str, out: list[str]) -> list[Edit]:
        """Take an entry of the PodSpec out and leave the comments; in flow style by way of `out`, with the others."""
        if not spec.flow:
            return edits.remove_entry(self.layout, spec, key, _OWN_COMMENTS)
        out.append(key)
        return []

    def _replaced(self, mapping: tree.Mapping, key: str, value: Any) -> list[Edit]:
        """Write a value out where an alias, or a mapping with aliases in it, stands."""
        own = mapping.own(key)
        if own is None:
            return edits.change(self.layout, mapping, add=[New(key, value)])
        _, scalar, node = own
        if mapping.flow:
            return [Edit(node.start, node.end, emit.flow(value, quote=self.layout.json))]
        indent = self.layout.column(scalar.start)
        lines = emit.entry(key, value, self.layout.list_indent)[1:]
        colon = self.layout.text.index(":", scalar.end) + 1
        end = entry_end(self.layout, scalar, node)
        inner = " " * (len(lines[0]) - len(lines[0].lstrip(" ")))
        lines = [inner + each.text for each in within(self.layout.text, colon, end, [node])] + lines
        separator = self.layout.join(colon, indent)
        return [Edit(colon, end, separator + separator.join(lines))]

    def _container(self, change: ContainerChange) -> list[Edit]:
        path = (*self.path, *change.path)
        container = self._mapping(path)
        at = (*path, "resources")
        node = tree.followed(tree.find(self.root, at))
        if node is None or not isinstance(node, tree.Mapping) or not node.entries:
            return self._whole(container, change)
        parts = [at, *((*at, key) for key in (*QUANTITIES, "claims") if node.get(key) is not None)]
        if self.write_out and not all(tree.is_literal(container, part[len(path) :]) for part in parts):
            return self._whole(container, change)
        return self._resources(node, change)

    def _whole(self, container: tree.Mapping, change: ContainerChange) -> list[Edit]:
        before = tree.value_of(container).get("resources") or {}
        return self._replaced(container, "resources", change.resources(before))

    def _resources(self, resources: tree.Mapping, change: ContainerChange) -> list[Edit]:
        found: list[Edit] = []
        gone: list[str] = []
        comments: list[str] = []
        for name in QUANTITIES:
            quantities = tree.followed(resources.get(name))
            if not isinstance(quantities, tree.Mapping):
                continue
            served = sorted(key for key in change.drop if quantities.get(key) is not None)
            if served and len(served) == len(tree.value_of(quantities)):
                gone.append(name)
                comments += edits.comments_behind(self.layout, resources, [name])
            elif served:
                found += edits.change(self.layout, quantities, served)
            in_order = [key.value for key, _ in quantities.entries if key.value in served]
            comments += edits.comments_behind(self.layout, quantities, in_order)
        made, added = self._added(resources, change, gone, comments)
        found += made
        made, new = self._claims(resources, change, gone, comments)
        found += made
        comments = list(dict.fromkeys(comments)) if added or new else []
        return found + edits.change(self.layout, resources, gone, [*added, *new], comments)

    def _claims(
        self, resources: tree.Mapping, change: ContainerChange, out: list[str], comments: list[str]
    ) -> tuple[list[Edit], list[New]]:
        """Change the claims: the edits, and the list to be put in if there is none; `out` learns if the list goes."""
        before = _claims(tree.value_of(resources))
        gone = frozenset(i for i, each in enumerate(before) if each.get("name") in change.drop_claims)
        if not gone and not change.claims:
            return [], []
        sequence = tree.followed(resources.get("claims"))
        if not isinstance(sequence, tree.Sequence) or not before:
            comments += edits.comments_behind(self.layout, resources, ["claims"])
            out += ["claims"] if sequence is not None else []
            return [], [New("claims", list(change.claims))]
        for i in sorted(gone):
            if isinstance(item := sequence.items[i], tree.Mapping):
                comments += edits.comments_behind(self.layout, item, [key.value for key, _ in item.entries])
        if len(gone) == len(before) and not change.claims:
            comments += edits.comments_behind(self.layout, resources, ["claims"])
            out.append("claims")
            return [], []
        made = edits.remove_items(self.layout, sequence, gone)
        if change.claims:
            made += edits.append(self.layout, sequence, change.claims, [" ".join(dict.fromkeys(comments))])
        return made, []

    def _added(
        self, resources: tree.Mapping, change: ContainerChange, gone: list[str], comments: list[str]
    ) -> tuple[list[Edit], list[New]]:
        found: list[Edit] = []
        new: list[New] = []
        for name in change.gains(tree.value_of(resources)):
            quantities = tree.followed(resources.get(name))
            if isinstance(quantities, tree.Mapping) and quantities.entries:
                found += edits.change(self.layout, quantities, add=[New(*pair) for pair in change.add.items()])
                continue
            if quantities is not None:
                comments += edits.comments_behind(self.layout, resources, [name])
                gone.append(name)
            new.append(New(name, dict(change.add)))
        return found, new
