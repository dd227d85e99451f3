"""How much of each extended resource is in use, counted from Pods and claims alone."""

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


def count(
    rewritten: Iterable[tuple[Asked, ClaimView | None]], claims: Iterable[ClaimView], classes: ClassMap
) -> Usages:
    """Count rewritten Pods by what they asked for, and others by their special claims: kube-scheduler's or Bind's.

    A special claim says which DeviceClass it uses, not under which name the Pod asked for it; it is counted under the
    name that the class declares, else under its implicit name. Who makes one allocates it at once; one that nobody has
    allocated may be anybody's, since every author of claims can write that annotation.
    """
    usages: dict[tuple[str, Delivery], Usage] = {}
    for asked, claim in rewritten:
        resources = {request.name: request.resource for request in asked.requests}
        for resource, usage in _of(claim, resources).items():
            key = (resource, Delivery.REWRITE)
            usages[key] = usages.get(key, Usage()) + usage
    for claim in claims:
        if claim.special and claim.owner_uid and claim.results is not None:
            names = {request: classes.name_of(device_class) for request, device_class in claim.classes.items()}
            for resource, usage in _of(claim, names).items():
                key = (resource, Delivery.BIND if claim.ours else Delivery.NATIVE)
                usages[key] = usages.get(key, Usage()) + usage
    return usages


def _of(claim: ClaimView | None, resources: Mapping[str, str]) -> dict[str, Usage]:
    """One Pod's share; `resources` is request name -> resource name."""
    usages = {resource: Usage(pods=1, claims=int(claim is not None)) for resource in resources.values()}
    for result in (claim.results if claim else None) or ():
        resource = resources.get(result.request)
        if resource is not None:
            usages[resource] += Usage(allocated=1)
    return usages
