"""The writes of a bind, each of which can be repeated, and how they are taken back.

A write without an answer may have been done. It is repeated a few times; the repeat finds what the first one did, since
names are fixed and every change is on condition of what it changes. When that does not help either, the whole try is
taken back, from what the API server shows and not from memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import structlog

from drabridge.core.bind.placement import (
    Placement,
    Share,
    Special,
    binding,
    fence,
    finalized,
    outstanding,
    pod_status,
    released_status,
    reserved_status,
    results_of,
    unfinalized,
)
from drabridge.core.bind.podclaims import CONSUMERS_MAX, ClaimRecord, special_name
from drabridge.core.errors import AlreadyExists, Conflict, Missing, Unavailable
from drabridge.core.podview import PodView
from drabridge.core.reasons import Reason
from drabridge.kube.caches import BindStores
from drabridge.kube.client import Client, PatchType
from drabridge.kube.clock import SYSTEM, Clock, meta_time
from drabridge.kube.resources import PODS, RESOURCE_CLAIMS

PAUSES: Final = (0.05, 0.2, 0.8)
"""Seconds before each repeat of a write that got no answer."""

PAUSE_MAX: Final = 2.0
CONFLICTS_MAX: Final = 8
CONDITIONS_WITHIN: Final = 15.0
"""Seconds for which a bind call waits for binding conditions; kube-scheduler waits 20 s for its answer."""

T = TypeVar("T")
_log = structlog.get_logger(__name__)


class Unprepared(Unavailable):
    """The devices are allocated and reserved, and their drivers have not prepared them yet: nothing is taken back."""


@dataclass(frozen=True, slots=True)
class Undoing:
    """What is to be taken back: all that the Pod has of `claims` (namespace/name), and the special claim itself."""

    pod: PodView
    claims: tuple[str, ...]
    why: str


class BindWrites:
    """Writes as the fenced client, and reads what became of it."""

    def __init__(self, stores: BindStores, client: Client, *, clock: Clock = SYSTEM) -> None:
        self._stores = stores
        self._client = client
        self._clock = clock

    # --- forth

    async def write(self, pod: PodView, placement: Placement) -> None:
        """Do all writes in their order. Raises DrabridgeError; what was written is then to be taken back."""
        records = [await self._repeated(self._reserve, pod, share) for share in placement.shares]
        if placement.special:
            records.append(await self._make(pod, placement.special))
        await self._finish(pod, placement, records)

    async def resume(self, pod: PodView, placement: Placement, keys: Sequence[str]) -> None:
        """Go on where `write` ended with Unprepared. Raises Conflict if somebody has released a claim meanwhile.

        What was allocated then is not written again: nobody counts it as in use any more once it was released.
        """
        await self._finish(pod, placement, [await self._repeated(self._still, pod, key) for key in keys])

    async def _still(self, pod: PodView, key: str) -> ClaimRecord:
        record = await self._read(key)
        if record.allocation is None or not record.is_reserved_for(pod.uid) or record.deleting:
            raise Conflict(f"ResourceClaim {key} was released meanwhile")
        return record

    async def _finish(self, pod: PodView, placement: Placement, records: list[ClaimRecord]) -> None:
        await self._await_conditions(records)
        version = pod.resource_version if records else None
        if placement.special:
            version = await self._tell_pod(pod, placement.special, placement.node)
        await self._bind(pod, placement.node, version)

    async def _repeated(self, write: Callable[..., Awaitable[T]], *args: Any) -> T:
        for pause in PAUSES:
            try:
                return await write(*args)
            except Unavailable as error:
                await self._pause(min(max(pause, error.retry_after or 0.0), PAUSE_MAX))
        return await write(*args)

    async def _pause(self, seconds: float) -> None:
        await self._clock.pause(asyncio.Event(), seconds)

    async def _make(self, pod: PodView, special: Special) -> ClaimRecord:
        record = await self._repeated(self._create, pod, special)
        if record.owner_uid != pod.uid or record.allocation is not None or record.deleting:
            raise Conflict(f"ResourceClaim {record.key} is not as this try would have made it")
        return await self._repeated(self._fill, pod, record.key, special.allocation)

    async def _create(self, pod: PodView, special: Special) -> ClaimRecord:
        try:
            raw = await self._client.create(RESOURCE_CLAIMS, pod.namespace, special.body)
        except AlreadyExists:  # by this try, whose answer was lost; whoever asked for this one sees if not
            raw = await self._client.get(RESOURCE_CLAIMS, pod.namespace, special_name(pod.uid))
        return self._take_in(raw)

    async def _reserve(self, pod: PodView, share: Share) -> ClaimRecord:
        """Let a claim that the Pod names be its own, and allocate it if need be."""
        return await self._fill(pod, share.claim.key, share.allocation, share.claim)

    async def _fill(self, pod: PodView, key: str, allocation: Any, record: ClaimRecord | None = None) -> ClaimRecord:
        """Write allocation and consumer. Others may reserve a shared claim meanwhile; allocate it they must not."""
        record = record or self._known(key)
        for _ in range(CONFLICTS_MAX):
            if record.is_reserved_for(pod.uid) and (allocation is None or _is_same(allocation, record.allocation)):
                return record
            if record.deleting or len(record.reserved) >= CONSUMERS_MAX:
                raise Conflict(f"ResourceClaim {key} is being deleted, or has {CONSUMERS_MAX} consumers")
            if (allocation is None) != (record.allocation is not None):
                raise Conflict(f"ResourceClaim {key} was allocated or released meanwhile")
            try:
                if allocation is not None and (patch := finalized(record)):
                    record = await self._patch(record, patch)
                return await self._patch(record, reserved_status(record, pod, allocation), "status")
            except Conflict:
                record = await self._read(key)
        raise Conflict(f"ResourceClaim {key} is written all the time")

    async def _await_conditions(self, records: list[ClaimRecord]) -> None:
        """Wait until drivers have prepared the devices that ask for it."""
        deadline = self._clock.monotonic() + CONDITIONS_WITHIN
        while True:
            missing, failed = outstanding(records)
            if failed:
                raise Conflict(f"devices cannot be prepared: {', '.join(failed)}")
            if not missing:
                return
            if self._clock.monotonic() >= deadline:
                raise Unprepared(f"devices are being prepared: {', '.join(missing)}")
            await self._pause(0.2)
            records = [self._known(record.key) for record in records]

    async def _tell_pod(self, pod: PodView, special: Special, node: str) -> str:
        """Write claim and devices on the Pod, whatever its version is by now; give the one it has then."""
        version = pod.resource_version
        for _ in range(CONFLICTS_MAX):
            try:
                return await self._repeated(self._patch_pod, pod, pod_status(pod, version, special, node, self._now()))
            except Conflict:
                raw = await self._repeated(self._client.get, PODS, pod.namespace, pod.name)
                _check_waiting(raw, pod)
                version = raw["metadata"]["resourceVersion"]
        raise Conflict(f"{pod.described} is written all the time")

    async def _patch_pod(self, pod: PodView, body: Any) -> str:
        raw = await self._client.patch(PODS, pod.namespace, pod.name, body, PatchType.STRATEGIC, subresource="status")
        return str(raw["metadata"]["resourceVersion"])

    async def _bind(self, pod: PodView, node: str, version: str | None) -> None:
        """Bind on condition of the version, or of a newer one if somebody wrote the Pod meanwhile."""
        pauses = iter(PAUSES)
        for _ in range(CONFLICTS_MAX):
            try:
                await self._client.post(PODS, pod.namespace, pod.name, "binding", binding(pod, node, version))
            except Conflict:
                pass
            except Unavailable as error:
                pause = next(pauses, None)
                if pause is None:
                    raise
                await self._pause(min(max(pause, error.retry_after or 0.0), PAUSE_MAX))
            else:
                return
            raw = await self._repeated(self._client.get, PODS, pod.namespace, pod.name)
            if raw["metadata"]["uid"] == pod.uid and raw["spec"].get("nodeName") == node:
                return
            _check_waiting(raw, pod)
            if version is not None:
                version = raw["metadata"]["resourceVersion"]
        raise Conflict(f"{pod.described} is written all the time")

    # --- back

    async def undo(self, undoing: Undoing) -> str:
        """Take everything back, unless the Pod is bound by now: give the node it is bound to, or "".

        Raises DrabridgeError where it could not be finished; it can be repeated.
        """
        if bound_to := await self._repeated(self._fence, undoing.pod, undoing.why):
            return bound_to
        for key in undoing.claims:
            await self._repeated(self._give_back, undoing.pod, key)
        return ""

    async def _fence(self, pod: PodView, why: str) -> str:
        """Write on the Pod that it was not bound, so that no binding of this try comes through any more; "" if done."""
        for _ in range(CONFLICTS_MAX):
            try:
                raw = await self._client.get(PODS, pod.namespace, pod.name)
                if raw["metadata"]["uid"] != pod.uid:
                    return ""
                if bound_to := raw["spec"].get("nodeName"):
                    return str(bound_to)
                body = fence(raw, f"{Reason.BIND_FAILED}: {why}", self._now())
                await self._client.patch(PODS, pod.namespace, pod.name, body, PatchType.STRATEGIC, subresource="status")
            except Missing:
                return ""
            except Conflict:
                continue
            return ""
        raise Unavailable(f"{pod.described} is written all the time")

    async def _give_back(self, pod: PodView, key: str) -> None:
        special = key == f"{pod.namespace}/{special_name(pod.uid)}"
        for _ in range(CONFLICTS_MAX):
            try:
                record = await self._read(key)
                if special and record.owner_uid != pod.uid:
                    return
                if patch := released_status(record, pod.uid):
                    record = await self._patch(record, patch, "status")
                if record.allocation is None and (patch := unfinalized(record)):
                    record = await self._patch(record, patch)
                if special:
                    await self._client.delete(RESOURCE_CLAIMS, record.namespace, record.name, uid=record.uid)
                    await self._read(key)  # in the rule it is gone at once
            except Missing:
                return
            except Conflict:
                continue
            return
        raise Unavailable(f"ResourceClaim {key} is written all the time")

    # --- claims

    def _known(self, key: str) -> ClaimRecord:
        record = self._stores.claims.get(key)
        if record is None:
            raise Conflict(f"ResourceClaim {key} was deleted meanwhile")
        return record

    async def _read(self, key: str) -> ClaimRecord:
        namespace, _, name = key.partition("/")
        try:
            return self._take_in(await self._client.get(RESOURCE_CLAIMS, namespace, name))
        except Missing:
            self._stores.claims.missing(key)
            raise

    async def _patch(self, record: ClaimRecord, body: Any, subresource: str | None = None) -> ClaimRecord:
        raw = await self._client.patch(
            RESOURCE_CLAIMS, record.namespace, record.name, body, PatchType.MERGE, subresource=subresource
        )
        return self._take_in(raw)

    def _take_in(self, raw: Any) -> ClaimRecord:
        """Let everybody know at once what was written, not only when the watch shows it."""
        self._stores.claims.seen(raw)
        return ClaimRecord.of(raw)

    def _now(self) -> str:
        return meta_time(self._clock.wall())


def _is_same(wanted: Any, found: Any) -> bool:
    """Whether two allocations give the same devices; the API server may write the rest of one in its own way."""
    return found is not None and results_of(found) == results_of(wanted)


def _check_waiting(raw: Any, pod: PodView) -> None:
    """Raise Conflict unless it is the same Pod, and it still waits for a node."""
    if raw["metadata"]["uid"] != pod.uid or "deletionTimestamp" in raw["metadata"]:
        raise Conflict(f"{pod.described} was deleted")
    if bound_to := raw["spec"].get("nodeName"):
        raise Conflict(f"{pod.described} is bound to {bound_to}")
