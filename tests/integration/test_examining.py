"""doctor, capacity and explain on a real control plane: what is wrong there is found there."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from clusters import (
    DRIVER,
    NAME,
    Object,
    asking,
    binding,
    claim,
    device,
    device_class,
    devices,
    exactly,
    from_template,
    made,
    pod,
    quota,
    resource_slice,
    role,
    rule,
    taint,
    uses,
    webhook,
    workload,
)
from drabridge.cli.gathering import LISTS, from_cluster
from drabridge.core.capacity import uses as in_use
from drabridge.core.cluster import Gate
from drabridge.core.doctor.registry import diagnose
from drabridge.core.explanation.pods import explain_pod
from drabridge.core.fitting import BODIES
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.kube.client import Client
from upstream.api import MERGE_PATCH, wait_for
from upstream.controlplane import ControlPlane

NAMESPACE = "ward"
CLAIMS = f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}/resourceclaims"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ODD = "odd.example.com"
KEPT = {"metadata": {"finalizers": ["example.com/keep"]}}

NODES: list[dict[str, Any]] = [
    {"name": "n-good", "devices": 4, "driver": DRIVER, "kubelet_version": "v1.37.0"},
    {"name": "n-old", "devices": 0, "kubelet_version": "v1.35.0"},
    {"name": "n-ancient", "devices": 0, "kubelet_version": "v1.33.0"},
    {"name": "n-both", "devices": 2, "driver": "nic.example.com", "allocatable": {"example.com/nic": 2}},
    {"name": "n-nvidia", "devices": 1, "driver": "gpu.nvidia.com"},
    {"name": "n-silent", "devices": 0, "labels": {"nvidia.com/gpu.present": "true"}},
    {"name": "n-zero", "devices": 0, "allocatable": {NAME: 0}},
    {"name": "n-tainted", "devices": 1, "driver": "dedicated.example.com"},
]

GUARDED = "'model' in device.attributes['other.example.com'] && device.attributes['other.example.com'].model == 'x'"
SICK = device_class("broken-devices", "device.driver == 'broken.example.com'")
CLASSES = [
    device_class(extendedResourceName=NAME),
    device_class("dup-a", "false", extendedResourceName="example.com/dup"),
    device_class("dup-b", "false", extendedResourceName="example.com/dup"),
    device_class("c" * 64),
    device_class("wrong-domain", GUARDED),
    device_class("fails", f"device.attributes['{DRIVER}'].nosuch == 'x'"),
    SICK,
    device_class("dedicated", "device.driver == 'dedicated.example.com'"),
    device_class(
        "configures",
        config=[{"opaque": {"driver": DRIVER, "parameters": {"apiVersion": "x/v1", "kind": "Y", "ifName": "net1"}}}],
    ),
]

SLICES = [
    resource_slice("part", "n-good", driver=ODD, pool="part", expected=2),
    resource_slice("old", "n-good", driver=ODD, pool="renewed", published=[device("a")]),
    resource_slice("new", "n-good", driver=ODD, pool="renewed", generation=2, published=[device("a")]),
    resource_slice("one", "n-good", driver=ODD, pool="twice", expected=2, published=[device("same")]),
    resource_slice("two", "n-good", driver=ODD, pool="twice", expected=2, published=[device("same")]),
    resource_slice("lost", "nowhere", driver=ODD),
    resource_slice(
        "sick", "n-good", driver="broken.example.com", pool="sick", published=devices(1, taints=[taint("sick")])
    ),
]

NEVER = {"cel": {"expression": "false"}}
OBJECTS = [
    claim("of-no-class", exactly(device_class="absent")),
    claim("selects-nothing", exactly(selectors=[NEVER])),
    claim("too-much", exactly(33)),
    claim("two-of-one", exactly(2, device_class="configures")),
    claim("one"),
    claim("other"),
    claim("gone"),
    claim("unallocated"),
    claim("shared"),
    claim("dedicated", exactly(device_class="dedicated")),
    claim("looks", exactly(adminAccess=True)),
    claim("forged", metadata={"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}),
    claim("stuck", **KEPT),
    quota(hard={NAME: "2"}),
    pod("served", asking(1)),
    pod("unknown", asking(1, "example.com/unknown")),
    pod("implicit", asking(1, "deviceclass.resource.kubernetes.io/absent")),
    pod("former", asking(1, "gpu.intel.com/i915")),
    pod("partition", asking(1, "nvidia.com/mig-1g.10gb")),
    pod("share", asking(1, "nvidia.com/gpu.shared")),
    pod("big", asking(33), metadata={"labels": {"kueue.x-k8s.io/queue-name": "team"}}),
    pod("amount", asking("1Mi")),
    pod("templated", spec=from_template("absent")),
    pod("named", spec=uses("absent")),
    pod("volcano", spec={"schedulerName": "volcano"} | uses("one")),
    pod("bypasses", spec={"nodeName": "n-good"} | uses("unallocated")),
    pod("placed", asking(1), spec={"nodeName": "n-good"}),
    pod("repelled", spec=uses("dedicated")),
    workload("Deployment", "kueue-controller-manager", "registry.example/kueue:v0.17.0"),
    workload("Deployment", "drabridge", "registry.example/drabridge:0.1.0"),
    workload(
        "DaemonSet", "agent", "agent:1", tolerations=[{"key": "dedicated", "value": "me", "effect": "NoSchedule"}]
    ),
    role("own-scheduler", rule("resource.k8s.io", "resourceclaims/status", "update")),
    role("own-driver", rule("resource.k8s.io", "resourceclaims/driver", "patch")),
    role("namespace-owner", rule("", "namespaces", "patch")),
    binding("owner", "namespace-owner", "somebody"),
    made(
        "apps/v1",
        "ReplicaSet",
        "replicas",
        spec={
            "replicas": 2,
            "selector": {"matchLabels": {"app": "replicas"}},
            "template": {
                "metadata": {"labels": {"app": "replicas"}},
                "spec": {"containers": [{"name": "main", "image": "i"}]} | uses("shared"),
            },
        },
    ),
]

LAST = [
    webhook(
        "strict",
        failurePolicy="Fail",
        sideEffects="None",
        admissionReviewVersions=["v1"],
        clientConfig={"service": {"name": "webhook", "namespace": "somewhere"}},
        rules=[{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
    ),
    made(
        "resource.k8s.io/v1", "DeviceTaintRule", "all", None, spec={"deviceSelector": {}, "taint": taint("maintenance")}
    ),
]
"""What would keep the other objects from being made."""

FOUND = {
    "kubelets-before-native": "kubelets v1.35.0",
    "kubelet-skew": "kubelets v1.33.0",
    "native-pods-hold-the-gate": "1 Pod",
    "name-collision": "resource name example.com/dup",
    "class-cannot-be-named": f"DeviceClass {'c' * 64}",
    "class-configures-each-device": f"ResourceClaim {NAMESPACE}/two-of-one",
    "class-has-two-writers": "DeviceClass broken-devices",
    "class-missing": f"ResourceClaim {NAMESPACE}/of-no-class",
    "name-not-served": "resource name example.com/unknown",
    "name-of-former-plugin": "resource name gpu.intel.com/i915",
    "name-of-partition": "resource name nvidia.com/mig-1g.10gb",
    "name-of-shared-device": "resource name nvidia.com/gpu.shared",
    "implicit-name-without-class": "DeviceClass absent",
    "name-left-at-zero": f"resource name {NAME}",
    "quantity-is-no-count": f"Pod {NAMESPACE}/amount",
    "double-offer": "Node n-both",
    "node-without-slices": "Node n-silent",
    "slice-of-missing-node": "ResourceSlice lost",
    "pool-incomplete": f"pool {ODD}/part",
    "pool-has-old-slices": f"pool {ODD}/renewed",
    "device-published-twice": f"pool {ODD}/twice",
    "class-all-tainted": "DeviceClass broken-devices",
    "taint-rule-for-all": "DeviceTaintRule all",
    "selector-fails": "DeviceClass fails",
    "selector-wrong-domain": "DeviceClass wrong-domain",
    "class-selects-nothing": "DeviceClass dup-a",
    "request-selects-nothing": f"ResourceClaim {NAMESPACE}/selects-nothing",
    "claim-stuck-deleting": f"ResourceClaim {NAMESPACE}/stuck",
    "claim-never-allocated": f"Pod {NAMESPACE}/bypasses",
    "template-missing": f"Pod {NAMESPACE}/templated",
    "named-claim-missing": f"Pod {NAMESPACE}/named",
    "claim-shared-by-replicas": f"ResourceClaim {NAMESPACE}/shared",
    "special-claim-forged": f"ResourceClaim {NAMESPACE}/forged",
    "device-allocated-twice": f"device {DRIVER}/n-good/gpu-3",
    "allocated-device-gone": f"ResourceClaim {NAMESPACE}/gone",
    "too-many-devices": f"Pod {NAMESPACE}/big",
    "claim-asks-too-much": f"ResourceClaim {NAMESPACE}/too-much",
    "quota-key-without-effect": f"ResourceQuota {NAMESPACE}/quota",
    "role-lacks-binding": "ClusterRole own-scheduler",
    "role-lacks-node-verbs": "ClusterRole own-driver",
    "admin-access-open": f"Namespace {NAMESPACE}",
    "namespace-owner-grants-himself": f"RoleBinding {NAMESPACE}/owner",
    "scheduler-and-claims": "scheduler volcano",
    "node-name-set": f"Pod {NAMESPACE}/placed",
    "taint-not-tolerated": f"Pod {NAMESPACE}/repelled",
    "daemonset-tolerates-other-value": f"DaemonSet {NAMESPACE}/agent",
    "kueue-does-not-count": f"Deployment {NAMESPACE}/kueue-controller-manager",
    "drabridge-lacks-rights": "ClusterRole drabridge",
    "drabridge-not-ready": f"Deployment {NAMESPACE}/drabridge",
    "webhook-missing": "MutatingWebhookConfiguration drabridge",
    "webhook-stops-pods": "MutatingWebhookConfiguration strict",
}


@pytest_asyncio.fixture(scope="module")
async def ill(controlplane_binary: Path, controlplane_directory: Path) -> AsyncIterator[ControlPlane]:
    """A control plane of Kubernetes 1.37 with a lot wrong in it, and one Pod that is served."""
    plane = ControlPlane(controlplane_binary, None, directory=controlplane_directory / "ill")
    try:
        await plane.start()
        await _make_ill(plane)
        yield plane
    finally:
        await plane.stop()


async def _make_ill(plane: ControlPlane) -> None:
    await plane.add_namespace(NAMESPACE, labels={"resource.kubernetes.io/admin-access": "true"})
    for options in NODES:
        await plane.add_node(**{"kubelet_version": "v1.37.0", **options})
    await plane.api.call(
        "PATCH", "/api/v1/nodes/n-tainted", {"spec": {"taints": [taint("dedicated", "x")]}}, MERGE_PATCH
    )
    await _apply(plane, *CLASSES, *SLICES)
    named = {**SICK, "spec": {**SICK["spec"], "extendedResourceName": "example.com/sick"}}
    await _apply(plane, named, manager="another")
    await _apply(plane, *OBJECTS)
    for name, given in {"one": "gpu-3", "other": "gpu-3", "gone": "gpu-99"}.items():
        results = [{"request": "one", "driver": DRIVER, "pool": "n-good", "device": given}]
        status = {"status": {"allocation": {"devices": {"results": results}}}}
        await plane.api.call("PATCH", f"{CLAIMS}/{name}/status", status, MERGE_PATCH)
    await plane.api.call("DELETE", f"{CLAIMS}/stuck")
    await wait_for(
        lambda: plane.api.call("GET", f"{PODS}/served"), "served", until=lambda each: "nodeName" in each["spec"]
    )
    await wait_for(
        lambda: plane.api.call("GET", PODS, query={"labelSelector": "app=replicas"}),
        "replicas",
        until=lambda listed: len(listed["items"]) == 2,
    )
    await _apply(plane, *LAST)


async def _apply(plane: ControlPlane, *objects: Object, manager: str = "test") -> None:
    items = []
    for each in objects:
        metadata = {key: value for key, value in each["metadata"].items() if key not in ("uid", "creationTimestamp")}
        body = {key: value for key, value in each.items() if key != "status"}
        if "namespace" in metadata:
            metadata["namespace"] = NAMESPACE
        if body["kind"] in ("Deployment", "DaemonSet"):
            labels = {"app": metadata["name"]}
            template = {**body["spec"]["template"], "metadata": {"labels": labels}}
            replicas = {"replicas": 0} if body["kind"] == "Deployment" else {}
            body["spec"] = {"selector": {"matchLabels": labels}, "template": template, **replicas}
        if body["kind"] in ("RoleBinding", "ClusterRoleBinding"):
            group = "rbac.authorization.k8s.io"
            body["roleRef"] = {**body["roleRef"], "apiGroup": group}
            body["subjects"] = [{**subject, "apiGroup": group} for subject in body["subjects"]]
        items.append({**body, "metadata": metadata})
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    await plane.kubectl(
        "apply", "--server-side", "--force-conflicts", f"--field-manager={manager}", "-f", "-", stdin=listed
    )


@pytest_asyncio.fixture(scope="module")
async def cluster(ill: ControlPlane) -> Inventory:
    async with await Client.connect(ill.kubeconfig_admin(), user_agent="drabridge/test") as client:
        return await from_cluster(client, keep=BODIES)


def test_everything_is_seen(cluster: Inventory) -> None:
    assert cluster.gate is Gate.ON
    assert cluster.server == (1, 37)
    assert cluster.unseen == {}
    assert cluster.odd == ()


@pytest.mark.parametrize("identity", FOUND, ids=FOUND)
def test_doctor_finds(cluster: Inventory, identity: str) -> None:
    found = {check.id: [finding.object for finding in findings] for check, findings in diagnose(cluster).found}
    assert FOUND[identity] in found.get(identity, [])


def test_what_is_right_is_not_found(cluster: Inventory) -> None:
    diagnosis = diagnose(cluster)
    assert diagnosis.unmade == ()
    objects = {
        finding.object for check, findings in diagnosis.found for finding in findings if check.severity != "info"
    }
    assert objects.isdisjoint({f"Pod {NAMESPACE}/served", f"pool {DRIVER}/n-good", "Node n-good", "ResourceSlice new"})


def test_explain_says_what_a_pod_got(cluster: Inventory) -> None:
    page = explain_pod(cluster.pods_by_key[f"{NAMESPACE}/served"], cluster)
    assert page.held_up is not None
    assert page.held_up.reason == "DeviceUnhealthy", "a rule taints all devices of this cluster"
    assert "n-good/gpu-0 (tainted" in page.held_up.evidence
    (used,) = [each for each in in_use(cluster) if each.pod == f"{NAMESPACE}/served"]
    assert (used.node, used.containers) == ("n-good", ("main",))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("unknown", "NameNotServed"),
        ("big", "TooManyDevices"),
        ("templated", "TemplateMissing"),
        ("named", "ClaimMissing"),
        ("repelled", "NoDevices"),
        ("bypasses", "NodeNameSet"),
    ],
)
def test_explain_says_what_holds_a_pod_up(cluster: Inventory, name: str, reason: str) -> None:
    held_up = explain_pod(cluster.pods_by_key[f"{NAMESPACE}/{name}"], cluster).held_up
    assert held_up is not None
    assert held_up.reason == reason


async def test_what_may_not_be_listed_is_named_and_the_rest_goes_on(ill: ControlPlane) -> None:
    names = ("pods", "nodes", "resourceslices.resource.k8s.io", "deviceclasses.resource.k8s.io")
    await ill.kubectl("create", "clusterrole", "looker", "--verb=list", *(f"--resource={name}" for name in names))
    await ill.kubectl(
        "create", "clusterrolebinding", "looker", "--clusterrole=looker", f"--serviceaccount={NAMESPACE}:default"
    )
    kubeconfig = await ill.kubeconfig_for(NAMESPACE, "default")
    async with await Client.connect(kubeconfig, user_agent="drabridge/test") as client:
        seen = await from_cluster(client)
    assert set(LISTS) - seen.unseen.keys() == {Kind.PODS, Kind.NODES, Kind.SLICES, Kind.CLASSES}
    assert "forbidden" in seen.unseen[Kind.CLAIMS].lower()
    assert seen.gate is Gate.ON  # it may not be asked for, but a class shows it
    diagnosis = diagnose(seen)
    assert "pool-incomplete" in {check.id for check, _ in diagnosis.found}
    assert "device-allocated-twice" in {each.check.id for each in diagnosis.unmade}


async def test_the_verbs_on_a_cluster(ill: ControlPlane) -> None:
    kubeconfig = str(ill.kubeconfig_admin())
    code, out = await _drabridge("doctor", "--kubeconfig", kubeconfig, "-o", "json")
    assert code == 3
    assert {each["check"] for each in json.loads(out)["findings"]} >= FOUND.keys()
    code, out = await _drabridge("explain", "pod/big", "-n", NAMESPACE, "--kubeconfig", kubeconfig)
    assert code == 1
    assert "TooManyDevices" in out
    code, out = await _drabridge("capacity", "--by", "node", "--kubeconfig", kubeconfig)
    assert code == 0
    assert "n-good" in out


def _hear_interrupts() -> None:
    """Tests that a shell runs in the background have SIGINT ignored, and so would what they start."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


async def test_capacity_is_watched_until_it_is_interrupted(ill: ControlPlane) -> None:
    arguments = ("capacity", "--by", "pool", "--watch", "--every", "0.2", "--kubeconfig", str(ill.kubeconfig_admin()))
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("drabridge"),
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=_hear_interrupts,
    )
    assert process.stdout is not None
    heads = 0
    while heads < 3:
        line = await asyncio.wait_for(process.stdout.readline(), 30)
        assert line, "it ended by itself"
        heads += line.startswith(b"POOL ")
    process.send_signal(signal.SIGINT)
    assert await asyncio.wait_for(process.wait(), 30) == 0


async def test_kubectl_finds_the_plugin(ill: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("KUBECONFIG", str(ill.kubeconfig_admin()))
    assert "kubectl-drabridge" in (await ill.kubectl("plugin", "list")).out
    code, out, _ = await _ran(ill.binary, "kubectl", "drabridge", "capacity", "--by", "node")
    assert (code, "n-good" in out) == (0, True)
    code, _, err = await _ran(ill.binary, "kubectl", "drabridge", "capacity", "--by", "moon")
    assert (code, "Usage: kubectl drabridge capacity" in err) == (2, True)


async def test_kubectl_completes_the_plugin_s_words(ill: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for words, want in (
        (["doc"], ["doctor", ":4"]),
        (["capacity", "--by", ""], ["class", "node", "pool", "model", ":4"]),
        (["convert", "--write", "--std"], ["--stdout", ":4"]),
        (["convert", "-f", ""], [":0"]),  # the shell is to offer files
    ):
        _, out, _ = await _ran(ill.binary, "kubectl", "__complete", "drabridge", *words)
        assert out.split() == want


async def _drabridge(*arguments: str) -> tuple[int, str]:
    code, out, _ = await _ran(Path(sys.executable).with_name("drabridge"), *arguments)
    return code, out


async def _ran(program: Path, *arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        program, *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()
