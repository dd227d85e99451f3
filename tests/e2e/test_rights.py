"""Least privilege: what the operator asks of the API server is what its roles grant, no more and no less.

A tour of everything that it does, the ways of errors and takeovers included, runs on a control plane with an audit log.
Every request must have been allowed, and every right in the roles must have been used.
"""

from __future__ import annotations

import asyncio
import functools
import operator
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bind_site import NEW, RESOURCE_API, BindSite, bind, bind_site, bound, claim_body, unschedulable
from cluster_site import CLASSES, Served, Site, allocation, claim_name, claim_path, container, pod
from conftest import GATE_ON
from upstream.api import JSON_PATCH, MERGE_PATCH, wait_for
from upstream.cluster import NOT_STARTED
from upstream.controlplane import ControlPlane
from upstream.credentials import Authority
from upstream.faultproxy import Fault
from upstream.installation import CONFIGURATION, NAMESPACE, REPOSITORY, Installation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from contextlib import AsyncExitStack
    from pathlib import Path

    from upstream.api import Object

pytestmark = pytest.mark.skipif(
    "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane with an audit log that we can read"
)

USER = f"system:serviceaccount:{NAMESPACE}:drabridge"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MANIFESTS = REPOSITORY / "manifests"
OPTIONS = ("--lease-seconds=6", "--pending-every=0.5", "--probe-every=0.5", "--native-after=1", "--log-format=json")


@dataclass(frozen=True, slots=True, order=True)
class Right:
    """One verb on one resource (with its group and subresource), for one name if the rule is limited to it."""

    role: str
    namespace: str
    """"" is everywhere."""

    resource: str
    name: str
    """"" is all."""

    verb: str

    def allows(self, use: Use) -> bool:
        """Whether a request is allowed by this right."""
        return (
            self.namespace in ("", use.namespace)
            and self.name in ("", use.name)
            and (self.resource, self.verb) == (use.resource, use.verb)
        )


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """What RBAC is asked about one request; a POST has no name in its path."""

    namespace: str
    resource: str
    name: str
    verb: str


async def granted(site: Site) -> set[Right]:
    """The rights that the roles bound to the operator's ServiceAccount give, as the API server has them."""
    rights: set[Right] = set()
    for kind in ("clusterrolebindings", "rolebindings"):
        for binding in (await site.api.call("GET", f"{RBAC}/{kind}"))["items"]:
            subjects = [(each["kind"], each["name"], each.get("namespace")) for each in binding.get("subjects", ())]
            if ("ServiceAccount", "drabridge", NAMESPACE) not in subjects:
                continue
            namespace, reference = binding["metadata"].get("namespace", ""), binding["roleRef"]
            where = f"namespaces/{namespace}/roles" if reference["kind"] == "Role" else "clusterroles"
            role = await site.api.call("GET", f"{RBAC}/{where}/{reference['name']}")
            label = f"{reference['kind']} {reference['name']}"
            for rule in role["rules"]:
                rights.update(_rights_of(label, namespace, rule))
    return rights


def _rights_of(role: str, namespace: str, rule: Object) -> Iterator[Right]:
    for group in rule["apiGroups"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                for name in rule.get("resourceNames", [""]):
                    yield Right(role, namespace, f"{resource}.{group}".rstrip("."), name, verb)


def uses_of(entry: Object) -> Iterator[Use]:
    """What RBAC was asked about a request of the audit log. Server-side apply that creates is asked about both."""
    if "objectRef" not in entry:
        return  # /version and the like, which everybody may read
    ref, verb = entry["objectRef"], entry["verb"]
    resource = "/".join(filter(None, (ref["resource"], ref.get("subresource"))))
    resource = f"{resource}.{ref.get('apiGroup', '')}".rstrip(".")
    name = "" if verb == "create" else ref.get("name", "")
    yield Use(ref.get("namespace", ""), resource, name, verb)
    if resource == "resourceclaims/status.resource.k8s.io":
        # Whoever writes allocation or consumers is asked about this as well, which is no request of its own.
        yield Use(ref.get("namespace", ""), "resourceclaims/binding.resource.k8s.io", name, verb)
    if verb == "patch" and entry["responseStatus"]["code"] == 201:
        yield Use(ref.get("namespace", ""), resource, name, "create")


def used_by(entries: list[Object]) -> set[Use]:
    return {use for entry in entries for use in uses_of(entry)}


async def judge(site: Site, plane: ControlPlane, toured: str = "") -> None:
    """Compare what was asked with what is granted, both ways. Stops the replicas: only ended watches are in the log.

    `toured` is the end of the names of the roles whose rights must all have been used.
    """
    for replica in site.installed.replicas:
        await replica.stop()
    rights = await granted(site)
    watches = {right.resource for right in rights if right.verb == "watch"}
    await wait_for(
        lambda: {use.resource for use in used_by(plane.audit_entries(USER)) if use.verb == "watch"},
        f"the log to show watches of {sorted(watches)}",
        until=watches.__le__,
        deadline=10,
    )
    entries = plane.audit_entries(USER)
    forbidden = {
        f"{entry['verb']} {entry['requestURI']}: {entry['annotations'].get('authorization.k8s.io/reason', '')}"
        for entry in entries
        if entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
    }
    assert not forbidden, f"requests without the right to them: {forbidden}"
    used = used_by(entries)
    toured_rights = sorted(each for each in rights if each.role.endswith(toured))
    assert toured_rights
    unused = [f"{each}" for each in toured_rights if not any(map(each.allows, used))]
    assert not unused, "\n".join(["rights that nothing needs:", *unused])
    others = [f"{use}" for use in sorted(used) if not any(right.allows(use) for right in rights)]
    assert not others, "\n".join(["requests that other roles than drabridge's allow:", *others])


@pytest.fixture
def kubernetes() -> str:
    """With the gate on there is more to do: the time since when a name could be served natively is kept."""
    return GATE_ON


@pytest_asyncio.fixture
async def kubelets(own_plane: ControlPlane) -> AsyncIterator[None]:
    playing = asyncio.create_task(own_plane.play_kubelets())
    yield
    playing.cancel()


async def serve(site: Site, undo: AsyncExitStack, name: str, **policy: object) -> Served:
    served = await site.serve(name, undo, devices=8, kubelet_version="v1.37.0", policy=policy)
    await site.policy(served.policy, lambda status: status.get("conditions"), "to have a status")
    return served


async def tour_of_pods(site: Site, undo: AsyncExitStack) -> None:
    """A Pod is served, copied, and loses its claim; a quota has a companion, which changes and goes."""
    gpu = await serve(site, undo, "gpu", delivery="Rewrite")
    served = await site.bound_back(await site.create("default", pod("served", container(limits={gpu.name: 1}))))
    await site.event(served, "DevicesAllocated")

    resources = {"claims": served["spec"]["containers"][0]["resources"]["claims"]}
    copy = pod("copy", container(resources=resources), resourceClaims=served["spec"]["resourceClaims"])
    copied = await site.create("default", copy)
    assert claim_name(copied) != claim_name(served)

    quotas = "/api/v1/namespaces/default/resourcequotas"
    key = f"requests.{gpu.name}"
    await site.api.call("POST", quotas, {"metadata": {"name": "team"}, "spec": {"hard": {key: "4", "pods": "100"}}})
    await wait_for(lambda: companion_of(site), "the companion", until=lambda caps: caps == ["4"])
    for value, caps in (("5", ["5"]), (None, None)):
        await site.api.call("PATCH", f"{quotas}/team", {"spec": {"hard": {key: value}}}, MERGE_PATCH)
        await wait_for(lambda: companion_of(site), "it to follow", until=functools.partial(operator.eq, caps))


async def tour_of_failing_nodes(site: Site, undo: AsyncExitStack) -> None:
    """A kubelet does not start a Pod that has its devices; its events would say why."""
    gpu = await serve(site, undo, "failing", delivery="Rewrite")
    body = pod("failing", container(limits={gpu.name: 1}), metadata={"labels": {NOT_STARTED: ""}})
    await site.bound_back(await site.create("default", body))
    assert isinstance(site.cluster, ControlPlane)
    plane = site.cluster
    what = Use("default", "events.events.k8s.io", "", "list")
    await wait_for(lambda: what in used_by(plane.audit_entries(USER)), "the events to be listed")


async def companion_of(site: Site) -> list[str] | None:
    """The caps in the companion of the quota `team`; None if there is none."""
    status, body = await site.api.request("GET", "/api/v1/namespaces/default/resourcequotas/drabridge-team")
    return list(body["spec"]["hard"].values()) if status == 200 else None


async def tour_of_lost_claims(site: Site, undo: AsyncExitStack) -> None:
    """A claim is deleted under a Pod that finds no node; it gets a new one."""
    gpu = await serve(site, undo, "lost", delivery="Rewrite")
    body = pod("waiting", container(limits={gpu.name: 1}), nodeSelector={"there-is": "no-such-node"})
    waiting = await site.create("default", body)
    await wait_for(lambda: site.claim_exists(waiting), "its claim")
    uid = (await site.claim(waiting))["metadata"]["uid"]
    await site.api.call("DELETE", claim_path(waiting))
    await wait_for(
        lambda: site.api.request("GET", claim_path(waiting)),
        "a claim instead of the deleted one",
        until=lambda answer: answer[0] == 200 and answer[1]["metadata"]["uid"] != uid,
    )


async def tour_of_native(site: Site, undo: AsyncExitStack) -> None:
    """Auto hands a name over once it could be served natively for a while."""
    own = await serve(site, undo, "own")
    spec = {"spec": {"extendedResourceName": own.name}}
    await site.api.call("PATCH", f"{CLASSES}/{own.device_class}", spec, MERGE_PATCH)
    await site.policy(own.policy, lambda status: status.get("delivery") == "Native", "to be served natively")


async def tour_of_missed_pods(site: Site, undo: AsyncExitStack) -> None:
    """The only replica is away; a controller's Pod is missed meanwhile, and made anew."""
    again = await serve(site, undo, "again", delivery="Rewrite", missedPods="Recreate")
    for each in site.installed.replicas:
        await each.stop()
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("", container(limits={again.name: 1}))["spec"]}
    body = {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    await site.api.call("POST", "/apis/apps/v1/namespaces/default/deployments", body)

    async def pods() -> list[Object]:
        listed = await site.api.call("GET", "/api/v1/namespaces/default/pods", query={"labelSelector": "app=web"})
        return list(listed["items"])

    await wait_for(pods, "the Deployment's Pod", until=lambda seen: len(seen) == 1)
    await site.installed.start_replica()
    await wait_for(pods, "a Pod with devices", until=lambda seen: len(seen) == 1 and allocation(seen[0]), deadline=60)


async def test_the_default_overlay_grants_what_is_needed_and_nothing_else(
    own_plane: ControlPlane, kubelets: None, afterwards: AsyncExitStack
) -> None:
    """With own certificates, which are replaced while we look, and with the component recreate-missed-pods."""
    options = (*OPTIONS, "--authority-hours=0.01", "--cert-hours=0.003")
    installation = await afterwards.enter_async_context(Installation(own_plane, options=options))
    await own_plane.kubectl("apply", "-f", str(MANIFESTS / "components" / "recreate-missed-pods" / "rbac.yaml"))
    site = Site(own_plane, installation)
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/drabridge-webhook-ca"
    authority = (await site.api.call("GET", secret))["data"]["ca.crt"]
    second = await installation.start_replica()

    await tour_of_pods(site, afterwards)
    await tour_of_lost_claims(site, afterwards)
    await tour_of_failing_nodes(site, afterwards)
    await tour_of_native(site, afterwards)
    await wait_for(
        lambda: site.api.call("GET", secret),
        "another authority to sign",
        until=lambda seen: seen["data"]["ca.crt"] != authority,
        deadline=90,
    )
    await installation.replicas[0].stop()
    await wait_for(lambda: second.metric("drabridge_leader"), "the other replica to lead")
    await tour_of_missed_pods(site, afterwards)
    await judge(site, own_plane)


@pytest.mark.slow
async def test_with_mounted_certificates_the_base_grants_what_is_needed_and_nothing_else(
    own_plane: ControlPlane, kubelets: None, afterwards: AsyncExitStack, tmp_path: Path
) -> None:
    """As with cert-manager, whose own objects need its CRDs: no right on Secrets or on the webhook configuration."""
    authority = Authority("cert-manager")
    pair = authority.issue("webhook", hosts=[f"drabridge-webhook.{NAMESPACE}.svc"])
    for name, text in (("tls.crt", pair.certificate), ("tls.key", pair.key)):
        (tmp_path / name).write_text(text)
    installation = Installation(own_plane, options=(*OPTIONS, f"--tls-dir={tmp_path}"), overlay="../base")
    afterwards.push_async_exit(installation)
    await installation.install()
    bundle = [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": authority.bundle}
        for index in range(2)
    ]
    await own_plane.api.call("PATCH", CONFIGURATION, bundle, JSON_PATCH)
    await installation.start_replica()
    site = Site(own_plane, installation)

    await tour_of_pods(site, afterwards)
    await tour_of_lost_claims(site, afterwards)
    await tour_of_failing_nodes(site, afterwards)
    await tour_of_native(site, afterwards)
    await judge(site, own_plane)


async def tour_of_bind(site: BindSite, undo: AsyncExitStack) -> None:
    """Pods are bound: by an extended name, by claims, after a failure, and once devices have come."""
    gpu = await bind(site, functools.partial(site.serve, "bind", undo), policy={"podsWithClaims": "Bind"}, devices=3)
    path = f"{RESOURCE_API}/namespaces/default/resourceclaims"
    await site.api.call("POST", path, claim_body("own", gpu.device_class))
    for number, entry in enumerate(("own", "there-is-none")):
        body = pod(f"user-{number}", container(), resourceClaims=[{"name": "a", "resourceClaimName": entry}])
        made = await site.create("default", body)
        if entry == "own":
            await bound(site, made)
    template = [{"name": "a", "resourceClaimTemplateName": "there-is-none"}]
    await site.create("default", pod("looks-for-a-template", container(), resourceClaims=template))

    injection = site.proxy.inject(Fault.CONFLICT, "POST", "/namespaces/default/pods/[^/]*/binding", 10)
    made = await site.create("default", pod("fails", container(limits={gpu.name: 1})))
    await wait_for(lambda: len(injection.hits) >= 8, "a bind to fail for good")
    site.proxy.calm()
    await bound(site, made, deadline=60)

    await site.cluster.add_node("late", devices=0, kubelet_version=NEW)
    waiting = await site.create("default", pod("waits", container(limits={gpu.name: 2})))
    await unschedulable(site, waiting)
    node = await site.api.call("GET", "/api/v1/nodes/late")
    await site.cluster.add_devices(node, driver="bind.example.com", devices=2)
    await bound(site, waiting, deadline=60)


async def tour_of_bind_credentials(site: BindSite) -> None:
    """The extender's authority is lost, and its successor is replaced after a while."""
    secrets = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    await site.installed.replicas[-1].stop()
    await site.api.call("DELETE", f"{secrets}/drabridge-extender-ca")
    await site.start_leader("--authority-hours=0.01", "--cert-hours=0.003")

    async def authority() -> str:
        status, body = await site.api.request("GET", f"{secrets}/drabridge-extender-ca")
        return str(body["data"]["ca.crt"]) if status == 200 else ""

    first = await wait_for(authority, "a new authority")
    await wait_for(authority, "another one to sign", until=lambda seen: seen not in ("", first), deadline=90)


@pytest.mark.slow
async def test_the_component_bind_grants_what_is_needed_and_nothing_else(
    controlplane_binary: Path, controlplane_directory: Path, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    site = await afterwards.enter_async_context(bind_site(controlplane_binary, controlplane_directory / unique()))
    await tour_of_bind(site, afterwards)
    await tour_of_bind_credentials(site)
    await judge(site, site.cluster, "drabridge-bind")
