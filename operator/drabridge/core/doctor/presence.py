"""drabridge itself: whether it is reached, and whether it can go."""

from __future__ import annotations

from collections.abc import Iterator

from drabridge.core.auto import choose
from drabridge.core.cluster import Gate
from drabridge.core.doctor import links
from drabridge.core.doctor.findings import Finding, Severity, check, counted, listed
from drabridge.core.inventory.cluster import CONFIGURATION, Inventory, Kind
from drabridge.core.names import implicit_class
from drabridge.core.policy import Coexistence, Delivery
from drabridge.core.rewrite import our_claim


@check(
    "webhook-missing",
    Severity.ERROR,
    cure="kubectl apply --server-side -k manifests/overlays/default",
    serves="pain 80: while no webhook answers, Pods are stored as they are, and wait",
    link=links.WEBHOOKS,
    needs=(Kind.MUTATING, Kind.DEPLOYMENTS),
)
def webhook_missing(cluster: Inventory) -> Iterator[Finding]:
    """The operator is installed, and the API server is not told to ask it about Pods."""
    if cluster.installation and not any(each.configuration == CONFIGURATION for each in cluster.webhooks):
        yield Finding(f"MutatingWebhookConfiguration {CONFIGURATION}", "it does not exist")


@check(
    "webhook-untrusted",
    Severity.ERROR,
    cure="see the operator's log, or that of cert-manager's cainjector: one of the two writes it",
    serves="trap: without caBundle each call fails, and failurePolicy Ignore hides it",
    link=links.WEBHOOKS,
    needs=(Kind.MUTATING,),
)
def webhook_untrusted(cluster: Inventory) -> Iterator[Finding]:
    """The API server has nothing to check the certificate of drabridge's webhook by."""
    for each in cluster.webhooks:
        if each.configuration == CONFIGURATION and not each.trusted:
            yield Finding(f"webhook {each.name}", "clientConfig.caBundle is empty")


@check(
    "webhook-left-behind",
    Severity.WARNING,
    cure="drabridge drain, which removes it; or install drabridge again",
    serves="pain 80: webhook down; each creation of such a Pod waits for its timeout",
    link=links.WEBHOOKS,
    needs=(Kind.MUTATING, Kind.DEPLOYMENTS),
)
def webhook_left_behind(cluster: Inventory) -> Iterator[Finding]:
    """The webhook is registered, and there is no operator to answer it."""
    registered = any(each.configuration == CONFIGURATION for each in cluster.webhooks)
    if registered and cluster.installation is None:
        yield Finding(f"MutatingWebhookConfiguration {CONFIGURATION}", "no Deployment has the image drabridge")


@check(
    "webhook-stops-pods",
    Severity.WARNING,
    cure="set failurePolicy: Ignore, or leave out the namespaces that the webhook itself needs to start",
    serves="pain 80: HAMi#812, webhook down and no Pod can start, its own included",
    link=links.issue(812, "Project-HAMi/HAMi"),
    needs=(Kind.MUTATING,),
)
def webhook_stops_pods(cluster: Inventory) -> Iterator[Finding]:
    """A webhook is asked about every Pod of the cluster, and no Pod is created while it does not answer."""
    for each in cluster.webhooks:
        if each.sees_pods and each.fails and not each.narrowed:
            yield Finding(each.described, f"webhook {each.name}, service {each.service or 'none'}")


@check(
    "drabridge-not-ready",
    Severity.ERROR,
    cure="kubectl -n drabridge-system describe pods, and their logs",
    serves="trap: the operator is on the path of each claim",
    link=links.KEP_5004,
    needs=(Kind.DEPLOYMENTS,),
)
def drabridge_not_ready(cluster: Inventory) -> Iterator[Finding]:
    """The operator is installed, and no replica of it is ready."""
    deployment = cluster.installation
    if deployment and deployment.ready == 0:
        yield Finding(deployment.described, f"0 of {deployment.wanted} replicas are ready")


@check(
    "drabridge-needed",
    Severity.INFO,
    cure="nothing; when the reasons are gone, drabridge can go as well",
    serves="trap: a bridge that nobody knows whether it is still used",
    link=links.KEP_5004,
    needs=(Kind.CLASSES, Kind.POLICIES, Kind.NODES, Kind.PODS),
)
def drabridge_needed(cluster: Inventory) -> Iterator[Finding]:
    """A name is served by drabridge that Kubernetes would not serve by itself."""
    used = {resource for pod in cluster.pods if our_claim(pod.view) for resource in pod.resources.values()}
    for name in sorted(cluster.rewritten):
        if implicit_class(name) is None or name in used:
            choice = choose(name, cluster.cluster_view)
            why = f"{choice.reason}: {choice.detail}" if choice.detail else "a policy asks for Rewrite"
            yield Finding(f"resource name {name}", why)


@check(
    "drabridge-removable",
    Severity.INFO,
    cure="drabridge drain && kubectl delete -k manifests/overlays/default --ignore-not-found",
    serves="trap: a cluster must be able to leave a bridge",
    link=links.KEP_5004,
    needs=(Kind.CLASSES, Kind.POLICIES, Kind.NODES, Kind.PODS, Kind.QUOTAS),
)
def drabridge_removable(cluster: Inventory) -> Iterator[Finding]:
    """Kubernetes serves all names by itself: drabridge can be removed."""
    waiting = [pod.key for pod in cluster.pods if pod.waiting and our_claim(pod.view) and not cluster.own_claim(pod)]
    if cluster.bridged and cluster.gate is Gate.ON and not cluster.rewritten and not waiting:
        running = sum(1 for pod in cluster.pods if our_claim(pod.view) and not pod.ended)
        seen = f"{counted(running, 'rewritten Pod')} go on, with claims of their own" if running else "no rewritten Pod"
        yield Finding("drabridge", seen)


@check(
    "companion-left-behind",
    Severity.WARNING,
    cure="kubectl delete resourcequota, if the cap is not wanted any more",
    serves="trap: a companion quota goes on capping claims",
    link=links.QUOTAS,
    needs=(Kind.QUOTAS,),
)
def companion_left_behind(cluster: Inventory) -> Iterator[Finding]:
    """A companion quota of drabridge's stands in for a quota that is gone."""
    known = {quota.uid for quota in cluster.quotas}
    for quota in cluster.quotas:
        if quota.stands_in and quota.companion_of not in known:
            yield Finding(f"ResourceQuota {quota.key}", f"it caps {listed(quota.devices)}")


@check(
    "policy-redundant",
    Severity.INFO,
    cure="delete the policy",
    serves="trap: what was needed on 1.35 is still there on 1.37",
    link=links.KEP_5004,
    needs=(Kind.CLASSES, Kind.POLICIES, Kind.NODES),
)
def policy_redundant(cluster: Inventory) -> Iterator[Finding]:
    """A policy says no more than the DeviceClass says by itself, and Kubernetes serves the name."""
    for policy in cluster.effective_policies.values():
        plain = policy.coexistence is Coexistence.DEVICE_PLUGIN and policy.delivery is Delivery.AUTO
        if plain and choose(policy.resource, cluster.cluster_view).delivery is Delivery.NATIVE:
            seen = f"DeviceClass {policy.device_class} declares {policy.resource}"
            yield Finding(f"ExtendedResourcePolicy {policy.name}", seen)


@check(
    "annotation-redundant",
    Severity.INFO,
    cure="kubectl annotate deviceclass NAME drabridge.io/extended-resource-name-",
    serves="trap: two places that say a name can come to differ",
    link=links.KEP_5004,
    needs=(Kind.CLASSES,),
)
def annotation_redundant(cluster: Inventory) -> Iterator[Finding]:
    """A DeviceClass has its resource name in the spec and in drabridge's annotation as well."""
    for each in cluster.classes:
        if each.view.extended_name and each.view.annotated_name:
            seen = f"spec says {each.view.extended_name}, the annotation {each.view.annotated_name}"
            cure = f"kubectl annotate deviceclass {each.name} drabridge.io/extended-resource-name-"
            yield Finding(each.described, seen, cure)


CHECKS = (
    webhook_missing,
    webhook_untrusted,
    webhook_left_behind,
    webhook_stops_pods,
    drabridge_not_ready,
    drabridge_needed,
    drabridge_removable,
    companion_left_behind,
    policy_redundant,
    annotation_redundant,
)
