"""The devices of the cluster and what is in use of them, kept current claim by claim, and whether claims fit on a node.

Between our own write of an allocation and the watch event that shows it, what was decided counts (`assume`): later
decisions must not give the same devices away again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import structlog

from drabridge.core.allocation.allocate import allocate
from drabridge.core.allocation.claims import Claim
from drabridge.core.allocation.outcomes import Allocated, Undecided, Unfit
from drabridge.core.allocation.settings import Settings
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState, Holding, holdings
from drabridge.core.allocation.strategy import Strategy as DeviceOrder
from drabridge.core.bind.allocators import Overlap
from drabridge.core.bind.devices import SliceRecord
from drabridge.core.bind.nodes import BindNode
from drabridge.core.bind.taints import TaintRule, tainted
from drabridge.core.errors import InvalidInput
from drabridge.core.policy import Strategy
from drabridge.delivery.verdicts import Verdicts
from drabridge.kube.caches import BindStores, Change, Store

_SETTINGS = {each: Settings(strategy=DeviceOrder(each.value)) for each in Strategy}

_log = structlog.get_logger(__name__)


class Devices:
    """Snapshot and state. Everything in it can be rebuilt from the stores."""

    def __init__(self, stores: BindStores, new_share: Callable[[], str]) -> None:
        self._stores = stores
        self._new_share = new_share
        self._snapshot = Snapshot.of((), ())
        self._rules: tuple[TaintRule, ...] = ()
        self._state = AllocatedState()
        self._assumed: dict[str, Mapping[str, Any]] = {}
        self._held: dict[str, Mapping[str, Any]] = {}  # claim -> the allocation that the state has of it
        self._rooms: dict[str, tuple[int, int]] = {}
        self.verdicts = Verdicts()
        self.overlaps: dict[str, str] = {}
        """Claim -> what it holds of that another claim holds as well."""

    def rebuild(self) -> None:
        """Begin anew from the stores."""
        self._snapshot = Snapshot.of(
            (tainted(each.raw, self._rules) for each in self._stores.slices),
            (each.raw for each in self._stores.classes),
        )
        self._state = AllocatedState()
        self._held.clear()
        self._assumed.clear()
        self.overlaps.clear()
        self._touch_all()
        for record in self._stores.claims:
            self._refresh(record.key)

    def changed(self, store: Store[Any], change: Change[Any]) -> None:
        """Take in a change of one of the stores."""
        if store is self._stores.claims:
            self._refresh(change.key)
        elif store is self._stores.slices:
            self._slice_changed(change)
        elif store is self._stores.nodes:
            self._touch(change.key)
        elif change.after is None:
            self._snapshot = self._snapshot.without_class(change.key)
            self._touch_all()
        else:
            self._snapshot = self._snapshot.with_class(change.after.raw)
            self._touch_all()

    def _slice_changed(self, change: Change[SliceRecord]) -> None:
        self._snapshot = (
            self._snapshot.without_slice(change.key)
            if change.after is None
            else self._snapshot.with_slice(tainted(change.after.raw, self._rules))
        )
        for record in (change.before, change.after):
            if record is not None:
                self._touch_pool(record.pool)
                self._touch(record.node)

    def taint(self, rules: tuple[TaintRule, ...]) -> bool:
        """Go by these DeviceTaintRules; whether they are others than before."""
        if rules == self._rules:
            return False
        former, self._rules = self._rules, rules
        for record in self._stores.slices:
            now = tainted(record.raw, rules)
            if now != tainted(record.raw, former):
                self._snapshot = self._snapshot.with_slice(now)
                self._touch(record.node)
        return True

    def assume(self, allocations: Mapping[str, Mapping[str, Any]]) -> None:
        """Count these allocations, claim -> AllocationResult, whatever the stores show."""
        self._assumed.update(allocations)
        for key in allocations:
            self._refresh(key)

    def forget(self, keys: Sequence[str]) -> None:
        """Go by what the stores show of these claims again."""
        for key in keys:
            self._assumed.pop(key, None)
            self._refresh(key)

    def _refresh(self, key: str) -> None:
        """Let the state have of one claim what counts."""
        record = self._stores.claims.get(key)
        wanted = self._assumed.get(key, record.allocation if record else None)
        held = self._held.get(key)
        if wanted == held:
            return
        if held is not None:
            self._release(key)
        if wanted is not None:
            self._commit(key, wanted)

    def _release(self, key: str) -> None:
        del self._held[key]
        overlapped = self.overlaps.pop(key, None) is not None
        for holding in self._state.holdings(key) or ():
            self._touch_pool(holding.key)
            overlapped = overlapped or any(holding.label in text for text in self.overlaps.values())
        if self._state.holdings(key) is not None:
            self._state = self._state.release(key)
        if overlapped:
            # Whoever holds the same device as well has it alone now.
            for other in [*self.overlaps]:
                self._commit(other, self._held[other])

    def _commit(self, key: str, allocation: Mapping[str, Any]) -> None:
        self._held[key] = allocation
        try:
            wanted = holdings(allocation, key)
        except InvalidInput as error:
            _log.warning("cannot read an allocation", claim=key, error=str(error))
            return
        if self._state.holdings(key) is not None:
            self._state = self._state.release(key)
        self._state = self._state.commit(key, ())
        taken: list[Holding] = []
        free: list[Holding] = []
        for holding in wanted:
            self._touch_pool(holding.key)
            # One by one: a claim that somebody wrote by hand may hold the same thing twice.
            if self._is_free(holding):
                free.append(holding)
                self._state = self._state.release(key).commit(key, free)
            else:
                taken.append(holding)
        if taken:
            self.overlaps[key] = ", ".join(holding.label for holding in taken)
        else:
            self.overlaps.pop(key, None)

    def _is_free(self, holding: Holding) -> bool:
        use = self._state.pool(holding.key)
        if use is None:
            return True
        if holding.share:
            return holding.device not in use.dedicated and holding.share not in use.shares.get(holding.device, ())
        return not use.holds(holding.device)

    def _touch_pool(self, key: tuple[str, str]) -> None:
        """Note that what the pool's nodes can give has changed."""
        for slice_ in self._snapshot.slices_of(key):
            self._touch(slice_.node_name)

    def _touch(self, node: str | None) -> None:
        if node:
            self.verdicts.touch(node)
            self._rooms.pop(node, None)
        else:
            self._touch_all()

    def _touch_all(self) -> None:
        self.verdicts.touch_all()
        self._rooms.clear()

    def allocate(
        self, node: BindNode, claims: Sequence[Claim], strategy: Strategy = Strategy.FIRST_FIT
    ) -> Allocated | Unfit | Undecided:
        """Find devices for the claims on a node. Raises AllocationError and InvalidInput."""
        settings = _SETTINGS[strategy]
        return allocate(self._snapshot, self._state, node.facts, claims, settings, new_share=self._new_share)

    def holders(self, key: str) -> set[str]:
        """The claims that hold what a claim of `overlaps` holds as well."""
        found: set[str] = set()
        for holding in holdings(self._held[key], key):
            use = self._state.pool(holding.key)
            if use is not None:
                found.update({use.dedicated.get(holding.device, key), *use.shares.get(holding.device, {}).values()})
        return found - {key}

    def room(self, node: str) -> tuple[int, int]:
        """How many devices of its own a node has, and how many of them are in use."""
        found = self._rooms.get(node)
        if found is None:
            slices = self._snapshot.by_node.get(node) or ()
            uses = (self._state.pool(key) for key in {slice_.key for slice_ in slices})
            used = sum(len(use.dedicated) + len(use.shares) for use in uses if use)
            found = self._rooms[node] = (sum(len(slice_.devices) for slice_ in slices), used)
        return found

    def overlapping(self) -> tuple[Overlap, ...]:
        """What `overlaps` says, with the claims on both sides."""
        found = []
        for key, devices in sorted(self.overlaps.items()):
            drivers = {each.key[0] for each in holdings(self._held[key], key) if each.label in devices}
            records = (self._stores.claims.get(each) for each in (key, *sorted(self.holders(key))))
            found.append(Overlap(devices, frozenset(drivers), tuple(record for record in records if record)))
        return tuple(found)
