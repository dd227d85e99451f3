"""Pods: the view that decisions read, and what else a look at the whole cluster needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Self

from drabridge.core.asked import Asked, decode
from drabridge.core.errors import InvalidInput
from drabridge.core.inventory.nodes import Toleration
from drabridge.core.inventory.shape import Raw, managers_of, number, part, parts, text, texts
from drabridge.core.names import is_extended
from drabridge.core.podview import PodView

CONTROL_PLANE: Final = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
ENDED: Final = frozenset({"Succeeded", "Failed"})
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_GATES = "--feature-gates="


@dataclass(frozen=True, slots=True)
class Component:
    """A part of the control plane that runs as a Pod: `version` is (major, minor), None where the image hides it."""

    name: str
    version: tuple[int, int] | None
    gates: Mapping[str, bool]
    """What its command line says of feature gates; a gate that is not there has its default."""


@dataclass(frozen=True, slots=True)
class RequestUse:
    """One of `status.extendedResourceClaimStatus.requestMappings`: which request serves a container's resource."""

    container: str
    resource: str
    request: str


@dataclass(frozen=True, slots=True)
class EventRecord:
    """An Event about a Pod (`pod` is its namespace and name), last seen at `last` (RFC 3339)."""

    pod: str
    warning: bool
    reason: str
    message: str
    last: str
    source: str

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read an Event of v1. `pod` is empty for one that is about something else."""
        about = part(raw, "involvedObject")
        is_pod = text(about, "kind") == "Pod"
        return cls(
            pod=f"{text(about, 'namespace')}/{text(about, 'name')}" if is_pod else "",
            warning=text(raw, "type") == "Warning",
            reason=text(raw, "reason"),
            message=text(raw, "message"),
            last=text(part(raw, "series"), "lastObservedTime") or text(raw, "lastTimestamp") or text(raw, "eventTime"),
            source=text(raw, "reportingComponent") or text(part(raw, "source"), "component"),
        )


@dataclass(frozen=True, slots=True)
class PodRecord:
    """A Pod. `claims` is entry of spec.resourceClaims -> name of its ResourceClaim, without those that have none yet.

    `pod_level` are extended resources in `spec.resources`; `unscheduled` is what the scheduler says of it;
    `claim_writers` are the field managers of `status.resourceClaimStatuses`.
    """

    view: PodView
    tolerations: tuple[Toleration, ...]
    node_selector: Mapping[str, str]
    node_affinity: Raw
    """The node selector that its affinity requires (v1.NodeSelector); {} if it requires none."""

    runtime_class: str
    priority: int
    gated: tuple[str, ...]
    pod_level: frozenset[str]
    claims: Mapping[str, str]
    uses: tuple[RequestUse, ...]
    unscheduled: str
    claim_writers: frozenset[str]
    component: Component | None
    asked: Asked | None
    """What it asked for before it was rewritten; None if it was not, or nobody can read that any more."""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return self.view.key

    @property
    def ended(self) -> bool:
        """Whether it will never run again, and so needs no devices."""
        return self.view.phase in ENDED

    @property
    def waiting(self) -> bool:
        """Whether it still waits for a node."""
        return not self.view.node_name and not self.ended and not self.view.deleting

    @property
    def claim_names(self) -> tuple[str, ...]:
        """The names of all its ResourceClaims, the one that kube-scheduler made included."""
        own = tuple(dict.fromkeys(self.claims.values()))
        return (*own, self.view.extended_claim) if self.view.extended_claim else own

    @property
    def resources(self) -> Mapping[str, str]:
        """Request of its claim -> the resource name that the request serves; empty for claims of the user's own."""
        if self.asked:
            return {request.name: request.resource for request in self.asked.requests}
        return {use.request: use.resource for use in self.uses}

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a Pod. Raises InvalidInput, TypeError or ValueError where its shape is wrong."""
        view = PodView.of(raw)
        spec, status = part(raw, "spec"), part(raw, "status")
        own = part(spec, "resources")
        return cls(
            view=view,
            tolerations=tuple(map(Toleration.of, parts(spec, "tolerations"))),
            node_selector=part(spec, "nodeSelector"),
            node_affinity=part(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
            runtime_class=text(spec, "runtimeClassName"),
            priority=number(spec, "priority"),
            gated=tuple(text(gate, "name") for gate in parts(spec, "schedulingGates")),
            pod_level=frozenset(
                name for field in ("requests", "limits") for name in part(own, field) if is_extended(name)
            ),
            claims=_claims(view, status) or _NOTHING,
            uses=tuple(
                RequestUse(text(each, "containerName"), text(each, "resourceName"), text(each, "requestName"))
                for each in parts(part(status, "extendedResourceClaimStatus"), "requestMappings")
            ),
            unscheduled=next(
                (
                    text(condition, "message")
                    for condition in parts(status, "conditions")
                    if condition.get("type") == "PodScheduled" and condition.get("status") == "False"
                ),
                "",
            ),
            claim_writers=managers_of(raw, "f:status", "f:resourceClaimStatuses"),
            component=_component(view, spec),
            asked=_asked(view),
        )


def _asked(view: PodView) -> Asked | None:
    try:
        return decode(view)
    except InvalidInput:
        return None


def _claims(view: PodView, status: Raw) -> dict[str, str]:
    made = {text(each, "name"): text(each, "resourceClaimName") for each in parts(status, "resourceClaimStatuses")}
    named = {entry.name: entry.claim_name or made.get(entry.name, "") for entry in view.resource_claims}
    return {entry: claim for entry, claim in named.items() if claim}


def _component(view: PodView, spec: Raw) -> Component | None:
    name = view.labels.get("component", "")
    if view.namespace != "kube-system" or name not in CONTROL_PLANE:
        return None
    for container in parts(spec, "containers"):
        words = texts(container, "command") + texts(container, "args")
        return Component(name, version_of(text(container, "image").rpartition(":")[2]), _gates(words))
    return None


def _gates(words: tuple[str, ...]) -> dict[str, bool]:
    pairs = (
        pair.partition("=")
        for word in words
        if word.startswith(_GATES)
        for pair in word.removeprefix(_GATES).split(",")
    )
    return {name: value.lower() == "true" for name, _, value in pairs if value}


def version_of(words: str) -> tuple[int, int] | None:
    """(major, minor) of a version such as v1.36.2; None for other text."""
    found = re.match(r"v?([0-9]{1,9})\.([0-9]{1,9})", words)
    return (int(found[1]), int(found[2])) if found else None
