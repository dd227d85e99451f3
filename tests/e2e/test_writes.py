"""What drabridge writes, by the API server's audit log: as little as possible, once, and nothing twice."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from cluster_site import CLASSES, Site, claim_name, container, pod
from conftest import SITE_OPTIONS
from drabridge.core.reasons import Reason
from upstream.api import wait_for
from upstream.controlplane import ControlPlane
from upstream.installation import NAMESPACE, Installation

if TYPE_CHECKING:
    from upstream.api import Object

pytestmark = pytest.mark.skipif(
    "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, whose audit log can be read"
)

USER = f"system:serviceaccount:{NAMESPACE}:drabridge"
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
PODS = 20


class Log:
    """The audit log's entries of one user that were written after the last `forget`."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._known = 0

    def forget(self) -> None:
        self._known = len(self._plane.audit_entries(USER))

    def entries(self) -> list[Object]:
        return self._plane.audit_entries(USER)[self._known :]

    def lists(self, resource: str) -> int:
        return sum(each["verb"] == "list" and each["objectRef"]["resource"] == resource for each in self.entries())

    def writes(self) -> Iterator[tuple[str, str, Object]]:
        """Verb, resource (with its subresource) and entry of each write that was not a dry run."""
        for each in self.entries():
            if each["verb"] in WRITES and "dryRun=All" not in each["requestURI"]:
                reference = each["objectRef"]
                yield each["verb"], "/".join(filter(None, (reference["resource"], reference.get("subresource")))), each

    def to(self, verb: str, resource: str) -> Counter[str]:
        """How often each object (namespace/name) was written so, whatever the API server answered."""
        return Counter(
            f"{each['objectRef']['namespace']}/{each['objectRef'].get('name', '')}"
            for what, where, each in self.writes()
            if (what, where) == (verb, resource)
        )

    def forbidden(self) -> list[str]:
        """Requests that RBAC refused; those that admission refused are no fault of the manifests."""
        return [
            f"{each['verb']} {each['requestURI']}"
            for each in self.entries()
            if each["annotations"].get("authorization.k8s.io/decision") == "forbid"
        ]


@pytest_asyncio.fixture
async def audited(own_plane: ControlPlane) -> AsyncIterator[tuple[Site, Log]]:
    async with Installation(own_plane, options=SITE_OPTIONS) as installation:
        playing = asyncio.create_task(own_plane.play_kubelets())
        yield Site(own_plane, installation), Log(own_plane)
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing


async def running(site: Site, stored: Object) -> Object:
    return await wait_for(
        lambda: site.pod(stored), "it to run", until=lambda seen: seen["status"]["phase"] == "Running"
    )


async def claim_gone(site: Site, stored: Object) -> None:
    await wait_for(lambda: site.claim_exists(stored), "its claim to go", until=lambda there: not there)


OUR_FIELDS = {
    "f:metadata": {"f:annotations": {"f:drabridge.io/allocation": {}}},
    "f:status": {
        "f:conditions": {
            'k:{"type":"drabridge.io/DevicesAllocated"}': {
                ".": {},
                "f:lastProbeTime": {},  # null: the API server fills it in
                "f:lastTransitionTime": {},
                "f:message": {},
                "f:reason": {},
                "f:status": {},
                "f:type": {},
            }
        }
    },
}


def check_fields(stored: Object) -> None:
    """Of all fields of a Pod, the operator owns the annotation and the condition."""
    ours = [each for each in stored["metadata"]["managedFields"] if each["manager"].startswith("drabridge")]
    assert [each.get("subresource") for each in ours] == ["status"]
    assert ours[0]["fieldsV1"] == OUR_FIELDS


async def all_objects(site: Site) -> AsyncIterator[Object]:
    """Every object that the API server can list."""
    groups = (await site.api.call("GET", "/apis"))["groups"]
    for path in ("/api/v1", *(f"/apis/{version['groupVersion']}" for group in groups for version in group["versions"])):
        for resource in (await site.api.call("GET", path))["resources"]:
            if "list" in resource["verbs"]:
                for each in (await site.api.call("GET", f"{path}/{resource['name']}"))["items"]:
                    yield each


async def check_no_marks(site: Site) -> None:
    """Nothing in the cluster has a finalizer of ours or Kopf's bookkeeping."""
    seen = 0
    async for each in all_objects(site):
        metadata = each.get("metadata", {})
        marks = [*metadata.get("finalizers", ()), *metadata.get("annotations", {})]
        assert not [mark for mark in marks if "kopf" in mark], metadata
        assert not [mark for mark in metadata.get("finalizers", ()) if "drabridge" in mark], metadata
        seen += 1
    assert seen > 100  # a control plane has more objects than that of its own


async def test_a_pod_costs_one_claim_and_one_patch_in_all_its_life(
    audited: tuple[Site, Log], unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    site, log = audited
    gpu = await site.serve(unique(), afterwards, devices=32)
    created = [
        await site.create("default", pod(f"p{index}", container(limits={gpu.name: 1}), restartPolicy="Never"))
        for index in range(PODS)
    ]
    for each in created:
        await site.bound_back(each)
        check_fields(await running(site, each))
    for each in created[::2]:
        await site.finish(each)
        await claim_gone(site, each)
    await check_no_marks(site)
    for each in created:
        await site.delete(each)
        await claim_gone(site, each)
    await site.policy(gpu.policy, lambda seen: seen["pods"] == 0, "no Pod any more")

    once = {f"default/{each['metadata']['name']}": 1 for each in created}
    assert log.to("patch", "pods/status") == once
    assert log.to("create", "resourceclaims") == {f"default/{claim_name(each)}": 1 for each in created}
    kinds = {(verb, resource) for verb, resource, _ in log.writes()}
    assert kinds - BESIDES == {("patch", "pods/status"), ("create", "resourceclaims")}
    assert log.forbidden() == []


# What drabridge writes besides: events, the status of policies, and on its own account.
BESIDES = {
    ("create", "events"),
    ("patch", "extendedresourcepolicies/status"),
    ("create", "leases"),
    ("patch", "leases"),
    ("create", "secrets"),
    ("patch", "secrets"),
    ("patch", "mutatingwebhookconfigurations"),
    ("patch", "configmaps"),
}


async def test_a_restart_writes_nothing(
    audited: tuple[Site, Log], unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    site, log = audited
    gpu = await site.serve(unique(), afterwards, devices=4)
    gone = await site.serve(unique(), afterwards, on=gpu.nodes)

    def asks(name: str, count: int, resource: str = gpu.name, **spec: Any) -> Object:
        return pod(name, container(limits={resource: count}), **spec)

    up = [await site.create("default", asks(f"runs-{index}", 1)) for index in range(3)]
    ended = await site.create("default", asks("ended", 1, restartPolicy="Never"))
    for each in (*up, ended):
        await site.bound_back(each)
        await running(site, each)
    await site.finish(ended)
    for_devices = await site.create("default", asks("waits-for-devices", 3))
    await wait_for(lambda: site.claim_exists(for_devices), "its claim")
    await site.api.call("DELETE", f"{CLASSES}/{gone.device_class}")
    await site.ready(gone.policy, Reason.DEVICE_CLASS_MISSING)
    for_class = await site.create("default", asks("waits-for-class", 1, gone.name))
    await site.event(for_class, Reason.DEVICE_CLASS_MISSING)
    alone = await site.create("default", asks("alone", 33))
    await site.event(alone, Reason.TOO_MANY_DEVICES)
    pods = [*up, ended, for_devices, for_class, alone]
    await site.policy(gpu.policy, lambda seen: (seen["pods"], seen["claims"]) == (4, 4), "its counts")
    await site.policy(gone.policy, lambda seen: (seen["pods"], seen["claims"]) == (1, 0), "its counts")
    before = await versions(site, pods)

    log.forget()
    (first,) = site.installed.replicas
    assert await first.stop() == 0
    second = await site.installed.start_replica()

    async def settled() -> bool:
        # Three lists: to fill the caches, by the watch, and to find what the watch could not tell of.
        looked = log.lists("extendedresourcepolicies") >= 3 and log.lists("resourceclaims") >= 3
        leads = await second.metric("drabridge_leader") == 1
        waiting = await second.metric("drabridge_pods_without_claim", reason="DeviceClassMissing") == 1
        told = await second.metric("drabridge_pending_pods_left_alone", reason="TooManyDevices") == 1
        return looked and leads and waiting and told and await second.metric("drabridge_workqueue_depth") == 0

    await wait_for(settled, "the second replica to have looked at everything", deadline=60)
    # Only its Lease; events that are there already are offered again, and not stored twice.
    stored = {
        (verb, resource) for verb, resource, each in log.writes() if each["responseStatus"]["code"] not in (409, 404)
    }
    assert stored == {("patch", "leases")}
    assert {resource for _, resource, each in log.writes() if each["responseStatus"]["code"] == 409} <= {"events"}
    assert await versions(site, pods) == before
    assert log.forbidden() == []

    # And it goes on where the first one stopped.
    for each in up:
        await site.delete(each)
    await site.bound_back(for_devices)
    await site.add_class(gone.device_class, gone.name.partition("/")[0], afterwards)
    await wait_for(lambda: site.claim_exists(for_class), "the claim of the Pod that waited for its class")


async def versions(site: Site, pods: list[Object]) -> Object:
    """The resourceVersions of Pods, claims and policies."""
    found = {each["metadata"]["name"]: (await site.pod(each))["metadata"]["resourceVersion"] for each in pods}
    for path in (
        "/apis/resource.k8s.io/v1/resourceclaims",
        "/apis/drabridge.io/v1alpha1/extendedresourcepolicies",
        "/apis/events.k8s.io/v1/namespaces/default/events",
    ):
        for each in (await site.api.call("GET", path))["items"]:
            if each.get("reportingController", "drabridge.io/operator") == "drabridge.io/operator":
                found[f"{path}/{each['metadata']['name']}"] = each["metadata"]["resourceVersion"]
    return found


async def test_nothing_that_drabridge_asked_for_in_this_session_was_forbidden(ours: Site) -> None:
    assert isinstance(ours.cluster, ControlPlane)
    log = Log(ours.cluster)
    assert log.entries()
    assert log.forbidden() == []
    await check_no_marks(ours)
