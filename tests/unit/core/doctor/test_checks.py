"""Each check of doctor, provoked: objects of a cluster -> what the check finds in it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from builders import CLAIM
from clusters import (
    BRIDGE,
    DRIVER,
    LATELY,
    NAME,
    Object,
    asking,
    binding,
    claim,
    component,
    device,
    device_class,
    devices,
    exactly,
    from_template,
    inventory,
    made,
    native,
    node,
    owned_by,
    pod,
    policy,
    quota,
    resource_slice,
    result,
    role,
    rule,
    server,
    special,
    taint,
    template,
    uses,
    webhook,
    workload,
)
from drabridge.core.doctor.registry import CHECKS, THEMES
from drabridge.core.inventory.cluster import Inventory
from rewriting import ANNOTATED, OLD, rewritten

DECLARED = device_class(extendedResourceName=NAME)
NEW = [server("v1.37.0"), node("node-1"), resource_slice("slice-1"), DECLARED]
WITHOUT_CLASS = [server("v1.35.0"), node("node-1", kubelet="v1.35.0"), resource_slice("slice-1")]


@dataclass(frozen=True)
class Case:
    """`objects` in, the check finds something about each of `finds`; `evidence` is part of what it says."""

    objects: list[Object]
    finds: tuple[str, ...]
    evidence: str = ""
    cure: str = ""


def managed(manager: str, path: dict[str, object], api: str = "v1") -> Object:
    return {"manager": manager, "apiVersion": api, "operation": "Update", "fieldsV1": path}


def limit_range(**fields: Object) -> Object:
    return made("v1", "LimitRange", "limits", spec={"limits": [{"type": "Container", **fields}]})


def counted_slice(name: str = "slice-1", memory: str = "80Gi", partition: str = "40Gi", count: int = 3) -> Object:
    consumes = [{"counterSet": "card", "counters": {"memory": {"value": partition}}}]
    return resource_slice(
        name,
        published=devices(count, consumesCounters=consumes),
        sharedCounters=[{"name": "card", "counters": {"memory": {"value": memory}}}],
    )


def lost_name() -> Object:
    owns = managed("helm", {"f:spec": {"f:extendedResourceName": {}}})
    return device_class(metadata={"managedFields": [owns]})


WAITING = rewritten(pod("web", asking()))
SHARED = devices(1, allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})
JOB = owned_by("Job", "training")
NVIDIA_CLASS = device_class("gpu.nvidia.com", "device.driver == 'gpu.nvidia.com'")
NVIDIA_SLICE = resource_slice("nvidia-1", driver="gpu.nvidia.com")

CASES: dict[str, Case] = {
    # versions
    "server-too-old": Case([server("v1.33.4")], ("API server",), "1.33"),
    "control-plane-versions-differ": Case(
        [
            component("kube-apiserver", "v1.35.2"),
            component("kube-apiserver", "v1.36.0", node_name="cp-2"),
            component("kube-scheduler", "v1.35.2"),
        ],
        ("control plane",),
        "1.35: kube-apiserver-cp-1, kube-scheduler-cp-1; 1.36: kube-apiserver-cp-2",
    ),
    "control-plane-gates-differ": Case(
        [
            component("kube-apiserver", "v1.35.2", "--feature-gates=DRAExtendedResource=true"),
            component("kube-scheduler", "v1.35.2"),
        ],
        ("control plane",),
        "DRAExtendedResource is on in kube-apiserver-cp-1, off in kube-scheduler-cp-1",
    ),
    "kubelets-before-native": Case(
        [server("v1.36.0"), DECLARED, node("node-1", kubelet="v1.35.4"), node("node-2", kubelet="v1.36.0")],
        ("kubelets v1.35.4",),
        "1 schedulable node: node-1",
    ),
    "kubelet-skew": Case(
        [server("v1.36.0"), node("a", kubelet="v1.37.0"), node("b", kubelet="v1.32.9"), node("c", kubelet="v1.33.1")],
        ("kubelets v1.32.9", "kubelets v1.37.0"),
    ),
    "special-claims-without-gate": Case(
        [server("v1.35.0"), claim("web-extended", results=[result()], metadata=special("web"))],
        ("ResourceClaim default/web-extended",),
        "Pod web and holds devices",
    ),
    "native-pods-hold-the-gate": Case(
        [server("v1.36.0"), pod("web", asking(), spec={"nodeName": "node-1"}, status=native("x"))],
        ("1 Pod",),
        "default/web",
    ),
    "beta-manifests": Case(
        [{**claim("old"), "apiVersion": "resource.k8s.io/v1beta1"}],
        ("ResourceClaim default/old",),
        "resource.k8s.io/v1beta1",
    ),
    "beta-clients": Case(
        [
            resource_slice("slice-1")
            | {"metadata": {"name": "slice-1", "managedFields": [managed("old-driver", {}, "resource.k8s.io/v1beta1")]}}
        ],
        ("field manager old-driver",),
        "1 ResourceSlice as resource.k8s.io/v1beta1",
    ),
    "gate-unknown": Case([node("node-1")], ("API server",)),
    # classes
    "class-name-lost": Case(
        [lost_name()],
        (f"DeviceClass {DRIVER}",),
        cure=f"kubectl annotate deviceclass {DRIVER} drabridge.io/extended-resource-name=NAME",
    ),
    "class-annotation-invalid": Case(
        [device_class(metadata={"annotations": {"drabridge.io/extended-resource-name": "gpu"}})],
        (f"DeviceClass {DRIVER}",),
        "it has no domain",
    ),
    "name-collision": Case(
        [DECLARED, device_class("another", extendedResourceName=NAME)],
        (f"resource name {NAME}",),
        f"another wins over {DRIVER}",
    ),
    "class-cannot-be-named": Case([device_class("c" * 64)], (f"DeviceClass {'c' * 64}",), "64 characters"),
    "class-configures-each-device": Case(
        [
            device_class(config=[{"opaque": {"driver": DRIVER, "parameters": {"net": {"ifName": "net1"}}}}]),
            claim("two", exactly(2)),
            claim("one", exactly(1)),
        ],
        ("ResourceClaim default/two",),
        "sets ifName for each",
    ),
    "class-has-two-writers": Case(
        [
            device_class(
                metadata={
                    "managedFields": [
                        managed("helm", {"f:spec": {"f:selectors": {}}}),
                        managed("kubectl", {"f:spec": {"f:extendedResourceName": {}}}),
                    ]
                }
            )
        ],
        (f"DeviceClass {DRIVER}",),
        "helm, kubectl",
    ),
    "class-missing": Case(
        [claim("waits"), claim("has", results=[result()]), template("some")],
        ("ResourceClaim default/waits", "ResourceClaimTemplate default/some"),
        f"DeviceClass {DRIVER} does not exist",
    ),
    "claim-of-former-class": Case(
        [
            *NEW,
            device_class("former"),
            pod("web", asking(), spec={"nodeName": "node-1"}, status=native("x")),
            claim("x", exactly(device_class="former"), results=[result()], reserved=["web"], metadata=special("web")),
        ],
        ("Pod default/web",),
        f"{NAME} is {DRIVER} now, its claim uses former",
    ),
    "policy-class-missing": Case([policy()], ("ExtendedResourcePolicy gpu",), DRIVER),
    "policy-shadowed": Case(
        [policy("b"), policy("a", metadata={"creationTimestamp": LATELY})],
        ("ExtendedResourcePolicy a",),
        "b is older",
    ),
    "policy-native-hindered": Case(
        [server("v1.35.0"), device_class(), policy(spec={"delivery": "Native"})],
        ("ExtendedResourcePolicy gpu",),
        "GateOff",
        "switch the gate on",
    ),
    "native-class-differs": Case(
        [server("v1.37.0"), ANNOTATED], (f"resource name {NAME}",), "kube-scheduler would serve"
    ),
    # names
    "name-not-served": Case(
        [*WITHOUT_CLASS, device_class(), pod("web", asking())],
        (f"resource name {NAME}",),
        "1 Pod waiting: default/web",
        f"kubectl annotate deviceclass {DRIVER} drabridge.io/extended-resource-name={NAME}",
    ),
    "name-of-former-plugin": Case(
        [*WITHOUT_CLASS, pod("web", asking(resource="gpu.intel.com/i915"))],
        ("resource name gpu.intel.com/i915",),
        "its new name is intel.com/gpu",
    ),
    "name-of-partition": Case(
        [
            *WITHOUT_CLASS,
            resource_slice(
                "mig",
                "node-1",
                driver="gpu.nvidia.com",
                published=[device("m", attributes={"profile": {"string": "1g.10gb"}})],
            ),
            pod("web", asking(resource="nvidia.com/mig-1g.10gb")),
        ],
        ("resource name nvidia.com/mig-1g.10gb",),
        "1 device of gpu.nvidia.com",
        "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'",
    ),
    "name-of-shared-device": Case(
        [*WITHOUT_CLASS, pod("web", asking(resource="nvidia.com/gpu.shared"))], ("resource name nvidia.com/gpu.shared",)
    ),
    "implicit-name-without-class": Case(
        [*WITHOUT_CLASS, pod("web", asking(resource="deviceclass.resource.kubernetes.io/gone"))],
        ("DeviceClass gone",),
    ),
    "name-left-to-plugin": Case(
        [*OLD, node("node-2", kubelet="v1.35.0", allocatable={NAME: 2}), pod("web", asking())],
        (f"resource name {NAME}",),
        f"plugin on node-2; DeviceClass {DRIVER} on node-1",
    ),
    "name-left-at-zero": Case([*OLD, node("node-2", allocatable={NAME: 0})], (f"resource name {NAME}",), "0 on node-2"),
    "quantity-is-no-count": Case([*OLD, pod("web", asking("512Ki"))], ("Pod default/web",), "512Ki"),
    # slices
    "double-offer": Case(
        [*NEW[:1], node("node-1", allocatable={NAME: 2}), resource_slice("slice-1")],
        ("Node node-1",),
        f"allocatable has 2 {NAME}, {DRIVER} publishes 2 devices",
    ),
    "node-without-slices": Case(
        [NVIDIA_SLICE, node("node-1"), node("node-2", labels={"nvidia.com/gpu.present": "true"})],
        ("Node node-2",),
        "gpu.nvidia.com publishes on node-1, not here",
    ),
    "slice-of-missing-node": Case([node("node-2"), resource_slice("slice-1")], ("ResourceSlice slice-1",), "node-1"),
    "pool-incomplete": Case(
        [resource_slice("a", generation=2, expected=2), resource_slice("old", generation=1)],
        (f"pool {DRIVER}/node-1",),
        "1 of 2 slices of generation 2",
    ),
    "pool-has-old-slices": Case(
        [resource_slice("a", generation=2), resource_slice("old", generation=1)], (f"pool {DRIVER}/node-1",), "old"
    ),
    "device-published-twice": Case(
        [resource_slice("a", expected=2), resource_slice("b", expected=2, published=[device("gpu-0")])],
        (f"pool {DRIVER}/node-1",),
        "gpu-0",
    ),
    "slice-over-limits": Case(
        [
            resource_slice("many", "n1", published=devices(129)),
            resource_slice("tainted", "n2", published=devices(65, taints=[taint("broken")])),
            resource_slice("sets", "n3", sharedCounters=[{"name": f"s{i}", "counters": {}} for i in range(9)]),
            resource_slice("wide", "n4", published=[device("d", attributes={f"a{i}": {"int": i} for i in range(33)})]),
            resource_slice("fine", "n5", published=devices(128)),
        ],
        ("ResourceSlice many", "ResourceSlice sets", "ResourceSlice tainted", "ResourceSlice wide"),
    ),
    "counter-set-missing": Case(
        [
            resource_slice(
                "a",
                published=[
                    device("d", consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": "1"}}}])
                ],
            )
        ],
        (f"pool {DRIVER}/node-1",),
        "there is no counter card/memory",
    ),
    "class-all-tainted": Case(
        [
            device_class(),
            resource_slice("a", published=devices(2, taints=[taint("broken", effect="NoExecute")])),
            claim(results=[result("gpu-0")]),
        ],
        (f"DeviceClass {DRIVER}",),
        "1 free device, all tainted: broken:NoExecute",
    ),
    "taint-rule-for-all": Case(
        [
            made(
                "resource.k8s.io/v1",
                "DeviceTaintRule",
                "all",
                None,
                spec={"deviceSelector": {}, "taint": taint("maintenance")},
            ),
            made("resource.k8s.io/v1", "DeviceTaintRule", "none", None, spec={"taint": taint("maintenance")}),
            made(
                "resource.k8s.io/v1",
                "DeviceTaintRule",
                "one",
                None,
                spec={"deviceSelector": {"device": "gpu-0"}, "taint": taint("maintenance")},
            ),
        ],
        ("DeviceTaintRule all",),
        "maintenance:NoSchedule",
    ),
    "taint-does-not-evict": Case(
        [
            server("v1.37.0"),
            resource_slice("a", published=devices(1, taints=[taint("broken", effect="NoExecute")])),
            pod("web", asking(), spec={"nodeName": "node-1"}, status=native("x")),
            claim("x", results=[result()], reserved=["web"], metadata=special("web")),
        ],
        ("Pod default/web",),
        "broken:NoExecute",
    ),
    # selectors
    "selector-broken": Case(
        [device_class("bad", "device.driver =="), template("worse", exactly(selectors=[{"cel": {"expression": "1"}}]))],
        ("DeviceClass bad", "ResourceClaimTemplate default/worse"),
    ),
    "selector-fails": Case(
        [device_class("c", f"device.attributes['{DRIVER}'].size > 3"), resource_slice("a")],
        ("DeviceClass c",),
        "on device gpu.example.com/node-1/gpu-0: no such key",
    ),
    "class-selects-nothing": Case(
        [device_class("c", "device.driver == 'another.example.com'"), resource_slice("a")],
        ("DeviceClass c",),
        "none of 2 devices",
    ),
    "selector-wrong-domain": Case(
        [device_class("c", "device.attributes['other.example.com'].model == 'a100'"), resource_slice("a")],
        ("DeviceClass c",),
        f"other.example.com/model: devices have it in {DRIVER}",
    ),
    "request-selects-nothing": Case(
        [
            device_class(),
            resource_slice("a"),
            claim("no", exactly(selectors=[{"cel": {"expression": f"device.attributes['{DRIVER}'].model == 'x'"}}])),
            claim(
                "yes", exactly(selectors=[{"cel": {"expression": f"device.attributes['{DRIVER}'].model == 'a100'"}}])
            ),
        ],
        ("ResourceClaim default/no",),
        "none of the 2 devices",
    ),
    # claims
    "claim-stuck-deleting": Case(
        [
            pod("another"),
            claim(
                "stuck",
                reserved=["gone"],
                metadata={
                    "deletionTimestamp": LATELY,
                    "finalizers": ["resource.kubernetes.io/delete-protection"],
                },
            ),
            claim("in-use", reserved=["another"], metadata={"deletionTimestamp": LATELY, "finalizers": ["x/y"]}),
        ],
        ("ResourceClaim default/stuck",),
        "reserved for gone, gone",
    ),
    "claim-outlives-pod": Case(
        [pod("another"), claim("left", results=[result()], metadata=owned_by("Pod", "gone"))],
        ("ResourceClaim default/left",),
        "its owner is Pod gone with UID uid-gone, it holds 1 device",
    ),
    "claim-of-ended-pod": Case(
        [pod("done", status={"phase": "Succeeded"}), claim(results=[result()], reserved=["done"])],
        ("ResourceClaim default/claim",),
        "1 device for default/done",
    ),
    "claim-idle": Case(
        [
            claim("idle", results=[result()]),
            claim("fresh", results=[result("gpu-1")], metadata={"creationTimestamp": LATELY}),
        ],
        ("ResourceClaim default/idle",),
        "1 device since 2026-12-01T08:00:00Z",
        "kubectl delete resourceclaim idle -n default",
    ),
    "claim-not-reserved": Case(
        [
            pod("web", spec={"nodeName": "node-1", "schedulerName": "volcano"} | uses("claim")),
            claim(results=[result()]),
        ],
        ("Pod default/web",),
        "its scheduler is volcano",
    ),
    "claim-never-allocated": Case(
        [pod("web", spec={"nodeName": "node-1"} | uses("claim")), claim()],
        ("Pod default/web",),
        "default/claim is not allocated",
    ),
    "template-missing": Case(
        [pod("web", spec=from_template("gone")), pod("fine", spec=from_template("there")), template("there")],
        ("Pod default/web",),
        "ResourceClaimTemplate default/gone does not exist",
    ),
    "named-claim-missing": Case(
        [pod("web", spec=uses("gone")), pod("fine", spec=uses("claim")), claim()],
        ("Pod default/web",),
        "ResourceClaim default/gone does not exist",
    ),
    "claim-late": Case([*OLD, WAITING], ("Pod default/web",), "nothing keeps drabridge from making it"),
    "claim-of-another-owner": Case(
        [*OLD, WAITING, claim(CLAIM, metadata=owned_by("Job", "other"))],
        ("Pod default/web",),
        f"default/{CLAIM} is owned by Job other",
    ),
    "pod-ends-without-claim": Case(
        [pod("web", spec={"nodeName": "n"} | from_template("t"), metadata={"deletionTimestamp": LATELY})],
        ("Pod default/web",),
        "entry gpu has no claim",
    ),
    "claim-shared-by-replicas": Case(
        [pod("a", spec=uses("claim"), metadata=JOB), pod("b", spec=uses("claim"), metadata=JOB), claim()],
        ("ResourceClaim default/claim",),
        "2 Pods of Job training",
    ),
    "special-claim-forged": Case(
        [
            claim("a", metadata={"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}),
            pod("web", spec={"nodeName": "n"}, status=native("real")),
            claim("b", metadata=special("web")),
            claim("real", metadata=special("web")),
        ],
        ("ResourceClaim default/a", "ResourceClaim default/b"),
    ),
    "claim-status-two-writers": Case(
        [
            pod(
                "web",
                metadata={
                    "managedFields": [
                        managed("kube-controller-manager", {"f:status": {"f:resourceClaimStatuses": {}}}),
                        managed("other", {"f:status": {"f:resourceClaimStatuses": {}}}),
                    ]
                },
            )
        ],
        ("Pod default/web",),
        "kube-controller-manager, other",
    ),
    # allocations
    "device-allocated-twice": Case(
        [
            claim("a", results=[result()]),
            claim("b", results=[result()]),
            claim("admin", results=[result(adminAccess=True)]),
            claim("c", results=[result("gpu-1", shareID="1")]),
            claim("d", results=[result("gpu-1", shareID="2")]),
        ],
        (f"device {DRIVER}/node-1/gpu-0",),
        "default/a, default/b",
    ),
    "allocated-device-gone": Case(
        [resource_slice("a"), claim("a", results=[result("gpu-7")]), claim("b", results=[result("gpu-1")])],
        ("ResourceClaim default/a",),
        f"{DRIVER}/node-1/gpu-7",
    ),
    "capacity-overdrawn": Case(
        [
            resource_slice("a", published=SHARED),
            claim("a", results=[result(shareID="1", consumedCapacity={"memory": "30Gi"})]),
            claim("b", results=[result(shareID="2", consumedCapacity={"memory": "15Gi"})]),
        ],
        (f"device {DRIVER}/node-1/gpu-0",),
        "memory: 45Gi of 40Gi; 2 claims",
    ),
    "counters-overdrawn": Case(
        [counted_slice(), *(claim(f"c{i}", results=[result(f"gpu-{i}")]) for i in range(3))],
        (f"pool {DRIVER}/node-1, counter set card",),
        "memory: 120Gi of 80Gi",
    ),
    # limits
    "too-many-devices": Case(
        [*OLD, pod("big", asking(17), asking(17) | {"name": "second"}), pod("fits", asking(32))],
        ("Pod default/big",),
        "34 devices",
    ),
    "claim-asks-too-much": Case(
        [
            claim("devices", exactly(33)),
            template("requests", *(exactly(1, f"r{i}", allocationMode="All") for i in range(33))),
            claim(
                "list",
                {
                    "name": "l",
                    "firstAvailable": [
                        {"name": "a", "deviceClassName": DRIVER, "count": 40},
                        {"name": "b", "deviceClassName": DRIVER},
                    ],
                },
            ),
        ],
        ("ResourceClaim default/devices", "ResourceClaimTemplate default/requests"),
    ),
    "claim-has-too-many-users": Case(
        [pod(f"p{i}", spec=uses("claim")) for i in range(257)],
        ("ResourceClaim default/claim",),
        "257 Pods",
    ),
    # quota
    "quota-cannot-be-kept": Case(
        [*OLD, quota(hard={f"requests.{NAME}": "1500m"})],
        ("ResourceQuota default/quota",),
        "is not whole",
    ),
    "quota-not-in-force": Case(
        [*OLD, quota(hard={f"requests.{NAME}": "2"})],
        ("ResourceQuota default/quota",),
        "its companion quota is not in force yet",
    ),
    "quota-key-without-effect": Case([quota(hard={NAME: "2"})], ("ResourceQuota default/quota",), NAME),
    "quota-bypassed-by-claims": Case(
        [*WITHOUT_CLASS, ANNOTATED, quota(hard={f"requests.{NAME}": "2"})],
        ("ResourceQuota default/quota",),
        f"no quota there caps {DRIVER}.deviceclass.resource.k8s.io/devices",
    ),
    "quota-used-up": Case(
        [
            *OLD,
            WAITING,
            quota(
                "drabridge-quota",
                {f"{DRIVER}.deviceclass.resource.k8s.io/devices": "2"},
                status={
                    "hard": {f"{DRIVER}.deviceclass.resource.k8s.io/devices": "2"},
                    "used": {f"{DRIVER}.deviceclass.resource.k8s.io/devices": "2"},
                },
            ),
        ],
        ("ResourceQuota default/drabridge-quota",),
        "2 of 2",
    ),
    "limit-range-refuses": Case(
        [*OLD, limit_range(min={NAME: "1"})], ("LimitRange default/limits",), f"it has min for {NAME}"
    ),
    # rights
    "role-lacks-binding": Case(
        [
            role("own-scheduler", rule("resource.k8s.io", "resourceclaims/status", "get update")),
            role("good", rule("resource.k8s.io", "resourceclaims/status resourceclaims/binding", "update patch")),
            role(
                "driver",
                rule("resource.k8s.io", "resourceclaims/status", "patch"),
                rule("resource.k8s.io", "resourceclaims/driver", "associated-node:patch"),
            ),
            binding("b", "own-scheduler", "somebody", kind="ClusterRoleBinding"),
        ],
        ("ClusterRole own-scheduler",),
        "bound to User somebody",
    ),
    "role-will-lack-binding": Case(
        [server("v1.35.0"), role("own-scheduler", rule("resource.k8s.io", "resourceclaims/status", "get update"))],
        ("ClusterRole own-scheduler",),
        "bound to nobody that is seen",
    ),
    "role-lacks-node-verbs": Case(
        [role("driver", rule("resource.k8s.io", "resourceclaims/driver", "update patch"))],
        ("ClusterRole driver",),
        "its verbs are patch, update",
    ),
    "drabridge-lacks-rights": Case(
        [*BRIDGE, role("drabridge", rule("resource.k8s.io", "resourceclaims", "watch"))],
        ("ClusterRole drabridge",),
        "create resourceclaims",
    ),
    "admin-access-open": Case(
        [
            made(
                "v1", "Namespace", "default", None, metadata={"labels": {"resource.kubernetes.io/admin-access": "true"}}
            ),
            claim("looks", exactly(adminAccess=True)),
        ],
        ("Namespace default",),
        "default/looks",
    ),
    "namespace-owner-grants-himself": Case(
        [role("owner", rule("", "namespaces", "get patch")), binding("b", "owner", "somebody")],
        ("RoleBinding default/b",),
        "ClusterRole owner allows",
    ),
    # scheduling
    "scheduler-and-claims": Case(
        [pod("web", spec={"schedulerName": "volcano"} | uses("claim"))], ("scheduler volcano",), "default/web"
    ),
    "scheduler-not-listed": Case(
        [*OLD, pod("web", asking(), spec={"schedulerName": "another"})], ("scheduler another",), "default/web"
    ),
    "runs-without-devices": Case(
        [
            *OLD,
            pod("web", asking(), spec={"nodeName": "node-1"}),
            node("node-2", allocatable={NAME: 1}),
            pod("plugin", asking(), spec={"nodeName": "node-2"}),
        ],
        ("Pod default/web",),
        f"node node-1 has no {NAME}",
    ),
    "node-name-set": Case(
        [*OLD, pod("web", asking(), spec={"nodeName": "node-1"}, status={"phase": "Pending"})],
        ("Pod default/web",),
        "spec.nodeName is node-1",
    ),
    "taint-not-tolerated": Case(
        [
            server("v1.37.0"),
            node("node-1", taints=[taint("example.com/gpu", "present")]),
            resource_slice("slice-1"),
            device_class(),
            claim(),
            claim("other"),
            pod("web", spec=uses("claim")),
            pod("tolerant", spec={"tolerations": [{"key": "example.com/gpu", "operator": "Exists"}]} | uses("other")),
        ],
        ("Pod default/web",),
        "have the taint example.com/gpu=present:NoSchedule",
        "{key: example.com/gpu, operator: Equal, value: present, effect: NoSchedule}",
    ),
    "daemonset-tolerates-other-value": Case(
        [
            node("node-1", taints=[taint("nvidia.com/gpu", "true")]),
            workload("DaemonSet", "plugin", "plugin:1", tolerations=[{"key": "nvidia.com/gpu", "value": "present"}]),
            workload("DaemonSet", "good", "plugin:1", tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}]),
        ],
        ("DaemonSet drabridge-system/plugin",),
        "nvidia.com/gpu=true:NoSchedule is on node-1",
    ),
    "runtime-class-of-plugin": Case(
        [pod("web", spec={"runtimeClassName": "nvidia"} | uses("claim"))], ("RuntimeClass nvidia",), "default/web"
    ),
    "extended-resource-of-pod": Case(
        [pod("web", spec={"resources": {"limits": {NAME: "1"}}})], ("Pod default/web",), NAME
    ),
    "pod-missed": Case([*OLD, pod("web", asking())], ("Pod default/web",), f"it asks for {NAME}"),
    "pod-left-alone": Case(
        [*OLD, pod("web", asking(), metadata={"annotations": {"drabridge.io/rewrite": "false"}})],
        ("Pod default/web",),
        "OptedOut",
        "remove the annotation",
    ),
    "autoscaler-blind": Case(
        [*NEW, pod("web", asking()), workload("Deployment", "karpenter", "karpenter/controller:1.9")],
        (f"resource name {NAME}",),
        "Deployment drabridge-system/karpenter; 1 Pod waiting",
    ),
    "no-preemption": Case(
        [
            server("v1.37.0"),
            resource_slice("a", published=devices(1)),
            device_class(),
            claim("low", results=[result()], reserved=["low"]),
            pod("low", spec={"nodeName": "node-1", "priority": 1} | uses("low")),
            claim("high"),
            pod("high", spec={"priority": 100} | uses("high")),
        ],
        ("Pod default/high",),
        "default/low with priority 1 has devices",
    ),
    "kueue-does-not-count": Case(
        [
            *NEW,
            workload("Deployment", "kueue-controller-manager", "registry.k8s.io/kueue/kueue:v0.17.1"),
            pod("web", asking(), metadata={"labels": {"kueue.x-k8s.io/queue-name": "team"}}),
        ],
        ("Deployment drabridge-system/kueue-controller-manager",),
        "1 Pod: default/web",
    ),
    # drabridge
    "webhook-missing": Case([BRIDGE[0]], ("MutatingWebhookConfiguration drabridge",)),
    "webhook-untrusted": Case(
        [webhook(clientConfig={"service": {"name": "w", "namespace": "n"}})], ("webhook pods.example.com",)
    ),
    "webhook-left-behind": Case([webhook()], ("MutatingWebhookConfiguration drabridge",)),
    "webhook-stops-pods": Case(
        [
            webhook("strict", failurePolicy="Fail"),
            webhook("narrow", failurePolicy="Fail", namespaceSelector={"matchLabels": {"a": "b"}}),
        ],
        ("MutatingWebhookConfiguration strict",),
        "somewhere/webhook",
    ),
    "drabridge-not-ready": Case(
        [workload("Deployment", "drabridge", "drabridge:0.1.0", ready=0)], ("Deployment drabridge-system/drabridge",)
    ),
    "drabridge-needed": Case(OLD, (f"resource name {NAME}",), "GateOff"),
    "drabridge-removable": Case([*NEW, *BRIDGE], ("drabridge",), "no rewritten Pod"),
    "companion-left-behind": Case(
        [
            quota(
                "drabridge-quota",
                {f"{DRIVER}.deviceclass.resource.k8s.io/devices": "2"},
                metadata={"labels": {"drabridge.io/companion-of": "uid-gone"}},
            )
        ],
        ("ResourceQuota default/drabridge-quota",),
    ),
    "policy-redundant": Case([*NEW, policy()], ("ExtendedResourcePolicy gpu",), f"declares {NAME}"),
    "annotation-redundant": Case(
        [
            device_class(
                metadata={"annotations": {"drabridge.io/extended-resource-name": NAME}}, extendedResourceName=NAME
            )
        ],
        (f"DeviceClass {DRIVER}",),
        cure=f"kubectl annotate deviceclass {DRIVER} drabridge.io/extended-resource-name-",
    ),
}


@pytest.mark.parametrize("identity", CASES, ids=CASES)
def test_check_finds(identity: str) -> None:
    case = CASES[identity]
    findings = list(CHECKS[identity].find(inventory(case.objects)))
    assert tuple(sorted(each.object for each in findings)) == case.finds
    assert case.evidence in findings[0].evidence
    assert case.cure in (findings[0].cure or CHECKS[identity].cure)


def test_each_check_has_a_case() -> None:
    assert CASES.keys() == CHECKS.keys()


def test_checks_are_many_and_each_says_what_it_serves() -> None:
    assert len(CHECKS) == sum(map(len, THEMES.values())) >= 40
    for check in CHECKS.values():
        assert check.says.endswith(".")
        assert check.cure
        assert not check.cure.endswith(".")
        assert check.serves.startswith(("pain ", "trap: "))
        assert check.link.startswith("https://")


@pytest.mark.parametrize("identity", CASES, ids=CASES)
def test_no_check_needs_anything_to_be_there(identity: str) -> None:
    assert list(CHECKS[identity].find(Inventory())) == [] or identity == "gate-unknown"
