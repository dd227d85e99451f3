"""The verbs that look at a whole cluster: doctor, capacity, explain; here on files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from clusters import (
    DRIVER,
    NAME,
    Object,
    asking,
    claim,
    device,
    device_class,
    devices,
    node,
    pod,
    policy,
    resource_slice,
    result,
    server,
    uses,
)
from drabridge.cli import app

CLUSTER: list[Object] = [
    node("node-1"),
    resource_slice("slice-1", published=devices(4)),
    device_class(extendedResourceName=NAME),
    claim("twice", results=[result()], reserved=["web"]),
    claim("again", results=[result()], reserved=["web"]),
    pod("web", spec={"nodeName": "node-1"} | uses("twice")),
    pod("waiting", asking(9)),
]

Write = Callable[..., str]


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes objects to a file, as one JSON list or as YAML documents; gives its path."""

    def file(objects: list[Object], name: str = "dump.json") -> str:
        path = tmp_path / name
        if name.endswith("json"):
            path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        else:
            path.write_text(yaml.safe_dump_all(objects))
        return str(path)

    return file


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def answer(*arguments: str) -> Any:
    done = run(*arguments, "-o", "json")
    return json.loads(done.stdout)


# doctor


@pytest.mark.parametrize("name", ["dump.json", "dump.yaml"])
def test_doctor_says_what_it_found_and_what_it_could_not_see(write: Write, name: str) -> None:
    done = run("doctor", "-f", write(CLUSTER, name))
    assert done.exit_code == 3
    assert "ERROR device-allocated-twice: A device that cannot be shared is allocated to two" in done.stdout
    assert f"  - device {DRIVER}/node-1/gpu-0: allocated to default/again,\n    default/twice\n" in done.stdout
    assert "could not be made. Not seen:" in done.stdout
    assert "the files" in done.stdout
    assert max(len(line) for line in done.stdout.splitlines() if "https://" not in line) <= 80
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("objects", "code"),
    [
        ([server("v1.37.0"), node("node-1")], 0),
        ([server("v1.36.0"), node("node-1", kubelet="v1.30.0")], 1),
        ([server("v1.33.0"), node("node-1", kubelet="v1.33.0")], 3),
    ],
    ids=["nothing", "a warning", "an error"],
)
def test_doctor_s_exit_code_follows_the_gravest_finding(write: Write, objects: list[Object], code: int) -> None:
    paths = [write([each], f"{number}.yaml") for number, each in enumerate(objects)]
    done = run("doctor", *(word for path in paths for word in ("-f", path)))
    assert done.exit_code == code, done.stdout


def test_doctor_leaves_out_what_concerns_other_namespaces(write: Write) -> None:
    many = [pod("big", asking(40)), pod("large", asking(40), namespace="other")]
    path = write([*CLUSTER, *many])
    for options, objects in (
        ([], ["Pod default/big", "Pod other/large"]),
        (["-A"], ["Pod default/big", "Pod other/large"]),
        (["-n", "other"], ["Pod other/large"]),
        (["-n", "none"], []),
    ):
        found = answer("doctor", "-f", path, "--only", "too-many-devices", *options)["findings"]
        assert [each["object"] for each in found] == objects
    of_all = answer("doctor", "-f", path, "--only", "device-allocated-twice", "-n", "none")["findings"]
    assert [each["object"] for each in of_all] == [f"device {DRIVER}/node-1/gpu-0"]
    assert run("doctor", "-f", path, "-n", "x", "-A").exit_code == 2


def test_doctor_takes_a_directory(write: Write, tmp_path: Path) -> None:
    write(CLUSTER[:3], "a.yaml")
    write(CLUSTER[3:], "b.json")
    assert run("doctor", "-f", str(tmp_path)).exit_code == 3


def test_doctor_answers_programs(write: Write) -> None:
    found = answer("doctor", "-f", write(CLUSTER), "--only", "allocations,claim-idle")
    assert found["gate"] == "On"
    assert found["checksMade"] == 5
    assert [(each["check"], each["severity"], each["object"]) for each in found["findings"]] == [
        ("device-allocated-twice", "error", f"device {DRIVER}/node-1/gpu-0")
    ]
    assert set(found["findings"][0]) >= {"evidence", "cure", "documentation", "serves"}


def test_doctor_leaves_out_what_is_skipped(write: Write) -> None:
    found = answer("doctor", "-f", write(CLUSTER), "--skip", "allocations", "--skip", "names , limits")
    assert {each["check"] for each in found["findings"]}.isdisjoint({"device-allocated-twice", "too-many-devices"})


def test_doctor_judges_absent_kinds_only_of_a_complete_cluster(write: Write) -> None:
    path = write([node("node-1"), pod("web", asking())])
    arguments = ("doctor", "-f", path, "--only", "name-not-served")
    assert answer(*arguments)["checksNotMade"][0]["unseen"] == ["DeviceClass"]
    assert [each["object"] for each in answer(*arguments, "--complete")["findings"]] == [f"resource name {NAME}"]


def test_doctor_lists_its_checks() -> None:
    listed = run("doctor", "--list", "--only", "rights")
    assert listed.exit_code == 0
    assert "role-lacks-binding" in listed.stdout
    assert len(answer("doctor", "--list")) >= 40


BROKEN = {
    "no such file": ("gone.yaml", None, "no such file"),
    "an empty file": ("empty.yaml", b"", "there is no"),
    "a binary file": ("binary.json", b"\xff\xfe\x00", "no UTF-8"),
    "tabs": ("tabs.yaml", b"kind: Pod\n\tmetadata: {}\n", "it is no YAML"),
    "nothing that matters": ("other.yaml", b"kind: Service\nmetadata: {name: x}\n", "there is no"),
}


@pytest.mark.parametrize(("name", "content", "problem"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("verb", [["doctor"], ["capacity"], ["explain", "pod/x"]], ids=lambda verb: verb[0])
def test_input_of_which_nothing_can_be_read(
    verb: list[str], name: str, content: bytes | None, problem: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    done = run(*verb, "-f", str(tmp_path / name))
    assert done.exit_code == 2
    assert done.stdout == ""
    assert problem in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_cannot_be_read_does_not_hide_the_rest(write: Write) -> None:
    bad = {**pod("bad"), "spec": {"containers": "none"}}
    odd = {**policy("odd"), "spec": {"resourceName": "x"}}
    bomb: Any = ["x"]
    for _ in range(30):
        bomb = [bomb, bomb]
    opaque = {"opaque": {"driver": "d", "parameters": {"deep": bomb}}}
    path = write([*CLUSTER, bad, odd, device_class("bomb", config=[opaque])], "dump.yaml")
    done = run("doctor", "-f", path, "-o", "json")
    assert done.exit_code == 3
    assert [line.partition(":")[0] for line in json.loads(done.stdout)["unreadable"]] == [
        "Pod default/bad",
        "ExtendedResourcePolicy odd",
        "DeviceClass bomb",
    ]
    assert "DeviceClass bomb is left out: it has more than 100000 values" in done.stderr


UNREAD = {**device_class("bad"), "metadata": {"name": "bad", "annotations": ["x"]}}


def test_objects_that_cannot_be_read_are_not_taken_for_none(write: Write) -> None:
    path = write([node("node-1"), resource_slice("s"), UNREAD])
    done = run("doctor", "-f", path)
    assert "- DeviceClass: could not be read\n" in done.stdout
    assert answer("doctor", "--complete", "-f", path)["unseen"] == {"DeviceClass": "could not be read"}
    counted = run("capacity", "-f", path)
    assert counted.exit_code == 2
    assert "DeviceClass not seen: could not be read" in counted.stderr


@pytest.mark.parametrize("verb", [["doctor"], ["capacity"], ["explain", NAME]], ids=lambda verb: verb[0])
def test_nothing_but_an_object_that_cannot_be_read(verb: list[str], write: Write) -> None:
    done = run(*verb, "-f", write([UNREAD]))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("drabridge: DeviceClass bad: it cannot be read: metadata.annotations: is ['x']")


def test_a_part_that_is_broken_shows_in_the_exit_code(write: Write, tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("kind: [")
    write([node("node-1")], "fine.yaml")
    assert run("doctor", "-f", str(tmp_path)).exit_code == 2


def test_doctor_knows_its_checks() -> None:
    done = run("doctor", "--only", "nonsense", "-f", "x")
    assert (done.exit_code, done.stderr) == (
        2,
        "drabridge: check: there is no check or theme nonsense; see drabridge doctor --list\n",
    )


VERBS_OF_A_CLUSTER = {
    "doctor": ["doctor"],
    "capacity": ["capacity"],
    "explain": ["explain", "pod/x"],
    "simulate": ["simulate", "--from-cluster"],
    "select": ["select", "true"],
    "convert": ["convert", "-", "--from-cluster"],
}


@pytest.mark.parametrize("verb", VERBS_OF_A_CLUSTER.values(), ids=VERBS_OF_A_CLUSTER)
def test_a_cluster_that_does_not_answer_is_one_line_with_a_cure(verb: list[str], tmp_path: Path) -> None:
    named = {
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "x"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "x", **named}))
    done = run(*verb, "--kubeconfig", str(path))
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("drabridge: ")
    assert "did not reach the API server" in line
    assert line.endswith("; see whether `kubectl version` reaches it, or choose by --kubeconfig and --context")


def test_no_cluster_is_one_line(tmp_path: Path) -> None:
    for verb in (["doctor"], ["capacity"], ["explain", "pod/x"]):
        done = run(*verb, "--kubeconfig", str(tmp_path / "none"))
        assert done.exit_code == 2
        assert done.stderr.startswith("drabridge: ")
        assert len(done.stderr.splitlines()) == 1


# capacity


def test_capacity_counts_devices(write: Write) -> None:
    done = run("capacity", "-f", write(CLUSTER))
    assert done.exit_code == 0
    assert done.stdout.splitlines() == [
        "CLASS              TOTAL     USED  BLOCKED  TAINTED     FREE",
        f"{DRIVER}        4        1        0        0        3",
    ]
    by_node = answer("capacity", "-f", write(CLUSTER), "--by", "node")["devices"]
    assert by_node == [{"name": "node-1", "total": 4, "used": 1, "blocked": 0, "tainted": 0, "free": 3}]


def test_capacity_shows_users(write: Write) -> None:
    done = run("capacity", "--users", "-f", write(CLUSTER))
    assert f"{DRIVER}/node-1/gpu-0  default/twice  Pod default/web: no container" in done.stdout
    (one, other) = answer("capacity", "--users", "-f", write(CLUSTER))["users"]
    assert (one["claim"], one["pod"], other["claim"]) == ("default/twice", "default/web", "default/again")


def test_capacity_shows_users_of_one_namespace(write: Write) -> None:
    path = write(CLUSTER)
    assert answer("capacity", "--users", "-f", path, "-n", "none")["users"] == []
    assert len(answer("capacity", "--users", "-f", path, "-n", "default")["users"]) == 2
    assert len(answer("capacity", "--users", "-f", path, "-A")["users"]) == 2
    assert run("capacity", "-f", path, "-n", "default").exit_code == 2


def test_capacity_shows_bars(write: Write) -> None:
    shared = device("m", allowMultipleAllocations=True, capacity={"memory": {"value": "40Gi"}})
    held = claim(results=[result("m", shareID="1", consumedCapacity={"memory": "10Gi"})])
    done = run("capacity", "-f", write([resource_slice("s", published=[shared]), held, device_class()]))
    assert f"{DRIVER}/node-1/m  memory  █████░░░░░░░░░░░░░░░ 10Gi of 40Gi" in done.stdout


def words(text: str) -> str:
    return " ".join(text.split())


DRIVERLESS = "install a DRA driver, which publishes devices, or name another cluster or a dump with ResourceSlices."
BY_NODE = "drabridge capacity --by node counts them."
NOTHING: dict[str, tuple[list[Object], list[str], int, str]] = {
    "nothing that it counts by": ([node("node-1")], [], 2, f"No DeviceClass. Seen in F: 0 devices; {DRIVERLESS}"),
    "a class and no slice": (
        [device_class()],
        ["--by", "pool"],
        0,
        f"No device. Seen in F: 1 DeviceClass, 0 devices; {DRIVERLESS}",
    ),
    "slices and no class": (
        [resource_slice("s")],
        [],
        0,
        f"No DeviceClass. Seen in F: 1 ResourceSlice, 2 devices; {BY_NODE}",
    ),
    "nobody has a device": (
        [resource_slice("s"), device_class(), claim("c")],
        ["--users"],
        0,
        f"No device in use. Seen in F: 1 ResourceSlice, 1 DeviceClass, 1 ResourceClaim, 2 devices; {BY_NODE}",
    ),
}


@pytest.mark.parametrize(("objects", "arguments", "code", "said"), NOTHING.values(), ids=NOTHING)
def test_capacity_of_nothing_says_what_was_seen_where_and_what_to_do(
    objects: list[Object], arguments: list[str], code: int, said: str, write: Write
) -> None:
    path = write(objects)
    done = run("capacity", *arguments, "-f", path)
    # A long path is cut at the terminal's width, wherever that is.
    assert "".join(done.stdout.split()) == "".join(said.replace("F:", f"{path}:").split())
    assert done.exit_code == code


def test_capacity_shows_what_it_can_of_files_of_which_one_is_broken_and_its_exit_code_tells(
    write: Write, tmp_path: Path
) -> None:
    (tmp_path / "broken.yaml").write_text("kind: [")
    write(CLUSTER, "fine.yaml")
    done = run("capacity", "-f", str(tmp_path))
    assert (done.exit_code, "CLASS" in done.stdout, "broken.yaml" in done.stderr) == (2, True, True)


def test_capacity_says_how_many_more_fit(write: Write) -> None:
    path = write(CLUSTER[:4])
    done = run("capacity", "-f", path, "--fit", f"{NAME}=1")
    assert (done.exit_code, done.stdout.splitlines()[0]) == (0, "3 more Pods of this shape fit on 1 node.")
    full = run("capacity", "-f", path, "--fit", f"{NAME}=4")
    assert full.exit_code == 1
    assert "3 of 4 devices are left (without 1 InUse)" in full.stdout.replace("\n", " ")
    assert "would help: ResourceClaim default/twice: release what it holds" in full.stdout


def test_capacity_takes_the_shape_from_a_file(write: Write) -> None:
    cluster = write(CLUSTER[:3])
    deployment = {
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"template": {"spec": pod("p", asking(2))["spec"]}},
    }
    for name, objects in {"pod.yaml": [pod("p", asking(2))], "deployment.yaml": [deployment]}.items():
        found = answer("capacity", "-f", cluster, "--fit", write(objects, name))
        assert (found["fits"], found["nodes"]) == (2, {"node-1": 2})


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--fit", "example.com/gpu=two"], "is not NAME=COUNT"),
        (["--fit", "example.com/gpu=0"], "example.com/gpu=0 asks for nothing"),
        (["--fit", "example.com/gpu"], "is neither a file nor NAME=COUNT; write example.com/gpu=COUNT"),
        (["--fit", "example.com/other=1"], "nobody serves example.com/other"),
        (["--fit", "gone.yaml"], "no such file"),
    ],
)
def test_capacity_refuses_shapes_that_are_none(write: Write, arguments: list[str], problem: str) -> None:
    done = run("capacity", "-f", write(CLUSTER), *arguments)
    assert done.exit_code == 2
    assert problem in done.stderr


def test_capacity_cannot_tell_who_serves_a_name_without_classes(write: Write) -> None:
    done = run("capacity", "-f", write([node("node-1")]), "--fit", f"{NAME}=1")
    assert done.exit_code == 2
    assert f"who serves {NAME} cannot be told: no DeviceClass was seen" in done.stderr


def test_options_that_contradict_each_other(write: Write) -> None:
    assert run("capacity", "-f", write(CLUSTER), "--watch").exit_code == 2
    assert run("capacity", "--users", "--fit", "a.b/c=1").exit_code == 2


# explain


def test_explain_is_one_page(write: Write) -> None:
    done = run("explain", "pod/waiting", "-f", write(CLUSTER))
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert lines[:2] == ["Pod default/waiting", "It is held up: NoDevices."]
    assert "  NoDevices: its claims fit on none of 1 node" in lines
    assert f"  container main: 9 {NAME}" in lines
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("target", "code"),
    [("po/web", 0), ("claim/twice", 0), (NAME, 0), (f"deviceclass/{DRIVER}", 0), ("example.com/unknown", 1)],
)
def test_explain_takes_several_kinds(write: Write, target: str, code: int) -> None:
    assert run("explain", target, "-f", write(CLUSTER)).exit_code == code


def test_explain_answers_programs(write: Write) -> None:
    found = answer("explain", "pod/waiting", "-f", write(CLUSTER))
    assert found["heldUp"]["reason"] == "NoDevices"
    assert found["sections"]["Asks for"] == [f"container main: 9 {NAME}"]
    page = answer("explain", "claim/twice", "-f", write(CLUSTER))
    assert [each["check"] for each in page["findings"]] == ["device-allocated-twice"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nonsense"], "is nothing that can be explained"),
        (["pod/gone"], "it does not exist; name one that is there"),
        (["pod/web", "-n", "elsewhere"], "such as default/web"),
        (["deviceclass/gone"], f"such as {DRIVER}"),
    ],
)
def test_explain_says_what_there_is(write: Write, arguments: list[str], problem: str) -> None:
    done = run("explain", *arguments, "-f", write(CLUSTER))
    assert done.exit_code == 2
    assert problem in done.stderr


@pytest.mark.parametrize(
    ("target", "broken"),
    [
        ("pod/bad", {**pod("bad"), "status": ["x"]}),
        ("claim/bad", {**claim("bad", namespace="far"), "status": ["x"]}),
        ("deviceclass/bad", device_class("bad", metadata={"annotations": ["x"]})),
    ],
    ids=["a Pod", "a claim of another namespace", "a class"],
)
def test_explain_does_not_say_that_what_cannot_be_read_does_not_exist(
    write: Write, target: str, broken: Object
) -> None:
    done = run("explain", target, "-f", write([*CLUSTER, broken]))
    assert done.exit_code == 2
    assert "bad is left out: " in done.stderr
    assert "it is there, but cannot be read: " in done.stderr.splitlines()[-1]


def test_explain_finds_the_only_one_of_a_name(write: Write) -> None:
    path = write([*CLUSTER, pod("lonely", namespace="far"), pod("web", namespace="far")])
    assert run("explain", "pod/lonely", "-f", path).stdout.startswith("Pod far/lonely\n")
    assert run("explain", "pod/web", "-f", path).stdout.startswith("Pod default/web\n")
