"""Changes of a Pod as JSON patches (RFC 6902), each empty where the Pod is as it should be already."""

from collections.abc import Mapping, Sequence
from typing import Any

from drabridge.core.podview import Container, ContainerClaim, PodView

JSONPatch = list[dict[str, Any]]
"""RFC 6902. `add` replaces what is there, so it is used for both."""


def set_quantity(container: Container, resource: str, requests: str | None, limits: str | None) -> JSONPatch:
    """Let the container ask for this much of a resource; None takes the name away."""
    patch: JSONPatch = []
    for field, present, wanted in (("requests", container.requests, requests), ("limits", container.limits, limits)):
        path = f"{container.path}/resources/{field}/{_escape(resource)}"
        if wanted is None and resource in present:
            patch.append({"op": "remove", "path": path})
        elif wanted is not None and present.get(resource) != wanted:
            patch.append({"op": "add", "path": path, "value": wanted})
    return patch


def set_claims(container: Container, claims: Sequence[ContainerClaim]) -> JSONPatch:
    """Let the container use these claims, in this order."""
    if tuple(claims) == container.claims:
        return []
    value = [{"name": claim.name} | ({"request": claim.request} if claim.request else {}) for claim in claims]
    if not container.has_resources:
        return [{"op": "add", "path": f"{container.path}/resources", "value": {"claims": value}}]
    return [{"op": "add", "path": f"{container.path}/resources/claims", "value": value}]


def set_entry(pod: PodView, entry: str, claim_name: str) -> JSONPatch:
    """Let the entry of spec.resourceClaims point to a claim of that name; other entries stay."""
    value = {"name": entry, "resourceClaimName": claim_name}
    for index, claim in enumerate(pod.resource_claims):
        if claim.name == entry:
            if claim.claim_name == claim_name:
                return []
            return [{"op": "add", "path": f"/spec/resourceClaims/{index}/resourceClaimName", "value": claim_name}]
    if pod.resource_claims:
        return [{"op": "add", "path": "/spec/resourceClaims/-", "value": value}]
    return [{"op": "add", "path": "/spec/resourceClaims", "value": [value]}]


def set_labels(pod: PodView, values: Mapping[str, str]) -> JSONPatch:
    """Let the Pod have these labels besides its others."""
    return _set_metadata("labels", pod.labels, bool(pod.labels), values)


def set_annotations(pod: PodView, values: Mapping[str, str]) -> JSONPatch:
    """Let the Pod have these annotations besides its others."""
    return _set_metadata("annotations", pod.annotations, pod.has_annotations, values)


def remove_annotation(pod: PodView, key: str) -> JSONPatch:
    """Let the Pod not have this annotation."""
    return [{"op": "remove", "path": f"/metadata/annotations/{_escape(key)}"}] if key in pod.annotations else []


def _set_metadata(field: str, present: Mapping[str, str], exists: bool, values: Mapping[str, str]) -> JSONPatch:
    changed = {key: value for key, value in values.items() if present.get(key) != value}
    if changed and not exists:
        # The map may be missing or null; adding the whole of it is right for both.
        return [{"op": "add", "path": f"/metadata/{field}", "value": changed}]
    return [
        {"op": "add", "path": f"/metadata/{field}/{_escape(key)}", "value": value} for key, value in changed.items()
    ]


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
