"""What is in use on one node, in the terms of its layout: bitsets, and the amounts taken of shared devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from drabridge.core.allocation.kinds import DeviceKind, Known, ReadSet, kinds_of
from drabridge.core.allocation.pools import Layout, Pool
from drabridge.core.allocation.shapes import moved
from drabridge.core.allocation.state import PoolUse

Amounts = tuple[tuple[str, int], ...]
"""(capacity name, thousand-millionths), sorted by name."""


class NodeUse(NamedTuple):
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


def use_of(layout: Layout, uses: Sequence[PoolUse | None], known: Known) -> NodeUse:
    """Say what is in use of a node's devices. `uses` go with the layout's pools."""
    dedicated = shared = 0
    amounts: list[tuple[int, Amounts]] = []
    remote: list[tuple[int, tuple[DeviceKind, ...]]] = []
    for index, use in enumerate(uses):
        if use is None:
            continue
        pool, offset = layout.pools[index], layout.offsets[index]
        dedicated |= _bits(pool, use.dedicated) << offset
        if use.shares or use.amounts:
            shared |= (_bits(pool, use.shares) | _bits(pool, use.amounts)) << offset
            amounts.extend(
                (offset + pool.positions[name], tuple(sorted(taken.items())))
                for name, taken in use.amounts.items()
                if name in pool.positions
            )
        if pool.remote and (elsewhere := _remote(pool, use, known)):
            remote.append((index, elsewhere))
    if not (dedicated or shared or remote):
        return UNUSED
    return NodeUse(dedicated, shared, tuple(sorted(amounts)), tuple(remote))


def _bits(pool: Pool, names: Iterable[str]) -> int:
    found = 0
    positions = pool.positions
    for name in names:
        if (place := positions.get(name)) is not None:
            found |= 1 << place
    return found


def _remote(pool: Pool, use: PoolUse, known: Known) -> tuple[DeviceKind, ...]:
    found: list[DeviceKind] = []
    for slice_ in pool.remote:
        names = slice_.names()
        taken = [i for i, name in enumerate(names) if use.holds(name)]
        if taken:
            kinds = kinds_of(slice_, _NO_ATTRIBUTES, known)
            found.extend(kinds[i] for i in taken if kinds[i].raw.get("consumesCounters"))
    return tuple(found)


def moved_use(use: NodeUse, places: Mapping[int, int]) -> NodeUse:
    """Return the use of devices that stand in another order."""
    amounts = tuple(sorted((places[position], amounts) for position, amounts in use.amounts))
    return NodeUse(moved(use.dedicated, places), moved(use.shared, places), amounts, use.remote)


def amounts_by_position(use: NodeUse) -> Mapping[int, Mapping[str, int]]:
    """Return position -> capacity name -> amount in use."""
    return {position: dict(amounts) for position, amounts in use.amounts}
