"""The manifests on the real API server: they apply, grant what is needed, and lead the right Pods to the webhook."""

from __future__ import annotations

import asyncio
import base64
import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from upstream.api import APPLY_PATCH, JSON, MERGE_PATCH, STRATEGIC_PATCH, Api, wait_for

if TYPE_CHECKING:
    from conftest import NewNamespace, NewObject
    from upstream.api import Object
    from upstream.controlplane import ControlPlane

MANIFESTS = Path(__file__).parents[2] / "manifests"
SYSTEM = "drabridge-system"
PODS = "/api/v1/namespaces/default/pods"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
POLICIES = "/apis/drabridge.io/v1alpha1/extendedresourcepolicies"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu.example.com"

# Kinds of others that components name, as far as an API server has to know them for `kubectl apply`.
FOREIGN = {
    "cert-manager.io": ("v1", {"Certificate": "certificates", "Issuer": "issuers"}),
    "monitoring.coreos.com": ("v1", {"ServiceMonitor": "servicemonitors"}),
}


async def apply(plane: ControlPlane, directory: Path) -> str:
    """`kubectl apply -k`; gives what it said, which must be no warning (Pod Security, deprecation, unknown field)."""
    applied = await plane.kubectl("apply", "-k", str(directory))
    assert applied.err == ""
    return applied.out


async def delete(plane: ControlPlane, directory: Path) -> None:
    """`kubectl delete -k`, to the end. No kubelet is there to say that the operator's Pods have ended."""
    await plane.kubectl("delete", "-k", str(directory), "--ignore-not-found", "--wait=false")

    async def namespace() -> int:
        await plane.api.request("DELETE", f"/api/v1/namespaces/{SYSTEM}/pods", {"gracePeriodSeconds": 0})
        status, _ = await plane.api.request("GET", f"/api/v1/namespaces/{SYSTEM}")
        return status

    await wait_for(namespace, f"namespace {SYSTEM} to be gone", until=lambda status: status == 404)


@pytest_asyncio.fixture(scope="module", params=["1.35", "1.37"])
async def plane(
    request: pytest.FixtureRequest, plane_135: ControlPlane, plane_137: ControlPlane
) -> AsyncIterator[ControlPlane]:
    """A control plane with the default overlay; nobody runs the operator, nobody answers the webhook's Service."""
    plane = plane_135 if request.param == "1.35" else plane_137
    await apply(plane, MANIFESTS / "overlays/default")

    async def served() -> int:
        status, _ = await plane.api.request("GET", POLICIES)
        return status

    await wait_for(served, "policies to be served", until=lambda status: status == 200)
    yield plane
    await delete(plane, MANIFESTS / "overlays/default")


@pytest_asyncio.fixture(scope="module")
async def operator(plane: ControlPlane) -> AsyncIterator[Api]:
    """The API server as the operator sees it: with the token and the rights of its ServiceAccount."""

    async def authority() -> int:
        status, _ = await plane.api.request("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps/kube-root-ca.crt")
        return status

    await wait_for(authority, "the cluster's authority in the namespace", until=lambda status: status == 200)
    api = Api.from_kubeconfig(await plane.kubeconfig_for(SYSTEM, "drabridge"))
    yield api
    await api.close()


def bare_pod(name: str, *containers: Object, **spec: Any) -> Object:
    return {"metadata": {"name": name}, "spec": {"containers": list(containers) or [container("main")], **spec}}


def container(name: str, **said: Any) -> Object:
    """A container with these `limits`, `requests`, `claims`."""
    return {"name": name, "image": "example.com/none", "resources": said}


# --- what is installed -----------------------------------------------------------------------------------------


async def test_the_operator_s_pods_are_admitted(plane: ControlPlane) -> None:
    """Pod Security, the priority class, its quota and the ServiceAccount let both replicas in."""

    async def replicas() -> Object:
        deployment = await plane.api.call("GET", f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/drabridge")
        status: Object = deployment.get("status", {})
        return status

    status = await wait_for(replicas, "two Pods of the operator", until=lambda status: status.get("replicas") == 2)
    assert [c for c in status["conditions"] if c["type"] == "ReplicaFailure"] == []


async def test_applying_again_leaves_the_ca_bundle_alone(plane: ControlPlane) -> None:
    bundle = (await plane.api.call("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps/kube-root-ca.crt"))["data"]["ca.crt"]
    encoded = base64.b64encode(bundle.encode()).decode()
    patch = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": encoded}]
    await plane.api.call("PATCH", f"{WEBHOOKS}/drabridge", patch, content_type="application/json-patch+json")
    assert "drabridge unchanged" in await apply(plane, MANIFESTS / "overlays/default")
    webhook = (await plane.api.call("GET", f"{WEBHOOKS}/drabridge"))["webhooks"][0]
    assert webhook["clientConfig"]["caBundle"] == encoded


async def test_view_and_admin_include_policies(plane: ControlPlane) -> None:
    async def verbs(role: str) -> set[str]:
        path = f"/apis/rbac.authorization.k8s.io/v1/clusterroles/{role}"
        rules = (await plane.api.call("GET", path)).get("rules") or []
        return {verb for rule in rules if "drabridge.io" in rule.get("apiGroups", ()) for verb in rule["verbs"]}

    read = {"get", "list", "watch"}
    await wait_for(lambda: verbs("view"), "view to read policies", until=lambda found: found == read)
    await wait_for(lambda: verbs("admin"), "admin to write policies", until=lambda found: found > read)
    assert await verbs("edit") == read


OVERLAYS = {
    "default with NetworkPolicy": ("default", ["network-policy"]),
    "default with ServiceMonitor": ("default", ["prometheus"]),
    "bind with NetworkPolicy": ("bind", ["network-policy"]),
    "cert-manager with everything": ("cert-manager", ["network-policy", "prometheus"]),
}


@pytest_asyncio.fixture(scope="module")
async def foreign_kinds(plane: ControlPlane) -> AsyncIterator[None]:
    """The API server knows the kinds in FOREIGN, and takes any content."""
    definitions = [
        foreign(group, version, kind, plural)
        for group, (version, kinds) in FOREIGN.items()
        for kind, plural in kinds.items()
    ]
    for definition in definitions:
        await plane.api.call("POST", DEFINITIONS, definition)
        spec = definition["spec"]

        async def served(path: str = f"/apis/{spec['group']}/v1/{spec['names']['plural']}") -> int:
            status, _ = await plane.api.request("GET", path)
            return status

        await wait_for(served, definition["metadata"]["name"], until=lambda status: status == 200)
    yield
    for definition in definitions:
        await plane.kubectl("delete", "crd", definition["metadata"]["name"])


@pytest.mark.parametrize(("overlay", "components"), OVERLAYS.values(), ids=OVERLAYS)
async def test_every_component_applies(
    plane: ControlPlane, foreign_kinds: None, tmp_path: Path, overlay: str, components: list[str]
) -> None:
    base = relative(MANIFESTS, tmp_path)
    lines = ["apiVersion: kustomize.config.k8s.io/v1beta1", "kind: Kustomization", "resources:"]
    lines += [f"- {base}/overlays/{overlay}", "components:"]
    lines += [f"- {base}/components/{component}" for component in components]
    (tmp_path / "kustomization.yaml").write_text("\n".join(lines) + "\n")

    applied = await apply(plane, tmp_path)

    for component in components:
        assert {"network-policy": "networkpolicy", "prometheus": "servicemonitor"}[component] in applied
    deployment = await plane.api.call("GET", f"/apis/apps/v1/namespaces/{SYSTEM}/deployments/drabridge")
    template = deployment["spec"]["template"]["spec"]
    assert ("--tls-dir=/tls" in template["containers"][0]["args"]) is (overlay == "cert-manager")
    assert ("tls" in [volume["name"] for volume in template["volumes"]]) is (overlay == "cert-manager")
    webhook = await plane.api.call("GET", f"{WEBHOOKS}/drabridge")
    injected = webhook["metadata"].get("annotations", {}).get("cert-manager.io/inject-ca-from")
    assert injected == ("drabridge-system/drabridge-webhook" if overlay == "cert-manager" else None)

    # Back to what the other tests of this module rest on.
    if overlay == "bind":
        for name in ("rbac", "scheduler-rbac", "scheduler", "service"):
            await plane.kubectl("delete", "-f", str(MANIFESTS / "components/bind" / f"{name}.yaml"))
    await apply(plane, MANIFESTS / "overlays/default")


def relative(path: Path, start: Path) -> str:
    """The path as kustomize wants it: it takes no absolute ones."""
    return os.path.relpath(path, start)


def foreign(group: str, version: str, kind: str, plural: str) -> Object:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


# --- the rights ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Ask:
    """A request as the operator; `{namespace}` in the path is a namespace of the test's own."""

    method: str
    path: str
    body: Any = None
    content_type: str = JSON
    query: tuple[tuple[str, str], ...] = ()


def ssa(path: str, body: Object, **query: str) -> Ask:
    return Ask("PATCH", path, body, APPLY_PATCH, tuple({"fieldManager": "test", "force": "true", **query}.items()))


def configmap(name: str) -> Ask:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}}
    return ssa(f"/api/v1/namespaces/{SYSTEM}/configmaps/{name}", body)


def device_class(name: str) -> Object:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"extendedResourceName": "example.com/gate-probe"},
    }


def claim(**owner: Any) -> Object:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "main", "uid": "$uid", "controller": True, **owner}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {
        "metadata": {"generateName": "drabridge-", "ownerReferences": [reference]},
        "spec": {"devices": {"requests": [request]}},
    }


LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
SECRETS = f"/api/v1/namespaces/{SYSTEM}/secrets"
DRY = {"dryRun": "All"}
NOTHING = {"metadata": {"labels": {"a": "b"}}}

QUOTAS = "/api/v1/namespaces/{namespace}/resourcequotas"

ALLOWED: dict[str, Ask] = {
    "list Pods": Ask("GET", "/api/v1/pods"),
    "bind an allocation back": Ask(
        "PATCH",
        "/api/v1/namespaces/{namespace}/pods/main/status",
        {
            "metadata": {"annotations": {"drabridge.io/allocation": "[]"}},
            "status": {"conditions": [{"type": "drabridge.io/DevicesAllocated", "status": "True"}]},
        },
        STRATEGIC_PATCH,
    ),
    "list claims": Ask("GET", "/apis/resource.k8s.io/v1/resourceclaims"),
    "create a claim that a Pod controls": Ask("POST", CLAIMS, claim()),
    "list classes": Ask("GET", CLASSES),
    "list slices": Ask("GET", "/apis/resource.k8s.io/v1/resourceslices"),
    "probe the gate": ssa(f"{CLASSES}/drabridge-gate-probe", device_class("drabridge-gate-probe"), **DRY),
    "list nodes": Ask("GET", "/api/v1/nodes"),
    "list namespaces": Ask("GET", "/api/v1/namespaces"),
    "list limit ranges": Ask("GET", "/api/v1/limitranges"),
    "list quotas": Ask("GET", "/api/v1/resourcequotas"),
    "make a companion quota": ssa(
        f"{QUOTAS}/drabridge-team",
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "drabridge-team"},
            "spec": {"hard": {"gpu.example.com.deviceclass.resource.k8s.io/devices": "1"}},
        },
    ),
    "remove a companion quota": Ask("DELETE", f"{QUOTAS}/drabridge-team"),
    "list policies": Ask("GET", POLICIES),
    "write a policy's status": ssa(
        f"{POLICIES}/rights/status",
        {
            "apiVersion": "drabridge.io/v1alpha1",
            "kind": "ExtendedResourcePolicy",
            "metadata": {"name": "rights"},
            "status": {"pods": 1},
        },
    ),
    "record an event": Ask(
        "POST",
        "/apis/events.k8s.io/v1/namespaces/{namespace}/events",
        {
            "metadata": {"generateName": "main-"},
            "eventTime": "2026-11-30T10:00:00.000000Z",
            "type": "Normal",
            "reason": "Rewritten",
            "action": "Rewrite",
            "reportingController": "drabridge.io/operator",
            "reportingInstance": "a",
            "regarding": {"apiVersion": "v1", "kind": "Pod", "namespace": "{namespace}", "name": "main"},
        },
    ),
    "make the Lease": Ask("POST", LEASES, {"metadata": {"name": "drabridge"}}),
    "read the Lease": Ask("GET", f"{LEASES}/drabridge"),
    "renew the Lease": Ask("PATCH", f"{LEASES}/drabridge", {"spec": {"holderIdentity": "a"}}, MERGE_PATCH),
    "keep the state": configmap("drabridge-state"),
    "read the state": Ask("GET", f"/api/v1/namespaces/{SYSTEM}/configmaps/drabridge-state"),
    "make the authority": Ask("POST", SECRETS, {"metadata": {"name": "drabridge-webhook-ca"}}),
    "replace the authority": Ask("PATCH", f"{SECRETS}/drabridge-webhook-ca", NOTHING, MERGE_PATCH),
    "read the authority": Ask("GET", f"{SECRETS}/drabridge-webhook-ca"),
    "read the webhook's configuration": Ask("GET", f"{WEBHOOKS}/drabridge"),
    "change the webhook's configuration": Ask(
        "PATCH", f"{WEBHOOKS}/drabridge", NOTHING, MERGE_PATCH, (("dryRun", "All"),)
    ),
}

FORBIDDEN: dict[str, Ask] = {
    "take a slice away": Ask("DELETE", "/apis/resource.k8s.io/v1/resourceslices/any"),
    "change a Pod": Ask("PATCH", "/api/v1/namespaces/{namespace}/pods/main", NOTHING, MERGE_PATCH),
    "delete a Pod": Ask("DELETE", "/api/v1/namespaces/{namespace}/pods/main"),
    "create a Pod": Ask("POST", "/api/v1/namespaces/{namespace}/pods", bare_pod("other")),
    "keep a Pod from being deleted": Ask("POST", CLAIMS, claim(blockOwnerDeletion=True)),
    "delete claims": Ask("DELETE", CLAIMS),
    "change a claim": Ask("PATCH", CLAIMS + "/any", NOTHING, MERGE_PATCH),
    "allocate": Ask("PATCH", CLAIMS + "/any/status", {"status": {}}, MERGE_PATCH),
    "create a class": Ask("POST", CLASSES, device_class("drabridge-gate-probe"), JSON, (("dryRun", "All"),)),
    "apply another class": ssa(f"{CLASSES}/other", device_class("other"), **DRY),
    "change a node": Ask("PATCH", "/api/v1/nodes/any", NOTHING, MERGE_PATCH),
    "change a policy": Ask("PATCH", f"{POLICIES}/rights", {"spec": {"delivery": "Off"}}, MERGE_PATCH),
    "read Secrets": Ask("GET", SECRETS),
    "read another Secret": Ask("GET", f"{SECRETS}/other"),
    "read Secrets of others": Ask("GET", "/api/v1/namespaces/{namespace}/secrets/drabridge-webhook-ca"),
    "write another ConfigMap": configmap("other"),
    "take another Lease": Ask("PATCH", f"{LEASES}/other", {"spec": {"holderIdentity": "a"}}, MERGE_PATCH),
    "change another webhook": Ask("PATCH", f"{WEBHOOKS}/other", NOTHING, MERGE_PATCH),
    "create a webhook": Ask("POST", WEBHOOKS, {"metadata": {"name": "drabridge"}}),
    "give itself rights": Ask(
        "POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", {"metadata": {"name": "other"}}
    ),
}


@pytest_asyncio.fixture
async def field(plane: ControlPlane, new_namespace: NewNamespace, new_object: NewObject) -> tuple[str, str]:
    """A namespace with the Pod `main`, and a policy `rights`; gives the namespace's name and the Pod's UID."""
    namespace = await new_namespace(plane)
    pod = await new_object(plane, f"/api/v1/namespaces/{namespace}/pods", bare_pod("main"))
    spec = {"resourceName": "example.com/gpu", "devices": [{"deviceClassName": "gpu.example.com"}]}
    head = {"apiVersion": "drabridge.io/v1alpha1", "kind": "ExtendedResourcePolicy", "metadata": {"name": "rights"}}
    await new_object(plane, POLICIES, {**head, "spec": spec})
    return namespace, pod["metadata"]["uid"]


async def send(api: Api, ask: Ask, field: tuple[str, str]) -> tuple[int, Object]:
    def filled(value: Any) -> Any:
        match value:
            case dict():
                return {key: filled(each) for key, each in value.items()}
            case list():
                return [filled(each) for each in value]
            case str():
                return value.replace("{namespace}", field[0]).replace("$uid", field[1])
        return value

    return await api.request(
        ask.method, filled(ask.path), filled(ask.body), content_type=ask.content_type, query=dict(ask.query)
    )


async def test_the_operator_may_do_what_it_has_to(operator: Api, field: tuple[str, str]) -> None:
    refused = {}
    for what, ask in ALLOWED.items():
        status, answer = await send(operator, ask, field)
        if status >= 300:
            refused[what] = answer["message"]
    assert refused == {}


async def test_the_operator_may_do_nothing_else(operator: Api, field: tuple[str, str]) -> None:
    answers = {what: (await send(operator, ask, field))[0] for what, ask in FORBIDDEN.items()}
    assert answers == dict.fromkeys(FORBIDDEN, 403)


async def test_the_probe_with_the_operator_s_rights_shows_the_gate_and_stores_nothing(
    plane: ControlPlane, operator: Api, field: tuple[str, str]
) -> None:
    _, answer = await send(operator, ALLOWED["probe the gate"], field)
    kept = answer["spec"].get("extendedResourceName")
    assert kept == (None if plane.version == "1.35" else "example.com/gate-probe")
    assert (await plane.api.request("GET", f"{CLASSES}/drabridge-gate-probe"))[0] == 404


# --- what the webhook sees -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Seen:
    """What the API server did with our webhook, by its own metrics."""

    calls: int
    """Calls, each of which failed open here: nobody answers."""
    exclusions: int
    """Pods that the matchConditions kept from it."""
    errors: int
    """Evaluations of the matchConditions that failed, for instance at the cost limit."""

    def __sub__(self, before: Seen) -> Seen:
        return Seen(self.calls - before.calls, self.exclusions - before.exclusions, self.errors - before.errors)


CALLED, NOT_CALLED = Seen(1, 0, 0), Seen(0, 1, 0)


async def seen(plane: ControlPlane) -> Seen:
    _, answer = await plane.api.request("GET", "/metrics")
    metrics = answer["message"]

    def count(name: str) -> int:
        found = re.findall(
            rf'^apiserver_admission_{name}{{[^}}]*name="pods\.drabridge\.io"[^}}]*}} (\S+)$', metrics, re.MULTILINE
        )
        return int(sum(map(float, found)))

    return Seen(
        count("webhook_fail_open_count"),
        count("match_condition_exclusions_total"),
        count("match_condition_evaluation_errors_total"),
    )


GPU = {"example.com/gpu": "1"}
MATCHING: dict[str, tuple[Object, Seen]] = {
    "limits of an app container": (bare_pod("p", container("a", limits=GPU)), CALLED),
    "requests and limits of an app container": (bare_pod("p", container("a", requests=GPU, limits=GPU)), CALLED),
    "the last of several containers": (bare_pod("p", *map(container, "abc"), container("d", limits=GPU)), CALLED),
    "an init container": (bare_pod("p", initContainers=[container("i", limits=GPU)]), CALLED),
    "a sidecar": (bare_pod("p", initContainers=[{**container("i", limits=GPU), "restartPolicy": "Always"}]), CALLED),
    "an implicit name": (bare_pod("p", container("a", limits={IMPLICIT: "1"})), CALLED),
    "a claim of ours": (
        bare_pod(
            "p",
            container("a", claims=[{"name": "c"}]),
            resourceClaims=[{"name": "c", "resourceClaimName": "drabridge-abcdefghijklmnop"}],
        ),
        CALLED,
    ),
    "nothing": (bare_pod("p"), NOT_CALLED),
    "Kubernetes' own resources": (
        bare_pod(
            "p",
            container(
                "a",
                requests={"cpu": "1", "memory": "1Mi", "ephemeral-storage": "1Mi"},
                limits={"memory": "2Mi", "hugepages-2Mi": "2Mi"},
            ),
            initContainers=[container("i", requests={"cpu": "1"})],
        ),
        NOT_CALLED,
    ),
    "another prefixed name of Kubernetes": (
        bare_pod("p", container("a", limits={"scheduling.kubernetes.io/foo": "1"})),
        NOT_CALLED,
    ),
    "a claim of somebody else, and one of a template": (
        bare_pod(
            "p",
            container("a", claims=[{"name": "c"}, {"name": "t"}]),
            resourceClaims=[
                {"name": "c", "resourceClaimName": "gpu-drabridge-a"},
                {"name": "t", "resourceClaimTemplateName": "drabridge-template"},
            ],
        ),
        NOT_CALLED,
    ),
}


@pytest.mark.parametrize(("body", "want"), MATCHING.values(), ids=MATCHING)
async def test_the_webhook_is_asked_about_pods_that_concern_it(plane: ControlPlane, body: Object, want: Seen) -> None:
    before = await seen(plane)
    await plane.api.call("POST", PODS, body, query=DRY)
    assert await seen(plane) - before == want


@pytest.mark.parametrize("system", ["kube-system", "kube-public", "kube-node-lease", SYSTEM])
async def test_the_webhook_is_not_asked_in_the_cluster_s_own_namespaces(plane: ControlPlane, system: str) -> None:
    before = await seen(plane)
    body = bare_pod("p", {**container("a", limits=GPU), "securityContext": {"allowPrivilegeEscalation": False}})
    body["spec"]["serviceAccountName"] = "drabridge" if system == SYSTEM else "default"
    body["spec"]["containers"][0]["securityContext"]["capabilities"] = {"drop": ["ALL"]}
    body["spec"]["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    await plane.api.call("POST", f"/api/v1/namespaces/{system}/pods", body, query=DRY)
    assert await seen(plane) - before == Seen(0, 0, 0)


async def test_without_an_answer_the_pod_is_created_as_it_is(plane: ControlPlane, namespace: str) -> None:
    started = asyncio.get_running_loop().time()
    pod = await plane.api.call(
        "POST", f"/api/v1/namespaces/{namespace}/pods", bare_pod("p", container("a", limits=GPU))
    )
    assert pod["spec"]["containers"][0]["resources"]["limits"] == GPU
    assert asyncio.get_running_loop().time() - started < 10  # two calls of 5 seconds at the most


async def test_the_largest_pods_are_still_matched_within_the_cost_limit(plane: ControlPlane) -> None:
    """128 containers with 60 names each, long ones of Kubernetes' own, on which the conditions spend the most.

    The API server copies limits to requests before it asks, so each name is looked at twice.
    """
    names = {f"{'n' * 60}{i:03}.kubernetes.io/{i}": "1" for i in range(60)}
    containers = [container(f"c{i}", limits=names) for i in range(128)]
    before = await seen(plane)
    await plane.api.call("POST", PODS, bare_pod("p", *containers), query=DRY)
    assert await seen(plane) - before == NOT_CALLED

    containers[-1] = container("c127", limits={**names, **GPU})
    before = await seen(plane)
    await plane.api.call("POST", PODS, bare_pod("p", *containers), query=DRY)
    assert await seen(plane) - before == CALLED
