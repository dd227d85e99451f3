"""Changes of a text: entries of mappings and items of sequences, taken out and put in where their nodes stand.

Whole lines go and come in block style; in flow style, what is between the commas. Comments stay: one behind a line that
goes is handed back, for whatever comes instead of it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from drabridge.core.convert import emit, tree
from drabridge.core.convert.commas import Item, change_items
from drabridge.core.convert.comments import within
from drabridge.core.convert.layout import Edit, Layout, Unsafe, entry_end
from drabridge.core.convert.tree import Node

_COMMENT_BEHIND = re.compile(r"[ \t]*[,]?[ \t]+(#[^\r\n]*)")
_COLON = re.compile(r"[ \t]*:")


@dataclass(frozen=True, slots=True)
class New:
    """An entry to be put into a mapping.

    `behind` is a comment behind the key, `comment` one behind the first line of the last `marked` items of a list.
    """

    key: str
    value: Any
    comment: str = ""
    marked: int = 0
    behind: str = ""

    def lines(self, layout: Layout) -> list[str]:
        """Give it as lines in block style."""
        lines = emit.entry(self.key, self.value, layout.list_indent)
        if self.comment:
            items = [i for i, line in enumerate(lines) if line.startswith(" " * layout.list_indent + "- ")]
            for i in items[-self.marked :]:
                lines[i] += f" {self.comment}"
        lines[0] += f" {self.behind}" if self.behind else ""
        return lines


# --- mappings


def change(
    layout: Layout,
    mapping: tree.Mapping,
    remove: Collection[str] = (),
    add: Sequence[New] = (),
    comments: Sequence[str] = (),
) -> list[Edit]:
    """Take entries out of a mapping and put others in, after those that stay; `comments` go with the first of them."""
    if mapping.flow:
        return _change_flow(layout, mapping, remove, add)
    edits = [each for key in remove for each in remove_entry(layout, mapping, key)]
    if not add:
        return edits
    kept = [(key, value) for key, value in mapping.entries if key.value not in remove]
    first = mapping.entries[0][0]
    indent = layout.column(first.start)
    lines = _with_comments([each.lines(layout) for each in add], comments)
    if kept:
        return [*edits, _after(layout, entry_end(layout, *kept[-1]), indent, lines)]
    if not layout.is_first(first.start):
        raise Unsafe
    end = layout.line_end(entry_end(layout, *mapping.entries[-1]))
    if layout.text[end - 1 : end] == "\n":
        return [*edits, _lines_at(layout, end, indent, lines)]
    return [*edits, Edit(end, end, layout.newline_at(end).join(" " * indent + line for line in lines))]


def change_before(
    layout: Layout, mapping: tree.Mapping, before: Collection[str], remove: Collection[str], add: Sequence[New]
) -> list[Edit]:
    """Like `change`, but what is new comes before the first entry of `before` and the comments above that."""
    target = next((key for key, _ in mapping.entries if key.value in before), None)
    if mapping.flow or target is None or not add:
        return change(layout, mapping, remove, add)
    gone = [each for key in remove for each in remove_entry(layout, mapping, key)]
    indent = layout.column(target.start)
    lines = [line for each in add for line in each.lines(layout)]
    if not layout.is_first(target.start):
        line = layout.join(target.start, indent)
        return [*gone, Edit(target.start, target.start, line.join(lines) + line)]
    offset = layout.line_start(target.start)
    while offset and layout.text[layout.line_start(offset - 1) : offset].rstrip().startswith(" " * indent + "#"):
        offset = layout.line_start(offset - 1)
    return [*gone, _lines_at(layout, offset, indent, lines)]


def remove_entry(layout: Layout, mapping: tree.Mapping, key: str, but: Collection[str] | None = None) -> list[Edit]:
    """Take an entry out of a mapping in block style: its lines, but not the comments on lines of their own.

    Those behind its lines stay, too, as lines; but not those of `but`, and none if that is None: they go elsewhere.
    """
    found = mapping.own(key)
    if found is None:
        return []
    position, scalar, value = found
    if not layout.is_first(scalar.start):  # "- key: value": what follows takes its place
        if position + 1 == len(mapping.entries):
            raise Unsafe
        following = mapping.entries[position + 1][0].start
        line = layout.join(scalar.start, layout.column(scalar.start))
        stay = [
            each.text
            for each in within(layout.text, scalar.start, following, [scalar, value])
            if layout.is_first(each.start) or (but is not None and each.text not in but)
        ]
        return [Edit(scalar.start, following, "".join(each + line for each in stay))]
    return _lines_out(layout, layout.line_start(scalar.start), entry_end(layout, scalar, value), [scalar, value], but)


def comments_behind(layout: Layout, mapping: tree.Mapping, keys: Iterable[str]) -> list[str]:
    """Give the comments behind entries that go, each once; none in flow style, where they stay.

    Comments on lines of their own stay as well.
    """
    found: list[str] = []
    for key in keys:
        if (own := mapping.own(key)) and not mapping.flow:
            _, scalar, value = own
            ends = [_own_line(layout, scalar, value)]
            if isinstance(value, tree.Mapping) and not value.flow:
                pass  # those behind its entries are asked for there
            else:
                inside = within(layout.text, value.start, value.end, [value])
                found += [each.text for each in inside if not layout.is_first(each.start)]
                ends.append(entry_end(layout, scalar, value))
            matches = (_COMMENT_BEHIND.match(layout.text, end) for end in ends if end is not None)
            found += [match[1] for match in matches if match]
    return list(dict.fromkeys(found))


def _own_line(layout: Layout, key: tree.Scalar, value: Node) -> int | None:
    """Where the line of a key ends whose value begins on the next one."""
    colon = _COLON.match(layout.text, key.end)
    below = layout.line_start(value.start) > key.end
    return colon.end() if colon and below else None


def _lines_out(
    layout: Layout, start: int, end: int, nodes: Sequence[Node], but: Collection[str] | None = None
) -> list[Edit]:
    """Take lines out, but leave those among them that are comments only, and others as `remove_entry` says."""
    found = within(layout.text, start, layout.line_end(end), nodes) if but is not None else []
    edits, offset = [], start
    while offset < end:
        after = layout.line_end(offset)
        if not layout.text[offset:after].lstrip(" ").startswith("#"):
            stay = [each.text for each in found if offset <= each.start < after and each.text not in (but or ())]
            indent = layout.text[offset:after][: -len(layout.text[offset:after].lstrip(" "))]
            edits.append(Edit(offset, after, "".join(indent + each + layout.newline_at(offset) for each in stay)))
        offset = after
    return edits


def _change_flow(layout: Layout, mapping: tree.Mapping, remove: Collection[str], add: Sequence[New]) -> list[Edit]:
    items = [Item(key.start, entry_end(layout, key, value), (key, value)) for key, value in mapping.entries]
    gone = [i for i, (key, _) in enumerate(mapping.entries) if key.value in remove]
    made = [f"{emit.text_of(each.key, quote=layout.json)}: {emit.flow(each.value, quote=layout.json)}" for each in add]
    return change_items(layout, (mapping.start, mapping.end), items, gone, made)


# --- sequences


def append(layout: Layout, sequence: tree.Sequence, values: Sequence[Any], comments: Sequence[str] = ()) -> list[Edit]:
    """Put items behind the last one, each with its comment behind its first line, where there can be one."""
    if sequence.flow:
        made = [emit.flow(value, quote=layout.json) for value in values]
        return change_items(layout, (sequence.start, sequence.end), _items(sequence), (), made)
    lines: list[str] = []
    for value, comment in zip_longest(values, comments, fillvalue=""):
        first, *more = emit.block([value], layout.list_indent)
        lines += [f"{first} {comment}" if comment else first, *more]
    indent = layout.column(_dash(layout, sequence.items[0]))
    return [_after(layout, _item_end(sequence.items[-1]), indent, lines)]


def remove_items(
    layout: Layout, sequence: tree.Sequence, positions: Collection[int], but: Collection[str] | None = None
) -> list[Edit]:
    """Take items out; not all of them in block style, where an empty sequence cannot be written.

    `but` as of `remove_entry`.
    """
    if sequence.flow:
        return change_items(layout, (sequence.start, sequence.end), _items(sequence), positions, [])
    edits = []
    for position in positions:
        item = sequence.items[position]
        dash = _dash(layout, item)
        if not layout.is_first(dash):
            raise Unsafe
        edits += _lines_out(layout, layout.line_start(dash), _item_end(item), [item], but)
    return edits


def _items(sequence: tree.Sequence) -> list[Item]:
    return [Item(each.start, each.end, (each,)) for each in sequence.items]


def _item_end(item: Node) -> int:
    if isinstance(item, tree.Scalar) and item.start == item.end:
        raise Unsafe
    return item.end


def _dash(layout: Layout, item: Node) -> int:
    offset = item.start
    while offset and layout.text[offset - 1] in " \r\n":
        offset -= 1
    if layout.text[offset - 1 : offset] != "-":
        raise Unsafe
    return offset - 1


# --- lines


def _with_comments(entries: Sequence[list[str]], comments: Sequence[str]) -> list[str]:
    lines = [line for each in entries for line in each]
    if len(comments) == 1:
        return [f"{lines[0]} {comments[0]}", *lines[1:]]
    return [*comments, *lines]


def _after(layout: Layout, offset: int, indent: int, lines: Sequence[str]) -> Edit:
    end = layout.line_end(offset)
    if layout.text[end - 1 : end] != "\n":  # the last line of the text, without its end
        joined = "".join(layout.join(end, indent) + line for line in lines)
        return Edit(end, end, joined)
    return _lines_at(layout, end, indent, lines)


def _lines_at(layout: Layout, offset: int, indent: int, lines: Sequence[str]) -> Edit:
    return Edit(offset, offset, "".join(" " * indent + line + layout.newline_at(offset) for line in lines))


def indented(layout: Layout, start: int, end: int, shift: int) -> list[Edit]:
    """Move the lines after that of `start`, up to that of `end`, by `shift` columns. Raises Unsafe if they cannot."""
    edits, offset = [], layout.line_end(start)
    while offset < end:
        line = layout.text[offset : layout.line_end(offset)]
        if line.strip():
            if shift < 0 and line[:-shift].strip(" "):
                raise Unsafe
            edits.append(Edit(offset, offset, " " * shift) if shift > 0 else Edit(offset, offset - shift, ""))
        offset = layout.line_end(offset)
    return edits
