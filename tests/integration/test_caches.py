"""The caches: what they make of events in any order, and of what the real API server shows and hides."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from builders import CLAIM, GPU, OTHER_CLAIM, pod, rewritten
from conftest import NewNamespace, NewObject
from drabridge.core.caps import Cap
from drabridge.core.errors import InvalidInput, Missing
from drabridge.kube.caches import Caches, Change, Store
from drabridge.kube.client import Client
from drabridge.kube.resources import CONFIGMAPS
from upstream.api import STRATEGIC_PATCH, Object
from upstream.controlplane import ControlPlane

# Events in any order


@dataclass(frozen=True, slots=True)
class Seen:
    """A view of a ConfigMap: what it says, and by which word it is to be found."""

    text: str
    word: str | None

    @classmethod
    def of(cls, raw: Any) -> Seen:
        data = raw.get("data", {})
        if data.get("text") == "broken":
            raise InvalidInput("ConfigMap", "data.text", "is broken", "repair it")
        return cls(data.get("text", ""), data.get("word"))


def store(**options: Any) -> Store[Seen]:
    return Store(CONFIGMAPS, Seen.of, index=lambda seen: seen.word, **options)


@dataclass(frozen=True, slots=True)
class Moment:
    """One object at one resourceVersion; `deleted` is the last it is ever seen under its uid."""

    name: str
    version: int
    text: str
    word: str | None
    deleted: bool

    def raw(self) -> Object:
        data = {"text": self.text} | ({"word": self.word} if self.word else {})
        return {"metadata": {"name": self.name, "namespace": "n", "resourceVersion": str(self.version)}, "data": data}


MOMENTS = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["one", "two", "broken"]),
        st.sampled_from([None, "x", "y"]),
        st.booleans(),
    ),
    max_size=12,
)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Moment], list[Moment]]:
    """What happened, and the order in which it is told: each moment once or more."""
    happened = [Moment(name, 10 + i, text, word, gone) for i, (name, text, word, gone) in enumerate(draw(MOMENTS))]
    told = draw(
        st.permutations(happened + draw(st.lists(st.sampled_from(happened), max_size=4) if happened else st.just([])))
    )
    return happened, told


def state(happened: list[Moment]) -> dict[str, Seen]:
    """What is there in the end, by a reader who forgets nothing."""
    last = {moment.name: moment for moment in happened}
    return {
        f"n/{name}": Seen(moment.text, moment.word)
        for name, moment in last.items()
        if not moment.deleted and moment.text != "broken"
    }


def check(seen: Store[Seen], want: dict[str, Seen]) -> None:
    assert {key: seen.get(key) for key in want} == want
    assert len(seen) == len(want)
    assert sorted(map(str, seen)) == sorted(map(str, want.values()))
    for word in ("x", "y", "z"):
        assert seen.keys_of(word) == {key for key, view in want.items() if view.word == word}


@given(histories())
def test_whatever_the_order_of_events_the_last_state_stays(history: tuple[list[Moment], list[Moment]]) -> None:
    happened, told = history
    seen = store()
    for moment in told:
        seen.seen(moment.raw(), deleted=moment.deleted)
    check(seen, state(happened))


@given(histories())
def test_changes_tell_a_listener_all_there_is_to_know(history: tuple[list[Moment], list[Moment]]) -> None:
    happened, told = history
    seen = store()
    known: dict[str, Seen] = {}
    for moment in told:
        version = seen.version
        change = seen.seen(moment.raw(), deleted=moment.deleted)
        assert seen.version == version + (change is not None)
        if change:
            assert change.before != change.after
            assert known.get(change.key) == change.before
            known.pop(change.key, None)
            known.update({change.key: change.after} if change.after else {})
    assert known == state(happened)


@given(histories(), st.integers(0, 13), st.data())
def test_after_a_prune_only_what_is_newer_or_listed_is_there(
    history: tuple[list[Moment], list[Moment]], cut: int, data: st.DataObject
) -> None:
    """Some events, among them deletions, are never told; a list as of `cut` makes up for those before it."""
    happened, _ = history
    told = data.draw(st.lists(st.sampled_from(happened), max_size=9)) if happened else []
    listed_at = 10 + cut
    listed = state([moment for moment in happened if moment.version <= listed_at])
    seen = store()
    for moment in told:
        seen.seen(moment.raw(), deleted=moment.deleted)
    before = {key: seen.get(key) for key in ("n/a", "n/b", "n/c")}
    gone = seen.prune(set(listed), listed_at)
    assert all(change.after is None and change.before == before[change.key] for change in gone)
    newest = {moment.name: moment.version for moment in sorted(told, key=lambda moment: moment.version)}
    for key, view in before.items():
        stays = view is not None and (key in listed or newest[key[2:]] > listed_at)
        assert (seen.get(key) is not None) == stays
    dropped = {change.key for change in gone}
    for moment in told:  # comes late all the same
        if moment.version <= listed_at and f"n/{moment.name}" in dropped:
            assert seen.seen(moment.raw(), deleted=moment.deleted) is None


def test_a_new_object_of_the_same_name_is_not_taken_away_by_the_end_of_the_old_one() -> None:
    seen = store()
    old, end, new = (
        Moment("a", version, text, "x", text == "end") for version, text in ((1, "old"), (2, "end"), (3, "new"))
    )
    for moment in (old, new, end):
        seen.seen(moment.raw(), deleted=moment.deleted)
    assert seen.get("n/a") == Seen("new", "x")


def test_a_list_that_was_read_before_a_deletion_does_not_bring_the_object_back() -> None:
    seen = store()
    listed = Moment("a", 5, "one", "x", deleted=False).raw()
    seen.seen(listed)
    seen.seen(Moment("a", 6, "one", "x", deleted=True).raw(), deleted=True)
    assert seen.seen(listed) is None
    check(seen, {})


def test_deletions_are_forgotten_in_the_end() -> None:
    """Each costs memory, and none is of interest for long."""
    seen = store()
    for number in range(10_000):
        seen.seen(Moment(f"a{number}", number + 1, "one", None, deleted=True).raw(), deleted=True)
    assert len(seen._gone) < 5_000


# The real API server


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def client(plane_135: ControlPlane) -> AsyncIterator[Client]:
    async with await Client.connect(plane_135.kubeconfig_admin(), user_agent="drabridge-test") as client:
        yield client


async def pruned(caches: Caches, client: Client, store: Store[Any]) -> list[Change[Any]]:
    [(_, changes)] = await caches.prune(client, (store,))
    return changes


async def filled(client: Client, *names: str) -> Caches:
    """Caches with the content of the stores of these names."""
    caches = Caches(["default-scheduler"])
    for name in names:
        await caches.refresh(client, getattr(caches, name))
    return caches


async def test_deletions_that_no_watch_told_of_are_found(
    client: Client, plane: ControlPlane, namespace: str, new_object: NewObject
) -> None:
    path = f"/api/v1/namespaces/{namespace}/limitranges"
    for name in ("stays", "goes"):
        await new_object(
            plane, path, {"metadata": {"name": name}, "spec": {"limits": [{"type": "Container", "max": {GPU: "1"}}]}}
        )
    caches = await filled(client, "limit_ranges")
    await plane.api.call("DELETE", f"{path}/goes")
    made = await new_object(
        plane, path, {"metadata": {"name": "late"}, "spec": {"limits": [{"type": "Container", "max": {GPU: "1"}}]}}
    )
    gone = await pruned(caches, client, caches.limit_ranges)
    assert [(change.key, change.after) for change in gone] == [(f"{namespace}/goes", None)]
    assert caches.limit_ranges.get(f"{namespace}/stays")
    assert caches.limit_ranges.seen(made)
    assert await pruned(caches, client, caches.limit_ranges) == []


async def test_prune_takes_a_recreated_object_for_what_it_is(
    client: Client, plane: ControlPlane, namespace: str, new_object: NewObject
) -> None:
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    body = {"metadata": {"name": "q"}, "spec": {"hard": {f"requests.{GPU}": "1"}}}
    first = await new_object(plane, path, body)
    caches = await filled(client, "quotas")
    deleted = await plane.api.call("DELETE", f"{path}/q")
    second = await new_object(plane, path, {**body, "spec": {"hard": {"requests.example.com/nic": "1"}}})
    assert caches.quotas.seen(second)
    assert await pruned(caches, client, caches.quotas) == []
    # The first one's end comes after all; the API server answers a DELETE with a Status or the object as it was.
    caches.quotas.seen(first, deleted=True)
    assert deleted["kind"] in {"Status", "ResourceQuota"}
    assert caches.cluster(namespace).namespace.caps == {"example.com/nic": Cap("q")}


async def test_a_watchs_deletion_carries_a_newer_version_than_the_object(
    client: Client, plane: ControlPlane, namespace: str
) -> None:
    """The rule that the caches' order of events rests on."""
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = await plane.api.call("POST", path, {"metadata": {"name": "a"}})
    version = made["metadata"]["resourceVersion"]
    await plane.api.call("DELETE", f"{path}/a")
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": "2", "fieldSelector": "metadata.name=a"}
    event = await plane.api.call("GET", path, query=query)
    assert event["type"] == "DELETED"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_what_no_decision_reads_changes_nothing(
    client: Client, plane: ControlPlane, unique: Callable[[], str]
) -> None:
    name = unique()
    node = await plane.add_node(name, devices=0, allocatable={GPU: 2})
    try:
        caches = await filled(client, "nodes")
        version, facts = caches.nodes.version, caches.cluster().nodes
        assert facts.plugins[GPU] == name
        beat = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Again", "message": "m"}]}}
        again = await plane.api.call("PATCH", f"/api/v1/nodes/{name}/status", beat, STRATEGIC_PATCH)
        assert again["metadata"]["resourceVersion"] != node["metadata"]["resourceVersion"]
        assert caches.nodes.seen(again) is None
        assert (caches.nodes.version, caches.cluster().nodes) == (version, facts)
        assert caches.cluster().nodes is facts
        await plane.set_allocatable(name, {GPU: 0})
        await caches.refresh(client, caches.nodes)
        assert GPU not in caches.cluster().nodes.plugins
    finally:
        await plane.remove_node(name)


async def test_caps_that_name_nothing_are_read_as_such(
    client: Client, plane: ControlPlane, namespace: str, new_object: NewObject
) -> None:
    await new_object(plane, f"/api/v1/namespaces/{namespace}/limitranges", {"metadata": {"name": "a"}})
    await new_object(plane, f"/api/v1/namespaces/{namespace}/resourcequotas", {"metadata": {"name": "b"}})
    caches = await filled(client, "limit_ranges", "quotas")
    facts = caches.cluster(namespace).namespace
    assert (facts.limits, facts.caps) == ({}, {})


async def test_pods_are_found_by_the_claim_they_wait_for_and_others_are_not_there(
    client: Client, plane: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/pods"
    ours = [
        await plane.api.call("POST", path, rewritten(pod(name, namespace).app(gpu=1), fresh=claim))
        for name, claim in (("one", CLAIM), ("two", CLAIM), ("three", OTHER_CLAIM))
    ]
    await plane.api.call("POST", path, pod("other", namespace).app(cpu="1m").raw())
    caches = await filled(client, "pods")
    assert caches.pods.keys_of(f"{namespace}/{CLAIM}") == {f"{namespace}/one", f"{namespace}/two"}
    assert caches.pods.keys_of(f"{namespace}/{OTHER_CLAIM}") == {f"{namespace}/three"}
    assert caches.pods.get(f"{namespace}/other") is None
    assert caches.pods.seen(ours[1], deleted=True)
    assert caches.pods.keys_of(f"{namespace}/{CLAIM}") == {f"{namespace}/one"}


async def test_one_namespace_is_read_without_the_others(
    client: Client, plane: ControlPlane, new_namespace: NewNamespace
) -> None:
    here, there = await new_namespace(plane), await new_namespace(plane)
    caches = Caches(["default-scheduler"])
    await caches.refresh(client, caches.namespaces, here)
    assert caches.namespaces.get(here)
    assert caches.namespaces.get(there) is None


async def test_caches_are_in_sync_once_they_are_full(client: Client) -> None:
    caches = Caches(["default-scheduler"])
    with pytest.raises(Missing, match="ExtendedResourcePolicy"):  # their definition is not installed here
        await caches.load(client)
    assert not caches.synced


def test_what_bind_keeps_comes_from_the_same_lists_and_watches() -> None:
    plain, binding = Caches(["default-scheduler"]), Caches(["default-scheduler"], "drabridge-scheduler")
    assert binding.bind is not None
    assert binding.templates is not None
    of_bind_alone = [binding.templates.resource]
    assert [kind[0].resource for kind in binding.kinds] == [kind[0].resource for kind in plain.kinds] + of_bind_alone
    shared = {kind[0]: kind[1] for kind in binding.kinds if len(kind) > 1}
    assert shared == {
        binding.classes: binding.bind.classes,
        binding.nodes: binding.bind.nodes,
        binding.slices: binding.bind.slices,
        binding.claims: binding.bind.claims,
    }
