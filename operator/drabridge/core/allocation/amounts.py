"""Capacities of devices, their request policies, and what a request consumes of them (consumable capacity).

All arithmetic is exact: amounts are integers of thousand-millionths, which every quantity is a whole number of. Only
the step of a range is counted in whole units or thousandths, as upstream does it in int64, with errors where that
overflows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from drabridge.core.allocation.features import Features
from drabridge.core.allocation.reading import Raw, Reader, written
from drabridge.core.allocation.upstream_faults import UpstreamFaults
from drabridge.core.cel import quantity as memory_form
from drabridge.core.quantity import Format, Quantity

_ONE: Final = 10**9
_THOUSANDTH: Final = 10**6
_MAX_INT64: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Amount:
    """A quantity with the text it was written with; the text is "" for results of arithmetic."""

    quantity: Quantity
    nano: int
    text: str = ""

    @classmethod
    def read(cls, raw: object, reader: Reader, path: str) -> Amount:
        """Read an amount. Raises InvalidInput."""
        quantity = reader.quantity(raw, path)
        return cls(quantity, quantity.nano, written(raw))

    @property
    def whole(self) -> int:
        """The value in whole units, rounded up."""
        return -(-self.nano // _ONE)

    @property
    def milli(self) -> int | None:
        """The value in thousandths; None if it is not a whole number of them within int64."""
        value, rest = divmod(self.nano, _THOUSANDTH)
        return value if rest == 0 and abs(value) <= _MAX_INT64 else None

    @property
    def is_compared_by_text(self) -> bool:
        """Whether upstream holds it as an int64, so that two of the same text are the same in memory."""
        return bool(self.text) and memory_form.parse(self.text).fast


@dataclass(frozen=True, slots=True)
class Range:
    """validRange of a request policy."""

    min: Amount | None
    max: Amount | None
    step: Amount | None

    def in_thousandths(self, features: Features, faults: UpstreamFaults) -> bool:
        """Whether steps are counted in thousandths rather than whole units."""
        if not features.fractional_capacity_range:
            return False
        given = [amount for amount in (self.min, self.max, self.step) if amount is not None]
        if any(amount.milli is None for amount in given):
            return False
        if self.step is not None and (self.step.milli or 0) < 1:
            return False
        return faults.thousandths_for_whole_ranges or any(amount.nano % _ONE for amount in given)


@dataclass(frozen=True, slots=True)
class Policy:
    """The requestPolicy of a capacity."""

    default: Amount | None
    range: Range | None
    values: tuple[Amount, ...]


@dataclass(frozen=True, slots=True)
class Capacity:
    """A capacity of a device."""

    name: str
    value: Amount
    policy: Policy | None


def capacities(device: Raw, reader: Reader, path: str) -> tuple[Capacity, ...]:
    """Read the capacities of a device, in order of their names. Raises InvalidInput."""
    found = []
    for name, raw in sorted(reader.mapping(device.get("capacity"), path).items()):
        at = f"{path}[{name}]"
        capacity = reader.mapping(raw, at)
        value = Amount.read(capacity.get("value"), reader, f"{at}.value")
        found.append(Capacity(name, value, _policy(capacity.get("requestPolicy"), reader, f"{at}.requestPolicy")))
    return tuple(found)


def _policy(raw: object, reader: Reader, path: str) -> Policy | None:
    if raw is None:
        return None
    policy = reader.mapping(raw, path)
    return Policy(
        _optional(policy.get("default"), reader, f"{path}.default"),
        _range(policy.get("validRange"), reader, f"{path}.validRange"),
        tuple(
            Amount.read(value, reader, f"{path}.validValues[{index}]")
            for index, value in enumerate(reader.sequence(policy.get("validValues"), f"{path}.validValues"))
        ),
    )


def _optional(raw: object, reader: Reader, path: str) -> Amount | None:
    return None if raw is None else Amount.read(raw, reader, path)


def _range(raw: object, reader: Reader, path: str) -> Range | None:
    if raw is None:
        return None
    written_range = reader.mapping(raw, path)
    found = Range(*(_optional(written_range.get(name), reader, f"{path}.{name}") for name in ("min", "max", "step")))
    if found.step is not None and found.step.nano <= 0:
        raise reader.invalid(f"{path}.step", "is not larger than zero", "give a step, or leave it out")
    if found.step is not None and found.min is None:
        raise reader.invalid(f"{path}.min", "is missing, but there is a step", "say where the steps begin")
    return found


class CapacityProblem(Exception):
    """A request that cannot be computed for a capacity, which ends the allocation. Upstream's text."""

    def __init__(self, name: str, cause: str) -> None:
        super().__init__(f'capacity "{name}": {cause}')


class CapacityRefusal(Exception):
    """A device cannot give what is asked for, whatever else is allocated. The text is for users."""


@dataclass(frozen=True, slots=True)
class Charge:
    """What one allocation of a device takes of it: amounts in the order of the kind's capacities."""

    amounts: tuple[int, ...]
    texts: tuple[tuple[str, str], ...]
    """(capacity name, canonical quantity), for the result."""


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How amounts are computed: what the cluster's gates say, and which of upstream's faults are reproduced."""

    features: Features
    faults: UpstreamFaults

    def charge(self, owned: tuple[Capacity, ...], requested: Mapping[str, Amount]) -> Charge:
        """Say what a request takes of a device with these capacities.

        Raises CapacityRefusal if the device is not for this request, CapacityProblem for what ends the allocation.
        """
        unknown = requested.keys() - {capacity.name for capacity in owned}
        if unknown:
            raise CapacityRefusal(f"it has no capacity {min(unknown)}")
        consumed = [self._consumed(capacity, requested.get(capacity.name)) for capacity in owned]
        for capacity, amount in zip(owned, consumed, strict=True):
            self._check(capacity, amount)
        for capacity, amount in zip(owned, consumed, strict=True):
            if amount.nano > capacity.value.nano:
                raise CapacityRefusal(
                    f"{amount.quantity} of {capacity.name} is more than its {capacity.value.quantity}"
                )
        return Charge(
            tuple(amount.nano for amount in consumed),
            tuple((capacity.name, str(amount.quantity)) for capacity, amount in zip(owned, consumed, strict=True)),
        )

    def _consumed(self, capacity: Capacity, requested: Amount | None) -> Amount:
        policy = capacity.policy
        if requested is None:
            amount = capacity.value if policy is None or policy.default is None else policy.default
        elif policy is None:
            amount = requested
        elif policy.range is not None and policy.range.min is not None:
            amount = self._in_range(capacity.name, policy.range, policy.range.min, requested)
        else:
            # They ascend, or the API server would not have taken them.
            amount = next((value for value in policy.values if value.nano >= requested.nano), requested)
        if amount.nano < 0:
            raise CapacityProblem(capacity.name, "capacity value is negative")
        return amount

    def _in_range(self, name: str, range_: Range, lowest: Amount, requested: Amount) -> Amount:
        if requested.nano < lowest.nano:
            return lowest
        if range_.step is None:
            return requested
        if range_.in_thousandths(self.features, self.faults):
            wanted, unit = requested.milli, _THOUSANDTH
            if wanted is None:
                raise _unrepresentable(name, f"request {requested.quantity} is not a representable milli value")
            first, step, limit = lowest.nano // unit, range_.step.nano // unit, "the milli-value range"
        else:
            wanted, unit = requested.whole, _ONE
            if requested.nano > _MAX_INT64 * _ONE:
                raise _unrepresentable(name, f"request {requested.quantity} exceeds MaxInt64")
            first, step, limit = lowest.whole, range_.step.whole, "MaxInt64"
        rounded = first - (first - wanted) // step * step
        if rounded > _MAX_INT64:
            raise _unrepresentable(name, f"rounding request {requested.quantity} up to the next step passes {limit}")
        return _amount(rounded * unit, range_.step.quantity.format)

    def _check(self, capacity: Capacity, amount: Amount) -> None:
        policy = capacity.policy
        if policy is None or (policy.default is not None and _is_same(amount, policy.default)):
            return
        if policy.range is not None:
            self._check_range(capacity.name, policy.range, amount)
        if policy.values and all(value.nano != amount.nano for value in policy.values):
            raise CapacityRefusal(f"{amount.quantity} is none of the valid values of its {capacity.name}")

    def _check_range(self, name: str, range_: Range, amount: Amount) -> None:
        if range_.max is not None and amount.nano > range_.max.nano:
            raise CapacityRefusal(f"{amount.quantity} of {name} is more than one request may have of it")
        if range_.step is None or range_.min is None:
            return
        if range_.in_thousandths(self.features, self.faults):
            above = amount.nano - range_.min.nano
            fits = amount.milli is not None and above % range_.step.nano == 0
        else:
            fits = (amount.whole - range_.min.whole) % range_.step.whole == 0
        if not fits:
            raise CapacityRefusal(f"{amount.quantity} of {name} is not on a step of its range")


def _unrepresentable(name: str, cause: str) -> CapacityProblem:
    return CapacityProblem(name, f"capacity request cannot be represented in the device's range arithmetic: {cause}")


def _amount(nano: int, format_: Format) -> Amount:
    return Amount(Quantity.of_nano(nano, format_), nano)


def _is_same(amount: Amount, default: Amount) -> bool:
    """Whether upstream takes an amount for the policy's default: by what it holds in memory, not by value."""
    return amount.text == default.text and amount.is_compared_by_text
