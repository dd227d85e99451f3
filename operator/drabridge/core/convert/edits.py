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
from drabridge.core.convert.tree import Node

_COMMENT_BEHIND = re.compile(r"[ \t]*[,]?[ \t]+(#[^\r\n]*)")
_COLON = re.compile(r"[ \t]*:")


class Unsafe(Exception):
    """A change that cannot be made in the text without doing more than it should."""


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """`text` comes instead of what is from `start` to `end`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Layout:
    """A document's text and its habits: `newline`, how far lists stand in from their key, and whether it is JSON."""

    text: str
    newline: str
    list_indent: int
    json: bool

    def line_start(self, offset: int) -> int:
        """Where the line of an offset begins."""
        return self.text.rfind("\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        """Where the line after that of an offset begins; the text's end if there is none."""
        return self.text.find("\n", offset) + 1 or len(self.text)

    def column(self, offset: int) -> int:
        """How many characters are before an offset in its line."""
        return offset - self.line_start(offset)

    def is_first(self, offset: int) -> bool:
        """Whether there is nothing but white space before an offset in its line."""
        return not self.text[self.line_start(offset) : offset].strip(" ")


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


def applied(text: str, edits: Iterable[Edit]) -> str:
    """Make the changes; the same one twice is made once. Raises Unsafe where two of them concern the same text."""
    parts, position = [], 0
    for edit in sorted(set(edits)):
        if edit.start < position:
            raise Unsafe
        parts += [text[position : edit.start], edit.text]
        position = edit.end
    return "".join([*parts, text[position:]])


def entry_end(layout: Layout, key: tree.Scalar, value: Node) -> int:
    """Where an entry's content ends. The parser puts a value that is not there anywhere up to the next key."""
    if isinstance(value, tree.Scalar) and value.start == value.end:
        found = _COLON.match(layout.text, key.end)
        return found.end() if found else key.end
    return value.end


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
    return [*edits, Edit(end, end, layout.newline.join(" " * indent + line for line in lines))]


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
        joined = (layout.newline + " " * indent).join(lines)
        return [*gone, Edit(target.start, target.start, joined + layout.newline + " " * indent)]
    offset = layout.line_start(target.start)
    while offset and layout.text[layout.line_start(offset - 1) : offset].rstrip().startswith(" " * indent + "#"):
        offset = layout.line_start(offset - 1)
    return [*gone, _lines_at(layout, offset, indent, lines)]


def remove_entry(layout: Layout, mapping: tree.Mapping, key: str) -> list[Edit]:
    """Take an entry out of a mapping in block style: its lines, but not the comments on lines of their own."""
    found = mapping.own(key)
    if found is None:
        return []
    position, scalar, value = found
    if not layout.is_first(scalar.start):  # "- key: value": what follows takes its place
        if position + 1 == len(mapping.entries):
            raise Unsafe
        return [Edit(scalar.start, mapping.entries[position + 1][0].start, "")]
    return _lines_out(layout, layout.line_start(scalar.start), entry_end(layout, scalar, value))


def comments_behind(layout: Layout, mapping: tree.Mapping, keys: Iterable[str]) -> list[str]:
    """Give the comments behind entries that go, each once; none in flow style, where they stay."""
    found: list[str] = []
    for key in keys:
        if (own := mapping.own(key)) and not mapping.flow:
            _, scalar, value = own
            within = isinstance(value, tree.Mapping) and not value.flow  # those behind its entries are asked for there
            for end in (_own_line(layout, scalar, value), None if within else entry_end(layout, scalar, value)):
                if end is not None and (comment := _COMMENT_BEHIND.match(layout.text, end)) and comment[1] not in found:
                    found.append(comment[1])
    return found


def _own_line(layout: Layout, key: tree.Scalar, value: Node) -> int | None:
    """Where the line of a key ends whose value begins on the next one."""
    colon = _COLON.match(layout.text, key.end)
    below = layout.line_start(value.start) > key.end
    return colon.end() if colon and below else None


def _lines_out(layout: Layout, start: int, end: int) -> list[Edit]:
    """Take lines out, but leave those among them that are comments only."""
    edits, offset = [], start
    while offset < end:
        after = layout.line_end(offset)
        if not layout.text[offset:after].lstrip(" ").startswith("#"):
            edits.append(Edit(offset, after, ""))
        offset = after
    return edits


def _change_flow(layout: Layout, mapping: tree.Mapping, remove: Collection[str], add: Sequence[New]) -> list[Edit]:
    spans = [(key.start, entry_end(layout, key, value)) for key, value in mapping.entries]
    kept = [span for span, (key, _) in zip(spans, mapping.entries, strict=True) if key.value not in remove]
    made = [f"{emit.text_of(each.key, quote=layout.json)}: {emit.flow(each.value, quote=layout.json)}" for each in add]
    return _change_list(layout, (mapping.start, mapping.end), spans, kept, made)


# --- sequences


def append(layout: Layout, sequence: tree.Sequence, values: Sequence[Any], comments: Sequence[str] = ()) -> list[Edit]:
    """Put items behind the last one, each with its comment behind its first line, where there can be one."""
    if sequence.flow:
        spans = [(item.start, item.end) for item in sequence.items]
        made = [emit.flow(value, quote=layout.json) for value in values]
        return _change_list(layout, (sequence.start, sequence.end), spans, spans, made)
    lines: list[str] = []
    for value, comment in zip_longest(values, comments, fillvalue=""):
        first, *more = emit.block([value], layout.list_indent)
        lines += [f"{first} {comment}" if comment else first, *more]
    indent = layout.column(_dash(layout, sequence.items[0]))
    return [_after(layout, _item_end(sequence.items[-1]), indent, lines)]


def remove_items(layout: Layout, sequence: tree.Sequence, positions: Collection[int]) -> list[Edit]:
    """Take items out; not all of them in block style, where an empty sequence cannot be written."""
    if sequence.flow:
        spans = [(item.start, item.end) for item in sequence.items]
        kept = [span for i, span in enumerate(spans) if i not in positions]
        return _change_list(layout, (sequence.start, sequence.end), spans, kept, [])
    edits = []
    for position in positions:
        item = sequence.items[position]
        dash = _dash(layout, item)
        if not layout.is_first(dash):
            raise Unsafe
        edits += _lines_out(layout, layout.line_start(dash), _item_end(item))
    return edits


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


# --- lists of things between commas, and lines


def _change_list(
    layout: Layout,
    whole: tuple[int, int],
    spans: Sequence[tuple[int, int]],
    kept: Sequence[tuple[int, int]],
    made: Sequence[str],
) -> list[Edit]:
    opening = re.compile(r"[^\[{]*[\[{]").match(layout.text, whole[0])
    if opening is None:
        raise Unsafe
    if not kept:
        if spans or made:
            return [Edit(opening.end(), whole[1] - 1, ", ".join(made))]
        return []
    gone = [i for i, span in enumerate(spans) if span not in kept]
    last = spans.index(kept[-1])
    edits = [Edit(spans[i][0], spans[i + 1][0], "") for i in gone if i < last]
    tail = spans[-1][1] if any(i > last for i in gone) else kept[-1][1]
    inserted = ""
    if made:
        start = kept[-1][0]
        gap = layout.newline + " " * layout.column(start) if layout.is_first(start) else " "
        inserted = "".join(f",{gap}{each}" for each in made)
    if inserted or tail > kept[-1][1]:
        edits.append(Edit(kept[-1][1], tail, inserted))
    return edits


def _with_comments(entries: Sequence[list[str]], comments: Sequence[str]) -> list[str]:
    lines = [line for each in entries for line in each]
    if len(comments) == 1:
        return [f"{lines[0]} {comments[0]}", *lines[1:]]
    return [*comments, *lines]


def _after(layout: Layout, offset: int, indent: int, lines: Sequence[str]) -> Edit:
    end = layout.line_end(offset)
    if layout.text[end - 1 : end] != "\n":  # the last line of the text, without its end
        joined = "".join(layout.newline + " " * indent + line for line in lines)
        return Edit(end, end, joined)
    return _lines_at(layout, end, indent, lines)


def _lines_at(layout: Layout, offset: int, indent: int, lines: Sequence[str]) -> Edit:
    return Edit(offset, offset, "".join(" " * indent + line + layout.newline for line in lines))


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
