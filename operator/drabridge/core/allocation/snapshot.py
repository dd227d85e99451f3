"""Slices and classes of a cluster at one moment, indexed for allocation.

Immutable. `with_slice`, `without_slice`, `with_class` and so on give a new snapshot, in time that goes with the change
and not with the cluster. What has been found out about a snapshot (pools, shapes, answers) is kept in `Findings`, which
derived snapshots share: nothing in there depends on more than what its key says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar
from weakref import WeakValueDictionary

from drabridge.core.allocation.claims import DeviceClass
from drabridge.core.allocation.kinds import Known
from drabridge.core.allocation.persistent import History, Table
from drabridge.core.allocation.pools import Pool
from drabridge.core.allocation.reading import Raw
from drabridge.core.allocation.shapes import Shape
from drabridge.core.allocation.slices import PoolKey, Slice


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What derived snapshots have found out together. It makes allocations faster, and never changes an answer."""

    kinds: Known = field(default_factory=WeakValueDictionary)
    shapes: MutableMapping[Any, Shape] = field(default_factory=WeakValueDictionary)
    pools: MutableMapping[Any, Pool] = field(default_factory=WeakValueDictionary)
    views: dict[Any, Any] = field(default_factory=dict)
    passes: dict[Any, Any] = field(default_factory=dict)
    demands: dict[Any, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """What an allocation goes by of the cluster, apart from what is in use."""

    by_node: Table[str, tuple[Slice, ...]]
    """The slices with a nodeName, by that."""
    shared: tuple[Slice, ...]
    """All others."""
    by_pool: Table[PoolKey, tuple[Slice, ...]]
    by_name: Table[str, tuple[Slice, ...]]
    classes: Mapping[str, DeviceClass]
    next_order: int
    history: History[tuple[str, PoolKey]] = field(default_factory=History)
    """(node name or "", pool) of the slices that changed lately."""
    findings: Findings = field(default_factory=Findings)

    @classmethod
    def of(cls, slices: Iterable[Raw], classes: Iterable[Raw]) -> Self:
        """Make a snapshot of ResourceSlices and DeviceClasses (resource.k8s.io/v1, as JSON). Raises InvalidInput."""
        read = [Slice.of(raw, order) for order, raw in enumerate(slices)]
        by_node: dict[str, list[Slice]] = {}
        by_pool: dict[PoolKey, list[Slice]] = {}
        by_name: dict[str, list[Slice]] = {}
        shared = []
        for slice_ in read:
            if slice_.node_name:
                by_node.setdefault(slice_.node_name, []).append(slice_)
            else:
                shared.append(slice_)
            by_pool.setdefault(slice_.key, []).append(slice_)
            by_name.setdefault(slice_.name, []).append(slice_)
        known = [DeviceClass.of(raw) for raw in classes]
        return cls(
            Table.of({name: tuple(found) for name, found in by_node.items()}),
            tuple(shared),
            Table.of({key: tuple(found) for key, found in by_pool.items()}),
            Table.of({name: tuple(found) for name, found in by_name.items()}),
            {device_class.name: device_class for device_class in known},
            len(read),
        )

    def with_slice(self, raw: Raw) -> Self:
        """Return the snapshot with a slice added, or replaced if there is one of its name. Raises InvalidInput."""
        slice_ = Slice.of(raw, self.next_order)
        name = slice_.name
        old = self.by_name.get(name) or ()
        if old:
            slice_.order = old[0].order
        indexes = _Indexes(self)
        for other in old:
            if len(old) > 1 or other.key != slice_.key or other.node_name != slice_.node_name:
                indexes.remove(other)
        indexes.add(slice_)
        return self._with(indexes, self.by_name.set(name, (slice_,)), self.next_order + (not old), (*old, slice_))

    def without_slice(self, name: str) -> Self:
        """Return the snapshot without the slice of a name, whether there is one or not."""
        old = self.by_name.get(name) or ()
        indexes = _Indexes(self)
        for other in old:
            indexes.remove(other)
        return self._with(indexes, self.by_name.remove(name), self.next_order, old)

    def _with(
        self, indexes: _Indexes, by_name: Table[str, tuple[Slice, ...]], next_order: int, changed: tuple[Slice, ...]
    ) -> Self:
        keys = {(slice_.node_name or "", slice_.key) for slice_ in changed}
        return type(self)(
            indexes.by_node,
            indexes.shared,
            indexes.by_pool,
            by_name,
            self.classes,
            next_order,
            self.history.after(*keys) if changed else self.history,
            self.findings,
        )

    def with_class(self, raw: Raw) -> Self:
        """Return the snapshot with a DeviceClass added or replaced. Raises InvalidInput."""
        device_class = DeviceClass.of(raw)
        return replace(self, classes={**self.classes, device_class.name: device_class})

    def without_class(self, name: str) -> Self:
        """Return the snapshot without a DeviceClass, whether there is one or not."""
        return replace(self, classes={known: value for known, value in self.classes.items() if known != name})

    def all_slices(self) -> Iterator[Slice]:
        """All slices, in no particular order."""
        for slices in self.by_name.values():
            yield from slices

    def slices_of(self, key: PoolKey) -> tuple[Slice, ...]:
        """All slices of a pool, in the order of the input."""
        return self.by_pool.get(key) or ()


class _Indexes:
    """The indexes of slices while one is exchanged."""

    __slots__ = ("by_node", "by_pool", "shared")

    def __init__(self, snapshot: Snapshot) -> None:
        self.by_node = snapshot.by_node
        self.by_pool = snapshot.by_pool
        self.shared = snapshot.shared

    def add(self, slice_: Slice) -> None:
        """Add a slice, or put it in the place of the one that has its order."""
        if slice_.node_name:
            self.by_node = self.by_node.set(slice_.node_name, _inserted(self.by_node.get(slice_.node_name), slice_))
        else:
            self.shared = _inserted(self.shared, slice_)
        self.by_pool = self.by_pool.set(slice_.key, _inserted(self.by_pool.get(slice_.key), slice_))

    def remove(self, slice_: Slice) -> None:
        """Remove a slice."""
        if slice_.node_name:
            self.by_node = _without(self.by_node, slice_.node_name, slice_)
        else:
            self.shared = tuple([other for other in self.shared if other is not slice_])
        self.by_pool = _without(self.by_pool, slice_.key, slice_)


def _inserted(slices: tuple[Slice, ...] | None, slice_: Slice) -> tuple[Slice, ...]:
    if not slices or slices[-1].order < slice_.order:
        return (*(slices or ()), slice_)
    place = bisect_left(slices, slice_.order, key=lambda other: other.order)
    rest = place + (place < len(slices) and slices[place].order == slice_.order)
    return (*slices[:place], slice_, *slices[rest:])


K = TypeVar("K", bound=Hashable)


def _without(table: Table[K, tuple[Slice, ...]], key: K, slice_: Slice) -> Table[K, tuple[Slice, ...]]:
    rest = tuple([other for other in table.get(key) or () if other is not slice_])
    return table.set(key, rest) if rest else table.remove(key)
