"""What the search may use to be faster. Every combination gives the same answer; tests switch single ones off."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final, Self


@dataclass(frozen=True, slots=True)
class Techniques:
    """The switches. `Techniques.none()` is upstream's plain search, step for step."""

    count_bound: bool = True
    """A request that needs more devices than are left fails at once."""
    match_bound: bool = True
    """... than are left with one value of a matchAttribute."""
    distinct_bound: bool = True
    """... than there are values left of a distinctAttribute."""
    counter_bound: bool = True
    """... than the shared counters have room for: each counter by itself, and all of them added up."""
    flow_bound: bool = True
    """Requests that compete for the same devices: a flow from requests to devices must serve all."""
    classes: bool = True
    """Of devices that are alike, one failure speaks for all of them."""
    components: bool = True
    """Groups of devices (cards, NUMA nodes) that are alike are interchangeable in the memory of failures."""
    memory: bool = True
    """A state in which the search has failed before is not searched again."""

    @classmethod
    def none(cls) -> Self:
        """Search everything, in upstream's order and with upstream's number of steps."""
        return cls(**{field.name: False for field in fields(cls)})

    @property
    def bounds(self) -> bool:
        """Whether any bound is on."""
        return self.count_bound or self.match_bound or self.distinct_bound or self.counter_bound or self.flow_bound


STEP_BUDGET: Final = 20_000
"""Steps after which a search ends undecided. Of 2,000 recorded scenarios none needs more than 2,500; a step takes 10 to
100 microseconds."""
