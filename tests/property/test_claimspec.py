"""What holds for the plan of every Pod, and a second plan, written from the text of the KEP and much slower."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from builders import GPU, IMPLICIT_GPU, NIC
from drabridge.core.claimspec import ClaimPlan, ContainerDemand, DeviceRequest, RequestMapping, plan, total

CLASSES = {GPU: "gpu", NIC: "nic", IMPLICIT_GPU: "gpu"}

COUNTS = st.dictionaries(st.sampled_from([*CLASSES]), st.integers(1, 9))
OTHERS = st.sets(st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.org/unserved"]))


@st.composite
def pods(draw: st.DrawFn) -> list[ContainerDemand]:
    inits, apps = draw(st.lists(st.booleans(), max_size=8)), draw(st.integers(1, 6))
    demands = []
    for i, short_lived in enumerate([*inits, *[False] * apps]):
        counts = draw(COUNTS)
        keys = draw(st.permutations([*counts, *sorted(draw(OTHERS))]))
        demands.append(ContainerDemand(f"c{i}", short_lived, tuple(keys), counts))
    return demands


def naive(demands: list[ContainerDemand]) -> ClaimPlan:
    """Follow the KEP's text step by step, candidates and redirection included."""
    requests: dict[str, DeviceRequest] = {}
    mappings: list[RequestMapping] = []

    def name(i: int, resource: str) -> str:
        return f"container-{i}-request-{sum(key < resource for key in demands[i].keys)}"

    for resource, device_class in sorted(CLASSES.items()):
        candidates: list[DeviceRequest] = []
        short_mappings: list[RequestMapping] = []
        long_lived = [i for i, demand in enumerate(demands) if not demand.short_lived and demand.counts.get(resource)]
        for i in long_lived:
            made = DeviceRequest(name(i, resource), resource, device_class, demands[i].counts[resource])
            requests[made.name] = made
            mappings.append(RequestMapping(demands[i].name, resource, made.name))
        for i, demand in enumerate(demands):
            if not demand.short_lived or not demand.counts.get(resource):
                continue
            covered = 0
            for j in long_lived:
                if j >= i and covered < demand.counts[resource]:
                    covered += demands[j].counts[resource]
                    short_mappings.append(RequestMapping(demand.name, resource, name(j, resource)))
            if covered < demand.counts[resource]:
                candidate = DeviceRequest(name(i, resource), resource, device_class, demand.counts[resource] - covered)
                candidates.append(candidate)
                short_mappings.append(RequestMapping(demand.name, resource, candidate.name))
        if candidates:
            kept = next(c for c in candidates if c.count == max(other.count for other in candidates))
            requests[kept.name] = kept
            dropped = {candidate.name for candidate in candidates} - {kept.name}
            short_mappings = [
                RequestMapping(m.container, m.resource, kept.name) if m.request in dropped else m
                for m in short_mappings
            ]
        mappings += short_mappings
    return ClaimPlan(tuple(requests[key] for key in sorted(requests)), tuple(mappings))


@given(pods())
def test_the_plan_is_the_one_of_the_kep(demands: list[ContainerDemand]) -> None:
    assert plan(demands, CLASSES) == naive(demands)


@given(pods())
def test_the_claim_asks_for_the_pods_total_and_no_more(demands: list[ContainerDemand]) -> None:
    asked: Counter[str] = Counter()
    for request in plan(demands, CLASSES).requests:
        asked[request.resource] += request.count
    assert asked == Counter({name: total(demands, name) for name in CLASSES if total(demands, name)})


@given(pods())
def test_every_container_gets_at_least_what_it_asks_for(demands: list[ContainerDemand]) -> None:
    made = plan(demands, CLASSES)
    counts = {request.name: request.count for request in made.requests}
    got: dict[tuple[str, str], int] = defaultdict(int)
    for mapping in made.mappings:
        got[mapping.container, mapping.resource] += counts[mapping.request]
    assert got.keys() == {(demand.name, resource) for demand in demands for resource in demand.counts}
    assert all(got[demand.name, resource] >= count for demand in demands for resource, count in demand.counts.items())


@given(pods())
def test_containers_that_run_at_the_same_time_share_no_device(demands: list[ContainerDemand]) -> None:
    index = {demand.name: i for i, demand in enumerate(demands)}
    users: dict[str, list[int]] = defaultdict(list)
    for mapping in plan(demands, CLASSES).mappings:
        users[mapping.request].append(index[mapping.container])
    for together in users.values():
        stays = [i for i in together if not demands[i].short_lived]
        assert len(stays) <= 1
        assert all(i <= j for j in stays for i in together)


@given(pods())
def test_mappings_and_requests_are_unique_and_belong_together(demands: list[ContainerDemand]) -> None:
    made = plan(demands, CLASSES)
    names = [request.name for request in made.requests]
    assert names == sorted(set(names))
    assert len(set(made.mappings)) == len(made.mappings)
    resources = {request.name: request.resource for request in made.requests}
    assert {mapping.request for mapping in made.mappings} == set(names)
    assert all(resources[mapping.request] == mapping.resource for mapping in made.mappings)
    assert all(request.device_class == CLASSES[request.resource] for request in made.requests)


@given(pods(), st.randoms(use_true_random=False))
def test_the_order_of_mappings_and_keys_does_not_matter(demands: list[ContainerDemand], random: Random) -> None:
    shuffled = []
    for demand in demands:
        keys, counts = [*demand.keys], [*demand.counts.items()]
        random.shuffle(keys)
        random.shuffle(counts)
        shuffled.append(ContainerDemand(demand.name, demand.short_lived, tuple(keys), dict(counts)))
    assert plan(shuffled, dict(reversed(CLASSES.items()))) == plan(demands, CLASSES)
