"""Objects of whole clusters, as kubectl shows them, for tests that look at many at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from drabridge.api.policy import ExtendedResourcePolicy
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.core.inventory.gathering import Gathering

Object = dict[str, Any]

NOW = datetime(2026, 12, 1, 12, tzinfo=UTC)
LATELY = "2026-12-01T11:59:00Z"
LONG_AGO = "2026-12-01T08:00:00Z"
DRIVER = "gpu.example.com"
NAME = "example.com/gpu"
DEVICE_API = "resource.k8s.io/v1"
RBAC_API = "rbac.authorization.k8s.io/v1"


def inventory(objects: Iterable[Object], *, unseen: Iterable[Kind] = (), keep: Collection[Kind] = ()) -> Inventory:
    """What a cluster with these objects looks like, at NOW."""
    gathering = Gathering(lambda raw: ExtendedResourcePolicy.parse(raw).view(), keep)
    for each in objects:
        assert gathering.take(each), each
    return gathering.inventory(NOW, unseen=dict.fromkeys(unseen, "forbidden"))


def server(version: str) -> Object:
    return {"clientVersion": {}, "serverVersion": {"gitVersion": version}}


def made(api: str, kind: str, name: str, namespace: str | None = "default", **more: Any) -> Object:
    metadata: Object = {"name": name, "uid": f"uid-{name}", "creationTimestamp": LONG_AGO, **more.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **more}


def node(
    name: str,
    *,
    kubelet: str = "v1.37.0",
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, int] | None = None,
    taints: Iterable[Object] = (),
) -> Object:
    return made(
        "v1",
        "Node",
        name,
        None,
        metadata={"labels": dict(labels or {})},
        spec={"taints": list(taints)},
        status={
            "nodeInfo": {"kubeletVersion": kubelet},
            "allocatable": {"cpu": "8", **{key: str(value) for key, value in (allocatable or {}).items()}},
        },
    )


def taint(key: str, value: str = "", effect: str = "NoSchedule") -> Object:
    return {"key": key, "value": value, "effect": effect}


def device(name: str, **more: Any) -> Object:
    return {"name": name, "attributes": {"model": {"string": "a100"}}, **more}


def devices(count: int, **more: Any) -> list[Object]:
    return [device(f"gpu-{number}", **more) for number in range(count)]


def resource_slice(
    name: str,
    node_name: str | None = "node-1",
    *,
    driver: str = DRIVER,
    pool: str | None = None,
    generation: int = 1,
    expected: int = 1,
    published: list[Object] | None = None,
    **spec: Any,
) -> Object:
    return made(
        DEVICE_API,
        "ResourceSlice",
        name,
        None,
        spec={
            "driver": driver,
            "pool": {"name": pool or node_name or name, "generation": generation, "resourceSliceCount": expected},
            **({"nodeName": node_name} if node_name else {}),
            "devices": devices(2) if published is None else published,
            **spec,
        },
    )


def device_class(name: str = DRIVER, expression: str | None = None, **more: Any) -> Object:
    metadata = more.pop("metadata", {})
    spec = {"selectors": [{"cel": {"expression": expression or f"device.driver == '{DRIVER}'"}}], **more}
    return made(DEVICE_API, "DeviceClass", name, None, metadata=metadata, spec=spec)


def policy(name: str = "gpu", resource: str = NAME, device_class: str = DRIVER, **more: Any) -> Object:
    spec = {"resourceName": resource, "devices": [{"deviceClassName": device_class}], **more.pop("spec", {})}
    return made("drabridge.io/v1alpha1", "ExtendedResourcePolicy", name, None, spec=spec, **more)


def asking(count: int | str = 1, resource: str = NAME) -> Object:
    quantities = {resource: str(count)}
    return {"name": "main", "image": "app", "resources": {"requests": dict(quantities), "limits": dict(quantities)}}


def pod(name: str = "web", *containers: Object, namespace: str = "default", **more: Any) -> Object:
    """A Pod that waits, unless `spec` names its node; `status` and `metadata` are added as they are."""
    spec = more.pop("spec", {})
    status = {"phase": "Running" if "nodeName" in spec else "Pending", **more.pop("status", {})}
    body = {"containers": list(containers or [asking(0)]), **spec}
    return made("v1", "Pod", name, namespace, spec=body, status=status, **more)


def owned_by(kind: str, name: str) -> Object:
    reference = {"apiVersion": "v1", "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
    return {"ownerReferences": [reference]}


def uses(claim: str, entry: str = "gpu") -> Object:
    """The spec of a Pod that names a claim."""
    return {"resourceClaims": [{"name": entry, "resourceClaimName": claim}]}


def from_template(template: str, entry: str = "gpu") -> Object:
    return {"resourceClaims": [{"name": entry, "resourceClaimTemplateName": template}]}


def exactly(count: int = 1, name: str = "one", device_class: str = DRIVER, **more: Any) -> Object:
    return {"name": name, "exactly": {"deviceClassName": device_class, "count": count, **more}}


def result(name: str = "gpu-0", pool: str = "node-1", *, driver: str = DRIVER, **more: Any) -> Object:
    return {"request": "one", "driver": driver, "pool": pool, "device": name, **more}


def claim(
    name: str = "claim",
    *requests: Object,
    results: Iterable[Object] | None = None,
    reserved: Iterable[str] = (),
    **more: Any,
) -> Object:
    """A claim; `results` allocate it, `reserved` are names of Pods."""
    status: Object = {}
    if results is not None:
        status["allocation"] = {"devices": {"results": list(results)}}
    if users := list(reserved):
        status["reservedFor"] = [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]
    spec = {"devices": {"requests": list(requests or [exactly()])}}
    return made(DEVICE_API, "ResourceClaim", name, more.pop("namespace", "default"), spec=spec, status=status, **more)


def template(name: str, *requests: Object) -> Object:
    spec = {"spec": {"devices": {"requests": list(requests or [exactly()])}}}
    return made(DEVICE_API, "ResourceClaimTemplate", name, spec=spec)


def special(owner: str) -> Object:
    """Metadata of a claim that kube-scheduler made for a Pod's extended resources."""
    return {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}, **owned_by("Pod", owner)}


def native(claim_name: str) -> Object:
    """The status of a Pod that is served natively."""
    mapping = {"containerName": "main", "resourceName": NAME, "requestName": "one"}
    return {"extendedResourceClaimStatus": {"resourceClaimName": claim_name, "requestMappings": [mapping]}}


def component(name: str, version: str, *words: str, node_name: str = "cp-1") -> Object:
    """A static Pod of the control plane."""
    return pod(
        f"{name}-{node_name}",
        {"name": name, "image": f"registry.example/{name}:{version}", "command": [name, *words]},
        namespace="kube-system",
        metadata={"labels": {"component": name}},
        spec={"nodeName": node_name},
    )


def workload(kind: str, name: str, image: str, *words: str, ready: int = 1, **spec: Any) -> Object:
    body = {"containers": [{"name": "main", "image": image, "args": list(words)}], **spec}
    status = {"readyReplicas": ready} if kind == "Deployment" else {"desiredNumberScheduled": 1, "numberReady": ready}
    return made("apps/v1", kind, name, "drabridge-system", spec={"template": {"spec": body}}, status=status)


def quota(name: str = "quota", hard: Mapping[str, str] | None = None, **more: Any) -> Object:
    status = more.pop("status", {"hard": dict(hard or {})})
    return made("v1", "ResourceQuota", name, spec={"hard": dict(hard or {})}, status=status, **more)


def role(name: str, *rules: Object, kind: str = "ClusterRole", **more: Any) -> Object:
    return made(RBAC_API, kind, name, None if kind == "ClusterRole" else "default", rules=list(rules), **more)


def rule(group: str, resources: str, verbs: str) -> Object:
    return {"apiGroups": [group], "resources": resources.split(), "verbs": verbs.split()}


def binding(name: str, role_name: str, subject: str, *, kind: str = "RoleBinding") -> Object:
    return made(
        RBAC_API,
        kind,
        name,
        "default" if kind == "RoleBinding" else None,
        roleRef={"kind": "ClusterRole", "name": role_name},
        subjects=[{"kind": "User", "name": subject}],
    )


def webhook(configuration: str = "drabridge", **more: Any) -> Object:
    hook = {
        "name": "pods.example.com",
        "clientConfig": {"service": {"name": "webhook", "namespace": "somewhere"}, "caBundle": "eA=="},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}],
        "failurePolicy": "Ignore",
        **more,
    }
    api = "admissionregistration.k8s.io/v1"
    return made(api, "MutatingWebhookConfiguration", configuration, None, webhooks=[hook])


BRIDGE = [workload("Deployment", "drabridge", "registry.example/drabridge:0.1.0"), webhook()]
"""drabridge is installed and registered."""
