"""A thousand Pods of every shape through the real API server, with drabridge and without."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest
import pytest_asyncio

from cluster_site import Site
from drabridge.core.asked import ANNOTATION
from drabridge.core.claimspec import MAX_DEVICES
from drabridge.core.rewrite import CLAIM_NAME, DELIVERY_LABEL
from pods import OUR_CLAIM, Names, Object, drawn, pods

COUNT = 1000
SEED = 20261130
AT_ONCE = 16
OUTSIDE = "kube-public"  # the webhook configuration leaves it alone

Outcome = tuple[int, Object]


@dataclass(frozen=True, slots=True)
class Pair:
    """One Pod, and what the API server made of it without and with drabridge: HTTP status and body."""

    sent: Object
    without: Outcome
    served: Outcome

    @property
    def copied(self) -> bool:
        """Whether its author made it look like a copy of a rewritten Pod."""
        return OUR_CLAIM in json.dumps(self.sent)

    @property
    def rewritten(self) -> bool:
        return self.without[0] == self.served[0] == 201 and bool(_ours(self.served[1])) and not self.copied

    def shown(self) -> str:
        """What a reader of a failure has to see."""
        return "\n".join(
            f"{what}: {re.sub('x{99,}', 'x...x', json.dumps(value))[:3000]}"
            for what, value in (("sent", self.sent), ("without", self.without), ("with", self.served))
        )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pairs(site_135: Site) -> list[Pair]:
    """Sent as dry runs: admission, defaults and validation are the real ones, and nothing is stored."""
    name = "thousand-pods"
    names = Names(
        first=f"{name}.example.com/gpu",
        second=f"{name}.example.com/nic",
        implicit=f"deviceclass.resource.kubernetes.io/{name}",
        unserved=f"{name}.example.com/nobody",
    )
    examples = await asyncio.to_thread(drawn, pods(names), COUNT, SEED)
    async with AsyncExitStack() as undo:
        served = await site_135.serve(name, undo, devices=0, nodes=0)
        assert served.name == names.first
        await site_135.add_policy(f"{name}-nic", {"resourceName": names.second}, served.device_class, undo)
        await site_135.cluster.add_namespace(name)
        undo.push_async_callback(site_135.cluster.remove_namespace, name)
        for each in (names.first, names.second):
            await _wait_until_served(site_135, name, each)
        free = asyncio.Semaphore(AT_ONCE)

        async def create(namespace: str, pod: Object) -> Outcome:
            async with free:
                path = f"/api/v1/namespaces/{namespace}/pods"
                return await site_135.api.request("POST", path, pod, query={"dryRun": "All"})

        async def both(pod: Object) -> Pair:
            return Pair(pod, await create(OUTSIDE, pod), await create(name, pod))

        return list(await asyncio.gather(*(both(pod) for pod in examples)))


async def _wait_until_served(site: Site, namespace: str, resource: str) -> None:
    async with asyncio.timeout(30):
        while True:
            limits = {"resources": {"limits": {resource: "1"}}}
            pod = {"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "c", "image": "i", **limits}]}}
            path = f"/api/v1/namespaces/{namespace}/pods"
            if _ours(await site.api.call("POST", path, pod, query={"dryRun": "All"})):
                return


def test_most_are_valid_and_all_that_can_happen_happens_often(pairs: list[Pair]) -> None:
    assert len(pairs) == COUNT
    valid = [pair for pair in pairs if pair.without[0] == 201]
    assert len(valid) >= COUNT * 0.6
    kinds = Counter(
        {
            "refused by both": sum(pair.without[0] >= 400 for pair in pairs),
            "rewritten": sum(pair.rewritten for pair in pairs),
            "left alone": sum(not pair.rewritten for pair in valid),
        }
    )
    assert min(kinds.values()) >= COUNT * 0.1, kinds


def test_none_is_refused_that_was_valid_before(pairs: list[Pair]) -> None:
    worse = [pair for pair in pairs if pair.without[0] == 201 and pair.served[0] != 201]
    assert not worse, f"{len(worse)}; the first:\n{worse[0].shown()}"


def test_none_is_accepted_that_was_invalid_before(pairs: list[Pair]) -> None:
    healed = [pair for pair in pairs if pair.without[0] != 201 and pair.served[0] == 201]
    assert not healed, f"{len(healed)}; the first:\n{healed[0].shown()}"


def test_what_is_left_alone_is_stored_as_without_drabridge(pairs: list[Pair]) -> None:
    for pair in pairs:
        if pair.without[0] == pair.served[0] == 201 and not pair.rewritten and not pair.copied:
            assert _plain(pair.served[1]) == _plain(pair.without[1]), pair.shown()


def test_what_is_rewritten_differs_only_in_what_the_design_says(pairs: list[Pair]) -> None:
    for pair in pairs:
        if not pair.rewritten:
            continue
        before, after = _plain(pair.without[1]), _plain(pair.served[1])
        asked = json.loads(_annotations(after)[ANNOTATION])
        assert after["metadata"]["labels"][DELIVERY_LABEL] == "Rewrite"
        _take_off_ours(after)
        _take_off_asked(before, asked["containers"])
        assert after == before, pair.shown()


def test_what_was_asked_for_is_kept_whole_in_the_annotation(pairs: list[Pair]) -> None:
    for pair in pairs:
        if not pair.rewritten:
            continue
        before = {each["name"]: each["resources"] for each in _containers(pair.without[1])}
        after = {each["name"]: each["resources"] for each in _containers(pair.served[1])}
        asked = json.loads(_annotations(pair.served[1])[ANNOTATION])
        gone = {
            name: {key: value for key, value in have["requests"].items() if key not in after[name].get("requests", {})}
            for name, have in before.items()
            if "requests" in have
        }
        assert asked["containers"] == {name: names for name, names in gone.items() if names}, pair.shown()
        assert 0 < sum(each["count"] for each in asked["requests"]) <= MAX_DEVICES


def test_containers_use_the_requests_of_their_claim_and_nothing_else(pairs: list[Pair]) -> None:
    for pair in pairs:
        if not pair.rewritten:
            continue
        (entry,) = _ours(pair.served[1])
        asked = json.loads(_annotations(pair.served[1])[ANNOTATION])
        used = {
            (container["name"], claim["request"])
            for container in _containers(pair.served[1])
            for claim in container["resources"].get("claims", ())
            if claim["name"] == entry["name"]
        }
        assert used == {(each["containerName"], each["requestName"]) for each in asked["requestMappings"]}
        assert {request for _, request in used} == {each["name"] for each in asked["requests"]}


@pytest.mark.parametrize("field", ["requests", "limits"])
def test_no_served_name_stays_on_a_rewritten_pod_unless_it_is_zero(pairs: list[Pair], field: str) -> None:
    for pair in pairs:
        if not pair.rewritten:
            continue
        taken = {
            name
            for names in json.loads(_annotations(pair.served[1])[ANNOTATION])["containers"].values()
            for name in names
        }
        for container in _containers(pair.served[1]):
            for name, quantity in container["resources"].get(field, {}).items():
                assert name not in taken or quantity == "0", pair.shown()


def _annotations(pod: Object) -> Object:
    found: Object = pod["metadata"].get("annotations", {})
    return found


def _containers(pod: Object) -> list[Object]:
    return [*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]]


def _ours(pod: Object) -> list[Object]:
    entries = pod["spec"].get("resourceClaims", ())
    return [each for each in entries if CLAIM_NAME.fullmatch(each.get("resourceClaimName", ""))]


def _plain(pod: Object) -> Object:
    """Leave out what differs between any two creations: identity, time, bookkeeping, and names made up at random."""
    plain: Object = json.loads(re.sub("kube-api-access-[a-z0-9]{5}", "kube-api-access", json.dumps(pod)))
    generated = "generateName" in plain["metadata"]
    for condition in plain["status"].get("conditions", ()):
        del condition["lastTransitionTime"]
    for field in ("uid", "creationTimestamp", "managedFields", "namespace", *(["name"] if generated else [])):
        plain["metadata"].pop(field, None)
    return plain


def _take_off_ours(pod: Object) -> None:
    (entry,) = _ours(pod)
    pod["spec"]["resourceClaims"].remove(entry)
    _drop_empty(pod["spec"], "resourceClaims")
    for container in _containers(pod):
        resources = container["resources"]
        if "claims" in resources:
            resources["claims"] = [claim for claim in resources["claims"] if claim["name"] != entry["name"]]
        for field in ("claims", "requests", "limits"):
            _drop_empty(resources, field)
    _take_off_marks(pod)


def _take_off_asked(pod: Object, asked: Object) -> None:
    for container in _containers(pod):
        for field in ("requests", "limits"):
            for name in asked.get(container["name"], ()):
                container["resources"].get(field, {}).pop(name, None)
            _drop_empty(container["resources"], field)
    _take_off_marks(pod)


def _take_off_marks(pod: Object) -> None:
    """Label and annotation of ours, also where the author of the Pod had forged them."""
    for field, key in (("labels", DELIVERY_LABEL), ("annotations", ANNOTATION)):
        pod["metadata"].get(field, {}).pop(key, None)
        _drop_empty(pod["metadata"], field)


def _drop_empty(parent: Object, field: str) -> None:
    if not parent.get(field, True):
        del parent[field]
