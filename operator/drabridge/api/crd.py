"""From pydantic models to CustomResourceDefinitions.

Pydantic writes JSON Schema 2020-12, a CustomResourceDefinition wants a *structural schema*: one type a node, no
references, no unions, `exclusiveMinimum` as a flag, and server-side apply's merge rules on every list
(Kubernetes: "Specifying a structural schema"). What has no counterpart is refused, so that a model never promises
more than the API server enforces.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel

Schema = dict[str, Any]

_KEPT = (
    "description",
    "type",
    "format",
    "enum",
    "default",
    "pattern",
    "minLength",
    "maxLength",
    "minimum",
    "exclusiveMinimum",
    "maximum",
    "exclusiveMaximum",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-validations",
    "required",
    "properties",
    "items",
    "additionalProperties",
)
"""The keywords of a structural schema that we use, in the order in which they are written."""

_CURES: Mapping[str, str] = {
    "uniqueItems": "use a list with a Rule, not a set",
    "prefixItems": "use a list of one type (tuple[X, ...])",
    "oneOf": "use one model with optional fields and a Rule",
    "allOf": "use one model with optional fields and a Rule",
    "anyOf": "only `X | None` is possible; use one model with optional fields and a Rule",
    "propertyNames": "check the keys of a map with a Rule",
    "patternProperties": "check the keys of a map with a Rule",
    "multipleOf": "use a Rule",
}


class InexpressibleError(ValueError):
    """The model says something that a CustomResourceDefinition cannot say. A mistake of whoever wrote the model."""

    def __init__(self, path: str, problem: str, cure: str) -> None:
        super().__init__(f"{path}: {problem}; {cure}")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of `kubectl get`; priority 1 shows with `-o wide` only."""

    name: str
    type: Literal["string", "integer", "date"]
    json_path: str
    description: str
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Definition:
    """A cluster-scoped custom resource with one version: its names, its models, and how kubectl lists it."""

    group: str
    version: str
    kind: str
    plural: str
    description: str
    spec: type[BaseModel]
    status: type[BaseModel]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    selectable_fields: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the CustomResourceDefinition object."""
        return f"{self.plural}.{self.group}"


def custom_resource_definition(definition: Definition) -> dict[str, Any]:
    """Give the CustomResourceDefinition (apiextensions.k8s.io/v1) as an object ready for YAML.

    Raises InexpressibleError, with the field's path, where the model says what a CustomResourceDefinition cannot say.
    """
    singular = definition.kind.lower()
    version: dict[str, Any] = {
        "name": definition.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _whole_object(definition)},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [_column(column) for column in definition.columns],
    }
    if definition.selectable_fields:
        version["selectableFields"] = [{"jsonPath": path} for path in definition.selectable_fields]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": definition.name},
        "spec": {
            "group": definition.group,
            "scope": "Cluster",
            "names": {
                "kind": definition.kind,
                "listKind": f"{definition.kind}List",
                "plural": definition.plural,
                "singular": singular,
                "shortNames": list(definition.short_names),
                "categories": list(definition.categories),
            },
            "versions": [version],
        },
    }


def _whole_object(definition: Definition) -> Schema:
    return {
        "description": definition.description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": f"Always {definition.group}/{definition.version}.", "type": "string"},
            "kind": {"description": f"Always {definition.kind}.", "type": "string"},
            "metadata": {"type": "object"},  # the API server refuses to hear more about it here
            "spec": _structural(definition.spec, "spec"),
            "status": _structural(definition.status, "status"),
        },
    }


def _structural(model: type[BaseModel], path: str) -> Schema:
    source = model.model_json_schema(by_alias=True)
    return _convert(source, source.get("$defs", {}), path, ())


def _column(column: Column) -> dict[str, Any]:
    said: dict[str, Any] = {
        "name": column.name,
        "type": column.type,
        "jsonPath": column.json_path,
        "description": column.description,
    }
    if column.priority:
        said["priority"] = column.priority
    return said


def _convert(node: Schema, defs: Mapping[str, Schema], path: str, inside: Sequence[str]) -> Schema:
    """Convert one node and what is below it; `inside` holds the names of the models we are in."""
    node, inside = _resolved(node, defs, path, inside)
    schema = {key: value for key, value in node.items() if key not in {"title", "$defs"}}
    if "const" in schema:
        schema["enum"] = [schema.pop("const")]
    for limit in ("Minimum", "Maximum"):
        if f"exclusive{limit}" in schema:
            schema[limit.lower()] = schema[f"exclusive{limit}"]
            schema[f"exclusive{limit}"] = True
    if schema.get("default", ...) is None:
        del schema["default"]
    _refuse_unsayable(schema, path)
    match schema["type"]:
        case "object":
            _convert_object(schema, defs, path, inside)
        case "array":
            schema["items"] = _convert(schema.get("items", {}), defs, f"{path}[]", inside)
        case "integer":
            schema.setdefault("format", "int64")
    return {key: schema[key] for key in _KEPT if key in schema}


def _resolved(
    node: Schema, defs: Mapping[str, Schema], path: str, inside: Sequence[str]
) -> tuple[Schema, Sequence[str]]:
    """Replace a reference and `X | None` by what they stand for; words beside them win over the model's own.

    `X | None` becomes a field that may be absent, not one that may be null: Kubernetes' own types know no
    difference, and one spelling is enough.
    """
    if "anyOf" in node:
        others = [option for option in node["anyOf"] if option != {"type": "null"}]
        if len(others) != 1:
            raise InexpressibleError(path, "a union of several types", _CURES["anyOf"])
        beside = {key: value for key, value in node.items() if key != "anyOf"}
        return _resolved({**others[0], **beside}, defs, path, inside)
    if "$ref" in node:
        name = node["$ref"].removeprefix("#/$defs/")
        if name in inside:
            raise InexpressibleError(path, f"{name} contains itself", "limit the depth by a model for each level")
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _resolved({**defs[name], **beside}, defs, path, (*inside, name))
    return node, inside


def _refuse_unsayable(schema: Schema, path: str) -> None:
    for key in schema.keys() - set(_KEPT):
        raise InexpressibleError(path, f"`{key}` has no counterpart", _CURES.get(key, "say it with a Rule"))
    match schema.get("type"):
        case "object" | "string" | "boolean" | "integer":
            pass
        case "array":
            if "x-kubernetes-list-type" not in schema:
                raise InexpressibleError(path, "a list without merge rule", "annotate it with Atomic or ListMap")
        case "number":
            raise InexpressibleError(path, "a float", "use an integer or a quantity (string): floats do not round-trip")
        case other:
            raise InexpressibleError(path, f"type {other!r}", "give it one type: a model, str, int, bool, list or dict")
    if not schema.get("description") and not path.endswith("[]"):
        raise InexpressibleError(path, "no description", "`kubectl explain` shows it: write one")


def _convert_object(schema: Schema, defs: Mapping[str, Schema], path: str, inside: Sequence[str]) -> None:
    values = schema.get("additionalProperties")
    if isinstance(values, bool):
        raise InexpressibleError(
            path,
            f"`additionalProperties: {str(values).lower()}`",
            "unknown fields are pruned by the API server: leave `extra` at ignore, and give maps a value type",
        )
    if values is not None:
        schema["additionalProperties"] = _convert(values, defs, f"{path}[]", inside)
    elif not schema.get("properties"):
        raise InexpressibleError(path, "an object without fields", "give it fields")
    if "properties" in schema:
        schema["properties"] = {
            name: _convert(field, defs, f"{path}.{name}", inside) for name, field in schema["properties"].items()
        }
