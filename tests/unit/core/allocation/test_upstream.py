"""Ours against upstream's recorded answers: its own table, and 2,000 random scenarios."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from allocation_answers import Outcome, Recorded, random_scenarios, table
from drabridge.core.allocation.scenario import answer
from drabridge.core.allocation.techniques import Techniques
from drabridge.core.allocation.upstream_faults import UpstreamFaults

pytestmark = pytest.mark.unmeasured

SETS: dict[str, Callable[[], tuple[Recorded, ...]]] = {"upstream's table": table, "random scenarios": random_scenarios}

SINGLY = {
    f"without {field.name}": dataclasses.replace(Techniques(), **{field.name: False})
    for field in dataclasses.fields(Techniques)
}


@cache
def ours(name: str) -> tuple[tuple[Recorded, dict[str, Any]], ...]:
    """The recorded scenarios of a set, with our answers."""
    return tuple((each, answer(each.scenario, faults=UpstreamFaults.all())) for each in SETS[name]())


def upstream(recorded: Recorded) -> Outcome:
    return Outcome.of(recorded.answers["experimental"])


@pytest.mark.parametrize("name", SETS)
def test_the_bounded_search_says_what_upstream_said(name: str) -> None:
    assert [each.name for each, given in ours(name) if Outcome.of(given) != upstream(each)] == []


@pytest.mark.parametrize("name", SETS)
def test_without_techniques_it_takes_upstreams_steps(name: str) -> None:
    different = []
    for each in SETS[name]():
        wanted = each.answers["experimental"]
        given = answer(each.scenario, faults=UpstreamFaults.all(), techniques=Techniques.none(), budget=None)
        same_steps = given["allocateOneInvocations"] in {wanted["allocateOneInvocations"], None}
        if Outcome.of(given) != upstream(each) or not same_steps:
            different.append(each.name)
    assert different == []


@pytest.mark.parametrize("techniques", SINGLY.values(), ids=SINGLY)
def test_no_single_technique_makes_a_difference(techniques: Techniques) -> None:
    recorded = (*table(), *random_scenarios()[::8])
    assert [
        each.name
        for each in recorded
        if Outcome.of(answer(each.scenario, faults=UpstreamFaults.all(), techniques=techniques)) != upstream(each)
    ] == []


def test_the_bounded_search_takes_few_steps() -> None:
    steps = sorted(given["allocateOneInvocations"] or 0 for _, given in ours("random scenarios"))
    assert sum(steps) < 16_000  # upstream: 124,736
    assert steps[-1] < 3_000  # upstream: 51,801
