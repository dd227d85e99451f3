"""`drabridge select --jsonl`: upstream's own answers, line by line, and what it says to lines that are no question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from drabridge.cli import app

DATA = Path(__file__).parents[2] / "data"
FILES = ["cel_corpus", "cel_cases_upstream"]

ORDER_OF_MAPS = {"presence/device.attributes['gpu.nvidia.com'].exists(k, k == 'type')"}
"""Cases whose cost depends on the order in which Go happened to go through a map."""

Answer = dict[str, Any]


def ask(lines: list[str] | bytes, *args: str) -> tuple[int, list[Answer], str]:
    content = lines if isinstance(lines, bytes) else "".join(f"{line}\n" for line in lines).encode()
    ended = CliRunner().invoke(app, ["select", "--jsonl", *args], input=content)
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    return ended.exit_code, [json.loads(line) for line in ended.stdout.splitlines()], ended.stderr


def wanted(case: Answer) -> Answer:
    truth = case["truth"]
    if "compileError" in truth:
        return {"name": case["name"], "error": truth["compileError"], "stage": "compile"}
    answer = {"name": case["name"]}
    answer |= {"error": truth["matchError"], "stage": "runtime"} if "matchError" in truth else {"match": truth["match"]}
    return answer | ({"cost": {"actual": truth["actualCost"]}} if "actualCost" in truth else {})


@pytest.mark.parametrize("file", FILES)
def test_all_answers_are_upstreams(file: str) -> None:
    cases = json.loads((DATA / f"{file}.json").read_text())
    questions = [{key: value for key, value in case.items() if key not in ("truth", "src")} for case in cases]
    code, answers, err = ask([json.dumps(question) for question in questions])
    assert (code, err) == (0, "")
    for case, answer in zip(cases, answers, strict=True):
        truth = wanted(case)
        if case["name"] in ORDER_OF_MAPS:
            truth["cost"] = answer["cost"]
        assert answer == truth


def test_the_environment_follows_the_flags() -> None:
    several = "device.allowMultipleAllocations"
    includes = "device.attributes.d.x.includes('a')"
    lists = {"attributes": {"x": {"strings": ["a"]}}}
    flags: list[tuple[str, Answer]] = [
        (several, {}),
        (several, {"newExpressions": True}),
        (several, {"newExpressions": True, "enableConsumableCapacity": None}),
        (several, {"newExpressions": True, "enableConsumableCapacity": False}),
        (several, {"newExpressions": False, "enableConsumableCapacity": False}),
        (includes, {"newExpressions": True}),
        (includes, {"newExpressions": True, "enableListTypeAttributes": False}),
    ]
    lines = [json.dumps({"expression": text, "driver": "d", "device": lists, **given}) for text, given in flags]
    _, answers, _ = ask(lines)
    assert [answer.get("stage", "answer") for answer in answers] == [
        "answer", "answer", "answer", "compile", "answer", "answer", "compile",
    ]  # fmt: skip


def test_notes_of_a_collection_of_questions_are_not_looked_at() -> None:
    line = '{"name": "a", "expression": "true", "src": "quirk", "truth": {"match": false}}'
    assert ask([line]) == (0, [{"name": "a", "match": True, "cost": {"actual": 0}}], "")


def test_what_may_be_left_out() -> None:
    assert ask(['{"expression": "device.driver == \'\' && size(device.attributes) == 0"}']) == (
        0,
        [{"match": True, "cost": {"actual": 6}}],
        "",
    )


BROKEN: dict[str, tuple[bytes, Answer, str]] = {
    "no JSON": (b"true &&", {}, "it is no JSON: "),
    "cut off": (b'{"expression": "true"', {}, "it is no JSON: "),
    "no UTF-8": (b'{"expression": "\xff"}', {}, "byte 16 is no UTF-8"),
    "no object": (b"[1]", {}, "is [1], not an object"),
    "nested too deeply": (b'{"a":' * 100_000, {}, "it is nested too deeply"),
    "no expression": (b'{"name": "x"}', {"name": "x"}, "expression: is missing"),
    "an expression that is no text": (b'{"name": 1, "expression": 5}', {"name": 1}, "expression: is 5, not a text"),
    "a driver that is no text": (b'{"expression": "true", "driver": []}', {}, "driver: is [], not a text"),
    "a device that is none": (b'{"expression": "true", "device": 5}', {}, "device: is 5, not an object"),
    "an attribute of a wrong type": (
        b'{"expression": "true", "device": {"attributes": {"a": {"bool": 1}}}}',
        {},
        "device.attributes['a'].bool: is 1",
    ),
    "a field that there is not": (
        b'{"name": "x", "expression": "true", "drivers": "d"}',
        {"name": "x"},
        "drivers: there is no such field; the fields are name, expression, driver, device, newExpressions, ",
    ),
    "a field that comes twice": (
        b'{"expression": "true", "driver": "a", "driver": "b"}',
        {},
        "key 'driver' comes twice",
    ),
    "a field of the device that comes twice": (
        b'{"expression": "true", "device": {"attributes": {"a": {"int": 1}, "a": {"int": 2}}}}',
        {},
        "key 'a' comes twice",
    ),
    "no number": (b'{"expression": "true", "device": {"attributes": {"a": {"int": NaN}}}}', {}, "NaN is no number"),
    "a flag that is none": (b'{"expression": "true", "newExpressions": "yes"}', {}, "newExpressions: is 'yes'"),
}


@pytest.mark.parametrize(("line", "named", "message"), BROKEN.values(), ids=BROKEN)
def test_a_broken_line_is_answered_by_its_number_and_the_run_goes_on(line: bytes, named: Answer, message: str) -> None:
    good = b'{"expression": "true"}'
    code, answers, _ = ask(b"\n".join([good, b"", line, good]))
    assert code == 2
    fine = {"match": True, "cost": {"actual": 0}}
    assert [answers[0], answers[2]] == [fine, fine]
    assert answers[1].keys() == {"line", "error", "stage", *named}
    assert answers[1] | named == answers[1]
    assert (answers[1]["line"], answers[1]["stage"]) == (3, "input")
    assert answers[1]["error"].startswith(f"line 3: {message}")


def test_lines_may_come_from_files_and_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    path = tmp_path / "lines.jsonl"
    path.write_text('{"name": "a", "expression": "true"}\n')
    code, answers, err = ask(
        b'{"name": "b", "expression": "false"}', "-f", "-", "-f", str(path), "-f", str(tmp_path / "x")
    )
    assert code == 2
    assert [answer["name"] for answer in answers] == ["b", "a"]
    assert err == f"drabridge: {tmp_path / 'x'}: no such file or directory; name a file that can be read\n"


def test_a_lone_surrogate_can_be_asked_about_and_told() -> None:
    code, answers, _ = ask(['{"name": "\\ud800", "expression": "device.driver == \'\\ud800"}'])
    assert code == 0
    assert answers[0]["name"] == "\ud800"
    assert "\ud800" in answers[0]["error"]
