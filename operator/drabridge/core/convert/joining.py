"""The documents of a file put together again, with new ones between them and without those that go."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from drabridge.core.convert import emit, tree
from drabridge.core.convert.documents import Chunk, list_indent
from drabridge.core.convert.edits import append
from drabridge.core.convert.layout import Layout, applied
from drabridge.core.convert.piece import Piece, Run

_START = re.compile(r"---[ \t]*(?:#[^\n]*)?\r?\n")


def without_marker(text: str) -> str:
    """A document's text behind its `---` line, if it has one."""
    match = _START.match(text)
    return text[match.end() :] if match else text


def joined(parts: Sequence[Chunk], pieces: Mapping[int, Piece], run: Run) -> str:
    """Give the whole text; `pieces` by where their chunks start, those that could not be read not among them."""
    whole = ""
    swallow = False  # the `---` line of what follows a document that was removed
    for chunk in parts:
        piece = pieces.get(chunk.start)
        text = piece.text if piece else chunk.text
        if swallow:
            text = without_marker(text)
        swallow = False
        if piece and piece.removed:
            kept = _before_content(piece, text, last=chunk is parts[-1])
            swallow = chunk is not parts[-1]
            text = kept
        elif piece and piece.before:
            text = _with_templates(piece, text, run)
        whole += text
    return whole


def _before_content(piece: Piece, text: str, *, last: bool) -> str:
    """What stays of a document that goes: its `---` and the comments above it; nothing if it is the last."""
    root = piece.document.root
    if last or root is None:
        return ""
    offset = root.start - (len(piece.text) - len(text))
    return text[: text.rfind("\n", 0, offset) + 1]


def _with_templates(piece: Piece, text: str, run: Run) -> str:
    if run.single_json:
        return _json_with_templates(piece, text, run)
    indent = min(list_indent(piece.root, piece.text), 2)
    made = ["---" + run.newline]
    for each in piece.before:
        made += [line + run.newline for line in [*emit.block(each.body, indent), "---"]]
    start = piece.root.start if piece.root else 0
    offset = _insertion(text, start + len(text) - len(piece.text))
    if offset is None:  # "--- {...}" on one line: above it
        return "".join(made[:-1]) + text
    return text[:offset] + "".join(made[1:]) + text[offset:]


def _insertion(text: str, start: int) -> int | None:
    """Where a document can be put before one whose content starts there: above the comments directly above it.

    None if that is the line of its separator.
    """
    offset = text.rfind("\n", 0, start) + 1
    header = re.compile(r"^---(?=[ \t\r\n])[^\n]*\n", re.MULTILINE).search(text, 0, start)
    floor = header.end() if header else 0
    if text[offset:start].strip() or offset < floor:
        return None
    while offset > floor and text[text.rfind("\n", 0, offset - 1) + 1 : offset].startswith("#"):
        offset = text.rfind("\n", 0, offset - 1) + 1
    return offset


def _json_with_templates(piece: Piece, text: str, run: Run) -> str:
    """JSON has one object a file: a List takes the templates in, anything else becomes an item of one."""
    root = tree.followed(piece.root)
    bodies = [each.body for each in piece.before]
    items = root.own("items") if isinstance(root, tree.Mapping) else None
    if root is None:
        return text
    if items and text is piece.text and str(piece.value.get("kind")) == "List" and isinstance(items[2], tree.Sequence):
        layout = Layout(text, run.newline, 0, json=True)
        piece.value = {**piece.value, "items": [*piece.value["items"], *bodies]}
        piece.before = []
        return applied(text, append(layout, items[2], bodies))
    first = ", ".join(emit.flow(body, quote=True) for body in bodies)
    piece.value = {"apiVersion": "v1", "kind": "List", "items": [*bodies, piece.value]}
    piece.before = []
    opening = f'{{"apiVersion": "v1", "kind": "List", "items": [{first},{run.newline}'
    start, end = root.start + len(text) - len(piece.text), root.end + len(text) - len(piece.text)
    return text[:start] + opening + text[start:end] + "]}" + text[end:]
