"""An API server in memory, as far as a bind can tell: versions, preconditions, what claims may become; and its faults.

It is for what no real one can be brought to do on time: each write failing in each way, alone and one after the other,
and requests that arrive long after their sender gave them up. Everything else is tested on the real one.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from drabridge.core.errors import AlreadyExists, Conflict, Missing, NotLeader, Refused, Unavailable
from drabridge.kube.caches import BindStores, Store
from drabridge.kube.client import PatchType
from drabridge.kube.resources import NODES, PODS, RESOURCE_CLAIMS, Resource

Object = dict[str, Any]


class Fault(StrEnum):
    """What becomes of a write."""

    UNSENT = "not done, no answer"
    LOST = "done, no answer"
    CONFLICT = "409"
    REFUSED = "403"
    LATE = "no answer, done much later"
    OVER = "the Lease is over: not sent"


@dataclass
class World:
    """Objects by kind and namespace/name. `faults` is the number of a write, counted from 0, -> what becomes of it."""

    stores: BindStores
    faults: dict[int, Fault] = field(default_factory=dict)
    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    writes: list[str] = field(default_factory=list)
    late: list[Callable[[], Object]] = field(default_factory=list)
    _versions: Any = field(default_factory=lambda: itertools.count(100))

    def add(self, kind: str, raw: Object) -> Object:
        """Put an object in as if somebody else had created it."""
        metadata = raw["metadata"]
        key = f"{metadata['namespace']}/{metadata['name']}" if "namespace" in metadata else metadata["name"]
        metadata.setdefault("uid", f"uid-of-{key}")
        self.objects[kind, key] = raw
        return self._stored(kind, key)

    def pods(self) -> list[Object]:
        return [raw for (kind, _), raw in self.objects.items() if kind == "Pod"]

    def claims(self) -> list[Object]:
        return [raw for (kind, _), raw in self.objects.items() if kind == "ResourceClaim"]

    def deliver(self) -> None:
        """Let what was late arrive now."""
        waiting, self.late = self.late, []
        for request in waiting:
            with suppress(Conflict, Missing, Refused):
                request()

    # --- what a client asks

    async def get(self, resource: Resource, namespace: str | None, name: str) -> Object:
        await asyncio.sleep(0)
        return copy.deepcopy(self._find(resource, f"{namespace}/{name}" if namespace else name))

    async def list_pages(self, resource: Resource, *_: Any, **__: Any) -> AsyncIterator[Object]:
        items = [raw for (kind, _), raw in self.objects.items() if kind == resource.kind]
        if resource is PODS:
            items = [raw for raw in items if not raw["spec"].get("nodeName")]
        yield {"items": copy.deepcopy(items), "metadata": {"resourceVersion": str(next(self._versions))}}

    async def create(self, resource: Resource, namespace: str, body: Object) -> Object:
        return await self._write(f"create {resource.kind}", lambda: self._create(resource, namespace, body))

    async def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Object,
        patch_type: PatchType,  # noqa: ARG002 - a real client's
        *,
        subresource: str | None = None,
    ) -> Object:
        what = f"patch {resource.kind}/{subresource or ''}"
        return await self._write(what, lambda: self._patch(resource, f"{namespace}/{name}", body, subresource))

    async def delete(self, resource: Resource, namespace: str, name: str, *, uid: str) -> Object:
        return await self._write(f"delete {resource.kind}", lambda: self._delete(resource, f"{namespace}/{name}", uid))

    async def post(self, resource: Resource, namespace: str, name: str, subresource: str, body: Object) -> Object:
        assert (resource, subresource) == (PODS, "binding")
        return await self._write("create binding", lambda: self._bind(f"{namespace}/{name}", body))

    # --- what happens then

    async def _write(self, what: str, do: Callable[[], Object]) -> Object:
        await asyncio.sleep(0)  # others have their turn, as on the way to a real one
        number = len(self.writes)
        fault = self.faults.get(number)
        self.writes.append(f"{what}{f': {fault}' if fault else ''}")
        if fault is Fault.OVER:
            raise NotLeader("the Lease is over")
        if fault is Fault.UNSENT:
            raise Unavailable("no answer")
        if fault is Fault.CONFLICT:
            raise Conflict("somebody was faster")
        if fault is Fault.REFUSED:
            raise Refused(403, "Forbidden", "exceeded quota")
        if fault is Fault.LATE:
            self.late.append(do)
            raise Unavailable("no answer")
        answer = copy.deepcopy(do())
        if fault is Fault.LOST:
            raise Unavailable("no answer")
        return answer

    def _create(self, resource: Resource, namespace: str, body: Object) -> Object:
        raw = copy.deepcopy(body)
        raw["metadata"]["namespace"] = namespace
        raw.pop("status", None)
        key = f"{namespace}/{raw['metadata']['name']}"
        if (resource.kind, key) in self.objects:
            raise AlreadyExists(f"{resource.kind} {key}")
        raw["metadata"]["uid"] = f"{key}-{next(self._versions)}"
        self.objects[resource.kind, key] = raw
        return self._stored(resource.kind, key)

    def _patch(self, resource: Resource, key: str, body: Object, subresource: str | None) -> Object:
        old = self._find(resource, key)
        self._check_preconditions(old, body["metadata"])
        new = copy.deepcopy(old)
        if subresource == "status":
            conditions = {each["type"]: each for each in new.get("status", {}).get("conditions", ())}
            conditions |= {each["type"]: each for each in body["status"].get("conditions", ())}
            status = _merged(new.get("status", {}), body["status"])
            new["status"] = {**status, "conditions": list(conditions.values())} if conditions else status
            new["metadata"] = _merged(new["metadata"], {"annotations": body["metadata"].get("annotations", {})})
        else:
            new["metadata"] = _merged(new["metadata"], body["metadata"])
        if resource is RESOURCE_CLAIMS:
            _check_claim(old, new)
        if new == old:
            return old
        self.objects[resource.kind, key] = new
        stored = self._stored(resource.kind, key)
        self._collect(resource.kind, key)
        return stored

    def _delete(self, resource: Resource, key: str, uid: str) -> Object:
        raw = self._find(resource, key)
        self._check_preconditions(raw, {"uid": uid})
        raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self._stored(resource.kind, key)
        self._collect(resource.kind, key)
        return raw

    def _bind(self, key: str, body: Object) -> Object:
        pod = self._find(PODS, key)
        self._check_preconditions(pod, body["metadata"])
        if pod["spec"].get("nodeName"):
            raise Conflict(f"pod {key} is already assigned to node {pod['spec']['nodeName']}")
        pod["spec"]["nodeName"] = body["target"]["name"]
        return self._stored("Pod", key)

    def _find(self, resource: Resource, key: str) -> Object:
        try:
            return self.objects[resource.kind, key]
        except KeyError:
            raise Missing(f"{resource.kind} {key}") from None

    def _check_preconditions(self, raw: Object, wanted: Object) -> None:
        for name in ("uid", "resourceVersion"):
            if wanted.get(name, raw["metadata"][name]) != raw["metadata"][name]:
                raise Conflict(f"{name} is {raw['metadata'][name]}, not {wanted[name]}")

    def _collect(self, kind: str, key: str) -> None:
        """What is deleted goes when nothing holds it any more."""
        metadata = self.objects[kind, key]["metadata"]
        if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
            raw = self.objects.pop((kind, key))
            self._watched(kind, raw, deleted=True)

    def _stored(self, kind: str, key: str) -> Object:
        raw = self.objects[kind, key]
        raw["metadata"]["resourceVersion"] = str(next(self._versions))
        self._watched(kind, raw, deleted=False)
        return raw

    def _watched(self, kind: str, raw: Object, *, deleted: bool) -> None:
        stores: dict[str, Store[Any]] = {
            "ResourceClaim": self.stores.claims,
            "Node": self.stores.nodes,
            "ResourceSlice": self.stores.slices,
            "DeviceClass": self.stores.classes,
        }
        store = stores.get(kind)
        if store is not None:
            version = {"resourceVersion": str(next(self._versions))} if deleted else {}
            seen = {**raw, "metadata": {**raw["metadata"], **version}}
            change = store.seen(copy.deepcopy(seen), deleted=deleted)
            if change:
                self.changed(store, change)

    changed: Callable[[Any, Any], None] = field(default=lambda _store, _change: None)


def _merged(old: Object, patch: Object) -> Object:
    new = dict(old)
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        elif isinstance(value, dict):
            new[key] = _merged(new.get(key) or {}, value)
        else:
            new[key] = value
    return new


def _check_claim(old: Object, new: Object) -> None:
    """`ValidateResourceClaimStatusUpdate`, as far as it matters here."""
    before, after = old.get("status", {}), new.get("status", {})
    allocation = after.get("allocation")
    if before.get("allocation") and allocation and before["allocation"] != allocation:
        raise Refused(422, "Invalid", "status.allocation: field is immutable")
    if after.get("reservedFor") and not allocation:
        raise Refused(422, "Invalid", "status.reservedFor: may not be specified when allocation is not set")
    if after.get("reservedFor") and "deletionTimestamp" in new["metadata"] and not before.get("reservedFor"):
        raise Refused(422, "Invalid", "status.reservedFor: new entries may not be added while it is being deleted")
    if allocation and not new["metadata"].get("finalizers"):
        raise AssertionError("an allocated claim without the finalizer")


__all__ = ["NODES", "Fault", "Object", "World"]
