"""The frozen view of a Pod that decisions read.

Thousands of them are cached, so a view holds what somebody decides on and nothing else, and is made in microseconds.
Its mappings are never written to. What the API server would refuse anyway is not checked here, except where it would
make the view itself wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Self

from drabridge.core.errors import InvalidInput, quoted
from drabridge.core.names import is_extended
from drabridge.core.quantity import Quantity

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""What the API server fills in for an empty `spec.schedulerName`."""

MIRROR: Final = "kubernetes.io/config.mirror"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_OURS: Final = "drabridge.io/"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
_NO_WORDS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType({})


class ContainerKind(StrEnum):
    """When a container runs, which decides what it may share devices with (KEP-753)."""

    INIT = "init"
    """Runs to its end before the next container starts."""

    SIDECAR = "sidecar"
    """An init container with restartPolicy Always: starts in its turn and stays."""

    APP = "app"


@dataclass(frozen=True, slots=True)
class ContainerClaim:
    """An entry of a container's `resources.claims`. `request` is None where the container uses the whole claim."""

    name: str
    request: str | None


@dataclass(frozen=True, slots=True)
class Container:
    """An init or app container.

    `index` counts init containers first, then app containers, as KEP-5004 does; `path` is the container's JSON pointer
    ("/spec/initContainers/0"). `requests` and `limits` are quantities as written, so that a malformed one can be shown.
    `has_resources` says whether `resources` is there for a JSON patch to add to.
    """

    index: int
    path: str
    name: str
    kind: ContainerKind
    requests: Mapping[str, str]
    limits: Mapping[str, str]
    claims: tuple[ContainerClaim, ...]
    has_resources: bool

    @property
    def request_keys(self) -> tuple[str, ...]:
        """The sorted keys of `resources.requests` once the API server has defaulted them from the limits."""
        return tuple(sorted({*self.requests, *self.limits}))

    @property
    def field(self) -> str:
        """Where the container stands, as messages of the API server put it: "spec.initContainers[0]"."""
        _, spec, plural, position = self.path.split("/")
        return f"{spec}.{plural}[{position}]"


@dataclass(frozen=True, slots=True)
class Ask:
    """A container asks for an extended resource. `limit` is None where only a request is written."""

    container: Container
    resource: str
    request: str
    limit: str | None

    @property
    def path(self) -> str:
        """The field that the request stands in, or the limit where the request comes from that."""
        where = "requests" if self.resource in self.container.requests else "limits"
        return f"{self.container.field}.resources.{where}['{self.resource}']"


@dataclass(frozen=True, slots=True)
class PodClaim:
    """An entry of `spec.resourceClaims`."""

    name: str
    claim_name: str | None
    template_name: str | None


@dataclass(frozen=True, slots=True)
class OwnerView:
    """The owner reference with `controller: true`."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodView:
    """What drabridge knows of a Pod.

    `name` is empty at admission if the API server is to generate it. `created` is the creationTimestamp as written
    (RFC 3339, empty at admission). `conditions` leads from type to status. `extended_claim` is the claim that
    kube-scheduler made (`status.extendedResourceClaimStatus`). `grouped` is whether it has a `spec.schedulingGroup`.
    `denied` leads from the type of a condition of drabridge's that is False to its reason and message. `unhealthy` are
    the devices of which the kubelet says so, with its message. Of the annotations, kubectl's copy of the manifest is
    left out: it can be large, and says nothing that the Pod does not say. `has_annotations` and `annotation_bytes` (of
    keys and values, in UTF-8) count it.
    """

    namespace: str
    name: str
    generate_name: str
    uid: str
    resource_version: str
    created: str
    deleting: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    has_annotations: bool
    annotation_bytes: int
    owner: OwnerView | None
    node_name: str
    scheduler_name: str
    containers: tuple[Container, ...]
    resource_claims: tuple[PodClaim, ...]
    phase: str
    conditions: Mapping[str, str]
    extended_claim: str | None
    grouped: bool
    denied: Mapping[str, tuple[str, str]]
    unhealthy: tuple[str, ...]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Read a v1 Pod as the API sends it. Unknown fields are ignored, null is the same as absent.

        Raises InvalidInput with the field's path where the shape is wrong.
        """
        try:
            return cls._read(raw)
        except _ShapeError as shape:
            raise InvalidInput(_described(raw), shape.path, shape.problem, "send a Pod of the v1 API") from None

    @classmethod
    def _read(cls, raw: Mapping[str, Any]) -> Self:
        metadata = _object(raw, "metadata", "metadata")
        spec = _object(raw, "spec", "spec")
        status = _object(raw, "status", "status")
        extended = _object(status, "extendedResourceClaimStatus", "status.extendedResourceClaimStatus")
        annotations = _texts(metadata, "annotations", "metadata.annotations")
        annotation_bytes = sum(len(text.encode(errors="replace")) for pair in annotations.items() for text in pair)
        if _LAST_APPLIED in annotations:
            annotations = {key: value for key, value in annotations.items() if key != _LAST_APPLIED}
        return cls(
            namespace=_text(metadata, "namespace", "metadata"),
            name=_text(metadata, "name", "metadata"),
            generate_name=_text(metadata, "generateName", "metadata"),
            uid=_text(metadata, "uid", "metadata"),
            resource_version=_text(metadata, "resourceVersion", "metadata"),
            created=_text(metadata, "creationTimestamp", "metadata"),
            deleting=metadata.get("deletionTimestamp") is not None,
            labels=_texts(metadata, "labels", "metadata.labels"),
            annotations=annotations,
            has_annotations=bool(metadata.get("annotations")),
            annotation_bytes=annotation_bytes,
            owner=_owner(metadata),
            node_name=_text(spec, "nodeName", "spec"),
            scheduler_name=_text(spec, "schedulerName", "spec") or DEFAULT_SCHEDULER,
            containers=_containers(spec),
            resource_claims=tuple(
                PodClaim(
                    _text(claim, "name", path),
                    _text(claim, "resourceClaimName", path) or None,
                    _text(claim, "resourceClaimTemplateName", path) or None,
                )
                for claim, path in _objects(spec, "resourceClaims", "spec.resourceClaims")
            ),
            phase=_text(status, "phase", "status"),
            conditions={
                _text(condition, "type", path): _text(condition, "status", path)
                for condition, path in _objects(status, "conditions", "status.conditions")
            }
            or _NOTHING,
            extended_claim=_text(extended, "resourceClaimName", "status.extendedResourceClaimStatus") or None,
            grouped=spec.get("schedulingGroup") is not None,
            denied={
                _text(condition, "type", path): (_text(condition, "reason", path), _text(condition, "message", path))
                for condition, path in _objects(status, "conditions", "status.conditions")
                if condition.get("status") == "False" and _text(condition, "type", path).startswith(_OURS)
            }
            or _NO_WORDS,
            unhealthy=tuple(sorted(_unhealthy(status))),
        )

    @property
    def key(self) -> str:
        """Namespace and name, "default/web"."""
        return f"{self.namespace}/{self.name}"

    @property
    def described(self) -> str:
        """How messages call the Pod: "Pod default/web", or "Pod default/web-*" as long as it has no name."""
        return f"Pod {self.namespace}/{self.name or self.generate_name + '*'}"

    @property
    def mirror(self) -> bool:
        """Whether this is the API server's picture of a static Pod, which nobody schedules."""
        return MIRROR in self.annotations

    def extended(self) -> tuple[Ask, ...]:
        """Everything that containers ask of extended resources, by container and then by name.

        Requests are defaulted from limits as the API server does. Zero means not asked (KEP-5004); a quantity that
        cannot be read is kept, for the caller to report.
        """
        return tuple(
            Ask(container, resource, request, container.limits.get(resource))
            for container in self.containers
            for resource in container.request_keys
            if is_extended(resource)
            and not _is_zero(request := container.requests.get(resource, container.limits.get(resource, "")))
        )


def _is_zero(text: str) -> bool:
    try:
        return Quantity.parse(text).mantissa == 0
    except ValueError:
        return False


def _described(raw: Mapping[str, Any]) -> str:
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping):
        return "Pod"
    name = metadata.get("name") or f"{metadata.get('generateName') or ''}*"
    return f"Pod {metadata.get('namespace') or ''}/{name}"


def _owner(metadata: Mapping[str, Any]) -> OwnerView | None:
    for reference, path in _objects(metadata, "ownerReferences", "metadata.ownerReferences"):
        if reference.get("controller") is True:
            return OwnerView(
                _text(reference, "kind", path), _text(reference, "name", path), _text(reference, "uid", path)
            )
    return None


def _unhealthy(status: Mapping[str, Any]) -> set[str]:
    """What `allocatedResourcesStatus` of the containers says (KEP-4680); several of them may use one device."""
    found = set()
    for plural in ("initContainerStatuses", "containerStatuses"):
        for container, path in _objects(status, plural, f"status.{plural}"):
            for entry, at in _objects(container, "allocatedResourcesStatus", f"{path}.allocatedResourcesStatus"):
                for resource, where in _objects(entry, "resources", f"{at}.resources"):
                    if resource.get("health") == "Unhealthy":
                        message = _text(resource, "message", where)
                        found.add(_text(resource, "resourceID", where) + (f" ({message})" if message else ""))
    return found


def _containers(spec: Mapping[str, Any]) -> tuple[Container, ...]:
    found: list[Container] = []
    for plural in ("initContainers", "containers"):
        for position, (raw, path) in enumerate(_objects(spec, plural, f"spec.{plural}")):
            kind = ContainerKind.APP
            if plural == "initContainers":
                always = _text(raw, "restartPolicy", path) == "Always"
                kind = ContainerKind.SIDECAR if always else ContainerKind.INIT
            at = f"{path}.resources"
            resources = _object(raw, "resources", at)
            found.append(
                Container(
                    index=len(found),
                    path=f"/spec/{plural}/{position}",
                    name=_text(raw, "name", path),
                    kind=kind,
                    requests=_quantities(resources, "requests", at),
                    limits=_quantities(resources, "limits", at),
                    claims=tuple(
                        ContainerClaim(_text(claim, "name", where), _text(claim, "request", where) or None)
                        for claim, where in _objects(resources, "claims", f"{at}.claims")
                    ),
                    has_resources=raw.get("resources") is not None,
                )
            )
    return tuple(found)


class _ShapeError(Exception):
    """The Pod has not the shape of the API; the reader that sees the whole Pod makes an InvalidInput of it."""

    def __init__(self, path: str, value: object, want: str) -> None:
        super().__init__(path)
        self.path = path
        self.problem = f"is {quoted(value)}, not {want}"


def _object(raw: Mapping[str, Any], name: str, path: str) -> Mapping[str, Any]:
    value = raw.get(name)
    if value is None:
        return _NOTHING
    if not isinstance(value, Mapping):
        raise _ShapeError(path, value, "an object")
    return value


def _objects(raw: Mapping[str, Any], name: str, path: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    value = raw.get(name)
    if value is None:
        return
    if not isinstance(value, list):
        raise _ShapeError(path, value, "a list")
    for i, entry in enumerate(value):
        where = f"{path}[{i}]"
        if not isinstance(entry, Mapping):
            raise _ShapeError(where, entry, "an object")
        yield entry, where


def _text(raw: Mapping[str, Any], name: str, path: str) -> str:
    value = raw.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _ShapeError(f"{path}.{name}", value, "a string")
    return value


def _texts(raw: Mapping[str, Any], name: str, path: str) -> Mapping[str, str]:
    values = _object(raw, name, path)
    for key, value in values.items():
        if not isinstance(value, str):
            raise _ShapeError(f"{path}['{key}']", value, "a string")
    return values


def _quantities(raw: Mapping[str, Any], name: str, path: str) -> Mapping[str, str]:
    """Read a ResourceList; the API takes numbers for quantities too, as a manifest may have them."""
    values = _object(raw, name, f"{path}.{name}")
    texts = {}
    for key, value in values.items():
        if isinstance(value, bool) or not isinstance(value, str | int | float | None):
            raise _ShapeError(f"{path}.{name}['{key}']", value, "a quantity")
        texts[key] = "0" if value is None else str(value).strip()  # null is zero to the API server
    return texts or _NOTHING
