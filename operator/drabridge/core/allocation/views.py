"""What is known of one node: its pools, its shapes, what is in use there. Kept until something in it changes."""

from __future__ import annotations

from typing import Any, Final

from drabridge.core.allocation.kinds import ReadSet
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.pools import Gathering, Layout
from drabridge.core.allocation.settings import Settings
from drabridge.core.allocation.shapes import Shape, shape_of
from drabridge.core.allocation.slices import Slice
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState, PoolUse
from drabridge.core.allocation.use import UNUSED, NodeUse, use_of

MOST_VIEWS: Final = 50_000
"""Nodes that are remembered, deleted ones included."""

_MOST_SHAPES: Final = 32
"""Read sets that a node is remembered for."""


class NodeView:
    """A node in a snapshot."""

    __slots__ = ("_by_pool", "_local", "_node", "_shapes", "_shared", "_used", "_uses", "layout")

    def __init__(self, snapshot: Snapshot, node: Node, settings: Settings) -> None:
        self._local = snapshot.by_node.get(node.name)
        self._shared = snapshot.shared
        self._by_pool: Any = snapshot.by_pool
        self._node = node
        known = snapshot.findings.pools
        gathering = Gathering(settings.features, settings.faults.stale_slices, snapshot.slices_of, known)
        candidates: tuple[Slice, ...] = self._local or ()
        pools = gathering.pools((*candidates, *self._shared), node)
        self.layout = Layout(pools, tuple(gathering.seen))
        self._shapes: dict[ReadSet, Shape] = {}
        self._uses: tuple[PoolUse | None, ...] | None = None
        self._used: NodeUse = UNUSED

    def holds(self, snapshot: Snapshot, node: Node) -> bool:
        """Whether nothing has changed that the view depends on."""
        if node is not self._node and not node.is_like(self._node):
            return False
        if snapshot.by_pool is self._by_pool:
            return True  # no slice came or went, so the other indexes are the same as well
        if snapshot.shared is not self._shared or snapshot.by_node.get(node.name) is not self._local:
            return False
        get = snapshot.by_pool.get
        for key, slices in self.layout.seen:
            if get(key) is not slices:
                return False
        self._by_pool = snapshot.by_pool
        return True

    def shape(self, reads: ReadSet, snapshot: Snapshot) -> Shape:
        """Return the node's shape for a read set. Raises InvalidInput for devices that cannot be read."""
        shape = self._shapes.get(reads)
        if shape is None:
            if len(self._shapes) >= _MOST_SHAPES:
                self._shapes.clear()
            findings = snapshot.findings
            shape = self._shapes[reads] = shape_of(self.layout, self._node, reads, findings.kinds, findings.shapes)
        return shape

    def use(self, state: AllocatedState, snapshot: Snapshot) -> NodeUse:
        """Return what is in use on the node."""
        uses = state.pools(self.layout.keys)
        if uses != self._uses:
            self._used = use_of(self.layout, uses, snapshot.findings.kinds)
            self._uses = uses
        return self._used


def view_of(snapshot: Snapshot, node: Node, settings: Settings) -> NodeView:
    """Return what is known of a node, or find it out."""
    views = snapshot.findings.views
    key = (node.name, settings.gathering)
    view = views.get(key)
    if view is None or not view.holds(snapshot, node):
        if len(views) >= MOST_VIEWS:
            views.clear()
        view = views[key] = NodeView(snapshot, node, settings)
    return view
