"""Which nodes are preferred, by strategy and by who else is on the way."""

from __future__ import annotations

import pytest

from drabridge.core.bind.scores import Room, Scores, scores
from drabridge.core.policy import Strategy

FIRST_FIT, PACK, SPREAD = Strategy.FIRST_FIT, Strategy.PACK, Strategy.SPREAD

CASES = {
    "first fit leaves the choice to other plugins": (
        FIRST_FIT,
        1,
        {"a": Room(8, 0), "b": Room(8, 7)},
        Scores({"a": 1, "b": 1}, None),
    ),
    "a node that others may fill is left to them": (
        FIRST_FIT,
        1,
        {"a": Room(8, 0, 1), "b": Room(8, 7, 1)},
        Scores({"a": 1, "b": 0}, "a"),
    ),
    "it takes more room for more devices": (
        FIRST_FIT,
        4,
        {"a": Room(8, 2, 3), "b": Room(8, 2, 2), "c": Room(8, 0, 4)},
        Scores({"a": 0, "b": 1, "c": 1}, None),
    ),
    "where every node may be filled, each Pod goes where fewer want to": (
        FIRST_FIT,
        1,
        {"a": Room(8, 7, 2), "b": Room(8, 7, 1), "c": Room(8, 7, 1)},
        Scores({"a": 0, "b": 10, "c": 0}, "b"),
    ),
    "nodes without devices of their own are judged by others": (
        FIRST_FIT,
        1,
        {"a": Room(0, 0, 5), "b": Room(8, 7, 5)},
        Scores({"a": 1, "b": 0}, "a"),
    ),
    "pack prefers the node with the most in use": (
        PACK,
        1,
        {"a": Room(8, 4), "b": Room(8, 0), "c": Room(8, 7)},
        Scores({"a": 5, "b": 1, "c": 8}, "c"),
    ),
    "pack counts those on their way as there": (
        PACK,
        1,
        {"a": Room(8, 4), "b": Room(8, 3, 3), "c": Room(8, 7, 1)},
        Scores({"a": 5, "b": 7, "c": 0}, "b"),
    ),
    "spread prefers the node with the least in use": (
        SPREAD,
        1,
        {"a": Room(8, 4), "b": Room(8, 0), "c": Room(8, 0, 4)},
        Scores({"a": 5, "b": 10, "c": 5}, "b"),
    ),
    "of equal nodes none is the best": (SPREAD, 1, {"a": Room(2, 1), "b": Room(2, 1)}, Scores({"a": 5, "b": 5}, None)),
    "no nodes": (PACK, 1, {}, Scores({}, None)),
}


@pytest.mark.parametrize(("strategy", "asked", "rooms", "wanted"), CASES.values(), ids=CASES)
def test_scores(strategy: Strategy, asked: int, rooms: dict[str, Room], wanted: Scores) -> None:
    assert scores(strategy, asked, rooms) == wanted
