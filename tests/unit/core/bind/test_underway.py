"""Pods that were shown nodes, and have not been bound yet."""

from __future__ import annotations

from drabridge.core.bind.underway import UNDERWAY_MAX, Underway


def test_a_pod_that_may_go_anywhere_counts_everywhere() -> None:
    underway = Underway()
    underway.expect("first", 2, None, 0.0)
    underway.expect("second", 3, "a", 0.0)
    sought = underway.sought("third", 0.0)
    assert (sought("a"), sought("b")) == (5, 2)


def test_a_pod_does_not_stand_in_its_own_way() -> None:
    underway = Underway()
    underway.expect("first", 2, None, 0.0)
    underway.expect("first", 2, "a", 1.0)  # the node that it is expected at is known by now
    assert underway.sought("first", 1.0)("a") == 0
    assert underway.sought("second", 1.0)("b") == 0


def test_a_pod_that_is_being_bound_counts_no_more() -> None:
    underway = Underway()
    underway.expect("first", 2, None, 0.0)
    underway.arrived("first")
    underway.arrived("never seen")
    assert underway.sought("second", 0.0)("a") == 0


def test_nobody_is_waited_for_for_long() -> None:
    underway = Underway()
    underway.expect("first", 2, None, 0.0)
    underway.expect("second", 3, None, 2.0)
    underway.expect("first", 2, None, 3.0)  # asked for again: it starts anew
    assert underway.sought("third", 2.0 + UNDERWAY_MAX)("a") == 5
    assert underway.sought("third", 2.5 + UNDERWAY_MAX)("a") == 2
