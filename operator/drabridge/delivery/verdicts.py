"""What was found out about nodes, for each kind of Pod, until something on the node changes.

Thousands of Pods of one kind are looked at one after the other, and each claim event has kube-scheduler look at every
one that waits; meanwhile hardly any node changes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, field

KINDS_MAX = 256
"""Kinds of Pods that are remembered."""


@dataclass(slots=True)
class _Known:
    stamp: int
    verdicts: dict[str, str | None] = field(default_factory=dict)


class Verdicts:
    """Kind of Pod -> node -> why it cannot come there, or None if it can."""

    def __init__(self) -> None:
        self._stamp = 0
        self._all_at = 0
        self._changed_at: OrderedDict[str, int] = OrderedDict()  # node -> stamp, the latest last
        self._known: OrderedDict[Hashable, _Known] = OrderedDict()

    def touch(self, node: str) -> None:
        """Forget what was found out about a node."""
        self._stamp += 1
        self._changed_at[node] = self._stamp
        self._changed_at.move_to_end(node)

    def touch_all(self) -> None:
        """Forget everything."""
        self._stamp += 1
        self._all_at = self._stamp
        self._changed_at.clear()
        self._known.clear()

    def of(self, kind: Hashable) -> dict[str, str | None]:
        """What still holds for a kind of Pods; to be added to by whoever finds out more."""
        known = self._known.get(kind)
        if known is None or known.stamp < self._all_at:
            known = self._known[kind] = _Known(self._stamp)
            if len(self._known) > KINDS_MAX:
                self._known.popitem(last=False)
            return known.verdicts
        self._known.move_to_end(kind)
        for node in reversed(self._changed_at):
            if self._changed_at[node] <= known.stamp:
                break
            known.verdicts.pop(node, None)
        known.stamp = self._stamp
        return known.verdicts
