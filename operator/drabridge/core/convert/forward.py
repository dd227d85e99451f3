"""Extended resources of a PodSpec -> claims: what changes, what is left, and why."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from drabridge.core.claimspec import MAX_DEVICES, ClaimPlan
from drabridge.core.convert.change import ContainerChange, PodChange
from drabridge.core.convert.serving import Serving
from drabridge.core.convert.shape import Shape
from drabridge.core.errors import InvalidInput, quoted
from drabridge.core.names import is_explicit
from drabridge.core.podview import DEFAULT_SCHEDULER, Ask, Container, ContainerKind, PodView
from drabridge.core.quantity import Quantity
from drabridge.core.reasons import Reason

ENTRY: Final = "extended-resources"
"""Name of our entry in spec.resourceClaims, after what kube-scheduler calls such claims; numbered if it is taken."""

_PARTS: Final = ("mem", "core", "percent", "priority")
"""What the name of a part of a device has in it: gpumem, vmemory, gpucores, neuroncore, gpumem-percentage."""

_PLACEHOLDER: Final = re.compile(r"[$<@%]|\{\{|__")
"""What stands in texts for other programs to replace: ${GPUS}, $GPUS, {{gpus}}, __GPUS__, <gpus>, @gpus@, %gpus%."""

_SHARED: Final = ".shared"
"""How NVIDIA's device plugin names replicas of a device that several containers use in turn."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to be said of a PodSpec: why a name is left, or what to know of a change. `path` is in the PodSpec."""

    reason: Reason
    detail: str
    path: tuple[str | int, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """A change that gives the Pod the devices of a template of this shape; the template's name is not known yet."""

    shape: Shape
    claim: ClaimPlan
    entry: str
    containers: tuple[ContainerChange, ...]
    tolerations: tuple[dict[str, str], ...]
    asked: str
    notes: tuple[Remark, ...]

    def change(self, template_name: str) -> PodChange:
        """The change, once the template has its name."""
        entry = {"name": self.entry, "resourceClaimTemplateName": template_name}
        return PodChange(self.containers, entries=(entry,), tolerations=self.tolerations)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a PodSpec: `wanted` is None where nothing changes; `left` says why names stay."""

    wanted: Wanted | None
    left: tuple[Remark, ...] = ()


def decide(spec: Mapping[str, Any], serving: Serving, *, certain: bool = True) -> Verdict:
    """Say what becomes of a PodSpec. Rules look at the Pod as a whole first, then at one name of one container.

    One that only looks like a PodSpec (not `certain`) and is none is not spoken of, unless it asks for devices.
    """
    try:
        pod = PodView.of({"spec": spec})
    except InvalidInput as problem:
        return _invalid(problem) if certain or _asks(spec) else NONE
    left = [_not_served(each) for each in _first_of_names(pod) if not serving.serves(each.resource)]
    asks = [each for each in pod.extended() if serving.serves(each.resource)]
    if not asks:
        return Verdict(None, tuple(left))
    if pod.node_name:
        return Verdict(None, (*left, Remark(Reason.NODE_NAME_SET, f"spec.nodeName is {pod.node_name}", ("nodeName",))))
    objections = [(each.resource, found) for each in asks if (found := _objection(each, serving))]
    refused = {resource for resource, _ in objections}
    left += [found for _, found in objections]
    served = [each for each in asks if each.resource not in refused]
    if not served:
        return Verdict(None, tuple(left))
    wanted = _wanted(spec, pod, served, serving)
    if wanted.claim.devices > MAX_DEVICES:
        return Verdict(None, (*left, _too_many(served, wanted.claim)))
    return Verdict(wanted, tuple(left))


NONE: Final = Verdict(None)


def _invalid(problem: InvalidInput) -> Verdict:
    return Verdict(None, (Remark(Reason.INVALID_POD, f"{problem.path} {problem.problem}"),))


def _asks(spec: Mapping[str, Any]) -> bool:
    """Whether a PodSpec that cannot be read names anything like an extended resource where it would ask for it."""
    lists = (spec.get(key) for key in ("initContainers", "containers"))
    for container in (each for found in lists if isinstance(found, list) for each in found):
        resources = container.get("resources") if isinstance(container, dict) else None
        for field in ("limits", "requests"):
            quantities = resources.get(field) if isinstance(resources, dict) else None
            if isinstance(quantities, dict | list) and any(is_explicit(str(name)) for name in quantities):
                return True
    return False


def _first_of_names(pod: PodView) -> Iterator[Ask]:
    seen: set[str] = set()
    for each in pod.extended():
        if each.resource not in seen:
            seen.add(each.resource)
            yield each


def _where(ask: Ask) -> tuple[str | int, ...]:
    field = "requests" if ask.resource in ask.container.requests else "limits"
    return (*_path(ask.container), "resources", field, ask.resource)


def _path(container: Container) -> tuple[str, int]:
    _, _, plural, position = container.path.split("/")
    return plural, int(position)


# --- rules for what one container asks of one name


def _not_served(ask: Ask) -> Remark:
    return Remark(Reason.NOT_SERVED, f"no policy, DeviceClass or --map says what serves {ask.resource}", _where(ask))


def _unreadable(ask: Ask) -> Remark | None:
    for text in (ask.request, ask.limit):
        if text is None:
            continue
        try:
            quantity = Quantity.parse(text)
        except ValueError as error:
            if _PLACEHOLDER.search(text):
                return Remark(Reason.PLACEHOLDER, f"the quantity is {quoted(text)}", _where(ask))
            return Remark(Reason.INVALID_POD, str(error), _where(ask))
        if quantity.mantissa < 0:
            return Remark(Reason.INVALID_POD, f"the quantity {quoted(text)} is less than zero", _where(ask))
    return None


def _not_whole(ask: Ask) -> Remark | None:
    if Quantity.parse(ask.request).as_int() is not None:
        return None
    return Remark(Reason.NOT_WHOLE, f"the quantity is {ask.request}", _where(ask))


def _limit_differs(ask: Ask) -> Remark | None:
    if ask.limit is None:
        return None
    request, limit = Quantity.parse(ask.request), Quantity.parse(ask.limit)
    if request == limit or (not is_explicit(ask.resource) and request < limit):
        return None
    return Remark(Reason.LIMIT_DIFFERS, f"the request is {ask.request}, the limit {ask.limit}", _where(ask))


def _part_of_device(ask: Ask, serving: Serving) -> Remark | None:
    """HAMi's gpumem, Neuron's neuroncore: names beside this one that say how much of the same device is wanted."""
    domain = ask.resource.partition("/")[0] + "/"
    for name in ask.container.request_keys:
        part = name.removeprefix(domain).lower()
        is_part = name.startswith(domain) and any(each in part for each in _PARTS)
        if is_part and name != ask.resource and not serving.serves(name):
            return Remark(Reason.PART_OF_DEVICE, f"the container asks for {name} as well", _where(ask))
    return None


RULES: tuple[Callable[[Ask], Remark | None], ...] = (_unreadable, _not_whole, _limit_differs)


def _objection(ask: Ask, serving: Serving) -> Remark | None:
    return next((found for rule in RULES if (found := rule(ask))), None) or _part_of_device(ask, serving)


def _too_many(served: Sequence[Ask], claim: ClaimPlan) -> Remark:
    parts = ", ".join(f"{each.container.name} {each.request[:30]} {each.resource}" for each in served[:8])
    count = str(claim.devices) if claim.devices < 2**31 else "more"
    detail = f"the Pod asks for {count} devices in all, a ResourceClaim holds {MAX_DEVICES}: {parts}"
    return Remark(Reason.TOO_MANY_DEVICES, detail, _where(served[0]))


# --- what is wanted instead


def _wanted(pod_spec: Mapping[str, Any], pod: PodView, served: Sequence[Ask], serving: Serving) -> Wanted:
    counts: list[dict[str, int]] = [{} for _ in pod.containers]
    for each in served:
        counts[each.container.index][each.resource] = Quantity.parse(each.request).ceil()
    shape = Shape(tuple(counts), tuple(each.kind is ContainerKind.INIT for each in pod.containers))
    classes = {each.resource: serving.class_of(each.resource) or "" for each in served}
    claim = shape.plan(classes)
    entry = _entry(pod)
    uses: dict[int, dict[str, None]] = {}
    for mapping in claim.mappings:
        uses.setdefault(int(mapping.container), {})[mapping.request] = None
    changes = tuple(
        ContainerChange(
            path=_path(container),
            drop=frozenset(counts[container.index]),
            claims=tuple({"name": entry, "request": request} for request in uses.get(container.index, ())),
        )
        for container in pod.containers
        if counts[container.index]
    )
    tolerations = _tolerations(pod_spec, sorted(classes))
    return Wanted(
        shape=shape,
        claim=claim,
        entry=entry,
        containers=changes,
        tolerations=tolerations,
        asked=", ".join(f"{count} {name}" for name, count in claim.totals().items()),
        notes=tuple(_notes(pod_spec, pod, served, serving)),
    )


def _tolerations(spec: Mapping[str, Any], resources: Sequence[str]) -> tuple[dict[str, str], ...]:
    """Give the tolerations that the admission plugin would add for these names and that are not there in effect.

    It adds them for explicit names only (`IsExtendedResourceName`), sorted, for taints of effect NoSchedule.
    """
    present = spec.get("tolerations")
    present = [each for each in present if isinstance(each, dict)] if isinstance(present, list) else []
    return tuple(
        toleration(name)
        for name in resources
        if is_explicit(name) and not any(_tolerates(each, name) for each in present)
    )


def toleration(name: str) -> dict[str, str]:
    """What the admission plugin gives to Pods that ask for an extended resource."""
    return {"key": name, "operator": "Exists", "effect": "NoSchedule"}


def _tolerates(toleration: Mapping[str, Any], key: str) -> bool:
    return (
        toleration.get("operator") == "Exists"
        and toleration.get("key") in (key, None, "")
        and toleration.get("effect") in (None, "", "NoSchedule")
    )


def _entry(pod: PodView) -> str:
    used = {claim.name for claim in pod.resource_claims}
    used.update(claim.name for container in pod.containers for claim in container.claims)
    name, count = ENTRY, 1
    while name in used:
        count += 1
        name = f"{ENTRY}-{count}"
    return name


def _has_image(spec: Mapping[str, Any], path: tuple[str, int]) -> bool:
    return "image" in spec[path[0]][path[1]]


def _notes(spec: Mapping[str, Any], pod: PodView, served: Sequence[Ask], serving: Serving) -> Iterator[Remark]:
    if pod.scheduler_name != DEFAULT_SCHEDULER:
        yield Remark(Reason.SCHEDULER, f"spec.schedulerName is {quoted(pod.scheduler_name)}", ("schedulerName",))
    if bare := [name for name in (_path(each.container) for each in served) if not _has_image(spec, name)]:
        yield Remark(Reason.WITHOUT_IMAGE, "the container has no image, as in a patch of another manifest", bare[0])
    for each in served:
        if each.limit is None and is_explicit(each.resource):
            yield Remark(Reason.REQUEST_ONLY, f"{each.request} {each.resource}", _where(each))
        if each.resource.endswith(_SHARED):
            yield Remark(Reason.SHARED_UNITS, f"{each.request} {each.resource}", _where(each))
        if serving.class_of(each.resource) in serving.configured and Quantity.parse(each.request).ceil() > 1:
            detail = f"DeviceClass {serving.class_of(each.resource)} has config, and {each.request} devices share it"
            yield Remark(Reason.CONFIG_SHARED, detail, _where(each))
        domain = each.resource.partition("/")[0] + "/"
        for name in each.container.request_keys:
            if name.startswith(domain) and is_explicit(name) and not serving.serves(name):
                yield Remark(Reason.SAME_DOMAIN_LEFT, f"{name} stays beside {each.resource}", _where(each))
