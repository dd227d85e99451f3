"""The largest flow through a small network of integer capacities."""

from __future__ import annotations

from collections.abc import Sequence


class Network:
    """Nodes are numbered; node 0 is the source, node 1 the sink."""

    def __init__(self, nodes: int) -> None:
        self._arcs: list[list[int]] = [[] for _ in range(nodes)]
        self._heads: list[int] = []
        self._room: list[int] = []

    def arc(self, tail: int, head: int, capacity: int) -> None:
        """Add an arc."""
        for start, end, room in ((tail, head, capacity), (head, tail, 0)):
            self._arcs[start].append(len(self._heads))
            self._heads.append(end)
            self._room.append(room)

    def largest_flow(self) -> int:
        """Return how much gets from the source to the sink. May be called once."""
        total = 0
        while True:
            path = self._path()
            if not path:
                return total
            amount = min(self._room[arc] for arc in path)
            for arc in path:
                self._room[arc] -= amount
                self._room[arc ^ 1] += amount
            total += amount

    def _path(self) -> list[int]:
        """Return the arcs of a shortest path with room from source to sink; empty if there is none."""
        came: list[int] = [-1] * len(self._arcs)
        came[0] = -2
        queue = [0]
        for node in queue:
            for arc in self._arcs[node]:
                head = self._heads[arc]
                if self._room[arc] and came[head] == -1:
                    came[head] = arc
                    if head == 1:
                        return self._traced(came)
                    queue.append(head)
        return []

    def _traced(self, came: Sequence[int]) -> list[int]:
        path = []
        node = 1
        while node != 0:
            arc = came[node]
            path.append(arc)
            node = self._heads[arc ^ 1]
        return path
