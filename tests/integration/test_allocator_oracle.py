"""The allocator oracle is upstream's own code, the data files are its answers: the one must reproduce the others."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allocation_answers import Outcome, Recorded, random_scenarios, table
from upstream.allocator import Oracle, times

pytestmark = pytest.mark.unmeasured

ANY_ORDER = {
    "all-devices-many",
    "devices-split-across-different-slices",
    "local-and-network-attached-devices",
    "many-network-attached-devices",
    "prioritized-list-allocation-mode-all-with-selectors-multiple-pools",
}
"""The stable flavour takes pools in the order of Go's maps, which is new each time (and with it the count of steps)."""


@pytest.fixture(scope="module")
def oracle(controlplane_binary: Path) -> Iterator[Oracle]:
    with Oracle(controlplane_binary) as oracle:
        yield oracle


def said(answer: dict[str, Any]) -> tuple[Outcome, str | None, int | None]:
    return Outcome.of(answer), answer["error"], answer["allocateOneInvocations"]


@pytest.mark.parametrize("recorded", [table(), random_scenarios()], ids=["table", "random scenarios"])
def test_the_oracle_says_what_is_recorded(oracle: Oracle, recorded: tuple[Recorded, ...]) -> None:
    assert recorded
    different = [
        each.name for each in recorded if said(oracle.ask(each.scenario)) != said(each.answers["experimental"])
    ]
    assert different == []


def test_the_incubating_flavour_says_what_is_recorded_of_it(controlplane_binary: Path) -> None:
    recorded = [each for each in table() if "incubating" in each.answers]
    with Oracle(controlplane_binary, flavour="incubating") as oracle:
        different = [
            each.name for each in recorded if said(oracle.ask(each.scenario)) != said(each.answers["incubating"])
        ]
    assert len(recorded) == 234
    assert different == []


def test_the_stable_flavour_says_what_is_recorded_of_it(controlplane_binary: Path) -> None:
    recorded = [each for each in table() if "stable" in each.answers]
    with Oracle(controlplane_binary, flavour="stable") as oracle:
        different = {
            each.name
            for each in recorded
            if Outcome.of(oracle.ask(each.scenario)) != Outcome.of(each.answers["stable"])
        }
    assert len(recorded) == 158
    assert different <= ANY_ORDER


@pytest.mark.parametrize("flavour", ["stable", "incubating"])
def test_a_flavour_refuses_what_it_does_not_know(controlplane_binary: Path, flavour: Any) -> None:
    scenario = {"id": "1", "features": {"derivedAttributes": True}, "node": {"metadata": {"name": "n"}}}
    with Oracle(controlplane_binary, flavour=flavour) as oracle:
        answer = oracle.ask(scenario)
    assert answer["variant"] == ""
    assert answer["error"].startswith("NewAllocator: internal error: no allocator available for feature set")
    assert answer["error"].endswith(f"enabled allocators: {flavour}")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ('{"id": "1"}', "bad scenario: no node"),
        ('{"id": "1", "node": {}, "more": 1}', 'bad scenario: json: unknown field "more"'),
        ('{"node": {}, "allocatedDevices": ["a/b"]}', 'bad scenario: device "a/b": want driver/pool/device'),
        ("nonsense", "bad scenario: invalid character 'o' in literal null (expecting 'u')"),
    ],
)
def test_a_bad_scenario_has_an_answer(controlplane_binary: Path, line: str, error: str) -> None:
    command = [str(controlplane_binary), "allocator-oracle"]
    done = subprocess.run(command, input=line, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["error"] == error


def test_input_that_crashes_upstream_has_an_answer(oracle: Oracle) -> None:
    claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [{"name": "r"}]}}}
    answer = oracle.ask({"id": "1", "node": {"metadata": {"name": "n"}}, "claims": [claim]})
    assert answer["error"].startswith("panic: ")


def too_long() -> dict[str, Any]:
    scenario = copy.deepcopy(next(each for each in table() if each.name == "max-number-devices").scenario)
    devices = scenario["slices"][0]["spec"]["devices"]
    devices[:] = devices[:28]
    scenario["claims"][0]["spec"]["devices"]["requests"][0]["exactly"]["count"] = 29
    return scenario


def test_a_search_that_takes_too_long_ends(controlplane_binary: Path) -> None:
    with Oracle(controlplane_binary, timeout=0.3) as oracle:
        assert oracle.ask(too_long())["error"] == "timeout"


def test_upstream_can_be_timed(controlplane_binary: Path) -> None:
    simple = next(each for each in table() if each.name == "simple").scenario
    nodes = [{"metadata": {"name": name}} for name in ("node-1", "node-2")]
    taken = times(controlplane_binary, {"simple": simple}, nodes=nodes, rounds=3)["simple"]
    assert (taken.fits, taken.rounds, taken.error) == (1, 3, "")
    assert taken.steps == 5  # four for the node that fits, one for the other
    assert 0 < taken.allocate <= taken.whole_pass < 1
    assert 0 < taken.new < 1
    assert 0 < taken.first < 1


def test_a_search_that_takes_too_long_is_not_timed_twice(controlplane_binary: Path) -> None:
    taken = times(controlplane_binary, {"long": too_long()}, timeout=0.1)["long"]
    assert (taken.error, taken.rounds, taken.fits) == ("timeout", 1, 0)
