"""One Pod on one node: what its claims would have to ask for there, and whether that can be had at all."""

from __future__ import annotations

import json
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Self

from drabridge.core.allocation.claims import Claim
from drabridge.core.allocation.nodes import SelectorProblem, matches
from drabridge.core.bind.asking import Asking
from drabridge.core.bind.nodes import BindNode
from drabridge.core.bind.podclaims import ClaimRecord, Refusal, requests_of
from drabridge.core.claimspec import ClaimPlan, DeviceRequest
from drabridge.core.errors import InvalidInput
from drabridge.core.podview import PodView
from drabridge.core.reasons import Reason


@lru_cache(maxsize=1024)
def _special_alone(requests: tuple[DeviceRequest, ...]) -> tuple[Claim, ...]:
    """The special claim of every Pod that asks for just this; the allocator remembers what it found out about it."""
    return (
        Claim.of(
            {"metadata": {"name": "for extended resources"}, "spec": {"devices": {"requests": requests_of(requests)}}}
        ),
    )


@dataclass(frozen=True, slots=True)
class Request:
    """What has to be allocated for a Pod on a node: `pending` claims of its own, and a special one by `plan`."""

    pending: tuple[ClaimRecord, ...]
    plan: ClaimPlan | None

    def claims(self) -> tuple[Claim, ...]:
        """The claims for the allocator: `pending`, then the special one. Raises InvalidInput for broken ones."""
        named = tuple(Claim.of(record.raw()) for record in self.pending)
        return named if self.plan is None else named + _special_alone(self.plan.requests)


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything that decisions about one Pod read of it; `claims` are those that it names."""

    pod: PodView
    asking: Asking
    claims: tuple[ClaimRecord, ...]
    _shape: str
    _requests: dict[frozenset[str], Request | Refusal] = field(default_factory=dict)

    @classmethod
    def of(cls, pod: PodView, asking: Asking, claims: tuple[ClaimRecord, ...]) -> Self:
        """Put them together."""
        pending = [record.spec for record in claims if record.allocation is None]
        return cls(pod, asking, claims, json.dumps(pending, sort_keys=True) if pending else "")

    @property
    def is_plain(self) -> bool:
        """Whether the Pod needs nothing that is ours to give."""
        return not self.claims and not self.asking.names and not self.pod.extended_claim

    @property
    def devices(self) -> int:
        """About how many devices the Pod takes: what its names ask for, and one for each claim of its own."""
        request = self._request(frozenset())
        plan = request.plan if isinstance(request, Request) else None
        return sum(record.allocation is None for record in self.claims) + (plan.devices if plan else 0)

    def on(self, node: BindNode) -> Request | Refusal:
        """What has to be allocated on the node, or why the Pod cannot come there whatever is free."""
        for record in self.claims:
            if record.allocation is not None and not _reaches(record.allocation, node):
                return Refusal(Reason.CLAIM_ELSEWHERE, f"ResourceClaim {record.key}")
        request = self._request(self.asking.names & node.plugins)
        if isinstance(request, Request) and request.plan is not None and not node.is_native:
            return Refusal(Reason.KUBELET_TOO_OLD, "its kubelet would start the Pod without its devices")
        if isinstance(request, Request) and request.plan is None and self.pod.extended_claim:
            return Refusal(Reason.CLAIM_STAYS, "its kubelet would wait for a claim that an earlier try to bind made")
        return request

    def _request(self, plugins: frozenset[str]) -> Request | Refusal:
        found = self._requests.get(plugins)
        if found is None:
            found = self._requests[plugins] = self._made(plugins)
        return found

    def _made(self, plugins: frozenset[str]) -> Request | Refusal:
        plan = self.asking.plan(plugins)
        if isinstance(plan, Refusal):
            return plan
        pending = tuple(record for record in self.claims if record.allocation is None)
        return Request(pending, plan)

    @property
    def kind(self) -> Hashable | None:
        """What decides about nodes, but for the nodes: Pods of one kind fit on the same ones. None for a kind of one.

        Claims that are allocated are not the Pod's alone, and change without its doing.
        """
        if any(record.allocation is not None for record in self.claims):
            return None
        claims = tuple(record.key for record in self.claims)
        return (self.asking.kind, self._shape, claims, self.pod.extended_claim is None)

    def short_of(self) -> Refusal:
        """The refusal of a node that has not what the Pod asks for."""
        wanted = [self.asking.text] if self.asking.names else []
        wanted += [f"ResourceClaim {record.name}" for record in self.claims if record.allocation is None]
        return Refusal(Reason.NOT_ENOUGH_DEVICES, ", ".join(wanted))


def _reaches(allocation: Any, node: BindNode) -> bool:
    selector = allocation.get("nodeSelector")
    try:
        return selector is None or matches(selector, node.facts)
    except SelectorProblem:
        return False


def broken(error: InvalidInput) -> Refusal:
    """The refusal for objects of which nothing can be allocated."""
    return Refusal(Reason.CLAIM_INVALID, str(error))
