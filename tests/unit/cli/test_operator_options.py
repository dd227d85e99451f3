"""`drabridge operator` on the command line: its help, and what it says to options that cannot be."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import pytest
import typer.core
import typer.main

from drabridge import cli

PROGRAM = Path(sys.executable).with_name("drabridge")
NO_ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "COLUMNS": "80"}


NOWHERE = """
apiVersion: v1
kind: Config
clusters: [{name: nowhere, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: nobody, user: {token: none}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
current-context: nowhere
"""


def run(*args: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, which must come by itself."""
    return subprocess.run(
        [PROGRAM, *args],
        env={**NO_ENVIRONMENT, **environment},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def squeezed(text: str) -> str:
    """The text without frames and line breaks, so that a sentence is found wherever it was broken."""
    return " ".join(text.replace("│", " ").split())


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, str]]:
    """Runs the command line in this process; gives its exit code and what it said. For what ends before it starts."""
    for name, value in NO_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)

    def main(*args: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["drabridge", *args])
        with pytest.raises(SystemExit) as end:
            cli.main()
        output = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return end.value.code, output.out + output.err

    return main


Call = Callable[..., tuple[int, str]]


def test_the_help_fits_a_terminal_and_shows_examples_and_every_variable(call: Call) -> None:
    code, text = call("operator", "--help")
    assert code == 0
    assert max(map(len, text.splitlines())) <= 80
    assert "Examples:" in text
    examples = [line.split() for line in text.splitlines() if line.strip().startswith("drabridge operator")]
    assert examples
    verbs = typer.main.get_command(cli.app)
    assert isinstance(verbs, typer.core.TyperGroup)
    options = {
        option: parameter.envvar
        for parameter in typer.main.get_command(cli.app).commands["operator"].params  # type: ignore[attr-defined] # a group
        for option in parameter.opts
    }
    for example in examples:
        assert {word for word in example if word.startswith("--")} <= options.keys()
    for option, variable in options.items():
        assert option in text
        if option != "--context":  # belongs to a kubeconfig, which belongs to a person
            assert f"[env var: {variable}]" in squeezed(text)


def test_without_a_verb_it_shows_what_there_is(call: Call) -> None:
    _, text = call()
    assert "operator" in text
    assert "Run the operator" in text


def test_it_says_its_version(call: Call) -> None:
    assert call("--version") == (0, f"drabridge {version('drabridge')}\n")


BAD = {
    "a Lease that is too short to be renewed": ("--lease-seconds=5", "6"),
    "a negative wait": ("--native-after=-1", "0"),
    "a rate that is no number": ("--probe-every=often", "unable to parse string as a number"),
    "an address without port": ("--webhook-address=localhost", "'localhost' is not ADDRESS:PORT"),
    "a port that is none": ("--probe-address=127.0.0.1:http", "'127.0.0.1:http' is not ADDRESS:PORT"),
    "a port out of range": ("--probe-address=:65536", "':65536' is not ADDRESS:PORT"),
    "an unknown log format": ("--log-format=xml", "'auto', 'json', 'text'"),
    "an unknown log level": ("--log-level=loud", "'debug', 'info', 'warning', 'error'"),
    "no scheduler at all": ("--scheduler-names= , ", "names nobody"),
}


@pytest.mark.parametrize(("option", "why"), BAD.values(), ids=BAD)
def test_a_value_that_cannot_be_is_refused_by_the_options_name(call: Call, option: str, why: str) -> None:
    code, text = call("operator", option)
    assert code == 2
    assert option.partition("=")[0] in squeezed(text)
    assert why in squeezed(text)


def test_a_bad_variable_is_refused_by_its_name(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRABRIDGE_LEASE_SECONDS", "long")
    code, text = call("operator")
    assert code == 2
    assert "DRABRIDGE_LEASE_SECONDS" in squeezed(text)
    assert "unable to parse string as an integer" in squeezed(text)


def test_an_unknown_option_is_answered_with_the_one_that_was_meant(call: Call) -> None:
    code, text = call("operator", "--log-levle=info")
    assert code == 2
    assert "--log-level" in squeezed(text)


def complaint(ended: subprocess.CompletedProcess[str]) -> str:
    """The one line that says why it ended; logs are others."""
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    lines = [line for line in ended.stderr.splitlines() if line.startswith("drabridge: ")]
    assert len(lines) == 1, ended.stderr
    return lines[0]


KUBECONFIGS = {
    "one that is not there": (None, "there is no such file"),
    "one that is no YAML": ("{", "it cannot be used"),
    "one without clusters": ("apiVersion: v1\nkind: Config\n", "it cannot be used"),
    "an empty one": ("", "it cannot be used"),
}


@pytest.mark.parametrize(("content", "why"), KUBECONFIGS.values(), ids=KUBECONFIGS)
def test_a_kubeconfig_that_cannot_be_used_is_one_line_with_the_cure(
    tmp_path: Path, content: str | None, why: str
) -> None:
    path = tmp_path / "kubeconfig"
    if content is not None:
        path.write_text(content)
    line = complaint(run("operator", f"--kubeconfig={path}"))
    assert str(path) in line
    assert why in line
    assert "--kubeconfig" in line.partition(why)[2]


def test_a_port_in_use_is_one_line_that_names_the_option(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(NOWHERE)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        line = complaint(run("operator", f"--kubeconfig={kubeconfig}", f"--probe-address={address}"))
    assert f"--probe-address={address}" in line
    assert "already in use" in line


def test_an_api_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(NOWHERE)
    line = complaint(run("operator", f"--kubeconfig={kubeconfig}", "--probe-address=127.0.0.1:0", "--start-within=0"))
    assert "did not reach the API server" in line
    assert "127.0.0.1:1" in line


def test_an_api_server_that_is_not_there_yet_is_asked_again(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(NOWHERE)
    done = run("operator", f"--kubeconfig={kubeconfig}", "--probe-address=127.0.0.1:0", "--start-within=1.5")
    assert done.stderr.count("cannot start yet") == 1
    assert done.stderr.splitlines()[-1].startswith("drabridge: ")
    assert done.returncode == 1
