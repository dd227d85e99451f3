"""When Pods come so fast that what only tells about them waits."""

from __future__ import annotations

from dataclasses import replace

from drabridge.delivery.burst import MANY, Burst
from drabridge.kube.clock import SYSTEM


def test_many_claims_within_a_second_are_a_burst_until_they_stop() -> None:
    now = 0.0
    burst = Burst(replace(SYSTEM, monotonic=lambda: now))
    for number in range(MANY):
        assert not burst.lasts(), number
        burst.claimed()
    assert burst.lasts()
    now = 0.99
    assert burst.lasts()
    now = 1.0
    assert not burst.lasts()


def test_claims_that_come_one_after_the_other_are_none() -> None:
    now = 0.0
    burst = Burst(replace(SYSTEM, monotonic=lambda: now))
    for _ in range(3 * MANY):
        burst.claimed()
        now += 1.01 / (MANY - 1)
        assert not burst.lasts()
