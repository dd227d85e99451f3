"""Objects of resource.k8s.io/v1beta1 and v1beta2 -> v1, as value and as text.

v1beta2 and v1 are of one shape. In v1beta1 a request says directly what v1 says under `exactly`, and a device of a
ResourceSlice has `basic` around its fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from drabridge.core.convert import edits, emit, tree
from drabridge.core.convert.comments import within
from drabridge.core.convert.layout import Edit, Layout, Unsafe, entry_end
from drabridge.core.convert.tree import Node, Path

GROUP: Final = "resource.k8s.io"
V1: Final = f"{GROUP}/v1"
FROM: Final = (f"{GROUP}/v1beta1", f"{GROUP}/v1beta2")
_WHERE: Final[Mapping[str, Path]] = {
    "ResourceClaim": ("spec", "devices", "requests"),
    "ResourceClaimTemplate": ("spec", "spec", "devices", "requests"),
}
_STAYS: Final = frozenset({"name", "firstAvailable", "exactly"})
_DEVICES: Final[Path] = ("spec", "devices")


def upgraded(value: Mapping[str, Any]) -> dict[str, Any]:
    """Give an object of one of the versions in `FROM` as v1."""
    after = {**value, "apiVersion": V1}
    if value["apiVersion"] != FROM[0]:
        return after
    for path, request in _requests(value):
        moved = {key: each for key, each in request.items() if key not in _STAYS}
        kept = {key: each for key, each in request.items() if key in _STAYS}
        after = _with(after, path, {**kept, "exactly": moved})
    for path, device in _basics(value):
        after = _with(after, path, {**{k: v for k, v in device.items() if k != "basic"}, **device["basic"]})
    return after


def upgrade_edits(layout: Layout, root: Node, path: Path, value: Mapping[str, Any]) -> list[Edit]:
    """Make the same of the text; the object is at `path`. Raises Unsafe where it cannot be done in place."""
    version = tree.find(root, (*path, "apiVersion"))
    if not isinstance(version, tree.Scalar):
        raise Unsafe
    start, end = version.start, version.end
    found = [Edit(start, end, layout.text[start:end].replace(str(value["apiVersion"]), V1))]
    if value["apiVersion"] != FROM[0]:
        return found
    for where, _ in _requests(value):
        found += _wrapped(layout, _literal(root, (*path, *where)))
    for where, _ in _basics(value):
        found += _unwrapped(layout, _literal(root, (*path, *where)))
    return found


def _literal(root: Node, path: Path) -> tree.Mapping:
    node = tree.followed(tree.find(root, path))
    if not isinstance(node, tree.Mapping):
        raise Unsafe
    return node


def _requests(value: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The requests that have something to be wrapped."""
    where = _WHERE.get(str(value.get("kind")), ("",))
    for i, request in enumerate(_list_at(value, where)):
        if isinstance(request, dict) and "exactly" not in request and set(request) - _STAYS:
            yield (*where, i), request


def _basics(value: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    if value.get("kind") != "ResourceSlice":
        return
    for i, device in enumerate(_list_at(value, _DEVICES)):
        if isinstance(device, dict) and isinstance(device.get("basic"), dict):
            yield (*_DEVICES, i), device


def _list_at(value: Any, path: Path) -> list[Any]:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value if isinstance(value, list) else []


def _with(value: Any, path: Path, new: Any) -> Any:
    """Give a value with another one at `path`."""
    if not path:
        return new
    if isinstance(value, list):
        return [_with(each, path[1:], new) if i == path[0] else each for i, each in enumerate(value)]
    return {**value, path[0]: _with(value[path[0]], path[1:], new)}


replaced = _with


def _wrapped(layout: Layout, request: tree.Mapping) -> list[Edit]:
    """Put `exactly` around everything but the name."""
    moved = [(key, value) for key, value in request.entries if key.value not in _STAYS]
    kept = [(key, value) for key, value in request.entries if key.value in _STAYS]
    if request.flow:
        return _wrapped_in_flow(layout, request, kept, moved)
    first, last = moved[0][0], moved[-1]
    end = entry_end(layout, *last)
    line = layout.join(first.start, layout.column(first.start))
    found = []
    above = f"exactly:{line}  "
    for key, value in kept:
        if first.start < key.start < end:  # between what moves: it goes above
            if layout.line_start(key.start) != layout.line_start(value.start) or not isinstance(value, tree.Scalar):
                raise Unsafe
            found.append(Edit(layout.line_start(key.start), layout.line_end(value.end), ""))
            above = f"{_text(layout, key, value)}{line}{above}"
    found.append(Edit(first.start, first.start, above))
    gone = [(each.start, each.end) for each in found if each.end > each.start]
    moved_in = edits.indented(layout, first.start, end, 2)
    return found + [each for each in moved_in if not any(start <= each.start < stop for start, stop in gone)]


_Entries = list[tuple[tree.Scalar, Node]]


def _wrapped_in_flow(layout: Layout, request: tree.Mapping, kept: _Entries, moved: _Entries) -> list[Edit]:
    name = emit.text_of("exactly", quote=layout.json)
    first, end = moved[0][0].start, entry_end(layout, *moved[-1])
    if not any(first < key.start < end for key, _ in kept):
        return [Edit(first, first, f"{name}: {{"), Edit(end, end, "}")]
    start, stop = layout.text.index("{", request.start) + 1, request.end - 1
    _without_comments(layout, start, stop, request)
    inner = ", ".join(_text(layout, *each) for each in moved)
    outer = [*(_text(layout, *each) for each in kept), f"{name}: {{{inner}}}"]
    return [Edit(start, stop, ", ".join(outer))]


def _without_comments(layout: Layout, start: int, end: int, node: Node) -> None:
    """Raise Unsafe if there is a comment that would be lost."""
    if within(layout.text, start, end, [node]):
        raise Unsafe


def _text(layout: Layout, key: tree.Scalar, value: Node) -> str:
    return layout.text[key.start : entry_end(layout, key, value)]


def _unwrapped(layout: Layout, device: tree.Mapping) -> list[Edit]:
    """Take `basic` away and let its fields stand where it stood."""
    own = device.own("basic")
    inner = tree.followed(own[2]) if own else None
    if own is None or not isinstance(inner, tree.Mapping) or isinstance(own[2], tree.Alias):
        raise Unsafe
    key = own[1]
    if not inner.entries:
        return edits.change(layout, device, ["basic"])
    first, last = inner.entries[0][0], inner.entries[-1]
    if inner.flow:
        _without_comments(layout, key.start, inner.end, device)
    if device.flow:
        return [Edit(key.start, inner.end, ", ".join(_text(layout, *each) for each in inner.entries))]
    if inner.flow:
        separator = layout.join(key.start, layout.column(key.start))
        return [Edit(key.start, inner.end, separator.join(_text(layout, *each) for each in inner.entries))]
    shift = layout.column(first.start) - layout.column(key.start)
    end = entry_end(layout, *last)
    return [Edit(key.start, first.start, ""), *edits.indented(layout, first.start, end, -shift)]
