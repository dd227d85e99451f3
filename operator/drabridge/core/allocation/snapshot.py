"""Slices and classes of a cluster at one moment, indexed for allocation.

Immutable. `with_slice`, `without_slice`, `with_class` and so on give a new snapshot, in time that goes with the change
and not with the cluster. What has been found out about a snapshot (pools, shapes, answers) is kept in `Findings`, which
derived snapshots share: nothing in there depends on more than what its key says.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeVar
from weakref import WeakValueDictionary

from drabridge.core.allocation.claims import DeviceClass
from drabridge.core.allocation.kinds import Known
from drabridge.core.allocation.persistent import Table
from drabridge.core.allocation.pools import Layout, Pool
from drabridge.core.allocation.reading import Raw
from drabridge.core.allocation.shapes import Shape
from drabridge.core.allocation.slices import PoolKey, Slice


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """What derived snapshots have found out together. It makes allocations faster, and never changes an answer."""

    kinds: Known = field(default_factory=WeakValueDictionary)
    shapes: MutableMapping[Any, Shape] = field(default_factory=WeakValueDictionary)
    pools: MutableMapping[Any, Pool] = field(default_factory=WeakValueDictionary)
    nodes: dict[Any, tuple[Any, Layout]] = field(default_factory=dict)


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
        name = str((raw.get("metadata") or {}).get("name") or "")
        old = self.by_name.get(name)
        slice_ = Slice.of(raw, self.next_order if old is None else old[0].order)
        rest = self if old is None else self.without_slice(name)
        shared, by_node = rest.shared, rest.by_node
        if slice_.node_name:
            by_node = by_node.set(slice_.node_name, _inserted(by_node.get(slice_.node_name), slice_))
        else:
            shared = _inserted(shared, slice_)
        return replace(
            rest,
            by_node=by_node,
            shared=shared,
            by_pool=rest.by_pool.set(slice_.key, _inserted(rest.by_pool.get(slice_.key), slice_)),
            by_name=rest.by_name.set(name, (slice_,)),
            next_order=self.next_order + (old is None),
        )

    def without_slice(self, name: str) -> Self:
        """Return the snapshot without the slice of a name, whether there is one or not."""
        shared, by_node, by_pool = self.shared, self.by_node, self.by_pool
        for slice_ in self.by_name.get(name) or ():
            if slice_.node_name:
                by_node = _without(by_node, slice_.node_name, slice_)
            else:
                shared = tuple(other for other in shared if other is not slice_)
            by_pool = _without(by_pool, slice_.key, slice_)
        return replace(self, by_node=by_node, shared=shared, by_pool=by_pool, by_name=self.by_name.remove(name))

    def with_class(self, raw: Raw) -> Self:
        """Return the snapshot with a DeviceClass added or replaced. Raises InvalidInput."""
        device_class = DeviceClass.of(raw)
        return replace(self, classes={**self.classes, device_class.name: device_class})

    def without_class(self, name: str) -> Self:
        """Return the snapshot without a DeviceClass, whether there is one or not."""
        return replace(self, classes={known: value for known, value in self.classes.items() if known != name})

    def slices_of(self, key: PoolKey) -> tuple[Slice, ...]:
        """All slices of a pool, in the order of the input."""
        return self.by_pool.get(key) or ()


K = TypeVar("K", bound=Hashable)


def _inserted(slices: tuple[Slice, ...] | None, slice_: Slice) -> tuple[Slice, ...]:
    if not slices:
        return (slice_,)
    if slices[-1].order < slice_.order:
        return (*slices, slice_)
    return tuple(sorted((*slices, slice_), key=lambda other: other.order))


def _without(table: Table[K, tuple[Slice, ...]], key: K, slice_: Slice) -> Table[K, tuple[Slice, ...]]:
    rest = tuple(other for other in table.get(key) or () if other is not slice_)
    return table.set(key, rest) if rest else table.remove(key)
