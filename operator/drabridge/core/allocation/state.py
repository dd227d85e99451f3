"""What is allocated: which devices, shares and amounts, by pool, and which claim holds them.

Immutable: `commit` and `release` give a new state in time proportional to the claim. Everything in it can be rebuilt
from the claims' status alone (`of_claims`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from drabridge.core.allocation.persistent import History, Table
from drabridge.core.allocation.reading import Raw, Reader
from drabridge.core.allocation.slices import PoolKey
from drabridge.core.errors import InvalidInput


class Holding(NamedTuple):
    """One device, or share of one, that a claim holds."""

    driver: str
    pool: str
    device: str
    share: str = ""
    """shareID; "" if the device is held as a whole."""
    amounts: tuple[tuple[str, int], ...] = ()
    """consumedCapacity in thousand-millionths."""

    @property
    def key(self) -> PoolKey:
        """The device's pool."""
        return self.driver, self.pool

    @property
    def label(self) -> str:
        """`driver/pool/device`, and the share."""
        name = f"{self.driver}/{self.pool}/{self.device}"
        return f"{name} (share {self.share})" if self.share else name


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What is in use of one pool, by device name. The values are the claims that hold it."""

    dedicated: Mapping[str, str]
    shares: Mapping[str, Mapping[str, str]]
    """Device -> shareID -> claim."""
    amounts: Mapping[str, Mapping[str, int]]
    """Device -> capacity name -> sum in thousand-millionths."""

    def holds(self, device: str) -> bool:
        """Whether any of the device is in use."""
        return device in self.dedicated or device in self.shares or device in self.amounts

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in use."""
        return not (self.dedicated or self.shares or self.amounts)


_FREE: Final = PoolUse({}, {}, {})

UNKNOWN_CLAIM: Final = "an unknown claim"
"""Who holds what, where a state was not made from claims."""

CURE: Final = "rebuild the state from the claims, and find out which of both is allocated in error"


@dataclass(frozen=True, slots=True)
class AllocatedState:
    """All allocations. States are equal if the same claims hold the same."""

    _pools: Table[PoolKey, PoolUse] = field(default_factory=Table)
    _claims: Table[str, tuple[Holding, ...]] = field(default_factory=Table)
    history: History[PoolKey] = field(default_factory=History, compare=False, repr=False)
    """The pools in which something changed lately."""

    @classmethod
    def of_claims(cls, claims: Iterable[Raw], *, consumable_capacity: bool = True) -> Self:
        """Rebuild the state from ResourceClaims (as JSON): those without an allocation hold nothing.

        Raises InvalidInput for two claims that hold the same, and for broken claims.
        """
        state = cls()
        for claim in claims:
            allocation = (claim.get("status") or {}).get("allocation")
            if allocation is not None:
                label = claim_label(claim)
                state = state.commit(label, holdings(allocation, label, consumable_capacity=consumable_capacity))
        return state

    @classmethod
    def of_devices(
        cls,
        dedicated: Iterable[tuple[str, str, str]],
        shares: Iterable[tuple[str, str, str, str]],
        amounts: Mapping[tuple[str, str, str], Mapping[str, int]],
    ) -> Self:
        """Make a state from what is in use, where it is not known by whom."""
        pools: dict[PoolKey, tuple[dict[str, str], dict[str, dict[str, str]], dict[str, Mapping[str, int]]]] = {}

        def pool(driver: str, name: str) -> Any:
            return pools.setdefault((driver, name), ({}, {}, {}))

        for driver, name, device in dedicated:
            pool(driver, name)[0][device] = UNKNOWN_CLAIM
        for driver, name, device, share in shares:
            pool(driver, name)[1].setdefault(device, {})[share] = UNKNOWN_CLAIM
        for (driver, name, device), taken in amounts.items():
            pool(driver, name)[2][device] = dict(taken)
        return cls(Table.of({key: PoolUse(*use) for key, use in pools.items()}))

    def pool(self, key: PoolKey) -> PoolUse | None:
        """What is in use of a pool; None for nothing."""
        return self._pools.get(key)

    def pools(self, keys: tuple[PoolKey, ...]) -> tuple[PoolUse | None, ...]:
        """What is in use of several pools."""
        get = self._pools.get
        return tuple([get(key) for key in keys])

    def holdings(self, claim: str) -> tuple[Holding, ...] | None:
        """What a claim holds; None if it is not allocated."""
        return self._claims.get(claim)

    def claims(self) -> Iterator[str]:
        """The claims that hold something, in no order."""
        return iter(self._claims)

    def commit(self, claim: str, held: Sequence[Holding]) -> Self:
        """Return the state in which a claim holds these as well.

        Raises InvalidInput if the claim is allocated already, or if any of it is in use.
        """
        if self._claims.get(claim) is not None:
            raise InvalidInput(
                f"ResourceClaim {claim}", "status.allocation", f"is allocated already, to {claim} itself", CURE
            )
        pools = self._pools
        for holding in held:
            use = pools.get(holding.key) or _FREE
            pools = pools.set(holding.key, _taken(use, holding, claim))
        return type(self)(pools, self._claims.set(claim, tuple(held)), self.history.after(*{h.key for h in held}))

    def release(self, claim: str) -> Self:
        """Return the state in which a claim holds nothing. Raises InvalidInput if it does not hold anything."""
        held = self._claims.get(claim)
        if held is None:
            raise InvalidInput(f"ResourceClaim {claim}", "status.allocation", "is not allocated", CURE)
        pools = self._pools
        for holding in held:
            use = _returned(pools.get(holding.key) or _FREE, holding)
            pools = pools.remove(holding.key) if use.is_empty else pools.set(holding.key, use)
        return type(self)(pools, self._claims.remove(claim), self.history.after(*{h.key for h in held}))


def claim_label(claim: Raw) -> str:
    """`namespace/name` of a ResourceClaim."""
    metadata = claim.get("metadata") or {}
    name = metadata.get("name") or ""
    return f"{metadata['namespace']}/{name}" if metadata.get("namespace") else str(name)


def holdings(allocation: Raw, claim: str, *, consumable_capacity: bool = True) -> tuple[Holding, ...]:
    """Read what an AllocationResult (as JSON) holds. Devices with admin access are held by nobody.

    Without the feature `consumable_capacity` shares count as whole devices, as they do for kube-scheduler.
    """
    reader, at = Reader(f"ResourceClaim {claim}"), "status.allocation.devices.results"
    devices = reader.mapping(allocation.get("devices"), "status.allocation.devices")
    found = []
    for index, result in enumerate(reader.items(devices.get("results"), at)):
        if result.get("adminAccess") is True:
            continue
        place = f"{at}[{index}]"
        share = reader.text(result.get("shareID"), f"{place}.shareID") if consumable_capacity else ""
        consumed = reader.mapping(result.get("consumedCapacity"), f"{place}.consumedCapacity")
        found.append(
            Holding(
                reader.text(result.get("driver"), f"{place}.driver"),
                reader.text(result.get("pool"), f"{place}.pool"),
                reader.text(result.get("device"), f"{place}.device"),
                share,
                tuple(
                    (name, reader.quantity(value, f"{place}.consumedCapacity[{name}]").nano)
                    for name, value in sorted(consumed.items())
                )
                if consumable_capacity
                else (),
            )
        )
    return tuple(found)


def _overlap(holding: Holding, claim: str, holder: str) -> InvalidInput:
    return InvalidInput(
        f"ResourceClaim {claim}",
        "status.allocation.devices.results",
        f"{holding.label} is in use by claim {holder} and cannot be held by claim {claim} as well",
        CURE,
    )


def _taken(use: PoolUse, holding: Holding, claim: str) -> PoolUse:
    device = holding.device
    if device in use.dedicated:
        raise _overlap(holding, claim, use.dedicated[device])
    shares = use.shares.get(device)
    if not holding.share:
        if shares or device in use.amounts:
            raise _overlap(holding, claim, ", ".join(sorted(set((shares or {}).values()))) or UNKNOWN_CLAIM)
        return PoolUse({**use.dedicated, device: claim}, use.shares, use.amounts)
    if shares and holding.share in shares:
        raise _overlap(holding, claim, shares[holding.share])
    amounts = use.amounts
    if holding.amounts:
        sums = dict(amounts.get(device) or {})
        for name, amount in holding.amounts:
            sums[name] = sums.get(name, 0) + amount
        amounts = {**amounts, device: sums}
    return PoolUse(use.dedicated, {**use.shares, device: {**(shares or {}), holding.share: claim}}, amounts)


def _returned(use: PoolUse, holding: Holding) -> PoolUse:
    device = holding.device
    if not holding.share:
        return PoolUse({name: by for name, by in use.dedicated.items() if name != device}, use.shares, use.amounts)
    rest = {share: by for share, by in use.shares[device].items() if share != holding.share}
    shares = {**use.shares, device: rest}
    amounts = dict(use.amounts)
    if not rest:
        del shares[device]
        amounts.pop(device, None)
    elif holding.amounts:
        sums = dict(amounts[device])
        for name, amount in holding.amounts:
            sums[name] -= amount
        amounts[device] = sums
    return PoolUse(use.dedicated, shares, amounts)
