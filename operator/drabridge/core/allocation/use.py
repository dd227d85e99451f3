"""What is in use on one node, in the terms of its layout: bitsets, and the amounts taken of shared devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from drabridge.core.allocation.kinds import DeviceKind, Known, ReadSet, kinds_of
from drabridge.core.allocation.pools import Layout, Pool
from drabridge.core.allocation.state import AllocatedState, PoolUse

Amounts = tuple[tuple[str, int], ...]
"""(capacity name, thousand-millionths), sorted by name."""


@dataclass(frozen=True, slots=True)
class NodeUse:
    """What allocated claims hold of a node's devices. Equal uses of one shape have equal answers."""

    dedicated: int = 0
    """Bitset of the devices that are allocated as a whole."""
    shared: int = 0
    """Bitset of the devices of which there are shares, or amounts in use."""
    amounts: tuple[tuple[int, Amounts], ...] = ()
    """(position, amounts in use)."""
    remote: tuple[tuple[int, tuple[DeviceKind, ...]], ...] = ()
    """(pool index, kinds of its allocated devices that belong to other nodes)."""


UNUSED: Final = NodeUse()

_NO_ATTRIBUTES: Final = ReadSet()


def use_of(layout: Layout, state: AllocatedState, known: Known) -> NodeUse:
    """Say what is in use of a node's devices."""
    dedicated = shared = 0
    amounts: list[tuple[int, Amounts]] = []
    remote = []
    for index, pool in enumerate(layout.pools):
        use = state.pool(pool.key)
        if use is None:
            continue
        offset = layout.offsets[index]
        positions = pool.positions
        for name in use.dedicated:
            if (place := positions.get(name)) is not None:
                dedicated |= 1 << (offset + place)
        for name in use.shares:
            if (place := positions.get(name)) is not None:
                shared |= 1 << (offset + place)
        for name, taken in use.amounts.items():
            if (place := positions.get(name)) is not None:
                shared |= 1 << (offset + place)
                amounts.append((offset + place, tuple(sorted(taken.items()))))
        if pool.remote:
            elsewhere = _remote(pool, use, known)
            if elsewhere:
                remote.append((index, elsewhere))
    if not (dedicated or shared or remote):
        return UNUSED
    return NodeUse(dedicated, shared, tuple(sorted(amounts)), tuple(remote))


def _remote(pool: Pool, use: PoolUse, known: Known) -> tuple[DeviceKind, ...]:
    found = []
    for slice_ in pool.remote:
        names = slice_.names()
        taken = [i for i, name in enumerate(names) if use.holds(name)]
        if taken:
            kinds = kinds_of(slice_, _NO_ATTRIBUTES, known)
            found.extend(kinds[i] for i in taken if kinds[i].raw.get("consumesCounters"))
    return tuple(found)


def amounts_by_position(use: NodeUse) -> Mapping[int, Mapping[str, int]]:
    """Return position -> capacity name -> amount in use."""
    return {position: dict(amounts) for position, amounts in use.amounts}
