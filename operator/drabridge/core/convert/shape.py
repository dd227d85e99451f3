"""What the containers of a Pod ask for -> the ResourceClaimTemplate that gives it, shared by all Pods of one shape."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from drabridge.core.claimspec import ClaimPlan, ContainerDemand, plan
from drabridge.core.names import implicit_class, is_extended

ASKED: Final = "drabridge.io/converted-from"
"""Annotation of a template: what the containers asked for, by position, init containers first. JSON."""

TOLERATED: Final = "drabridge.io/tolerated-before"
"""Annotation of a template: names whose toleration the Pods had before, written in flow style. Comma-separated.

A toleration that we add is marked by a comment, for which there is no room in flow style: there the way back takes all
that look like ours, but not these.
"""

_SLUG = re.compile(r"[^a-z0-9]+")
_SLUG_MAX: Final = 40

Counts = Mapping[str, int]
"""Resource name -> devices, of one container."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What each container asks for, init containers first, and which of them end before the next one starts."""

    counts: tuple[Counts, ...]
    short_lived: tuple[bool, ...]

    def plan(self, classes: Mapping[str, str]) -> ClaimPlan:
        """Make requests and mappings (KEP-5004). Containers are named by their position.

        Requests are numbered among the extended resources, as the KEP's text says, and not among all, as kube-scheduler
        does: Pods that differ only in CPU and memory are to share a template.
        """
        pairs = zip(self.counts, self.short_lived, strict=True)
        return plan(
            [ContainerDemand(str(i), short, tuple(each), each) for i, (each, short) in enumerate(pairs)], classes
        )


@dataclass(frozen=True, slots=True)
class Template:
    """A ResourceClaimTemplate; the name follows from the content, so that two runs make the same one."""

    name: str
    body: dict[str, Any]

    def renamed(self, name: str) -> Template:
        """Give the same template by another name, where somebody else has this one."""
        return Template(name, {**self.body, "metadata": {**self.body["metadata"], "name": name}})


def template(shape: Shape, claim: ClaimPlan, namespace: str, tolerated: Collection[str] = ()) -> Template:
    """Make the template for a shape. `namespace` is "" where the manifest leaves it open; `tolerated` as TOLERATED."""
    asked = json.dumps(_trimmed(shape.counts), separators=(",", ":"), sort_keys=True)
    spec = {
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": request.name,
                        "exactly": {
                            "deviceClassName": request.device_class,
                            "allocationMode": "ExactCount",
                            "count": request.count,
                        },
                    }
                    for request in claim.requests
                ]
            }
        }
    }
    annotations = {ASKED: asked}
    if tolerated:
        annotations[TOLERATED] = ",".join(sorted(tolerated))
    content = ",".join(annotations.values()) + json.dumps(spec, sort_keys=True)
    name = f"{_slug(claim)}-{hashlib.sha256(content.encode()).hexdigest()[:6]}"
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["annotations"] = annotations
    body = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": spec}
    return Template(name, body)


def asked_of(body: Mapping[str, Any]) -> tuple[Counts, ...] | None:
    """What the annotation of a template says; None if there is none that can be read: anybody may have changed it."""
    metadata = body.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(ASKED) if isinstance(annotations, dict) else None
    try:
        value = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        return None
    pairs = [pair for each in value for pair in each.items()]
    if all(is_extended(name) and type(count) is int and count > 0 for name, count in pairs):
        return tuple(value)
    return None


def tolerated_of(body: Mapping[str, Any]) -> frozenset[str]:
    """The names of TOLERATED on a template."""
    metadata = body.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    text = annotations.get(TOLERATED) if isinstance(annotations, dict) else None
    return frozenset(text.split(",")) if isinstance(text, str) else frozenset()


def _trimmed(counts: Sequence[Counts]) -> list[dict[str, int]]:
    """Without the containers at the end that ask for nothing: sidecars behind do not make another shape."""
    found = [dict(each) for each in counts]
    while found and not found[-1]:
        found.pop()
    return found


def _slug(claim: ClaimPlan) -> str:
    parts = [f"{_short(name)}-{count}" for name, count in claim.totals().items()]
    return _SLUG.sub("-", "-".join(parts).lower())[:_SLUG_MAX].strip("-")


def _short(name: str) -> str:
    return implicit_class(name) or name.rpartition("/")[2]
