"""Upstream's texts, with gaps: names of claims, pools and devices are filled in when somebody reads them.

Nodes of one shape share their answers, and so do Pods of one kind, but each has its own names.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol


class ClaimAt(NamedTuple):
    """The label of a claim."""

    claim: int


class PoolAt(NamedTuple):
    """`driver/pool`."""

    pool: int


class DeviceAt(NamedTuple):
    """`driver/pool/device`, or the device's name alone."""

    position: int
    alone: bool = False


Text = tuple[str | ClaimAt | PoolAt | DeviceAt, ...]


class Fatal(Exception):
    """An error that ends the allocation. `claim` is the index of the claim that it is about."""

    def __init__(self, claim: int, path: str, text: Text, cure: str) -> None:
        super().__init__(text)
        self.claim = claim
        self.path = path
        self.text = text
        self.cure = cure

    def fresh(self) -> Fatal:
        """Return the same error without a history: one that is kept must not keep the calls that it came through."""
        return Fatal(self.claim, self.path, self.text, self.cure)


class Names(Protocol):
    """Who knows the names on a node."""

    def pool_name(self, index: int) -> str:
        """`driver/pool`."""

    def device_name(self, position: int) -> str:
        """The device's own name."""

    def device_id(self, position: int) -> str:
        """`driver/pool/device`."""


def rendered(text: Text, claims: Sequence[str], names: Names) -> str:
    """Fill the gaps. `claims` are the labels."""
    parts = []
    for part in text:
        match part:
            case str():
                parts.append(part)
            case ClaimAt(index):
                parts.append(claims[index])
            case PoolAt(index):
                parts.append(names.pool_name(index))
            case DeviceAt(position, alone):
                parts.append(names.device_name(position) if alone else names.device_id(position))
    return "".join(parts)
