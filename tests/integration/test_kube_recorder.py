"""Events on a real API server: what users see, and that nothing about them disturbs the caller."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
import yaml

from drabridge.kube import recorder as recorder_module
from drabridge.kube.client import Client
from drabridge.kube.clock import SYSTEM, Clock
from drabridge.kube.recorder import NOTE_BYTES, REPEAT_AFTER, RETRIES, ObjectRef, Recorder
from drabridge.kube.resources import EVENTS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from upstream.controlplane import ControlPlane


@pytest_asyncio.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with await Client.connect(plane.kubeconfig_admin(), user_agent="drabridge/test") as connected:
        yield connected


@asynccontextmanager
async def running(
    client: Client, clock: Clock = SYSTEM, capacity: int = 100, **options: Any
) -> AsyncIterator[Recorder]:
    recorder = Recorder(client, "drabridge-0", capacity=capacity, clock=clock, **options)
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def pod(namespace: str, name: str = "web", uid: str = "11111111-2222-3333-4444-555555555555") -> ObjectRef:
    return ObjectRef("Pod", "v1", namespace, name, uid)


def claimed(recorder: Recorder, regarding: ObjectRef, note: str = "claim made") -> None:
    recorder.record(regarding, "ClaimCreated", note, "Normal", "CreateClaim")


async def events(client: Client, namespace: str) -> list[dict[str, Any]]:
    found = await client.list_all(EVENTS, namespace)
    return [event for event in found if event["reportingController"] == "drabridge.io/operator"]


async def test_an_event_says_who_saw_what_about_which_object(client: Client, namespace: str) -> None:
    async with running(client) as recorder:
        recorder.record(pod(namespace), "ClaimLate", "no device is free", "Warning", "WaitForDevices")
        assert await recorder.flush(20)
        (event,) = await events(client, namespace)
    assert event["regarding"] == {
        "kind": "Pod",
        "apiVersion": "v1",
        "namespace": namespace,
        "name": "web",
        "uid": "11111111-2222-3333-4444-555555555555",
    }
    assert (event["reason"], event["note"], event["type"]) == ("ClaimLate", "no device is free", "Warning")
    assert (event["action"], event["reportingInstance"]) == ("WaitForDevices", "drabridge-0")
    assert event["metadata"]["name"].startswith("web.")
    assert recorder.dropped == 0


async def test_kubectl_describe_shows_it(client: Client, plane: ControlPlane, namespace: str) -> None:
    body = {"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c", "image": "i"}], "schedulerName": "no"}}
    made = await plane.api.call("POST", f"/api/v1/namespaces/{namespace}/pods", body)
    async with running(client) as recorder:
        claimed(recorder, pod(namespace, uid=made["metadata"]["uid"]))
        assert await recorder.flush(20)
    said = await plane.kubectl("describe", "pod", "web", f"--namespace={namespace}")
    assert "ClaimCreated" in said.out
    assert "claim made" in said.out


async def test_a_repeat_is_not_sent_again_and_another_note_is(
    client: Client, plane: ControlPlane, namespace: str
) -> None:
    async with running(client) as recorder:
        for note in ("one", "one", "two", "one"):
            claimed(recorder, pod(namespace), note)
        assert await recorder.flush(20)
    assert sorted(event["note"] for event in await events(client, namespace)) == ["one", "two"]


async def test_a_repeat_after_a_restart_is_the_same_event(client: Client, namespace: str) -> None:
    for _ in range(2):
        async with running(client) as recorder:
            claimed(recorder, pod(namespace))
            assert await recorder.flush(20)
            assert recorder.dropped == 0
    assert len(await events(client, namespace)) == 1


async def test_an_event_is_sent_again_when_the_api_server_has_forgotten_it(client: Client, namespace: str) -> None:
    now = 1000.0
    async with running(client, replace(SYSTEM, monotonic=lambda: now)) as recorder:
        claimed(recorder, pod(namespace))
        await recorder.flush(20)
        (event,) = await events(client, namespace)
        await client.delete(EVENTS, namespace, event["metadata"]["name"])
        now += REPEAT_AFTER - 1
        claimed(recorder, pod(namespace))
        await recorder.flush(20)
        assert await events(client, namespace) == []
        now += 1
        claimed(recorder, pod(namespace))
        await recorder.flush(20)
        assert len(await events(client, namespace)) == 1


async def test_only_so_many_events_are_remembered(
    client: Client, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "REMEMBERED", 2)
    async with running(client) as recorder:
        for note in ("one", "two", "three", "one", "three"):
            claimed(recorder, pod(namespace), note)
        assert recorder._queue.qsize() == 4
        assert await recorder.flush(20)
        assert recorder.dropped == 0


async def test_events_of_cluster_scoped_objects_are_in_the_default_namespace(client: Client, namespace: str) -> None:
    policy = ObjectRef("ExtendedResourcePolicy", "drabridge.io/v1alpha1", "", namespace, "66666666")
    async with running(client) as recorder:
        claimed(recorder, policy)
        assert await recorder.flush(20)
    (event,) = [each for each in await events(client, "default") if each["regarding"]["name"] == namespace]
    assert "namespace" not in event["regarding"]


NOTES = {
    "as long as may be": "x" * NOTE_BYTES,
    "longer": "x" * (NOTE_BYTES + 1),
    "cut between characters of two bytes": "x" + "ü" * NOTE_BYTES,
    "cut between characters of four bytes": "\N{COLLISION SYMBOL}" * NOTE_BYTES + "x",
    "empty": "",
    "not even text": "half \ud800 a pair, and a \0 byte",
}


@pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)
async def test_any_note_is_accepted_and_cut_at_a_character(client: Client, namespace: str, note: str) -> None:
    async with running(client) as recorder:
        claimed(recorder, pod(namespace), note)
        assert await recorder.flush(20)
        assert recorder.dropped == 0
    (event,) = await events(client, namespace)
    stored = event.get("note", "")
    whole = note.replace("\ud800", "?")
    assert whole.startswith(stored)
    assert len(stored.encode()) <= NOTE_BYTES
    assert stored == whole or len(stored.encode()) > NOTE_BYTES - 4


NAMES = {
    "of one letter": "a",
    "at its limit": "a" * 253,
    "with a dot where it is cut": "a" * 235 + "." + "b" * 17,
    "with a dash where it is cut": "a" * 234 + ("--" + "b" * 17),
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
async def test_any_name_of_an_object_gives_a_valid_name_of_an_event(client: Client, namespace: str, name: str) -> None:
    async with running(client) as recorder:
        claimed(recorder, pod(namespace, name))
        assert await recorder.flush(20)
        assert recorder.dropped == 0
    (event,) = await events(client, namespace)
    assert event["regarding"]["name"] == name


async def test_what_the_api_server_refuses_is_counted_and_holds_up_nothing(client: Client, namespace: str) -> None:
    async with running(client) as recorder:
        claimed(recorder, pod("nowhere"))
        claimed(recorder, pod(namespace))
        assert await recorder.flush(20)
        assert recorder.dropped == 1
    assert len(await events(client, namespace)) == 1


async def test_a_full_queue_drops_and_never_blocks(client: Client, namespace: str) -> None:
    recorder = Recorder(client, "drabridge-0", capacity=2)
    for number in range(5):
        claimed(recorder, pod(namespace), f"note {number}")
    assert recorder.dropped == 3
    task = asyncio.create_task(recorder.run())
    assert await recorder.flush(20)
    claimed(recorder, pod(namespace), "note 4")  # dropped before, hence not taken for a repeat
    assert await recorder.flush(20)
    task.cancel()
    assert sorted(event["note"] for event in await events(client, namespace)) == ["note 0", "note 1", "note 4"]


async def test_events_wait_while_there_are_more_urgent_things_but_not_for_ever(client: Client, namespace: str) -> None:
    busy, now = True, 1000.0

    async def pause(_event: asyncio.Event, _seconds: float | None) -> None:
        await asyncio.sleep(0.01)

    clock = replace(SYSTEM, monotonic=lambda: now, pause=pause)
    async with running(client, clock, busy=lambda: busy, late_after=5.0) as recorder:

        async def sent_within(seconds: float, count: int) -> bool:
            for _ in range(round(seconds / 0.1)):
                if len(await events(client, namespace)) == count:
                    return True
                await asyncio.sleep(0.1)
            return False

        claimed(recorder, pod(namespace), "late")
        assert not await sent_within(0.5, 1)
        now += 5.0
        assert await sent_within(10, 1)
        claimed(recorder, pod(namespace), "when there is time")
        assert not await sent_within(0.5, 2)
        busy = False
        assert await sent_within(10, 2)
        busy = True
        claimed(recorder, pod(namespace), "at the end")
        assert await recorder.flush(20)
        assert await sent_within(10, 3)


@asynccontextmanager
async def nobody_listening(plane: ControlPlane, directory: Path) -> AsyncIterator[Client]:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    config = yaml.safe_load(plane.kubeconfig_admin().read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    await server.wait_closed()
    path = directory / "kubeconfig"
    path.write_text(json.dumps(config))
    async with await Client.connect(path, user_agent="drabridge/test") as client:
        yield client


async def test_without_an_api_server_an_event_is_tried_some_times_and_then_given_up(
    plane: ControlPlane, tmp_path: Path
) -> None:
    waits: list[float | None] = []

    async def pause(_event: asyncio.Event, seconds: float | None) -> None:
        waits.append(seconds)

    async with (
        nobody_listening(plane, tmp_path) as client,
        running(client, replace(SYSTEM, pause=pause)) as recorder,
    ):
        claimed(recorder, pod("default"))
        assert await recorder.flush(20)
        assert recorder.dropped == 1
        assert waits == list(RETRIES)


async def test_a_flush_ends_with_its_deadline(plane: ControlPlane, tmp_path: Path) -> None:
    async with nobody_listening(plane, tmp_path) as client, running(client) as recorder:
        claimed(recorder, pod("default"))
        assert not await recorder.flush(0.1)
