"""What is never changed and yet cheap to derive from: a mapping, and the history of changes.

Setting a key of a Table gives a new one, and costs the same for ten keys and ten thousand.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Final, Generic, Self, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_SHARDS: Final = 128
"""Dicts that the keys are spread over. A change copies the list of them, and one of them."""

_MASK: Final = _SHARDS - 1


class Table(Generic[K, V]):
    """A persistent mapping. Iteration goes in no particular order; it is the same for equal histories."""

    __slots__ = ("_shards", "_size")

    def __init__(self, shards: tuple[dict[K, V] | None, ...] = (None,) * _SHARDS, size: int = 0) -> None:
        self._shards = shards
        self._size = size

    @classmethod
    def of(cls, items: Mapping[K, V]) -> Self:
        """Make a table of many keys at once."""
        shards: list[dict[K, V] | None] = [None] * _SHARDS
        for key, value in items.items():
            number = hash(key) & _MASK
            shard = shards[number]
            if shard is None:
                shards[number] = {key: value}
            else:
                shard[key] = value
        return cls(tuple(shards), len(items))

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if there is none."""
        shard = self._shards[hash(key) & _MASK]
        return None if shard is None else shard.get(key)

    def set(self, key: K, value: V) -> Self:
        """Return the table with the key set."""
        number = hash(key) & _MASK
        shard = self._shards[number] or {}
        return self._with(number, {**shard, key: value}, self._size + (key not in shard))

    def remove(self, key: K) -> Self:
        """Return the table without the key, whether it has it or not."""
        number = hash(key) & _MASK
        shard = self._shards[number]
        if shard is None or key not in shard:
            return self
        return self._with(number, {k: v for k, v in shard.items() if k != key}, self._size - 1)

    def _with(self, number: int, shard: dict[K, V], size: int) -> Self:
        shards = list(self._shards)
        shards[number] = shard or None
        return type(self)(tuple(shards), size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Table) and self._shards == other._shards

    __hash__ = None  # type: ignore[assignment] # like a dict

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[K]:
        for shard in self._shards:
            if shard:
                yield from shard

    def values(self) -> Iterator[V]:
        """The values, in the order of the keys."""
        for shard in self._shards:
            if shard:
                yield from shard.values()


class History(Generic[K]):
    """What has changed lately. Each history knows those it was derived from, as far back as it remembers."""

    __slots__ = ("_changes", "_version")

    def __init__(self, changes: tuple[tuple[object, tuple[K, ...]], ...] = ()) -> None:
        self._version = object()
        self._changes = changes

    def after(self, *keys: K) -> Self:
        """Return the history after a change of these keys."""
        return type(self)((*self._changes[-_REMEMBERED + 1 :], (self._version, keys)))

    def since(self, earlier: History[K]) -> list[K] | None:
        """Return the keys that have changed since an earlier history; None if that is not remembered."""
        if earlier is self:
            return []
        version = earlier._version
        found: list[K] = []
        for before, keys in reversed(self._changes):
            found.extend(keys)
            if before is version:
                return found
        return None


_REMEMBERED: Final = 64
"""Changes that a history knows."""
