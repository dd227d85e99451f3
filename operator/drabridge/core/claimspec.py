"""What a Pod asks for -> device requests of one ResourceClaim, and which container uses which (KEP-5004).

The algorithm is the one of kube-scheduler from 1.35 on (`createRequestsAndMappings`), to the letter, names included: a
Pod gets the same requests whether drabridge or the scheduler makes its claim. Init containers that end before others
start reuse the devices of those, so that the claim asks for no more than the Pod's resource total.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from drabridge.core.errors import Bug

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MAX_DEVICES: Final = 32
"""Devices that one ResourceClaim can hold (`AllocationResultsMaxSize`), hence what one Pod can get."""


@dataclass(frozen=True, slots=True)
class ContainerDemand:
    """What one container asks for.

    `short_lived` is true of init containers without restartPolicy Always. `keys` are all keys of the container's
    resource requests as the Pod was asked, "cpu" included: request names count them. `counts` holds the names to be
    served, in devices, more than 0 each.
    """

    name: str
    short_lived: bool
    keys: tuple[str, ...]
    counts: Mapping[str, int]

    def __post_init__(self) -> None:
        for resource, count in self.counts.items():
            if resource not in self.keys or count <= 0:
                raise Bug(f"container {self.name}: a demand of {count} {resource} with the keys {self.keys}")


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One entry of the claim's `spec.devices.requests`, allocationMode ExactCount. `resource` says what it is for."""

    name: str
    resource: str
    device_class: str
    count: int


@dataclass(frozen=True, slots=True)
class RequestMapping:
    """`container` gets all devices of `request` for what it asks of `resource`."""

    container: str
    resource: str
    request: str


@dataclass(frozen=True, slots=True)
class ClaimPlan:
    """The claim of a Pod: `requests` sorted by name as strings, `mappings` in upstream's order.

    A container and resource may have several mappings, and a short-lived container may see more devices than it asked
    for.
    """

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[RequestMapping, ...]

    @property
    def devices(self) -> int:
        """Devices in all requests together; the API takes up to `MAX_DEVICES`."""
        return sum(request.count for request in self.requests)

    def totals(self) -> dict[str, int]:
        """Devices by resource name, in the order of the requests."""
        counts: dict[str, int] = {}
        for request in self.requests:
            counts[request.resource] = counts.get(request.resource, 0) + request.count
        return counts


def plan(demands: Sequence[ContainerDemand], classes: Mapping[str, str]) -> ClaimPlan:
    """Make the requests and mappings for the containers of a Pod: init containers first, then the others, in order.

    `classes` leads from each demanded resource name to its DeviceClass. Names are kept apart even if they lead to the
    same class.
    """
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted({name for demand in demands for name in demand.counts}):
        if resource not in classes:
            raise Bug(f"a plan for {resource}, which no DeviceClass serves")
        own = {
            i: _request(i, demand, resource, classes[resource])
            for i, demand in enumerate(demands)
            if not demand.short_lived and resource in demand.counts
        }
        shortfalls = list(_shortfalls(demands, resource, own))
        neediest = max(shortfalls, key=lambda shortfall: shortfall.missing, default=None)  # the first of equals
        extra: tuple[DeviceRequest, ...] = ()
        if neediest is not None and neediest.missing > 0:
            request = _request(neediest.index, demands[neediest.index], resource, classes[resource])
            extra = (replace(request, count=neediest.missing),)
        requests += [*own.values(), *extra]
        mappings += [RequestMapping(demands[i].name, resource, request.name) for i, request in own.items()]
        for shortfall in shortfalls:
            for request in shortfall.reused + (extra if shortfall.missing > 0 else ()):
                mappings.append(RequestMapping(demands[shortfall.index].name, resource, request.name))
    return ClaimPlan(tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings))


@dataclass(frozen=True, slots=True)
class _Shortfall:
    """What a short-lived container reuses, and how many devices it lacks even so.

    Short-lived containers run one after the other, so that the devices for the largest shortfall cover every other.
    """

    index: int
    reused: tuple[DeviceRequest, ...]
    missing: int


def _shortfalls(
    demands: Sequence[ContainerDemand], resource: str, own: Mapping[int, DeviceRequest]
) -> Iterator[_Shortfall]:
    for i, demand in enumerate(demands):
        if not demand.short_lived or resource not in demand.counts:
            continue
        missing = demand.counts[resource]
        reused: list[DeviceRequest] = []
        for later, request in own.items():
            if later > i and missing > 0:
                reused.append(request)
                missing -= request.count
        yield _Shortfall(i, tuple(reused), missing)


def _request(index: int, demand: ContainerDemand, resource: str, device_class: str) -> DeviceRequest:
    position = sorted(demand.keys).index(resource)
    return DeviceRequest(f"container-{index}-request-{position}", resource, device_class, demand.counts[resource])


def total(demands: Sequence[ContainerDemand], resource: str) -> int:
    """Sum up the Pod's need of a resource as scheduler and quotas do (`PodRequests`, KEP-753 "Resources").

    Long-lived containers run side by side; a short-lived one runs beside the long-lived ones that started before it.
    """
    running = peak = 0
    for demand in demands:
        count = demand.counts.get(resource, 0)
        if demand.short_lived:
            peak = max(peak, running + count)
        else:
            running += count
    return max(peak, running)
