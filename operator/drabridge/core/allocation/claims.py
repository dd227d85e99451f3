"""What is asked for: DeviceClasses and ResourceClaims as frozen records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

from drabridge.core.allocation.amounts import Amount
from drabridge.core.allocation.reading import Raw, Reader, opened
from drabridge.core.allocation.slices import check_version

EXACT_COUNT: Final = "ExactCount"
ALL: Final = "All"


@dataclass(frozen=True, eq=False)
class DeviceClass:
    """A DeviceClass. An expression is None for a selector of a type that nobody knows."""

    name: str
    expressions: tuple[str | None, ...]
    config: tuple[Raw, ...]

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a DeviceClass (resource.k8s.io/v1, as JSON). Raises InvalidInput."""
        reader, spec, _, name = opened("DeviceClass", raw)
        check_version(raw, reader)
        return cls(
            name,
            _expressions(spec, reader, "spec"),
            tuple(reader.items(spec.get("config"), "spec.config")),
        )


def _expressions(raw: Raw, reader: Reader, path: str) -> tuple[str | None, ...]:
    found: list[str | None] = []
    for index, selector in enumerate(reader.items(raw.get("selectors"), f"{path}.selectors")):
        at = f"{path}.selectors[{index}].cel"
        cel = selector.get("cel")
        found.append(
            None if cel is None else reader.text(reader.mapping(cel, at).get("expression"), f"{at}.expression")
        )
    return tuple(found)


class Toleration(NamedTuple):
    """A toleration of a request."""

    key: str
    operator: str
    value: str
    effect: str

    def covers(self, key: str, value: str, effect: str) -> bool:
        """Whether it tolerates a taint. An empty key, or effect, stands for any."""
        if self.effect not in {"", effect} or self.key not in {"", key}:
            return False
        return self.operator == "Exists" or (self.operator in {"", "Equal"} and self.value == value)


@dataclass(frozen=True, eq=False)
class Ask:
    """A request, or one entry of a prioritized list."""

    name: str
    full_name: str
    """`request` or `request/subrequest`, as results and constraints name it."""
    path: str
    """Its place in the claim: "spec.devices.requests[0].exactly"."""
    class_name: str
    expressions: tuple[str | None, ...]
    mode: str
    count: int
    admin_access: bool | None
    tolerations: tuple[Toleration, ...]
    raw_tolerations: tuple[Raw, ...]
    capacity: Mapping[str, Amount] | None
    derived: tuple[tuple[str, str], ...]
    """(attribute name, expression)."""


@dataclass(frozen=True, eq=False)
class Request:
    """A request of a claim: one way to meet it, or a prioritized list of them."""

    name: str
    asks: tuple[Ask, ...]
    is_list: bool


@dataclass(frozen=True, eq=False)
class Constraint:
    """A constraint: all devices have the same value of an attribute, or all different ones."""

    attribute: str
    is_match: bool
    requests: tuple[str, ...]

    def applies_to(self, request: Request, ask: Ask) -> bool:
        """Whether it holds for the devices of a (sub)request."""
        return not self.requests or request.name in self.requests or ask.full_name in self.requests


@dataclass(frozen=True, eq=False)
class Claim:
    """A ResourceClaim's spec."""

    namespace: str
    name: str
    requests: tuple[Request, ...]
    constraints: tuple[Constraint | None, ...]
    """None for one of a type that nobody knows."""
    config: tuple[Raw, ...]
    kind: str
    """Equal for claims that ask for the same."""
    allocation: Raw | None
    """The AllocationResult that it has already."""

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a ResourceClaim (resource.k8s.io/v1, as JSON). Raises InvalidInput."""
        reader, spec, namespace, name = opened("ResourceClaim", raw)
        check_version(raw, reader)
        devices = reader.mapping(spec.get("devices"), "spec.devices")
        at = "spec.devices.requests"
        return cls(
            namespace,
            name,
            tuple(
                _request(request, reader, f"{at}[{i}]")
                for i, request in enumerate(reader.items(devices.get("requests"), at))
            ),
            _constraints(devices, reader),
            _config(devices, reader),
            repr((devices.get("requests"), devices.get("constraints"))),
            reader.mapping(raw.get("status"), "status").get("allocation"),
        )

    @property
    def label(self) -> str:
        """`namespace/name`, as upstream's texts name it."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @cached_property
    def object(self) -> str:
        """Kind and name, as our errors name it."""
        return f"ResourceClaim {self.label}"


def _request(raw: Raw, reader: Reader, path: str) -> Request:
    name = reader.text(raw.get("name"), f"{path}.name")
    entries = reader.items(raw.get("firstAvailable"), f"{path}.firstAvailable")
    if entries:
        asks = []
        for index, entry in enumerate(entries):
            at = f"{path}.firstAvailable[{index}]"
            asks.append(_ask(entry, f"{name}/{reader.text(entry.get('name'), f'{at}.name')}", reader, at))
        return Request(name, tuple(asks), is_list=True)
    exactly = raw.get("exactly")
    if exactly is None:
        raise reader.invalid(path, "has neither exactly nor firstAvailable", "say what is asked for")
    exactly = {**reader.mapping(exactly, f"{path}.exactly"), "name": name}
    return Request(name, (_ask(exactly, name, reader, f"{path}.exactly"),), is_list=False)


def _ask(raw: Raw, full_name: str, reader: Reader, path: str) -> Ask:
    count = reader.whole(raw.get("count"), f"{path}.count")
    if count < 0:
        raise reader.invalid(f"{path}.count", f"is {count}", "ask for at least one device")
    tolerations = reader.items(raw.get("tolerations"), f"{path}.tolerations")
    return Ask(
        reader.text(raw.get("name"), f"{path}.name"),
        full_name,
        path,
        reader.text(raw.get("deviceClassName"), f"{path}.deviceClassName"),
        _expressions(raw, reader, path),
        reader.text(raw.get("allocationMode"), f"{path}.allocationMode"),
        count,
        reader.flag(raw.get("adminAccess"), f"{path}.adminAccess"),
        tuple(_toleration(toleration, reader, f"{path}.tolerations[{i}]") for i, toleration in enumerate(tolerations)),
        tuple(tolerations),
        _capacity(raw.get("capacity"), reader, f"{path}.capacity"),
        tuple(
            (
                reader.text(derived.get("name"), f"{path}.derivedAttributes[{i}].name"),
                reader.text(derived.get("expression"), f"{path}.derivedAttributes[{i}].expression"),
            )
            for i, derived in enumerate(reader.items(raw.get("derivedAttributes"), f"{path}.derivedAttributes"))
        ),
    )


def _toleration(raw: Raw, reader: Reader, path: str) -> Toleration:
    return Toleration(*(reader.text(raw.get(name), f"{path}.{name}") for name in Toleration._fields))


def _capacity(raw: Any, reader: Reader, path: str) -> Mapping[str, Amount] | None:
    if raw is None:
        return None
    requests = reader.mapping(reader.mapping(raw, path).get("requests"), f"{path}.requests")
    return {name: Amount.read(value, reader, f"{path}.requests[{name}]") for name, value in requests.items()}


def _config(devices: Raw, reader: Reader) -> tuple[Raw, ...]:
    at = "spec.devices.config"
    found = tuple(reader.items(devices.get("config"), at))
    for index, config in enumerate(found):
        reader.strings(config.get("requests"), f"{at}[{index}].requests")
    return found


def _constraints(devices: Raw, reader: Reader) -> tuple[Constraint | None, ...]:
    found: list[Constraint | None] = []
    for index, raw in enumerate(reader.items(devices.get("constraints"), "spec.devices.constraints")):
        at = f"spec.devices.constraints[{index}]"
        match, distinct = raw.get("matchAttribute"), raw.get("distinctAttribute")
        named = match if match is not None else distinct
        found.append(
            None
            if named is None
            else Constraint(
                reader.text(named, at), match is not None, reader.strings(raw.get("requests"), f"{at}.requests")
            )
        )
    return tuple(found)


def claims_of(raws: Sequence[Raw]) -> tuple[Claim, ...]:
    """Read the claims of a Pod. Raises InvalidInput."""
    return tuple(Claim.of(raw) for raw in raws)
