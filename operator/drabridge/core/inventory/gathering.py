"""Raw objects, one after the other, become an inventory. A raw object is not kept: a cluster has many."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

from drabridge.core.caps import LimitRangeView, QuotaView
from drabridge.core.cluster import Gate
from drabridge.core.errors import InvalidInput
from drabridge.core.inventory.access import BindingRecord, RoleRecord
from drabridge.core.inventory.claims import ClaimRecord, TemplateRecord
from drabridge.core.inventory.classes import ClassRecord
from drabridge.core.inventory.cluster import UNREADABLE, BetaUse, Inventory, Kind, Odd
from drabridge.core.inventory.nodes import NodeRecord
from drabridge.core.inventory.pods import EventRecord, PodRecord, version_of
from drabridge.core.inventory.shape import Misshapen, Raw, check_metadata, check_values, key_of, part, parts, text
from drabridge.core.inventory.slices import SliceReader, TaintRule
from drabridge.core.inventory.workloads import WebhookRecord, WorkloadRecord
from drabridge.core.policy import PolicyView

GROUP: Final = "resource.k8s.io"
FEATURE: Final = "DRAExtendedResource"
GATE_BETA: Final = (1, 36)
"""The first version that has the gate DRAExtendedResource on unless somebody turns it off."""

GATE_LOCKED: Final = (1, 37)
"""The first version that has it on whatever anybody says."""

GROUPS: Final[Mapping[Kind, str]] = {
    **dict.fromkeys((Kind.CLAIMS, Kind.TEMPLATES, Kind.CLASSES, Kind.SLICES, Kind.TAINT_RULES), GROUP),
    **dict.fromkeys((Kind.DEPLOYMENTS, Kind.DAEMON_SETS), "apps"),
    **dict.fromkeys((Kind.MUTATING, Kind.VALIDATING), "admissionregistration.k8s.io"),
    **dict.fromkeys(
        (Kind.ROLES, Kind.NAMESPACED_ROLES, Kind.BINDINGS, Kind.NAMESPACED_BINDINGS), "rbac.authorization.k8s.io"
    ),
    Kind.POLICIES: "drabridge.io",
}
"""The API group of each kind; the others are of the core group."""

_CURE: Final = "write it as the API has it, which `kubectl explain` shows"

_KINDS: Final = frozenset(kind.value for kind in Kind)

NAMESPACED: Final = frozenset(
    {
        Kind.PODS,
        Kind.LIMIT_RANGES,
        Kind.QUOTAS,
        Kind.CLAIMS,
        Kind.TEMPLATES,
        Kind.NAMESPACED_ROLES,
        Kind.NAMESPACED_BINDINGS,
        Kind.DEPLOYMENTS,
        Kind.DAEMON_SETS,
        Kind.EVENTS,
    }
)


def _kind_of(raw: Raw) -> Kind | None:
    """The kind, if it is one that matters: a kind of the same name may be somebody else's."""
    kind, version = raw.get("kind"), raw.get("apiVersion")
    if not isinstance(kind, str) or kind not in _KINDS or not isinstance(version, str):
        return None
    known = Kind(kind)
    return known if version.rpartition("/")[0] == GROUPS.get(known, "") else None


def _described(kind: Kind, raw: Raw) -> str:
    """How messages call an object that may have no readable name."""
    try:
        return f"{kind} {key_of(raw)}".rstrip()
    except TypeError:
        return str(kind)


def _with_namespace(raw: Raw) -> Raw:
    """The object as kubectl would create it: a manifest may leave the namespace out."""
    metadata = raw.get("metadata")
    if not isinstance(metadata, Mapping) or metadata.get("namespace"):
        return raw
    return {**raw, "metadata": {**metadata, "namespace": "default"}}


@dataclass(frozen=True, slots=True)
class _Namespace:
    name: str
    labels: Mapping[str, str]

    @classmethod
    def of(cls, raw: Raw) -> _Namespace:
        return cls(text(part(raw, "metadata"), "name"), part(raw, "metadata", "labels"))


class Gathering:
    """Takes raw objects in; `inventory` gives what was seen.

    `policy` reads an ExtendedResourcePolicy, which has a model of its own; `keep` are kinds whose bodies are kept.
    """

    def __init__(self, policy: Callable[[Raw], PolicyView], keep: Collection[Kind] = ()) -> None:
        self._bodies: dict[Kind, dict[str, Raw]] = {kind: {} for kind in keep}
        self._readers: dict[Kind, Callable[[Raw], Any]] = {
            Kind.NODES: NodeRecord.of,
            Kind.PODS: PodRecord.of,
            Kind.NAMESPACES: _Namespace.of,
            Kind.LIMIT_RANGES: LimitRangeView.of,
            Kind.QUOTAS: QuotaView.of,
            Kind.CLAIMS: ClaimRecord.of,
            Kind.TEMPLATES: TemplateRecord.of,
            Kind.CLASSES: ClassRecord.of,
            Kind.SLICES: SliceReader().read,
            Kind.TAINT_RULES: TaintRule.of,
            Kind.POLICIES: policy,
            Kind.ROLES: RoleRecord.of,
            Kind.NAMESPACED_ROLES: RoleRecord.of,
            Kind.BINDINGS: BindingRecord.of,
            Kind.NAMESPACED_BINDINGS: BindingRecord.of,
            Kind.DEPLOYMENTS: WorkloadRecord.of,
            Kind.DAEMON_SETS: WorkloadRecord.of,
            Kind.MUTATING: WebhookRecord.all_of,
            Kind.VALIDATING: WebhookRecord.all_of,
            Kind.EVENTS: EventRecord.of,
        }
        self._found: dict[Kind, dict[str, Any]] = {kind: {} for kind in Kind}
        self._beta: dict[tuple[str, str, str], BetaUse] = {}
        self._odd: list[Odd] = []
        self._offered: set[Kind] = set()
        self._server: tuple[int, int] | None = None

    @property
    def kinds(self) -> frozenset[Kind]:
        """The kinds of which there was an object that can be read."""
        return frozenset(kind for kind, found in self._found.items() if found)

    @property
    def odd(self) -> tuple[Odd, ...]:
        """What cannot be read."""
        return tuple(self._odd)

    def take(self, raw: Raw) -> bool:
        """Take in one object with its kind; whether it is of a kind that matters. The last one of a name counts."""
        if "serverVersion" in raw and "kind" not in raw:  # kubectl version -o json
            return self._read("kubectl version", raw, self._take_version)
        kind = _kind_of(raw)
        if kind is None:
            return False
        if kind in NAMESPACED:
            raw = _with_namespace(raw)
        self._offered.add(kind)
        return self._read(_described(kind, raw), raw, partial(self._take, kind))

    def _read(self, described: str, raw: Raw, reading: Callable[[Raw], None]) -> bool:
        """Read an object, or note why it cannot be read."""
        try:
            reading(raw)
        except InvalidInput as error:
            where = f"{error.path}: " if error.path else ""
            self._odd.append(Odd(error.object, f"{where}{error.problem}", error.cure))
        except Misshapen as error:
            self._odd.append(Odd(described, f"{error.path(raw)}: {error.problem}", _CURE))
        except KeyError as error:
            self._odd.append(Odd(described, f"{error.args[0]} is missing", _CURE))
        except (AttributeError, TypeError) as error:
            self._odd.append(Odd(described, f"a field has another type than the API's ({error})", _CURE))
        except ValueError as error:
            self._odd.append(Odd(described, f"{error}", _CURE))
        return True

    def _take_version(self, raw: Raw) -> None:
        check_values(raw)
        self._server = version_of(text(part(raw, "serverVersion"), "gitVersion"))

    def _take(self, kind: Kind, raw: Raw) -> None:
        check_values(raw)
        check_metadata(raw)
        key = key_of(raw)
        self._found[kind][key] = self._readers[kind](raw)
        self._note_beta(raw, f"{kind} {key}")
        if kind in self._bodies:
            self._bodies[kind][key] = _slim(raw)

    def _note_beta(self, raw: Raw, described: str) -> None:
        """Beta versions of DRA's objects: of the object itself, and of those who write it."""
        written = parts(part(raw, "metadata"), "managedFields")
        uses = [(text(raw, "apiVersion"), ""), *((text(each, "apiVersion"), text(each, "manager")) for each in written)]
        for version, manager in uses:
            if version.startswith(f"{GROUP}/v1beta"):
                key = (version, text(raw, "kind"), manager)
                known = self._beta.get(key)
                self._beta[key] = (
                    replace(known, count=known.count + 1) if known else BetaUse(*key, example=described, count=1)
                )

    def inventory(
        self,
        now: datetime,
        *,
        server: tuple[int, int] | None = None,
        gate: Gate = Gate.UNKNOWN,
        settled: frozenset[str] | None = None,
        unseen: Mapping[Kind, str] | None = None,
    ) -> Inventory:
        """The cluster as it was taken in. What is not said about server and gate follows from the objects.

        A kind of which no object can be read counts as not seen.
        """
        pods: tuple[PodRecord, ...] = tuple(self._all(Kind.PODS))
        classes: tuple[ClassRecord, ...] = tuple(self._all(Kind.CLASSES))
        running = [pod.component for pod in pods if pod.component and pod.component.name == "kube-apiserver"]
        version = server or self._server or max((each.version for each in running if each.version), default=None)
        flags = {each.gates[FEATURE] for each in running if FEATURE in each.gates}
        webhooks = [*self._all(Kind.MUTATING), *self._all(Kind.VALIDATING)]
        return Inventory(
            now=now,
            server=version,
            gate=gate if gate is not Gate.UNKNOWN else _gate(version, flags, classes),
            settled=settled,
            nodes=tuple(self._all(Kind.NODES)),
            pods=pods,
            namespaces={each.name: each.labels for each in self._all(Kind.NAMESPACES)},
            limit_ranges=tuple(self._all(Kind.LIMIT_RANGES)),
            quotas=tuple(self._all(Kind.QUOTAS)),
            claims=tuple(self._all(Kind.CLAIMS)),
            templates=tuple(self._all(Kind.TEMPLATES)),
            classes=classes,
            slices=tuple(self._all(Kind.SLICES)),
            taint_rules=tuple(self._all(Kind.TAINT_RULES)),
            policies=tuple(self._all(Kind.POLICIES)),
            roles=(*self._all(Kind.ROLES), *self._all(Kind.NAMESPACED_ROLES)),
            bindings=(*self._all(Kind.BINDINGS), *self._all(Kind.NAMESPACED_BINDINGS)),
            workloads=(*self._all(Kind.DEPLOYMENTS), *self._all(Kind.DAEMON_SETS)),
            webhooks=tuple(hook for hooks in webhooks for hook in hooks),
            events=tuple(each for each in self._all(Kind.EVENTS) if each.pod),
            beta=tuple(self._beta.values()),
            odd=self.odd,
            unseen={**(unseen or {}), **dict.fromkeys(self._offered - self.kinds, UNREADABLE)},
            bodies={kind: tuple(bodies.values()) for kind, bodies in self._bodies.items()},
        )

    def _all(self, kind: Kind) -> Iterator[Any]:
        return iter(self._found[kind].values())


def _slim(raw: Raw) -> Raw:
    """The object without its managedFields, which are often the larger half of it."""
    return {**raw, "metadata": {key: value for key, value in part(raw, "metadata").items() if key != "managedFields"}}


def _gate(version: tuple[int, int] | None, flags: set[bool], classes: tuple[ClassRecord, ...]) -> Gate:
    """The API server's gate as its objects show it: what it stored, what it dropped, what it was told, its version."""
    if version and version >= GATE_LOCKED:
        return Gate.ON
    if flags:
        return Gate.ON if flags == {True} else Gate.OFF  # servers that differ: what one drops cannot be relied on
    if any(each.view.lost_name is not None for each in classes):
        return Gate.OFF
    if any(each.view.extended_name for each in classes):
        return Gate.ON
    if version is None:
        return Gate.UNKNOWN
    return Gate.ON if version >= GATE_BETA else Gate.OFF
