"""Raw objects of the API, in the words of a test: `pod("web").init(gpu=1).app(gpu=4, cpu="100m").raw()`."""

from __future__ import annotations

import copy
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import jsonpatch

from drabridge.core.caps import Cap, Limit
from drabridge.core.classmap import NAME_ANNOTATION, ClassMap, ClassView
from drabridge.core.cluster import ClusterView, Gate, NamespaceFacts, NodeFacts
from drabridge.core.podview import PodView
from drabridge.core.policy import Coexistence, Delivery, PolicyView, effective
from drabridge.core.rewrite import ClaimNames, LeaveAlone, Rewrite, decide
from drabridge.core.selectors import LabelSelector

GPU: Final = "example.com/gpu"
NIC: Final = "example.com/nic"
IMPLICIT_GPU: Final = "deviceclass.resource.kubernetes.io/gpu"

CLAIM: Final = "drabridge-0123456789abcdef"
OTHER_CLAIM: Final = "drabridge-fedcba9876543210"

NAMES: Final = {"gpu": GPU, "nic": NIC, "implicit_gpu": IMPLICIT_GPU}
"""Keywords that stand for extended resources; any other keyword is the resource's name itself."""


@dataclass(frozen=True)
class PodBuilder:
    """A Pod as the API server stores it. Every method returns a new builder; containers are called c0, c1, ...

    A container's number is its index in init containers + app containers, as in KEP-5004.
    """

    metadata: dict[str, Any]
    spec: dict[str, Any]
    status: dict[str, Any]

    def init(self, /, name: str = "", *, raw: dict[str, Any] | None = None, **resources: int | str) -> PodBuilder:
        """Add an init container that ends before the next one starts; resources as for `app`."""
        return self._container("initContainers", name, resources, raw or {})

    def sidecar(self, /, name: str = "", *, raw: dict[str, Any] | None = None, **resources: int | str) -> PodBuilder:
        """Add an init container with restartPolicy Always; resources as for `app`."""
        return self._container("initContainers", name, resources, {"restartPolicy": "Always", **(raw or {})})

    def app(self, /, name: str = "", *, raw: dict[str, Any] | None = None, **resources: int | str) -> PodBuilder:
        """Add an app container.

        `resources` become requests, extended ones limits as well; names with a slash go in as `**{"a.b/c": 1}`.
        `raw` is laid over the container, to write what the keywords cannot say.
        """
        return self._container("containers", name, resources, raw or {})

    def labels(self, **labels: str) -> PodBuilder:
        return self._metadata(labels={**self.metadata.get("labels", {}), **labels})

    def annotations(self, annotations: dict[str, str]) -> PodBuilder:
        return self._metadata(annotations={**self.metadata.get("annotations", {}), **annotations})

    def generate_name(self, prefix: str) -> PodBuilder:
        """Take the name away, as in a Pod of a ReplicaSet at admission."""
        metadata = {key: value for key, value in self.metadata.items() if key != "name"}
        return replace(self, metadata={**metadata, "generateName": prefix})

    def owned_by(self, kind: str, name: str, uid: str = "owner-uid") -> PodBuilder:
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": True}
        return self._metadata(ownerReferences=[owner])

    def meta(self, **fields: Any) -> PodBuilder:
        """Set fields of `metadata` as they are."""
        return self._metadata(**fields)

    def with_spec(self, **fields: Any) -> PodBuilder:
        """Set fields of `spec` as they are."""
        return replace(self, spec={**self.spec, **fields})

    def with_status(self, **fields: Any) -> PodBuilder:
        """Set fields of `status` as they are."""
        return replace(self, status={**self.status, **fields})

    def claim(self, name: str, claim: str | None = None, template: str | None = None) -> PodBuilder:
        """Add an entry to `spec.resourceClaims`."""
        entry = {"name": name, "resourceClaimName": claim, "resourceClaimTemplateName": template}
        entries = [*self.spec.get("resourceClaims", []), {key: value for key, value in entry.items() if value}]
        return self.with_spec(resourceClaims=entries)

    def raw(self) -> dict[str, Any]:
        spec = copy.deepcopy(self.spec)
        for i, container in enumerate([*spec.get("initContainers", []), *spec.get("containers", [])]):
            container["name"] = container["name"] or f"c{i}"
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": copy.deepcopy(self.metadata), "spec": spec}
        return {**pod, "status": copy.deepcopy(self.status)} if self.status else pod

    def view(self) -> PodView:
        return PodView.of(self.raw())

    def _metadata(self, **fields: Any) -> PodBuilder:
        return replace(self, metadata={**self.metadata, **fields})

    def _container(self, plural: str, name: str, resources: dict[str, int | str], raw: dict[str, Any]) -> PodBuilder:
        requests = {NAMES.get(key, key): str(value) for key, value in resources.items()}
        limits = {key: value for key, value in requests.items() if "/" in key}
        container: dict[str, Any] = {"name": name, "image": "registry.example/app"}
        if requests:
            container["resources"] = {"requests": requests} | ({"limits": limits} if limits else {})
        return self.with_spec(**{plural: [*self.spec.get(plural, []), {**container, **raw}]})


def pod(name: str = "web", namespace: str = "default") -> PodBuilder:
    return PodBuilder({"name": name, "namespace": namespace}, {}, {})


def device_class(
    name: str, extended: str | None = None, created: str = "2026-01-01T00:00:00Z", annotation: str | None = None
) -> dict[str, Any]:
    """Make a raw DeviceClass; `extended` is the spec's extendedResourceName, `annotation` the name in ours."""
    metadata: dict[str, Any] = {"name": name, "uid": f"uid-of-{name}", "creationTimestamp": created}
    if annotation is not None:
        metadata["annotations"] = {NAME_ANNOTATION: annotation}
    spec = {"extendedResourceName": extended} if extended is not None else {}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec}


GPU_CLASS: Final = device_class("gpu", extended=GPU)
NIC_CLASS: Final = device_class("nic", extended=NIC)


def policy(
    resource: str = GPU,
    device_class: str = "gpu",
    *,
    name: str = "gpu",
    created: str = "2026-01-01T00:00:00Z",
    delivery: Delivery = Delivery.AUTO,
    coexistence: Coexistence = Coexistence.DEVICE_PLUGIN,
    namespaces: dict[str, str] | None = None,
    pods: dict[str, str] | None = None,
) -> PolicyView:
    """Make the view of a policy; `namespaces` and `pods` are the matchLabels of its selectors."""

    def selector(labels: dict[str, str] | None) -> LabelSelector | None:
        return None if labels is None else LabelSelector.parse({"matchLabels": labels}, "policy", "spec")

    return PolicyView(
        name=name,
        uid=f"uid-of-{name}",
        created=created,
        generation=3,
        resource=resource,
        device_class=device_class,
        delivery=delivery,
        coexistence=coexistence,
        namespaces=selector(namespaces),
        pods=selector(pods),
    )


def cluster(
    *classes: dict[str, Any],
    policies: Collection[PolicyView] = (),
    plugins: Mapping[str, str] | None = None,
    old_kubelets: tuple[str, ...] = (),
    labels: Mapping[str, str] | None = None,
    limits: Mapping[str, Limit] | None = None,
    caps: Mapping[str, Cap] | None = None,
    gate: Gate = Gate.OFF,
    settled: Collection[str] = (),
    schedulers: Collection[str] = ("default-scheduler",),
) -> ClusterView:
    """Make a cluster of raw DeviceClasses and policy views; `labels` are those of the Pod's namespace."""
    winners = effective(policies)
    return ClusterView(
        classes=ClassMap.of(
            [ClassView.of(each) for each in classes], {name: each.device_class for name, each in winners.items()}
        ),
        policies=winners,
        nodes=NodeFacts(plugins or {}, old_kubelets),
        namespace=NamespaceFacts(labels or {}, limits or {}, caps or {}),
        gate=gate,
        settled=frozenset(settled),
        schedulers=frozenset(schedulers),
    )


GPU_AND_NIC: Final = cluster(GPU_CLASS, NIC_CLASS)
"""Gate off, a DeviceClass for each name, nothing else."""


def patched(raw: dict[str, Any], verdict: Rewrite | LeaveAlone) -> dict[str, Any]:
    """Apply the patch of a verdict as the API server does."""
    result: dict[str, Any] = jsonpatch.apply_patch(raw, verdict.patch)
    return result


def rewritten(builder: PodBuilder, view: ClusterView = GPU_AND_NIC, fresh: str = CLAIM) -> dict[str, Any]:
    """Make the Pod that is stored after admission has rewritten it."""
    verdict = decide(builder.view(), view, ClaimNames(fresh))
    assert isinstance(verdict, Rewrite), verdict
    return patched(builder.raw(), verdict)
