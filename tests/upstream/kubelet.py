"""What a kubelet and a DRA driver write into the API of a node that nobody runs: pure builders of JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from upstream.api import Object

# A node large enough that only devices are scarce.
CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "500"}
NODE_ADDRESS = "192.0.2.1"  # TEST-NET-1: nobody answers there
POD_ADDRESS = "192.0.2.2"


def node(name: str, *, labels: Mapping[str, str]) -> Object:
    """Give the Node object a kubelet registers."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}},
    }


def node_status(*, allocatable: Mapping[str, str], kubelet_version: str) -> Object:
    """Give the status of a Ready node that offers `allocatable` besides CAPACITY."""
    resources = {**CAPACITY, **allocatable}
    return {
        "capacity": resources,
        "allocatable": resources,
        "addresses": [{"type": "InternalIP", "address": NODE_ADDRESS}],
        "conditions": [
            _condition("Ready", "True", "KubeletReady"),
            _condition("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            _condition("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            _condition("PIDPressure", "False", "KubeletHasSufficientPID"),
        ],
        "nodeInfo": {
            "kubeletVersion": kubelet_version,
            "kubeProxyVersion": "",
            "architecture": "amd64",
            "operatingSystem": "linux",
            "bootID": "",
            "containerRuntimeVersion": "containerd://2.4.2",
            "kernelVersion": "",
            "machineID": "",
            "osImage": "",
            "systemUUID": "",
        },
    }


def devices_of(driver: str, count: int) -> list[Object]:
    """Give `count` devices as a ResourceSlice lists them, with a model, an index and memory.

    They are called after the driver: `gpu-0`, … of gpu.example.com.
    """
    kind = driver.partition(".")[0]
    return [
        {
            "name": f"{kind}-{index}",
            "attributes": {"model": {"string": "example-80g"}, "index": {"int": index}},
            "capacity": {"memory": {"value": "80Gi"}},
        }
        for index in range(count)
    ]


def resource_slice(owner: Object, *, driver: str, pool: str, devices: int) -> Object:
    """Give the ResourceSlice of a node's driver."""
    name = owner["metadata"]["name"]
    reference = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": owner["metadata"]["uid"], "controller": True}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{name}-{driver}", "ownerReferences": [reference]},
        "spec": {
            "driver": driver,
            "nodeName": name,
            "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
            "devices": devices_of(driver, devices),
        },
    }


def claim_names(pod: Object) -> Iterator[str]:
    """Give the names of all ResourceClaims a Pod uses. Raises ValueError if one of a template is not made yet."""
    made = {entry["name"]: entry.get("resourceClaimName") for entry in pod["status"].get("resourceClaimStatuses", ())}
    for entry in pod["spec"].get("resourceClaims", ()):
        if name := entry.get("resourceClaimName"):
            yield name
        elif entry["name"] not in made:
            raise ValueError(f"the claim {entry['name']!r} of its template is not made yet")
        elif name := made[entry["name"]]:  # null: the template's claim is not needed
            yield name
    if special := pod["status"].get("extendedResourceClaimStatus"):
        yield special["resourceClaimName"]


def running_status(pod: Object) -> Object:
    """Give the status of a Pod whose containers have started and are ready; init containers are done, sidecars run."""
    statuses: Object = {"containerStatuses": [_container(each, _running()) for each in pod["spec"]["containers"]]}
    if inits := pod["spec"].get("initContainers"):
        statuses["initContainerStatuses"] = [
            _container(each, _running() if _is_sidecar(each) else _terminated(0)) for each in inits
        ]
    return {
        "phase": "Running",
        "startTime": _now(),
        "hostIP": NODE_ADDRESS,
        "hostIPs": [{"ip": NODE_ADDRESS}],
        "podIP": POD_ADDRESS,
        "podIPs": [{"ip": POD_ADDRESS}],
        "conditions": [
            _condition(name, "True")
            for name in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
        ],
        **statuses,
    }


def finished_status(pod: Object, phase: str) -> Object:
    """Give the status of a Pod that has ended, all containers with it; `phase` is Succeeded or Failed."""
    exit_code = {"Succeeded": 0, "Failed": 1}[phase]
    reason = "PodCompleted" if phase == "Succeeded" else "PodFailed"
    statuses: Object = {
        "containerStatuses": [_container(each, _terminated(exit_code)) for each in pod["spec"]["containers"]]
    }
    if inits := pod["spec"].get("initContainers"):
        statuses["initContainerStatuses"] = [_container(each, _terminated(0)) for each in inits]
    return {
        "phase": phase,
        "conditions": [
            _condition("PodReadyToStartContainers", "False"),
            _condition("Initialized", "True", "PodCompleted"),
            _condition("Ready", "False", reason),
            _condition("ContainersReady", "False", reason),
        ],
        **statuses,
    }


def _is_sidecar(container: Object) -> bool:
    return container.get("restartPolicy") == "Always"


def _container(container: Object, state: Object) -> Object:
    running = "running" in state
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": container["image"],
        "containerID": f"containerd://{container['name']}",
        "restartCount": 0,
        "started": running,
        "ready": running or state["terminated"]["exitCode"] == 0,
        "state": state,
    }


def _running() -> Object:
    return {"running": {"startedAt": _now()}}


def _terminated(exit_code: int) -> Object:
    reason = "Error" if exit_code else "Completed"
    return {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": _now(), "finishedAt": _now()}}


def _condition(name: str, status: str, reason: str = "") -> dict[str, Any]:
    return {"type": name, "status": status, "reason": reason, "lastTransitionTime": _now()}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
