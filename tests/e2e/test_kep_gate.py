"""The KEP's end-to-end list, where the cluster changes: an upgrade and the way back, the gate off and on again.

Numbers are those of upstream's list (KEP-5004, "Test Plan"). One cluster serves names by kube-scheduler (Native), by
drabridge's allocation (Bind) and by rewritten Pods at the same time, each by its explicit and by its implicit name.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from bind_site import NEW, BindSite, bind_site, bound, claims, unschedulable
from cluster_site import CLASSES, claim_name, container, pod
from upstream.api import MERGE_PATCH, Object, wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

pytestmark = pytest.mark.skipif(
    "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, to be upgraded"
)

OLD = "1.36"
DELIVERIES = ("Native", "Bind", "Rewrite")
NS = "default"


@pytest_asyncio.fixture
async def site(
    controlplane_binary: Path, controlplane_directory: Path, unique: Callable[[], str]
) -> AsyncIterator[BindSite]:
    """Kubernetes 1.36, where the gate can be switched off, with drabridge and its kube-scheduler."""
    async with bind_site(controlplane_binary, controlplane_directory / unique(), OLD) as made:
        yield made


@dataclass(frozen=True, slots=True)
class Name:
    """A resource name, and how it is served."""

    resource: str
    delivery: str
    policy: str

    async def create(self, site: BindSite, name: str) -> Object:
        return await site.create(NS, pod(f"{name}-{self.policy}", container(limits={self.resource: 1})))

    async def run(self, site: BindSite, name: str) -> Object:
        """Create a Pod; give it once it runs with its devices, served as the policy says."""
        made = await self.create(site, name)
        assert bool(claim_name(made)) is (self.delivery == "Rewrite")
        assert (made["spec"]["schedulerName"] == "drabridge-scheduler") is (self.delivery == "Bind")
        await bound(site, made)
        seen = await site.cluster.mark_running(made)
        assert await reserved(site, seen) == [seen["metadata"]["uid"]]
        return seen


def is_running(seen: Object) -> bool:
    return bool(seen["status"]["phase"] == "Running")


def claim_of(seen: Object) -> str:
    """The claim that the kubelet prepares for a Pod."""
    return claim_name(seen) or str(seen["status"]["extendedResourceClaimStatus"]["resourceClaimName"])


async def reserved(site: BindSite, seen: Object) -> list[str]:
    found = {claim["metadata"]["name"]: claim for claim in await claims(site, NS)}[claim_of(seen)]
    assert found["status"]["allocation"]["devices"]["results"]
    return [each["uid"] for each in found["status"]["reservedFor"]]


async def still_runs(site: BindSite, before: Object) -> None:
    now = await site.pod(before)
    assert now["metadata"]["uid"] == before["metadata"]["uid"]
    assert now["spec"] == before["spec"]
    assert is_running(now)
    assert claim_of(now) == claim_of(before)
    assert await reserved(site, now) == [now["metadata"]["uid"]]


async def names_of(site: BindSite, undo: AsyncExitStack) -> list[Name]:
    """An explicit and an implicit name for each delivery."""
    found = []
    for delivery in DELIVERIES:
        policy = delivery.lower()
        served = await site.serve(policy, undo, devices=16, kubelet_version=NEW, policy={"delivery": delivery})
        spec = {"spec": {"extendedResourceName": served.name}}
        await site.api.call("PATCH", f"{CLASSES}/{served.device_class}", spec, MERGE_PATCH)
        implicit = Name(f"deviceclass.resource.kubernetes.io/{served.device_class}", delivery, f"{policy}-implicit")
        spec = {"resourceName": implicit.resource, "delivery": delivery}
        await site.add_policy(implicit.policy, spec, served.device_class, undo)
        for each in (Name(served.name, delivery, policy), implicit):
            await site.ready(each.policy, "Serving")
            found.append(each)
    return found


async def restart(site: BindSite, version: str | None, *, gate: bool = True) -> None:
    """The same cluster in another version, or with the gate DRAExtendedResource switched; its kube-schedulers too."""
    site.scheduler.stop()
    await site.cluster.restart_as(version, {} if gate else {"DRAExtendedResource": False})
    await site.scheduler.start()


async def all_go(site: BindSite, pods: list[Object]) -> None:
    for each in pods:
        await site.delete(each)
    await wait_for(lambda: claims(site, NS), "the claims to go", until=lambda left: not left, deadline=60)


@pytest.mark.slow
async def test_10_and_11_pods_live_through_an_upgrade_and_back_and_new_ones_come(
    site: BindSite, afterwards: AsyncExitStack
) -> None:
    names = await names_of(site, afterwards)
    pods = await asyncio.gather(*(name.run(site, "before") for name in names))
    for version, stage in ((None, "upgraded"), (OLD, "back")):
        await restart(site, version)
        await asyncio.gather(*(still_runs(site, each) for each in pods))
        for name in names:
            await site.ready(name.policy, "Serving")
        pods += await asyncio.gather(*(name.run(site, stage) for name in names))
    await all_go(site, pods)


async def test_12_15_and_16_the_gate_is_switched_off_and_on_again(site: BindSite, afterwards: AsyncExitStack) -> None:
    """What runs goes on, and is freed when it ends. New Pods wait, but for those that are rewritten."""
    names = await names_of(site, afterwards)
    first = await asyncio.gather(*(name.run(site, "first") for name in names))
    second = await asyncio.gather(*(name.run(site, "second") for name in names))

    await restart(site, OLD, gate=False)
    without = [name for name in names if name.delivery != "Rewrite"]
    for name in without:
        await site.ready(name.policy, "GateOff")
    made = await site.api.call(
        "POST", CLASSES, {"metadata": {"name": "new"}, "spec": {"extendedResourceName": "new.example.com/gpu"}}
    )
    assert "extendedResourceName" not in made["spec"]
    await asyncio.gather(*(still_runs(site, each) for each in (*first, *second)))
    waiting = [await name.create(site, "waits") for name in without]
    for name, each in zip(without, waiting, strict=True):
        assert each["spec"]["schedulerName"] == "default-scheduler"
        assert f"Insufficient {name.resource}" in await unschedulable(site, each)
        assert "extendedResourceClaimStatus" not in (await site.pod(each))["status"]
    rewritten = [await name.run(site, "meanwhile") for name in names if name.delivery == "Rewrite"]
    for each in first:
        await site.delete(each)
    gone = {claim_of(each) for each in first}

    async def left() -> set[str]:
        return gone & {claim["metadata"]["name"] for claim in await claims(site, NS)}

    await wait_for(left, "the claims of deleted Pods to go", until=lambda names: not names, deadline=60)
    await asyncio.gather(*(still_runs(site, each) for each in second))

    await restart(site, OLD)
    for name in names:
        await site.ready(name.policy, "Serving")
    await asyncio.gather(*(still_runs(site, each) for each in (*second, *rewritten)))
    fresh = await asyncio.gather(*(name.run(site, "fresh") for name in names))
    await all_go(site, [*second, *rewritten, *fresh, *waiting])
