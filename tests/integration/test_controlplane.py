"""What everything else rests on, asked of the real Kubernetes."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from upstream.api import Api, Refused, wait_for
from upstream.cluster import pod_path
from upstream.credentials import Authority

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import NewNode, NewObject
    from upstream.api import Object
    from upstream.controlplane import Component, ControlPlane

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
GATE_BY_VERSION = {"1.34": False, "1.35": False, "1.36": True, "1.37": True}


def device_class(name: str, driver: str, **spec: Any) -> Object:
    selectors = [{"cel": {"expression": f"device.driver == '{driver}'"}}]
    return {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}


def bare_pod(name: str, resources: Object, **spec: Any) -> Object:
    container = {"name": "main", "image": "example.com/none", "resources": resources}
    return {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}


def pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


def claims(namespace: str) -> str:
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"


def is_bound(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))


async def bound(plane: ControlPlane, pod: Object) -> Object:
    path = pod_path(pod)
    return await wait_for(lambda: plane.api.call("GET", path), f"{path} to get a node", until=is_bound)


@pytest.mark.parametrize("kubernetes", GATE_BY_VERSION)
async def test_a_class_keeps_its_extended_resource_name_only_where_the_gate_is_on(
    plane: ControlPlane, kubernetes: str, unique: Callable[[], str], new_object: NewObject
) -> None:
    name = unique()
    body = device_class(name, f"{name}.example.com", extendedResourceName=f"{name}.example.com/gpu")
    stored = await new_object(plane, CLASSES, body)
    kept = stored["spec"].get("extendedResourceName")
    assert kept == (f"{name}.example.com/gpu" if GATE_BY_VERSION[kubernetes] else None)
    version = await plane.api.call("GET", "/version")
    assert f"{version['emulationMajor']}.{version['emulationMinor']}" == kubernetes


async def test_a_service_account_may_do_only_what_it_was_given(plane: ControlPlane, namespace: str) -> None:
    api = Api.from_kubeconfig(await plane.kubeconfig_for(namespace, "default"))
    try:
        with pytest.raises(Refused, match=f"system:serviceaccount:{namespace}:default.*cannot list.*pods") as refused:
            await api.call("GET", pods(namespace))
        assert refused.value.status == 403
        await plane.kubectl("-n", namespace, "create", "role", "reader", "--verb=list", "--resource=pods")
        binding = ["--role=reader", f"--serviceaccount={namespace}:default"]
        await plane.kubectl("-n", namespace, "create", "rolebinding", "reader", *binding)
        _, answer = await wait_for(
            lambda: api.request("GET", pods(namespace)), "the role to be seen", until=lambda answer: answer[0] == 200
        )
        assert answer["items"] == []
        assert {
            entry["responseStatus"]["code"]
            for entry in plane.audit_entries(f"system:serviceaccount:{namespace}:default")
        } == {403, 200}
    finally:
        await api.close()


async def test_the_stock_scheduler_allocates_a_claim_that_comes_after_its_pod_and_a_finished_pod_frees_it(
    plane: ControlPlane, namespace: str, new_node: NewNode, new_object: NewObject
) -> None:
    driver = f"{namespace}.example.com"
    node = await new_node(plane, driver=driver, devices=2)
    await new_object(plane, CLASSES, device_class(namespace, driver))
    uses = {"claims": [{"name": "devices", "request": "both"}]}
    entry = {"name": "devices", "resourceClaimName": "late"}
    pod = await plane.api.call("POST", pods(namespace), bare_pod("waits", uses, resourceClaims=[entry]))
    with pytest.raises(AssertionError, match="not bound to a node"):
        await plane.mark_running(pod)

    owner = {"apiVersion": "v1", "kind": "Pod", "name": "waits", "uid": pod["metadata"]["uid"], "controller": True}
    request = {"name": "both", "exactly": {"deviceClassName": namespace, "count": 2}}
    claim = {"metadata": {"name": "late", "ownerReferences": [owner]}, "spec": {"devices": {"requests": [request]}}}
    await plane.api.call("POST", claims(namespace), claim)

    assert (await bound(plane, pod))["spec"]["nodeName"] == node
    stored = await plane.api.call("GET", f"{claims(namespace)}/late")
    results = stored["status"]["allocation"]["devices"]["results"]
    assert {(each["driver"], each["pool"], each["device"]) for each in results} == {
        (driver, node, f"{namespace}-0"),
        (driver, node, f"{namespace}-1"),
    }
    running = await plane.mark_running(pod)
    assert running["status"]["phase"] == "Running"
    assert "PodScheduled" in {each["type"] for each in running["status"]["conditions"]}

    await plane.finish(pod)
    await wait_for(
        lambda: plane.api.request("GET", f"{claims(namespace)}/late"),
        "the claim of the finished Pod to be deleted",
        until=lambda answer: answer[0] == 404,
    )


@pytest.mark.parametrize("kubernetes", ["1.37"])
async def test_with_the_gate_on_kube_scheduler_makes_the_claim_of_an_unmodified_pod(
    plane: ControlPlane, namespace: str, new_node: NewNode, new_object: NewObject
) -> None:
    driver = f"{namespace}.example.com"
    await new_node(plane, driver=driver, devices=1, kubelet_version="v1.37.2")
    await new_object(plane, CLASSES, device_class(namespace, driver, extendedResourceName=f"{driver}/gpu"))
    pod = await plane.api.call("POST", pods(namespace), bare_pod("plain", {"limits": {f"{driver}/gpu": "1"}}))
    special = (await bound(plane, pod))["status"]["extendedResourceClaimStatus"]
    assert special["requestMappings"] == [
        {"containerName": "main", "resourceName": f"{driver}/gpu", "requestName": "container-0-request-0"}
    ]
    await plane.mark_running(pod)


async def test_what_a_device_plugin_offers_appears_and_goes_with_it(
    plane: ControlPlane, namespace: str, new_node: NewNode
) -> None:
    resource = f"{namespace}.example.com/gpu"
    node = await new_node(plane, devices=0, allocatable={resource: 1})
    pod = await plane.api.call("POST", pods(namespace), bare_pod("served", {"limits": {resource: "1"}}))
    assert (await bound(plane, pod))["spec"]["nodeName"] == node
    await plane.set_allocatable(node, {resource: 0})
    status = (await plane.api.call("GET", f"/api/v1/nodes/{node}"))["status"]
    assert status["allocatable"][resource] == "0"
    await plane.set_allocatable(node, {resource: None})
    status = (await plane.api.call("GET", f"/api/v1/nodes/{node}"))["status"]
    assert resource not in status["allocatable"]
    assert status["allocatable"]["cpu"] == "64"


async def test_init_containers_end_and_sidecars_stay_until_the_pod_ends(
    plane: ControlPlane, namespace: str, new_node: NewNode
) -> None:
    await new_node(plane, devices=0)
    inits = [
        {"name": "init", "image": "example.com/none"},
        {"name": "sidecar", "image": "example.com/none", "restartPolicy": "Always"},
    ]
    pod = await plane.api.call("POST", pods(namespace), bare_pod("three", {}, initContainers=inits))
    await bound(plane, pod)

    def states(pod: Object) -> list[str]:
        both = pod["status"]["initContainerStatuses"] + pod["status"]["containerStatuses"]
        return [next(iter(each["state"])) for each in both]

    assert states(await plane.mark_running(pod)) == ["terminated", "running", "running"]
    finished = await plane.finish(pod, "Failed")
    assert states(finished) == ["terminated", "terminated", "terminated"]
    assert finished["status"]["phase"] == "Failed"


async def test_a_webhook_on_loopback_is_reached_through_its_service(
    plane: ControlPlane, namespace: str, unused_tcp_port: int, tmp_path: Path, new_object: NewObject
) -> None:
    authority = Authority("webhook")
    pair = authority.issue("webhook", hosts=[f"hook.{namespace}.svc"])
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*pair.write(tmp_path, "webhook"))
    seen: list[str] = []

    async def refuse(request: web.Request) -> web.Response:
        review = await request.json()
        seen.append(review["request"]["name"])
        answer = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": "seen by the webhook"}}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})

    app = web.Application()
    app.router.add_post("/refuse", refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", unused_tcp_port, ssl_context=tls).start()
    try:
        await plane.add_webhook_service(namespace, "hook", unused_tcp_port)
        service = {"namespace": namespace, "name": "hook", "path": "/refuse", "port": unused_tcp_port}
        hook = {
            "name": "hook.example.com",
            "clientConfig": {"service": service, "caBundle": authority.bundle},
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "failurePolicy": "Ignore",
        }
        configurations = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
        await new_object(plane, configurations, {"metadata": {"name": namespace}, "webhooks": [hook]})
        _, answer = await wait_for(
            lambda: plane.api.request("POST", pods(namespace), bare_pod("refused", {}), query={"dryRun": "All"}),
            "the API server to know the webhook",
            until=lambda answer: answer[0] != 201,
        )
    finally:
        await runner.cleanup()
    assert "seen by the webhook" in answer["message"]
    assert seen == ["refused"]


async def test_data_survive_restarts_kills_pauses_and_an_upgrade(own_plane: ControlPlane) -> None:
    own_plane_components: tuple[Component, ...] = ("kube-apiserver", "etcd", "kube-scheduler")
    await own_plane.add_namespace("kept")
    before = own_plane.pid("kube-apiserver")
    for component in own_plane_components:
        await own_plane.restart(component)
    assert own_plane.pid("kube-apiserver") != before
    own_plane.pause("kube-apiserver")
    with pytest.raises(AssertionError, match=r"waited 0\.5 s for an answer"):
        await wait_for(lambda: own_plane.api.request("GET", "/version"), "an answer", deadline=0.5)
    own_plane.resume("kube-apiserver")
    named = device_class("named", "gpu.example.com", extendedResourceName="example.com/gpu")
    await own_plane.api.call("POST", CLASSES, named)

    await own_plane.restart_as(None)

    assert (await own_plane.api.call("GET", "/api/v1/namespaces/kept"))["status"]["phase"] == "Active"
    assert (await own_plane.api.call("GET", "/version"))["emulationMinor"] == "37"
    upgraded = await own_plane.api.call("GET", f"{CLASSES}/named")
    assert "extendedResourceName" not in upgraded["spec"], "the name was dropped on 1.35, and nothing brings it back"


STARTS_AND_HANGS = """
import asyncio, sys
from pathlib import Path
from upstream.controlplane import COMPONENTS, ControlPlane

async def main():
    plane = ControlPlane(Path(sys.argv[1]), directory=Path(sys.argv[2]))
    await plane.start()
    print(*(plane.pid(each) for each in COMPONENTS), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def is_running(pid: int) -> bool:
    try:
        # A zombie has ended; whoever adopted it has not yet collected it.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def test_nothing_outlives_a_test_run_that_was_killed(controlplane_binary: Path, tmp_path: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        STARTS_AND_HANGS,
        controlplane_binary,
        tmp_path / "plane",
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    assert parent.stdout
    try:
        pids = [int(pid) for pid in (await asyncio.wait_for(parent.stdout.readline(), 60)).split()]
        assert [is_running(pid) for pid in pids] == [True] * 4
    finally:
        parent.send_signal(signal.SIGKILL)
        await parent.wait()
    await wait_for(
        lambda: [pid for pid in pids if is_running(pid)], "the components to end", until=lambda left: not left
    )
