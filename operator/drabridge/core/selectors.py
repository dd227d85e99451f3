"""LabelSelectors (metav1.LabelSelector): parsed once, matched often."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from drabridge.core.errors import InvalidInput, quoted
from drabridge.core.names import is_label_value, is_qualified_name


class Operator(StrEnum):
    """How a requirement compares a label with its values."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label. `values` is empty for Exists and DoesNotExist, and only for them."""

    key: str
    operator: Operator
    values: frozenset[str] = frozenset()

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether the labels meet this condition; NotIn is met by labels without the key."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels


@dataclass(frozen=True, slots=True)
class LabelSelector:
    """All requirements must be met, so that a selector without any matches everything."""

    requirements: tuple[Requirement, ...] = ()

    @classmethod
    def parse(cls, raw: Mapping[str, Any], obj: str, path: str) -> Self:
        """Read a selector of the API; `obj` and `path` say where it stands ("ExtendedResourcePolicy gpu", "spec.x").

        Raises InvalidInput by the rules of `ValidateLabelSelector`, and for unknown fields: to ignore a misspelt
        `matchLabels` would select everything.
        """
        reader = _Reader(obj)
        raw = reader.mapping(raw, path)
        for name in raw:
            if name not in {"matchLabels", "matchExpressions"}:
                raise reader.invalid(
                    f"{path}.{name}", "is no field of a label selector", "use matchLabels or matchExpressions"
                )
        found = []
        at = f"{path}.matchLabels"
        for key, value in reader.mapping(raw.get("matchLabels"), at).items():
            found.append(
                Requirement(reader.key(key, at), Operator.IN, frozenset({reader.value(value, f"{at}['{key}']")}))
            )
        expressions = raw.get("matchExpressions") or []
        at = f"{path}.matchExpressions"
        if not isinstance(expressions, list):
            raise reader.invalid(at, f"is {quoted(expressions)}, not a list", "write a list of requirements")
        found += [reader.requirement(expression, f"{at}[{i}]") for i, expression in enumerate(expressions)]
        return cls(tuple(found))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        return all(requirement.matches(labels) for requirement in self.requirements)


@dataclass(frozen=True, slots=True)
class _Reader:
    obj: str

    def invalid(self, path: str, problem: str, cure: str) -> InvalidInput:
        return InvalidInput(self.obj, path, problem, cure)

    def mapping(self, raw: Any, path: str) -> Mapping[str, Any]:
        if raw is None:
            return {}
        if not isinstance(raw, Mapping):
            raise self.invalid(path, f"is {quoted(raw)}, not an object", "write a mapping")
        return raw

    def key(self, raw: Any, path: str) -> str:
        if not isinstance(raw, str) or not is_qualified_name(raw):
            raise self.invalid(path, f"{quoted(raw)} is not a label key", "write a key such as example.com/team")
        return raw

    def value(self, raw: Any, path: str) -> str:
        if not isinstance(raw, str) or not is_label_value(raw):
            raise self.invalid(
                path,
                f"{quoted(raw)} is not a label value",
                "write a text of up to 63 letters, digits, '-', '_' or '.' that starts and ends with a letter or digit",
            )
        return raw

    def requirement(self, raw: Any, path: str) -> Requirement:
        raw = self.mapping(raw, path)
        key = self.key(raw.get("key"), f"{path}.key")
        try:
            operator = Operator(raw.get("operator"))
        except ValueError:
            raise self.invalid(
                f"{path}.operator",
                f"{quoted(raw.get('operator'))} is not an operator",
                f"use one of {', '.join(Operator)}",
            ) from None
        values = raw.get("values") or []
        if not isinstance(values, list):
            raise self.invalid(f"{path}.values", f"is {quoted(values)}, not a list", "write a list of label values")
        if bool(values) != (operator in {Operator.IN, Operator.NOT_IN}):
            problem = f"{operator} takes no values" if values else f"{operator} needs at least one value"
            raise self.invalid(f"{path}.values", problem, "In and NotIn take values, Exists and DoesNotExist take none")
        return Requirement(
            key, operator, frozenset(self.value(value, f"{path}.values[{i}]") for i, value in enumerate(values))
        )
