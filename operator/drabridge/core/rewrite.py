"""What admission does with a Pod that asks for extended resources.

The rules of `POD_RULES` look at the Pod as a whole, those of `NAME_RULES` at one resource name of it; what no rule
objects to is served: the names leave requests and limits, and the Pod points to a ResourceClaim that the operator
creates once the Pod is stored.

Admission may call several times for one Pod (`reinvocationPolicy`), with other webhooks and the in-tree plugins in
between. The claim's name stands on the Pod after the first call and what was asked for in the annotation, so later
calls come to the same end: applying the patch of a second call changes nothing.
"""

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from drabridge.core import asked as annotation
from drabridge.core.asked import Asked, AskedRequest
from drabridge.core.auto import choose
from drabridge.core.caps import Cap, Max
from drabridge.core.claimspec import MAX_DEVICES, ClaimPlan, ContainerDemand, plan, total
from drabridge.core.cluster import ClusterView
from drabridge.core.errors import InvalidInput, quoted
from drabridge.core.names import implicit_class, is_explicit
from drabridge.core.podpatch import (
    JSONPatch,
    remove_annotation,
    set_annotations,
    set_entry,
    set_labels,
    set_resources,
)
from drabridge.core.podview import Ask, ContainerClaim, ContainerKind, PodClaim, PodView
from drabridge.core.policy import Coexistence, Delivery
from drabridge.core.quantity import Quantity
from drabridge.core.reasons import CURES, Reason

CLAIM_PREFIX = "drabridge-"
"""What the name of every claim of ours begins with; the webhook configuration matches it, too."""

CLAIM_NAME = re.compile(r"drabridge-[a-z0-9]{16}")
"""A claim name of ours; it is the marker of a rewritten Pod, because copies lose labels and annotations."""

ALLOCATION = "drabridge.io/allocation"
"""The annotation that the operator writes on a Pod once it has a node and devices (`core.claims`)."""

CONTAINERS_MAX = 512
"""Containers of a Pod, and extended resources asked for by all of them: 16 times what one claim can hold. A plan costs
the product of the two, and a Pod of the size that the API server takes could keep us busy for minutes."""

SATURATED = 2**31
"""A number of devices that is shown as "more"."""

ANNOTATIONS_MAX = 256 * 1024
"""Bytes of all annotations of an object, keys and values (apimachinery, TotalAnnotationSizeLimitB)."""

DELIVERY_LABEL = "drabridge.io/delivery"
WATCHED = f"{DELIVERY_LABEL},{DELIVERY_LABEL}!=Bind"
"""The label selector of the Pods that the operator watches. Of Pods that Bind serves, their claims tell enough."""

OPT_OUT = "drabridge.io/rewrite"
POD_CLAIM_NAME = "drabridge"
"""Our entry's name in spec.resourceClaims, unless the Pod uses it already."""


@dataclass(frozen=True, slots=True)
class Objection:
    """Why the Pod (`resource` is None) or one of its resource names is left alone. `detail` names object and field."""

    reason: Reason
    detail: str
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The Pod is to be served by a claim. `left` are the names that stay on it, and why."""

    patch: JSONPatch
    claim_name: str
    asked: Asked
    left: tuple[Objection, ...] = ()


@dataclass(frozen=True, slots=True)
class LeaveAlone:
    """The Pod stays as it is, but for a copy that must not share the devices of its original: `patch`."""

    objections: tuple[Objection, ...]
    patch: JSONPatch = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ClaimNames:
    """The two names the claim may get: `fresh` was just made up; `taken` are those of our kind in use.

    A name that stands on the Pod already is kept only if it is not in use: a copy of a rewritten Pod looks exactly
    like a Pod that admission calls for a second time.
    """

    fresh: str
    taken: frozenset[str] = frozenset()
    origin: str | None = None
    """The annotation of the claim whose name the Pod carries: what the original asked for, if the copy lost it."""


@dataclass(frozen=True, slots=True)
class NameAsk:
    """All that one Pod asks of one resource name; `settled` if an earlier call took it over already."""

    resource: str
    asks: tuple[Ask, ...]
    settled: bool


def decide(pod: PodView, cluster: ClusterView, names: ClaimNames) -> Rewrite | LeaveAlone:
    """Say what admission does with `pod` (KEP-5004 "Proposal"; design §2)."""
    verdict, marked = _decide(pod, cluster, names), our_claim(pod)
    if isinstance(verdict, LeaveAlone) and marked and marked.claim_name in names.taken and not opted_out(pod):
        # A copy (`kubectl debug --copy-to --same-node`) must not share in silence; who opts out wants it as it is.
        patch = set_entry(pod, marked.name, names.fresh) + remove_annotation(pod, ALLOCATION)
        return replace(verdict, patch=patch)
    return verdict


def _decide(pod: PodView, cluster: ClusterView, names: ClaimNames) -> Rewrite | LeaveAlone:
    marked = our_claim(pod)
    if marked is None and not pod.extended():
        return LeaveAlone(())  # whoever is asked about claims of the Pod's own (Bind) has no say in this
    if objection := object_to_pod(pod, cluster):
        return LeaveAlone((objection,))
    before = _asked_before(pod, names) if marked else None
    if marked and (objection := _unexplained(pod, marked, before)):
        return LeaveAlone((objection,))
    served, left = [], []
    for ask in _by_name(pod, before):
        objection = object_to(pod, ask, cluster, QUANTITY_RULES if ask.settled else NAME_RULES)
        if objection and ask.settled:
            # A container that came in between asks for what nobody can give; the others keep what they have.
            return LeaveAlone((objection,))
        if objection:
            left.append(objection)
        else:
            served.append(ask)
    if not served:
        return LeaveAlone(tuple(left))
    zeros = frozenset(ask.resource for ask in served) & cluster.namespace.limits.keys()
    claim = plan(demands(pod, served, zeros), {ask.resource: _class_of(ask.resource, cluster) for ask in served})
    asked = _asked(served, claim)
    if objection := _too_many(pod, served, claim) or _no_room(pod, asked):
        return LeaveAlone((*left, objection))
    claim_name = names.fresh
    if marked and marked.claim_name and marked.claim_name not in names.taken:
        claim_name = marked.claim_name
    return Rewrite(_patch(pod, asked, claim_name, marked, zeros), claim_name, asked, tuple(left))


def ask_for(pod: PodView, classes: Mapping[str, str], cluster: ClusterView) -> Asked:
    """What the Pod asks of these names (resource name -> DeviceClass), as one claim, whoever would make it.

    Raises InvalidInput where its quantities are not numbers of devices.
    """
    served = [ask for ask in _by_name(pod, None) if ask.resource in classes]
    objections = (object_to(pod, ask, cluster, QUANTITY_RULES) for ask in served)
    if objection := _pod_too_large(pod, cluster) or next(filter(None, objections), None):
        raise InvalidInput(pod.described, "", objection.detail, CURES[objection.reason])
    return _asked(served, plan(demands(pod, served), dict(classes)))


def our_claim(pod: PodView) -> PodClaim | None:
    """The entry of spec.resourceClaims that carries a claim name of ours."""
    for claim in pod.resource_claims:
        if claim.claim_name and CLAIM_NAME.fullmatch(claim.claim_name):
            return claim
    return None


# --- rules for the Pod as a whole


def _mirror_pod(pod: PodView, _: ClusterView) -> Objection | None:
    return Objection(Reason.MIRROR_POD, f"{pod.described} mirrors a static Pod") if pod.mirror else None


def _node_name_set(pod: PodView, _: ClusterView) -> Objection | None:
    if not pod.node_name:
        return None
    return Objection(Reason.NODE_NAME_SET, f"{pod.described}: spec.nodeName is {pod.node_name}")


def opted_out(pod: PodView) -> bool:
    """Whether the Pod's author wants it left alone."""
    return pod.annotations.get(OPT_OUT, "").lower() == "false"


def _opted_out(pod: PodView, _: ClusterView) -> Objection | None:
    if not opted_out(pod):
        return None
    return Objection(Reason.OPTED_OUT, f"{pod.described}: metadata.annotations['{OPT_OUT}'] is false")


def _other_scheduler(pod: PodView, cluster: ClusterView) -> Objection | None:
    if pod.scheduler_name in cluster.schedulers | {cluster.bind_scheduler}:
        return None
    return Objection(Reason.OTHER_SCHEDULER, f"{pod.described}: spec.schedulerName is {quoted(pod.scheduler_name)}")


def _pod_too_large(pod: PodView, _: ClusterView) -> Objection | None:
    for count, what in ((len(pod.containers), "containers"), (len(pod.extended()), "asks for extended resources")):
        if count > CONTAINERS_MAX:
            return Objection(Reason.POD_TOO_LARGE, f"{pod.described} has {count} {what}, more than {CONTAINERS_MAX}")
    return None


POD_RULES: tuple[Callable[[PodView, ClusterView], Objection | None], ...] = (
    _mirror_pod,
    _node_name_set,
    _opted_out,
    _other_scheduler,
    _pod_too_large,
)


def object_to_pod(pod: PodView, cluster: ClusterView) -> Objection | None:
    """The first objection to doing anything with `pod`."""
    return next((objection for rule in POD_RULES if (objection := rule(pod, cluster))), None)


# --- rules for one resource name


def _not_served(pod: PodView, ask: NameAsk, cluster: ClusterView) -> Objection | None:
    if cluster.classes.resolve(ask.resource):
        return None
    implied = implicit_class(ask.resource)
    detail = f"DeviceClass {implied} does not exist" if implied else f"no DeviceClass stands behind {ask.resource}"
    return Objection(Reason.NOT_SERVED, detail, ask.resource)


def _policy_off(pod: PodView, ask: NameAsk, cluster: ClusterView) -> Objection | None:
    policy = cluster.policies.get(ask.resource)
    if policy is None or policy.delivery is not Delivery.OFF:
        return None
    return Objection(Reason.POLICY_OFF, f"ExtendedResourcePolicy {policy.name}: spec.delivery is Off", ask.resource)


def _not_selected(pod: PodView, ask: NameAsk, cluster: ClusterView) -> Objection | None:
    policy = cluster.policies.get(ask.resource)
    if policy is None:
        return None
    if not policy.selects_namespace(cluster.namespace.labels):
        field = "namespaceSelector does not select the namespace"
    elif not policy.selects_pod(pod):
        field = "podSelector does not select the Pod"
    else:
        return None
    return Objection(Reason.NOT_SELECTED, f"ExtendedResourcePolicy {policy.name}: spec.{field}", ask.resource)


def _served_otherwise(pod: PodView, ask: NameAsk, cluster: ClusterView) -> Objection | None:
    choice = choose(ask.resource, cluster)
    if choice.delivery is Delivery.NATIVE:
        return Objection(Reason.NATIVE, f"kube-scheduler serves {ask.resource} itself", ask.resource)
    if choice.delivery is not Delivery.BIND:
        return None
    if choice.reason is not Reason.SERVING:
        return Objection(choice.reason, choice.detail, ask.resource)
    return Objection(Reason.BIND, f"drabridge's own kube-scheduler serves {ask.resource}", ask.resource)


def _device_plugin_present(pod: PodView, ask: NameAsk, cluster: ClusterView) -> Objection | None:
    node = cluster.nodes.plugins.get(ask.resource)
    policy = cluster.policies.get(ask.resource)
    if node is None or (policy and policy.coexistence is Coexistence.REWRITE):
        return None
    return Objection(
        Reason.DEVICE_PLUGIN_PRESENT, f"node {node} has {ask.resource} in status.allocatable", ask.resource
    )


def _limit_differs(pod: PodView, ask: NameAsk, cluster: ClusterView) -> Objection | None:
    """Where the API server refuses the Pod for it (`ValidateResourceRequirements`); stripped, it would be accepted.

    Implicit names count as native ones there: they may go without a limit, and only a request above it is refused.
    """
    explicit = is_explicit(ask.resource)
    for each in ask.asks:
        request = Quantity.parse(each.request)
        limit = None if each.limit is None else Quantity.parse(each.limit)
        if (limit is None or request != limit) if explicit else (limit is not None and request > limit):
            return Objection(
                Reason.LIMIT_DIFFERS,
                f"{pod.described}: {each.path} is {each.request}, its limit {each.limit or 'not set'}",
                ask.resource,
            )
    return None


def _unreadable(pod: PodView, ask: NameAsk, cluster: ClusterView) -> Objection | None:
    for each in ask.asks:
        for text in (each.request, each.limit):
            try:
                negative = text is not None and Quantity.parse(text).mantissa < 0
            except ValueError as error:
                return Objection(Reason.INVALID_POD, f"{pod.described}: {each.path}: {error}", ask.resource)
            if negative:
                problem = f"{each.path} is {text}, less than zero"
                return Objection(Reason.INVALID_POD, f"{pod.described}: {problem}", ask.resource)
    return None


def _not_whole(pod: PodView, ask: NameAsk, cluster: ClusterView) -> Objection | None:
    for each in ask.asks:
        if Quantity.parse(each.request).as_int() is None:
            return Objection(Reason.NOT_WHOLE, f"{pod.described}: {each.path} is {each.request}", ask.resource)
    return None


def _limit_range(pod: PodView, ask: NameAsk, cluster: ClusterView) -> Objection | None:
    """Caps that cannot be kept, and Pods above those that can: the API server refuses these as they are."""
    limit = cluster.namespace.limits.get(ask.resource)
    if limit is None:
        return None
    if limit.refuses:
        where = f"LimitRange {pod.namespace}/{limit.refused_by}"
        return Objection(Reason.LIMIT_RANGE, f"{where} has {limit.refuses} for {ask.resource}", ask.resource)
    # The limit is the larger of the two where they may differ, and is held to the cap as well.
    asks = tuple(replace(each, request=each.limit or each.request) for each in ask.asks)
    for each in asks:
        if (cap := limit.container_max) and Quantity.parse(each.request) > cap.quantity:
            asked = f"{pod.described}: {each.container.field} asks for {each.request} {ask.resource}"
            return _above(asked, cap, pod, ask.resource)
    wanted = total(demands(pod, [replace(ask, asks=asks)]), ask.resource)
    if (cap := limit.pod_max) and Quantity.parse(str(wanted)) > cap.quantity:
        return _above(f"{pod.described} asks for {wanted} {ask.resource} in all", cap, pod, ask.resource)
    return None


def _above(asked: str, cap: Max, pod: PodView, resource: str) -> Objection:
    most = f"more than the max {cap.quantity} of LimitRange {pod.namespace}/{cap.limit_range}"
    return Objection(Reason.LIMIT_EXCEEDED, f"{asked}, {most}", resource)


def _resource_quota(pod: PodView, ask: NameAsk, cluster: ClusterView) -> Objection | None:
    cap = cluster.namespace.caps.get(ask.resource)
    if cap is None or not cap.problem or cap.pending:
        return None
    return Objection(Reason.RESOURCE_QUOTA, _quota_detail(pod, ask, cap), ask.resource)


def _quota_pending(pod: PodView, ask: NameAsk, cluster: ClusterView) -> Objection | None:
    """The API server enforces the cap in a moment. The Pod may come meanwhile, its claim may not."""
    cap = cluster.namespace.caps.get(ask.resource)
    if cap is None or not cap.pending:
        return None
    return Objection(Reason.QUOTA_PENDING, _quota_detail(pod, ask, cap), ask.resource)


def _quota_detail(pod: PodView, ask: NameAsk, cap: Cap) -> str:
    return f"ResourceQuota {pod.namespace}/{cap.quota} names requests.{ask.resource}, and {cap.problem}"


NameRule = Callable[[PodView, NameAsk, ClusterView], Objection | None]

LEFT_RULES: tuple[NameRule, ...] = (_policy_off, _not_selected, _limit_range, _resource_quota)
"""What keeps drabridge from a name in this namespace, or for this Pod, however many devices there are."""

ALLOWED_RULES: tuple[NameRule, ...] = (_not_served, *LEFT_RULES, _quota_pending)
"""What must hold at admission and still when the claim is created: anybody can write our annotation."""

QUANTITY_RULES: tuple[NameRule, ...] = (_unreadable, _not_whole, _limit_differs)
"""What must hold of the numbers, at later calls too: other webhooks may have added a container."""

NAME_RULES: tuple[NameRule, ...] = (
    _not_served,
    _policy_off,
    _not_selected,
    _served_otherwise,
    _device_plugin_present,
    *QUANTITY_RULES,
    _limit_range,
    _resource_quota,
)


def object_to(
    pod: PodView, ask: NameAsk, cluster: ClusterView, rules: tuple[NameRule, ...] = NAME_RULES
) -> Objection | None:
    """The first objection of `rules` to serving one name of `pod`."""
    return next((objection for rule in rules if (objection := rule(pod, ask, cluster))), None)


# --- what is asked for


def _asked_before(pod: PodView, names: ClaimNames) -> Asked | None:
    """What an earlier call took off this Pod, or off the one that it is a copy of."""
    for text in (pod.annotations.get(annotation.ANNOTATION), names.origin):
        if text is not None:
            with suppress(InvalidInput):
                return annotation.decode_text(text, pod.described)
    return None


def _unexplained(pod: PodView, marked: PodClaim, before: Asked | None) -> Objection | None:
    """A Pod of ours whose annotation does not say what it, or one of its containers, once asked for.

    Copies come without annotations or with containers renamed; to go on would take their devices away in silence.
    """
    if before is None:
        return Objection(Reason.COPY_UNREADABLE, f"{pod.described} uses claim {marked.claim_name}")
    for container in pod.containers:
        if container.name not in before.containers and any(claim.name == marked.name for claim in container.claims):
            detail = f"{pod.described}: {container.field} ({container.name}) uses claim {marked.claim_name}"
            return Objection(Reason.COPY_UNREADABLE, detail)
    return None


def _by_name(pod: PodView, before: Asked | None) -> list[NameAsk]:
    """What is on the Pod and what was taken off it, by name, sorted.

    Where both speak of one container and name, the earlier counts: in-tree plugins put names back with values of
    their own (LimitRange defaults).
    """
    asks: dict[str, dict[int, Ask]] = {}
    for ask in pod.extended():
        asks.setdefault(ask.resource, {})[ask.container.index] = ask
    settled = set()
    containers = {container.name: container for container in pod.containers}
    for name, resources in (before.containers if before else {}).items():
        if name in containers:
            for resource, quantity in resources.items():
                settled.add(resource)
                ask = Ask(containers[name], resource, quantity, quantity)
                asks.setdefault(resource, {})[ask.container.index] = ask
    return [
        NameAsk(resource, tuple(ask for _, ask in sorted(by_container.items())), resource in settled)
        for resource, by_container in sorted(asks.items())
    ]


def demands(pod: PodView, served: list[NameAsk], zeros: frozenset[str] = frozenset()) -> list[ContainerDemand]:
    """What each container asks of the served names. Their quantities must be readable.

    `zeros` are names that every container will have, so that a later call numbers requests as this one does.
    """
    counts: dict[int, dict[str, int]] = {}
    for ask in served:
        for each in ask.asks:
            counts.setdefault(each.container.index, {})[ask.resource] = Quantity.parse(each.request).ceil()
    return [
        ContainerDemand(
            name=container.name,
            short_lived=container.kind is ContainerKind.INIT,
            keys=tuple(sorted({*container.request_keys, *counts.get(container.index, ()), *zeros})),
            counts=counts.get(container.index, {}),
        )
        for container in pod.containers
    ]


def _class_of(resource: str, cluster: ClusterView) -> str:
    mapping = cluster.classes.resolve(resource)
    return mapping.device_class if mapping else ""


def _asked(served: list[NameAsk], claim: ClaimPlan) -> Asked:
    containers: dict[str, dict[str, str]] = {}
    for ask in served:
        for each in ask.asks:
            containers.setdefault(each.container.name, {})[ask.resource] = each.request
    return Asked(
        containers=containers,
        requests=tuple(AskedRequest(each.name, each.resource, each.count) for each in claim.requests),
        mappings=claim.mappings,
    )


def _too_many(pod: PodView, served: list[NameAsk], claim: ClaimPlan) -> Objection | None:
    """The sum first, then who asks for how much: a person has to see which container to make smaller."""
    if claim.devices <= MAX_DEVICES:
        return None
    parts = [f"{each.container.name} {each.request[:30]} {each.resource}" for ask in served for each in ask.asks]
    count = str(claim.devices) if claim.devices < SATURATED else "more"  # what is written may be more than an int64
    shown = ", ".join(parts[:8]) + (f" and {len(parts) - 8} more" if len(parts) > 8 else "")
    return Objection(
        Reason.TOO_MANY_DEVICES,
        f"{pod.described} asks for {count} devices in all, a ResourceClaim holds {MAX_DEVICES}: {shown}",
    )


def _no_room(pod: PodView, asked: Asked) -> Objection | None:
    """The API server refuses a Pod whose annotations are too large together, so ours must fit behind the others."""
    text = asked.encode()
    if pod.annotations.get(annotation.ANNOTATION) == text:
        return None
    size = pod.annotation_bytes + len(annotation.ANNOTATION) + len(text)
    if size <= ANNOTATIONS_MAX:
        return None
    detail = f"{pod.described}: metadata.annotations would have {size} bytes with {annotation.ANNOTATION}"
    return Objection(Reason.POD_TOO_LARGE, f"{detail}, more than {ANNOTATIONS_MAX}")


# --- the patch


def _patch(pod: PodView, asked: Asked, claim_name: str, marked: PodClaim | None, zeros: frozenset[str]) -> JSONPatch:
    """The names in `zeros` stay with quantity 0, on every container: a LimitRange looks for them (`core.caps`)."""
    entry = marked.name if marked else _entry_name(pod)
    requests: dict[str, dict[str, None]] = {}
    for mapping in asked.mappings:
        requests.setdefault(mapping.container, {})[mapping.request] = None
    patch: JSONPatch = []
    for container in pod.containers:
        quantities: dict[str, tuple[str | None, str | None]] = {
            # Who asks for none may have written so, and in a way that the API server refuses.
            name: (container.requests.get(name, "0"), container.limits.get(name, "0"))
            for name in zeros
        }
        for name in asked.containers.get(container.name, ()):
            quantities[name] = ("0", "0") if name in zeros else (None, None)
        others = [claim for claim in container.claims if claim.name != entry]
        ours = [ContainerClaim(entry, name) for name in requests.get(container.name, ())]
        patch += set_resources(container, dict(sorted(quantities.items())), [*others, *ours])
    patch += set_entry(pod, entry, claim_name)
    patch += set_labels(pod, {DELIVERY_LABEL: Delivery.REWRITE.value})
    patch += set_annotations(pod, {annotation.ANNOTATION: asked.encode()})
    return patch + remove_annotation(pod, ALLOCATION)  # of the Pod that this one is a copy of


def _entry_name(pod: PodView) -> str:
    # A container that uses an entry which is not there makes the Pod invalid, and is not to get ours instead.
    used = {claim.name for claim in pod.resource_claims}
    used.update(claim.name for container in pod.containers for claim in container.claims)
    name, count = POD_CLAIM_NAME, 1
    while name in used:
        count += 1
        name = f"{POD_CLAIM_NAME}-{count}"
    return name
