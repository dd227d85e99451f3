"""Shapes: what a node's pools look like to one kind of Pods, without any names.

Nodes with the same hardware have the same shape, and what is found out about it holds for all of them. Within a shape,
devices that cannot be told apart are one class: they are of one kind, and draw on the same counter sets.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from drabridge.core.allocation.kinds import DeviceKind, Known, ReadSet, kinds_of
from drabridge.core.allocation.nodes import Node, SelectorProblem, on_node
from drabridge.core.allocation.pools import Layout, Pool, PoolState
from drabridge.core.allocation.verdicts import OPTIONAL_OPERATIONS


class Block(NamedTuple):
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
    broken: tuple[tuple[int, str], ...]
    """Devices whose own node selector cannot be parsed, and why."""
    declared: bool
    """The node declares DRAOptionalNodeOperations."""
    order: tuple[int, ...] | None = None
    """Position -> place in the blocks, where another order than theirs is preferred; None for theirs."""
    known: dict[Any, Any] = field(default_factory=dict, repr=False)
    """What has been found out about the shape; it never changes."""

    def reordered(self, order: tuple[int, ...]) -> Shape:
        """Return the shape with its devices in another order. `order` gives the place of each position."""
        places = {place: position for position, place in enumerate(order)}
        broken = tuple(sorted((places[place], problem) for place, problem in self.broken))
        return Shape(self.blocks, moved(self.elsewhere, places), broken, self.declared, order)

    @cached_property
    def positions(self) -> Sequence[int]:
        """Place in the blocks -> position."""
        if self.order is None:
            return range(sum(len(block.kinds) for block in self.blocks))
        places = {place: position for position, place in enumerate(self.order)}
        return tuple([places[place] for place in range(len(self.order))])

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
        if self.order is not None:
            found = [found[place] for place in self.order]
        return tuple(found), tuple(numbers)


def moved(bits: int, places: Mapping[int, int]) -> int:
    """Move each bit to another place."""
    found = 0
    while bits:
        bit = bits & -bits
        bits ^= bit
        found |= 1 << places[bit.bit_length() - 1]
    return found


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


def shape_of(layout: Layout, node: Node, reads: ReadSet, kinds: Known, shapes: MutableMapping[Any, Shape]) -> Shape:
    """Return the shape of a node's pools; equal ones are the same object as long as somebody holds it.

    Raises InvalidInput for devices that cannot be read.
    """
    blocks = tuple([_block(pool, reads, kinds) for pool in layout.pools])
    slices = [slice_ for pool in layout.pools for slice_ in pool.slices]
    elsewhere, broken = _elsewhere(layout, node) if any(slice_.per_device for slice_ in slices) else (0, ())
    skips = any(slice_.skips_operations for slice_ in slices)
    declared = skips and OPTIONAL_OPERATIONS in node.declared_features
    key = (blocks, elsewhere, broken, declared)
    shape = shapes.get(key)
    if shape is None:
        shape = shapes[key] = Shape(*key)
    return shape


def _block(pool: Pool, reads: ReadSet, known: Known) -> Block:
    slices = pool.slices
    if len(slices) == 1:
        kinds = kinds_of(slices[0], reads, known)
    else:
        kinds = tuple([kind for slice_ in slices for kind in kinds_of(slice_, reads, known)])
    sets = tuple([(found.name, tuple(sorted(found.counters.items()))) for found in pool.counter_sets])
    return Block(pool.state, kinds, sets)


def _elsewhere(layout: Layout, node: Node) -> tuple[int, tuple[tuple[int, str], ...]]:
    """Return the devices that are for other nodes, and those of which that cannot be told."""
    found = 0
    broken = []
    for pool, offset in zip(layout.pools, layout.offsets, strict=True):
        position = offset
        for slice_ in pool.slices:
            for index, device in enumerate(slice_.devices if slice_.per_device is True else ()):
                try:
                    here = on_node(device, node) is True
                except SelectorProblem as problem:
                    here = True
                    broken.append((position + index, str(problem)))
                found |= 0 if here else 1 << (position + index)
            position += len(slice_.devices)
    return found, tuple(broken)
