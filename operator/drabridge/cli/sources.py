"""Where verbs get Kubernetes objects from: files, directories, standard input, or a cluster.

Files hold YAML or JSON, any number of documents each, and lists of objects, which are taken apart. What cannot be read
is an InvalidInput that stands in the place of the objects it would have been: the rest is read all the same.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

from drabridge.cli import jsonlist
from drabridge.cli.jsonlist import JSONList
from drabridge.cli.plainyaml import UNUSUAL, PlainReader
from drabridge.core.errors import InvalidInput, Missing, quoted
from drabridge.kube.client import Client

if TYPE_CHECKING:
    from drabridge.kube.resources import Resource

STDIN: Final = "-"
SUFFIXES: Final = (".yaml", ".yml", ".json")
"""Files of a directory that are read."""

_DEEPEST_LIST: Final = 8
"""Lists in lists that are taken apart. YAML can say that a list is its own element."""

_LINE: Final = re.compile(r"[^\r\n\x85\u2028\u2029]+")
"""What stands between two line breaks of YAML."""

_MARKER: Final = re.compile(r"^---(?=[ \t\r\n]|$)", re.MULTILINE)
"""Begins a document wherever it stands: YAML allows it at the start of a line for nothing else."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an object was found. `document` counts from 1, `line` is that of its start; None for a cluster's."""

    source: str
    document: int | None = None
    line: int | None = None

    def __str__(self) -> str:
        if self.document is None:
            return self.source
        return f"{self.source}, document {self.document}, line {self.line}"


@dataclass(frozen=True, slots=True)
class Sourced:
    """An object as it was written, and where."""

    body: Mapping[str, Any]
    origin: Origin

    @property
    def kind(self) -> str:
        """Its kind, "" if it does not say."""
        kind = self.body.get("kind")
        return kind if isinstance(kind, str) else ""

    @property
    def name(self) -> str:
        """Its namespace, if any, and name: "default/web"; "?" if it does not say."""
        metadata = self.body.get("metadata")
        if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
            return "?"
        namespace = metadata.get("namespace")
        return f"{namespace}/{metadata['name']}" if isinstance(namespace, str) else metadata["name"]

    def __str__(self) -> str:
        return f"{self.kind or 'object'} {self.name} ({self.origin})"


Found = Sourced | InvalidInput
"""An object, or why there is none."""

Progress = Callable[[int], None]
"""Told how many characters were read since the last time."""


def read(paths: Iterable[str], progress: Progress | None = None) -> Iterator[Found]:
    """Read the objects of all files, of the files in all directories (not of those below), and of `-`."""
    for path in paths:
        for each in _files(path):
            if isinstance(each, InvalidInput):
                yield each
                continue
            source, text = each
            yield from parse(text, source, progress)


def characters(paths: Iterable[str]) -> int:
    """Estimate how many characters `read` will tell its progress of; standard input does not count."""
    total = 0
    for path in paths:
        try:
            total += sum(each.stat().st_size for each in _paths(path)) if path != STDIN else 0
        except OSError:  # `read` says so
            continue
    return total


def parse(text: str, source: str, progress: Progress | None = None) -> Iterator[Found]:
    """Read the objects of a text."""
    number = 0
    line = 1
    for document in _documents(text):
        if not _is_empty(document):
            number += 1
            yield from _objects(document, Origin(source, number, line + _leading_lines(document)), line)
        line += document.count("\n")
        if progress is not None:
            progress(len(document))


async def list_cluster(
    versions: Iterable[Resource], kubeconfig: Path | None, context: str | None, *, namespace: str | None = None
) -> list[Sourced]:
    """Read all objects of a kind from a cluster, in the first version that it serves.

    Raises what `Client.connect` and `Client.list_all` raise; InvalidInput if it serves none.
    """
    asked = []
    async with await Client.connect(kubeconfig, context, user_agent=f"drabridge-cli/{version('drabridge')}") as client:
        origin = Origin(f"cluster {client.credentials.host}")
        for resource in versions:
            asked.append(f"{resource.plural} of {resource.api_version}")
            try:
                items = await client.list_all(resource, namespace)
            except Missing:
                continue
            about = {"apiVersion": resource.api_version, "kind": resource.kind}  # items of a list carry neither
            return [Sourced({**about, **item}, origin) for item in items]
    cure = "`kubectl api-resources` shows what it serves; name another cluster, or objects in files"
    raise InvalidInput(str(origin), "", f"it does not serve {', '.join(asked)}", cure)


def _files(path: str) -> Iterator[tuple[str, str] | InvalidInput]:
    if path == STDIN:
        yield _decoded(sys.stdin.buffer.read(), "standard input")
        return
    try:
        found = _paths(path)
    except OSError as error:
        yield _unreadable(path, error)
        return
    if not found:
        yield InvalidInput(path, "", "the directory has no file to read", f"name files ending in {_any_suffix()}")
    for each in found:
        try:
            text = _decoded(each.read_bytes(), str(each))
        except OSError as error:
            yield _unreadable(str(each), error)
        else:
            yield text


def _paths(path: str) -> list[Path]:
    """List the files that a path stands for: itself, or what of a directory is to be read. Raises OSError."""
    if not Path(path).is_dir():
        return [Path(path)]
    return sorted(each for each in Path(path).iterdir() if each.suffix in SUFFIXES and each.is_file())


def _unreadable(path: str, error: OSError) -> InvalidInput:
    return InvalidInput(path, "", (error.strerror or str(error)).lower(), "name a file that can be read")


def _any_suffix() -> str:
    return f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"


def _decoded(content: bytes, source: str) -> tuple[str, str] | InvalidInput:
    try:
        return source, content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return InvalidInput(source, "", f"byte {error.start} is no UTF-8", "save it as UTF-8")


def _documents(text: str) -> Iterator[str]:
    start = 0
    for marker in _MARKER.finditer(text):
        yield text[start : marker.start()]
        start = marker.start()
    yield text[start:]


def _is_empty(document: str) -> bool:
    """Whether there is nothing but blanks, comments and directives. Looks no further than the first other line."""
    lines = (match.group().strip() for match in _LINE.finditer(document, 3 if document.startswith("---") else 0))
    return all(not line or line[0] in "#%" for line in lines)


def _leading_lines(document: str) -> int:
    """Count the lines before the content: the marker's, blank ones, comments."""
    content = re.match(r"(?:---[ \t]*(?:#[^\n]*)?(?:\r?\n|$))?(?:[ \t]*(?:#[^\n]*)?\r?\n)*", document)
    return content.group().count("\n") if content else 0


def _objects(document: str, origin: Origin, line: int) -> Iterator[Found]:
    listed = jsonlist.recognised(document)
    about = _items_are(listed.about) if listed else None
    if listed and about is not None:
        yield from _items(document, listed, about, origin)
        return
    try:
        loaded = _load(document)
    except yaml.YAMLError as error:
        yield InvalidInput(str(origin), "", _described(error, line), "correct this document")
    except RecursionError:
        yield InvalidInput(str(origin), "", "it is nested too deeply", "write it with less depth")
    except ValueError as error:
        yield InvalidInput(str(origin), "", str(error), "correct this document")
    else:
        yield from _flat(loaded, origin, _DEEPEST_LIST)


def _items_are(about: str) -> dict[str, Any] | None:
    """What the items of a list have in common, which those of a typed list may leave out. None if it is no list."""
    try:
        return _common(DECODER.decode(about))
    except (ValueError, RecursionError):
        return None  # to be looked at as a whole, which says what is wrong


def _common(listed: Mapping[str, Any]) -> dict[str, Any] | None:
    kind = listed.get("kind")
    if not isinstance(kind, str) or not kind.endswith("List") or "items" not in listed:
        return None
    return {"apiVersion": listed.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}


def _items(document: str, listed: JSONList, about: Mapping[str, Any], origin: Origin) -> Iterator[Found]:
    """The objects of a list in JSON, one after the other."""
    try:
        for item in jsonlist.items(document, listed, DECODER):
            yield from _flat({**about, **item} if isinstance(item, Mapping) else item, origin, _DEEPEST_LIST - 1)
    except json.JSONDecodeError as error:
        problem = f"it is no JSON: {error.msg} (line {error.lineno}, column {error.colno})"
        yield InvalidInput(str(origin), "", problem, "correct this document")
    except RecursionError:
        yield InvalidInput(str(origin), "", "it is nested too deeply", "write it with less depth")
    except ValueError as error:
        yield InvalidInput(str(origin), "", str(error), "correct this document")


def _flat(loaded: Any, origin: Origin, depth: int) -> Iterator[Found]:
    """Take lists of objects apart."""
    if loaded is None:
        return
    if not isinstance(loaded, Mapping):
        problem = f"is {quoted(loaded)}, not an object"
        yield InvalidInput(str(origin), "", problem, "write a Kubernetes object: apiVersion, kind, metadata, …")
        return
    about = _common(loaded)
    if about is None:
        yield Sourced(loaded, origin)
        return
    kind, items = loaded["kind"], loaded["items"] or []
    if not isinstance(items, list):
        yield InvalidInput(f"{kind} ({origin})", "items", f"is {quoted(items)}, not a list", "write a list of objects")
        return
    if depth == 0:
        yield InvalidInput(f"{kind} ({origin})", "items", "there are lists in lists in lists", "write one list")
        return
    for item in items:
        yield from _flat({**about, **item} if isinstance(item, Mapping) else item, origin, depth - 1)


def _load(document: str) -> Any:
    if document.lstrip().startswith("{"):
        try:
            return DECODER.decode(document)
        except json.JSONDecodeError:
            pass  # YAML in braces, or broken: YAML says where
    plain = _PLAIN.read(document)
    if plain is not UNUSUAL:
        return plain
    return yaml.load(document, Loader=_Loader)  # noqa: S506 -- a safe loader, see below


_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The C parser is some ten times as fast; PyYAML's wheels have it."""


class _Loader(_SafeLoader):  # type: ignore[misc] # one of two classes, see above
    """Loads plain data: text, numbers, bools, null, lists, maps; dates and sexagesimals stay text, as in Kubernetes."""

    yaml_implicit_resolvers: Final = {
        first: [pair for pair in pairs if pair[0] != "tag:yaml.org,2002:timestamp"]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Any, Any]:
    """Make a map. A key that comes twice is an error: one of the two would be lost without a word."""
    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            if (key.tag, key.value) in seen:
                problem = f"key {quoted(key.value)} comes twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add((key.tag, key.value))
    loader.flatten_mapping(node)  # `<<: *other`, whose keys may well come again
    made: dict[Any, Any] = loader.construct_mapping(node, deep=True)
    return made


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def _sexagesimal_free(loader: Any, node: yaml.ScalarNode) -> Any:
    if ":" in node.value:
        return node.value
    if node.tag.endswith("float"):
        return loader.construct_yaml_float(node)
    return loader.construct_yaml_int(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _sexagesimal_free)
_Loader.add_constructor("tag:yaml.org,2002:float", _sexagesimal_free)


_PLAIN: Final = PlainReader(_Loader)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make a map of JSON's, by the same rule."""
    made = dict(pairs)
    if len(made) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for position, key in enumerate(keys) if key in keys[:position])
        raise ValueError(f"key {quoted(twice)} comes twice")
    return made


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


DECODER: Final = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=_no_number)
"""Reads JSON by the same rules as YAML. Raises ValueError for keys that come twice and for what is no number."""


def _described(error: yaml.YAMLError, line: int) -> str:
    """Say what the parser says, with the line in the file; `line` is that of the document's first."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    if mark is None:
        return f"it is no YAML: {problem}"
    return f"it is no YAML: {problem} (line {line + mark.line}, column {mark.column + 1})"
