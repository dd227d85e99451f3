"""The pools of a node: which slices count, which pools are complete and valid, and the order of their devices.

Sections 3.1 to 3.7 of the behaviour. The order of devices (pool, slice, place in the slice) is total, and the search
follows it, so that answers are reproducible.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from drabridge.core.allocation.features import Features
from drabridge.core.allocation.nodes import Node, SelectorProblem
from drabridge.core.allocation.outcomes import AllocationError
from drabridge.core.allocation.slices import CounterSet, PoolKey, Slice


class PoolState(StrEnum):
    """Whether the devices of a pool can be used."""

    USABLE = "Usable"
    INCOMPLETE = "Incomplete"
    """Slices are missing or too many: the driver is updating the pool."""
    INVALID = "Invalid"
    """The slices contradict each other."""


@dataclass(frozen=True, eq=False)
class Pool:
    """A pool as one node sees it. The devices of the slices are its devices, in order."""

    key: PoolKey
    state: PoolState
    problem: str
    """What is wrong with it, for users; "" if it is usable."""
    slices: tuple[Slice, ...]
    counter_sets: tuple[CounterSet, ...]
    remote: tuple[Slice, ...]
    """Slices with devices of other nodes, which may consume the same counters."""
    is_binding: bool

    @cached_property
    def size(self) -> int:
        """How many devices it has here."""
        return sum([len(slice_.devices) for slice_ in self.slices])

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Device name -> position in the pool."""
        return {name: index for index, name in enumerate(self.names)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the devices, in order."""
        if len(self.slices) == 1:
            return self.slices[0].names()
        return tuple([name for slice_ in self.slices for name in slice_.names()])

    def at(self, position: int) -> tuple[Slice, int]:
        """Return the slice of a device and its index there."""
        for slice_ in self.slices:
            if position < len(slice_.devices):
                return slice_, position
            position -= len(slice_.devices)
        raise IndexError(position)


@dataclass(frozen=True, eq=False)
class Layout:
    """All pools of a node, in search order. A device is known by its position: pools first, then places in them."""

    pools: tuple[Pool, ...]
    seen: tuple[tuple[PoolKey, Sequence[Slice]], ...] = ()
    """The pools that were looked at, with all their slices at that time."""

    @cached_property
    def keys(self) -> tuple[PoolKey, ...]:
        """The keys of the pools."""
        return tuple([pool.key for pool in self.pools])

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """The position of each pool's first device."""
        offsets, total = [], 0
        for pool in self.pools:
            offsets.append(total)
            total += pool.size
        return tuple(offsets)

    @cached_property
    def has_invalid(self) -> bool:
        """Whether a pool contradicts itself, which upstream reports if nothing fits."""
        return any(pool.state is PoolState.INVALID for pool in self.pools)

    def pool_at(self, position: int) -> tuple[Pool, int]:
        """Return the pool of a device, and its position there."""
        index = bisect_right(self.offsets, position) - 1
        return self.pools[index], position - self.offsets[index]

    def pool_name(self, index: int) -> str:
        """`driver/pool`."""
        return "/".join(self.pools[index].key)

    def device_name(self, position: int) -> str:
        """The device's own name."""
        pool, place = self.pool_at(position)
        return pool.names[place]

    def device_id(self, position: int) -> str:
        """`driver/pool/device`."""
        pool, place = self.pool_at(position)
        return f"{pool.key[0]}/{pool.key[1]}/{pool.names[place]}"


@dataclass(frozen=True, slots=True)
class Gathering:
    """How pools are gathered: `slices_of` gives all slices of a pool, in the order of the input."""

    features: Features
    stale_slices: bool
    slices_of: Callable[[PoolKey], Sequence[Slice]]
    known: MutableMapping[Any, Pool]
    """Pools that were gathered before, by their slices."""
    seen: list[tuple[PoolKey, Sequence[Slice]]] = field(default_factory=list)
    """The pools that were looked at."""

    def pools(self, candidates: Iterable[Slice], node: Node) -> tuple[Pool, ...]:
        """Return the pools of a node in search order.

        Raises AllocationError for a node selector that is broken, InvalidInput for counters that are no quantities.
        """
        groups: dict[PoolKey, list[Slice]] = {}
        for slice_ in candidates:
            if self._is_known(slice_) and _is_for(slice_, node):
                kept = groups.setdefault(slice_.key, [])
                if not kept or slice_.generation >= kept[0].generation:
                    if kept and slice_.generation > kept[0].generation:
                        kept.clear()
                    kept.append(slice_)
        found = [pool for key, slices in groups.items() if (pool := self._pool(key, slices)) is not None]
        return tuple(sorted(found, key=lambda pool: (pool.is_binding, pool.key)))

    def _is_known(self, slice_: Slice) -> bool:
        """Whether an allocator with these features looks at a slice at all."""
        if not self.features.partitionable_devices and (slice_.per_device is not None or slice_.has_counters):
            return False
        return self.features.compatibility_groups or not slice_.declares_groups

    def _pool(self, key: PoolKey, relevant: list[Slice]) -> Pool | None:
        generation, expected = relevant[0].generation, relevant[0].expected
        everywhere = self.slices_of(key)
        self.seen.append((key, everywhere))
        complete = len(relevant) == expected
        if not (complete and self.stale_slices) and any(slice_.generation > generation for slice_ in everywhere):
            return None
        if len(relevant) > 1:
            relevant.sort(key=lambda slice_: slice_.name)
        remote: tuple[Slice, ...] = ()
        if not complete:
            current = [slice_ for slice_ in everywhere if slice_.generation == generation]
            if not self.features.compatibility_groups:
                current = [slice_ for slice_ in current if not slice_.declares_groups]
            if len(current) != expected:
                return _unusable(key, PoolState.INCOMPLETE, f"it has {len(current)} slices and should have {expected}")
            here = set(relevant)
            remote = tuple([slice_ for slice_ in current if slice_ not in here])
        if len(relevant) == 1 and relevant[0].node_name and not remote:
            return self._put_together(key, relevant, remote)  # of this node only, and the node's view keeps it
        memo = (tuple(relevant), remote, self.features.partitionable_devices)
        pool = self.known.get(memo)
        if pool is None:
            pool = self.known[memo] = self._put_together(key, relevant, remote)
        return pool

    def _put_together(self, key: PoolKey, relevant: list[Slice], remote: tuple[Slice, ...]) -> Pool:
        sets: tuple[CounterSet, ...] = ()
        with_devices = tuple(relevant)
        if self.features.partitionable_devices and any(slice_.has_counters for slice_ in (*relevant, *remote)):
            sets = tuple(counter_set for slice_ in (*relevant, *remote) for counter_set in slice_.counter_sets())
            with_devices = tuple(slice_ for slice_ in relevant if not slice_.has_counters)
            remote = tuple(slice_ for slice_ in remote if not slice_.has_counters)
        problem = self._problem(with_devices, remote, sets)
        if problem:
            return _unusable(key, PoolState.INVALID, problem)
        binding = any(slice_.is_binding for slice_ in with_devices)
        return Pool(key, PoolState.USABLE, "", with_devices, sets, remote, binding)

    def _problem(self, slices: tuple[Slice, ...], remote: tuple[Slice, ...], sets: tuple[CounterSet, ...]) -> str:
        names = [name for slice_ in slices for name in slice_.names()] if len(slices) != 1 else slices[0].names()
        if len(set(names)) != len(names):
            return f"device {_twice(names)} is in it twice"
        if not self.features.partitionable_devices:
            return ""
        if len({counter_set.name for counter_set in sets}) != len(sets):
            return f"counter set {_twice([counter_set.name for counter_set in sets])} is in it twice"
        known = {counter_set.name: counter_set.counters for counter_set in sets}
        for slice_ in (*slices, *remote):
            problem = _unknown_counter(slice_, known)
            if problem:
                return problem
        return ""


def _unusable(key: PoolKey, state: PoolState, problem: str) -> Pool:
    return Pool(key, state, problem, (), (), (), is_binding=False)


def _is_for(slice_: Slice, node: Node) -> bool:
    try:
        return slice_.is_for(node)
    except SelectorProblem as problem:
        of_device = "" if problem.device is None else f"device {slice_.names()[problem.device]} in "
        raise AllocationError(
            f"ResourceSlice {slice_.name}",
            "spec.nodeSelector" if problem.device is None else f"spec.devices[{problem.device}].nodeSelector",
            f"gather pool information: failed to perform node selection for "
            f"{of_device}slice {slice_.name}: failed to parse node selector: {problem}",
            "its driver has to correct the selector",
        ) from None


def _unknown_counter(slice_: Slice, known: Mapping[str, Mapping[str, int]]) -> str:
    consuming: tuple[int, ...] | None = slice_.known.get("consuming")
    if consuming is None:
        consuming = slice_.known["consuming"] = tuple(
            [i for i, device in enumerate(slice_.devices) if device.get("consumesCounters")]
            if "consumesCounters" in slice_.fields
            else ()
        )
    for index in consuming:
        device = slice_.devices[index]
        for consumption in device["consumesCounters"]:
            counters = known.get(consumption.get("counterSet") or "")
            if counters is None:
                return f"device {device.get('name')} consumes {consumption.get('counterSet')}, no counter set of it"
            for counter in consumption.get("counters") or ():
                if counter not in counters:
                    return f"device {device.get('name')} consumes counter {counter}, which its counter set has not"
    return ""


def _twice(names: Sequence[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""
