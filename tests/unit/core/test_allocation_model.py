"""The plain model against upstream's recorded answers: only who is right there may judge others."""

from __future__ import annotations

import pytest

from allocation_answers import Outcome, Recorded, random_scenarios, table
from allocation_model import Steps, answer

pytestmark = pytest.mark.unmeasured

MOST_STEPS = 2_000
BEYOND = 8
"""So many of the recorded scenarios may need more steps than the model is given here."""


def differences(recorded: tuple[Recorded, ...]) -> tuple[list[str], int]:
    different, beyond = [], 0
    for each in recorded:
        wanted = each.answers["experimental"]
        try:
            given = answer(each.scenario, most_steps=MOST_STEPS)
        except Steps:
            beyond += 1
            continue
        if (Outcome.of(given), given["allocateOneInvocations"]) != (
            Outcome.of(wanted),
            wanted["allocateOneInvocations"],
        ):
            different.append(each.name)
    return different, beyond


RECORDED = [
    pytest.param(table(), id="upstream's table"),
    pytest.param(random_scenarios()[::5], id="a fifth of the random scenarios"),
    pytest.param(random_scenarios(), id="random scenarios", marks=pytest.mark.slow),
]


@pytest.mark.parametrize("recorded", RECORDED)
def test_the_model_says_what_upstream_said_in_as_many_steps(recorded: tuple[Recorded, ...]) -> None:
    different, beyond = differences(recorded)
    assert different == []
    assert beyond <= BEYOND
