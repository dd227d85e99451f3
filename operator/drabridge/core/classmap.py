"""Resource name -> DeviceClass: where a mapping comes from, which one wins, and who lost."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self

from drabridge.core.errors import InvalidInput, quoted
from drabridge.core.names import explicit_name_problems, implicit_class, implicit_name

NAME_ANNOTATION: Final = "drabridge.io/extended-resource-name"
"""On a DeviceClass, by its author: the name it serves where the API server drops `spec.extendedResourceName`."""


_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Source(StrEnum):
    """Where a mapping is written; an earlier one here goes before a later one."""

    POLICY = "Policy"
    FIELD = "Field"
    ANNOTATION = "Annotation"
    IMPLICIT = "Implicit"


@dataclass(frozen=True, slots=True)
class ClassView:
    """What drabridge knows of a DeviceClass.

    `created` is the creationTimestamp as the API server writes it: RFC 3339 in UTC and whole seconds, so that texts
    sort like times. `extended_name` is `spec.extendedResourceName`, `annotated_name` the annotation of ours.
    `lost_name` says that somebody set the spec field and the API server dropped it, its gate being off: the value where
    kubectl kept it, else "".
    """

    name: str
    uid: str
    created: str
    extended_name: str | None
    annotated_name: str | None
    deleting: bool
    lost_name: str | None = None
    selectors: tuple[str, ...] = ()
    """The CEL expressions of `spec.selectors`; a device must match all of them."""

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """Read a DeviceClass of resource.k8s.io as the API sends it; raises InvalidInput where the shape is wrong."""
        metadata = _object(raw, "metadata", raw)
        spec = _object(raw, "spec", raw)
        annotations = _object(metadata, "annotations", raw, "metadata.")
        return cls(
            name=_text(metadata, "name", raw, "metadata.name") or "",
            uid=_text(metadata, "uid", raw, "metadata.uid") or "",
            created=_text(metadata, "creationTimestamp", raw, "metadata.creationTimestamp") or "",
            extended_name=_text(spec, "extendedResourceName", raw, "spec.extendedResourceName"),
            annotated_name=_text(annotations, NAME_ANNOTATION, raw, f"metadata.annotations['{NAME_ANNOTATION}']"),
            deleting=metadata.get("deletionTimestamp") is not None,
            lost_name=None if spec.get("extendedResourceName") else _lost_name(metadata),
            selectors=tuple(
                str(selector["cel"].get("expression", ""))
                for selector in spec.get("selectors") or ()
                if isinstance(selector, Mapping) and isinstance(selector.get("cel"), Mapping)
            ),
        )


@dataclass(frozen=True, slots=True)
class ClassMapping:
    """`resource` is served by `device_class`.

    `losers` are the classes that declare the same name and lost, best first. `present` is false where a policy names a
    class that does not exist.
    """

    resource: str
    device_class: str
    source: Source
    losers: tuple[str, ...] = ()
    present: bool = True


@dataclass(frozen=True, slots=True)
class InvalidName:
    """A DeviceClass' annotation is ignored, since `name` is no extended resource name; `problem` says why."""

    device_class: str
    name: str
    problem: str


@dataclass(frozen=True, slots=True)
class ClassMap:
    """All mappings of a cluster, as a value. Winners are computed from all classes, so that order does not matter.

    kube-scheduler's own cache does not (kubernetes issue 141103); this follows the rule that the API documents
    (`DeviceClassSpec.extendedResourceName`): the newest class wins, of equally old ones that with the smaller name.
    """

    problems: tuple[InvalidName, ...]
    _mappings: Mapping[str, ClassMapping]
    _native: Mapping[str, str]
    _declared: Mapping[str, tuple[str, ...]]
    _names_of: Mapping[str, str]

    @classmethod
    def of(cls, classes: Iterable[ClassView], policies: Mapping[str, str]) -> Self:
        """Compute the mappings of these classes (one view a class) and policies (resourceName -> deviceClassName)."""
        ranked = sorted(sorted(classes, key=lambda view: view.name), key=lambda view: view.created, reverse=True)
        problems = []
        native: dict[str, str] = {}
        declared: dict[str, dict[str, Source]] = {}  # name -> class -> source, best class first
        for view in ranked:
            if view.extended_name:
                native.setdefault(view.extended_name, view.name)
                declared.setdefault(view.extended_name, {})[view.name] = Source.FIELD
        for view in ranked:
            if not view.annotated_name:
                continue
            if wrong := explicit_name_problems(view.annotated_name):
                problems.append(InvalidName(view.name, view.annotated_name, "; ".join(wrong)))
            else:
                declared.setdefault(view.annotated_name, {}).setdefault(view.name, Source.ANNOTATION)
        names_of = {winner: name for name, winner in native.items()}
        for view in ranked:
            name = implicit_name(view.name)
            if implicit_class(name) is not None:
                native[name] = view.name
                declared[name] = {view.name: Source.IMPLICIT}

        mappings = {}
        for name, candidates in declared.items():
            winner, *losers = candidates
            mappings[name] = ClassMapping(name, winner, candidates[winner], tuple(losers))
        existing = {view.name for view in ranked}
        for name, chosen in policies.items():
            losers = [candidate for candidate in declared.get(name, ()) if candidate != chosen]
            mappings[name] = ClassMapping(name, chosen, Source.POLICY, tuple(losers), chosen in existing)
        return cls(
            problems=tuple(sorted(problems, key=lambda problem: problem.device_class)),
            _mappings=mappings,
            _native=native,
            _declared={name: tuple(candidates) for name, candidates in declared.items()},
            _names_of=names_of,
        )

    def resolve(self, name: str) -> ClassMapping | None:
        """Return the mapping of a resource name; None if no policy and no class serves it."""
        return self._mappings.get(name)

    def native(self, name: str) -> str | None:
        """Return the class that kube-scheduler itself leads the name to: by spec field or implicit name (KEP-5004)."""
        return self._native.get(name)

    def name_of(self, device_class: str) -> str:
        """Return the name by which kube-scheduler serves a class: the declared one, else the implicit one."""
        return self._names_of.get(device_class) or implicit_name(device_class)

    def names(self) -> frozenset[str]:
        """Return the names that are served, implicit ones included: those that resolve to a class that is there."""
        return frozenset(name for name, mapping in self._mappings.items() if mapping.present)

    def collisions(self) -> Mapping[str, tuple[str, ...]]:
        """Return the names that several classes declare, each with its classes, best first; policies do not matter."""
        return {name: classes for name, classes in self._declared.items() if len(classes) > 1}


def _lost_name(metadata: Mapping[str, Any]) -> str | None:
    """The field's owner is still noted in managedFields, its value only in what `kubectl apply` keeps of a manifest."""
    owners = (entry.get("fieldsV1", {}).get("f:spec", {}) for entry in metadata.get("managedFields") or ())
    if not any("f:extendedResourceName" in fields for fields in owners):
        return None
    try:
        applied = json.loads((metadata.get("annotations") or {}).get(_LAST_APPLIED, "{}"))
        return str(applied.get("spec", {}).get("extendedResourceName", ""))
    except (ValueError, AttributeError, RecursionError):
        return ""


def _object(parent: Mapping[str, Any], name: str, raw: Mapping[str, Any], prefix: str = "") -> Mapping[str, Any]:
    value = parent.get(name)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _invalid(raw, prefix + name, value, "an object")
    return value


def _text(parent: Mapping[str, Any], name: str, raw: Mapping[str, Any], path: str) -> str | None:
    value = parent.get(name)
    if value is not None and not isinstance(value, str):
        raise _invalid(raw, path, value, "a string")
    return value


def _invalid(raw: Mapping[str, Any], path: str, value: object, want: str) -> InvalidInput:
    metadata = raw.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else ""
    problem = f"is {quoted(value)}, not {want}"
    return InvalidInput(f"DeviceClass {name}", path, problem, "send a DeviceClass of resource.k8s.io")
