"""The webhook's server on a real socket, asked by somebody who is no API server."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from builders import GPU, PodBuilder, device_class, pod
from drabridge.core.rewrite import CLAIM_NAME
from drabridge.delivery.admission import Admission
from drabridge.delivery.metrics import Metrics
from drabridge.delivery.supply import Supply
from drabridge.kube.caches import Caches
from drabridge.kube.client import Client
from drabridge.serve.certificates import issue_ca
from drabridge.serve.webhook import application
from upstream.credentials import write_kubeconfig
from upstream.processes import free_port

Object = dict[str, Any]

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
TIMEOUT = 5.0  # seconds; that of manifests/base/webhook.yaml


@dataclass(frozen=True)
class Hook:
    """The server, and a client of it."""

    session: aiohttp.ClientSession
    url: str
    metrics: Metrics

    async def send(self, body: bytes) -> tuple[int, str]:
        """Give the HTTP status and the answer's text."""
        async with self.session.post(
            self.url, data=io.BytesIO(body), headers={"Content-Type": "application/json"}
        ) as response:
            return response.status, await response.text()

    async def ask(self, request: Object) -> Object:
        """Send a review, and give the answer, which keeps to the rules of the API."""
        status, text = await self.send(json.dumps(review(request)).encode())
        assert status == 200, text
        return checked(text, request["uid"])


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def hook(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Hook]:
    """Knows the namespace `default` and a class for GPU; the API server that it would ask for more is away."""
    caches = Caches(["default-scheduler"])
    caches.namespaces.seen({"metadata": {"name": "default", "resourceVersion": "1"}})
    known = device_class("gpu", extended=GPU)
    caches.classes.seen({**known, "metadata": {**known["metadata"], "resourceVersion": "2"}})
    metrics = Metrics()
    kubeconfig = write_kubeconfig(
        tmp_path_factory.mktemp("webhook") / "kubeconfig",
        server=f"https://127.0.0.1:{free_port()}",
        authority=issue_ca(datetime.now(UTC)).cert_pem.decode(),
        user={"token": "nobody"},
    )
    async with await Client.connect(kubeconfig, user_agent="drabridge-test") as client:
        runner = web.AppRunner(application(Admission(caches, Supply(caches), client), metrics), access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT)) as session:
            yield Hook(session, f"http://127.0.0.1:{port}/mutate", metrics)
        await runner.cleanup()


def request(obj: object, **fields: Any) -> Object:
    """Ask for a Pod's creation, as an API server does; `fields` replace parts of that."""
    return {
        "uid": UID,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "operation": "CREATE",
        "object": obj,
        "oldObject": None,
        "dryRun": False,
        **fields,
    }


def review(request: object, **fields: Any) -> Object:
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request, **fields}


def checked(text: str, uid: str) -> Object:
    """Give the response of an AdmissionReview, if an API server takes it as it is and the Pod is let through."""
    answer = json.loads(text)
    assert answer.keys() == {"apiVersion", "kind", "response"}
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: Object = answer["response"]
    assert response.keys() <= {"uid", "allowed", "patch", "patchType", "warnings", "auditAnnotations"}
    assert (response["uid"], response["allowed"]) == (uid, True)
    assert ("patch" in response) == ("patchType" in response)
    if "patch" in response:
        assert response["patchType"] == "JSONPatch"
        response["patch"] = json.loads(base64.b64decode(response["patch"], validate=True))
        assert response["patch"]
    # Longer ones may be cut, more than 4096 characters in all are dropped, and a warning with a control character is
    # dropped as a whole (net.NewWarningHeader).
    warnings = response.setdefault("warnings", [])
    assert all(0 < len(each) <= 256 and each.isprintable() for each in warnings)
    assert sum(map(len, warnings)) <= 4096
    assert "Traceback" not in text
    return response


def gpu(name: str = "web", count: int = 1) -> PodBuilder:
    return pod(name).app(gpu=count)


# What is no review

NO_REVIEWS: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "the request is not JSON: "),
    "a text": (b"hello", "the request is not JSON: "),
    "half a review": (json.dumps(review(request(gpu().raw()))).encode()[:-20], "the request is not JSON: "),
    "bytes that are no text": (b"\xff\xfe\xfa\xfb{}", "the request is not JSON: "),
    "100,000 brackets": (b"[" * 100_000, "the request is not JSON: "),
    "100,000 brackets in a review's object": (
        json.dumps(review(request("HERE"))).encode().replace(b'"HERE"', b"[" * 100_000 + b"]" * 100_000),
        "the request is not JSON: ",
    ),
    "a number of 5,000 digits": (b"1" * 5000, "the request is not JSON: "),
    "null": (b"null", "the request is not an AdmissionReview"),
    "a list": (b"[]", "the request is not an AdmissionReview"),
    "an object without a kind": (b"{}", "the request is not an AdmissionReview"),
    "a Pod": (json.dumps(gpu().raw()).encode(), "the request is not an AdmissionReview"),
    "a kind that is no text": (b'{"kind": ["AdmissionReview"]}', "the request is not an AdmissionReview"),
    "a review of v1beta1": (
        json.dumps(review(request(gpu().raw()), apiVersion="admission.k8s.io/v1beta1")).encode(),
        "this webhook speaks admission.k8s.io/v1, not 'admission.k8s.io/v1beta1'",
    ),
    "a review without a version": (
        b'{"kind": "AdmissionReview"}',
        "this webhook speaks admission.k8s.io/v1, not None",
    ),
    "a version that is half a character": (
        b'{"kind": "AdmissionReview", "apiVersion": "\\ud800"}',
        "this webhook speaks admission.k8s.io/v1, not '\\ud800'",
    ),
    "a version with a line break": (
        b'{"kind": "AdmissionReview", "apiVersion": "v1\\nx"}',
        "this webhook speaks admission.k8s.io/v1, not 'v1\\nx'",
    ),
    "a review without a request": (json.dumps(review(None)).encode(), "the AdmissionReview has no request with a uid"),
    "a request that is a list": (json.dumps(review([])).encode(), "the AdmissionReview has no request with a uid"),
    "a request without a uid": (
        json.dumps(review({"operation": "CREATE"})).encode(),
        "the AdmissionReview has no request with a uid",
    ),
    "a uid that is a number": (
        json.dumps(review(request(gpu().raw(), uid=7))).encode(),
        "the AdmissionReview has no request with a uid",
    ),
    "an empty uid": (
        json.dumps(review(request(gpu().raw(), uid=""))).encode(),
        "the AdmissionReview has no request with a uid",
    ),
}


@pytest.mark.parametrize(("body", "want"), NO_REVIEWS.values(), ids=NO_REVIEWS)
async def test_what_is_no_review_gets_a_clear_400(hook: Hook, body: bytes, want: str) -> None:
    status, text = await hook.send(body)
    assert (status, text[-1]) == (400, "\n")
    said = text.rstrip("\n")
    assert said.startswith(f"drabridge: {want}") if want.endswith(" ") else said == f"drabridge: {want}"
    assert "\n" not in said
    assert "Traceback" not in text


async def test_only_a_post_to_the_path_of_the_configuration_is_answered(hook: Hook) -> None:
    async with hook.session.get(hook.url) as response:
        assert response.status == 405
    async with hook.session.post(hook.url + "/") as response:
        assert response.status == 404


async def test_more_than_eight_mebibytes_are_refused_unread(hook: Hook) -> None:
    status, text = await hook.send(b" " * (9 * 1024 * 1024))
    assert status == 413
    assert "Traceback" not in text
    assert (await hook.ask(request(gpu().raw())))["patch"]  # and the next one is served


# Reviews that are none of our business

NOT_OURS: dict[str, Object] = {
    "a Deployment": request(
        {"kind": "Deployment", "spec": {}}, kind={"group": "apps", "version": "v1", "kind": "Deployment"}
    ),
    "a Pod of another group": request(gpu().raw(), kind={"group": "example.com", "version": "v1", "kind": "Pod"}),
    "an UPDATE without what was there": request(gpu().raw(), operation="UPDATE"),
    "a DELETE of a Pod": request(None, operation="DELETE", oldObject=gpu().raw()),
    "no operation": request(gpu().raw(), operation=None),
    "an operation that is a list": request(gpu().raw(), operation=["CREATE"]),
    "no kind": request(gpu().raw(), kind=None),
    "a kind that is a text": request(gpu().raw(), kind="Pod"),
    "a kind of lists": request(gpu().raw(), kind={"group": [], "kind": {}}),
    "the object null": request(None),
    "an object that is a list": request([gpu().raw()]),
    "an object that is a text": request("Pod"),
}


@pytest.mark.parametrize("asked", NOT_OURS.values(), ids=NOT_OURS)
async def test_what_is_no_new_pod_is_allowed_without_a_word(hook: Hook, asked: Object) -> None:
    answer = await hook.ask(asked)
    assert "patch" not in answer
    assert (answer["warnings"], answer["auditAnnotations"]) == ([], {"outcome": "NotAPod"})


async def test_an_update_of_a_pod_that_is_not_ours_changes_nothing(hook: Hook) -> None:
    answer = await hook.ask(request(gpu().raw(), operation="UPDATE", oldObject=gpu().raw()))
    assert "patch" not in answer
    assert (answer["warnings"], answer["auditAnnotations"]) == ([], {"outcome": "Unchanged"})


# Pods that are broken

FAULTS: dict[str, tuple[tuple[str | int, ...], str, str]] = {
    # sentence: where the fault is, how the answer calls that place, what should be there
    "metadata": (("metadata",), "metadata", "an object"),
    "a label": (("metadata", "labels", "team"), "metadata.labels['team']", "a string"),
    "annotations": (("metadata", "annotations"), "metadata.annotations", "an object"),
    "the name": (("metadata", "name"), "metadata.name", "a string"),
    "owner references": (("metadata", "ownerReferences"), "metadata.ownerReferences", "a list"),
    "spec": (("spec",), "spec", "an object"),
    "the scheduler's name": (("spec", "schedulerName"), "spec.schedulerName", "a string"),
    "containers": (("spec", "containers"), "spec.containers", "a list"),
    "a container": (("spec", "containers", 0), "spec.containers[0]", "an object"),
    "init containers": (("spec", "initContainers"), "spec.initContainers", "a list"),
    "a restart policy": (
        ("spec", "initContainers", 0, "restartPolicy"),
        "spec.initContainers[0].restartPolicy",
        "a string",
    ),
    "a container's name": (("spec", "containers", 0, "name"), "spec.containers[0].name", "a string"),
    "resources": (("spec", "containers", 0, "resources"), "spec.containers[0].resources", "an object"),
    "requests": (
        ("spec", "containers", 0, "resources", "requests"),
        "spec.containers[0].resources.requests",
        "an object",
    ),
    "a quantity": (
        ("spec", "containers", 0, "resources", "limits", GPU),
        f"spec.containers[0].resources.limits['{GPU}']",
        "a quantity",
    ),
    "container claims": (
        ("spec", "containers", 0, "resources", "claims"),
        "spec.containers[0].resources.claims",
        "a list",
    ),
    "a container claim": (
        ("spec", "containers", 0, "resources", "claims", 0),
        "spec.containers[0].resources.claims[0]",
        "an object",
    ),
    "claims": (("spec", "resourceClaims"), "spec.resourceClaims", "a list"),
    "a claim's name": (("spec", "resourceClaims", 0, "name"), "spec.resourceClaims[0].name", "a string"),
    "status": (("status",), "status", "an object"),
}
WRONG: dict[str, tuple[object, str]] = {
    # what: a value, and where it is right after all
    "a number": (7, "a quantity"),
    "a fraction": (0.5, "a quantity"),
    "true": (True, ""),
    "a text": ("x\ny", "a string a quantity"),
    "a list": ([[]], "a list"),
    "an object": ({"a": {}}, "an object"),
}


def broken(path: tuple[str | int, ...], value: object) -> Object:
    """Give a Pod that is well formed but for `value` in that place."""
    whole = (
        gpu().init(gpu=1).claim("own", "mine").labels(team="a").annotations({"a": "b"}).meta(ownerReferences=[]).raw()
    )
    whole["status"] = {}
    whole["spec"]["containers"][0]["resources"]["claims"] = [{"name": "own"}]
    at: Any = whole
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    return whole


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_pod_of_the_wrong_shape_is_let_through_with_a_word_about_the_fault(
    hook: Hook, fault: str, wrong: str
) -> None:
    (path, named, want), (value, right) = FAULTS[fault], WRONG[wrong]
    if want in right:
        return
    answer = await hook.ask(request(broken(path, value)))
    assert "patch" not in answer
    assert answer["auditAnnotations"] == {"outcome": "InvalidPod"}
    called = f"Pod default/{value if path == ('metadata', 'name') else 'web'}" if path != ("metadata",) else "Pod"
    shown = ascii(value)
    text = f"drabridge: InvalidPod: {called}: {named}: is {shown}, not {want}; send a Pod of the v1 API"
    assert answer["warnings"] == [text]


@pytest.mark.parametrize("missing", ["metadata", "spec", "status", "apiVersion", "kind"])
async def test_null_is_the_same_as_absent(hook: Hook, missing: str) -> None:
    whole = gpu().raw()
    without = {key: value for key, value in whole.items() if key != missing}
    for each in (without, {**whole, missing: None}):
        answer = await hook.ask(request(each))
        assert ("patch" in answer) == (missing != "spec")


QUANTITIES: dict[str, tuple[str | int | float, str]] = {
    "words": ("two", "InvalidPod"),
    "nothing": ("", "InvalidPod"),
    "a line break": ("1\n2", "InvalidPod"),
    "a thousand digits more than the limit": ("1" * 3000, "InvalidPod"),
    "not a number": (float("nan"), "InvalidPod"),
    "infinity": (float("inf"), "InvalidPod"),
    "minus one": ("-1", "InvalidPod"),
    "minus a half": ("-500m", "InvalidPod"),
    "a half": ("500m", "QuantityNotWhole"),
    "a fraction that is a number": (0.5, "QuantityNotWhole"),
    "thirty-three": (33, "TooManyDevices"),
    "a thousand": ("1k", "TooManyDevices"),
    "the largest integer and one": ("9223372036854775808", "TooManyDevices"),
    "a number with a million digits": ("1e999999", "TooManyDevices"),
}


@pytest.mark.parametrize(("quantity", "reason"), QUANTITIES.values(), ids=QUANTITIES)
async def test_a_quantity_that_cannot_be_served_is_left_alone_with_its_reason(
    hook: Hook, quantity: object, reason: str
) -> None:
    raw = gpu().raw()
    raw["spec"]["containers"][0]["resources"] = {"requests": {GPU: quantity}, "limits": {GPU: quantity}}
    answer = await hook.ask(request(raw))
    assert "patch" not in answer
    assert answer["auditAnnotations"] == {"outcome": reason}
    said = " ".join(answer["warnings"])
    assert said.startswith(f"drabridge: {reason}: Pod default/web")
    assert "Cure: " in said
    assert "spec.containers[0]" in said or "c0 " in said


# Pods that are served

WIDE = "\u00e4\U0001f680\u4e2d\n\r\t\x00\x1b[31m\u202e\u2028"


async def test_whatever_a_pod_is_called_the_warnings_stay_headers(hook: Hook) -> None:
    for name in (WIDE, "x" * 1000, "\ud800", WIDE * 400, '%s {} \\ "'):
        for each in (gpu(name), gpu(name, count=40), pod(name).app(implicit_gpu=33), pod("a").app(name, gpu=40)):
            answer = await hook.ask(request(each.raw()))
            assert answer["warnings"]
            assert answer["auditAnnotations"]["outcome"] in {"Rewrite", "TooManyDevices", "NameNotServed"}


async def test_a_long_warning_loses_nothing_and_comes_in_pieces(hook: Hook) -> None:
    answer = await hook.ask(request(gpu("n" * 250, count=40).raw()))
    assert len(answer["warnings"]) == 2
    said = " ".join(answer["warnings"])
    assert "n" * 180 in said
    assert said.endswith("Cure: ask for at most 32 devices in all containers together.")


async def test_foreign_text_goes_through_the_patch_unharmed(hook: Hook) -> None:
    each = gpu().annotations({"note": WIDE}).labels(**{"a~b/c": "d"})
    answer = await hook.ask(request(each.raw()))
    assert not [op for op in answer["patch"] if "note" in op["path"]]


async def test_the_namespace_is_that_of_the_request_not_of_the_pod(hook: Hook) -> None:
    answer = await hook.ask(request(gpu(count=40).meta(namespace="elsewhere").raw()))
    assert " Pod default/web asks" in answer["warnings"][0]


async def test_a_namespace_nobody_knows_yet_is_no_obstacle_while_the_api_server_is_away(hook: Hook) -> None:
    assert (await hook.ask(request(gpu().raw(), namespace="new")))["patch"]


def claim_name(answer: Object) -> str:
    return next(
        str(op["value"][0]["resourceClaimName"]) for op in answer["patch"] if op["path"] == "/spec/resourceClaims"
    )


async def test_two_hundred_at_once_get_each_their_own_answer(hook: Hook) -> None:
    asked = [request(gpu(f"web-{i}").raw(), uid=f"uid-{i}") for i in range(200)]
    answers = await asyncio.gather(*(hook.ask(each) for each in asked))
    names = {claim_name(answer) for answer in answers}
    assert len(names) == 200
    assert all(CLAIM_NAME.fullmatch(name) for name in names)


def heavy() -> dict[str, Object]:
    """Pods of nearly 3 MiB, the most an API server takes."""
    size = 3 * 1024 * 1024 - 20_000
    many = 10_000
    huge = "9" * 18
    return {
        "one long annotation": gpu().annotations({"note": "x" * size}).raw(),
        "a hundred thousand labels": gpu().labels(**{f"label-{i:06}": "value" for i in range(100_000)}).raw(),
        "thousands of app containers": _flood([], [{GPU: "1"}] * many * 2),
        "thousands of init containers before one": _flood([{GPU: "1"}] * many * 2, [{GPU: "1"}]),
        "thousands of init containers that share": _flood([{GPU: "32"}] * many * 2, [{GPU: "1"}] * 32),
        "thousands of both, each with more than all": _flood([{GPU: huge}] * many, [{GPU: huge}] * many),
        "thousands of resource names": _flood([], [{f"example.com/r{i}": "1" for i in range(40_000)}]),
        "thousands of claims": {
            **gpu().raw(),
            "spec": {**gpu().raw()["spec"], "resourceClaims": [{"name": f"c{i}"} for i in range(80_000)]},
        },
    }


def _flood(inits: list[dict[str, str]], apps: list[dict[str, str]]) -> Object:
    def containers(prefix: str, asks: list[dict[str, str]]) -> list[Object]:
        return [{"name": f"{prefix}{i}", "resources": {"limits": ask, "requests": ask}} for i, ask in enumerate(asks)]

    return {**pod().raw(), "spec": {"initContainers": containers("i", inits), "containers": containers("a", apps)}}


@pytest.mark.unmeasured
@pytest.mark.parametrize("what", heavy())
async def test_the_largest_pods_are_answered_well_in_time(hook: Hook, what: str) -> None:
    """In CPU time, that of asking included: tests share machines."""
    body = json.dumps(review(request(heavy()[what]))).encode()
    assert 1.5 * 1024 * 1024 < len(body) < 3.5 * 1024 * 1024
    started = time.process_time()
    status, text = await hook.send(body)
    assert time.process_time() - started < TIMEOUT / 2
    assert status == 200
    checked(text, UID)


# Whatever comes

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PLACES = st.sampled_from([path for path, _, _ in FAULTS.values()])
SETTINGS = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@SETTINGS
@given(place=PLACES, value=JSON)
async def test_no_value_in_no_place_brings_an_internal_error(
    hook: Hook, place: tuple[str | int, ...], value: object
) -> None:
    answer = await hook.ask(request(broken(place, value)))
    assert answer["auditAnnotations"]["outcome"] not in {"Error", "Timeout"}


@SETTINGS
@given(body=st.binary(max_size=64) | JSON.map(lambda value: json.dumps(value).encode()))
async def test_no_bytes_bring_an_internal_error(hook: Hook, body: bytes) -> None:
    status, text = await hook.send(body)
    assert status == 400
    assert text.startswith("drabridge: ")


async def test_every_answer_is_counted_by_its_outcome(hook: Hook) -> None:
    def count(outcome: str) -> float:
        return hook.metrics.registry.get_sample_value("drabridge_admission_reviews_total", {"outcome": outcome}) or 0

    before = {outcome: count(outcome) for outcome in ("Rewrite", "InvalidPod", "NotAPod")}
    await hook.ask(request(gpu().raw()))
    await hook.ask(request(broken(("spec",), 7)))
    await hook.ask(request(None))
    assert {outcome: count(outcome) - before[outcome] for outcome in before} == dict.fromkeys(before, 1.0)
    assert count("Error") == 0
