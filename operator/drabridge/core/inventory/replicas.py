"""The Pods that a manifest of a workload would make, as its controller writes them.

A workload with a uid is one of a cluster, which has made its Pods already: they are seen by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from drabridge.core.errors import InvalidInput
from drabridge.core.inventory.shape import Raw, number, part, text

MOST: Final = 100_000
"""Pods of one workload."""

DAEMON_SET: Final = "DaemonSet"

WORKLOADS: Final[Mapping[str, str]] = {
    "Deployment": "apps",
    "StatefulSet": "apps",
    "ReplicaSet": "apps",
    DAEMON_SET: "apps",
    "Job": "batch",
    "CronJob": "batch",
    "ReplicationController": "",
}
"""Kind -> API group."""

_CORDONED: Final = {"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}
"""What the DaemonSet controller lets its Pods tolerate, of what matters here."""


def is_workload(raw: Raw) -> bool:
    """Whether it is of a kind that makes Pods."""
    kind, version = raw.get("kind"), raw.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(version, str):
        return False
    return WORKLOADS.get(kind) == version.rpartition("/")[0]


def pods_of(raw: Raw) -> Iterator[Raw]:
    """The Pods of a workload that is not in a cluster yet; one for a DaemonSet, which stands for one a node.

    Raises InvalidInput where the workload has another shape than the API's.
    """
    try:
        yield from _pods_of(raw)
    except (TypeError, ValueError) as error:
        described = f"{raw.get('kind')} {part(raw, 'metadata').get('name', '?')}"
        raise InvalidInput(described, "spec", str(error), "correct the manifest") from None


def _pods_of(raw: Raw) -> Iterator[Raw]:
    kind, metadata = text(raw, "kind"), part(raw, "metadata")
    if text(metadata, "uid"):
        return
    spec = part(raw, "spec", "jobTemplate", "spec") if kind == "CronJob" else part(raw, "spec")
    name, namespace = text(metadata, "name") or text(metadata, "generateName"), text(metadata, "namespace")
    count = _count(kind, spec)
    if count > MOST:
        raise ValueError(f"it makes {count} Pods, more than {MOST}")
    owner = {"apiVersion": text(raw, "apiVersion"), "kind": kind, "name": name, "controller": True}
    about = part(spec, "template", "metadata")
    for index in range(count):
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": namespace or "default",
                "name": f"{name}-{index}",
                "labels": about.get("labels"),
                "annotations": about.get("annotations"),
                "ownerReferences": [owner],
            },
            "spec": _spec(kind, part(spec, "template", "spec")),
        }


def _count(kind: str, spec: Raw) -> int:
    """How many Pods there are at a time."""
    if kind == DAEMON_SET:
        return 1
    if kind not in ("Job", "CronJob"):
        return number(spec, "replicas", 1)
    if spec.get("suspend") is True:
        return 0
    parallelism = number(spec, "parallelism", 1)
    return min(parallelism, number(spec, "completions", parallelism))


def _spec(kind: str, spec: Raw) -> Mapping[str, Any]:
    if kind != DAEMON_SET:
        return spec
    return {**spec, "tolerations": [*(spec.get("tolerations") or ()), _CORDONED]}
