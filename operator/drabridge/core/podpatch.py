"""Changes of a Pod as JSON patches (RFC 6902), each empty where the Pod is as it should be already."""

from collections.abc import Mapping, Sequence
from typing import Any

from drabridge.core.podview import Container, ContainerClaim, PodView

JSONPatch = list[dict[str, Any]]
"""RFC 6902. `add` replaces what is there, so it is used for both."""


def set_resources(
    container: Container,
    quantities: Mapping[str, tuple[str | None, str | None]],
    claims: Sequence[ContainerClaim],
) -> JSONPatch:
    """Let the container ask for these quantities besides its others, and use these claims, in this order.

    `quantities` is resource name -> request and limit; None takes the name away there.
    """
    requests = {name: request for name, (request, _) in quantities.items()}
    limits = {name: limit for name, (_, limit) in quantities.items()}
    value = [{"name": claim.name} | ({"request": claim.request} if claim.request else {}) for claim in claims]
    path = f"{container.path}/resources"
    if not container.has_resources:
        made = {"requests": _present(requests), "limits": _present(limits), "claims": value}
        made = {field: each for field, each in made.items() if each}
        return [{"op": "add", "path": path, "value": made}] if made else []
    patch = _set_keys(f"{path}/requests", container.requests, bool(container.requests), requests)
    patch += _set_keys(f"{path}/limits", container.limits, bool(container.limits), limits)
    if tuple(claims) != container.claims:
        patch.append({"op": "add", "path": f"{path}/claims", "value": value})
    return patch


def set_entry(pod: PodView, entry: str, claim_name: str, index: int | None = None) -> JSONPatch:
    """Let the entry of spec.resourceClaims point to a claim of that name; other entries stay.

    If it is missing, it comes to `index`, or to the end.
    """
    value = {"name": entry, "resourceClaimName": claim_name}
    for place, claim in enumerate(pod.resource_claims):
        if claim.name == entry:
            if claim.claim_name == claim_name:
                return []
            return [{"op": "add", "path": f"/spec/resourceClaims/{place}/resourceClaimName", "value": claim_name}]
    if pod.resource_claims:
        where = "-" if index is None else index
        return [{"op": "add", "path": f"/spec/resourceClaims/{where}", "value": value}]
    return [{"op": "add", "path": "/spec/resourceClaims", "value": [value]}]


def set_labels(pod: PodView, values: Mapping[str, str]) -> JSONPatch:
    """Let the Pod have these labels besides its others."""
    return _set_keys("/metadata/labels", pod.labels, bool(pod.labels), values)


def set_annotations(pod: PodView, values: Mapping[str, str]) -> JSONPatch:
    """Let the Pod have these annotations besides its others."""
    return _set_keys("/metadata/annotations", pod.annotations, pod.has_annotations, values)


def remove_annotation(pod: PodView, key: str) -> JSONPatch:
    """Let the Pod not have this annotation."""
    return _set_keys("/metadata/annotations", pod.annotations, pod.has_annotations, {key: None})


def _set_keys(path: str, present: Mapping[str, str], exists: bool, wanted: Mapping[str, str | None]) -> JSONPatch:
    """Change keys of a map; None removes one. `exists` is false for a map that may be missing, null or empty."""
    gone = [key for key, value in wanted.items() if value is None and key in present]
    changed = {key: value for key, value in _present(wanted).items() if present.get(key) != value}
    if changed and not exists:
        return [{"op": "add", "path": path, "value": changed}]  # the whole of it, which is right for all three
    patch: JSONPatch = [{"op": "remove", "path": f"{path}/{_escape(key)}"} for key in gone]
    return patch + [{"op": "add", "path": f"{path}/{_escape(key)}", "value": value} for key, value in changed.items()]


def _present(wanted: Mapping[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in wanted.items() if value is not None}


def _escape(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
