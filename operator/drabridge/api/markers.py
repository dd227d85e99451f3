"""What a CustomResourceDefinition says beyond JSON Schema, as annotations on pydantic fields.

Each marker writes one `x-kubernetes-*` extension into the field's JSON schema, where `api.crd` takes it over
(Kubernetes: apiextensions.k8s.io/v1 JSONSchemaProps). Pydantic itself does not check them; the API server does.
"""

from dataclasses import dataclass
from typing import Any

from pydantic import GetJsonSchemaHandler
from pydantic_core import CoreSchema


@dataclass(frozen=True, slots=True)
class Rule:
    """A CEL validation rule: `self` is the annotated value. The message names the cure (x-kubernetes-validations)."""

    rule: str
    message: str

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = dict(handler(core_schema))
        rules = [*schema.get("x-kubernetes-validations", []), self.said()]
        return {**schema, "x-kubernetes-validations": rules}

    def said(self) -> dict[str, Any]:
        """Give the rule as an entry of x-kubernetes-validations."""
        return {"rule": self.rule, "message": self.message}


@dataclass(frozen=True, slots=True)
class Atomic:
    """The list or map is replaced as a whole by server-side apply (list-type/map-type: atomic)."""

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        schema = dict(handler(core_schema))
        kind = "list" if schema.get("type") == "array" else "map"
        return {**schema, f"x-kubernetes-{kind}-type": "atomic"}


@dataclass(frozen=True, slots=True)
class ListMap:
    """The list's entries are told apart by one required field of theirs (x-kubernetes-list-type: map)."""

    key: str

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {
            **handler(core_schema),
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": [self.key],
        }


@dataclass(frozen=True, slots=True)
class Format:
    """The value's format in OpenAPI terms, such as date-time."""

    name: str

    def __get_pydantic_json_schema__(self, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(core_schema), "format": self.name}
