"""`drabridge convert` as it is typed: files, options, exit codes, and input of every bad kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from drabridge.cli import app
from drabridge.cli.manifests import MAX_BYTES

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: p # a comment
spec:
  containers:
  - name: c
    image: a
    resources:
      limits:
        example.com/gpu: 1
"""
CLASS = """\
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: gpu.example.com
  annotations:
    drabridge.io/extended-resource-name: example.com/gpu
"""
MAP = ("--map", "example.com/gpu=gpu.example.com")


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str


def run(*arguments: str | Path, stdin: bytes | None = None) -> Answer:
    result = CliRunner().invoke(app, ["convert", *map(str, arguments)], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Answer(result.exit_code, result.stdout_bytes.decode(), result.stderr)


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    return path


def test_a_diff_is_shown_and_nothing_is_written(pod: Path) -> None:
    answer = run(pod, *MAP)
    assert answer.code == 0
    assert "-        example.com/gpu: 1\n" in answer.out
    assert "+        request: container-0-request-0\n" in answer.out
    assert pod.read_text() == POD


def test_the_diff_can_be_applied(pod: Path) -> None:
    (pod.parent / "none.yaml").write_bytes(POD.replace("\n", "\r\n").encode().rstrip())
    diff = run(pod.parent, *MAP).out
    subprocess.run(["git", "init", "-q"], cwd=pod.parent, check=True)
    patch = diff.replace(f"a{pod.parent}/", "a/").replace(f"b{pod.parent}/", "b/")
    subprocess.run(["git", "apply", "-"], cwd=pod.parent, check=True, input=patch.encode())
    applied = {path.name: path.read_bytes() for path in pod.parent.glob("*.yaml")}
    pod.write_text(POD)
    (pod.parent / "none.yaml").write_bytes(POD.replace("\n", "\r\n").encode().rstrip())
    assert run(pod.parent, *MAP, "--write").code == 0
    assert applied == {path.name: path.read_bytes() for path in pod.parent.glob("*.yaml")}


def test_the_examples_are_converted_as_the_readme_says() -> None:
    answer = run(Path(__file__).parents[3] / "examples", *MAP)
    assert answer.code == 0
    assert [Path(line).name for line in answer.out.splitlines() if line.startswith("+++ ")] == [
        "inference.yaml",
        "own-claim.yaml",
        "training.yaml",
        "two-resources.yaml",
    ]
    assert "too-big.yaml:13: left: Pod too-big" in answer.err


def test_write_keeps_mode_links_line_ends_and_the_mark(tmp_path: Path) -> None:
    real = tmp_path / "real" / "pod.yaml"
    real.parent.mkdir()
    real.write_bytes(b"\xef\xbb\xbf" + POD.replace("\n", "\r\n").encode())
    real.chmod(0o640)
    link = tmp_path / "pod.yaml"
    link.symlink_to(real)
    assert run(link, *MAP, "--write").code == 0
    assert link.is_symlink()
    assert real.stat().st_mode & 0o7777 == 0o640
    content = real.read_bytes()
    assert content.startswith(b"\xef\xbb\xbfapiVersion: resource.k8s.io/v1\r\n")
    assert content.count(b"\n") == content.count(b"\r\n")
    assert [path.name for path in real.parent.iterdir()] == ["pod.yaml"]


def test_a_second_write_does_not_touch_the_file(pod: Path) -> None:
    run(pod, *MAP, "--write")
    before = pod.stat()
    answer = run(pod, *MAP, "--write")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    assert (pod.stat().st_mtime_ns, pod.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_stdout_prints_all_manifests_as_one_stream(pod: Path) -> None:
    (pod.parent / "service.json").write_text('{"apiVersion": "v1", "kind": "Service"}')
    answer = run(pod.parent, *MAP, "--stdout")
    kinds = [each["kind"] for each in yaml.safe_load_all(answer.out)]
    assert kinds == ["ResourceClaimTemplate", "Pod", "Service"]


def test_standard_input_is_read_and_kept_as_it_is_where_nothing_is_to_be_done() -> None:
    text = b"a:   1 # odd\nb : [ 1,2 ]\n"
    assert run("-", *MAP, "--stdout", stdin=text).out == text.decode()


def test_check_tells_by_its_exit_code(pod: Path) -> None:
    assert run(pod, *MAP, "--check").code == 1
    run(pod, *MAP, "--write")
    assert run(pod, *MAP, "--check").code == 0


def test_check_of_broken_input_is_another_code(pod: Path) -> None:
    (pod.parent / "broken.yaml").write_text("a: [")
    assert run(pod.parent, *MAP, "--check").code == 2


def test_the_report_as_json(pod: Path) -> None:
    (pod.parent / "helm.yaml").write_text("a: {{ .Values.a }}\n")
    report = json.loads(run(pod.parent, *MAP, "-o", "json").out)
    assert report["summary"] == {"files": 2, "changed": 1, "left": 0, "skipped": 1, "broken": 0}
    by_path = {Path(each["path"]).name: each for each in report["files"]}
    assert by_path["pod.yaml"]["changed"]
    assert {each["reason"] for each in by_path["pod.yaml"]["findings"]} == {
        "ClaimTemplateWritten",
        "Converted",
        "TolerationAdded",
    }
    [skipped] = by_path["helm.yaml"]["findings"]
    assert (skipped["outcome"], skipped["reason"], skipped["line"]) == ("skipped", "TemplateText", 1)
    assert skipped["cure"]


def test_templates_can_have_a_file_of_their_own(pod: Path) -> None:
    (pod.parent / "other.yaml").write_text(POD.replace("name: p", "name: q"))
    templates = pod.parent / "templates.yaml"
    assert run(pod.parent, *MAP, "--templates", templates, "--write").code == 0
    assert [each["kind"] for each in yaml.safe_load_all(templates.read_text())] == ["ResourceClaimTemplate"]
    assert [each["kind"] for each in yaml.safe_load_all(pod.read_text())] == ["Pod"]
    before = templates.read_text()
    assert run(pod.parent, *MAP, "--templates", templates, "--write").code == 0
    assert templates.read_text() == before


def test_a_template_of_somebody_else_in_another_file_keeps_its_name(pod: Path) -> None:
    ours = next(iter(yaml.safe_load_all(run(pod, *MAP, "--stdout").out)))
    name = ours["metadata"]["name"]
    ours["spec"]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 7
    (pod.parent / "theirs.yaml").write_text(yaml.safe_dump(ours))
    run(pod.parent, *MAP, "--write")
    mine = next(iter(yaml.safe_load_all(pod.read_text())))
    assert mine["metadata"]["name"] == f"{name}-2"


def test_a_runtime_class_goes_where_that_is_wanted(pod: Path) -> None:
    pod.write_text(POD.replace("  containers:", "  runtimeClassName: nvidia # for the plugin\n  containers:"))
    assert "runtimeClassName: nvidia" in run(pod, *MAP, "--stdout").out
    assert "runtimeClassName: nvidia" in run(pod, *MAP, "--stdout", "--drop-runtime-class", "other").out
    assert "runtimeClassName" not in run(pod, *MAP, "--stdout", "--drop-runtime-class", "nvidia").out


NOTES = {
    "a share of a device": ("example.com/gpu.shared: 1", "", "SharedUnits"),
    "config that several devices share": (
        "example.com/gpu: 2",
        "spec: {config: [{opaque: {}}]}\n",
        "ConfigSharedByDevices",
    ),
    "config of one device": ("example.com/gpu: 1", "spec: {config: [{opaque: {}}]}\n", ""),
}


@pytest.mark.parametrize(("asked", "config", "reason"), NOTES.values(), ids=NOTES)
def test_what_somebody_should_check_is_noted(pod: Path, asked: str, config: str, reason: str) -> None:
    pod.write_text(POD.replace("example.com/gpu: 1", asked))
    (pod.parent / "class.yaml").write_text(CLASS + config)
    report = json.loads(run(pod.parent, *MAP, "--map", "example.com/gpu.shared=s", "-o", "json").out)
    notes = {each["reason"] for file in report["files"] for each in file["findings"] if each["outcome"] == "note"}
    assert notes - {"TolerationAdded"} == ({reason} if reason else set())


def test_reverse_takes_templates_away_only_when_nobody_uses_them(pod: Path) -> None:
    other = pod.parent / "other.yaml"
    other.write_text(POD.replace("name: p", "name: q"))
    templates = pod.parent / "templates.yaml"
    run(pod.parent, *MAP, "--templates", templates, "--write")
    shared = other.read_text().replace("    image: a\n", "    image: a\n  - name: d\n    image: a\n")
    other.write_text(
        shared + "  - name: e\n    image: a\n    resources:\n      claims:\n      - name: extended-resources\n"
    )
    answer = run(pod.parent, "--reverse", "--write")
    assert "left: Pod q spec.resourceClaims[0]" in answer.err
    assert pod.read_text() == POD
    assert "ResourceClaimTemplate" in templates.read_text()


def test_reverse_restores_the_file_to_the_byte(pod: Path) -> None:
    run(pod, *MAP, "--write")
    assert run(pod, "--reverse", "--write").code == 0
    assert pod.read_text() == POD


POLICY = """\
apiVersion: drabridge.io/v1alpha1
kind: ExtendedResourcePolicy
metadata:
  name: p
spec:
  resourceName: example.com/gpu
  delivery: {delivery}
  devices:
  - deviceClassName: by-policy
"""


@pytest.mark.parametrize(
    ("files", "options", "served_by"),
    [
        ([], [], None),
        ([CLASS], [], "gpu.example.com"),
        ([CLASS, POLICY.format(delivery="Auto")], [], "by-policy"),
        ([CLASS, POLICY.format(delivery="Off")], [], "gpu.example.com"),
        ([CLASS, POLICY.format(delivery="Auto")], ["--map", "example.com/gpu=by-hand"], "by-hand"),
    ],
    ids=["nothing", "a class", "a policy before a class", "a policy that is off", "the command line before all"],
)
def test_where_mappings_come_from(pod: Path, files: list[str], options: list[str], served_by: str | None) -> None:
    sources = pod.parent / "sources"
    sources.mkdir()
    for i, text in enumerate(files):
        (sources / f"{i}.yaml").write_text(text)
    answer = run(pod, "--from", sources, *options, "--stdout")
    [*templates, _] = yaml.safe_load_all(answer.out)
    classes = [each["spec"]["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] for each in templates]
    assert classes == ([served_by] if served_by else [])
    assert served_by or "NameNotServed" in answer.err


def test_a_cluster_scoped_kind_needs_to_be_told_where_its_pods_run(tmp_path: Path) -> None:
    path = tmp_path / "runtime.yaml"
    spec = POD.replace("v1\nkind: Pod", "trainer.kubeflow.org/v1alpha1\nkind: ClusterTrainingRuntime")
    path.write_text(spec)
    assert "NamespaceNotKnown" in run(path, *MAP).err
    text = run(path, *MAP, "-n", "team", "--stdout").out
    assert [each.get("metadata", {}).get("namespace") for each in yaml.safe_load_all(text)] == ["team", None]
    path.write_text(text)
    assert run(path, "--reverse", "-n", "team", "--stdout").out == spec


def test_pipes_in_directories_are_left_out(pod: Path) -> None:
    os.mkfifo(pod.parent / "pipe.yaml")
    command = [Path(sys.executable).with_name("drabridge"), "convert", pod.parent, *MAP]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "pod.yaml" in done.stdout + done.stderr
    assert "pipe.yaml" not in done.stdout + done.stderr


def test_hidden_directories_and_other_files_are_left_out(pod: Path) -> None:
    (pod.parent / ".git").mkdir()
    (pod.parent / ".git" / "x.yaml").write_text(POD)
    (pod.parent / "README.md").write_text("# no manifest\n")
    below = pod.parent / "below"
    below.mkdir()
    (below / "y.yml").write_text(POD)
    assert "2 files, 2 to be changed" in run(pod.parent, *MAP).err


# --- bad input

BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 60))

BAD: dict[str, tuple[bytes, str]] = {
    "an empty file": (b"", "Empty"),
    "a file of comments": (b"# nothing\n\n---\n# here\n", "Empty"),
    "a binary file": (b"\x7fELF\x02\0\0\0", "NotText"),
    "invalid UTF-8": (b"a: \xff\xfe\n", "NotText"),
    "UTF-16": ("a: b\n".encode("utf-16"), "NotText"),
    "control characters": (b"a: \x07\n", "InvalidYaml"),
    "a YAML bomb": (BOMB.encode(), "AliasesTooLarge"),
    "an alias of itself": (b"a: &a [*a]\n", "InvalidYaml"),
    "an alias without anchor": (b"a: *b\n", "InvalidYaml"),
    "a merge of itself": (b"a: &a\n  <<: *a\n", "InvalidYaml"),
    "a key that stands twice": (b"a: 1\nb: 2\na: 3\n", "DuplicateKey"),
    "a key that stands twice in JSON": (b'{"a": 1, "a": 2}', "DuplicateKey"),
    "a tab": (b"a:\n\tb: 1\n", "InvalidYaml"),
    "brackets without end": (b"a: [1, 2\n", "InvalidYaml"),
    "very deep brackets": (b"[" * 100_000, "InvalidYaml"),
    "deep brackets": (b"[" * 500 + b"]" * 500, "InvalidYaml"),
    "very deep lists": (b"- " * 100_000 + b"a", "InvalidYaml"),
    "braces without end": (b"{a, b", "InvalidYaml"),
    "a list as a key": (b"[a, b]: c\n", "InvalidYaml"),
    "a second document without a marker": (b"a: 1\n...\nb: 2\n", "InvalidYaml"),
    "a text that never ends": (b'a: "b\n', "InvalidYaml"),
    "a directive that is none": (b"%YAML x\n---\na: 1\n", "InvalidYaml"),
}


@pytest.mark.parametrize(("content", "reason"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("how", ["file", "stdin"])
def test_bad_input_is_one_line_with_the_cure_and_a_code(tmp_path: Path, content: bytes, reason: str, how: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content)
    answer = run(path, *MAP, "--write") if how == "file" else run("-", *MAP, stdin=content)
    assert answer.code == 2
    [line] = answer.err.splitlines()
    assert f"({reason})" in line
    assert "; " in line
    assert len(line) < 400
    assert path.read_bytes() == content


def test_a_file_of_fifty_megabytes_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    with path.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    answer = run(path, *MAP)
    assert answer.code == 2
    assert "TooLarge" in answer.err


def test_a_stream_that_is_too_large_is_refused() -> None:
    answer = run("-", *MAP, stdin=b"a" * (MAX_BYTES + 1))
    assert answer.code == 2
    assert "TooLarge" in answer.err


def test_what_is_bad_does_not_keep_the_rest_from_being_converted(pod: Path) -> None:
    for i, (content, _) in enumerate(BAD.values()):
        (pod.parent / f"bad{i}.yaml").write_bytes(content)
    assert run(pod.parent, *MAP, "--write").code == 2
    assert "claims:" in pod.read_text()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    answer = run(tmp_path / "none.yaml", *MAP)
    assert answer.code == 2
    problem = "broken: no such file or directory; check its path and your rights, or name another (NotReadable)"
    assert answer.err == f"{tmp_path / 'none.yaml'}: {problem}\n"


def test_a_file_of_mappings_that_is_not_there(pod: Path, tmp_path: Path) -> None:
    answer = run(pod, "--from", tmp_path / "none.yaml", "-o", "json")
    assert answer.code == 2
    [missing, _] = json.loads(answer.out)["files"]
    assert missing["path"] == str(tmp_path / "none.yaml")
    assert [(each["reason"], each["line"]) for each in missing["findings"]] == [("NotReadable", None)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_files_without_rights(pod: Path) -> None:
    pod.chmod(0o444)
    assert "cannot be written" in run(pod, *MAP, "--write").err
    pod.chmod(0)
    assert "permission denied" in run(pod, *MAP).err


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(pod: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    answer = run(pod, *MAP, "--write")
    assert answer.code == 2
    assert "no space left" in answer.err
    assert pod.read_text() == POD
    assert [path.name for path in pod.parent.iterdir()] == ["pod.yaml"]


def test_an_explicitly_named_helm_template_is_skipped_and_no_failure(tmp_path: Path) -> None:
    path = tmp_path / "template.yaml"
    path.write_text("{{- range .Values.pods }}\n" + POD + "{{- end }}\n")
    answer = run(path, *MAP, "--write")
    assert answer.code == 0
    assert "TemplateText" in answer.err
    assert "{{- range" in path.read_text()


WRONG: dict[str, tuple[str, ...]] = {
    "nothing to read": (),
    "a mapping without class": ("-", "--map", "example.com/gpu"),
    "a mapping of a native name": ("-", "--map", "cpu=gpu.example.com"),
    "a mapping to no name of a class": ("-", "--map", "example.com/gpu=GPU"),
    "write and stdout": (".", "--write", "--stdout"),
    "write and check": (".", "--write", "--check"),
    "write to standard input": ("-", "--write"),
    "a report where manifests go": ("-", "--stdout", "-o", "json"),
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG)
def test_options_that_make_no_sense_are_refused(arguments: tuple[str, ...]) -> None:
    assert run(*arguments, stdin=b"").code == 2


def test_a_cluster_that_is_not_there_is_one_line(tmp_path: Path, pod: Path) -> None:
    answer = run(pod, "--from-cluster", "--kubeconfig", tmp_path / "none")
    assert answer.code == 2
    [line] = answer.err.splitlines()
    assert "no such file" in line


def test_a_policy_that_cannot_be_read_is_named_and_the_rest_goes_on(pod: Path) -> None:
    (pod.parent / "policy.yaml").write_text(POLICY.format(delivery="Perhaps"))
    answer = run(pod.parent, *MAP)
    assert answer.code == 2
    assert "ExtendedResourcePolicy p spec.delivery" in answer.err
    assert "container-0-request-0" in answer.out


def test_the_program_itself_ends_without_a_traceback(tmp_path: Path) -> None:
    call: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run
    program = Path(sys.executable).with_name("drabridge")
    result = call([program, "convert", tmp_path / "none"], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
