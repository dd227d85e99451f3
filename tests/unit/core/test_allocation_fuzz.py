"""The fuzz must find what is wrong, and make it small: here upstream is played by the plain model, with a fault."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import allocation_model
from allocation_fuzz import WAYS, Comparison, answered, difference, follow_up, smaller
from allocation_scenarios import THEMES, Dice, scenario
from drabridge.core.allocation.scenario import answer

pytestmark = pytest.mark.unmeasured


class FaultyUpstream:
    """The plain model; with `fault`, it tolerates every taint."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, fault: bool) -> None:
        if fault:
            monkeypatch.setattr(allocation_model, "is_tainted", lambda _device, _tolerations: False)

    def ask(self, question: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return allocation_model.answer(question)
        except KeyError as error:  # a scenario made so small that it is none any more
            return {"id": question["id"], "results": None, "error": f"panic: {error}"}


def tainted() -> dict[str, Any]:
    """A scenario with a lot in it that has nothing to do with the tainted device."""
    numbers = (scenario(7, number, "mixed") for number in range(10_000))
    return next(
        each
        for each in numbers
        if "NoSchedule" in json.dumps(each["slices"])
        and each["features"]["deviceTaints"]
        and answer(each)["results"] is None
        and answer(each | {"features": each["features"] | {"deviceTaints": False}})["results"]
    )


def test_a_fault_is_found_made_small_and_written_down(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    question = tainted()
    comparison = Comparison(FaultyUpstream(monkeypatch, fault=True), tmp_path)
    comparison.compare(question, 0)
    assert dict(comparison.findings.kinds) == {"as it is: fit -> no fit": 1}
    (small,) = comparison.findings.examples["as it is: fit -> no fit"]
    assert sum(len(each["spec"].get("devices", ())) for each in small["slices"]) == 1
    assert len(json.dumps(small)) < len(json.dumps(question)) / 2
    (written,) = tmp_path.glob("*.json")
    assert json.loads(written.read_text()) == small
    assert written.with_suffix(".txt").read_text().startswith("as it is: fit -> no fit")


def test_without_a_fault_nothing_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    comparison = Comparison(FaultyUpstream(monkeypatch, fault=False), tmp_path)
    comparison.compare(tainted(), 0)
    assert not comparison.findings.kinds
    assert set(comparison.findings.answered) == {
        "as it is",
        "plainly",
        "model",
        "without bounds",
        "without count_bound",
    }


FITS: dict[str, Any] = {"id": "", "results": [{"devices": {}}], "error": None, "allocateOneInvocations": 2}
NO_FIT: dict[str, Any] = {"id": "", "results": None, "error": None, "allocateOneInvocations": 2}
CAPACITY = "claim c, request r: checking capacity for device d: a"
FAILS: dict[str, Any] = {"id": "", "results": None, "error": CAPACITY, "allocateOneInvocations": None}

DIFFERENCES: Mapping[str, tuple[str, dict[str, Any], dict[str, Any], str | None]] = {
    "the same": ("as it is", FITS, FITS, None),
    "another verdict": ("as it is", FITS, NO_FIT, "as it is: fit -> no fit"),
    "another result": (
        "as it is",
        FITS,
        FITS | {"results": [{"devices": {"results": [{"device": "d"}]}}]},
        "as it is: fit -> fit (results)",
    ),
    "another error": ("model", FAILS, FAILS | {"error": "b"}, "model: error -> error (text)"),
    "of several bad capacities, another one": ("model", FAILS, FAILS | {"error": f"{CAPACITY}b"}, None),
    "only here, or everywhere": (
        "as it is",
        FAILS,
        FAILS | {"errorOnNodeOnly": True},
        "as it is: error -> error (text)",
    ),
    "another number of steps": ("as it is", NO_FIT, NO_FIT | {"allocateOneInvocations": 1}, None),
    "another number of steps, plainly": (
        "plainly",
        NO_FIT,
        NO_FIT | {"allocateOneInvocations": 1},
        "plainly: steps",
    ),
    "undecided": (
        "as it is",
        NO_FIT,
        FAILS | {"error": "filter operation aborted: not decided within 5 steps"},
        "as it is: undecided",
    ),
    "undecided without memory": (
        "without memory",
        NO_FIT,
        FAILS | {"error": "filter operation aborted: not decided within 5 steps"},
        None,
    ),
    "a crash, even if upstream has no answer": (
        "as it is",
        FAILS | {"error": "timeout"},
        {"error": "crash: KeyError"},
        "as it is: crash: KeyError",
    ),
}


@pytest.mark.parametrize(("way", "theirs", "given", "kind"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_differences(way: str, theirs: dict[str, Any], given: dict[str, Any], kind: str | None) -> None:
    assert difference(way, theirs, given) == kind


def test_an_exception_of_ours_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object, **__: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("drabridge.core.allocation.scenario.answer", crash)
    given, _ = answered(scenario(1, 1), "as it is")
    assert given["error"].startswith("crash: KeyError: 'x'")


@pytest.mark.parametrize("theme", THEMES)
def test_scenarios_are_reproducible_and_well_formed(theme: str) -> None:
    for number in range(20):
        made = scenario(3, number, theme)
        assert made == scenario(3, number, theme)
        assert made != scenario(4, number, theme)
        assert not (answer(made)["error"] or "").startswith("bad scenario")


def test_what_is_smaller_is_smaller() -> None:
    question = scenario(3, 3, "everything")
    before = json.dumps(question)
    for each in smaller(question):
        assert len(json.dumps(each)) <= len(before)
        assert each != question
    assert json.dumps(question) == before


def test_what_was_given_out_is_in_use_in_the_next_scenario() -> None:
    for number in range(200):
        question = scenario(5, number, "shares")
        given = answer(question)
        if not given["results"]:
            continue
        following = follow_up(question, given, Dice("x"))
        for result in given["results"]:
            for device in result["devices"].get("results") or ():
                id_ = f"{device['driver']}/{device['pool']}/{device['device']}"
                if device.get("adminAccess"):
                    continue
                if "shareID" in device:
                    assert any(each.startswith(f"{id_}/") for each in following["allocatedSharedDeviceIDs"])
                    assert (id_ in following["aggregatedCapacity"]) == (
                        id_ in (question.get("aggregatedCapacity") or {}) or bool(device.get("consumedCapacity"))
                    )
                else:
                    assert id_ in following["allocatedDevices"]
        return
    pytest.fail("no scenario fits")


def test_every_technique_is_switched_off_and_on_alone() -> None:
    assert len(WAYS) == 3 + 2 * len({name.split()[1] for name in WAYS if name.startswith("only ")})
