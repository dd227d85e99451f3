"""Objects out of files, directories and standard input: each says where it was found, and what is broken says so."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest

from drabridge.cli import sources
from drabridge.cli.sources import Sourced, characters, list_cluster, parse, read
from drabridge.core.errors import InvalidInput, Missing
from drabridge.kube.resources import RESOURCE_SLICES, Resource

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: default}\n"
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def found(text: str) -> list[str]:
    """What is found: `kind name (origin)`, or the message."""
    return [str(each) for each in parse(text, "f.yaml")]


def body(text: str) -> Any:
    (each,) = parse(text, "f.yaml")
    assert isinstance(each, Sourced), each
    return each.body


TEXTS = {
    "one document": (POD, ["Pod default/web (f.yaml, document 1, line 1)"]),
    "several, with their lines": (
        f"# head\n---\n{POD}---\n# a comment\n\n{POD}--- # another\n{POD}",
        [
            "Pod default/web (f.yaml, document 1, line 3)",
            "Pod default/web (f.yaml, document 2, line 9)",
            "Pod default/web (f.yaml, document 3, line 13)",
        ],
    ),
    "empty ones do not count": (
        f"---\n---\n# nothing\n---\n{POD}---\n",
        ["Pod default/web (f.yaml, document 1, line 5)"],
    ),
    "directives": (f"%YAML 1.1\n---\n{POD}", ["Pod default/web (f.yaml, document 1, line 3)"]),
    "content on the marker's line": ("--- {kind: Node}\n", ["Node ? (f.yaml, document 1, line 1)"]),
    "Windows' line ends": (POD.replace("\n", "\r\n") * 1, ["Pod default/web (f.yaml, document 1, line 1)"]),
    "nothing at all": ("", []),
    "an explicit nothing": ("null\n", []),
    "a marker within a text is none": (
        'kind: Node\nmetadata:\n  name: |\n    a\n    ---\n    b\n',
        ["Node a\n---\nb\n (f.yaml, document 1, line 1)"],
    ),
    "JSON": (json.dumps(NODE), ["Node n (f.yaml, document 1, line 1)"]),
    "YAML in braces": ("{kind: Node, metadata: {name: n}}", ["Node n (f.yaml, document 1, line 1)"]),
    "a list": (
        json.dumps({"kind": "List", "items": [NODE, NODE]}),
        ["Node n (f.yaml, document 1, line 1)"] * 2,
    ),
    "a typed list, whose items do not say what they are": (
        json.dumps({"apiVersion": "v1", "kind": "NodeList", "items": [{"metadata": {"name": "n"}}]}),
        ["Node n (f.yaml, document 1, line 1)"],
    ),
    "a list in a list": (
        json.dumps({"kind": "List", "items": [{"kind": "List", "items": [NODE]}]}),
        ["Node n (f.yaml, document 1, line 1)"],
    ),
    "an empty list": (json.dumps({"kind": "NodeList", "items": None}), []),
    "an object whose kind ends like a list's": ("kind: AllowList\n", ["AllowList ? (f.yaml, document 1, line 1)"]),
    "an object without kind and name": ("metadata: {name: 5}\n", ["object ? (f.yaml, document 1, line 1)"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "objects"), TEXTS.values(), ids=TEXTS)
def test_what_is_found(text: str, objects: list[str]) -> None:
    assert found(text) == objects


BROKEN = {
    "no YAML": ("a: [\n", "it is no YAML: did not find expected node content (line 2, column 1)"),
    "no YAML, further down": (f"{POD}---\nx: 1\n y: 2\n", "it is no YAML: mapping values are not allowed"),
    "a tag that makes objects": ("!!python/object/apply:os.getpid []", "could not determine a constructor"),
    "a text": ("just text", "is 'just text', not an object"),
    "a list without a kind": ("[1, 2]", "is [1, 2], not an object"),
    "a key that comes twice": ("kind: Node\nkind: Pod\n", "key 'kind' comes twice (line 2, column 1)"),
    "a key that comes twice, in JSON": ('{"kind": "Node", "kind": "Pod"}', "key 'kind' comes twice"),
    "no number": ('{"kind": NaN}', "NaN is no number of JSON"),
    "a control character": ("kind: \x01", "it is no YAML: "),
    "items that are no list": ("kind: List\nitems: {a: 1}\n", "items: is {'a': 1}, not a list"),
    "an item that is no object": ("kind: List\nitems: [5]\n", "is 5, not an object"),
    "depth": ("[" * 2000 + "]" * 2000, "it is no YAML: exceeded maximum nesting depth"),
    "depth, in JSON": ('{"a":' * 100_000, "it is nested too deeply"),
    "a list that is in itself": ("&a {kind: List, items: [*a]}", "it is no YAML: found unconstructable recursive node"),
    "a number of many digits": ("a: " + "1" * 5000, "Exceeds the limit (4300 digits)"),
    "lists in lists": (
        '{"kind": "List", "items": [' * 10 + "]}" * 10,
        "items: there are lists in lists in lists",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), BROKEN.values(), ids=BROKEN)
def test_what_is_broken_is_told_with_its_place(text: str, message: str) -> None:
    errors = [each for each in parse(text, "f.yaml") if isinstance(each, InvalidInput)]
    assert len(errors) == 1
    assert "f.yaml, document " in errors[0].object
    assert message in str(errors[0])
    assert errors[0].cure


def test_the_line_of_an_error_is_that_of_the_file() -> None:
    (error,) = (each for each in parse(f"{POD}---\n\nx: 1\n y: 2\n", "f.yaml") if isinstance(each, InvalidInput))
    assert error.object == "f.yaml, document 2, line 6"
    assert "(line 7, column 3)" in error.problem


def test_a_broken_document_does_not_hide_the_others() -> None:
    kinds = [each.__class__ for each in parse(f"{POD}---\na: [\n---\n{POD}", "f.yaml")]
    assert kinds == [Sourced, InvalidInput, Sourced]


PLAIN = {
    "a date stays a text": ("a: 2020-01-02", "2020-01-02"),
    "a time stays a text": ("a: 2020-01-02T03:04:05Z", "2020-01-02T03:04:05Z"),
    "no number to the base of sixty": ("a: 1:30", "1:30"),
    "nor a fraction of one": ("a: 1:30.5", "1:30.5"),
    "a number": ("a: 12", 12),
    "a fraction": ("a: 1.5", 1.5),
    "a bool, as in Kubernetes' YAML": ("a: on", True),
    "nothing": ("a:", None),
    "three parts are no number": ("a: 1.2.3", "1.2.3"),
}


@pytest.mark.parametrize(("text", "value"), PLAIN.values(), ids=PLAIN)
def test_values_are_plain_data(text: str, value: object) -> None:
    assert body(text)["a"] == value
    assert body(text)["a"].__class__ is value.__class__


def test_keys_may_be_merged_and_overridden() -> None:
    assert body("a: &a {x: 1, y: 1}\nb: {<<: *a, y: 2}\n")["b"] == {"x": 1, "y": 2}


def test_progress_is_told_of_every_character() -> None:
    text = f"{POD}---\n{POD}"
    steps: list[int] = []
    assert len(list(parse(text, "f", steps.append))) == 2
    assert sum(steps) == len(text)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "b.yml").write_text(POD)
    (tmp_path / "a.yaml").write_text("\ufeff" + POD, encoding="utf-8")
    (tmp_path / "c.json").write_text(json.dumps(NODE))
    (tmp_path / "README.md").write_text("no YAML: [")
    (tmp_path / "below.yaml").mkdir()
    return tmp_path


def test_a_directory_is_read_in_order_and_not_what_is_below(directory: Path) -> None:
    origins = [each.origin.source for each in read([str(directory)]) if isinstance(each, Sourced)]
    assert origins == [str(directory / name) for name in ("a.yaml", "b.yml", "c.json")]
    assert characters([str(directory), "-", "nowhere"]) == sum(
        (directory / name).stat().st_size for name in ("a.yaml", "b.yml", "c.json")
    )


def test_standard_input_is_a_file_among_others(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(POD.encode())))
    each = [str(each) for each in read([str(directory / "c.json"), "-"])]
    assert each == [
        f"Node n ({directory / 'c.json'}, document 1, line 1)",
        "Pod default/web (standard input, document 1, line 1)",
    ]


UNREADABLE = {
    "one that is not there": ("nope.yaml", None, "no such file or directory"),
    "one that is no text": ("x.yaml", b"a: \xff", "byte 3 is no UTF-8"),
}


@pytest.mark.parametrize(("name", "content", "message"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_file_that_cannot_be_read_is_told_and_the_others_are_read(
    directory: Path, name: str, content: bytes | None, message: str
) -> None:
    if content is not None:
        (directory / name).write_bytes(content)
    first, second = read([str(directory / name), str(directory / "c.json")])
    assert isinstance(first, InvalidInput)
    assert (first.object, first.problem) == (str(directory / name), message)
    assert isinstance(second, Sourced)


def test_a_directory_that_cannot_be_listed_is_told(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    (error,) = read([str(directory)])
    assert isinstance(error, InvalidInput)
    assert error.problem == "permission denied"
    assert characters([str(directory)]) == 0


def test_a_name_that_is_too_long_is_told() -> None:
    (error,) = read(["x" * 5000])
    assert isinstance(error, InvalidInput)
    assert error.problem == "file name too long"


def test_a_directory_without_files_is_told(directory: Path) -> None:
    (error,) = read([str(directory / "below.yaml")])
    assert isinstance(error, InvalidInput)
    assert error.problem == "the directory has no file to read"
    assert ".yaml, .yml or .json" in error.cure


class Server:
    """Stands in for the client of an API server that serves one version of a resource."""

    def __init__(self, served: str) -> None:
        self._served = served
        self.credentials = SimpleNamespace(host="https://server")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    async def list_all(self, resource: Resource, _: str | None) -> list[dict[str, Any]]:
        if resource.version != self._served:
            raise Missing("not found")
        return [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}}]


VERSIONS = [replace(RESOURCE_SLICES, version=version) for version in ("v1", "v1beta2")]


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    def serve(version: str) -> None:
        async def connect(*_: object, **__: object) -> Server:
            return Server(version)

        monkeypatch.setattr(sources, "Client", SimpleNamespace(connect=connect))

    return serve


@pytest.mark.parametrize("version", ["v1", "v1beta2"])
async def test_a_cluster_is_read_in_the_version_it_serves(serve: Callable[[str], None], version: str) -> None:
    serve(version)
    found = await list_cluster(VERSIONS, None, None)
    assert [str(each) for each in found] == [f"ResourceSlice {name} (cluster https://server)" for name in "ab"]
    assert {each.body["apiVersion"] for each in found} == {f"resource.k8s.io/{version}"}


async def test_a_cluster_that_does_not_serve_it_is_told(serve: Callable[[str], None]) -> None:
    serve("v1alpha2")
    with pytest.raises(InvalidInput) as refused:
        await list_cluster(VERSIONS, None, None)
    assert str(refused.value).startswith(
        "cluster https://server: it does not serve resourceslices of resource.k8s.io/v1, resourceslices of "
        "resource.k8s.io/v1beta2; `kubectl api-resources` shows"
    )
