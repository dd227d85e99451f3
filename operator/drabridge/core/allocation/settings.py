"""How allocations are made: what the cluster allows, which faults are reproduced, in which order, with which effort."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final

from drabridge.core.allocation.features import Features
from drabridge.core.allocation.strategy import Strategy
from drabridge.core.allocation.techniques import STEP_BUDGET, Techniques
from drabridge.core.allocation.upstream_faults import UpstreamFaults

_FEATURES: Final = Features()
_FAULTS: Final = UpstreamFaults()
_TECHNIQUES: Final = Techniques()


@dataclass(frozen=True)
class Settings:
    """Everything that an allocation depends on besides the cluster and the claims."""

    features: Features = _FEATURES
    faults: UpstreamFaults = _FAULTS
    techniques: Techniques = _TECHNIQUES
    strategy: Strategy = Strategy.FIRST_FIT
    budget: int | None = STEP_BUDGET
    """Steps after which a search ends undecided; None for as many as it takes."""

    @cached_property
    def rules(self) -> int:
        """What decides whether something fits, as a number that is quick to look up by."""
        return _number(self.features) << 8 | _number(self.faults)

    @cached_property
    def gathering(self) -> int:
        """What decides which pools a node has."""
        return (
            self.features.partitionable_devices
            | self.features.compatibility_groups << 1
            | self.faults.stale_slices << 2
        )

    @cached_property
    def effort(self) -> Hashable:
        """What decides which answer a search ends with."""
        return _number(self.techniques), self.budget, self.strategy


DEFAULTS: Final = Settings()


def _number(switches: Any) -> int:
    """Write booleans as the bits of a number."""
    return sum(getattr(switches, field.name) << place for place, field in enumerate(fields(switches)))
