"""How much of each extended resource is in use, counted from Pods and claims alone."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drabridge.core.asked import Asked
from drabridge.core.claims import ClaimView
from drabridge.core.classmap import ClassMap
from drabridge.core.policy import Delivery


@dataclass(frozen=True, slots=True)
class Usage:
    """Pods that ask for one resource name, their claims, and the devices allocated to those for that name."""

    pods: int = 0
    claims: int = 0
    allocated: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.pods + other.pods, self.claims + other.claims, self.allocated + other.allocated)


Usages = Mapping[tuple[str, Delivery], Usage]
"""By resource name and delivery."""

_Sums = defaultdict[tuple[str, Delivery], list[int]]
"""A Usage's fields, in their order."""


def count(
    rewritten: Iterable[tuple[Asked, ClaimView | None]], claims: Iterable[ClaimView], classes: ClassMap
) -> Usages:
    """Count rewritten Pods by what they asked for, and others by their special claims: kube-scheduler's or Bind's.

    A special claim says which DeviceClass it uses, not under which name the Pod asked for it; it is counted under the
    name that the class declares, else under its implicit name. Who makes one allocates it at once; one that nobody has
    allocated may be anybody's, since every author of claims can write that annotation.
    """
    sums: _Sums = defaultdict(lambda: [0, 0, 0])
    for asked, claim in rewritten:
        _add(sums, Delivery.REWRITE, {request.name: request.resource for request in asked.requests}, claim)
    for claim in claims:
        if claim.special and claim.owner_uid and claim.results is not None:
            names = {request: classes.name_of(device_class) for request, device_class in claim.classes.items()}
            _add(sums, Delivery.BIND if claim.ours else Delivery.NATIVE, names, claim)
    return {key: Usage(*each) for key, each in sums.items()}


def _add(sums: _Sums, delivery: Delivery, resources: Mapping[str, str], claim: ClaimView | None) -> None:
    """Add one Pod's share; `resources` is request name -> resource name."""
    for resource in set(resources.values()):
        each = sums[resource, delivery]
        each[0] += 1
        each[1] += claim is not None
    for result in (claim.results if claim else None) or ():
        if result.request in resources:
            sums[resources[result.request], delivery][2] += 1
