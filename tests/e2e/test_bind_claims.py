"""Delivery Bind, and Pods that ask for the same drivers' devices by claims of their own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from bind_site import RESOURCE_API, SCHEDULER, BindSite, bind, bound, check, claim_body, claims, devices_of
from cluster_site import container, create_by_kubectl, pod, squeezed

if TYPE_CHECKING:
    from contextlib import AsyncExitStack

    from e2e.conftest import Serve
    from upstream.api import Object

pytestmark = pytest.mark.skipif(
    "DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="needs a control plane of its own, with a second scheduler"
)


@pytest.fixture(name="site")
def site_of_bind(bind_site: BindSite) -> BindSite:
    """The site that `serve` and `ns` use."""
    return bind_site


WANTED = {"podsWithClaims": "Bind"}


def template_body(name: str, device_class: str) -> Object:
    kind = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate"}
    return {**kind, "metadata": {"name": name}, "spec": {"spec": claim_body("", device_class)["spec"]}}


def user(name: str, *entries: Object) -> Object:
    """A Pod that asks for no extended name and uses claims."""
    named = [{"name": f"claim-{number}", **entry} for number, entry in enumerate(entries)]
    return pod(name, container(), resourceClaims=named)


async def test_pods_with_claims_go_where_the_drivers_devices_are_given_away(
    site: BindSite, ns: str, serve: Serve, afterwards: AsyncExitStack
) -> None:
    """By a claim, by a template, by another class with devices of the same driver; each right after what it names."""
    gpu = await bind(site, serve, devices=3, policy=WANTED)
    other = await site.add_class(f"{gpu.device_class}-x", f"{gpu.policy}.example.com", afterwards)
    path = f"{RESOURCE_API}/namespaces/{ns}"
    await site.api.call("POST", f"{path}/resourceclaims", claim_body("own", gpu.device_class))
    made = [await site.create(ns, user("claim", {"resourceClaimName": "own"}))]
    await site.api.call("POST", f"{path}/resourceclaimtemplates", template_body("each", gpu.device_class))
    made.append(await site.create(ns, user("template", {"resourceClaimTemplateName": "each"})))
    await site.api.call("POST", f"{path}/resourceclaims", claim_body("other", other))
    made.append(await site.create(ns, user("other-class", {"resourceClaimName": "other"})))
    for each in made:
        assert each["spec"]["schedulerName"] == SCHEDULER
        assert each["metadata"]["labels"] == {"drabridge.io/delivery": "Bind"}
        await bound(site, each)
    found = await claims(site, ns)
    assert len({device for claim in found for device in devices_of(claim)}) == 3
    assert {manager["manager"] for claim in found for manager in claim["metadata"]["managedFields"]}.isdisjoint(
        {"kube-scheduler"}
    )
    await check(site, ns)


async def test_pods_with_claims_keep_their_scheduler_where_nothing_is_to_be_shared(
    site: BindSite, ns: str, serve: Serve
) -> None:
    silent = await bind(site, serve)
    wanting = await bind(site, serve, policy={**WANTED, "podSelector": {"matchLabels": {"team": "a"}}})
    path = f"{RESOURCE_API}/namespaces/{ns}/resourceclaims"
    for gpu in (silent, wanting):
        await site.api.call("POST", path, claim_body(gpu.policy, gpu.device_class))
        made = await site.create(ns, user(gpu.policy, {"resourceClaimName": gpu.policy}))
        assert made["spec"]["schedulerName"] == "default-scheduler"
        assert "labels" not in made["metadata"]
        await bound(site, made)


async def test_a_claim_that_comes_after_its_pod_is_allocated_by_the_pods_own_scheduler_and_the_author_is_told(
    site: BindSite, ns: str, serve: Serve
) -> None:
    gpu = await bind(site, serve, policy=WANTED)
    made, warnings = await create_by_kubectl(site, ns, user("early", {"resourceClaimName": "late"}))
    assert made["spec"]["schedulerName"] == "default-scheduler"
    assert squeezed(f"ClaimNotThereYet: Pod {ns}/early: ResourceClaim {ns}/late does not exist. Cure:") in warnings
    await site.api.call("POST", f"{RESOURCE_API}/namespaces/{ns}/resourceclaims", claim_body("late", gpu.device_class))
    await bound(site, made)
    shown = await site.condition(gpu.policy, "OneAllocator", "AllocatedByOthers")
    assert f"ResourceClaim {ns}/late (by kube-scheduler, " in shown["message"]
    await site.delete(made)
    await site.condition(gpu.policy, "OneAllocator", "OneAllocator")
