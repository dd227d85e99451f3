"""Changes of what stands between commas: entries of mappings and items of sequences in flow style.

Comments that stand between them stay, each on a line of its own where what it was behind is gone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from drabridge.core.convert import comments
from drabridge.core.convert.comments import Comment
from drabridge.core.convert.layout import Edit, Layout, Unsafe
from drabridge.core.convert.tree import Node

_OPENING: Final = re.compile(r"[^\[{]*[\[{]")
_COMMA: Final = re.compile(r"\s*,")
_COMMA_IN_LINE: Final = re.compile(r"[ \t]*,")
_REST_OF_LINE: Final = re.compile(r"[ \t]*(?:\r?\n|\Z)")


@dataclass(frozen=True, slots=True)
class Item:
    """What stands between two commas: its nodes, and where it begins and ends."""

    start: int
    end: int
    nodes: tuple[Node, ...]


def change_items(
    layout: Layout, whole: tuple[int, int], items: Sequence[Item], gone: Collection[int], made: Sequence[str]
) -> list[Edit]:
    """Take items out, and put others behind those that stay; `whole` is from the opening bracket to the closing one.

    Raises Unsafe where there is no bracket.
    """
    opening = _OPENING.match(layout.text, whole[0])
    if opening is None:
        raise Unsafe
    inside = opening.end(), whole[1] - 1
    found = comments.within(layout.text, *inside, [node for item in items for node in item.nodes])
    kept = [i for i in range(len(items)) if i not in gone]
    if not kept:
        return [Edit(*inside, _refilled(layout, inside, found, made))] if items or made else []
    if any(not any(items[i].start <= each.start < items[i].end for i in kept) for each in found):
        return _around_comments(layout, inside, items, kept, made, found)
    last = kept[-1]
    edits = [Edit(items[i].start, items[i + 1].start, "") for i in sorted(gone) if i < last]
    end = items[last].end
    tail = items[-1].end if last + 1 < len(items) else end
    inserted = ""
    if made:
        first = layout.is_first(items[last].start)
        gap = layout.join(end, layout.column(items[last].start)) if first else " "
        inserted = "".join(f",{gap}{each}" for each in made)
    if inserted or tail > end:
        edits.append(Edit(end, tail, inserted))
    return edits


def _refilled(layout: Layout, inside: tuple[int, int], found: Sequence[Comment], made: Sequence[str]) -> str:
    """What comes between brackets where nothing stays but comments."""
    if not found:
        return ", ".join(made)
    start, end = inside
    outer = _indent(layout, end) if layout.is_first(end) else _indent(layout, start)
    line = layout.join(start, outer + 2)
    text = "".join((" " if _same_line(layout, start, each.start) else line) + each.text for each in found)
    if made:
        text += line + ", ".join(made)
    return text + layout.join(start, outer)


def _around_comments(
    layout: Layout,
    inside: tuple[int, int],
    items: Sequence[Item],
    kept: Sequence[int],
    made: Sequence[str],
    found: Sequence[Comment],
) -> list[Edit]:
    """Leave everything but the items where it is. A comma may stay behind the last one, which YAML allows."""
    edits = [_out(layout, each, found) for i, each in enumerate(items) if i not in kept]
    if not made:
        return edits
    last, end = items[kept[-1]], inside[1]
    if last is items[-1] and not _COMMA.match(layout.text, last.end):
        edits.append(Edit(last.end, last.end, ","))
    column = layout.column(last.start) if layout.is_first(last.start) else _indent(layout, inside[0]) + 2
    line = layout.join(end, column)
    if layout.is_first(end):
        start = layout.line_start(end)
        return [*edits, Edit(start, start, f"{' ' * column}{(',' + line).join(made)}{layout.newline_at(end)}")]
    return [*edits, Edit(end, end, line + ("," + line).join(made))]


def _out(layout: Layout, item: Item, found: Sequence[Comment]) -> Edit:
    """Take one item out with the comma behind it, but not the comments in it."""
    comma = _COMMA_IN_LINE.match(layout.text, item.end)
    end = comma.end() if comma else item.end
    own = [each.text for each in found if item.start <= each.start < item.end]
    rest = _REST_OF_LINE.match(layout.text, end)
    line = layout.join(item.start, layout.column(item.start))
    if own:
        before = "" if layout.text[item.start - 1].isspace() else " "
        end += not rest and layout.text[end : end + 1] == " "
        return Edit(item.start, end, before + line.join(own) + ("" if rest else line))
    if rest and layout.is_first(item.start):
        return Edit(layout.line_start(item.start), rest.end(), "")
    if layout.text[end : end + 1] == " ":
        end += 1
    return Edit(item.start, end, "")


def _indent(layout: Layout, offset: int) -> int:
    """How far the line of an offset stands in."""
    start = layout.line_start(offset)
    line = layout.text[start : layout.line_end(offset)]
    return len(line) - len(line.lstrip(" "))


def _same_line(layout: Layout, one: int, other: int) -> bool:
    return layout.line_start(one) == layout.line_start(other)
