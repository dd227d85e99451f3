"""DeviceClasses and policies: which name leads to which class, and what came in between."""

from __future__ import annotations

from collections.abc import Iterator

from drabridge.core.auto import hindrance_of
from drabridge.core.cluster import Gate
from drabridge.core.doctor import links
from drabridge.core.doctor.findings import Finding, Severity, check, listed
from drabridge.core.inventory.claims import ClaimRecord
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.names import implicit_class, implicit_name
from drabridge.core.policy import Delivery
from drabridge.core.reasons import CURES, Reason


@check(
    "class-name-lost",
    Severity.WARNING,
    cure=CURES[Reason.NAME_LOST],
    serves="pain 16: dra-driver-nvidia-gpu#738, charts set a name that the API server drops",
    link=links.KEP_5004,
    needs=(Kind.CLASSES,),
)
def class_name_lost(cluster: Inventory) -> Iterator[Finding]:
    """A DeviceClass was given an extendedResourceName while the gate was off, and the API server dropped it."""
    for each in cluster.classes:
        lost = each.view.lost_name
        if lost is not None and not (lost and each.view.annotated_name == lost):
            name = lost or "NAME"
            cure = f"kubectl annotate deviceclass {each.name} drabridge.io/extended-resource-name={name}"
            yield Finding(each.described, f"spec.extendedResourceName {lost} is gone".replace("  ", " "), cure)


@check(
    "class-annotation-invalid",
    Severity.ERROR,
    cure=CURES[Reason.NAME_INVALID],
    serves="trap: names that the API server would refuse in the spec are accepted in an annotation",
    link=links.KEP_5004,
    needs=(Kind.CLASSES,),
)
def class_annotation_invalid(cluster: Inventory) -> Iterator[Finding]:
    """A DeviceClass' annotation is no extended resource name, and is ignored."""
    for problem in cluster.class_map.problems:
        yield Finding(f"DeviceClass {problem.device_class}", f"{problem.name}: {problem.problem}")


@check(
    "name-collision",
    Severity.WARNING,
    cure=CURES[Reason.NAME_COLLISION],
    serves="pain 3: kubernetes#133693, which class serves a name; pain 15",
    link=links.issue(133693),
    needs=(Kind.CLASSES, Kind.POLICIES),
)
def name_collision(cluster: Inventory) -> Iterator[Finding]:
    """Several DeviceClasses declare one resource name, and no policy decides."""
    for name, classes in sorted(cluster.class_map.collisions().items()):
        if name not in cluster.effective_policies:
            yield Finding(f"resource name {name}", f"{classes[0]} wins over {listed(classes[1:])}")


@check(
    "class-cannot-be-named",
    Severity.INFO,
    cure="give it spec.extendedResourceName or an ExtendedResourcePolicy, if Pods are to ask for it by a name",
    serves="trap: KEP-5004, a resource name has 63 characters behind its slash, a DeviceClass 253",
    link=links.KEP_5004,
    needs=(Kind.CLASSES, Kind.POLICIES),
)
def class_cannot_be_named(cluster: Inventory) -> Iterator[Finding]:
    """A DeviceClass' name is too long for its implicit resource name, and it has no other one."""
    chosen = {policy.device_class for policy in cluster.policies}
    for each in cluster.classes:
        declared = each.view.extended_name or each.view.annotated_name or each.name in chosen
        if implicit_class(implicit_name(each.name)) is None and not declared:
            yield Finding(each.described, f"its name has {len(each.name)} characters, more than 63")


@check(
    "class-configures-each-device",
    Severity.WARNING,
    cure="ask for one device a Pod by this name, or move the configuration into a claim of your own",
    serves="pain 22: dra-driver-sriov, a fixed ifName with two devices",
    link=links.ALLOCATION,
    needs=(Kind.CLASSES, Kind.PODS, Kind.CLAIMS),
)
def class_configures_each_device(cluster: Inventory) -> Iterator[Finding]:
    """A DeviceClass configures something that only one device of a Pod can have, and a claim has several of them."""
    configured = {each.name: each.per_device for each in cluster.classes if each.per_device}
    for claim in cluster.askers:
        for request in claim.requests:
            if request.count > 1 and request.device_class in configured:
                field = configured[request.device_class]
                seen = f"{request.count} devices of DeviceClass {request.device_class}, which sets {field} for each"
                yield Finding(claim.described, seen)


@check(
    "class-has-two-writers",
    Severity.WARNING,
    cure="let one chart or tool own the DeviceClass",
    serves="pain 19: ROCm/k8s-gpu-dra-driver#43, two charts create the class",
    link=links.issue(43, "ROCm/k8s-gpu-dra-driver"),
    needs=(Kind.CLASSES,),
)
def class_has_two_writers(cluster: Inventory) -> Iterator[Finding]:
    """Two field managers write the spec of a DeviceClass: each undoes what the other one did."""
    for each in cluster.classes:
        if len(each.writers) > 1:
            yield Finding(each.described, f"its selectors and name are written by {listed(each.writers)}")


@check(
    "class-missing",
    Severity.ERROR,
    cure="create the DeviceClass; what waits for it goes on by itself",
    serves="pain 29: gpu-operator#2571, removing a chart removes the class",
    link=links.ALLOCATION,
    needs=(Kind.CLASSES, Kind.CLAIMS),
)
def class_missing(cluster: Inventory) -> Iterator[Finding]:
    """A claim that is not allocated, or a template, uses a DeviceClass that does not exist."""
    for claim in cluster.askers:
        if isinstance(claim, ClaimRecord) and claim.results is not None:
            continue
        for name in sorted({request.device_class for request in claim.requests} - cluster.classes_by_name.keys()):
            yield Finding(claim.described, f"DeviceClass {name} does not exist")


@check(
    "claim-of-former-class",
    Severity.INFO,
    cure="re-create the Pod if it is to use the class that the name means now",
    serves="pain 89: kueue KEP-2941, a name moves to another class under running Pods",
    link=links.KEP_5004,
    needs=(Kind.CLASSES, Kind.CLAIMS, Kind.PODS, Kind.POLICIES),
)
def claim_of_former_class(cluster: Inventory) -> Iterator[Finding]:
    """A Pod's claim was made for another DeviceClass than the one its resource name means now."""
    for pod in cluster.pods:
        claim = cluster.own_claim(pod)
        if claim is None or pod.ended:
            continue
        made = {request.name: request.device_class for request in claim.requests}
        for request, resource in pod.resources.items():
            now, then = cluster.class_map.resolve(resource), made.get(request)
            if now and then and now.device_class != then:
                yield Finding(f"Pod {pod.key}", f"{resource} is {now.device_class} now, its claim uses {then}")
                break


@check(
    "policy-class-missing",
    Severity.ERROR,
    cure=CURES[Reason.DEVICE_CLASS_MISSING],
    serves="pain 29: a policy outlives the class it names",
    link=links.ALLOCATION,
    needs=(Kind.CLASSES, Kind.POLICIES),
)
def policy_class_missing(cluster: Inventory) -> Iterator[Finding]:
    """An ExtendedResourcePolicy names a DeviceClass that does not exist."""
    for policy in cluster.policies:
        if policy.device_class not in cluster.classes_by_name:
            yield Finding(f"ExtendedResourcePolicy {policy.name}", f"DeviceClass {policy.device_class} does not exist")


@check(
    "policy-shadowed",
    Severity.WARNING,
    cure=CURES[Reason.NAME_SHADOWED],
    serves="trap: a second policy for a name does nothing, and does not fail",
    link=links.KEP_5004,
    needs=(Kind.POLICIES,),
)
def policy_shadowed(cluster: Inventory) -> Iterator[Finding]:
    """Two ExtendedResourcePolicies serve one name; the younger one has no effect."""
    for policy in cluster.policies:
        winner = cluster.effective_policies[policy.resource]
        if winner.name != policy.name:
            yield Finding(
                f"ExtendedResourcePolicy {policy.name}", f"{winner.name} is older and serves {policy.resource}"
            )


@check(
    "policy-native-hindered",
    Severity.ERROR,
    cure="set delivery: Auto, which waits for what is missing",
    serves="pain 23: with the gate off users see only that the resource cannot be resolved",
    link=links.KEP_5004,
    needs=(Kind.CLASSES, Kind.POLICIES, Kind.NODES),
)
def policy_native_hindered(cluster: Inventory) -> Iterator[Finding]:
    """A policy leaves a name to the native feature, which cannot serve it."""
    for policy in cluster.effective_policies.values():
        hindrance = hindrance_of(policy.resource, cluster.cluster_view)
        if policy.delivery is Delivery.NATIVE and hindrance and hindrance.reason is not Reason.GATE_UNKNOWN:
            seen = f"{hindrance.reason}: {hindrance.detail}"
            yield Finding(f"ExtendedResourcePolicy {policy.name}", seen, CURES[hindrance.reason])


@check(
    "native-class-differs",
    Severity.WARNING,
    cure=CURES[Reason.CLASS_DIFFERS],
    serves="trap: a class that was made on 1.35 has lost its name when 1.36 takes over",
    link=links.KEP_5004,
    needs=(Kind.CLASSES, Kind.POLICIES),
)
def native_class_differs(cluster: Inventory) -> Iterator[Finding]:
    """With the native feature on, kube-scheduler would serve a name by another DeviceClass than drabridge does."""
    if cluster.gate is not Gate.ON:
        return
    for name in sorted(cluster.class_map.names()):
        policy = cluster.effective_policies.get(name)
        if (policy and policy.delivery is not Delivery.AUTO) or (
            cluster.bridged and not cluster.class_map.native(name)
        ):
            continue  # it is meant, or drabridge serves what nobody else does
        hindrance = hindrance_of(name, cluster.cluster_view)
        if hindrance and hindrance.reason is Reason.CLASS_DIFFERS:
            yield Finding(f"resource name {name}", hindrance.detail)


CHECKS = (
    class_name_lost,
    class_annotation_invalid,
    name_collision,
    class_cannot_be_named,
    class_configures_each_device,
    class_has_two_writers,
    class_missing,
    claim_of_former_class,
    policy_class_missing,
    policy_shadowed,
    policy_native_hindered,
    native_class_differs,
)
