"""What an allocation must be whatever was asked for, over random clusters (allocation_scenarios).

The checks know nothing of a search: they look at the result and work out from the cluster whether it may be so.
"""

from __future__ import annotations

import copy
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, replace
from fractions import Fraction
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from allocation_answers import Outcome
from allocation_model import Amount, Asked, Candidate, DeviceID, Fatal, Model, is_tainted, node_matches
from allocation_scenarios import THEMES, scenario
from drabridge.core.allocation.scenario import answer
from drabridge.core.allocation.state import AllocatedState, claim_label, holdings
from drabridge.core.allocation.strategy import Strategy
from drabridge.core.allocation.techniques import Techniques
from drabridge.core.allocation.upstream_faults import UpstreamFaults

Scenario = dict[str, Any]
Results = list[dict[str, Any]]

SCENARIOS = st.builds(scenario, st.integers(0, 2**32), st.integers(0, 2**32), st.sampled_from(sorted(THEMES)))


def that_fits(seed: int, theme: str) -> Scenario:
    """The first scenario of the seed that fits."""
    every = (scenario(seed, number, theme) for number in range(1000))
    return next(each for each in every if answer(each)["results"])


def that_cannot_raise(seed: int, theme: str) -> Scenario:
    """The first scenario of the seed that has claims, and no error anywhere."""
    every = (scenario(seed, number, theme) for number in range(1000))
    return next(each for each in every if each["claims"] and not anything_raises(each))


SEEDS = (st.integers(0, 2**32), st.sampled_from(sorted(THEMES)))
FITTING, HARMLESS = st.builds(that_fits, *SEEDS), st.builds(that_cannot_raise, *SEEDS)
TECHNIQUES = st.builds(Techniques, **{each.name: st.booleans() for each in fields(Techniques)})
FAULTS = st.sampled_from([UpstreamFaults(), UpstreamFaults.all()])
STRATEGIES = st.sampled_from(Strategy)
UNDECIDED = "filter operation aborted"

every_scenario = settings(deadline=None, max_examples=60)


class Given:
    """What was given out, with the devices and requests it refers to."""

    def __init__(self, asked: Scenario, results: Results) -> None:
        self.model = Model(asked, 0)
        self.model.pools = list(self.model.gather())
        for number, claim in enumerate(self.model.claims):
            self.model.check_claim(number, claim)
        self.devices = {each.id: each for each in self.model.devices()}
        self.results = results

    def __iter__(self) -> Iterator[tuple[int, Asked, Candidate, Mapping[str, Any]]]:
        """(number of the claim, what was asked for, the device, the result), in the order of the results."""
        for number, result in enumerate(self.results):
            asked = {
                each.name: each for (claim, _), some in self.model.asked.items() for each in some if claim == number
            }
            for device in result["devices"].get("results") or ():
                id_ = (device["driver"], device["pool"], device["device"])
                yield number, asked[device["request"]], self.devices[id_], device


def fitting(asked: Scenario, **switches: Any) -> Given:
    """What is given out of a scenario that fits, in whatever way it is answered."""
    results = answer(asked, **switches)["results"]
    assume(results)  # another order of devices may come to an error first
    return Given(asked, results)


@every_scenario
@given(FITTING, STRATEGIES)
def test_no_device_is_given_out_twice(asked: Scenario, strategy: Strategy) -> None:
    """Shares are no devices, and admin access takes nothing away: but not twice within a claim."""
    given_ = fitting(asked, strategy=strategy)
    ordinary: Counter[DeviceID] = Counter()
    in_claim: Counter[tuple[int, DeviceID]] = Counter()
    shares = []
    for claim, request, candidate, result in given_:
        if given_.model.is_shared(candidate):
            shares.append(result["shareID"])
            continue
        assert "shareID" not in result
        in_claim[claim, candidate.id] += 1
        if not request.admin:
            ordinary[candidate.id] += 1
            assert candidate.id not in given_.model.dedicated
    assert set(ordinary.values()) <= {1}
    assert set(in_claim.values()) <= {1}
    assert len(shares) == len(set(shares))


@every_scenario
@given(FITTING, STRATEGIES)
def test_every_request_gets_what_it_asked_for_on_devices_that_may_serve_it(asked: Scenario, strategy: Strategy) -> None:
    """Selectors are true, taints tolerated, the node is right; ExactCount is exact, and All is all."""
    given_ = fitting(asked, strategy=strategy)
    model = given_.model
    served: dict[tuple[int, str], list[DeviceID]] = defaultdict(list)
    for claim, request, candidate, result in given_:
        served[claim, request.name].append(candidate.id)
        assert model.is_selectable(request, candidate)
        assert model.may_skip_node_operations(candidate)
        assert not (model.has("deviceTaints") and is_tainted(candidate.device, request.body.get("tolerations") or ()))
        holder = candidate.device if candidate.slice["spec"].get("perDeviceNodeSelection") else candidate.slice["spec"]
        assert node_matches(holder, model.node)
        assert result.get("adminAccess") is (True if request.admin else None)
    for (claim, _), entries in model.asked.items():
        got = [(entry, served[claim, entry.name]) for entry in entries if served[claim, entry.name]]
        assert len(got) == 1 or (not got and any(entry.need == 0 for entry in entries))
        for entry, devices in got:
            assert len(devices) == len(set(devices)) == entry.need
            assert entry.fixed is None or set(devices) == {each.id for each in entry.fixed}
    assert all(len(result["devices"].get("results") or ()) <= 32 for result in given_.results)


@every_scenario
@given(FITTING, FAULTS, STRATEGIES)
def test_no_counter_and_no_capacity_is_exceeded(asked: Scenario, faults: UpstreamFaults, strategy: Strategy) -> None:
    """Counters count once for a device, however many shares of it are in use; what was overdrawn gives nothing more."""
    given_ = fitting(asked, faults=faults, strategy=strategy)
    model = given_.model
    paid = {candidate.id: candidate for _, _, candidate, _ in given_ if not model.is_allocated(candidate.id)}
    for pool in model.pools if model.has("partitionableDevices") else ():
        left = dict(pool.counters)
        new = [each.device for each in paid.values() if each.pool is pool]
        for device in (*model.members(pool), *new):
            for set_, counter, value in consumption(device):
                left[set_, counter] -= value
        touched = {(set_, counter) for device in new for set_, counter, value in consumption(device) if value}
        assert all(left[each] >= 0 for each in touched)
    if not model.has("consumableCapacity"):
        return
    used: dict[DeviceID, dict[str, Fraction]] = {}
    for _, _, candidate, result in given_:
        amounts = used.setdefault(candidate.id, dict(model.aggregate.get(candidate.id, {})))
        for name, amount in (result.get("consumedCapacity") or {}).items():
            amounts[name] = amounts.get(name, Fraction(0)) + Amount.of(amount).value
    for id_, amounts in used.items():
        if model.is_shared(given_.devices[id_]):
            capacity = given_.devices[id_].device.get("capacity") or {}
            assert all(amounts.get(name, 0) <= Amount.of(each["value"]).value for name, each in capacity.items())


def consumption(device: Mapping[str, Any]) -> Iterator[tuple[str, str, Fraction]]:
    for each in device.get("consumesCounters") or ():
        for counter, value in (each.get("counters") or {}).items():
            yield each["counterSet"], counter, Amount.of(value["value"]).value


@every_scenario
@given(FITTING, STRATEGIES)
def test_at_least_the_capacity_asked_for_is_given(asked: Scenario, strategy: Strategy) -> None:
    given_ = fitting(asked, strategy=strategy)
    for _, request, candidate, result in given_:
        requested = (request.body.get("capacity") or {}).get("requests") or {}
        capacity = candidate.device.get("capacity") or {}
        assert requested.keys() <= capacity.keys()
        for name, amount in requested.items():
            granted = result["consumedCapacity"][name] if "shareID" in result else capacity[name]["value"]
            assert Amount.of(granted).value >= Amount.of(amount).value


@every_scenario
@given(FITTING, STRATEGIES)
def test_all_constraints_hold(asked: Scenario, strategy: Strategy) -> None:
    given_ = fitting(asked, strategy=strategy)
    model = given_.model
    for number, claim in enumerate(model.claims):
        for constraint in claim["spec"]["devices"].get("constraints") or ():
            match = constraint.get("matchAttribute")
            names = constraint.get("requests") or ()
            attributes = [
                model.attribute(request, candidate, match or constraint["distinctAttribute"])
                for claim_number, request, candidate, _ in given_
                if claim_number == number and (not names or request.named_by(names))
            ]
            assert None not in attributes
            known = [each for each in attributes if each is not None]
            assert agrees(known, lists=model.has("listTypeAttributes"), match=match is not None)


def agrees(attributes: list[Mapping[str, Any]], *, lists: bool, match: bool) -> bool:
    """As sets: all have something in common, or no two have. Without lists, the first may be anything."""
    sets = [
        {
            (name.rstrip("s"), value)
            for name, some in each.items()
            for value in (some if isinstance(some, list) else [some])
        }
        for each in attributes
    ]
    if not lists:
        rest = attributes[1:]
        if any(isinstance(value, list) or value is None for each in rest for value in each.values()):
            return False
        if any(isinstance(value, list) for each in attributes[:1] for value in each.values()):
            return not match or not rest  # a list equals nothing, so it is distinct from everything
    if match:
        return not sets or bool(set.intersection(*sets))
    return sum(map(len, sets)) == len(set().union(*sets))


@every_scenario
@given(SCENARIOS, FAULTS, STRATEGIES)
def test_the_same_question_has_the_same_answer_and_stays_as_it_was(
    asked: Scenario, faults: UpstreamFaults, strategy: Strategy
) -> None:
    before = copy.deepcopy(asked)
    first = answer(asked, faults=faults, strategy=strategy)
    assert asked == before
    assert answer(before, faults=faults, strategy=strategy) == first


@every_scenario
@given(SCENARIOS, TECHNIQUES)
def test_no_technique_changes_the_answer(asked: Scenario, techniques: Techniques) -> None:
    wanted, got = answer(asked), answer(asked, techniques=techniques)
    assume(not any((each["error"] or "").startswith(UNDECIDED) for each in (wanted, got)))
    assert Outcome.of(got) == Outcome.of(wanted)


@every_scenario
@given(HARMLESS, STRATEGIES)
def test_a_strategy_changes_which_devices_but_not_whether(asked: Scenario, strategy: Strategy) -> None:
    """That is so only where nothing raises: another order may find the error before the fit, or the fit before it."""
    first, other = answer(asked), answer(asked, strategy=strategy)
    assume(not any((each["error"] or "").startswith(UNDECIDED) for each in (first, other)))
    assert (first["results"] is None) == (other["results"] is None)


@every_scenario
@given(FITTING)
def test_release_undoes_commit(asked: Scenario) -> None:
    results = answer(asked)["results"]
    allocated = [
        claim | {"status": {"allocation": named_apart(result, number)}}
        for number, (claim, result) in enumerate(zip(asked["claims"], results, strict=True))
    ]
    states = [AllocatedState()]
    labels = list(map(claim_label, allocated))
    for claim, label in zip(allocated, labels, strict=True):
        states.append(states[-1].commit(label, holdings(claim["status"]["allocation"], label)))
    assert AllocatedState.of_claims(allocated) == states[-1]
    assert AllocatedState.of_claims(reversed(allocated)) == states[-1]
    for label in reversed(labels):
        state = states.pop()
        assert state.release(label) == states[-1]
    # In whatever order: what is left is what the others hold.
    gone = random.Random(asked["id"]).sample(range(len(allocated)), len(allocated))
    state = AllocatedState.of_claims(allocated)
    for count, number in enumerate(gone, 1):
        state = state.release(labels[number])
        assert state == AllocatedState.of_claims(
            claim for other, claim in enumerate(allocated) if other not in gone[:count]
        )
    assert state == AllocatedState()


def named_apart(result: dict[str, Any], claim: int) -> dict[str, Any]:
    """The answer numbers shares; in a cluster, their IDs are unique."""
    result = copy.deepcopy(result)
    for device in result["devices"].get("results") or ():
        if "shareID" in device:
            device["shareID"] += f"-of-{claim}"
    return result


@every_scenario
@given(HARMLESS, st.integers(0, 2**32))
def test_a_free_device_more_never_makes_a_fit_unfit(asked: Scenario, seed: int) -> None:
    """True if nothing asks for All, which then means more, and if nothing that is asked for can raise on any device: a
    device more may let the search into a branch with an error before it comes to the fit. The limit of 32 results
    depends on what is asked for only, and constraints, counters and groups on what is picked only: the devices of the
    old fit are still a fit. The new device is a copy of one that is there, in a pool of its own on this node.
    """
    assume(not asks_for_all(asked))
    given_ = fitting(asked)
    assume(given_.devices)
    more = extended(asked, random.Random(seed).choice(sorted(given_.devices)), given_, last=bool(seed % 2))
    assert answer(more)["results"] is not None


def extended(asked: Scenario, like: DeviceID, given_: Given, *, last: bool) -> Scenario:
    device = {
        name: copy.deepcopy(value)
        for name, value in given_.devices[like].device.items()
        if name in ("attributes", "capacity", "allowMultipleAllocations", "taints")
    }
    pool = {"name": "zzz" if last else "000", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": like[0], "pool": pool, "nodeName": asked["node"]["metadata"]["name"]}
    slice_ = {"metadata": {"name": "one-more"}, "spec": spec | {"devices": [{"name": "new"} | device]}}
    return asked | {"slices": [*asked["slices"], slice_]}


def entries(asked: Scenario) -> Iterator[Mapping[str, Any]]:
    for claim in asked["claims"]:
        for request in claim["spec"]["devices"]["requests"]:
            yield from request.get("firstAvailable") or (request["exactly"],)


def asks_for_all(asked: Scenario) -> bool:
    return any(each.get("allocationMode") == "All" for each in entries(asked))


def anything_raises(asked: Scenario) -> bool:
    """Whether there is an error anywhere, if one looks everywhere."""
    model = Model(asked, 10**9)
    try:
        model.pools = list(model.gather())
        for number, claim in enumerate(model.claims):
            model.check_claim(number, claim)
        for request in (each for some in model.asked.values() for each in some):
            for candidate in model.devices():
                if model.is_selectable(request, candidate):
                    model.has_room(request, candidate, None)
                for attribute in request.body.get("derivedAttributes") or ():
                    model.attribute(request, candidate, attribute["name"])
    except Fatal:
        return True
    return any(pool.invalid for pool in model.pools) or has_refusals(asked) or has_wide_selectors(asked)


def has_refusals(asked: Scenario) -> bool:
    """All under a constraint may end in an error."""
    return asks_for_all(asked) and any(claim["spec"]["devices"].get("constraints") for claim in asked["claims"])


def has_wide_selectors(asked: Scenario) -> bool:
    """A result cannot take up a node selector of several terms."""
    holders: list[Mapping[str, Any]] = []
    for each in asked["slices"]:
        holders += [each["spec"], *(each["spec"].get("devices") or ())]
    return any(len((each.get("nodeSelector") or {}).get("nodeSelectorTerms") or ()) > 1 for each in holders)


BREAKERS: Mapping[str, Callable[[random.Random], Any]] = {
    "nothing": lambda _: None,
    "text": lambda dice: dice.choice(["", "x", "-1", "1e999999999", "\u0000", "a" * 300]),
    "number": lambda dice: dice.choice([-1, 0, 1, 33, 2**63, 1.5]),
    "list": lambda _: [],
    "object": lambda _: {},
    "nested": lambda _: [[{}]],
}


@settings(deadline=None, max_examples=200)
@given(SCENARIOS, st.integers(0, 2**32), st.sampled_from(sorted(BREAKERS)))
def test_broken_input_has_an_answer(asked: Scenario, seed: int, breaker: str) -> None:
    """Whatever stands wherever: an answer or an error, and no exception."""
    dice = random.Random(seed)
    broken = copy.deepcopy(asked)
    path = dice.choice(list(places(broken, ())))
    holder = broken
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = BREAKERS[breaker](dice)
    got = answer(broken)
    assert got["error"] is None or isinstance(got["error"], str)


def places(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def test_the_scenarios_are_worth_something() -> None:
    """Every theme has scenarios that fit and such that do not."""
    for theme in THEMES:
        missing = {"fit", "no fit"}
        for number in range(150):
            missing -= {Outcome.of(answer(scenario(1, number, theme))).kind}
            if not missing:
                break
        assert not missing, theme


def test_the_checks_of_constraints_can_fail() -> None:
    one, two = {"int": 1}, {"int": 2}
    assert not agrees([one, two], lists=True, match=True)
    assert not agrees([one, one], lists=False, match=False)
    assert not agrees([{"ints": [1, 2]}, one], lists=True, match=False)
    assert not agrees([one, {"ints": [1]}], lists=False, match=True)
    assert not agrees([{"ints": [1]}, one], lists=False, match=True)
    assert agrees([{"ints": [1, 2]}, {"ints": [2, 3]}, two], lists=True, match=True)
    assert agrees([{"ints": [1]}, one], lists=False, match=False)
    assert replace(Techniques(), memory=False) != Techniques()
