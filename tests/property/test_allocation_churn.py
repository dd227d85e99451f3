"""What was found out about a cluster before must never change an answer: a walk through changes, asked at each step.

Snapshots and states are derived from each other all along the way, and share what they know. Beside them stands a
cluster that is read anew for every question.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from allocation_answers import Outcome
from allocation_scenarios import EVERY_FEATURE, THEMES, Dice, scenario
from drabridge.core.allocation.allocate import allocate
from drabridge.core.allocation.claims import claims_of
from drabridge.core.allocation.features import Features
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.outcomes import Allocated, AllocationError, Undecided, Unfit
from drabridge.core.allocation.passes import fits
from drabridge.core.allocation.settings import Settings
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState, holdings

Object = dict[str, Any]

EVENTS = 14
NODES: Mapping[str, Mapping[str, str]] = {
    "node-1": {"zone": "a", "cards": "8"},
    "node-2": {"zone": "b", "cards": "2"},
    "node-3": {"zone": "a"},
    "node-4": {},
}


@dataclass(slots=True)
class Cluster:
    """The cluster as it is, and what is derived along the way."""

    dice: Dice
    questions: list[Object]
    slices: dict[str, Object] = field(default_factory=dict)
    classes: dict[str, Object] = field(default_factory=dict)
    claims: dict[str, Object] = field(default_factory=dict)
    """Allocated ones, by label."""
    snapshot: Snapshot = field(default_factory=lambda: Snapshot.of((), ()))
    state: AllocatedState = field(default_factory=AllocatedState)
    shares: int = 0

    def __post_init__(self) -> None:
        for number, question in enumerate(self.questions):
            for each in question["slices"]:
                if self.dice.percent(92):
                    self.put_slice(self.moved(each, number))
            for each in question["classes"]:
                self.put_class(each)

    def moved(self, slice_: Object, number: int) -> Object:
        """A slice of one of the scenarios, in pools of their own and on any node."""
        slice_ = copy.deepcopy(slice_)
        slice_["metadata"]["name"] += f"-{number}"
        spec = slice_["spec"]
        spec["pool"]["name"] += f"-{number if self.dice.percent(90) else 0}"
        if spec.get("nodeName"):
            names = list(NODES)[:3]
            spec["nodeName"] = names[number] if self.dice.percent(85) else self.dice.choice(names)
        return slice_

    # Events

    def put_slice(self, slice_: Object) -> None:
        self.slices[slice_["metadata"]["name"]] = slice_
        self.snapshot = self.snapshot.with_slice(slice_)

    def remove_slice(self) -> None:
        if self.slices:
            name = self.dice.choice(list(self.slices))
            del self.slices[name]
            self.snapshot = self.snapshot.without_slice(name)

    def bring_slice(self) -> None:
        number = self.dice.randrange(len(self.questions))
        if self.questions[number]["slices"]:
            self.put_slice(self.moved(self.dice.choice(self.questions[number]["slices"]), number))

    def change_slice(self) -> None:
        """A device gone, tainted, or with other attributes; or another generation."""
        if not self.slices:
            return
        slice_ = copy.deepcopy(self.dice.choice(list(self.slices.values())))
        devices = slice_["spec"].get("devices") or []
        change = self.dice.choice(("gone", "tainted", "attributes", "generation"))
        if change == "generation" or not devices:
            slice_["spec"]["pool"]["generation"] += self.dice.choice((-1, 1))
        elif change == "gone":
            devices.remove(self.dice.choice(devices))
        elif change == "tainted":
            self.dice.choice(devices)["taints"] = [{"key": "new", "effect": "NoSchedule"}]
        else:
            one, other = self.dice.choice(devices), self.dice.choice(devices)
            one["attributes"] = copy.deepcopy(other.get("attributes") or {})
        self.put_slice(slice_)

    def put_class(self, class_: Object) -> None:
        self.classes[class_["metadata"]["name"]] = class_
        self.snapshot = self.snapshot.with_class(class_)

    def change_class(self) -> None:
        self.put_class(self.dice.choice(self.dice.choice(self.questions)["classes"]))

    def release(self) -> None:
        if self.claims:
            label = self.dice.choice(list(self.claims))
            del self.claims[label]
            self.state = self.state.release(label)

    def commit(self, results: Sequence[Mapping[str, Any]]) -> None:
        for result in results:
            label = f"default/claim-{len(self.claims)}-{self.shares}"
            allocation = copy.deepcopy(dict(result))
            for device in allocation["devices"].get("results") or ():
                if "shareID" in device:
                    device["shareID"] = f"share-{self.shares}"
                self.shares += 1
            namespace, name = label.split("/")
            self.claims[label] = {
                "metadata": {"name": name, "namespace": namespace},
                "status": {"allocation": allocation},
            }
            self.state = self.state.commit(label, holdings(allocation, label))
            self.shares += 1

    def happen(self) -> None:
        self.dice.choice(
            (self.remove_slice, self.bring_slice, self.change_slice, self.change_slice, self.change_class, self.release)
        )()

    # Questions

    def anew(self) -> tuple[Snapshot, AllocatedState]:
        return (
            Snapshot.of(list(self.slices.values()), list(self.classes.values())),
            AllocatedState.of_claims(self.claims.values()),
        )


def guarded(ask: Callable[[], Any]) -> Any:
    """The answer, or the text of the error that makes one impossible."""
    try:
        return ask()
    except AllocationError as error:
        return error.upstream


def plain(outcome: Any) -> Any:
    if isinstance(outcome, str):
        return Outcome.of({"error": outcome})
    if isinstance(outcome, Allocated):
        return Outcome.of({"results": list(outcome.results)})
    assert isinstance(outcome, Unfit | Undecided)
    return Outcome.of({"error": outcome.error})


def filtered(found: Any) -> Any:
    if isinstance(found, str):
        return Outcome.of({"error": found})
    return [node.name for node in found.fitting], [(node.name, plain(outcome)) for node, outcome in found.others]


def settings_of(dice: Dice, questions: Sequence[Object]) -> Iterator[Settings]:
    """A few settings, that come again."""
    every = [Settings(Features.of(each["features"])) for each in questions]
    every.append(Settings(Features.of(dict.fromkeys(EVERY_FEATURE, True))))
    while True:
        yield dice.choice(every)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32), st.lists(st.sampled_from(sorted(THEMES)), min_size=1, max_size=3))
def test_what_was_known_before_changes_no_answer(seed: int, themes: list[str]) -> None:
    dice = Dice(seed)
    questions = [scenario(seed, number, theme) for number, theme in enumerate(themes)]
    cluster = Cluster(dice, questions)
    nodes = [Node.of({"metadata": {"name": name, "labels": labels}}) for name, labels in NODES.items()]
    kinds = [claims_of(each["claims"]) for each in questions]
    choices = settings_of(dice, questions)
    for _ in range(EVENTS):
        cluster.happen()
        claims, chosen = dice.choice(kinds), next(choices)
        snapshot, state = cluster.anew()
        assert cluster.state == state
        node = dice.choice(nodes)
        got = guarded(lambda: allocate(cluster.snapshot, cluster.state, node, claims, chosen))  # noqa: B023
        wanted = guarded(lambda: allocate(snapshot, state, node, claims, chosen))  # noqa: B023
        assert plain(got) == plain(wanted)
        if dice.percent(60):
            some = dice.some(nodes)
            wanted = guarded(lambda: fits(snapshot, state, some, claims, chosen))  # noqa: B023
            again = guarded(lambda: fits(cluster.snapshot, cluster.state, some, claims, chosen))  # noqa: B023
            assert filtered(again) == filtered(wanted)
        if isinstance(got, Allocated) and dice.percent(70) and consumable(chosen):
            cluster.commit(got.results)


def consumable(chosen: Settings) -> bool:
    """Without it, a shared device is given out as a whole, and a state with both kinds is none that can be."""
    return chosen.features.consumable_capacity
