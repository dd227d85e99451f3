from __future__ import annotations

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, create_model

from drabridge.api.crd import Column, Definition, InexpressibleError, custom_resource_definition
from drabridge.api.markers import Atomic, Format, ListMap, Rule


class Leaf(BaseModel):
    """A leaf."""

    name: Annotated[str, Field(description="Its name.")]


class Tree(BaseModel):
    """A tree."""

    below: Annotated[list[Tree], Field(description="What is below it."), Atomic()]


class Closed(BaseModel):
    """Closed."""

    model_config = ConfigDict(extra="forbid")
    name: Annotated[str, Field(description="Its name.")]


class Empty(BaseModel):
    """Nothing."""


def definition_of(spec: type[BaseModel], **words: Any) -> Definition:
    """A custom resource Thing with this spec, and a status of one name."""
    return Definition("example.com", "v1", "Thing", "things", "A thing.", spec, Leaf, **words)


def schema_of(annotation: Any, default: Any = ...) -> dict[str, Any]:
    """The structural schema of the field spec.f, without its description."""
    spec = create_model("Spec", __doc__="Its spec.", f=(Annotated[annotation, Field(description="A field.")], default))
    crd = custom_resource_definition(definition_of(spec))
    schema: dict[str, Any] = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    assert schema["description"] == "Its spec."
    field: dict[str, Any] = schema["properties"]["f"]
    assert field.pop("description") == "A field."
    return field


LEAF = {
    "description": "A leaf.",
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"description": "Its name.", "type": "string"}},
}

SAID: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "a string with limits": (
        Annotated[str, Field(min_length=1, max_length=9, pattern="^a")],
        ...,
        {"type": "string", "pattern": "^a", "minLength": 1, "maxLength": 9},
    ),
    "an integer says its width": (int, 3, {"type": "integer", "format": "int64", "default": 3}),
    "an exclusive limit becomes a limit and a flag": (
        Annotated[int, Field(gt=0, lt=9)],
        ...,
        {
            "type": "integer",
            "format": "int64",
            "minimum": 0,
            "exclusiveMinimum": True,
            "maximum": 9,
            "exclusiveMaximum": True,
        },
    ),
    "an inclusive limit stays one": (
        Annotated[int, Field(ge=0, le=9)],
        ...,
        {"type": "integer", "format": "int64", "minimum": 0, "maximum": 9},
    ),
    "a constant becomes an enum of one": (Literal["a"], ..., {"type": "string", "enum": ["a"]}),
    "a choice becomes an enum": (Literal["a", "b"], "a", {"type": "string", "enum": ["a", "b"], "default": "a"}),
    "X | None is a field that may be absent": (str | None, None, {"type": "string"}),
    "a model | None is one, too, and the words beside it win over its own": (
        Leaf | None,
        None,
        {key: value for key, value in LEAF.items() if key != "description"},
    ),
    "a list has its merge rule": (
        Annotated[list[Leaf], Atomic()],
        ...,
        {"type": "array", "x-kubernetes-list-type": "atomic", "items": LEAF},
    ),
    "a list may be a map by a key": (
        Annotated[tuple[Leaf, ...], ListMap("name")],
        ...,
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": LEAF,
        },
    ),
    "a map has a type of value": (
        Annotated[dict[str, int], Atomic()],
        ...,
        {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": {"type": "integer", "format": "int64"},
        },
    ),
    "rules keep their order": (
        Annotated[str, Rule("a", "first"), Rule("b", "second")],
        ...,
        {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "a", "message": "first"}, {"rule": "b", "message": "second"}],
        },
    ),
    "a format is kept": (Annotated[str, Format("date-time")], ..., {"type": "string", "format": "date-time"}),
}


@pytest.mark.parametrize(("annotation", "default", "want"), SAID.values(), ids=SAID)
def test_what_a_model_says_in_a_structural_schema(annotation: Any, default: Any, want: dict[str, Any]) -> None:
    assert schema_of(annotation, default) == want


UNSAYABLE: dict[str, tuple[Any, str]] = {
    "a union": (int | str, "only `X | None`"),
    "a float": (float, "floats do not round-trip"),
    "a set": (Annotated[set[str], Atomic()], "not a set"),
    "a tuple of different types": (Annotated[tuple[int, str], Atomic()], "a list of one type"),
    "a list without merge rule": (list[str], "annotate it with Atomic or ListMap"),
    "anything at all": (Any, "give it one type"),
    "a map of anything": (dict[str, Any], "give maps a value type"),
    "a map with patterns for keys": (
        dict[Annotated[str, Field(pattern="^a")], str],
        "check the keys of a map with a Rule",
    ),
    "a model that forbids what it does not know": (Closed, "leave `extra` at ignore"),
    "a model without fields": (Empty, "give it fields"),
    "a model that contains itself": (Tree, "limit the depth"),
    "a multiple": (Annotated[int, Field(multiple_of=2)], "use a Rule"),
}


@pytest.mark.parametrize(("annotation", "cure"), UNSAYABLE.values(), ids=UNSAYABLE)
def test_what_a_crd_cannot_say_is_refused_with_path_and_cure(annotation: Any, cure: str) -> None:
    with pytest.raises(InexpressibleError, match=r"^spec\.f") as refused:
        schema_of(annotation)
    assert cure in str(refused.value)


def test_a_field_without_description_is_refused() -> None:
    with pytest.raises(InexpressibleError, match=r"^spec\.f: no description"):
        custom_resource_definition(definition_of(create_model("Spec", __doc__="Its spec.", f=(int, 1))))


def test_a_definition_says_how_the_resource_is_called_and_listed() -> None:
    columns = (
        Column("Name", "string", ".spec.name", "The name"),
        Column("Why", "string", ".status.name", "The reason", priority=1),
    )
    definition = definition_of(
        Leaf,
        short_names=("th",),
        categories=("all",),
        columns=columns,
        selectable_fields=(".spec.name",),
    )
    crd = custom_resource_definition(definition)
    assert crd["metadata"]["name"] == "things.example.com"
    assert crd["spec"]["names"] == {
        "kind": "Thing",
        "listKind": "ThingList",
        "plural": "things",
        "singular": "thing",
        "shortNames": ["th"],
        "categories": ["all"],
    }
    (version,) = crd["spec"]["versions"]
    assert version["subresources"] == {"status": {}}
    assert version["selectableFields"] == [{"jsonPath": ".spec.name"}]
    assert version["additionalPrinterColumns"] == [
        {"name": "Name", "type": "string", "jsonPath": ".spec.name", "description": "The name"},
        {"name": "Why", "type": "string", "jsonPath": ".status.name", "description": "The reason", "priority": 1},
    ]
    schema = version["schema"]["openAPIV3Schema"]
    assert schema["description"] == "A thing."
    assert list(schema["properties"]) == ["apiVersion", "kind", "metadata", "spec", "status"]
    assert schema["properties"]["spec"] == schema["properties"]["status"] == LEAF
