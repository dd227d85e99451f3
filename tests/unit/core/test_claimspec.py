"""The test vectors are those of kube-scheduler's createRequestsAndMappings (Kubernetes 1.37.2)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from builders import GPU, IMPLICIT_GPU, NIC, PodBuilder, pod
from drabridge.core.claimspec import ClaimPlan, ContainerDemand, DeviceRequest, plan, total
from drabridge.core.errors import Bug
from drabridge.core.podview import ContainerKind
from drabridge.core.quantity import Quantity

CLASSES = {GPU: "gpu", NIC: "nic", IMPLICIT_GPU: "gpu"}


def demands(builder: PodBuilder) -> list[ContainerDemand]:
    view = builder.view()
    counts: dict[int, dict[str, int]] = {}
    for ask in view.extended():
        counts.setdefault(ask.container.index, {})[ask.resource] = Quantity.parse(ask.request).as_int() or 0
    return [
        ContainerDemand(c.name, c.kind is ContainerKind.INIT, c.request_keys, counts.get(c.index, {}))
        for c in view.containers
    ]


def short(request: str) -> str:
    """Abbreviate container-1-request-0 as 1-0."""
    return request.replace("container-", "").replace("request-", "")


@dataclass(frozen=True)
class Case:
    pod: PodBuilder
    requests: dict[str, int]
    mappings: list[str]  # "container request", of one resource unless `resources` says more
    resources: list[str] = field(default_factory=lambda: [GPU])


CASES = {
    "a request is numbered among all keys of its container": Case(
        pod().app(cpu=1, memory="1Gi", gpu=2), {"0-1": 2}, ["c0 0-1"]
    ),
    "limits count among the keys, as the API server makes requests of them": Case(
        pod().app(gpu=2, raw={"resources": {"limits": {"cpu": "1", GPU: "2"}}}), {"0-1": 2}, ["c0 0-1"]
    ),
    "init containers reuse what starts after them": Case(
        pod().init(gpu=1).sidecar(gpu=1).init(gpu=2).app(gpu=1),
        {"1-0": 1, "2-0": 1, "3-0": 1},
        ["c1 1-0", "c3 3-0", "c0 1-0", "c2 3-0", "c2 2-0"],
    ),
    "init containers share one request, the largest": Case(
        pod().init(gpu=1).init(gpu=2).app(), {"1-0": 2}, ["c0 1-0", "c1 1-0"]
    ),
    "of equal init containers the first has the request": Case(
        pod().init(gpu=2).init(gpu=2).app(), {"0-0": 2}, ["c0 0-0", "c1 0-0"]
    ),
    "an init container sees all devices of the app container it reuses": Case(
        pod().init(gpu=1).app(gpu=4), {"1-0": 4}, ["c1 1-0", "c0 1-0"]
    ),
    "an init container asks only for what is missing": Case(
        pod().init(gpu=5).app(gpu=2).app(gpu=2),
        {"0-0": 1, "1-0": 2, "2-0": 2},
        ["c1 1-0", "c2 2-0", "c0 1-0", "c0 2-0", "c0 0-0"],
    ),
    "smaller shortfalls are covered by the largest": Case(
        pod().init(gpu=3).init(gpu=5).init(gpu=1).app(gpu=2),
        {"1-0": 3, "3-0": 2},
        ["c3 3-0", "c0 3-0", "c0 1-0", "c1 3-0", "c1 1-0", "c2 3-0"],
    ),
    "a sidecar that runs already is not reused": Case(
        pod().sidecar(gpu=3).init(gpu=2).app(), {"0-0": 3, "1-0": 2}, ["c0 0-0", "c1 1-0"]
    ),
    "names of one class stay apart, in the order of names": Case(
        pod().app(cpu=1, gpu=1, implicit_gpu=2),
        {"0-1": 2, "0-2": 1},
        ["c0 0-1", "c0 0-2"],
        [IMPLICIT_GPU, GPU],
    ),
    "requests are sorted as text": Case(
        pod().app(gpu=1).app().app(gpu=1).app().app().app().app().app().app().app().app(gpu=1),
        {"0-0": 1, "10-0": 1, "2-0": 1},
        ["c0 0-0", "c2 2-0", "c10 10-0"],
    ),
    "who asks for nothing gets an empty plan": Case(pod().init(cpu=1).app(gpu=0), {}, []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_pod_becomes_requests_and_mappings(case: Case) -> None:
    made = plan(demands(case.pod), CLASSES)
    assert [(short(request.name), request.count) for request in made.requests] == list(case.requests.items())
    assert [f"{mapping.container} {short(mapping.request)}" for mapping in made.mappings] == case.mappings
    assert {mapping.resource for mapping in made.mappings} <= set(case.resources)
    assert made.devices == sum(case.requests.values()) == sum(total(demands(case.pod), name) for name in CLASSES)


def test_each_request_names_the_class_behind_its_resource() -> None:
    made = plan(demands(pod().app(gpu=1, nic=2)), CLASSES)
    assert made.requests == (
        DeviceRequest("container-0-request-0", GPU, "gpu", 1),
        DeviceRequest("container-0-request-1", NIC, "nic", 2),
    )


def test_a_plan_is_a_value() -> None:
    assert hash(plan([], {})) == hash(ClaimPlan((), ()))


@pytest.mark.parametrize(
    ("keys", "counts"),
    [((GPU,), {GPU: 0}), ((GPU,), {GPU: -1}), (("cpu",), {GPU: 1})],
    ids=["zero", "negative", "keyless"],
)
def test_an_impossible_demand_is_a_bug(keys: tuple[str, ...], counts: dict[str, int]) -> None:
    with pytest.raises(Bug, match="please report"):
        ContainerDemand("c0", short_lived=False, keys=keys, counts=counts)


def test_a_demand_that_no_class_serves_is_a_bug() -> None:
    with pytest.raises(Bug, match=r"example\.com/gpu, which no DeviceClass serves"):
        plan([ContainerDemand("c0", short_lived=False, keys=(GPU,), counts={GPU: 1})], {})


# The examples of KEP-753: a sidecar adds to every init container after it, and to the app containers.
TOTALS = {
    "app containers add up": (pod().app(gpu=1).app(gpu=2), 3),
    "init containers do not": (pod().init(gpu=2).init(gpu=3).app(gpu=1), 3),
    "a sidecar adds to what starts after it": (pod().init(gpu=5).sidecar(gpu=2).init(gpu=4).app(gpu=1), 6),
    "a sidecar adds to the app containers": (pod().sidecar(gpu=2).app(gpu=3), 5),
    "nothing is zero": (pod().app(nic=1), 0),
}


@pytest.mark.parametrize(("builder", "want"), TOTALS.values(), ids=TOTALS)
def test_the_total_of_a_pod(builder: PodBuilder, want: int) -> None:
    assert total(demands(builder), GPU) == want
