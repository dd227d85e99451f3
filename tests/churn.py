"""Pods that come and go while things break, and what the API says in the end: for the tests of crashes and the soak."""

from __future__ import annotations

import asyncio
import bisect
import random
import time
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import aiohttp

from cluster_site import Served, Site, allocation, claim_name, container, pod
from conftest import GATE_OFF
from upstream.api import Refused, wait_for
from upstream.balancer import Balancer
from upstream.controlplane import ControlPlane
from upstream.installation import Installation
from upstream.processes import free_port

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

    from upstream.api import Object
    from upstream.installation import Replica

LOOK_SECONDS = 0.3
REPORTED_WITHIN = 60.0
# Of a Pod's fates, looked at LOOK_SECONDS after each other.
GONE_AT_ONCE = 0.1
ENDS_BY_ITSELF = 0.5


@dataclass(frozen=True, slots=True)
class Gap:
    """From a replica's death until the balancer knew (time.time): half of the new connections go to the dead one."""

    start: float
    end: float


@asynccontextmanager
async def private_site(program: Path, directory: Path, *options: str) -> AsyncIterator[Site]:
    """A control plane with the gate off, an audit log and a scheduler in no need to wait, and drabridge's manifests.

    No replica runs yet; those to come get `options`.
    """
    plane = ControlPlane(program, GATE_OFF, directory=directory, audit=True, qps=1000)
    try:
        await plane.start()
        installation = Installation(plane, options=options)
        await installation.install()
        yield Site(plane, installation)
    finally:
        await plane.stop()


async def kill_in_turn(fleet: Fleet, kills: int, *, led: bool) -> list[Gap]:
    """Kill the older replica and start another one, so many times.

    With `led`, the next kill waits until one leads, and so is that of the leader; without, nobody leads in between.
    """
    gaps: list[Gap] = []
    for _ in range(kills):
        gaps.append(await fleet.kill(fleet.replicas[0]))
        await fleet.start()
        if led:
            await fleet.leader()
    return gaps


class Fleet:
    """Replicas that serve behind one port; `async with` starts the balancer and stops everything at the end."""

    def __init__(self, site: Site, *options: str) -> None:
        self.balancer = Balancer(site.installed.webhook_port)
        self.replicas: list[Replica] = []
        self._installation = site.installed
        self._options = options
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self.balancer)
        return self

    async def __aexit__(self, *_: object) -> None:
        running = [each for each in self.replicas if each.process.exit_code is None]
        await asyncio.gather(*(each.stop() for each in running))
        await self._stack.aclose()

    async def start(self, *options: str) -> Replica:
        """Start a replica, with these options besides; give it once it is ready and takes part."""
        port = free_port()
        replica = await self._installation.start_replica(*self._options, *options, webhook_port=port)
        self.replicas.append(replica)
        self.balancer.add(replica, port)
        return replica

    async def stop(self, replica: Replica) -> None:
        """End a replica as a kubelet would, by SIGTERM; it must end well."""
        assert await replica.stop() == 0
        self._forget(replica)

    async def kill(self, replica: Replica) -> Gap:
        """End a replica by SIGKILL; give the time in which the balancer did not know."""
        start = time.time()
        replica.process.kill()
        await wait_for(lambda: self.balancer.is_ready(replica), "the balancer to notice", until=lambda ready: not ready)
        self._forget(replica)
        return Gap(start, time.time())

    async def leader(self) -> Replica:
        """The replica that writes, once there is exactly one."""

        async def leaders() -> list[Replica]:
            return [each for each in self.replicas if await each.metric("drabridge_leader")]

        return (await wait_for(leaders, "one leader", until=lambda found: len(found) == 1))[0]

    def _forget(self, replica: Replica) -> None:
        self.balancer.remove(replica)
        self.replicas.remove(replica)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with the Pods of a namespace that ask for one name, and with its claims; from the API alone."""

    pods: int
    missed: list[str]
    """Pods that were not rewritten."""

    waiting: list[str]
    """Rewritten Pods that have no node, or nothing bound back."""

    wrong: list[str]
    """Pods whose claim is not theirs, holds another number of devices than asked for, or others than are bound back."""

    orphans: list[str]
    """Claims whose Pod is gone."""

    shared: list[str]
    """Devices that several claims hold."""

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong but missed Pods, which nobody can serve any more."""
        return not (self.waiting or self.wrong or self.orphans or self.shared)


async def judge(site: Site, ns: str, resource: str) -> Verdict:
    """Read the Pods that have not ended, and the claims."""
    pods = [
        each
        for each in (await site.api.call("GET", f"/api/v1/namespaces/{ns}/pods"))["items"]
        if each["status"]["phase"] not in ("Succeeded", "Failed")
    ]
    claims = (await site.api.call("GET", f"/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims"))["items"]
    by_name = {claim["metadata"]["name"]: claim for claim in claims}
    alive = {each["metadata"]["uid"] for each in pods}
    rewritten = [each for each in pods if claim_name(each)]
    return Verdict(
        pods=len(pods),
        missed=[_name(each) for each in pods if is_missed(each, resource)],
        waiting=[_name(each) for each in rewritten if not (each["spec"].get("nodeName") and allocation(each))],
        wrong=[_name(each) for each in rewritten if allocation(each) and not _fits(each, by_name)],
        orphans=[_name(claim) for claim in claims if claim["metadata"]["ownerReferences"][0]["uid"] not in alive],
        shared=[device for device, holders in Counter(_devices(claims)).items() if holders > 1],
    )


def is_missed(pod: Object, resource: str) -> bool:
    """Whether a Pod still asks for the resource name."""
    return any(resource in each["resources"].get("limits", {}) for each in pod["spec"]["containers"])


def _fits(pod: Object, claims: dict[str, Object]) -> bool:
    claim = claims.get(claim_name(pod))
    if claim is None or [each["uid"] for each in claim["metadata"]["ownerReferences"]] != [pod["metadata"]["uid"]]:
        return False
    bound = [f"{each['driver']}/{each['pool']}/{each['device']}" for each in allocation(pod)]
    wanted = sum(request["exactly"]["count"] for request in claim["spec"]["devices"]["requests"])
    return sorted(bound) == sorted(_devices([claim])) and len(bound) == wanted


def _devices(claims: list[Object]) -> list[str]:
    return [
        f"{each['driver']}/{each['pool']}/{each['device']}"
        for claim in claims
        for each in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    ]


def _name(each: Object) -> str:
    return str(each["metadata"]["name"])


@dataclass(slots=True)
class Life:
    """A Pod and when (time.time) it was asked for and created; `uid` is empty until then."""

    name: str
    asked: float
    created: float = 0.0
    uid: str = ""
    missed: bool = False
    reported: float | None = None
    """When the event MissedByWebhook was seen."""

    def outside(self, gaps: list[Gap]) -> bool:
        """Whether its creation touched none of the gaps."""
        return all(self.created < gap.start or self.asked > gap.end for gap in gaps)


@dataclass(slots=True)
class Churn:
    """`count` Pods that come and go in one namespace, at most `at_once` at a time, the last `stay` of them to stay.

    They come at random moments, `a_second` on average. Some are deleted at once, some when they have their devices,
    some end by themselves. One that was missed is deleted once that is reported on it, as its author would.
    """

    site: Site
    ns: str
    gpu: Served
    count: int
    at_once: int
    stay: int
    a_second: float
    seed: int = 0
    missing: Callable[[Object, str], bool] | None = None
    """Whether no webhook saw a Pod that asks for that name; by default, whether it was not rewritten."""

    lives: dict[str, Life] = field(default_factory=dict)

    async def run(self) -> None:
        """Create and delete until all Pods have come, and those that shall go have gone."""
        dice = random.Random(self.seed)
        comes = [time.monotonic()]
        while len(comes) < self.count:
            comes.append(comes[-1] + dice.expovariate(self.a_second))
        while True:
            present = {_name(each): each for each in await self._pods()}
            due = bisect.bisect(comes, time.monotonic()) - len(self.lives)
            room = min(self.at_once - len(present), due)
            await asyncio.gather(
                *(self._create(f"p{len(self.lives) + each}", dice.randint(1, 2)) for each in range(room))
            )
            if any(self._is_missed(each) for each in present.values()):
                await self._note_reports()
            await asyncio.gather(*(self._end(each, dice.random()) for each in present.values()))
            going = [name for name in present if not self._stays(name)]
            if len(self.lives) == self.count and not going:
                return
            await asyncio.sleep(LOOK_SECONDS)

    @property
    def missed(self) -> list[Life]:
        """The Pods that no webhook saw."""
        return [each for each in self.lives.values() if each.missed]

    def _stays(self, name: str) -> bool:
        return int(name[1:]) >= self.count - self.stay and not self.lives[name].missed

    async def _pods(self) -> list[Object]:
        async def listed() -> list[Object] | None:
            status, answer = await self.site.api.request("GET", f"/api/v1/namespaces/{self.ns}/pods")
            return list(answer["items"]) if status == 200 else None

        found = await wait_for(listed, "the Pods", until=lambda pods: pods is not None, deadline=90)
        return found or []

    async def _create(self, name: str, devices: int) -> None:
        life = self.lives[name] = Life(name, time.time())
        made = await insist(self.site, self.ns, pod(name, container(limits={self.gpu.name: devices})))
        life.created, life.uid = time.time(), made["metadata"]["uid"]
        life.missed = self._is_missed(made)

    def _is_missed(self, made: Object) -> bool:
        return (self.missing or is_missed)(made, self.gpu.name)

    async def _note_reports(self) -> None:
        listed = await self.site.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{self.ns}/events")
        told = {each["regarding"].get("uid") for each in listed["items"] if each["reason"] == "MissedByWebhook"}
        for life in self.missed:
            if life.uid in told and life.reported is None:
                life.reported = time.time()

    async def _end(self, each: Object, chance: float) -> None:
        life = self.lives[_name(each)]
        has_devices = each["spec"].get("nodeName") and allocation(each)
        if life.missed:
            if life.reported is None:
                assert time.time() - life.created < REPORTED_WITHIN, f"{life.name}: nobody reports that it was missed"
                return
        elif self._stays(life.name) or (chance > GONE_AT_ONCE and not has_devices):
            return
        try:
            if has_devices and chance < ENDS_BY_ITSELF and each["status"]["phase"] != "Succeeded":
                await self.site.cluster.finish(each)
            else:
                await self.site.delete(each)
        except aiohttp.ClientError:
            pass  # it is looked at again in a moment
        except Refused as error:
            if error.status not in (404, 409, 429) and error.status < 500:
                raise


async def insist(site: Site, ns: str, body: Object) -> Object:
    """Create a Pod as a client does that tries again, whatever happens to the API server."""

    async def attempt() -> Object | None:
        status, answer = await site.api.request("POST", f"/api/v1/namespaces/{ns}/pods", body)
        if status == 409:  # it was created, but the answer was lost
            return await site.pod({"metadata": {"namespace": ns, "name": body["metadata"]["name"]}})
        if status == 429 or status >= 500:
            return None
        if status >= 400:
            raise Refused("POST", status, answer)
        return answer

    created = await wait_for(attempt, f"Pod {body['metadata']['name']} to be created", deadline=90)
    assert created
    return created


async def settled(site: Site, ns: str, resource: str, *, deadline: float = 60.0) -> Verdict:
    """The verdict once it is clean; after `deadline` seconds the AssertionError shows what is wrong."""
    return await wait_for(
        lambda: judge(site, ns, resource), "nothing to be wrong", until=lambda found: found.clean, deadline=deadline
    )
