"""What caps and match conditions rest on, asked of the real API server: no drabridge in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

from builders import CLAIM, GPU, GPU_CLASS, IMPLICIT_GPU, NIC, PodBuilder, cluster, patched, pod, rewritten
from drabridge.core.caps import LimitRangeView, QuotaView
from drabridge.core.matching import created_condition
from drabridge.core.reasons import Reason
from drabridge.core.rewrite import ClaimNames, LeaveAlone, Rewrite, decide
from upstream.api import wait_for

if TYPE_CHECKING:
    from conftest import NewNamespace, NewNode, NewObject
    from upstream.api import Object
    from upstream.controlplane import ControlPlane

DRY = {"dryRun": "All"}
ADMISSION = "/apis/admissionregistration.k8s.io/v1"


async def limited(
    plane: ControlPlane, new_namespace: NewNamespace, new_object: NewObject, *limits: Object
) -> tuple[str, LimitRangeView]:
    """A namespace with one LimitRange, and how we read that."""
    namespace = await new_namespace(plane)
    body = {"metadata": {"name": "caps"}, "spec": {"limits": list(limits)}}
    stored = await new_object(plane, f"/api/v1/namespaces/{namespace}/limitranges", body)
    return namespace, LimitRangeView.of(stored)


async def dry(plane: ControlPlane, namespace: str, builder: PodBuilder) -> tuple[int, Object]:
    body = builder.meta(namespace=namespace).raw()
    return await plane.api.request("POST", f"/api/v1/namespaces/{namespace}/pods", body, query=DRY)


ZERO = pod().init(gpu=0).app(gpu=0).app(gpu=0, cpu="1m")
BARE = pod().app(cpu="1m")

# sentence -> LimitRange, what the API server says of a Pod with zeros ("" if it takes the Pod)
LIMITS: dict[str, tuple[Object, str]] = {
    "a max for containers": ({"type": "Container", "max": {GPU: "4"}}, ""),
    "a max for Pods": ({"type": "Pod", "max": {GPU: "4"}}, ""),
    "a max of nothing": ({"type": "Container", "max": {GPU: "0"}}, ""),
    "defaults": ({"type": "Container", "default": {GPU: "1"}, "defaultRequest": {GPU: "1"}}, ""),
    "a min of nothing": ({"type": "Container", "min": {GPU: "0"}, "max": {GPU: "4"}}, ""),
    "a min for containers": ({"type": "Container", "min": {GPU: "1"}}, f"minimum {GPU} usage per Container is 1"),
    "a min for Pods": ({"type": "Pod", "min": {GPU: "1"}}, f"minimum {GPU} usage per Pod is 1"),
    "a min with a max": ({"type": "Container", "min": {GPU: "1"}, "max": {GPU: "4"}}, f"minimum {GPU} usage"),
    "a ratio for containers": (
        {"type": "Container", "maxLimitRequestRatio": {GPU: "1"}},
        f"{GPU} max limit to request ratio per Container is 1",
    ),
    "a ratio for Pods": (
        {"type": "Pod", "maxLimitRequestRatio": {GPU: "1"}},
        f"{GPU} max limit to request ratio per Pod is 1",
    ),
}


@pytest.mark.parametrize(("limit", "refusal"), LIMITS.values(), ids=LIMITS)
async def test_zeros_pass_the_limit_ranges_that_we_think_they_pass(
    limit: Object, refusal: str, plane_135: ControlPlane, new_namespace: NewNamespace, new_object: NewObject
) -> None:
    namespace, view = await limited(plane_135, new_namespace, new_object, limit)
    assert bool(view.limits[GPU].refuses) is bool(refusal)
    status, answer = await dry(plane_135, namespace, ZERO)
    assert (status, refusal in answer.get("message", "")) == (403 if refusal else 201, True)
    if not refusal:
        for container in answer["spec"]["containers"]:
            assert container["resources"]["limits"][GPU] == container["resources"]["requests"][GPU] == "0"


async def test_without_zeros_a_max_for_pods_refuses_even_pods_that_ask_for_nothing(
    plane_135: ControlPlane, new_namespace: NewNamespace, new_object: NewObject
) -> None:
    """Why the name stays on a rewritten Pod."""
    namespace, _ = await limited(plane_135, new_namespace, new_object, {"type": "Pod", "max": {GPU: "4"}})
    status, answer = await dry(plane_135, namespace, BARE)
    assert status == 403
    assert "No limit is specified" in answer["message"]


async def test_without_zeros_a_max_for_containers_puts_the_name_back(
    plane_135: ControlPlane, new_namespace: NewNamespace, new_object: NewObject
) -> None:
    namespace, _ = await limited(plane_135, new_namespace, new_object, {"type": "Container", "max": {GPU: "4"}})
    status, answer = await dry(plane_135, namespace, BARE)
    assert (status, answer["spec"]["containers"][0]["resources"]["limits"]) == (201, {GPU: "4"})


ABOVE: dict[str, tuple[Object, PodBuilder]] = {
    "a container": ({"type": "Container", "max": {GPU: "2"}}, pod().init(gpu=1).app(gpu=3)),
    "the limit of an implicit name": (
        {"type": "Container", "max": {IMPLICIT_GPU: "2"}},
        pod().app(raw={"resources": {"requests": {IMPLICIT_GPU: "1"}, "limits": {IMPLICIT_GPU: "3"}}}),
    ),
    "app containers and sidecars of a Pod": ({"type": "Pod", "max": {GPU: "2"}}, pod().sidecar(gpu=1).app(gpu=2)),
    "an init container beside a sidecar": (
        {"type": "Pod", "max": {GPU: "2"}},
        pod().sidecar(gpu=1).init(gpu=2).app(gpu=1),
    ),
    "a max that is not whole": ({"type": "Pod", "max": {GPU: "1500m"}}, pod().app(gpu=2)),
}
WITHIN: dict[str, tuple[Object, PodBuilder]] = {
    "a container": ({"type": "Container", "max": {GPU: "2"}}, pod().init(gpu=2).app(gpu=2)),
    "an implicit name without limit": (
        {"type": "Container", "max": {IMPLICIT_GPU: "2"}},
        pod().app(raw={"resources": {"requests": {IMPLICIT_GPU: "1"}}}),
    ),
    "init containers, of which the largest counts": (
        {"type": "Pod", "max": {GPU: "2"}},
        pod().init(gpu=2).init(gpu=1).app(gpu=2),
    ),
    "an init container before a sidecar": (
        {"type": "Pod", "max": {GPU: "2"}},
        pod().init(gpu=2).sidecar(gpu=1).app(gpu=1),
    ),
}
HELD = {f"above: {name}": (*case, False) for name, case in ABOVE.items()} | {
    f"within: {name}": (*case, True) for name, case in WITHIN.items()
}


@pytest.mark.parametrize(("limit", "builder", "within"), HELD.values(), ids=HELD)
async def test_we_hold_pods_to_a_max_as_the_api_server_does(
    limit: Object,
    builder: PodBuilder,
    within: bool,
    plane_135: ControlPlane,
    new_namespace: NewNamespace,
    new_object: NewObject,
) -> None:
    """The Pod as it is sent goes to the API server, and a rewritten one, if we would rewrite it."""
    namespace, view = await limited(plane_135, new_namespace, new_object, limit)
    status, answer = await dry(plane_135, namespace, builder)
    assert (status, "maximum" in answer.get("message", "")) == ((201, False) if within else (403, True))
    verdict = decide(builder.view(), cluster(GPU_CLASS, limits=view.limits), ClaimNames(CLAIM))
    assert isinstance(verdict, Rewrite if within else LeaveAlone)
    if isinstance(verdict, LeaveAlone):
        assert [each.reason for each in verdict.objections] == [Reason.LIMIT_EXCEEDED]
        return
    changed = patched(builder.meta(namespace=namespace).raw(), verdict)
    status, answer = await plane_135.api.request("POST", f"/api/v1/namespaces/{namespace}/pods", changed, query=DRY)
    assert status == 201, answer


async def test_a_pod_with_zeros_is_scheduled_to_a_node_that_has_none(
    plane_135: ControlPlane, new_namespace: NewNamespace, new_object: NewObject, new_node: NewNode
) -> None:
    node = await new_node(plane_135, devices=0)
    limit = {"type": "Container", "max": {GPU: "4"}}
    namespace, _ = await limited(plane_135, new_namespace, new_object, limit)
    pods = f"/api/v1/namespaces/{namespace}/pods"
    builder = ZERO.meta(namespace=namespace).with_spec(nodeSelector={"kubernetes.io/hostname": node})
    stored = await new_object(plane_135, pods, builder.raw())

    async def where() -> str | None:
        found = await plane_135.api.call("GET", f"{pods}/{stored['metadata']['name']}")
        name: str | None = found["spec"].get("nodeName")
        return name

    assert await wait_for(where, "the Pod to be bound", until=bool) == node


# --- quotas

KEYS = (
    GPU,
    IMPLICIT_GPU,
    f"limits.{GPU}",
    f"requests.{GPU}",
    f"requests.{IMPLICIT_GPU}",
    "gpu.deviceclass.resource.k8s.io/devices",
    "count/pods",
    "count/deployments.apps",
    "gold.storageclass.storage.k8s.io/requests.storage",
    "gold.storageclass.storage.k8s.io/persistentvolumeclaims",
)


async def test_dead_keys_of_a_quota_are_those_that_the_api_server_counts_nothing_by(
    plane_135: ControlPlane, new_namespace: NewNamespace, new_object: NewObject
) -> None:
    namespace = await new_namespace(plane_135)
    path = f"/api/v1/namespaces/{namespace}/resourcequotas"
    await new_object(plane_135, path, {"metadata": {"name": "all"}, "spec": {"hard": dict.fromkeys(KEYS, "4")}})

    async def read() -> Object:
        return await plane_135.api.call("GET", f"{path}/all")

    def counted(quota: Object) -> bool:
        status = quota.get("status", {})
        return set(status.get("hard", {})) == set(KEYS) and "count/pods" in status.get("used", {})

    stored = await wait_for(read, "the quota to be counted", until=counted)
    view = QuotaView.of(stored)
    assert set(KEYS) - set(stored["status"]["used"]) == view.dead == {GPU, IMPLICIT_GPU, f"limits.{GPU}"}
    assert set(view.capped) == {GPU, IMPLICIT_GPU}


# --- match conditions

ODD_NAMES = ("quo\"te'.example.com/a", "back\\slash.example.com/\n\t\x01", "größe.example.com/🚀", "")
MANY = tuple(f"{'d' * 40}.example.com/name-{i:04}" for i in range(500))
SERVED = (GPU, IMPLICIT_GPU, *ODD_NAMES, *MANY)


def crowd(containers: int, builder: PodBuilder | None = None) -> PodBuilder:
    """Containers that ask for sixty names each, none of them served."""
    builder = builder or pod()
    for _ in range(containers):
        names = {f"{NIC}-{i}": "1" for i in range(60)}
        builder = builder.app(raw={"resources": {"limits": names}})
    return builder


def only(field: str, name: str) -> PodBuilder:
    return pod().app(raw={"resources": {field: {name: "1"}}})


MATCHED: dict[str, Object] = {
    "a container that asks for a served name": pod().app(gpu=1).raw(),
    "one that says so by its limit": only("limits", GPU).raw(),
    "one that says so by its request": only("requests", IMPLICIT_GPU).raw(),
    "the last of several containers": pod().app().app(cpu="1m").app(gpu=1).raw(),
    "an init container": pod().init(gpu=1).app().raw(),
    "a sidecar": pod().sidecar(gpu=1).app().raw(),
    "the last of many names": only("limits", MANY[-1]).raw(),
    "64 containers with many names, and one that asks": crowd(63).app(gpu=1).raw(),
    "a claim of ours": pod().app().claim("x", CLAIM).raw(),
    "a rewritten Pod": rewritten(pod().app(gpu=1)),
}
NOT_MATCHED: dict[str, Object] = {
    "a Pod that asks for nothing": pod().app().raw(),
    "a Pod that asks for CPU": pod().init(cpu="1m").app(cpu="1m").raw(),
    "a name that is not served": pod().app(nic=1).raw(),
    "a claim of its own": pod().app().claim("x", "my-claim").claim("y", template="my-template").raw(),
    "a claim called nearly like ours": pod().app().claim("x", "my-drabridge-0123456789abcdef").raw(),
    "128 containers with sixty names each": crowd(128).raw(),
}
MESSAGE = "the condition matches"


@pytest_asyncio.fixture(scope="module")
async def watched(plane_135: ControlPlane) -> AsyncIterator[str]:
    """A namespace in which every Pod that the condition matches is refused.

    A ValidatingAdmissionPolicy evaluates match conditions as a webhook configuration does, and fails where one cannot
    be evaluated.
    """
    name = "match-conditions"
    api = plane_135.api
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        },
        "matchConditions": [{"name": "served", "expression": created_condition(SERVED)}],
        "validations": [{"expression": "false", "message": MESSAGE}],
    }
    paths = [f"{ADMISSION}/validatingadmissionpolicies", f"{ADMISSION}/validatingadmissionpolicybindings"]
    binding = {"policyName": name, "validationActions": ["Deny"]}
    await plane_135.add_namespace(name)
    for path, spec in zip(paths, (policy, binding), strict=True):
        await api.call("POST", path, {"metadata": {"name": name}, "spec": spec})

    async def refused() -> int:
        status, _ = await send(plane_135, name, pod().app(gpu=1).raw())
        return status

    await wait_for(refused, "the policy to be in force", until=lambda status: status == 422)
    yield name
    for path in paths:
        await api.call("DELETE", f"{path}/{name}")
    await plane_135.remove_namespace(name)


async def send(plane: ControlPlane, namespace: str, raw: Object) -> tuple[int, str]:
    """Give the HTTP status and the end of the message, since it begins with the expression."""
    body = {**raw, "metadata": {**raw["metadata"], "namespace": namespace}}
    status, answer = await plane.api.request("POST", f"/api/v1/namespaces/{namespace}/pods", body, query=DRY)
    return status, answer.get("message", "")[-200:]


@pytest.mark.parametrize("raw", MATCHED.values(), ids=MATCHED)
async def test_the_strict_condition_matches(raw: Object, plane_135: ControlPlane, watched: str) -> None:
    status, message = await send(plane_135, watched, raw)
    assert (status, MESSAGE in message) == (422, True), message


@pytest.mark.parametrize("raw", NOT_MATCHED.values(), ids=NOT_MATCHED)
async def test_the_strict_condition_does_not_match(raw: Object, plane_135: ControlPlane, watched: str) -> None:
    status, message = await send(plane_135, watched, raw)
    assert status == 201, message


NAMES: dict[str, tuple[str, ...]] = {
    "no names": (),
    "one": (GPU,),
    "names that need escapes": ODD_NAMES,
    "a thousand": tuple(f"{'d' * 60}.example.com/{i:08}" for i in range(1000)),
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
async def test_the_strict_condition_compiles_in_a_webhook_configuration(
    names: tuple[str, ...], plane_135: ControlPlane
) -> None:
    webhook = {
        "name": "pods.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "matchConditions": [{"name": "served", "expression": created_condition(names)}],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    body = {"metadata": {"name": "compiles"}, "webhooks": [webhook]}
    path = f"{ADMISSION}/mutatingwebhookconfigurations"
    stored = await plane_135.api.call("POST", path, body, query=DRY)
    assert stored["webhooks"][0]["matchConditions"] == webhook["matchConditions"]
