"""What upstream's allocator does wrong, each with a switch. docs/allocation.md says why each is kept or repaired.

The numbers are those of the list there. Without any switch the repaired behaviour applies.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Self


@dataclass(frozen=True, slots=True)
class UpstreamFaults:
    """True reproduces upstream, which differential tests need."""

    stale_slices: bool = False
    """7: slices of an old generation are used if they alone satisfy their own count, although newer ones exist."""
    admin_false_is_admin: bool = False
    """8: `adminAccess: false` is an error while the feature is off."""
    thousandths_for_whole_ranges: bool = False
    """10: ranges of whole numbers are computed in thousandths, which refuses very large requests."""
    overallocated_counter_blocks_pool: bool = False
    """12: one counter that is overdrawn blocks every device of the pool that consumes any counter."""
    shares_forgotten: bool = False
    """13: a device that can no longer be shared is given out as a whole although shares of it are in use."""

    @classmethod
    def all(cls) -> Self:
        """Exactly upstream."""
        return cls(**{field.name: True for field in fields(cls)})
