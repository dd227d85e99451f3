"""The annotation on a rewritten Pod: what it asked for, and the requests and mappings that follow from it.

Its author is the webhook, but anybody who may create a Pod can write one, so whoever reads it checks it against the
Pod and decides afresh what is allowed (`core.claims`). No DeviceClass stands in it for that reason.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from drabridge.core.claimspec import MAX_DEVICES, RequestMapping
from drabridge.core.errors import InvalidInput
from drabridge.core.names import is_dns_label, is_extended
from drabridge.core.podview import PodView
from drabridge.core.quantity import Quantity
from drabridge.core.reasons import CURES, Reason

ANNOTATION = "drabridge.io/extended-resources"


@dataclass(frozen=True, slots=True)
class AskedRequest:
    """One device request of the claim: `count` devices of whatever class stands behind `resource`."""

    name: str
    resource: str
    count: int


@dataclass(frozen=True, slots=True)
class Asked:
    """The value of the annotation.

    `containers` is container name -> resource name -> quantity as the author of the Pod wrote it.
    """

    containers: Mapping[str, Mapping[str, str]]
    requests: tuple[AskedRequest, ...]
    mappings: tuple[RequestMapping, ...]

    @property
    def devices(self) -> int:
        """How many devices all requests ask for together."""
        return sum(request.count for request in self.requests)

    def encode(self) -> str:
        """The annotation's text. Mappings are named as in `pod.status.extendedResourceClaimStatus`."""
        return json.dumps(
            {
                "containers": self.containers,
                "requests": [
                    {"name": each.name, "resourceName": each.resource, "count": each.count} for each in self.requests
                ],
                "requestMappings": [
                    {"containerName": each.container, "resourceName": each.resource, "requestName": each.request}
                    for each in self.mappings
                ],
            },
            separators=(",", ":"),
            sort_keys=True,
        )


def decode(pod: PodView) -> Asked | None:
    """What the annotation of `pod` says; None if there is none. Raises InvalidInput as `decode_text` does."""
    text = pod.annotations.get(ANNOTATION)
    return None if text is None else decode_text(text, pod.described)


def decode_text(text: str, described: str) -> Asked:
    """What the annotation of the object `described` says.

    Raises InvalidInput where it cannot be read or says something that the webhook never writes.
    """
    try:
        return _known(text)
    except InvalidInput:
        return _decode(text, described)  # which says whose it is


@lru_cache(maxsize=1024)
def _known(text: str) -> Asked:
    """Pods of one workload have the same text, and each is read at each of its events."""
    return _decode(text, "Pod")


def _decode(text: str, described: str) -> Asked:
    reader = _Reader(described)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise reader.error("", "is not JSON") from error
    containers = {
        container: {
            reader.resource(resource, path := f"containers.{container}"): reader.devices(quantity, path)
            for resource, quantity in names.items()
        }
        for container, names in reader.maps(reader.fields(value).get("containers"), "containers").items()
    }
    requests = tuple(
        AskedRequest(
            name=reader.label(each.get("name"), f"requests[{i}].name"),
            resource=reader.resource(each.get("resourceName"), f"requests[{i}].resourceName"),
            count=reader.count(each.get("count"), f"requests[{i}].count"),
        )
        for i, each in enumerate(reader.items(value.get("requests"), "requests"))
    )
    mappings = tuple(
        RequestMapping(
            container=reader.text(each.get("containerName"), f"requestMappings[{i}].containerName"),
            resource=reader.resource(each.get("resourceName"), f"requestMappings[{i}].resourceName"),
            request=reader.label(each.get("requestName"), f"requestMappings[{i}].requestName"),
        )
        for i, each in enumerate(reader.items(value.get("requestMappings"), "requestMappings"))
    )
    asked = Asked(containers, requests, mappings)
    _check(asked, reader)
    return asked


def _check(asked: Asked, reader: "_Reader") -> None:
    names = [request.name for request in asked.requests]
    if not names:
        raise reader.error("requests", "is empty")
    if len(set(names)) != len(names):
        raise reader.error("requests", "has two entries of one name")
    if asked.devices > MAX_DEVICES:
        raise reader.error("requests", f"asks for {asked.devices} devices, more than {MAX_DEVICES}")
    if unknown := {mapping.request for mapping in asked.mappings} - set(names):
        raise reader.error("requestMappings", f"names the request {min(unknown)}, which is not in requests")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Takes untrusted JSON apart; every complaint names the Pod and the field."""

    described: str

    def error(self, path: str, problem: str) -> InvalidInput:
        return InvalidInput(
            obj=self.described,
            path=f"metadata.annotations['{ANNOTATION}']" + (f".{path}" if path else ""),
            problem=problem,
            cure=CURES[Reason.ANNOTATION_INVALID],
        )

    def fields(self, value: Any, path: str = "") -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise self.error(path, "is not an object")
        return value

    def maps(self, value: Any, path: str) -> Mapping[str, Mapping[str, Any]]:
        return {key: self.fields(each, f"{path}.{key}") for key, each in self.fields(value, path).items()}

    def items(self, value: Any, path: str) -> list[Mapping[str, Any]]:
        if not isinstance(value, list):
            raise self.error(path, "is not a list")
        return [self.fields(each, f"{path}[{i}]") for i, each in enumerate(value)]

    def text(self, value: Any, path: str) -> str:
        if not isinstance(value, str) or not value:
            raise self.error(path, "is not a text")
        return value

    def label(self, value: Any, path: str) -> str:
        if not is_dns_label(self.text(value, path)):
            raise self.error(path, "is not a DNS label")
        return str(value)

    def resource(self, value: Any, path: str) -> str:
        if not is_extended(self.text(value, path)):
            raise self.error(path, "is not the name of an extended resource")
        return str(value)

    def devices(self, value: Any, path: str) -> str:
        try:
            whole = Quantity.parse(self.text(value, path)).as_int()
        except ValueError as error:
            raise self.error(path, str(error)) from error
        if whole is None or whole < 1:
            raise self.error(path, "is not a number of devices")
        return str(value)

    def count(self, value: Any, path: str) -> int:
        if type(value) is not int or not 1 <= value <= MAX_DEVICES:
            raise self.error(path, f"is not a number of devices from 1 to {MAX_DEVICES}")
        return value
