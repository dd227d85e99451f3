"""Where an object describes Pods, found by structure, and where else it speaks of extended resources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from drabridge.core.convert.tree import Path
from drabridge.core.errors import quoted
from drabridge.core.reasons import Reason

CONTAINER_LISTS: Final = ("initContainers", "containers", "ephemeralContainers")

NO_CLAIMS: Final[Mapping[tuple[str, str], str]] = {
    ("serving.knative.dev", "Service"): "Knative refuses fields of a PodSpec that it does not know (serving#15332)",
    ("serving.knative.dev", "Configuration"): "Knative refuses fields of a PodSpec that it does not know",
    ("serving.kserve.io", "InferenceService"): "KServe's own PodSpec has no resourceClaims (kserve#5294)",
    ("serving.kserve.io", "ServingRuntime"): "KServe's ServingRuntime has no resourceClaims",
    ("serving.kserve.io", "ClusterServingRuntime"): "KServe's ClusterServingRuntime has no resourceClaims",
    ("argoproj.io", "Workflow"): "the templates of a Workflow have no resourceClaims",
    ("argoproj.io", "WorkflowTemplate"): "the templates of a Workflow have no resourceClaims",
    ("argoproj.io", "ClusterWorkflowTemplate"): "the templates of a Workflow have no resourceClaims",
    ("argoproj.io", "CronWorkflow"): "the templates of a Workflow have no resourceClaims",
}
"""Kinds whose lists of containers are no whole PodSpec: claims would be refused, or dropped without a word."""

POD_SPECS: Final[Mapping[tuple[str, str], Path]] = {
    ("", "Pod"): ("spec",),
    ("", "PodTemplate"): ("template", "spec"),
    ("", "ReplicationController"): ("spec", "template", "spec"),
    ("apps", "Deployment"): ("spec", "template", "spec"),
    ("apps", "StatefulSet"): ("spec", "template", "spec"),
    ("apps", "DaemonSet"): ("spec", "template", "spec"),
    ("apps", "ReplicaSet"): ("spec", "template", "spec"),
    ("batch", "Job"): ("spec", "template", "spec"),
    ("batch", "CronJob"): ("spec", "jobTemplate", "spec", "template", "spec"),
}
"""Where Kubernetes' own kinds describe Pods."""

_QUOTAS: Final = frozenset({("", "ResourceQuota"), ("", "LimitRange"), ("kueue.x-k8s.io", "ClusterQueue")})
_OURS: Final = frozenset({"drabridge.io", "resource.k8s.io"})
"""Groups whose objects say what serves a name, and ask for nothing."""

_ASKING: Final = (("resources", "requests"), ("resources", "limits"))
"""Where names stand in a container."""

_NAMING: Final = frozenset({"name", "deviceName", "resourceName"})
"""Keys whose value may be a resource name: SparkApplication's gpu.name, KubeVirt's deviceName."""


_VERBS: Final = {
    Reason.QUOTA_TO_BE_CHANGED: "capped",
    Reason.NAME_AS_VALUE: "named",
    Reason.INVALID_POD: "of no effect",
}


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A resource name that stands outside the containers of a PodSpec, at `path` in the object."""

    reason: Reason
    resource: str
    path: Path

    @property
    def detail(self) -> str:
        """What the name does there."""
        return f"{self.resource} is {_VERBS.get(self.reason, 'asked for')} there"


def pod_specs(value: object, path: Path = ()) -> Iterator[Path]:
    """Give where the PodSpecs of an object are: mappings with a list of containers."""
    if isinstance(value, dict):
        found = is_pod_spec(value)
        if found:
            yield path
        for key, each in value.items():
            if not (found and key in CONTAINER_LISTS) and not (key == "status" and not path):
                yield from pod_specs(each, (*path, key))
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from pod_specs(each, (*path, i))


def misshapen(kind: tuple[str, str], value: Mapping[str, Any]) -> tuple[Path, str] | None:
    """Where an object of Kubernetes' own is no description of Pods, and what is wrong there.

    What is not there is no fault: patches of manifests leave nearly everything out.
    """
    found: Any = value
    path = POD_SPECS.get(kind, ())
    for i, step in enumerate(path):
        found = found.get(step)
        if found is None:
            return None
        if not isinstance(found, dict):
            return path[: i + 1], f"is {quoted(found)}, not an object"
    for key in CONTAINER_LISTS if path else ():
        containers = found.get(key)
        if containers is None:
            continue
        if not isinstance(containers, list):
            return (*path, key), f"is {quoted(containers)}, not a list"
        for i, each in enumerate(containers):
            if not isinstance(each, dict):
                return (*path, key, i), f"is {quoted(each)}, not an object"
            if "name" not in each and "image" not in each:
                return (*path, key, i), "has neither name nor image"
    return None


def is_pod_spec(value: dict[str, Any]) -> bool:
    """Whether it has a list of containers: mappings with a name or an image."""
    containers = value.get("containers")
    return (
        isinstance(containers, list)
        and bool(containers)
        and all(isinstance(each, dict) for each in containers)
        and any("name" in each or "image" in each for each in containers)
    )


Serves = Callable[[str], bool]
"""Whether a text is the name of a resource that is served."""


def elsewhere(value: object, serves: Serves, kind: tuple[str, str]) -> Iterator[Elsewhere]:
    """Give where resource names stand outside the containers of PodSpecs, and mean devices to somebody.

    `kind` is group and kind of the object. Tolerations, labels and the like may look the same and are not meant.
    """
    if kind[0] in _OURS:
        return
    if kind in _QUOTAS:
        for name, where in _named(value, serves, ()):
            yield Elsewhere(Reason.QUOTA_TO_BE_CHANGED, name, where)
        return
    for key, each, path, in_containers in _entries(value, (), inside=False):
        if in_containers:
            if serves(key) and path[-3:-1] not in _ASKING:
                yield Elsewhere(Reason.INVALID_POD, key, path)
            continue
        if key in ("requests", "limits") and isinstance(each, dict):
            of_pod = kind == ("", "Pod") and path == ("spec", "resources", key)
            reason = Reason.POD_LEVEL if of_pod else Reason.OUTSIDE_CONTAINERS
            for name in filter(serves, map(str, each)):
                yield Elsewhere(reason, name, (*path, name))
        elif key in _NAMING and isinstance(each, str) and serves(each):
            yield Elsewhere(Reason.NAME_AS_VALUE, each, path)


def _entries(value: object, path: Path, *, inside: bool) -> Iterator[tuple[str, object, Path, bool]]:
    """Give all entries of all mappings: key, value, path, and whether they belong to containers of a PodSpec."""
    if isinstance(value, list):
        for i, each in enumerate(value):
            yield from _entries(each, (*path, i), inside=inside)
    elif isinstance(value, dict):
        found = is_pod_spec(value)
        for key, each in value.items():
            within = inside or (found and key in CONTAINER_LISTS)
            yield str(key), each, (*path, key), within
            yield from _entries(each, (*path, key), inside=within)


def _named(value: object, serves: Serves, path: Path) -> Iterator[tuple[str, Path]]:
    if isinstance(value, str) and serves(value):
        yield value, path
    elif isinstance(value, list):
        for i, each in enumerate(value):
            yield from _named(each, serves, (*path, i))
    elif isinstance(value, dict):
        for key, each in value.items():
            if isinstance(key, str) and serves(key.removeprefix("requests.")):
                yield key.removeprefix("requests."), (*path, key)
            else:
                yield from _named(each, serves, (*path, key))
