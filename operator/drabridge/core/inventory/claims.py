"""ResourceClaims and their templates: what is asked, what is allocated, and who may use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from drabridge.core.claims import ClaimView
from drabridge.core.inventory.nodes import Toleration
from drabridge.core.inventory.shape import Raw, named, number, part, parts, quantities, text, texts
from drabridge.core.quantity import Quantity

ALL = 32
"""What `allocationMode: All` counts for where a number is needed: the most that a claim can hold."""


@dataclass(frozen=True, slots=True)
class Request:
    """A device request, or one of the alternatives of a prioritized list ("request/alternative")."""

    name: str
    device_class: str
    count: int
    all_devices: bool
    admin: bool
    selectors: tuple[str, ...]
    tolerations: tuple[Toleration, ...]
    capacity: Mapping[str, str]
    alternative: bool


@dataclass(frozen=True, slots=True)
class Allotment:
    """One device of an allocation; `share` and `consumed` are set where several claims may share the device."""

    request: str
    driver: str
    pool: str
    device: str
    admin: bool
    share: str
    consumed: Mapping[str, Quantity]

    @property
    def place(self) -> tuple[str, str, str]:
        """Driver, pool and device: what the device is called in the whole cluster."""
        return self.driver, self.pool, self.device


@dataclass(frozen=True, slots=True)
class Reference:
    """Who owns the claim, or who may use it."""

    kind: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class ClaimRecord:
    """A ResourceClaim. `results` is None until it is allocated. Times are RFC 3339 in UTC as the API writes them."""

    view: ClaimView
    created: str
    deleting: str
    finalizers: tuple[str, ...]
    owner: Reference | None
    requests: tuple[Request, ...]
    results: tuple[Allotment, ...] | None
    allocated_at: str
    reserved: tuple[Reference, ...]

    @property
    def key(self) -> str:
        """Namespace and name."""
        return self.view.key

    @property
    def described(self) -> str:
        """How messages call it."""
        return f"ResourceClaim {self.key}"

    @property
    def admin(self) -> bool:
        """Whether it asks for administrative access."""
        return any(request.admin for request in self.requests)

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a ResourceClaim of resource.k8s.io/v1; of v1beta1 too, whose requests have no `exactly`."""
        metadata, status = part(raw, "metadata"), part(raw, "status")
        allocation = status.get("allocation")
        results = None
        if allocation is not None:
            results = tuple(map(_allotment, parts(part(status, "allocation", "devices"), "results")))
        owners = sorted(parts(metadata, "ownerReferences"), key=lambda each: each.get("controller") is not True)
        return cls(
            view=ClaimView.of({**raw, "spec": part(raw, "spec")}),
            created=text(metadata, "creationTimestamp"),
            deleting=text(metadata, "deletionTimestamp"),
            finalizers=texts(metadata, "finalizers"),
            owner=_reference(owners[0], "kind") if owners else None,
            requests=requests_of(part(raw, "spec")),
            results=results,
            allocated_at=text(part(status, "allocation"), "allocationTimestamp"),
            reserved=tuple(_reference(each, "resource") for each in parts(status, "reservedFor")),
        )


@dataclass(frozen=True, slots=True)
class TemplateRecord:
    """A ResourceClaimTemplate."""

    namespace: str
    name: str
    requests: tuple[Request, ...]

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def described(self) -> str:
        """How messages call it."""
        return f"ResourceClaimTemplate {self.key}"

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a ResourceClaimTemplate."""
        metadata = part(raw, "metadata")
        return cls(text(metadata, "namespace"), text(metadata, "name"), requests_of(part(raw, "spec", "spec")))


def requests_of(spec: Raw) -> tuple[Request, ...]:
    """The requests of a ResourceClaimSpec; of a prioritized list each alternative by itself."""
    found = []
    for raw in parts(part(spec, "devices"), "requests"):
        name = text(raw, "name")
        if raw.get("firstAvailable"):
            found += [
                _request(f"{name}/{text(each, 'name')}", each, alternative=True)
                for each in parts(raw, "firstAvailable")
            ]
        else:
            found.append(_request(name, part(raw, "exactly") or raw, alternative=False))
    return tuple(found)


def _request(name: str, raw: Raw, *, alternative: bool) -> Request:
    everything = raw.get("allocationMode") == "All"
    return Request(
        name=name,
        device_class=text(raw, "deviceClassName"),
        count=ALL if everything else number(raw, "count", 1),
        all_devices=everything,
        admin=raw.get("adminAccess") is True,
        selectors=tuple(text(part(each, "cel"), "expression") for each in parts(raw, "selectors")),
        tolerations=tuple(map(Toleration.of, parts(raw, "tolerations"))),
        capacity=named(part(raw, "capacity", "requests")),
        alternative=alternative,
    )


def _allotment(raw: Raw) -> Allotment:
    return Allotment(
        request=text(raw, "request"),
        driver=text(raw, "driver"),
        pool=text(raw, "pool"),
        device=text(raw, "device"),
        admin=raw.get("adminAccess") is True,
        share=text(raw, "shareID"),
        consumed=quantities(part(raw, "consumedCapacity")),
    )


def _reference(raw: Raw, kind: str) -> Reference:
    return Reference(text(raw, kind), text(raw, "name"), text(raw, "uid"))
