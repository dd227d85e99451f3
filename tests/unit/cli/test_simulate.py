"""`drabridge simulate`: on files, and line by line with upstream's own answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from allocation_answers import Outcome, random_scenarios, table
from clusters import (
    NAME,
    Object,
    asking,
    device,
    device_class,
    devices,
    exactly,
    from_template,
    inventory,
    node,
    pod,
    resource_slice,
    template,
)
from drabridge.cli import app
from drabridge.cli.gathering import Gathered
from drabridge.cli.placements import Output
from drabridge.core.fitting import BODIES
from drabridge.core.inventory.cluster import Kind

EXAMPLES = Path(__file__).parents[3] / "examples"
CLUSTER: list[Object] = [
    node("node-1"),
    resource_slice("slice-1", published=devices(4)),
    device_class(extendedResourceName=NAME),
]


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def run(*arguments: str, lines: str | bytes = "") -> Result:
    done = CliRunner().invoke(app, ["simulate", *arguments], input=lines)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done


def simulated(objects: list[Object], *arguments: str) -> Result:
    """The verb on objects that come in by standard input, as YAML."""
    return run("-f", "-", *arguments, lines=yaml.safe_dump_all([*CLUSTER, *objects]))


def answer(objects: list[Object], *arguments: str) -> Any:
    return json.loads(simulated(objects, *arguments, "-o", "json").stdout)


WEB: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"replicas": 2, "template": {"spec": {"containers": [asking(2)]}}},
}


def test_all_fit() -> None:
    done = simulated([WEB])
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines() == [
        "POD            NODE    DEVICES",
        "default/web-0  node-1  gpu.example.com/node-1/gpu-0,",
        "                       gpu.example.com/node-1/gpu-1",
        "default/web-1  node-1  gpu.example.com/node-1/gpu-2,",
        "                       gpu.example.com/node-1/gpu-3",
        "",
        "2 of 2 Pods fit (FirstFit, as Kubernetes 1.37: incubating allocator).",
    ]


def test_some_do_not_and_are_told_why_and_what_would_help() -> None:
    done = simulated([WEB, pod("late", asking(1), spec={"priority": -1})])
    assert done.exit_code == 1, done.output
    text = " ".join(done.stdout.split())
    assert "default/late - fits on none of 1 nodes; node-1:" in text
    assert "needs 1, 0 of 4 devices are left (without 4 InUse)" in text
    assert "Any of these would help default/late:" in text
    assert "2 of 3 Pods fit" in text
    assert max(map(len, done.stdout.splitlines())) <= 80


def test_wide_has_a_line_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    done = simulated([template("t"), pod("a", spec=from_template("t")), WEB], "-o", "wide")
    assert done.exit_code == 1
    text = done.stdout.splitlines()
    assert text[0].split() == ["POD", "NODE", "CLAIM", "REQUEST", "DEVICE"]
    assert any(line.split()[:4] == ["default/a", "node-1", "default/a-gpu", "one"] for line in text)


def test_json_and_yaml_say_the_same() -> None:
    objects = [WEB, pod("late", asking(1), spec={"priority": -1}), pod("lost", spec=from_template("none"))]
    found = answer(objects)
    assert yaml.safe_load(simulated(objects, "-o", "yaml").stdout) == found
    assert (found["strategy"], found["flavour"], found["fit"]) == ("FirstFit", "incubating", 2)
    assert found["features"]["derivedAttributes"] is False
    assert {each["pod"]: each["outcome"] for each in found["pods"]} == {
        "default/web-0": "placed",
        "default/web-1": "placed",
        "default/late": "unplaced",
        "default/lost": "broken",
    }
    by_name = {each["pod"]: each for each in found["pods"]}
    assert by_name["default/web-0"]["devices"][0] == {
        "claim": "default/web-0-extended-resources",
        "request": "container-0-request-0",
        "device": "gpu.example.com/node-1/gpu-0",
    }
    assert by_name["default/late"]["barred"][0]["nodes"] == ["node-1"]
    assert by_name["default/late"]["barred"][0]["cures"]


def test_parts_of_devices_administration_and_device_plugins_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    plugin = "plugin.example.com/nic"
    part = device("gpu-9", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})
    objects = [
        node("node-2", allocatable={plugin: 1}),
        resource_slice("slice-9", pool="shared", published=[part]),
        template("some", exactly(capacity={"requests": {"memory": "15Gi"}})),
        template("all", exactly(count=4, adminAccess=True)),
        pod("a", spec=from_template("some")),
        pod("b", spec=from_template("all")),
        pod("c", asking(1, plugin)),
    ]
    some, every, nic = answer(objects)["pods"]
    assert [(each["shareID"], each["consumedCapacity"]) for each in some["devices"]] == [
        ("share-0", {"memory": "15Gi"})
    ]
    assert [each["adminAccess"] for each in every["devices"]] == [True] * 4
    assert (nic["node"], nic["devices"]) == ("node-2", [])
    text = " ".join(simulated(objects, "-o", "wide").stdout.split())
    assert "gpu.example.com/shared/gpu-9 (memory 15Gi)" in text
    assert "gpu.example.com/node-1/gpu-0 (for administration)" in text
    assert "default/c node-2 - - (from device plugins)" in text


BAD: dict[str, tuple[list[Object], str]] = {
    "a template that is missing": ([pod("a", spec=from_template("none"))], "ResourceClaimTemplate default/none"),
    "a Pod that cannot be read": ([WEB, {**pod("a"), "spec": {"containers": 7}}], "Pod default/a is left out"),
    "a workload that cannot be read": ([WEB, {**WEB, "spec": {"replicas": []}}], "Deployment web"),
    "nothing that asks for devices": ([pod("a")], "no Pod in it waits for devices"),
}


@pytest.mark.parametrize(("objects", "problem"), BAD.values(), ids=BAD)
def test_bad_input_is_named_and_ends_with_2(objects: list[Object], problem: str) -> None:
    done = simulated(objects)
    assert done.exit_code == 2, done.output
    assert problem in " ".join(done.output.split())


def test_a_file_that_is_missing() -> None:
    done = run("-f", "/nonexistent/file.yaml")
    assert done.exit_code == 2
    assert "/nonexistent/file.yaml" in done.stderr


def test_the_features_decide_which_allocator_it_is() -> None:
    assert "with derivedAttributes on: experimental allocator" in " ".join(
        simulated([WEB], "--features", "derivedAttributes=true").stdout.split()
    )
    few = "none,prioritizedList=true"
    assert answer([WEB], "--features", few)["flavour"] == "stable"
    assert answer([WEB], "--features", "all,adminAccess=false")["features"]["adminAccess"] is False


@pytest.mark.parametrize(("unseen", "code"), [((), 0), ((Kind.POLICIES,), 0), ((Kind.CLAIMS,), 2)])
def test_a_cluster_has_to_show_what_is_needed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, unseen: tuple[Kind, ...], code: int
) -> None:
    live = Gathered(inventory([*CLUSTER, pod("waits", asking(9))], keep=BODIES, unseen=unseen))
    monkeypatch.setattr("drabridge.cli.simulate.gather", lambda *_, **__: live)
    path = tmp_path / "web.yaml"
    path.write_text(yaml.safe_dump(WEB))
    done = run("--from-cluster", "-f", str(path))
    assert done.exit_code == code, done.output
    assert "2 of 2 Pods fit" in done.stdout
    assert all(f"{kind} not seen: forbidden" in done.stderr for kind in unseen)
    assert "0 of 1 Pods fit" in run("--from-cluster").stdout


WRONG = {
    "no place to read from": [],
    "a feature that is none": ["-f", "x", "--features", "nosuch=true"],
    "a value that is none": ["-f", "x", "--features", "adminAccess=perhaps"],
    "a context without a cluster": ["-f", "x", "--context", "c"],
    "lines and a format": ["--jsonl", "-o", "json"],
    "lines and features": ["--jsonl", "--features", "all"],
    "a namespace and all": ["-f", "x", "-n", "a", "-A"],
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_options_that_contradict_each_other(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_the_readme_s_example_says_what_it_says_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS")
    monkeypatch.chdir(EXAMPLES.parent)
    blocks = Path("README.md").read_text().split("```\n")
    [block] = [each for each in blocks if each.startswith(".venv/bin/drabridge simulate")]
    command, table_, output = block.replace("\\\n", "").partition("POD ")
    assert run(*command.split()[2:]).stdout == table_ + output


def test_the_examples_all_together() -> None:
    done = run("-f", str(EXAMPLES), "-f", str(EXAMPLES / "cluster"), "-o", "json")
    assert done.exit_code == 2, "too-big asks for more than a claim may hold"
    outcomes = {each["pod"]: each["outcome"] for each in json.loads(done.stdout)["pods"]}
    assert outcomes["default/inference-2"] == "placed"
    assert outcomes["default/too-big"] == "broken"
    assert outcomes["default/two-resources"] == "unplaced"


def test_many_pods_take_no_longer_than_they_should() -> None:
    many = {**WEB, "spec": {**WEB["spec"], "replicas": 300}}
    found = answer([many])
    assert (found["fit"], len(found["pods"])) == (2, 300)


# --jsonl


def ask(*lines: str | bytes, options: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]]]:
    text = b"".join(line.encode() + b"\n" if isinstance(line, str) else line + b"\n" for line in lines)
    done = run("--jsonl", *options, lines=text)
    return done.exit_code, [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.unmeasured
@pytest.mark.parametrize("recorded", [table(), random_scenarios()], ids=["upstream's table", "random scenarios"])
def test_all_answers_are_upstreams(recorded: tuple[Any, ...]) -> None:
    _, answers = ask(*(json.dumps(each.scenario) for each in recorded))
    assert len(answers) == len(recorded)
    assert [
        each.name
        for each, given in zip(recorded, answers, strict=True)
        if Outcome.of(given) != Outcome.of(each.answers["experimental"]) or given["id"] != each.name
    ] == []


SIMPLE = json.dumps(next(each.scenario for each in table() if each.name == "simple"))

BROKEN: dict[str, tuple[str | bytes, str]] = {
    "no JSON": ("{", "bad scenario: line 1: it is no JSON"),
    "no object": ("[]", "bad scenario"),
    "no node": ('{"id": "x"}', "bad scenario"),
    "an unknown field": ('{"id": "x", "nodes": []}', "bad scenario"),
    "no UTF-8": (b'{"id": "\xff"}', "bad scenario: line 1: byte 8 is no UTF-8"),
    "nested too deeply": ("[" * 100_000, "bad scenario: line 1: it is nested too deeply"),
}


@pytest.mark.parametrize(("line", "problem"), BROKEN.values(), ids=BROKEN)
def test_a_broken_line_is_answered_and_the_next_as_well(line: str | bytes, problem: str) -> None:
    code, answers = ask(line, "", SIMPLE)
    assert code == 2
    broken, simple = answers
    assert broken["error"].startswith(problem)
    assert (broken["results"], simple["error"]) == (None, None)
    assert simple["results"]


def test_scenarios_without_fault_end_with_0_and_keep_their_fields_in_order() -> None:
    code, [given] = ask(SIMPLE)
    assert code == 0
    assert list(given) == ["id", "results", "error", "allocateOneInvocations", "variant"]


def test_upstreams_faults_are_reproduced_unless_they_are_not_wanted() -> None:
    scenario = {
        "id": "false",
        "features": {},
        "classes": [{"metadata": {"name": "c"}, "spec": {}}],
        "slices": [],
        "node": {"metadata": {"name": "n"}},
        "claims": [
            {
                "metadata": {"name": "c", "namespace": "d"},
                "spec": {
                    "devices": {
                        "requests": [
                            {
                                "name": "r",
                                "exactly": {
                                    "deviceClassName": "c",
                                    "allocationMode": "ExactCount",
                                    "count": 1,
                                    "adminAccess": False,
                                },
                            }
                        ]
                    }
                },
            }
        ],
    }
    _, [given] = ask(json.dumps(scenario))
    assert "admin" in given["error"]
    _, [given] = ask(json.dumps(scenario), options=("--no-upstream-faults",))
    assert given["error"] is None


def test_lines_may_come_from_files(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text(f"{SIMPLE}\n")
    done = run("--jsonl", "-f", str(path), "-f", str(tmp_path / "none"))
    assert done.exit_code == 2
    assert len(done.stdout.splitlines()) == 1
    assert "no such file" in done.stderr


def test_every_format_is_offered() -> None:
    assert {each.value for each in Output} == {"table", "wide", "json", "yaml"}
