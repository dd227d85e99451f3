"""Claims compiled for one cluster: what each (sub)request asks, checked as far as no node has to be known.

Section 4 of the behaviour: claims and requests in order, and the first error ends the call. Some checks need the pools
of the node (allocationMode All), so an error found here stands in its place (`Demand.stop`) until they get there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from drabridge.core.allocation.claims import ALL, EXACT_COUNT, Ask, Claim, Constraint, DeviceClass, Request
from drabridge.core.allocation.expressions import attributes_read
from drabridge.core.allocation.features import Features
from drabridge.core.allocation.kinds import EXACTLY, ReadSet
from drabridge.core.allocation.texts import ClaimAt, Fatal, Text
from drabridge.core.allocation.upstream_faults import UpstreamFaults

MOST_RESULTS = 32
"""AllocationResultsMaxSize of resource.k8s.io: devices of one claim."""


@dataclass(frozen=True, eq=False)
class Want:
    """One (sub)request, ready to be searched for."""

    index: int
    """Its number among all of the Pod."""
    claim: int
    ask: Ask
    request: Request
    device_class: DeviceClass
    is_admin: bool
    is_all: bool
    constraints: tuple[int, ...]
    """Those that apply, as indices into the claim's constraints, in order."""


@dataclass(frozen=True, eq=False)
class ClaimWants:
    """A claim: per request, the ways to meet it."""

    claim: Claim
    requests: tuple[tuple[Want, ...], ...]
    constraints: tuple[Constraint, ...]


@dataclass(frozen=True, eq=False)
class Demand:
    """All claims of a Pod. `stop` is where checking ended: after the wants that are there, if it is not None."""

    claims: tuple[ClaimWants, ...]
    stop: Fatal | None
    features: Features
    faults: UpstreamFaults
    reads: ReadSet

    @property
    def wants(self) -> list[Want]:
        """Every (sub)request, in order."""
        return [want for claim in self.claims for request in claim.requests for want in request]


def demand_of(
    claims: Sequence[Claim], classes: Mapping[str, DeviceClass], features: Features, faults: UpstreamFaults
) -> Demand:
    """Compile the claims of a Pod. Errors are kept for later: see `Demand.stop`."""
    compiler = _Compiler(classes, features, faults)
    stop = None
    try:
        for index, claim in enumerate(claims):
            compiler.claim(index, claim)
    except Fatal as error:
        stop = error.fresh()
    found = tuple(compiler.claims)
    return Demand(found, stop, features, faults, _read_set(found))


class _Compiler:
    def __init__(self, classes: Mapping[str, DeviceClass], features: Features, faults: UpstreamFaults) -> None:
        self._classes = classes
        self._features = features
        self._faults = faults
        self._count = 0
        self.claims: list[ClaimWants] = []

    def claim(self, index: int, claim: Claim) -> None:
        requests: list[tuple[Want, ...]] = []
        constraints = tuple(constraint for constraint in claim.constraints if constraint is not None)
        try:
            for number, request in enumerate(claim.requests):
                path = f"spec.devices.requests[{number}]"
                self._check_request(index, request, path)
                wants: list[Want] = []
                requests.append(())
                try:
                    wants.extend(self._want(index, request, ask, constraints) for ask in request.asks)
                finally:
                    requests[-1] = tuple(wants)
            if None in claim.constraints:
                number = claim.constraints.index(None)
                raise Fatal(
                    index,
                    f"spec.devices.constraints[{number}]",
                    (*_at(index), f", constraint #{number}: empty constraint (unsupported constraint type?)"),
                    "use matchAttribute or distinctAttribute",
                )
        finally:
            self.claims.append(ClaimWants(claim, tuple(requests), constraints))

    def _check_request(self, index: int, request: Request, path: str) -> None:
        if request.is_list and not self._features.prioritized_list:
            raise Fatal(
                index,
                f"{path}.firstAvailable",
                (
                    *_at(index),
                    f", request {request.name}: has subrequests, but the DRAPrioritizedList feature is disabled",
                ),
                "use exactly, or enable the feature gate",
            )
        for ask in request.asks:
            if ask.capacity is not None and not self._features.consumable_capacity:
                word = "subrequest" if request.is_list else "request"
                problem = "has capacity requests, but the DRAConsumableCapacity feature is disabled"
                raise Fatal(
                    index,
                    f"{ask.path}.capacity",
                    (*_at(index), f", {word} {ask.name}: {problem}"),
                    "do not ask for capacity, or enable the feature gate",
                )

    def _want(self, index: int, request: Request, ask: Ask, constraints: tuple[Constraint, ...]) -> Want:
        problem = self._problem(ask)
        if problem is not None:
            text, path, cure = problem
            raise Fatal(index, f"{ask.path}{path}", (*_at(index), f", request {ask.name}{text}"), cure)
        want = Want(
            self._count,
            index,
            ask,
            request,
            self._classes[ask.class_name],
            ask.admin_access is True,
            ask.mode == ALL,
            tuple(i for i, constraint in enumerate(constraints) if constraint.applies_to(request, ask)),
        )
        self._count += 1
        return want

    def _problem(self, ask: Ask) -> tuple[str, str, str] | None:
        """Return the text, the path below the (sub)request and the cure of what is wrong with it."""
        if ask.derived and not self._features.derived_attributes:
            return (
                ": cannot handle request with derived attributes, the feature is disabled",
                ".derivedAttributes",
                "enable the feature gate DRADerivedAttributes",
            )
        if None in ask.expressions:
            number = ask.expressions.index(None)
            text = f", selector #{number}: CEL expression empty (unsupported selector type?)"
            return text, f".selectors[{number}]", "give a CEL expression"
        asks_for_admin = ask.admin_access is not None if self._faults.admin_false_is_admin else ask.admin_access is True
        if asks_for_admin and not self._features.admin_access:
            return ": admin access is requested, but the feature is disabled", ".adminAccess", "leave it out"
        if not ask.class_name:
            text = ": missing device class name (unsupported request type?)"
            return text, ".deviceClassName", "name a DeviceClass"
        device_class = self._classes.get(ask.class_name)
        if device_class is None:
            text = (
                f": could not retrieve device class {ask.class_name}: "
                f'deviceclass.resource.k8s.io "{ask.class_name}" not found'
            )
            return text, ".deviceClassName", "create the DeviceClass, or name another one"
        if None in device_class.expressions:
            number = device_class.expressions.index(None)
            text = f": class {device_class.name}: selector #{number}: CEL expression empty (unsupported selector type?)"
            return text, ".deviceClassName", f"give selector {number} of the DeviceClass a CEL expression"
        if ask.mode not in {EXACT_COUNT, ALL}:
            return f": unsupported count mode {ask.mode}", ".allocationMode", f"use {EXACT_COUNT} or {ALL}"
        return None


def _at(index: int) -> Text:
    return "claim ", ClaimAt(index)


def _read_set(claims: Sequence[ClaimWants]) -> ReadSet:
    """Collect what selectors, derived attributes and constraints can see of devices."""
    reads: set[tuple[str, str]] = set()
    expressions: set[str] = set()
    for claim in claims:
        for constraint in claim.constraints:
            domain, slash, identifier = constraint.attribute.partition("/")
            reads.add((domain, identifier) if slash else (EXACTLY, constraint.attribute))
        for request in claim.requests:
            for want in request:
                written = (*want.device_class.expressions, *want.ask.expressions)
                expressions.update(expression for expression in written if expression is not None)
                expressions.update(expression for _, expression in want.ask.derived)
    for expression in expressions:
        seen = attributes_read(expression)
        if seen is None:
            return ReadSet(None)
        reads |= seen
    return ReadSet(tuple(sorted(reads)))
