"""Elections on a real API server. Durations are short, but the deadlines of the tests are generous."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, Literal

import pytest
import pytest_asyncio
import yaml

from drabridge.core.errors import NotLeader
from drabridge.kube.client import Client, PatchType
from drabridge.kube.clock import SYSTEM, Clock, micro_time, monotonic
from drabridge.kube.lease import Durations, Elector
from drabridge.kube.resources import CONFIGMAPS, LEASES
from upstream.api import wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from upstream.controlplane import ControlPlane

NAME = "drabridge-operator"
SHORT = Durations(lease=3, renew=1.8, retry=0.2, margin=0.5)


class Candidate:
    """An elector with its task and what it said about itself."""

    def __init__(self, elector: Elector, transitions: list[bool]) -> None:
        self.elector = elector
        self.transitions = transitions
        self.stop = asyncio.Event()
        self._task = asyncio.create_task(elector.run(self.stop))

    async def leads(self) -> None:
        await asyncio.wait_for(self.elector.wait_acquired(), 20)

    async def is_lost(self) -> None:
        await asyncio.wait_for(self.elector.wait_lost(), 20)

    async def leave(self) -> None:
        self.stop.set()
        await asyncio.wait_for(self._task, 20)

    async def die(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


class Election:
    """Candidates of one Lease."""

    def __init__(self, client: Client, namespace: str) -> None:
        self.client = client
        self.namespace = namespace
        self.candidates: list[Candidate] = []

    def candidate(
        self, identity: str, durations: Durations = SHORT, clock: Clock = SYSTEM, client: Client | None = None
    ) -> Candidate:
        transitions: list[bool] = []
        elector = Elector(
            client or self.client,
            self.namespace,
            NAME,
            identity,
            durations=durations,
            on_transition=transitions.append,
            clock=clock,
        )
        self.candidates.append(Candidate(elector, transitions))
        return self.candidates[-1]

    async def lease(self) -> dict[str, Any]:
        return await self.client.get(LEASES, self.namespace, NAME)

    async def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = (await self.lease())["spec"]
        return spec

    async def renewals(self, count: int) -> None:
        """Wait until the Lease was renewed so many times."""
        seen = set()

        async def renewed() -> int:
            seen.add((await self.spec())["renewTime"])
            return len(seen)

        await wait_for(renewed, f"{count} renewals", until=lambda seen: seen > count)


@pytest_asyncio.fixture
async def election(plane: ControlPlane, namespace: str) -> AsyncIterator[Election]:
    async with await Client.connect(plane.kubeconfig_admin(), user_agent="drabridge/test") as client:
        election = Election(client, namespace)
        yield election
        for candidate in election.candidates:
            await candidate.die()


async def test_one_of_two_leads_and_writes_a_correct_lease(election: Election) -> None:
    first = election.candidate("first")
    await first.leads()
    second = election.candidate("second")
    await election.renewals(3)
    assert (first.transitions, second.transitions) == ([True], [])
    assert first.elector.is_leader
    assert 0 < first.elector.check() <= SHORT.lease - SHORT.margin
    assert not second.elector.is_leader
    with pytest.raises(NotLeader, match=r"Lease .*drabridge-operator is not held by second"):
        second.elector.check()
    spec = await election.spec()
    assert spec["holderIdentity"] == "first"
    assert spec["leaseDurationSeconds"] == SHORT.lease
    assert spec["leaseTransitions"] == 0
    for moment in (spec["acquireTime"], spec["renewTime"]):
        assert abs(datetime.fromisoformat(moment) - datetime.now(UTC)) < timedelta(minutes=1)
    assert spec["acquireTime"] < spec["renewTime"]


MOMENTS = {
    "with microseconds": (datetime(2026, 5, 4, 3, 2, 1, 987654, UTC), "2026-05-04T03:02:01.987654Z"),
    "with none": (datetime(2026, 5, 4, 3, 2, 1, 0, UTC), "2026-05-04T03:02:01.000000Z"),
    "of another zone": (
        datetime(2026, 5, 4, 5, 2, 1, 0, timezone(timedelta(hours=2))),
        "2026-05-04T03:02:01.000000Z",
    ),
}


@pytest.mark.parametrize(("moment", "written"), MOMENTS.values(), ids=MOMENTS)
async def test_a_moment_is_written_in_utc_and_stored_as_it_is(
    election: Election, moment: datetime, written: str
) -> None:
    assert micro_time(moment) == written
    body = {"metadata": {"name": "moment"}, "spec": {"renewTime": written}}
    stored = await election.client.create(LEASES, election.namespace, body)
    assert stored["spec"]["renewTime"] == written


async def test_a_release_hands_over_at_once(election: Election) -> None:
    patient = Durations(lease=60, renew=40, retry=0.2)
    first = election.candidate("first", patient)
    await first.leads()
    second = election.candidate("second", patient)
    await election.renewals(1)
    await first.leave()
    assert first.elector.is_leader  # leaving the race is not yet leaving the lead: writers may still be at work
    await first.elector.release()
    with pytest.raises(NotLeader):
        first.elector.check()
    await second.leads()  # within 20 s, where an expiry would take 60
    await first.is_lost()
    assert (await election.spec())["leaseTransitions"] == 1
    assert first.transitions == [True, False]
    await first.elector.release()
    assert (await election.spec())["holderIdentity"] == "second"


async def test_a_release_leaves_the_lease_of_another_alone(election: Election) -> None:
    first = election.candidate("first")
    await first.leads()
    await first.leave()
    body = {"spec": {"holderIdentity": "other"}}
    await election.client.patch(LEASES, election.namespace, NAME, body, PatchType.MERGE)
    await first.elector.release()
    assert (await election.spec())["holderIdentity"] == "other"
    with pytest.raises(NotLeader):
        first.elector.check()


async def test_a_killed_leader_is_followed_when_its_lease_has_expired_and_not_earlier(election: Election) -> None:
    first = election.candidate("first")
    await first.leads()
    second = election.candidate("second")
    await election.renewals(1)
    await first.die()
    died = monotonic()
    last_held = died + first.elector.check()
    await second.leads()
    took = monotonic() - died
    assert monotonic() > last_held
    # Until the Lease expires, then until the next look, then some time for requests on a busy machine.
    assert took < SHORT.lease + SHORT.retry * 1.2 + 2
    with pytest.raises(NotLeader):
        first.elector.check()
    assert (await election.spec())["leaseTransitions"] == 1


async def test_annotating_a_lease_does_not_keep_its_dead_holder_alive(election: Election) -> None:
    first = election.candidate("first")
    await first.leads()
    await first.die()
    second = election.candidate("second")

    async def touched() -> bool:
        body = {"metadata": {"annotations": {"touched": str(time.monotonic())}}}
        await election.client.patch(LEASES, election.namespace, NAME, body, PatchType.MERGE)
        return second.elector.is_leader

    await wait_for(touched, "the second to lead", deadline=20)


def block(seconds: float) -> None:
    """Hold up the whole event loop, as a long garbage collection or a stopped process does."""
    time.sleep(seconds)


async def test_a_leader_that_slept_through_its_lease_writes_nothing_when_it_wakes(
    election: Election, plane: ControlPlane
) -> None:
    first = election.candidate("first")
    await first.leads()
    fenced = election.client.fenced(first.elector)
    await fenced.create(CONFIGMAPS, election.namespace, {"metadata": {"name": "before"}})
    took_over = threading.Event()
    writing = asyncio.Event()

    async def write() -> None:
        await writing.wait()
        await fenced.create(CONFIGMAPS, election.namespace, {"metadata": {"name": "after"}})

    def compete() -> None:
        async def scenario() -> None:
            async with await Client.connect(plane.kubeconfig_admin(), user_agent="drabridge/test") as client:
                other = Election(client, election.namespace).candidate("second")
                await other.leads()
                took_over.set()
                await other.leave()

        asyncio.run(scenario())

    thread = threading.Thread(target=compete)
    thread.start()
    try:
        writer = asyncio.create_task(write())
        await election.renewals(1)
        writing.set()
        block(SHORT.lease + 0.5)
        assert took_over.wait(20)
        with pytest.raises(NotLeader):
            await writer
        assert not first.elector.is_leader
    finally:
        await asyncio.to_thread(thread.join)
    await first.is_lost()
    names = {each["metadata"]["name"] for each in await election.client.list_all(CONFIGMAPS, election.namespace)}
    assert "before" in names
    assert "after" not in names


async def test_clocks_an_hour_apart_change_nothing(election: Election) -> None:
    early = replace(SYSTEM, wall=lambda: datetime.now(UTC) - timedelta(hours=1))
    late = replace(SYSTEM, wall=lambda: datetime.now(UTC) + timedelta(hours=1))
    quick = Durations(lease=2, renew=1.2, retry=0.2, margin=0.4)
    renewals = round(1.5 * quick.lease / quick.retry)
    first = election.candidate("first", quick, clock=early)
    await first.leads()
    second = election.candidate("second", quick, clock=late)
    await election.renewals(renewals)
    assert second.transitions == []
    await first.leave()
    await first.elector.release()
    await second.leads()
    first_again = election.candidate("first again", quick, clock=early)
    await election.renewals(renewals)
    assert (second.transitions, first_again.transitions) == ([True], [])


async def test_a_lease_that_is_deleted_under_its_leader_is_made_again_by_it(election: Election) -> None:
    first = election.candidate("first")
    await first.leads()
    second = election.candidate("second")
    await election.renewals(2)
    before = await election.lease()
    for _ in range(3):
        await election.client.delete(LEASES, election.namespace, NAME)

        async def uid() -> str:
            leases = await election.client.list_all(LEASES, election.namespace)
            return str(leases[0]["metadata"]["uid"]) if leases else ""

        await wait_for(uid, "a new Lease", until=lambda uid: uid not in ("", before["metadata"]["uid"]))
    assert (first.transitions, second.transitions) == ([True], [])
    assert (await election.spec())["holderIdentity"] == "first"


# An API server that is away


class Relay:
    """The way to the API server, which can be cut (connections are refused) or blocked (nothing comes through)."""

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def disturb(self, how: Literal["cut", "blocked"]) -> None:
        if how == "blocked":
            self._open.clear()
        else:
            await self.close()

    async def mend(self) -> None:
        self._open.set()
        if self._server is None:
            await self.listen()

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, answer = await asyncio.open_connection(*self._target)
        for source, sink in ((reader, answer), (there, writer)):
            task = asyncio.create_task(self._copy(source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _copy(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(2**16):
                await self._open.wait()
                sink.write(data)
                await sink.drain()
        except OSError:
            pass
        finally:
            sink.close()


@asynccontextmanager
async def disturbed(plane: ControlPlane, directory: Path) -> AsyncIterator[tuple[Client, Relay]]:
    host, port = plane.api.server.removeprefix("https://").split(":")
    relay = Relay(host, int(port))
    await relay.listen()
    config = yaml.safe_load(plane.kubeconfig_admin().read_text())
    config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{relay.port}"
    kubeconfig = directory / "kubeconfig"
    kubeconfig.write_text(json.dumps(config))
    try:
        async with await Client.connect(kubeconfig, user_agent="drabridge/test") as client:
            yield client, relay
    finally:
        await relay.mend()
        await relay.close()


@pytest.mark.parametrize("how", ["cut", "blocked"])
async def test_an_api_server_that_is_away_for_less_than_the_deadline_costs_nothing(
    election: Election, plane: ControlPlane, tmp_path: Path, how: Literal["cut", "blocked"]
) -> None:
    async with disturbed(plane, tmp_path) as (client, relay):
        first = election.candidate("first", client=client)
        await first.leads()
        second = election.candidate("second")
        await election.renewals(2)
        await relay.disturb(how)
        quiet = SHORT.lease - SHORT.margin - SHORT.renew / 2  # what the fence shows when half of the deadline is over
        await wait_for(lambda: first.elector.check() < quiet, "half of the deadline")
        await relay.mend()
        await election.renewals(2)
        assert (first.transitions, second.transitions) == ([True], [])
        await first.die()


@pytest.mark.parametrize("how", ["cut", "blocked"])
async def test_an_api_server_that_is_away_for_longer_costs_the_lead_and_gives_it_to_who_can_reach_it(
    election: Election, plane: ControlPlane, tmp_path: Path, how: Literal["cut", "blocked"]
) -> None:
    async with disturbed(plane, tmp_path) as (client, relay):
        first = election.candidate("first", client=client)
        await first.leads()
        second = election.candidate("second")
        await election.renewals(2)
        await relay.disturb(how)
        disturbed_at = monotonic()
        await first.is_lost()
        assert monotonic() - disturbed_at < SHORT.lease - SHORT.margin + 0.5
        assert second.transitions == []  # the one has stopped before the other starts
        with pytest.raises(NotLeader):
            first.elector.check()
        await second.leads()
        await relay.mend()
        await election.renewals(2)
        assert (first.transitions, second.transitions) == ([True, False], [True])
        await first.die()


async def test_a_leader_that_lost_only_its_way_leads_again_when_nobody_took_its_place(
    election: Election, plane: ControlPlane, tmp_path: Path
) -> None:
    async with disturbed(plane, tmp_path) as (client, relay):
        first = election.candidate("first", client=client)
        await first.leads()
        await relay.disturb("cut")
        await first.is_lost()
        await relay.mend()
        await first.leads()
        assert first.transitions == [True, False, True]
        assert (await election.spec())["leaseTransitions"] == 0
        await first.die()


async def test_a_release_that_cannot_be_said_is_no_error(
    election: Election, plane: ControlPlane, tmp_path: Path
) -> None:
    async with disturbed(plane, tmp_path) as (client, relay):
        first = election.candidate("first", client=client)
        await first.leads()
        await first.leave()
        await relay.disturb("cut")
        await first.elector.release()
        assert not first.elector.is_leader
        assert (await election.spec())["holderIdentity"] == "first"


async def test_get_create_and_patch_on_leases_are_enough_and_are_waited_for(
    election: Election, plane: ControlPlane
) -> None:
    namespace = election.namespace
    async with await Client.connect(await plane.kubeconfig_for(namespace, "default"), user_agent="t") as client:
        first = election.candidate("first", client=client)
        await wait_for(lambda: first.elector._complaint, "the refusal", until=lambda said: "is forbidden" in said)
        await plane.kubectl(
            "create", "role", "elector", f"--namespace={namespace}", "--verb=get,create,patch", "--resource=leases"
        )
        await plane.kubectl(
            "create", "rolebinding", "elector", f"--namespace={namespace}", "--role=elector",
            f"--serviceaccount={namespace}:default",
        )  # fmt: skip
        await first.leads()
        await election.renewals(2)
        await first.leave()
        await first.elector.release()
        assert not (await election.spec()).get("holderIdentity")


IMPOSSIBLE = {
    "a deadline behind the Lease's end": {"lease": 10, "renew": 10.0},
    "a margin that the deadline reaches into": {"lease": 12, "margin": 3.0},
    "no attempt before the deadline": {"retry": 10.0},
    "no margin": {"margin": 0.0},
}


@pytest.mark.parametrize("durations", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_durations_that_cannot_be_kept_are_refused(durations: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="an election needs"):
        Durations(**durations)
