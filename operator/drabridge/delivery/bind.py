"""Bind: a stock kube-scheduler asks which nodes have devices for a Pod, and has us bind it. Only the Lease holder does.

`filter` reads; `bind` decides once, from what is known at that moment, and then writes: claim, its status, the Pod's
status, binding. What was decided counts at once for whoever asks next (`Devices.assume`). What was written and came to
nothing is taken back before the Pod is looked at again, by `delivery.undo`.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from drabridge.core.allocation.outcomes import Allocated, AllocationError, Undecided, Unfit
from drabridge.core.bind.asking import Asking
from drabridge.core.bind.placement import Placement, Share, Special, outstanding, stamped
from drabridge.core.bind.podclaims import (
    ClaimRecord,
    Refusal,
    claims_of,
    leftovers,
    special_body,
    special_name,
    template_claims,
)
from drabridge.core.bind.scene import Scene, broken
from drabridge.core.bind.scores import Room, scores, strategy_of
from drabridge.core.bind.underway import Underway
from drabridge.core.errors import Conflict, DrabridgeError, InvalidInput, NotLeader, Unavailable
from drabridge.core.podview import PodView
from drabridge.core.reasons import Reason, with_cure
from drabridge.delivery.bindwrites import BindWrites, Undoing, Unprepared
from drabridge.delivery.devices import Devices
from drabridge.delivery.metrics import Metrics
from drabridge.kube.caches import BindStores, Caches
from drabridge.kube.client import Client
from drabridge.kube.clock import SYSTEM, Clock, meta_time
from drabridge.kube.resources import PODS

SEEN_MAX = 20_000
"""Pods that a filter call has shown, kept for their bind call."""

PREPARED_WITHIN = 600.0
"""Seconds after which devices whose drivers have not prepared them are given back, as kube-scheduler does it."""

YIELD_EVERY = 50
"""Nodes after which a filter lets others have a turn."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A Pod as kube-scheduler showed it; `made` is entry of spec.resourceClaims -> the claim made of its template."""

    pod: PodView
    made: Mapping[str, str | None]

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> SeenPod:
        """Read a v1 Pod. Raises InvalidInput."""
        pod = PodView.of(raw)
        if not (pod.uid and pod.name and pod.namespace):
            raise InvalidInput("Pod", "metadata", "has no name, namespace or uid", "send a Pod as it is stored")
        try:
            made = template_claims(raw)
        except (AttributeError, KeyError, TypeError) as error:
            problem = "cannot be read"
            raise InvalidInput(pod.described, "status.resourceClaimStatuses", problem, "send a v1 Pod") from error
        return cls(pod, made)


@dataclass(frozen=True, slots=True)
class Filtered:
    """`nodes` that fit, in the order asked, and why the others do not."""

    nodes: list[str]
    failed: dict[str, str]


@dataclass(frozen=True, slots=True)
class _Hold:
    """A Pod whose devices are being prepared (binding conditions), and since when."""

    placement: Placement
    undoing: Undoing
    since: float


@dataclass(frozen=True, slots=True)
class _Flight:
    node: str
    task: asyncio.Task[None]


class Bindings:
    """Answers the extender's three questions while this replica leads."""

    def __init__(
        self,
        caches: Caches,
        stores: BindStores,
        devices: Devices,
        writes: BindWrites,
        client: Client,
        metrics: Metrics,
        *,
        clock: Clock = SYSTEM,
    ) -> None:
        self._clock = clock
        self._caches = caches
        self._stores = stores
        self._devices = devices
        self._writes = writes
        self._client = client
        self._metrics = metrics
        self._seen: OrderedDict[str, SeenPod] = OrderedDict()
        self._flights: dict[str, _Flight] = {}
        self._stuck: dict[str, Undoing] = {}  # by Pod UID
        self._undos: dict[str, asyncio.Task[str]] = {}  # by Pod UID
        self._holds: dict[str, _Hold] = {}  # by Pod UID
        self._underway = Underway()
        self.refused: set[str] = set()
        """UIDs of the Pods that fitted nowhere when they were looked at last."""

        self.serving = False

    # --- the three questions

    async def filter(self, raw_pod: Mapping[str, Any], names: Sequence[str]) -> Filtered:
        """Say on which of the nodes the Pod's claims fit, all together.

        Raises DrabridgeError where that cannot be answered now; kube-scheduler tries again later.
        """
        self._must_serve()
        started = time.perf_counter()
        seen = SeenPod.of(raw_pod)
        if seen.pod.uid in self._flights:
            raise Unavailable(f"{seen.pod.described} is being bound")
        self._remember(seen)
        if (held := self._held(seen.pod, names)) is not None:
            return held
        await self._clear(seen)
        scene = self._scene(seen)
        if isinstance(scene, Refusal):
            answer = Filtered([], dict.fromkeys(names, with_cure(scene.text, scene.reason)))
        else:
            answer = await self._filtered(scene, names)
        self._metrics.filter_seconds.observe(time.perf_counter() - started)
        if answer.nodes:
            self.refused.discard(seen.pod.uid)
        elif len(self.refused) < SEEN_MAX:
            self.refused.add(seen.pod.uid)
        if isinstance(scene, Scene):
            self._expect(scene, answer.nodes)
        return answer

    async def prioritize(self, raw_pod: Mapping[str, Any], names: Sequence[str]) -> dict[str, int]:
        """Score the nodes from 0 to 10: by the strategy of the Pod's policies, and by who else may be on the way."""
        self._must_serve()
        seen = SeenPod.of(raw_pod)
        scene = self._scene(seen)
        if isinstance(scene, Refusal) or scene.is_plain:
            return dict.fromkeys(names, 0)
        now = self._clock.monotonic()
        sought = self._underway.sought(seen.pod.uid, now)
        rooms = {name: Room(*self._devices.room(name), sought(name)) for name in names}
        found = scores(strategy_of(scene.asking.names, self._caches.cluster()), scene.devices, rooms)
        self._underway.expect(seen.pod.uid, scene.devices, found.best, now)
        return {**found.by_node}

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Allocate and bind. A repeat of a call that is under way waits for the same end.

        Raises DrabridgeError if it came to nothing; kube-scheduler schedules the Pod again.
        """
        self._must_serve()
        self._underway.arrived(uid)
        flight = self._flights.get(uid)
        if flight is None:
            task = asyncio.create_task(self._bind(namespace, name, uid, node))
            flight = self._flights[uid] = _Flight(node, task)
            task.add_done_callback(lambda done: self._landed(self._flights, uid, done))
        elif flight.node != node:
            raise Conflict(f"Pod {namespace}/{name} is being bound to {flight.node}")
        await asyncio.shield(flight.task)  # a caller that hangs up must not stop it halfway

    def _landed(self, running: dict[str, Any], uid: str, task: asyncio.Task[Any]) -> None:
        del running[uid]
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, DrabridgeError):
            _log.error("something failed in a way that nobody thought of", error=repr(error), exc_info=error)

    async def landed(self) -> None:
        """Return when nothing is being written any more."""
        while tasks := [*(flight.task for flight in self._flights.values()), *self._undos.values()]:
            await asyncio.wait(tasks)

    def _must_serve(self) -> None:
        if not self.serving:
            raise NotLeader("this replica does not bind Pods now; another one does, or will in a moment")

    # --- filter

    def _scene(self, seen: SeenPod) -> Scene | Refusal:
        pod = seen.pod
        if pod.grouped:
            return Refusal(Reason.SCHEDULING_GROUP, f"{pod.described} has spec.schedulingGroup")
        asking = Asking.of(pod, self._caches.cluster(pod.namespace))
        if isinstance(asking, Refusal):
            return asking
        if asking.names and (foreign := self._foreign(pod)):
            return foreign
        claims = claims_of(pod, seen.made, self._stores.claims.get)
        return claims if isinstance(claims, Refusal) else Scene.of(pod, asking, claims)

    def _foreign(self, pod: PodView) -> Refusal | None:
        special = self._stores.claims.get(f"{pod.namespace}/{special_name(pod.uid)}")
        if special is None or special.owner_uid == pod.uid:
            return None
        return Refusal(Reason.CLAIM_FOREIGN, f"ResourceClaim {special.key} is not owned by {pod.described}")

    def _expect(self, scene: Scene, nodes: Sequence[str]) -> None:
        if not nodes:
            self._underway.arrived(scene.pod.uid)
        elif not scene.is_plain:
            best = nodes[0] if len(nodes) == 1 else None
            self._underway.expect(scene.pod.uid, scene.devices, best, self._clock.monotonic())

    async def _filtered(self, scene: Scene, names: Sequence[str]) -> Filtered:
        if scene.is_plain:
            return Filtered([*names], {})
        kind = scene.kind
        known = {} if kind is None else self._devices.verdicts.of(kind)
        verdicts = {name: known[name] for name in names if name in known}
        short = scene.short_of().text
        for number, name in enumerate([name for name in names if name not in known]):
            if number % YIELD_EVERY == YIELD_EVERY - 1:
                await asyncio.sleep(0)
            try:
                verdicts[name] = known[name] = self._refusal(scene, name, short)
            except AllocationError as error:
                return Filtered([], dict.fromkeys(names, broken(error).text))
        fitting = [name for name in names if verdicts[name] is None]
        return Filtered(fitting, {name: text for name in names if (text := verdicts[name]) is not None})

    def _refusal(self, scene: Scene, name: str, short: str) -> str | None:
        """Why the Pod cannot come to a node; None if it can. Raises AllocationError."""
        node = self._stores.nodes.get(name)
        if node is None:
            return Refusal(Reason.NODE_UNKNOWN, "drabridge has not seen it yet").text
        request = scene.on(node)
        if isinstance(request, Refusal):
            return request.text
        if not request.pending and request.plan is None:
            return None
        try:
            outcome = self._devices.allocate(node, request.claims())
        except AllocationError:
            raise
        except InvalidInput as error:
            return broken(error).text
        if isinstance(outcome, Undecided):
            return Refusal(Reason.SEARCH_ENDED, outcome.cause).text
        if isinstance(outcome, Unfit):
            return f"{short} ({outcome.error})" if outcome.error else short
        return None

    def _remember(self, seen: SeenPod) -> None:
        self._seen[seen.pod.uid] = seen
        self._seen.move_to_end(seen.pod.uid)
        if len(self._seen) > SEEN_MAX:
            self._seen.popitem(last=False)

    # --- while devices are being prepared

    def _held(self, pod: PodView, names: Sequence[str]) -> Filtered | None:
        """The answer while the Pod's devices are being prepared: their node. None if it is to be looked at anew."""
        hold = self._holds.get(pod.uid)
        if hold is None:
            return None
        records = [record for key in hold.undoing.claims if (record := self._stores.claims.get(key))]
        _, failed = outstanding(records)
        over = self._clock.monotonic() - hold.since > PREPARED_WITHIN
        if failed or over or hold.placement.node not in names:
            del self._holds[pod.uid]
            return None
        text = Refusal(Reason.DEVICES_UNPREPARED, f"its devices are being prepared on {hold.placement.node}").text
        return Filtered([hold.placement.node], {name: text for name in names if name != hold.placement.node})

    # --- what earlier tries left

    async def _clear(self, seen: SeenPod) -> None:
        """Take back what an earlier try to bind the Pod has left, ours or that of a leader before us."""
        pod = seen.pod
        stuck = self._stuck.get(pod.uid)
        left = self._leftovers(seen)
        if stuck is None and not left:
            return
        undoing = stuck or Undoing(pod, tuple(record.key for record in left), "an earlier try left it")
        await self._undo(undoing)

    def _leftovers(self, seen: SeenPod) -> tuple[ClaimRecord, ...]:
        special = self._stores.claims.get(f"{seen.pod.namespace}/{special_name(seen.pod.uid)}")
        claims = claims_of(seen.pod, seen.made, self._stores.claims.get)
        return leftovers(seen.pod.uid, special, () if isinstance(claims, Refusal) else claims)

    async def _undo(self, undoing: Undoing) -> None:
        """Take back, and go by what the API server shows again. Raises Conflict if the Pod turns out to be bound."""
        bound_to = await self._taken_back(undoing)
        self._devices.forget(undoing.claims)
        if bound_to:
            raise Conflict(f"{undoing.pod.described} is bound to {bound_to} already")

    async def _taken_back(self, undoing: Undoing) -> str:
        """Take back, once for all who ask at the same time; give the node that the Pod is bound to after all, or "".

        While it lasts, and until it has succeeded, the Pod is `stuck`: no new try may begin, whose claim would be of
        the same name, and be taken back as well.
        """
        uid = undoing.pod.uid
        task = self._undos.get(uid)
        if task is None:
            self._stuck[uid] = undoing
            task = self._undos[uid] = asyncio.create_task(self._take_back(undoing))
            task.add_done_callback(lambda done: self._landed(self._undos, uid, done))
        return await asyncio.shield(task)

    async def _take_back(self, undoing: Undoing) -> str:
        bound_to = await self._writes.undo(undoing)
        del self._stuck[undoing.pod.uid]
        return bound_to

    async def sweep(self, *, first: bool) -> None:
        """Take back what was left for Pods that are still pending.

        In the first moment of a term that is everything there is; later only what could not be taken back at once, as
        a Pod's own next filter call sees to the rest.
        """
        for undoing in [*self._stuck.values()]:
            await self._undo_quietly(undoing)
        for uid, hold in [*self._holds.items()]:
            if self._clock.monotonic() - hold.since > PREPARED_WITHIN and uid not in self._flights:
                del self._holds[uid]
                await self._undo_quietly(hold.undoing)
        if not first:
            return
        fields = f"spec.schedulerName={self._caches.bind_scheduler},spec.nodeName="
        async for page in self._client.list_pages(PODS, field_selector=fields):
            for raw in page["items"]:
                try:
                    seen = SeenPod.of(raw)
                except InvalidInput as error:
                    _log.warning("cannot read a Pod", error=str(error))
                    continue
                if left := self._leftovers(seen):
                    keys = tuple(record.key for record in left)
                    await self._undo_quietly(Undoing(seen.pod, keys, "an earlier leader left it"))

    async def _undo_quietly(self, undoing: Undoing) -> None:
        try:
            await self._undo(undoing)
        except Conflict as error:
            _log.info("nothing is taken back", pod=undoing.pod.key, why=str(error))

    # --- bind

    async def _bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        started = time.perf_counter()
        outcome = "failed"
        try:
            await self._decide_and_write(namespace, name, uid, node)
            outcome = "bound"
        except Conflict:
            outcome = "conflict"
            raise
        finally:
            self._metrics.binds.labels(outcome).inc()
            self._metrics.bind_seconds.observe(time.perf_counter() - started)

    async def _decide_and_write(self, namespace: str, name: str, uid: str, node: str) -> None:
        seen = self._seen.get(uid) or await self._read(namespace, name, uid)
        if seen.pod.node_name == node:
            return  # it was done before, and the answer was lost
        if seen.pod.node_name:
            raise Conflict(f"{seen.pod.described} is bound to {seen.pod.node_name}")
        hold = self._holds.get(uid)
        placement = self._placed(seen, node) if hold is None else hold.placement
        if placement.node != node:
            raise Conflict(f"{seen.pod.described}: its devices are being prepared on {placement.node}")
        pod = seen.pod
        allocations = {share.claim.key: share.allocation for share in placement.shares if share.allocation is not None}
        if placement.special:
            allocations[f"{pod.namespace}/{special_name(pod.uid)}"] = placement.special.allocation
        self._devices.assume(allocations)
        claims = (*(share.claim.key for share in placement.shares), *allocations)
        undoing = Undoing(pod, tuple(dict.fromkeys(claims)), f"binding to {node} failed")
        try:
            if hold is None:
                await self._writes.write(pod, placement)
            else:
                await self._writes.resume(pod, placement, undoing.claims)
        except NotLeader:
            raise  # the next leader takes back what is there
        except Unprepared:
            self._holds[uid] = hold or _Hold(placement, undoing, self._clock.monotonic())
            self._devices.forget(undoing.claims)  # they are written
            raise
        except DrabridgeError as error:
            self._holds.pop(uid, None)
            await self._give_back(undoing, node, error)
        self._holds.pop(uid, None)
        self._devices.forget(undoing.claims)
        self._seen.pop(uid, None)
        _log.info("bound", pod=pod.key, node=node, claims=len(undoing.claims))

    def _placed(self, seen: SeenPod, node: str) -> Placement:
        """Choose the devices. Nothing is awaited between this and `assume`, so that no two binds choose the same."""
        if seen.pod.uid in self._stuck:
            raise Unavailable(f"{seen.pod.described}: an earlier try has not been taken back yet")
        placement = self._place(seen, node)
        if isinstance(placement, Refusal):
            raise Conflict(f"{node}: {Reason.BIND_CONFLICT}: {placement.text}")
        return placement

    async def _give_back(self, undoing: Undoing, node: str, error: DrabridgeError) -> None:
        """Take everything back and raise what went wrong; or return, if the Pod is bound to the node after all."""
        _log.warning("not bound", pod=undoing.pod.key, node=node, error=str(error))
        if not undoing.claims:
            raise error
        bound_to = await self._taken_back(undoing)
        if bound_to == node:
            return
        self._devices.forget(undoing.claims)
        raise error

    async def _read(self, namespace: str, name: str, uid: str) -> SeenPod:
        raw = await self._client.get(PODS, namespace, name)
        if raw["metadata"]["uid"] != uid:
            raise Conflict(f"Pod {namespace}/{name} is another one by now")
        return SeenPod.of(raw)

    def _place(self, seen: SeenPod, name: str) -> Placement | Refusal:
        scene = self._scene(seen)
        if isinstance(scene, Refusal):
            return scene
        if scene.is_plain:
            return Placement(name, None, ())
        node = self._stores.nodes.get(name)
        if node is None:
            return Refusal(Reason.NODE_UNKNOWN, "drabridge has not seen it yet")
        request = scene.on(node)
        if isinstance(request, Refusal):
            return request
        results: tuple[Mapping[str, Any], ...] = ()
        if claims := request.claims():
            strategy = strategy_of(scene.asking.names, self._caches.cluster())
            outcome = self._devices.allocate(node, claims, strategy)
            if not isinstance(outcome, Allocated):
                return scene.short_of()
            now = meta_time(self._clock.wall())
            results = tuple(stamped(result, now) for result in outcome.results)
        special = None
        if request.plan is not None:
            special = Special(special_body(seen.pod, request.plan), request.plan, results[-1])
        given = {record.key: result for record, result in zip(request.pending, results, strict=False)}
        return Placement(name, special, tuple(Share(record, given.get(record.key)) for record in scene.claims))
