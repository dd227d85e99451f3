"""Nodes, and the node selectors by which slices and devices say where they can be used.

A selector's terms are ORed, a term's requirements ANDed; an empty term matches nothing. The rules are those of
k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Self

from drabridge.core.allocation.reading import Raw, opened
from drabridge.core.names import is_label_value, is_qualified_name

NAME_FIELD: Final = "metadata.name"

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """What an allocation goes by of a Node."""

    name: str
    labels: Mapping[str, str]
    declared_features: frozenset[str]

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a Node (v1, as JSON). Raises InvalidInput."""
        reader, _, _, name = opened("Node", raw)
        metadata = reader.mapping(raw.get("metadata"), "metadata")
        status = reader.mapping(raw.get("status"), "status")
        labels = reader.mapping(metadata.get("labels"), "metadata.labels")
        return cls(
            name,
            {key: reader.text(value, f"metadata.labels[{key}]") for key, value in labels.items()},
            frozenset(reader.strings(status.get("declaredFeatures"), "status.declaredFeatures")),
        )

    def is_like(self, other: Node) -> bool:
        """Whether an allocation cannot tell it from another one."""
        return (
            self.name == other.name
            and self.labels == other.labels
            and self.declared_features == other.declared_features
        )


class SelectorProblem(Exception):
    """A node selector that upstream cannot parse, with a text for users. `device` is whose it is: an index, or None."""

    def __init__(self, problem: str, device: int | None = None) -> None:
        super().__init__(problem)
        self.device = device


def matches(selector: Raw, node: Node) -> bool:
    """Whether a node selector (v1.NodeSelector, as JSON) selects the node. Raises SelectorProblem if it is broken."""
    found = False
    for index, term in enumerate(selector.get("nodeSelectorTerms") or ()):
        labels, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
        if not labels and not fields:
            continue
        at = f"nodeSelectorTerms[{index}]"
        wanted = [_label(requirement, f"{at}.matchExpressions[{i}]") for i, requirement in enumerate(labels)]
        named = [_field(requirement, f"{at}.matchFields[{i}]") for i, requirement in enumerate(fields)]
        found = found or (all(_label_met(*w, node.labels) for w in wanted) and all(_name_met(*n, node) for n in named))
    return found


_Requirement = tuple[str, str, tuple[str, ...]]


def _label(raw: Any, at: str) -> _Requirement:
    requirement = _requirement(raw)
    problem = _label_problem(*requirement)
    if problem:
        raise SelectorProblem(f"{at}: {problem}")
    return requirement


def _requirement(raw: Raw) -> _Requirement:
    return str(raw.get("key") or ""), str(raw.get("operator") or ""), tuple(raw.get("values") or ())


@lru_cache(maxsize=1024)
def _label_problem(key: str, operator: str, values: tuple[str, ...]) -> str | None:
    if operator not in _VALUES:
        return f"{operator!r} is not a valid label selector operator"
    if not _VALUES[operator](len(values)):
        return f"{operator} does not go with {len(values)} values"
    if operator in {"Gt", "Lt"} and _int64(values[0]) is None:
        return f"{values[0]!r} is not an integer, which {operator} compares with"
    if not is_qualified_name(key):
        return f"{key!r} is not a label key"
    return next((f"{value!r} is not a label value" for value in values if not is_label_value(value)), None)


_VALUES: Final = {
    "In": lambda count: count > 0,
    "NotIn": lambda count: count > 0,
    "Exists": lambda count: count == 0,
    "DoesNotExist": lambda count: count == 0,
    "Gt": lambda count: count == 1,
    "Lt": lambda count: count == 1,
}
"""Operator -> whether it takes so many values."""


def _label_met(key: str, operator: str, values: tuple[str, ...], labels: Mapping[str, str]) -> bool:
    match operator:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    value, bound = _int64(labels.get(key, "")), _int64(values[0])
    if value is None or bound is None:
        return False
    return value > bound if operator == "Gt" else value < bound


def _int64(text: str) -> int | None:
    if not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def _field(raw: Any, at: str) -> _Requirement:
    key, operator, values = _requirement(raw)
    if operator not in {"In", "NotIn"}:
        raise SelectorProblem(f"{at}: {operator!r} is not a valid field selector operator")
    if len(values) != 1:
        raise SelectorProblem(f"{at}: must have one element, not {len(values)}")
    return key, operator, values


def _name_met(key: str, operator: str, values: tuple[str, ...], node: Node) -> bool:
    value = node.name if key == NAME_FIELD else ""
    return (value == values[0]) == (operator == "In")


def on_node(place: Raw, node: Node) -> bool | None:
    """Whether a slice's spec or a device is for this node: by nodeName, allNodes or nodeSelector, the first given.

    None if none of the three is given. Raises SelectorProblem.
    """
    if name := place.get("nodeName"):
        return bool(name == node.name)
    if place.get("allNodes") is True:
        return True
    if (selector := place.get("nodeSelector")) is not None:
        return matches(selector, node)
    return None
