"""Shapes: what a node's pools look like to one kind of Pods, without any names.

Nodes with the same hardware have the same shape, and what is found out about it holds for all of them. Within a shape,
devices that cannot be told apart are one class: they are of one kind, and draw on the same counter sets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from drabridge.core.allocation.kinds import DeviceKind, Known, ReadSet, kinds_of
from drabridge.core.allocation.nodes import Node, SelectorProblem
from drabridge.core.allocation.pools import Layout, Pool, PoolState
from drabridge.core.allocation.verdicts import OPTIONAL_OPERATIONS
from drabridge.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Block:
    """A pool without its name: its state, the kinds of its devices, its counters."""

    state: PoolState
    kinds: tuple[DeviceKind, ...]
    counter_sets: tuple[tuple[str, tuple[tuple[str, int], ...]], ...]


@dataclass(frozen=True, eq=False)
class Shape:
    """A node's pools as one kind of Pods sees them."""

    blocks: tuple[Block, ...]
    elsewhere: int
    """Bitset of the devices that are for other nodes (perDeviceNodeSelection)."""
    declared: bool
    """The node declares DRAOptionalNodeOperations."""
    known: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What has been found out about the shape; it never changes."""

    @cached_property
    def kinds(self) -> tuple[DeviceKind, ...]:
        """The kind of the device at each position."""
        if len(self.blocks) == 1:
            return self.blocks[0].kinds
        return tuple([kind for block in self.blocks for kind in block.kinds])

    @cached_property
    def class_of(self) -> tuple[int, ...]:
        """The class of the device at each position."""
        return self._classes[0]

    @cached_property
    def classes(self) -> tuple[tuple[int, DeviceKind], ...]:
        """Each class: the block whose counters its devices draw on (-1: none), and their kind."""
        return self._classes[1]

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """The positions of each class, as a bitset."""
        return bitsets(self.class_of, len(self.classes))

    @cached_property
    def _classes(self) -> tuple[tuple[int, ...], tuple[tuple[int, DeviceKind], ...]]:
        numbers: dict[tuple[int, DeviceKind], int] = {}
        found = []
        for index, block in enumerate(self.blocks):
            home = index if block.counter_sets else -1
            cached: dict[DeviceKind, int] = {}
            for kind in block.kinds:
                number = cached.get(kind)
                if number is None:
                    key = (home if kind.raw.get("consumesCounters") else -1, kind)
                    number = cached[kind] = numbers.setdefault(key, len(numbers))
                found.append(number)
        return tuple(found), tuple(numbers)


def bitsets(numbers: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Return for each number below `count` the positions at which it stands."""
    size = len(numbers)
    if count == 1:
        return ((1 << size) - 1,)
    if size < 512 or count > 64:
        found = [0] * count
        bit = 1
        for number in numbers:
            found[number] |= bit
            bit <<= 1
        return tuple(found)
    # Large and of few kinds: text in base two is built faster than large integers bit by bit.
    texts = [bytearray(b"0") * size for _ in range(count)]
    for place, number in enumerate(reversed(numbers)):
        texts[number][place] = 49
    return tuple([int(text, 2) for text in texts])


@dataclass(frozen=True, slots=True)
class Shaping:
    """Makes shapes; equal ones are the same object as long as somebody holds it."""

    kinds: Known
    shapes: Mapping[Any, Shape]
    counter_sets: dict[Pool, Any] = field(default_factory=dict)

    def of(self, layout: Layout, node: Node, reads: ReadSet) -> Shape:
        """Return the shape of a node's pools. Raises InvalidInput for devices that cannot be read."""
        blocks = tuple([self._block(pool, reads) for pool in layout.pools])
        elsewhere = _elsewhere(layout, node)
        skips = any(slice_.skips_operations for pool in layout.pools for slice_ in pool.slices)
        declared = skips and OPTIONAL_OPERATIONS in node.declared_features
        return Shape(blocks, elsewhere, declared)

    def _block(self, pool: Pool, reads: ReadSet) -> Block:
        slices = pool.slices
        if len(slices) == 1:
            kinds = kinds_of(slices[0], reads, self.kinds)
        else:
            kinds = tuple([kind for slice_ in slices for kind in kinds_of(slice_, reads, self.kinds)])
        sets = tuple([(s.name, tuple(sorted(s.counters.items()))) for s in pool.counter_sets])
        return Block(pool.state, kinds, sets)


def _elsewhere(layout: Layout, node: Node) -> int:
    found = 0
    for pool, offset in zip(layout.pools, layout.offsets, strict=True):
        position = offset
        for slice_ in pool.slices:
            if slice_.per_device is True:
                for index in range(len(slice_.devices)):
                    if not _is_here(slice_.known, slice_, index, node):
                        found |= 1 << (position + index)
            position += len(slice_.devices)
    return found


def _is_here(_known: Any, slice_: Any, index: int, node: Node) -> bool:
    from drabridge.core.allocation.nodes import on_node

    try:
        return on_node(slice_.devices[index], node) is True
    except SelectorProblem as problem:
        raise InvalidInput(
            f"ResourceSlice {slice_.name}",
            f"spec.devices[{index}].nodeSelector",
            f"gather pool information: failed to perform node selection for slice {slice_.name}: {problem}",
            "its driver has to correct the selector",
        ) from None
