"""Manifests of every shape and style, as hypothesis strategies: values first, and then the ways to write them down."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from typing import Any

import yaml
from hypothesis import strategies as st

from builders import GPU, IMPLICIT_GPU, NIC
from drabridge.cli.yamltree import parse
from drabridge.core.classmap import ClassMap
from drabridge.core.convert.documents import Document, Unreadable, chunks
from drabridge.core.convert.piece import Conversion, Direction
from drabridge.core.convert.podspecs import pod_specs
from drabridge.core.convert.serving import Serving

Object = dict[str, Any]

UNSERVED = "example.org/other"
CHOSEN = {GPU: "gpu.example.com", NIC: "nic.example.com"}
SERVING = Serving(ClassMap.of([], CHOSEN), CHOSEN)


def conversion(direction: Direction = Direction.FORWARD, **more: Any) -> Conversion:
    """A run with the mappings that the manifests here need."""
    return Conversion(serving=SERVING, parse=parse, direction=direction, **more)


def documents(text: str) -> list[Document]:
    """Read a text that can be read."""
    return [Document.read(chunk, parse) for chunk in chunks(text)]


def values(text: str) -> list[Any]:
    """What the documents of a text mean; empty ones left out."""
    return [each.value for each in documents(text) if each.value is not None]


def values_or_none(text: str) -> list[Any] | None:
    """What the documents of a text mean; None if one of them cannot be read."""
    try:
        return values(text)
    except Unreadable:
        return None


# --- values

QUANTITIES: st.SearchStrategy[Any] = st.sampled_from([1, "1", 2, "2", 4, "3"])


@st.composite
def resources(draw: st.DrawFn) -> Object:
    names = draw(st.lists(st.sampled_from([GPU, GPU, NIC, IMPLICIT_GPU, UNSERVED]), max_size=3, unique=True))
    requests: Object = dict(draw(st.sampled_from([{}, {"cpu": "1"}, {"memory": "1Gi", "cpu": 2}])))
    limits: Object = dict(draw(st.sampled_from([{}, {}, {"memory": "2Gi"}])))
    for name in names:
        quantity = draw(QUANTITIES)
        if draw(st.booleans()):
            requests[name] = quantity
        limits[name] = quantity
    order = draw(st.permutations([("requests", requests), ("limits", limits)]))
    return {key: value for key, value in order if value}


@st.composite
def containers(draw: st.DrawFn, name: str) -> Object:
    container: Object = {"name": name, "image": "registry.example/app:1"}
    if draw(st.integers(0, 4)) == 0:
        container["command"] = ["sh", "-c", "set -e\nexample.com/gpu: 1\n# not a comment\nrun\n"]
    if found := draw(resources()):
        if draw(st.integers(0, 4)) == 0:
            found["claims"] = [{"name": "mine"}]
        container["resources"] = found
    if draw(st.booleans()):
        container["env"] = [{"name": "A", "value": "b"}]
    return container


@st.composite
def specs(draw: st.DrawFn) -> Object:
    inits = [
        draw(containers(f"i{i}")) | ({"restartPolicy": "Always"} if draw(st.booleans()) else {})
        for i in range(draw(st.sampled_from([0, 0, 1, 2])))
    ]
    apps = [draw(containers(f"c{i}")) for i in range(draw(st.sampled_from([1, 1, 2, 3])))]
    parts: list[tuple[str, Any]] = [("containers", apps)]
    if inits:
        parts.append(("initContainers", inits))
    if any("claims" in each.get("resources", {}) for each in [*inits, *apps]):
        parts.append(("resourceClaims", [{"name": "mine", "resourceClaimName": "own"}]))
    parts += draw(
        st.lists(
            st.sampled_from(
                [
                    ("restartPolicy", "Never"),
                    ("tolerations", [{"key": "dedicated", "operator": "Exists"}]),
                    ("tolerations", [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}]),
                    ("nodeSelector", {"disk": "ssd"}),
                    ("volumes", [{"name": "v", "emptyDir": {}}]),
                ]
            ),
            max_size=2,
            unique_by=lambda pair: pair[0],
        )
    )
    return dict(draw(st.permutations(parts)))


@st.composite
def objects(draw: st.DrawFn) -> Object:
    """Draw an object with one Pod template or several, some of them the same one."""
    spec = draw(specs())
    other = spec if draw(st.booleans()) else draw(specs())
    metadata: Object = {"name": "it"}
    if draw(st.booleans()):
        metadata["namespace"] = draw(st.sampled_from(["team", "123", "true"]))
    template = {"metadata": {"labels": {"app": "it"}}, "spec": spec}
    kinds: list[Object] = [
        {"apiVersion": "v1", "kind": "Pod", "spec": spec},
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2, "template": template}},
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "spec": {"schedule": "0 * * * *", "jobTemplate": {"spec": {"template": template}}},
        },
        {
            "apiVersion": "example.io/v1",
            "kind": "Gang",
            "spec": {"leader": {"template": template}, "workers": [{"template": {"spec": other}, "replicas": 3}]},
        },
    ]
    chosen = draw(st.sampled_from(kinds))
    return {"apiVersion": chosen["apiVersion"], "kind": chosen["kind"], "metadata": metadata, "spec": chosen["spec"]}


# --- ways to write them down


class _Indented(yaml.SafeDumper):
    """Lists stand in from their key; PyYAML wants them below it (`indentless`)."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 - as said
        super().increase_indent(flow, indentless=False)


class _Unshared(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's interface
        return True


class _IndentedUnshared(_Indented):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - PyYAML's interface
        return True


STYLES = ("block", "block", "indented", "anchors", "flow inside", "flow", "open flow", "open flow", "json", "list")


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw a file: objects in one of many styles, with comments."""
    found = draw(st.lists(objects(), min_size=1, max_size=2))
    style = draw(st.sampled_from(STYLES))
    if style == "json":
        text = json.dumps(found[0], indent=draw(st.sampled_from([None, 2, 4])))
        return text + draw(st.sampled_from(["", "\n"]))
    if style == "open flow":
        depth = draw(st.integers(0, 9))
        chance = draw(st.randoms(use_true_random=False))
        text = "---\n".join("\n".join(_opened(each, depth, chance)) + "\n" for each in found)
        return text.replace("\n", draw(st.sampled_from(["\n", "\n", "\r\n"])))
    if style == "list":
        found = [{"apiVersion": "v1", "kind": "List", "items": found}]
    dumpers: dict[str, Any] = {
        "indented": _IndentedUnshared,
        "anchors": draw(st.sampled_from([_Indented, yaml.SafeDumper])),
    }
    flow = {"flow": True, "flow inside": None}.get(style, False)
    text = "---\n".join(
        yaml.dump(
            each if style == "anchors" else copy.deepcopy(each),
            Dumper=dumpers.get(style, _Unshared),
            default_flow_style=flow,
            sort_keys=draw(st.booleans()),
            width=10_000,
            default_style=draw(st.sampled_from([None, None, None, '"'])),
        )
        for each in found
    )
    if style != "flow":
        text = _commented(text, draw(st.randoms(use_true_random=False)))
    if draw(st.integers(0, 4)) == 0:
        text = draw(st.sampled_from(["---\n", "# header\n\n", "# header\n---\n"])) + text
    if draw(st.integers(0, 6)) == 0:
        text = text.rstrip("\n")
    if draw(st.integers(0, 4)) == 0:
        text = text.replace("\n", "\r\n")
    return text


def written(value: Any) -> str:
    """Write a value down in the plainest style."""
    return yaml.dump(value, Dumper=_Unshared, sort_keys=False)


def _opened(value: Any, depth: int, chance: random.Random) -> list[str]:
    """Write a value in block style down to some depth, and then in flow style over many lines, with comments."""
    if not isinstance(value, dict | list) or not value:
        return [json.dumps(value)]
    lines: list[str] = []
    pairs = value.items() if isinstance(value, dict) else [("", each) for each in value]
    for position, (key, each) in enumerate(pairs):
        inner = _opened(each, depth - 1, chance)
        if depth > 0:
            lines += _in_block(key, inner, nested=depth > 1 and isinstance(each, dict | list) and bool(each))
            continue
        name = f"{key}: " if key else ""
        comma = "," if position + 1 < len(value) or chance.randrange(2) else ""
        made = [name + inner[0], *inner[1:]]
        made[-1] += comma
        lines += [f"  {line}" for line in _said(made, chance)]
    if depth > 0:
        return lines
    brackets = "{}" if isinstance(value, dict) else "[]"
    return [_behind(brackets[0], chance), *lines, brackets[1]]


def _in_block(key: str, inner: list[str], *, nested: bool) -> list[str]:
    if not key:
        return ["- " + inner[0], *(f"  {line}" for line in inner[1:])]
    if nested:
        return [f"{key}:", *(f"  {line}" for line in inner)]
    return [f"{key}: {inner[0]}", *(f"  {line}" for line in inner[1:])]


def _said(lines: list[str], chance: random.Random) -> list[str]:
    above = [f"# above {chance.randrange(10**6)}"] if chance.randrange(5) == 0 else []
    return [*above, *lines[:-1], _behind(lines[-1], chance)]


def _behind(line: str, chance: random.Random) -> str:
    return f"{line} # behind {chance.randrange(10**6)}" if chance.randrange(5) == 0 else line


_PLAIN_LINE = re.compile(r"[ -]*[\w./\"-]+:( [\w./\"*&-]+)?")


def _commented(text: str, chance: random.Random) -> str:
    lines = []
    for number, line in enumerate(text.split("\n")):
        if _PLAIN_LINE.fullmatch(line) and chance.randrange(7) == 0:
            indent = len(line) - len(line.lstrip(" "))
            if chance.randrange(2):
                lines.append(f"{' ' * indent}# above {number}")
            else:
                line += f" # behind {number}"  # noqa: PLW2901 - the same line, with its comment
        lines.append(line)
    return "\n".join(lines)


PIECES = [
    *"{}[]:,-?&*!|>'\"%@`#\t\n \r\ufeff\x85\u2028\0",
    "---\n",
    "...\n",
    "<<: *a",
    "&a ",
    "*a",
    "? ",
    "!!str ",
    "!x ",
    "{{ .Values.a }}",
    "resources:",
    "claims: []",
    "null",
    "containers:\n- ",
    "\n\n",
    "# comment\n",
    "|+\n",
    "    ",
]


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """Draw a file with something taken out or put in where it does not belong."""
    text = draw(texts())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        if draw(st.booleans()):
            text = text[:at] + draw(st.sampled_from(PIECES)) + text[at:]
        else:
            text = text[:at] + text[at + draw(st.integers(1, 30)) :]
    return text


ODD: st.SearchStrategy[Any] = st.sampled_from(
    [
        None,
        True,
        0,
        -1,
        1.5,
        "",
        "x",
        "12",
        [],
        {},
        [1],
        [None],
        [{}],
        [{"name": None}],
        {1: 2},
        {None: "x"},
        {True: {}},
    ]
)


@st.composite
def odd(draw: st.DrawFn) -> str:
    """Draw an object with values of other types than the API wants."""
    found = copy.deepcopy(draw(objects()))
    for _ in range(draw(st.integers(1, 4))):
        at: Any = found
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(at[key], dict | list) and draw(st.integers(0, 5)):
                at = at[key]
                continue
            at[key] = copy.deepcopy(draw(ODD))
            break
    return yaml.dump(found, Dumper=_Unshared, sort_keys=False)


# --- what they mean


def asks(value: Any) -> Iterator[dict[str, dict[str, int]]]:
    """What each PodSpec of an object asks for, whether by requests or limits: container -> name -> devices."""
    for path in pod_specs(value):
        spec = value
        for step in path:
            spec = spec[step]
        found: dict[str, dict[str, int]] = {}
        for each in [*spec.get("initContainers", []), *spec["containers"]]:
            limits = each.get("resources", {}).get("limits", {})
            requests = each.get("resources", {}).get("requests", {})
            found[each["name"]] = {
                name: int(quantity) for name, quantity in {**limits, **requests}.items() if "/" in name
            }
        yield found


def without_asks(value: Any) -> Any:
    """The same value, with nothing in it that speaks of devices or that goes when nothing else is there."""
    if isinstance(value, list):
        return [without_asks(each) for each in value]
    if not isinstance(value, dict):
        return value
    after = {key: without_asks(each) for key, each in value.items() if key not in {*CHOSEN, IMPLICIT_GPU, UNSERVED}}
    return {key: each for key, each in after.items() if key not in _EMPTIED or each}


_EMPTIED = ("limits", "requests", "resources", "tolerations")
