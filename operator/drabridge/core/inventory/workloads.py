"""Deployments and DaemonSets that matter to devices, and the webhooks that Pods pass."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from drabridge.core.inventory.nodes import Toleration
from drabridge.core.inventory.shape import Raw, number, part, parts, text, texts
from drabridge.core.names import is_extended


@dataclass(frozen=True, slots=True)
class WorkloadRecord:
    """A Deployment or DaemonSet; `words` are command lines, `environment` plain variables of all its containers."""

    kind: str
    namespace: str
    name: str
    images: tuple[str, ...]
    words: tuple[str, ...]
    environment: Mapping[str, str]
    tolerations: tuple[Toleration, ...]
    node_selector: Mapping[str, str]
    extended: frozenset[str]
    wanted: int
    ready: int

    @property
    def described(self) -> str:
        """How messages call it."""
        return f"{self.kind} {self.namespace}/{self.name}"

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a Deployment or DaemonSet of apps/v1."""
        metadata, status = part(raw, "metadata"), part(raw, "status")
        spec = part(raw, "spec", "template", "spec")
        containers = tuple(parts(spec, "containers"))
        daemons = raw.get("kind") == "DaemonSet"
        return cls(
            kind=text(raw, "kind"),
            namespace=text(metadata, "namespace"),
            name=text(metadata, "name"),
            images=tuple(text(each, "image") for each in containers),
            words=tuple(word for each in containers for word in texts(each, "command") + texts(each, "args")),
            environment={
                text(variable, "name"): text(variable, "value")
                for each in containers
                for variable in parts(each, "env")
            },
            tolerations=tuple(map(Toleration.of, parts(spec, "tolerations"))),
            node_selector=part(spec, "nodeSelector"),
            extended=frozenset(
                name
                for each in containers
                for field in ("requests", "limits")
                for name in part(each, "resources", field)
                if is_extended(name)
            ),
            wanted=number(status, "desiredNumberScheduled") if daemons else number(part(raw, "spec"), "replicas", 1),
            ready=number(status, "numberReady" if daemons else "readyReplicas"),
        )

    def runs(self, image: str) -> bool:
        """Whether a container's image has this name, whatever its registry, path and tag are."""
        return any(re.fullmatch(rf"(?:.*/)?{re.escape(image)}(?:[:@].*)?", each) for each in self.images)

    def option(self, name: str) -> str:
        """The value of a command line option, "--name=value" or two words; "" if it is not there."""
        for at, word in enumerate(self.words):
            if word.startswith(f"{name}="):
                return word.removeprefix(f"{name}=")
            if word == name:
                return "".join(self.words[at + 1 : at + 2])
        return ""


@dataclass(frozen=True, slots=True)
class WebhookRecord:
    """One webhook of a configuration."""

    configuration: str
    name: str
    mutating: bool
    fails: bool
    """failurePolicy Fail: what it cannot be asked about is refused."""

    sees_pods: bool
    """Whether it is asked when a Pod is created."""

    narrowed: bool
    """Whether a namespaceSelector, objectSelector or matchConditions leave some Pods out."""

    trusted: bool
    """Whether the API server has an authority to check its certificate by, or needs none."""

    service: str

    @property
    def described(self) -> str:
        """How messages call its configuration."""
        return f"{'Mutating' if self.mutating else 'Validating'}WebhookConfiguration {self.configuration}"

    @classmethod
    def all_of(cls, raw: Raw) -> tuple[Self, ...]:
        """Read a MutatingWebhookConfiguration or ValidatingWebhookConfiguration."""
        found = []
        for each in parts(raw, "webhooks"):
            client = part(each, "clientConfig")
            service = part(client, "service")
            found.append(
                cls(
                    configuration=text(part(raw, "metadata"), "name"),
                    name=text(each, "name"),
                    mutating=raw.get("kind") == "MutatingWebhookConfiguration",
                    fails=each.get("failurePolicy", "Fail") == "Fail",
                    sees_pods=any(_is_about_pods(rule) for rule in parts(each, "rules")),
                    narrowed=any(
                        (
                            part(each, "namespaceSelector"),
                            part(each, "objectSelector"),
                            each.get("matchConditions"),
                        )
                    ),
                    trusted=bool(client.get("caBundle")) or not service,
                    service=f"{text(service, 'namespace')}/{text(service, 'name')}" if service else "",
                )
            )
        return tuple(found)


def _is_about_pods(rule: Raw) -> bool:
    return (
        not {"", "*"}.isdisjoint(texts(rule, "apiGroups"))
        and not {"pods", "*", "*/*"}.isdisjoint(texts(rule, "resources"))
        and not {"CREATE", "*"}.isdisjoint(texts(rule, "operations"))
    )
