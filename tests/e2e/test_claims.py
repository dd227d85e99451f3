"""What becomes of a rewritten Pod and its claim when something is in the way, or somebody else takes a hand in it."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from aiohttp import web

from cluster_site import CLASSES, Site, allocation, claim_name, claim_path, container, pod, requests_of, uses
from drabridge.core.reasons import CURES, Reason
from upstream.api import MERGE_PATCH, Object, wait_for
from upstream.credentials import Authority
from upstream.processes import free_port

if TYPE_CHECKING:
    from pathlib import Path

    from cluster_site import Served
    from e2e.conftest import Serve

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
POLICIES_OF_ADMISSION = "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies"


def asks(gpu: Served, count: int = 1, name: str = "pod", **spec: Any) -> Object:
    return pod(name, container(limits={gpu.name: count}), **spec)


def seconds_after(pod: Object, event: Object) -> float:
    """Time from a Pod's creation, which is known to the second, to an event about it."""
    created, told = (
        datetime.fromisoformat(each) for each in (pod["metadata"]["creationTimestamp"], event["eventTime"])
    )
    return (told - created).total_seconds()


async def gone(site: Site, pod: Object) -> None:
    await wait_for(lambda: site.claim_exists(pod), f"claim {claim_name(pod)} to go", until=lambda there: not there)


# --- something is in the way


async def test_pods_wait_while_their_class_is_missing_and_go_on_when_it_is_back(
    ours: Site, ns: str, serve: Serve, afterwards: AsyncExitStack
) -> None:
    gpu = await serve(devices=4)
    driver = gpu.name.partition("/")[0]
    await ours.api.call("DELETE", f"{CLASSES}/{gpu.device_class}")
    await ours.ready(gpu.policy, Reason.DEVICE_CLASS_MISSING)
    waiting = [await ours.create(ns, asks(gpu, 1, f"waits-{index}")) for index in range(3)]
    for each in waiting:
        event = await ours.event(each, Reason.DEVICE_CLASS_MISSING)
        assert event["type"] == "Warning"
        assert event["note"] == (
            f"DeviceClass {gpu.device_class} for {gpu.name} does not exist. Cure: {CURES[Reason.DEVICE_CLASS_MISSING]}."
        )
        # What is mended within 5 s is not worth an event: policy, class and Pods are often applied together.
        assert seconds_after(each, event) >= 5
        assert not await ours.claim_exists(each)
    metric = await ours.installed.running.metric("drabridge_pods_without_claim", reason="DeviceClassMissing")
    assert metric >= 3
    await ours.add_class(gpu.device_class, driver, afterwards)
    for each in waiting:
        await ours.bound_back(each)


async def test_a_claim_made_before_its_class_went_is_allocated_once_the_class_is_back(
    ours: Site, ns: str, serve: Serve, afterwards: AsyncExitStack
) -> None:
    gpu = await serve(devices=1)
    first = await ours.bound_back(await ours.create(ns, asks(gpu, 1, "first")))
    second = await ours.create(ns, asks(gpu, 1, "second"))
    await wait_for(lambda: ours.claim_exists(second), "its claim")
    await ours.api.call("DELETE", f"{CLASSES}/{gpu.device_class}")
    await ours.delete(first)
    await gone(ours, first)
    assert not allocation(await ours.pod(second))
    await ours.add_class(gpu.device_class, gpu.name.partition("/")[0], afterwards)
    await ours.bound_back(second)


QUOTAS: dict[str, Callable[[Served], str]] = {
    "on devices of the class": lambda gpu: f"{gpu.device_class}.deviceclass.resource.k8s.io/devices",
    "on the number of claims": lambda _: "count/resourceclaims.resource.k8s.io",
}


@pytest.mark.parametrize("key", QUOTAS.values(), ids=QUOTAS)
async def test_a_claim_that_a_quota_refuses_is_explained_and_made_once_there_is_room(
    key: Callable[[Served], str], ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    hard = key(gpu)
    quota = f"/api/v1/namespaces/{ns}/resourcequotas/caps"
    await ours.api.call("POST", quota.rpartition("/")[0], {"metadata": {"name": "caps"}, "spec": {"hard": {hard: "0"}}})
    await wait_for(
        lambda: ours.api.call("GET", quota),
        "the quota",
        until=lambda seen: hard in seen.get("status", {}).get("used", {}),
    )
    stored = await ours.create(ns, asks(gpu, 1))
    event = await ours.event(stored, Reason.CLAIM_REFUSED)
    assert event["type"] == "Warning"
    assert f"exceeded quota: caps, requested: {hard}=1, used: {hard}=0, limited: {hard}=0" in event["note"]
    assert event["note"].endswith(f"Cure: {CURES[Reason.CLAIM_REFUSED]}.")
    await ours.api.call("PATCH", quota, {"spec": {"hard": {hard: "5"}}}, MERGE_PATCH)
    await ours.bound_back(stored)
    # Told once, however often it was tried.
    assert [each["reason"] for each in await ours.events(stored)].count(Reason.CLAIM_REFUSED) == 1


# --- somebody else takes a hand in it


async def test_a_claim_that_somebody_deleted_is_made_again_for_a_pending_pod(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=1)
    stored = await ours.create(ns, asks(gpu, 2))
    await wait_for(lambda: ours.claim_exists(stored), "its claim")
    first = await ours.claim(stored)
    await ours.api.call("DELETE", claim_path(stored))

    async def again() -> bool:
        status, body = await ours.api.request("GET", claim_path(stored))
        return status == 200 and body["metadata"]["uid"] != first["metadata"]["uid"]

    await wait_for(again, "the claim to be made again")
    second = await ours.claim(stored)
    assert second["spec"] == first["spec"]
    assert second["metadata"]["ownerReferences"] == first["metadata"]["ownerReferences"]


async def test_the_claim_of_a_pod_that_has_a_node_is_not_made_again(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve()
    bound = await ours.bound_back(await ours.create(ns, asks(gpu, 1)))
    await wait_for(lambda: ours.pod(bound), "it to run", until=lambda seen: seen["status"]["phase"] == "Running")
    await ours.api.call("DELETE", claim_path(bound))
    # kube-scheduler's finalizer keeps it while it is in use, so this takes force; nobody would allocate a new one.
    await ours.api.request("PATCH", claim_path(bound), {"metadata": {"finalizers": None}}, MERGE_PATCH)
    await gone(ours, bound)
    # Events come in their order: when a later Pod is served, that deletion has been seen.
    await ours.bound_back(await ours.create(ns, asks(gpu, 1, "later")))
    assert not await ours.claim_exists(bound)
    assert (await ours.pod(bound))["metadata"]["annotations"] == bound["metadata"]["annotations"]


async def test_a_pod_that_is_re_created_under_its_name_gets_a_claim_of_its_own(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve(devices=1)
    body = asks(gpu, 1, "db-0")
    former = await ours.bound_back(await ours.create(ns, body))
    for _ in range(3):
        await ours.delete(former)
        stored = await ours.create(ns, body)  # at once, like a StatefulSet
        assert claim_name(stored) != claim_name(former)
        bound = await ours.bound_back(stored)
        claim = await ours.claim(bound)
        assert claim["metadata"]["ownerReferences"][0]["uid"] == bound["metadata"]["uid"]
        await gone(ours, former)
        former = bound


# --- sizes


async def test_names_of_all_lengths_are_served(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=32)
    longest = ".".join(["p" * 63] * 3 + ["p" * 61])
    names = [f"{letter}{'c' * 62}" for letter in "abc"]
    body = pod(
        longest,
        container(names[0], limits={gpu.name: 2}),
        container(names[1], limits={gpu.name: 1}),
        init=(container(names[2], limits={gpu.name: 3}, command=["/pause", "-v"]),),
    )
    assert len(longest) == 253
    bound = await ours.bound_back(await ours.create(ns, body))
    claim = await ours.claim(bound)
    assert claim["metadata"]["ownerReferences"][0]["name"] == longest
    assert {each["container"] for each in allocation(bound)} == set(names)
    event = await ours.event(bound, Reason.CLAIM_CREATED)
    assert event["regarding"]["name"] == longest


async def test_sixty_four_containers_share_one_claim(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=32)
    containers = [container(f"c{index}", limits={gpu.name: 1} if index % 2 else None) for index in range(64)]
    bound = await ours.bound_back(await ours.create(ns, pod("many", *containers)))
    assert requests_of(await ours.claim(bound)) == {f"container-{index}-request-0": 1 for index in range(1, 64, 2)}
    assert {name: requests for name, requests in uses(bound).items() if requests} == {
        f"c{index}": [f"container-{index}-request-0"] for index in range(1, 64, 2)
    }
    assert len({each["device"] for each in allocation(bound)}) == 32


# --- other writers


async def test_labels_annotations_and_server_side_apply_work_where_a_container_uses_several_requests(
    ours: Site, ns: str, serve: Serve
) -> None:
    """`resources.claims` is a list map by name alone, and here one name stands in it twice."""
    gpu = await serve()
    body = pod(
        "shared",
        container("main", limits={gpu.name: 2}),
        container("other", limits={gpu.name: 1}),
        init=(container("init", limits={gpu.name: 3}, command=["/pause", "-v"]),),
    )
    bound = await ours.bound_back(await ours.create(ns, body))
    assert uses(bound)["init"] == ["container-1-request-0", "container-2-request-0"]

    async def kubectl(*args: str, stdin: str | None = None) -> None:
        await ours.cluster.kubectl(*args, "-n", ns, stdin=stdin)

    def applied(labels: Object) -> str:
        return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shared", "labels": labels}})

    await kubectl("label", "pod", "shared", "by=label")
    await kubectl("label", "pod", "shared", "by=label-again", "--overwrite")
    await kubectl("annotate", "pod", "shared", "by=annotate")
    await kubectl("apply", "--server-side", "-f", "-", stdin=applied({"one": "1", "two": "2"}))
    await kubectl("apply", "--server-side", "-f", "-", stdin=applied({"one": "1"}))
    after = await ours.pod(bound)
    assert after["metadata"]["labels"] == {**bound["metadata"]["labels"], "by": "label-again", "one": "1"}
    assert after["metadata"]["annotations"] == {**bound["metadata"]["annotations"], "by": "annotate"}
    assert after["spec"] == bound["spec"]
    managers = {each["manager"]: each for each in after["metadata"]["managedFields"]}
    assert {"drabridge", "kubectl", "kubectl-annotate", "kubectl-label"} <= managers.keys()
    assert managers["kubectl"]["fieldsV1"] == {"f:metadata": {"f:labels": {"f:one": {}}}}


async def test_a_pod_made_by_server_side_apply_is_served_and_its_owner_can_go_on_applying_labels(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    body = pod("applied", container(limits={gpu.name: 1}), metadata={"namespace": ns})
    await ours.cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(body))
    bound = await ours.bound_back(body)
    assert claim_name(bound)
    assert "resources" not in bound["spec"]["containers"][0] or not bound["spec"]["containers"][0]["resources"].get(
        "limits"
    )


def cpu_and_sidecar(gpu: str) -> list[Object]:
    """The patch of a mutator that comes after drabridge: a name that sorts before the device's, and one device more."""
    sidecar = container("injected", limits={gpu: 1})
    return [
        {"op": "add", "path": "/spec/containers/0/resources/requests", "value": {"cpu": "1"}},
        {"op": "add", "path": "/spec/containers/-", "value": sidecar},
        {"op": "add", "path": "/metadata/labels/mutated", "value": "yes"},
    ]


@asynccontextmanager
async def second_webhook(site: Site, ns: str, directory: Path, patch: list[Object]) -> AsyncIterator[list[Object]]:
    """A mutating webhook that is called after drabridge's, for Pods of one namespace; gives the Pods it was shown.

    It changes a Pod once: at a second call its label is there.
    """
    shown: list[Object] = []

    async def mutate(request: web.Request) -> web.Response:
        review = (await request.json())["request"]
        shown.append(review["object"])
        response: Object = {"uid": review["uid"], "allowed": True}
        if "mutated" not in review["object"]["metadata"].get("labels", {}):
            text = base64.b64encode(json.dumps(patch).encode()).decode()
            response |= {"patchType": "JSONPatch", "patch": text}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    authority = Authority("second-webhook")
    certificate, key = authority.issue("second", hosts=["127.0.0.1"]).write(directory, "second")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate, key)
    app = web.Application()
    app.router.add_post("/", mutate)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls).start()
    name = f"zz-{ns}"
    hook = {
        "name": "second.example.com",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": authority.bundle},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
        "reinvocationPolicy": "IfNeeded",
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    await site.api.call("POST", CONFIGURATIONS, {"metadata": {"name": name}, "webhooks": [hook]})
    try:
        yield shown
    finally:
        await site.api.call("DELETE", f"{CONFIGURATIONS}/{name}")
        await runner.cleanup()


async def mutated(site: Site, ns: str, body: Object) -> None:
    """Wait until the API server knows of the second mutator."""

    async def look() -> bool:
        stored = await site.api.call("POST", f"/api/v1/namespaces/{ns}/pods", body, query={"dryRun": "All"})
        return "mutated" in stored["metadata"].get("labels", {})

    await wait_for(look, "the second mutator to be in force")


async def check_second_call(site: Site, stored: Object) -> None:
    """Both containers are served by one claim, whose requests are those of the Pod as it ended up."""
    for each in stored["spec"]["containers"]:
        assert not any("example.com/" in key for key in each["resources"].get("limits", {}))
    assert len(stored["spec"]["resourceClaims"]) == 1
    # cpu comes before the name in container 0, so its device is request 1 now (KEP-5004).
    wanted = {"main": ["container-0-request-1"], "injected": ["container-1-request-0"]}
    assert uses(stored) == wanted
    bound = await site.bound_back(stored)
    assert requests_of(await site.claim(bound)) == {"container-0-request-1": 2, "container-1-request-0": 1}
    assert {(each["container"], each["request"]) for each in allocation(bound)} == {
        (name, request) for name, requests in wanted.items() for request in requests
    }


async def test_a_second_webhook_may_change_the_pod_and_the_claim_stays_the_same(
    ours: Site, ns: str, serve: Serve, tmp_path: Path
) -> None:
    gpu = await serve()
    body = asks(gpu, 2)
    async with second_webhook(ours, ns, tmp_path, cpu_and_sidecar(gpu.name)) as shown:
        await mutated(ours, ns, body)
        shown.clear()
        stored = await ours.create(ns, body)
    # What it saw first was the Pod as drabridge had left it the first time.
    assert uses(shown[0]) == {"main": ["container-0-request-0"]}
    assert claim_name(stored) == claim_name(shown[0])
    await check_second_call(ours, stored)


async def test_an_admission_policy_may_change_the_pod_and_the_claim_stays_the_same(
    ours: Site, ns: str, serve: Serve, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    if (await ours.api.request("GET", POLICIES_OF_ADMISSION))[0] != 200:
        pytest.skip("MutatingAdmissionPolicy is stable from Kubernetes 1.36 on")
    gpu = await serve()
    name = unique()
    # It is called again only because it was called before; what matters it does then, after drabridge.
    spec = {
        "matchConstraints": {
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": ns}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ],
        },
        "reinvocationPolicy": "IfNeeded",
        "failurePolicy": "Fail",
        "mutations": [
            {
                "patchType": "JSONPatch",
                "jsonPatch": {
                    "expression": f"""
                      has(object.metadata.labels) && 'drabridge.io/delivery' in object.metadata.labels
                      ? (
                        'mutated' in object.metadata.labels ? [] : [
                          JSONPatch{{op: "add", path: "/spec/containers/0/resources/requests", value: {{"cpu": "1"}}}},
                          JSONPatch{{op: "add", path: "/spec/containers/-", value: Object.spec.containers{{
                            name: "injected", image: "registry.k8s.io/pause:3.10",
                            resources: Object.spec.containers.resources{{limits: {{"{gpu.name}": "1"}},
                              requests: {{"{gpu.name}": "1"}}}}}}}},
                          JSONPatch{{op: "add", path: "/metadata/labels/mutated", value: "yes"}}
                        ]
                      )
                      : [JSONPatch{{op: "add", path: "/metadata/annotations", value: {{"seen": "first"}}}}]
                    """
                },
            }
        ],
    }
    await ours.api.call("POST", POLICIES_OF_ADMISSION, {"metadata": {"name": name}, "spec": spec})
    afterwards.push_async_callback(ours.api.request, "DELETE", f"{POLICIES_OF_ADMISSION}/{name}")
    binding = f"{POLICIES_OF_ADMISSION.removesuffix('ies')}ybindings"
    await ours.api.call("POST", binding, {"metadata": {"name": name}, "spec": {"policyName": name}})
    afterwards.push_async_callback(ours.api.request, "DELETE", f"{binding}/{name}")
    await mutated(ours, ns, asks(gpu, 2))
    stored = await ours.create(ns, asks(gpu, 2))
    assert stored["metadata"]["annotations"]["seen"] == "first"
    await check_second_call(ours, stored)
