"""Claims of a PodSpec -> extended resources, where these can say as much."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from drabridge.core.convert.change import ContainerChange, PodChange
from drabridge.core.convert.forward import Remark
from drabridge.core.convert.serving import Serving
from drabridge.core.convert.shape import Shape, asked_of, tolerated_of
from drabridge.core.errors import InvalidInput
from drabridge.core.podview import Container, ContainerKind, PodClaim, PodView
from drabridge.core.reasons import Reason

Templates = Mapping[tuple[str, str], Mapping[str, Any]]
"""(namespace, name) -> ResourceClaimTemplate, as v1. One without a namespace may be meant for any."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What becomes of a PodSpec: `change` is None where nothing does.

    `used` are the templates that it goes on using, `names` the resources that it asks for again; `ours` are those of
    them that `forward` took, and whose toleration it added if none was there.
    """

    change: PodChange | None
    left: tuple[Remark, ...] = ()
    used: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    ours: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Request:
    name: str
    device_class: str
    count: int


def decide(spec: Mapping[str, Any], namespace: str, templates: Templates, serving: Serving) -> Restored:
    """Say which claims of a PodSpec become extended resources again."""
    try:
        pod = PodView.of({"spec": spec})
    except InvalidInput:
        return Restored(None)
    used, left, gone, ours = set(), [], set(), set()
    asks: list[dict[str, int]] = [{} for _ in pod.containers]
    for i, claim in enumerate(pod.resource_claims):
        if not claim.template_name:
            continue
        where = ("resourceClaims", i)
        body = templates.get((namespace, claim.template_name)) or templates.get(("", claim.template_name))
        found = _asks(pod, claim, body, serving)
        if not isinstance(found, list):
            reason, detail = found
            left.append(Remark(reason, f"{claim.template_name}: {detail}", where))
            used.add(claim.template_name)
            continue
        gone.add(claim.name)
        if body and asked_of(body):
            ours |= {name for each in found for name in each} - tolerated_of(body)
        for into, each in zip(asks, found, strict=True):
            for name, count in each.items():
                into[name] = into.get(name, 0) + count
    if not gone:
        return Restored(None, tuple(left), frozenset(used))
    changes = tuple(
        ContainerChange(path=_path(container), add=asks[container.index], drop_claims=frozenset(gone))
        for container in pod.containers
        if asks[container.index] or any(claim.name in gone for claim in container.claims)
    )
    names = frozenset(name for each in asks for name in each)
    return Restored(
        PodChange(changes, drop_entries=frozenset(gone)), tuple(left), frozenset(used), names, frozenset(ours)
    )


def _path(container: Container) -> tuple[str, int]:
    _, _, plural, position = container.path.split("/")
    return plural, int(position)


_Asks = list[Mapping[str, int]]
_Why = tuple[Reason, str]


def _asks(pod: PodView, claim: PodClaim, body: Mapping[str, Any] | None, serving: Serving) -> _Asks | _Why:
    """What each container would ask for instead of the claim, or why that cannot be said."""
    if body is None:
        return Reason.CLAIM_TEMPLATE_UNKNOWN, "it is not among the files"
    requests = _requests(body)
    if isinstance(requests, str):
        return Reason.NOT_EXPRESSIBLE, requests
    uses = [_uses(container, claim.name, requests) for container in pod.containers]
    if unknown := {name for each in uses for name in each} - {request.name for request in requests}:
        return Reason.NOT_EXPRESSIBLE, f"a container uses the request {min(unknown)}, which it has not"
    kept = asked_of(body)
    found = _as_asked(pod, kept, requests, uses) if kept else None
    return found or _counted(pod, requests, uses, serving)


def _requests(body: Mapping[str, Any]) -> list[_Request] | str:
    """The requests of a template, or what it says that extended resources cannot."""
    inner = body.get("spec")
    inner = inner.get("spec") if isinstance(inner, dict) else None
    devices = inner.get("devices") if isinstance(inner, dict) else None
    if not isinstance(devices, dict) or not isinstance(devices.get("requests"), list):
        return "it has no list of requests"
    if more := {key for key, value in devices.items() if value} - {"requests"}:
        return f"it has {min(more)}"
    found = []
    for each in devices["requests"]:
        exactly = each.get("exactly") if isinstance(each, dict) else None
        if not isinstance(exactly, dict):
            return "it has a request that is no plain one"
        if more := {key for key, value in exactly.items() if value} - {"deviceClassName", "allocationMode", "count"}:
            return f"a request has {min(more)}"
        count = exactly.get("count", 1)
        if exactly.get("allocationMode", "ExactCount") != "ExactCount" or type(count) is not int:
            return "a request asks for no number of devices"
        found.append(_Request(str(each.get("name")), str(exactly.get("deviceClassName")), count))
    return found


def _uses(container: Container, entry: str, requests: Sequence[_Request]) -> frozenset[str]:
    names: set[str] = set()
    for claim in container.claims:
        if claim.name == entry:
            names |= {claim.request} if claim.request else {request.name for request in requests}
    return frozenset(names)


def _short_lived(pod: PodView) -> tuple[bool, ...]:
    return tuple(each.kind is ContainerKind.INIT for each in pod.containers)


def _as_asked(
    pod: PodView, kept: Sequence[Mapping[str, int]], requests: Sequence[_Request], uses: Sequence[frozenset[str]]
) -> _Asks | None:
    """What the annotation says, if the claim and its uses still follow from that; anybody may have edited them."""
    if len(kept) > len(pod.containers):
        return None
    counts = [*kept, *({} for _ in pod.containers[len(kept) :])]
    claim = Shape(tuple(counts), _short_lived(pod)).plan({name: "" for each in counts for name in each})
    if {(each.name, each.count) for each in claim.requests} != {(each.name, each.count) for each in requests}:
        return None
    wanted: list[set[str]] = [set() for _ in pod.containers]
    for mapping in claim.mappings:
        wanted[int(mapping.container)].add(mapping.request)
    return counts if wanted == [set(each) for each in uses] else None


def _counted(
    pod: PodView, requests: Sequence[_Request], uses: Sequence[frozenset[str]], serving: Serving
) -> _Asks | _Why:
    """Each container asks for the devices that it sees; the Pod's total must come to what the claim asks for."""
    names = {}
    for request in requests:
        name = serving.name_of(request.device_class)
        if name is None:
            return Reason.NOT_EXPRESSIBLE, f"no resource name leads to DeviceClass {request.device_class}"
        names[request.name] = name
    counts: _Asks = []
    for seen in uses:
        mine: dict[str, int] = {}
        for request in requests:
            if request.name in seen:
                mine[names[request.name]] = mine.get(names[request.name], 0) + request.count
        counts.append(mine)
    claim = Shape(tuple(counts), _short_lived(pod)).plan(dict.fromkeys(names.values(), ""))
    if _totals((each.resource, each.count) for each in claim.requests) != _totals(
        (names[each.name], each.count) for each in requests
    ):
        return Reason.NOT_EXPRESSIBLE, "containers share devices, or some are used by none"
    return counts


def _totals(pairs: Any) -> dict[str, int]:
    totals: dict[str, int] = {}
    for name, count in pairs:
        totals[name] = totals.get(name, 0) + count
    return totals
