"""`drabridge select` on the command line: formats, what it says of broken input, exit codes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from drabridge.cli import app
from drabridge.cli import sources as reading

DRIVER = "gpu.example.com"
MODEL = f"device.attributes['{DRIVER}'].model"
MEMORY = f"device.capacity['{DRIVER}'].memory"

SLICES = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-1-gpu}
spec:
  driver: gpu.example.com
  nodeName: node-1
  pool: {name: node-1, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    attributes: {model: {string: a100}, index: {int: 0}}
    capacity: {memory: {value: 40Gi}}
  - name: gpu-1
    attributes: {model: {string: b200}, index: {int: 1}}
    capacity: {memory: {value: 180Gi}}
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceSlice
metadata: {name: node-2-gpu}
spec:
  driver: gpu.example.com
  allNodes: true
  pool: {name: node-2, generation: 1, resourceSliceCount: 1}
  devices:
  - name: gpu-0
    basic:
      attributes: {index: {int: 0}}
"""
ODD = """
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: odd}
spec:
  driver: odd.example.com
  nodeName: node-1
  pool: {name: odd, generation: 1, resourceSliceCount: 1}
  devices:
  - {name: misspelt, atributes: {}}
  - {name: version, attributes: {v: {version: one}}}
  - {name: fine}
"""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Run = Callable[..., Ended]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the command line in a directory of its own; `files` are written there first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)

    def call(*args: str, stdin: str | bytes = "", files: dict[str, str] | None = None, **environment: str) -> Ended:
        for name, text in (files or {}).items():
            (tmp_path / name).write_text(text)
        ended = CliRunner().invoke(app, ["select", *args], input=stdin, env=environment)
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return Ended(ended.exit_code, ended.stdout, ended.stderr)

    return call


def test_devices_that_match_that_do_not_and_that_fail(run: Run) -> None:
    ended = run(f"{MODEL} == 'a100'", "-f", "s.yaml", files={"s.yaml": SLICES})
    assert ended.lines == [
        "RESULT    DEVICE                        REASON",
        "match     gpu.example.com/node-1/gpu-0",
        f"no match  gpu.example.com/node-1/gpu-1  {MODEL} == 'a100' is false: {MODEL} = \"b200\"",
        (
            "failed    gpu.example.com/node-2/gpu-0  expression: selector #0 on device gpu.example.com/node-2/gpu-0: "
            "CEL runtime error: no such key: model. consider using CEL optional chaining (.? followed by orValue()) or "
            "guarding the check with has() for optional fields"
        ),
    ]
    assert ended.err == "3 devices: 1 match, 1 no match, 1 failed\n"
    assert ended.code == 2


CODES = {
    "some device matches": (f"has({MODEL})", 0),
    "none does": ("device.driver == ''", 1),
    "it fails on a device, though another one matches": (f"{MODEL} == 'a100'", 2),
    "the expression does not compile": ("device.nope", 2),
}


@pytest.mark.parametrize(("expression", "code"), CODES.values(), ids=CODES)
def test_the_exit_code_says_that(run: Run, expression: str, code: int) -> None:
    assert run(expression, "-f", "s.yaml", files={"s.yaml": SLICES}).code == code


def test_an_expression_that_does_not_compile_is_told_as_upstream_does(run: Run) -> None:
    ended = run("device.nope", "-f", "-", stdin=SLICES)
    assert ended.out == ""
    assert ended.err.splitlines() == [
        (
            "drabridge: expression: selector #0: CEL compile error: compilation failed: ERROR: <input>:1:7: undefined "
            "field 'nope'"
        ),
        " | device.nope",
        " | ......^",
    ]


@pytest.mark.parametrize("columns", [200, 80, 50, 20])
@pytest.mark.parametrize("output", ["table", "wide"])
def test_a_table_fits_the_terminal(run: Run, columns: int, output: str) -> None:
    ended = run(f"{MODEL} == 'a100'", "-f", "s.yaml", "-o", output, files={"s.yaml": SLICES}, COLUMNS=str(columns))
    assert max(map(len, ended.lines)) <= columns
    squeezed = "".join(ended.out.split())
    for word in ("REASON", "gpu.example.com/node-1/gpu-0", "optionalfields", "b200"):
        assert word in squeezed


def test_wide_says_node_cost_and_slice(run: Run) -> None:
    ended = run("device.driver != ''", "-f", "s.yaml", "-o", "wide", files={"s.yaml": SLICES})
    assert [line.split() for line in ended.lines] == [
        ["RESULT", "DEVICE", "NODE", "COST", "SLICE", "REASON"],
        ["match", "gpu.example.com/node-1/gpu-0", "node-1", "2", "node-1-gpu"],
        ["match", "gpu.example.com/node-1/gpu-1", "node-1", "2", "node-1-gpu"],
        ["match", "gpu.example.com/node-2/gpu-0", "*", "2", "node-2-gpu"],
    ]


def test_names_are_those_that_match(run: Run) -> None:
    ended = run(f"has({MODEL})", "-f", "s.yaml", "-o", "name", files={"s.yaml": SLICES})
    assert ended.lines == ["gpu.example.com/node-1/gpu-0", "gpu.example.com/node-1/gpu-1"]


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml_say_the_same(run: Run, output: str, load: Callable[[str], Any]) -> None:
    text = SLICES + "---\n" + ODD
    ended = run(f"has({MODEL}) && {MODEL} == 'a100'", "-f", "-", "-o", output, stdin=text)
    assert ended.err == ""
    told = load(ended.out)
    assert told["expression"] == f"has({MODEL}) && {MODEL} == 'a100'"
    assert told["counts"] == {"match": 1, "noMatch": 3, "failed": 1, "broken": 1}
    assert told["faults"] == []
    assert told["devices"][0] == {
        "driver": DRIVER,
        "pool": "node-1",
        "device": "gpu-0",
        "node": "node-1",
        "slice": "node-1-gpu",
        "source": "ResourceSlice node-1-gpu (standard input, document 1, line 2)",
        "result": "match",
        "cost": 8,
    }
    broken, failed = told["devices"][3:5]
    line = text[: text.index(ODD.strip())].count("\n") + 1
    assert broken["result"] == "broken"
    assert broken["faults"] == [
        {
            "object": f"ResourceSlice odd (standard input, document 3, line {line})",
            "path": "spec.devices[0].atributes",
            "problem": "is no field here",
            "cure": "did you mean attributes?",
        }
    ]
    assert failed["result"] == "failed"
    assert "odd.example.com/odd/version: CEL runtime error: attribute v: parse semantic version" in failed["reason"]
    assert "cost" not in failed


def test_what_is_wrong_names_object_path_and_cure_and_the_others_are_shown(run: Run) -> None:
    ended = run("true", "-f", "s.yaml", "-f", "odd.yaml", files={"s.yaml": f"a: [\n---\n{SLICES}", "odd.yaml": ODD})
    assert ended.code == 2
    assert "drabridge: s.yaml, document 1, line 1: it is no YAML: " in ended.err
    assert "; correct this document" in ended.err
    (broken,) = (line for line in ended.lines if line.startswith("broken"))
    assert "ResourceSlice odd (odd.yaml, document 1, line 2): spec.devices[0].atributes: is no field here" in broken
    assert "did you mean attributes?" in broken
    assert sum(line.startswith("match") for line in ended.lines) == 4


FAULTS = {
    "a slice of another version": (
        {"s.yaml": SLICES.replace("resource.k8s.io/v1\n", "resource.k8s.io/v1alpha3\n")},
        "ResourceSlice node-1-gpu (s.yaml, document 1, line 2): apiVersion: is 'resource.k8s.io/v1alpha3'; use one of ",
    ),
    "a field of the slice": (
        {"s.yaml": SLICES.replace("nodeName", "nodename")},
        "spec.nodename: is no field here; did you mean nodeName?",
    ),
    "a slice that was read before": (
        {"s.yaml": SLICES, "t.yaml": SLICES},
        "node-1-gpu (t.yaml, document 1, line 2): metadata.name: this slice was read before, from s.yaml, document 1",
    ),
    "a device that is published twice": (
        {"s.yaml": SLICES, "t.yaml": SLICES.replace("-gpu}", "-again}")},
        "publishes device gpu.example.com/node-1/gpu-0 as ResourceSlice node-1-gpu (s.yaml, document 1, line 2) does",
    ),
}


@pytest.mark.parametrize(("files", "message"), FAULTS.values(), ids=FAULTS)
def test_is_told_and_makes_the_code_2(run: Run, files: dict[str, str], message: str) -> None:
    ended = run("true", "-f", ".", files=files)
    assert ended.code == 2
    assert message in ended.err
    assert any(line.startswith("match") for line in ended.lines)


def test_many_faults_are_counted(run: Run) -> None:
    ended = run("true", "-f", "-", stdin="---\n5\n" * 50)
    assert ended.err.count("is 5, not an object") == 20
    assert "drabridge: … and 30 more faults" in ended.err


NO_SLICES = {
    "nothing": ("", "there is nothing in it, and no ResourceSlice"),
    "other objects": (
        "kind: Pod\n---\nkind: Node\n---\na: 1\n",
        "there is only Node, Pod, objects without a kind in it",
    ),
}


@pytest.mark.parametrize(("text", "message"), NO_SLICES.values(), ids=NO_SLICES)
def test_input_without_slices_is_told(run: Run, text: str, message: str) -> None:
    ended = run("true", "-f", "-", stdin=text)
    assert ended.code == 2
    assert message in ended.err
    assert "kubectl get resourceslices -o yaml" in ended.err


def test_slices_of_a_generation_that_was_left_behind_do_not_count(run: Run) -> None:
    newer = SLICES.partition("---")[0].replace("generation: 1", "generation: 2").replace("gpu-0", "gpu-7")
    ended = run("true", "-f", "-", "-o", "name", stdin=f"{SLICES}---\n{newer.replace('node-1-gpu', 'node-1-new')}")
    names = [line.removeprefix("gpu.example.com/") for line in ended.lines]
    assert names == ["node-2/gpu-0", "node-1/gpu-7", "node-1/gpu-1"]


def test_names_out_of_slices_do_not_command_the_terminal(run: Run) -> None:
    ended = run("true", "-f", "-", stdin=ODD.replace("fine", '"\\e[31mred\\uD800"').replace("uD800", "u2028"))
    assert "\x1b" not in ended.out
    assert r"odd.example.com/odd/\x1b[31mred\u2028" in ended.out


# Explanations


def test_an_explanation_tells_each_part(run: Run) -> None:
    expression = f"device.driver == '{DRIVER}' && {MODEL} == 'a100' && {MEMORY}.isGreaterThan(quantity('40Gi'))"
    ended = run(expression, "-f", "s.yaml", "--explain", "node-1/gpu-1", files={"s.yaml": SLICES})
    assert ended.code == 1
    assert ended.lines == [
        "gpu.example.com/node-1/gpu-1: no match, cost 9",
        "",
        f"false {expression}",
        f"true  ├─ device.driver == '{DRIVER}'",
        f'      │  └─ device.driver = "{DRIVER}"',
        f"false ├─ {MODEL} == 'a100'",
        f'      │  └─ {MODEL} = "b200"',
        f"-     └─ {MEMORY}.isGreaterThan(quantity('40Gi'))  (not evaluated)",
    ]


def test_a_failure_is_explained_with_what_was_there(run: Run) -> None:
    ended = run(
        f"{MODEL} == 'a100'", "-f", "s.yaml", "--explain", "node-2/gpu-0", "-o", "wide", files={"s.yaml": SLICES}
    )
    assert ended.code == 2
    assert ended.lines[0].startswith("gpu.example.com/node-2/gpu-0: failed, cost 5: expression: selector #0 on device ")
    assert ended.lines[2:] == [
        f"error {MODEL} == 'a100': no such key: model  [cost 5]",
        f"error └─ {MODEL}: no such key: model  [cost 4]",
        f"         └─ device.attributes['{DRIVER}'] = {{\"index\": 0}}",
    ]


LOOPS = {
    "one decided": ("[1, 2, 3].exists(x, x == 2)", ["2 elements looked at; this one decided:", "#1: x = 2"]),
    "none did": ("[1, 2].exists(x, x == 3)", ["2 elements looked at:", "#0: x = 1", "#1: x = 2"]),
    "none of many did": (
        "[1, 2, 3, 4].exists(x, x == 5)",
        ["4 elements looked at; the first 3:", "#0: x = 1", "#1: x = 2", "#2: x = 3"],
    ),
    "there was one": ("[1].all(x, x == 1)", ["1 element looked at:", "#0: x = 1"]),
}


@pytest.mark.parametrize(("expression", "lines"), LOOPS.values(), ids=LOOPS)
def test_a_loop_is_a_summary(run: Run, expression: str, lines: list[str]) -> None:
    ended = run(expression, "-f", "s.yaml", "--explain", "gpu-1", files={"s.yaml": SLICES})
    rounds = [line.lstrip(" └├─│") for line in ended.lines if "looked at" in line or "#" in line]
    assert rounds == lines


@pytest.mark.parametrize("columns", [120, 80, 40])
def test_an_explanation_fits_the_terminal(run: Run, columns: int) -> None:
    expression = f"has({MODEL}) && {MODEL} == 'a100' && '{'x' * 200}'.size() == 1 || [1, 2].all(x, x == 1)"
    ended = run(expression, "-f", "-", "--explain", "gpu-1", stdin=SLICES, COLUMNS=str(columns))
    assert max(map(len, ended.lines)) <= columns
    assert "…" in ended.out


def test_an_explanation_as_data(run: Run) -> None:
    text = f"[1, 2].exists(x, x == 2) || {MODEL} == ''"
    told = json.loads(run(text, "-f", "-", "--explain", "gpu-1", "-o", "json", stdin=SLICES).out)
    assert (told["device"], told["result"], told["whole"]) == ("gpu-1", "match", True)
    first, second = told["explanation"]["parts"]
    assert text[first["start"] : first["end"]] == first["text"] == "[1, 2].exists(x, x == 2)"
    assert first["rounds"] == {
        "count": 2,
        "decided": True,
        "shown": [
            {
                "position": 1,
                "variables": {"x": "2"},
                "parts": [{"start": 17, "end": 23, "text": "x == 2", "state": "true", "value": "true", "cost": 2}],
            }
        ],
    }
    assert second == {"start": 28, "end": len(text), "text": f"{MODEL} == ''", "state": "not evaluated"}


def test_a_failure_as_data(run: Run) -> None:
    ended = run(f"{MODEL} == ''", "-f", "-", "--explain", "node-2/gpu-0", "-o", "yaml", stdin=SLICES)
    told = yaml.safe_load(ended.out)
    assert ended.code == 2
    assert told["result"] == "failed"
    assert "CEL runtime error: no such key: model" in told["reason"]
    assert told["explanation"]["error"] == "no such key: model"


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize(("name", "word"), [("misspelt", "did you mean attributes?"), ("version", "semantic version")])
def test_a_device_that_cannot_be_evaluated_is_told(run: Run, output: str, name: str, word: str) -> None:
    ended = run("true", "-f", "-", "--explain", name, "-o", output, stdin=ODD)
    assert ended.code == 2
    assert word in ended.out


def test_a_deep_expression_is_told_in_part(run: Run) -> None:
    deep = "dyn(1)" + " + 1" * 240 + " == 241"
    ended = run(deep, "-f", "-", "--explain", "gpu-1", stdin=SLICES)
    assert ended.code == 0
    assert len(ended.lines) == 44
    assert ended.lines[-1].endswith("└─ …")
    assert json.loads(run(deep, "-f", "-", "--explain", "gpu-1", "-o", "json", stdin=SLICES).out)["whole"]
    deeper = run("[0][" * 240 + "0" + "]" * 240 + " == 0", "-f", "-", "--explain", "gpu-1", stdin=SLICES)
    assert (deeper.code, deeper.lines[-1]) == (0, "(The expression is nested too deeply to be told in parts.)")


NOT_ONE = {
    "there is none": ("gpu-9", "there is no such device; name one of 3, such as gpu.example.com/node-1/gpu-0, "),
    "there are two": (
        "gpu-0",
        "may be gpu.example.com/node-1/gpu-0, gpu.example.com/node-2/gpu-0; write more of it, from the end: pool/",
    ),
}


@pytest.mark.parametrize(("device", "message"), NOT_ONE.values(), ids=NOT_ONE)
def test_a_device_to_be_explained_must_be_one(run: Run, device: str, message: str) -> None:
    ended = run("true", "-f", "-", "--explain", device, stdin=SLICES)
    assert (ended.code, ended.out) == (2, "")
    assert f"--explain {device}: {message}" in ended.err


def test_a_device_that_is_not_there_may_be_in_what_could_not_be_read(run: Run) -> None:
    ended = run("true", "-f", "-", "--explain", "gpu-0", stdin="a: [")
    assert "it is no YAML" in ended.err
    assert ended.err.endswith("there is no such device; name files or a cluster with devices\n")


def test_many_devices_that_may_be_meant_are_counted(run: Run) -> None:
    text = "---".join(SLICES.replace("node-", f"n{i}-") for i in range(5))
    assert " and 5 more; write" in run("true", "-f", "-", "--explain", "gpu-0", stdin=text).err


# Options

WRONG = {
    "nothing to select": ([], "EXPRESSION"),
    "files and a cluster": (["true", "-f", "x", "--context", "y"], "--context"),
    "files and another cluster": (["true", "-f", "x", "--kubeconfig", "y"], "--kubeconfig"),
    "an explanation as a name": (["true", "-f", "x", "--explain", "d", "-o", "name"], "--explain"),
    "lines and an expression": (["true", "--jsonl"], "--jsonl"),
    "lines and a format": (["--jsonl", "-o", "json"], "--jsonl"),
    "lines and a cluster": (["--jsonl", "--context", "y"], "--context"),
    "a format that there is not": (["true", "-o", "xml"], "--output"),
}


@pytest.mark.parametrize(("args", "option"), WRONG.values(), ids=WRONG)
def test_options_that_contradict_each_other_are_refused_by_name(run: Run, args: list[str], option: str) -> None:
    ended = run(*args)
    assert ended.code == 2
    assert option in ended.err


def test_a_kubeconfig_in_the_environment_does_not_contradict_files(run: Run) -> None:
    assert run("true", "-f", "-", stdin=SLICES, KUBECONFIG="nope").code == 0


def test_a_cluster_that_cannot_be_reached_is_told(run: Run) -> None:
    ended = run("true", KUBECONFIG="nope")
    assert ended.code == 2
    assert ended.err.startswith("drabridge: kubeconfig nope: there is no such file")


def test_the_help_fits_a_terminal_and_its_examples_have_only_options_that_there_are(run: Run) -> None:
    ended = run("--help", COLUMNS="80", TERM="dumb")
    assert ended.code == 0
    assert max(map(len, ended.lines)) <= 80
    examples = [line for line in ended.lines if " drabridge select " in line and "Usage" not in line]
    assert len(examples) == 4
    used = {word for line in examples for word in line.split() if word.startswith("-") and word != "-"}
    assert used == {"-f", "-o", "--explain"}
    described = ended.out.partition("Options")[2]
    assert all(option in described for option in used)


REPOSITORY = Path(__file__).parents[3]


@pytest.mark.parametrize("page", ["README.md", "docs/cel.md"])
def test_examples_of_the_documentation_work_as_typed(run: Run, page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands below the last command of a block is what it prints."""
    monkeypatch.chdir(REPOSITORY)
    blocks = [block for block in (REPOSITORY / page).read_text().split("```\n")[1::2] if "drabridge select " in block]
    assert blocks
    for block in blocks:
        printed = ""
        for line in block.splitlines():
            if "drabridge select" not in line:
                if printed:
                    assert printed.startswith(f"{line}\n")
                    printed = printed.removeprefix(f"{line}\n")
                continue
            given, _, command = line.rpartition("drabridge ")
            stdin = shlex.split(given)[1] if given.startswith("echo") else ""
            ended = run(*shlex.split(command)[1:], stdin=stdin)
            assert ended.code in (0, 1), ended.err
            printed = ended.out


def test_a_bar_shows_how_far_it_is_on_a_terminal(run: Run) -> None:
    devices = "".join(f"  - {{name: gpu-{i}, attributes: {{index: {{int: {i}}}}}}}\n" for i in range(2000))
    text = f"{SLICES.partition('  devices:')[0]}  devices:\n{devices}"
    shown = run("true", "-f", "-", "-o", "name", stdin=text, FORCE_COLOR="1", TERM="xterm")
    assert "selecting" in shown.err
    assert "selecting" not in run("true", "-f", "-", "-o", "name", stdin=text).err


def test_ten_thousand_devices_are_read_with_a_bar_on_a_terminal_only(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    real = reading.read

    def counted(paths: Any, progress: Any = None) -> Any:
        def told(step: int) -> None:
            steps.append(step)
            progress(step)

        return real(paths, told)

    monkeypatch.setattr(reading, "read", counted)
    devices = ",".join(f'{{"name": "gpu-{i}", "attributes": {{"index": {{"int": {i}}}}}}}' for i in range(10_000))
    spec = f'"driver": "d", "pool": {{"name": "p", "generation": 1, "resourceSliceCount": 1}}, "devices": [{devices}]'
    text = f'{{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "spec": {{{spec}}}}}'
    ended = run("device.attributes.d.index >= 9990", "-f", "s.json", "-o", "name", files={"s.json": text})
    assert (ended.code, len(ended.lines)) == (0, 10)
    assert ended.err == "10000 devices: 10 match, 9990 no match\n"
    assert steps == [len(text)]
