"""Roles: rights that allocators and drivers lack since 1.36, and rights that users should not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drabridge.core.doctor import links
from drabridge.core.doctor.findings import Finding, Severity, check, listed
from drabridge.core.inventory.access import RoleRecord
from drabridge.core.inventory.cluster import Inventory, Kind

GROUP: Final = "resource.k8s.io"
WRITE: Final = ("update", "patch")
ADMIN_LABELS: Final = ("resource.kubernetes.io/admin-access", "resource.k8s.io/admin-access")
GRANULAR_SINCE: Final = (1, 36)
"""The first version with the gate DRAResourceClaimGranularStatusAuthorization on."""

NODE_VERBS: Final = ("associated-node:", "arbitrary-node:")

NEEDED: Final = (
    ("", "pods", "watch"),
    ("", "pods/status", "patch"),
    (GROUP, "resourceclaims", "create"),
    (GROUP, "resourceclaims", "watch"),
    (GROUP, "deviceclasses", "watch"),
    (GROUP, "resourceslices", "watch"),
    ("", "nodes", "watch"),
    ("", "namespaces", "watch"),
    ("", "limitranges", "watch"),
    ("", "resourcequotas", "create"),
    ("drabridge.io", "extendedresourcepolicies", "watch"),
    ("drabridge.io", "extendedresourcepolicies/status", "patch"),
    ("events.k8s.io", "events", "create"),
)
"""What drabridge cannot work without, of docs/rbac.md."""


def _writes(role: RoleRecord, resource: str) -> bool:
    return any(role.allows(GROUP, resource, verb) for verb in WRITE)


def _bound_to(cluster: Inventory, role: RoleRecord) -> str:
    subjects = [subject for binding in cluster.bindings if binding.binds(role) for subject in binding.subjects]
    return f"bound to {listed(subjects)}" if subjects else "bound to nobody that is seen"


@check(
    "role-lacks-binding",
    Severity.ERROR,
    cure="add update and patch on resourceclaims/binding",
    serves="pain 0.5: from 1.36 on writing an allocation needs resourceclaims/binding (kubernetes#134947)",
    link=links.issue(134947),
    needs=(Kind.ROLES,),
)
def role_lacks_binding(cluster: Inventory) -> Iterator[Finding]:
    """A role may write the status of ResourceClaims, but neither allocations nor devices, which 1.36 asks for."""
    if cluster.server is None or cluster.server >= GRANULAR_SINCE:
        yield from _without_binding(cluster)


@check(
    "role-will-lack-binding",
    Severity.WARNING,
    cure="add update and patch on resourceclaims/binding before the upgrade; now it does no harm",
    serves="trap: third-party allocators break on the day of the upgrade to 1.36",
    link=links.issue(134947),
    needs=(Kind.ROLES,),
)
def role_will_lack_binding(cluster: Inventory) -> Iterator[Finding]:
    """A role may write the status of ResourceClaims by a right that is not enough from Kubernetes 1.36 on."""
    if cluster.server is not None and cluster.server < GRANULAR_SINCE:
        yield from _without_binding(cluster)


def _without_binding(cluster: Inventory) -> Iterator[Finding]:
    for role in cluster.roles:
        allowed = role.bootstrap or _writes(role, "resourceclaims/binding") or _may_drive(role)
        if not allowed and _writes(role, "resourceclaims/status"):
            yield Finding(role.described, f"no rule for resourceclaims/binding; {_bound_to(cluster, role)}")


def _may_drive(role: RoleRecord) -> bool:
    return any(rule.covers(GROUP, "resourceclaims/driver") for rule in role.rules)


@check(
    "role-lacks-node-verbs",
    Severity.ERROR,
    cure="write the verbs as associated-node:update and associated-node:patch (on the driver's own node)",
    serves="pain 0.5: from 1.36 on the verbs of resourceclaims/driver name the node (kubernetes#138149)",
    link=links.issue(138149),
    needs=(Kind.ROLES,),
)
def role_lacks_node_verbs(cluster: Inventory) -> Iterator[Finding]:
    """A driver's role has rules for resourceclaims/driver with verbs that mean nothing there."""
    for role in cluster.roles:
        for rule in role.rules:
            driver = rule.covers(GROUP, "resourceclaims/driver") and "resourceclaims/driver" in rule.resources
            scoped = any(verb.startswith(NODE_VERBS) or verb == "*" for verb in rule.verbs)
            if driver and not scoped:
                yield Finding(role.described, f"its verbs are {listed(rule.verbs)}; {_bound_to(cluster, role)}")


@check(
    "drabridge-lacks-rights",
    Severity.ERROR,
    cure="apply the manifests of the version that is installed; docs/rbac.md says what each right is for",
    serves="trap: an upgrade of the image alone leaves the old role",
    link=links.RBAC,
    needs=(Kind.ROLES, Kind.DEPLOYMENTS),
)
def drabridge_lacks_rights(cluster: Inventory) -> Iterator[Finding]:
    """The ClusterRole of drabridge does not grant what drabridge needs."""
    if cluster.installation is None:
        return
    role = next((each for each in cluster.roles if each.name == "drabridge" and not each.namespace), None)
    if role is None:
        yield Finding("ClusterRole drabridge", "it does not exist")
    elif missing := [
        f"{verb} {resource}" for group, resource, verb in NEEDED if not role.allows(group, resource, verb)
    ]:
        yield Finding(role.described, f"missing: {', '.join(missing)}")


@check(
    "admin-access-open",
    Severity.INFO,
    cure="see that only administrators may create claims there",
    serves="pain 97: kubernetes#141293, who may look into devices that others use",
    link=links.issue(141293),
    needs=(Kind.NAMESPACES,),
)
def admin_access_open(cluster: Inventory) -> Iterator[Finding]:
    """Claims of a namespace may have administrative access to devices that others use."""
    for name, labels in sorted(cluster.namespaces.items()):
        if any(labels.get(label) == "true" for label in ADMIN_LABELS):
            used = [claim.key for claim in cluster.claims if claim.view.namespace == name and claim.admin]
            yield Finding(f"Namespace {name}", f"it is labelled for it; used by {listed(used) or 'no claim'}")


@check(
    "namespace-owner-grants-himself",
    Severity.WARNING,
    cure="take update and patch of namespaces out of the role, or forbid the label by an admission policy",
    serves="pain 97: kyverno/policies#1523, the owner of a namespace can label it himself",
    link=links.issue(1523, "kyverno/policies"),
    needs=(Kind.ROLES, Kind.NAMESPACED_BINDINGS),
)
def namespace_owner_grants_himself(cluster: Inventory) -> Iterator[Finding]:
    """Who is bound in a namespace may label it, and so give himself administrative access to devices."""
    for binding in cluster.bindings:
        for role in cluster.roles if binding.namespace else ():
            if binding.binds(role) and any(role.allows("", "namespaces", verb) for verb in WRITE):
                seen = f"{role.described} allows to change the namespace; bound to {listed(binding.subjects)}"
                yield Finding(binding.described, seen)


CHECKS = (
    role_lacks_binding,
    role_will_lack_binding,
    role_lacks_node_verbs,
    drabridge_lacks_rights,
    admin_access_open,
    namespace_owner_grants_himself,
)
