"""Pods that the webhook missed, the strict overlay, certificates that are replaced, and drabridge's own removal."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from cluster_site import POLICIES, Served, Site, allocation, claim_name, container, drain, pod
from upstream.api import MERGE_PATCH, Refused, wait_for
from upstream.installation import CONFIGURATION, NAMESPACE, REPOSITORY, Installation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from upstream.api import Object
    from upstream.controlplane import ControlPlane

pytestmark = pytest.mark.parametrize("kubernetes", ["1.35"])
FAST = ("--pending-every=0.5", "--probe-every=1")
COMPONENT = REPOSITORY / "manifests" / "components" / "recreate-missed-pods"

Install = Callable[..., Awaitable[Site]]


@pytest_asyncio.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as undo:
        yield undo


@pytest.fixture
def install(own_plane: ControlPlane, stack: AsyncExitStack) -> Install:
    """Installs drabridge on a control plane of the test's own, with played kubelets."""

    async def make(*options: str, overlay: str = "default") -> Site:
        installation = Installation(own_plane, options=(*FAST, *options), overlay=overlay)
        await stack.enter_async_context(installation)
        kubelets = asyncio.create_task(own_plane.play_kubelets())
        stack.callback(kubelets.cancel)
        return Site(own_plane, installation)

    return make


async def serve(site: Site, stack: AsyncExitStack, name: str = "gpu", **options: object) -> Served:
    return await site.serve(name, stack, devices=16, policy=options)


async def allow_recreation(site: Site) -> None:
    rbac = (COMPONENT / "rbac.yaml").read_text()
    await site.cluster.kubectl("apply", "-f", "-", stdin=rbac)


def deployment(name: str, limits: dict[str, int], replicas: int) -> Object:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod("", container(limits=limits))["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name}, "spec": spec}


async def pods_of(site: Site, app: str) -> list[Object]:
    listed = await site.api.call("GET", "/api/v1/namespaces/default/pods", query={"labelSelector": f"app={app}"})
    return [each for each in listed["items"] if "deletionTimestamp" not in each["metadata"]]


async def test_missed_pods_are_reported_and_made_anew_only_where_the_policy_says_so(
    install: Install, stack: AsyncExitStack
) -> None:
    site = await install()
    await allow_recreation(site)
    gpu = await serve(site, stack, missedPods="Recreate")
    other = await serve(site, stack, "other")
    replica = site.installed.replicas[0]
    await replica.stop()
    path = "/apis/apps/v1/namespaces/default/deployments"
    await site.api.call("POST", path, deployment("web", {gpu.name: 1}, 3))
    await site.api.call("POST", path, deployment("reported", {other.name: 1}, 1))
    await wait_for(lambda: pods_of(site, "web"), "three missed Pods", until=lambda pods: len(pods) == 3)
    [reported] = await wait_for(lambda: pods_of(site, "reported"), "a missed Pod", until=lambda pods: len(pods) == 1)
    alone = await site.create("default", pod("alone", container(limits={gpu.name: 1})))
    assert not claim_name(alone)

    await site.installed.start_replica()
    served = await wait_for(
        lambda: pods_of(site, "web"),
        "three served Pods instead of them",
        until=lambda pods: len(pods) == 3 and all(map(allocation, pods)),
        deadline=60,
    )
    assert all(map(claim_name, served))
    for each in (alone, reported):
        event = await site.event(each, "MissedByWebhook")
        assert "was not rewritten when it was stored" in event["note"]
        assert (await site.pod(each))["metadata"]["uid"] == each["metadata"]["uid"]
    current = site.installed.replicas[-1]
    await wait_for(
        lambda: current.metric("drabridge_pending_pods_left_alone", reason="MissedByWebhook"),
        "the metric",
        until=lambda value: value == 2,
    )


async def test_without_the_component_a_missed_pod_stays_and_the_event_names_what_is_missing(
    install: Install, stack: AsyncExitStack
) -> None:
    site = await install()
    gpu = await serve(site, stack, missedPods="Recreate")
    await site.installed.replicas[0].stop()
    await site.api.call("POST", "/apis/apps/v1/namespaces/default/deployments", deployment("web", {gpu.name: 1}, 1))
    [missed] = await wait_for(lambda: pods_of(site, "web"), "a missed Pod", until=lambda pods: len(pods) == 1)
    await site.installed.start_replica()
    event = await site.event(missed, "MissedByWebhook")
    assert "recreate-missed-pods" in event["note"]


async def test_strict_refuses_pods_of_served_names_while_drabridge_is_away_and_no_others(
    install: Install, stack: AsyncExitStack
) -> None:
    site = await install("--strict", overlay="strict")
    gpu = await serve(site, stack)

    async def expression() -> str:
        configuration = await site.api.call("GET", CONFIGURATION)
        return str(configuration["webhooks"][0]["matchConditions"][0]["expression"])

    await wait_for(expression, "the name to be matched", until=lambda text: gpu.name in text)
    await site.bound_back(await site.create("default", pod("served", container(limits={gpu.name: 1}))))

    await site.installed.replicas[0].stop()
    with pytest.raises(Refused, match="failed calling webhook"):
        await site.create("default", pod("refused", container(limits={gpu.name: 1})))
    await site.create("default", pod("plain", container()))
    await site.create("default", pod("other", container(limits={"example.com/other": 1})))
    # Finalizers of controllers must be removable from rewritten Pods all the same.
    path = "/api/v1/namespaces/default/pods/served"
    await site.api.call("PATCH", path, {"metadata": {"labels": {"changed": "yes"}}}, MERGE_PATCH)

    await site.installed.start_replica()
    await site.api.call("DELETE", f"{POLICIES}/{gpu.policy}")
    await wait_for(expression, "the name to be matched no more", until=lambda text: gpu.name not in text)


async def served_certificate(port: int) -> bytes:
    """The certificate (DER) that the webhook shows now."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    await writer.wait_closed()
    return bytes(certificate)


async def test_certificates_and_authority_are_replaced_without_a_restart_and_without_a_missed_pod(
    install: Install, stack: AsyncExitStack
) -> None:
    """An authority of 45 seconds and certificates of 20: two thirds, the overlap, and the next authority signs."""
    site = await install("--authority-hours=0.0125", f"--cert-hours={20 / 3600}")
    gpu = await serve(site, stack)
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/drabridge-webhook-ca"

    async def authority() -> str:
        return str((await site.api.call("GET", secret))["data"]["ca.crt"])

    first_authority, first_certificate = await authority(), await served_certificate(site.installed.webhook_port)
    created: list[Object] = []
    while await authority() == first_authority:
        assert len(created) < 600, "no other authority after all this time"
        created.append(await site.create("default", pod(f"p{len(created)}", container(limits={gpu.name: 1}))))
        await site.delete(created[-1])
        await asyncio.sleep(0.2)
    for _ in range(60):  # on, while replicas take the new authority over
        created.append(await site.create("default", pod(f"p{len(created)}", container(limits={gpu.name: 1}))))
        await site.delete(created[-1])
        await asyncio.sleep(0.2)
    missed = [each["metadata"]["name"] for each in created if not claim_name(each)]
    assert not missed
    assert await served_certificate(site.installed.webhook_port) != first_certificate
    configuration = await site.api.call("GET", CONFIGURATION)
    bundle = base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"])
    assert base64.b64decode(await authority()) in bundle
    assert base64.b64decode(first_authority) in bundle
    replica = site.installed.replicas[0]
    for name in ("serving", "authority"):
        assert await replica.metric("drabridge_certificate_expiry_timestamp_seconds", certificate=name) > 0


async def test_draining_lets_running_pods_go_on_after_everything_is_deleted(
    install: Install, stack: AsyncExitStack
) -> None:
    site = await install()
    gpu = await serve(site, stack)
    running = await site.bound_back(await site.create("default", pod("running", container(limits={gpu.name: 1}))))
    await wait_for(lambda: site.pod(running), "it to run", until=lambda seen: seen["status"]["phase"] == "Running")

    code, text = await drain(site, "--dry-run")
    assert code == 0
    assert "with their claims: 1" in text
    assert (await site.api.request("GET", CONFIGURATION))[0] == 200

    code, text = await drain(site)
    assert code == 0, text
    assert "webhook: switched off" in text
    assert "drabridge can be deleted" in text
    assert not claim_name(await site.create("default", pod("later", container(limits={gpu.name: 1}))))

    await site.installed.replicas[0].stop()
    overlay = str(REPOSITORY / "manifests" / "overlays" / "default")
    await site.cluster.kubectl("delete", "-k", overlay, "--wait=false", "--ignore-not-found")
    still = await site.pod(running)
    assert still["status"]["phase"] == "Running"
    assert await site.claim_exists(running)
    await site.finish(running)
    await wait_for(lambda: site.claim_exists(running), "Kubernetes to free it", until=lambda there: not there)


async def test_where_no_webhook_is_registered_nothing_is_made_anew(install: Install, stack: AsyncExitStack) -> None:
    """The Pods that came instead would be missed as well, and be deleted in their turn, without end."""
    site = await install()
    await allow_recreation(site)
    gpu = await serve(site, stack, missedPods="Recreate")
    code, text = await drain(site)
    assert code == 0, text
    await site.api.call("POST", "/apis/apps/v1/namespaces/default/deployments", deployment("web", {gpu.name: 1}, 2))
    missed = await wait_for(lambda: pods_of(site, "web"), "two missed Pods", until=lambda pods: len(pods) == 2)
    for each in missed:
        await site.event(each, "MissedByWebhook")
    assert {each["metadata"]["uid"] for each in await pods_of(site, "web")} == {
        each["metadata"]["uid"] for each in missed
    }


async def test_drain_waits_for_pods_without_claims_and_names_them(install: Install, stack: AsyncExitStack) -> None:
    site = await install()
    gpu = await serve(site, stack)
    await site.api.call("DELETE", f"/apis/resource.k8s.io/v1/deviceclasses/{gpu.device_class}")
    waiting = await site.create("default", pod("waiting", container(limits={gpu.name: 1})))
    assert claim_name(waiting)
    code, text = await drain(site, "--timeout=2")
    assert code == 1
    assert "Pod default/waiting has no claim yet" in text
    assert "drabridge is still needed" in text
    body = {"metadata": {"name": gpu.device_class}, "spec": {"selectors": [{"cel": {"expression": "true"}}]}}
    await site.api.call("POST", "/apis/resource.k8s.io/v1/deviceclasses", body)
    code, text = await drain(site)
    assert code == 0, text
