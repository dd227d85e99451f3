"""What people who may create Pods, and nothing else, can get out of forged marks: nothing that is not theirs.

Anybody can write drabridge's label, annotation and claim names on a Pod. Nothing of it is believed: what the Pod may
have is decided afresh, at admission and again when the claim is created.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from cluster_site import Site, allocation, claim_name, claim_path, container, pod, requests_of, uses
from conftest import SITE_OPTIONS
from drabridge.core.reasons import CURES, Reason
from upstream.api import Api, Object, Refused, wait_for
from upstream.controlplane import ControlPlane
from upstream.installation import CONFIGURATION, Installation

if TYPE_CHECKING:
    from cluster_site import Served
    from e2e.conftest import Serve

LABEL = {"drabridge.io/delivery": "Rewrite"}
ANNOTATION = "drabridge.io/extended-resources"
FORGED = "drabridge-f0rgedf0rgedf0rg"
REQUEST = "container-0-request-0"


def asked(name: str, *, container_count: int = 1, count: int = 1, **more: Any) -> str:
    """The annotation of a Pod whose container `main` asks for devices."""
    return json.dumps(
        {
            "containers": {"main": {name: str(container_count)}},
            "requests": [{"name": REQUEST, "resourceName": name, "count": count, **more}],
            "requestMappings": [{"containerName": "main", "resourceName": name, "requestName": REQUEST}],
        }
    )


def forged(name: str, annotation: str | None, *, labels: Object | None = None, claim: str = FORGED) -> Object:
    """A Pod that looks as if drabridge had rewritten it."""
    body = container(resources={"claims": [{"name": "drabridge", "request": REQUEST}]})
    annotations = {} if annotation is None else {ANNOTATION: annotation}
    metadata = {"labels": LABEL if labels is None else labels, "annotations": annotations}
    entry = {"name": "drabridge", "resourceClaimName": claim}
    return pod(name, body, metadata=metadata, resourceClaims=[entry])


def marked(name: str, annotation: str, **spec: Any) -> Object:
    """A Pod with drabridge's label and annotation, and no claim."""
    return pod(name, container(), metadata={"labels": LABEL, "annotations": {ANNOTATION: annotation}}, **spec)


@pytest_asyncio.fixture
async def author(site: Site, ns: str, afterwards: AsyncExitStack) -> AsyncIterator[Site]:
    """The site as somebody sees it who may create, read and delete Pods of one namespace."""
    path = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{ns}"
    await site.api.call("POST", f"/api/v1/namespaces/{ns}/serviceaccounts", {"metadata": {"name": "author"}})
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["create", "get", "list", "delete"]}]
    await site.api.call("POST", f"{path}/roles", {"metadata": {"name": "author"}, "rules": rules})
    binding = {
        "metadata": {"name": "author"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "author"},
        "subjects": [{"kind": "ServiceAccount", "name": "author", "namespace": ns}],
    }
    await site.api.call("POST", f"{path}/rolebindings", binding)
    api = Api.from_kubeconfig(await site.cluster.kubeconfig_for(ns, "author"))
    afterwards.push_async_callback(api.close)
    await wait_for(
        lambda: api.request("GET", f"/api/v1/namespaces/{ns}/pods"), "the role", until=lambda answer: answer[0] == 200
    )
    limited = Site(site.cluster, site.installation)
    limited.api = api
    yield limited


async def claims_in(site: Site, ns: str) -> list[str]:
    listed = await site.api.call("GET", f"/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims")
    return [str(each["metadata"]["name"]) for each in listed["items"]]


async def everything_before_was_seen(site: Site, ns: str, gpu: Served) -> Object:
    """Create an honest Pod and wait until it is served: what came before it has been looked at by then."""
    return await site.bound_back(await site.create(ns, pod("honest", container(limits={gpu.name: 1}))))


async def test_a_label_and_annotation_without_our_claim_get_nothing(
    site: Site, author: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    pods = [
        await author.create(ns, marked("marked", asked(gpu.name, count=8, container_count=8))),
        await author.create(ns, marked("other-claim", "{}", resourceClaims=[{"name": "c", "resourceClaimName": "x"}])),
        await author.create(ns, pod("labelled", container(), metadata={"labels": {"drabridge.io/delivery": "Native"}})),
    ]
    honest = await everything_before_was_seen(site, ns, gpu)
    assert await claims_in(site, ns) == [claim_name(honest)]
    await site.policy(gpu.policy, lambda seen: (seen["pods"], seen["devices"]["allocated"]) == (1, 1), "one Pod only")
    for each in pods:
        seen = await site.pod(each)
        assert seen["metadata"]["annotations" if "annotations" in each["metadata"] else "labels"]
        assert "drabridge.io/allocation" not in seen["metadata"].get("annotations", {})
        assert not any(each["type"].startswith("drabridge.io") for each in seen["status"].get("conditions", ()))
        assert not await site.events(seen)


async def test_an_annotation_on_a_pod_that_asks_by_name_is_written_anew(
    site: Site, author: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    body = marked("both", asked(gpu.name, container_count=8, count=8))
    body["spec"]["containers"][0]["resources"] = {"limits": {gpu.name: "1"}}
    bound = await site.bound_back(await author.create(ns, body))
    assert requests_of(await site.claim(bound)) == {REQUEST: 1}
    assert json.loads(bound["metadata"]["annotations"][ANNOTATION])["containers"] == {"main": {gpu.name: "1"}}


REFUSED_NAMES: dict[str, tuple[Reason, dict[str, Any]]] = {
    "whose policy selects other namespaces": (
        Reason.NOT_SELECTED,
        {"namespaceSelector": {"matchLabels": {"team": "other"}}},
    ),
    "whose policy selects other Pods": (Reason.NOT_SELECTED, {"podSelector": {"matchLabels": {"team": "other"}}}),
    "whose policy is off": (Reason.POLICY_OFF, {"delivery": "Off"}),
}


async def test_a_forged_claim_entry_gets_no_claim_for_a_name(site: Site, author: Site, ns: str, serve: Serve) -> None:
    made: list[tuple[str, Reason, Served, Object]] = []
    for what, (reason, policy) in REFUSED_NAMES.items():
        gpu = await serve(policy=policy)
        claim = f"drabridge-{len(made):016d}"
        stored = await author.create(ns, forged(f"forged-{len(made)}", asked(gpu.name), claim=claim))
        made.append((what, reason, gpu, stored))
    for what, reason, gpu, stored in made:
        event = await site.event(stored, reason)
        assert f"ExtendedResourcePolicy {gpu.policy}" in event["note"], what
        assert event["note"].endswith(f"Cure: {CURES[reason]}."), what
    assert await claims_in(site, ns) == []


async def test_a_forged_claim_entry_does_not_get_round_a_quota_on_the_name(
    site: Site, author: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    quota = {"metadata": {"name": "caps"}, "spec": {"hard": {f"requests.{gpu.name}": "1"}}}
    path = f"/api/v1/namespaces/{ns}/resourcequotas"
    await site.api.call("POST", path, quota)
    await wait_for(lambda: site.api.call("GET", f"{path}/caps"), "the quota", until=lambda seen: seen.get("status"))
    stored = await author.create(ns, forged("forged", asked(gpu.name, container_count=4, count=4)))
    event = await site.event(stored, Reason.CLAIM_REFUSED)
    assert "exceeded quota: drabridge-caps" in event["note"]
    assert await claims_in(site, ns) == []


async def test_a_forged_request_gets_what_its_container_asks_for_and_no_administrator_access(
    site: Site, author: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    text = asked(gpu.name, container_count=1, count=8, adminAccess=True, deviceClassName="other")
    bound = await site.bound_back(await author.create(ns, forged("greedy", text)))
    (request,) = (await site.claim(bound))["spec"]["devices"]["requests"]
    exactly = {"deviceClassName": gpu.device_class, "allocationMode": "ExactCount", "count": 1}
    assert request == {"name": REQUEST, "exactly": exactly}
    assert len(allocation(bound)) == 1


NAME = "example.com/gpu"
UNREADABLE = {
    "no JSON": "}{",
    "nothing": "",
    "null": "null",
    "a number": "1e400",
    "an empty object": "{}",
    "a list": "[]",
    "200 KiB of one letter": "x" * (200 * 1024),
    "200 KiB of JSON": json.dumps({"containers": {f"c{index}": {NAME: "1"} for index in range(6_000)}}),
    "JSON of 100,000 levels": "[" * 100_000 + "]" * 100_000,
    "objects of 20,000 levels": '{"containers":' * 14_000 + "1" + "}" * 14_000,
    "a number of 100,000 digits": '{"requests":[{"count":' + "9" * 100_000 + "}]}",
    "a quantity that fills the memory": json.dumps({"containers": {"main": {NAME: "1e999999999"}}}),
    "too many devices": asked(NAME, container_count=33, count=33),
    "a negative count": asked(NAME, count=-1),
    "half a device": asked(NAME).replace('"count": 1', '"count": 0.5'),
    "a name that is not extended": asked("cpu"),
    "control characters": asked(NAME).replace("main", "\\u0000\\ud800"),
}


async def test_an_annotation_that_makes_no_sense_is_reported_and_gets_no_claim(
    site: Site, author: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    stored: dict[str, Object] = {}
    for number, (what, text) in enumerate(UNREADABLE.items()):
        annotation = text.replace(NAME, gpu.name)[: 255 * 1024]
        stored[what] = await author.create(ns, forged(f"odd-{number}", annotation))
    for what, each in stored.items():
        event = await site.event(each, Reason.ANNOTATION_INVALID)
        note = event["note"]
        assert f"Pod {ns}/{each['metadata']['name']}" in note, what
        assert note.endswith(f"Cure: {CURES[Reason.ANNOTATION_INVALID]}."), what
        assert len(note.encode()) <= 1024, what
    honest = await everything_before_was_seen(site, ns, gpu)
    assert await claims_in(site, ns) == [claim_name(honest)]


# --- copies


def copy_of(stored: Object, name: str, **metadata: Any) -> Object:
    """What `kubectl get -o yaml | edit the name | kubectl create` sends; `metadata` is None for what was left out."""
    kept = {"labels": stored["metadata"]["labels"], "annotations": stored["metadata"]["annotations"], **metadata}
    spec = {key: value for key, value in stored["spec"].items() if key != "nodeName"}
    # Its volume and mount of the token are made anew.
    spec["volumes"] = [each for each in spec.get("volumes", ()) if not each["name"].startswith("kube-api-access")]
    for each in spec["containers"]:
        each["volumeMounts"] = []
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **{key: value for key, value in kept.items() if value is not None}},
        "spec": spec,
    }


async def test_a_copy_of_a_rewritten_pod_gets_a_claim_and_devices_of_its_own(
    ours: Site, author: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve(devices=4)
    original = await ours.bound_back(await author.create(ns, pod("original", container(limits={gpu.name: 2}))))
    stored = await author.create(ns, copy_of(await ours.pod(original), "copy"))
    assert claim_name(stored) != claim_name(original)
    assert not allocation(stored)  # that of the original would be a lie
    bound = await ours.bound_back(stored)
    assert uses(bound) == uses(original)
    devices = [{each["device"] for each in allocation(each)} for each in (original, bound)]
    assert not devices[0] & devices[1]
    assert [len(each) for each in devices] == [2, 2]


async def test_a_copy_that_is_made_while_the_original_waits_gets_a_claim_of_its_own(
    ours: Site, author: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve(devices=1)
    first = await author.create(ns, pod("first", container(limits={gpu.name: 1})))

    async def is_known() -> bool:
        query = {"dryRun": "All"}
        path = f"/api/v1/namespaces/{ns}/pods"
        return claim_name(await author.api.call("POST", path, copy_of(first, "copy"), query=query)) != claim_name(first)

    # Until the webhook's watch has shown the original, a copy looks like the second call for it.
    await wait_for(is_known, "the webhook to know the original")
    copies = [await author.create(ns, copy_of(first, f"copy-{index}")) for index in range(2)]
    assert len({claim_name(each) for each in (first, *copies)}) == 3
    for each in (first, *copies):
        bound = await ours.bound_back(each)
        assert (await ours.claim(bound))["metadata"]["ownerReferences"][0]["uid"] == each["metadata"]["uid"]
        await ours.delete(each)


async def test_a_copy_that_keeps_its_node_is_warned_of(ours: Site, author: Site, ns: str, serve: Serve) -> None:
    gpu = await serve()
    original = await ours.bound_back(await author.create(ns, pod("original", container(limits={gpu.name: 1}))))
    body = copy_of(original, "copy")
    body["spec"]["nodeName"] = original["spec"]["nodeName"]
    output = await ours.cluster.kubectl("create", "-n", ns, "--dry-run=server", "-f", "-", stdin=json.dumps(body))
    assert f"drabridge: {Reason.NODE_NAME_SET}:" in output.err


# --- claims of others


async def test_a_name_of_our_kind_that_somebody_else_uses_is_not_taken(
    site: Site, author: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve()
    claims = f"/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims"
    with pytest.raises(Refused, match="forbidden"):
        await author.api.call("POST", claims, claim_body(gpu))
    foreign = await site.api.call("POST", claims, claim_body(gpu))
    stored = await author.create(ns, forged("forged", asked(gpu.name)))
    assert claim_name(stored) != FORGED
    await site.bound_back(stored)
    assert await site.api.call("GET", f"{claims}/{FORGED}") == foreign


def claim_body(gpu: Served, **metadata: Any) -> Object:
    request = {"name": REQUEST, "exactly": {"deviceClassName": gpu.device_class}}
    return {"metadata": {"name": FORGED, **metadata}, "spec": {"devices": {"requests": [request]}}}


async def test_a_spoofed_mark_of_kube_scheduler_is_not_counted(site: Site, ns: str, serve: Serve) -> None:
    gpu = await serve()
    claims = f"/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims"
    mark = {"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}
    await site.api.call("POST", claims, claim_body(gpu, **mark))
    honest = await everything_before_was_seen(site, ns, gpu)
    # On a claim of ours, it does not count twice.
    await site.api.call("PATCH", claim_path(honest), {"metadata": mark}, "application/merge-patch+json")
    await site.policy(
        gpu.policy,
        lambda seen: (seen["pods"], seen["claims"], seen["devices"]["allocated"]) == (1, 1, 1),
        "one Pod, one claim, one device",
    )
    again = await site.bound_back(await site.create(ns, pod("again", container(limits={gpu.name: 1}))))
    status = await site.policy(gpu.policy, lambda seen: seen["pods"] != 1, "the next Pod")
    assert (status["pods"], status["claims"]) == (2, 2)
    assert claim_name(again) != FORGED


# --- without the webhook: what the operator itself believes


@pytest_asyncio.fixture
async def no_webhook(own_plane: ControlPlane) -> AsyncIterator[Site]:
    """drabridge, asked by nobody: every Pod is stored as its author wrote it."""
    async with Installation(own_plane, options=SITE_OPTIONS) as installation:
        await own_plane.api.call("DELETE", CONFIGURATION)
        yield Site(own_plane, installation)


@pytest.mark.skipif("DRABRIDGE_E2E_KUBECONFIG" in os.environ, reason="takes the webhook away")
async def test_without_the_webhook_forged_pods_get_no_more(
    no_webhook: Site, unique: Callable[[], str], afterwards: AsyncExitStack
) -> None:
    site, ns = no_webhook, "default"
    gpu = await site.serve(unique(), afterwards)

    # The API server may not know yet that the webhook is gone.
    async def untouched() -> bool:
        body = pod("try", container(limits={gpu.name: 1}))
        stored = await site.api.call("POST", f"/api/v1/namespaces/{ns}/pods", body, query={"dryRun": "All"})
        return not claim_name(stored)

    await wait_for(untouched, "the webhook to be gone")

    claims = f"/apis/resource.k8s.io/v1/namespaces/{ns}/resourceclaims"
    # Nobody can allocate it, so that nothing but drabridge could touch it.
    body = claim_body(gpu)
    body["spec"]["devices"]["requests"][0]["exactly"]["count"] = 32
    foreign = await site.api.call("POST", claims, body)
    victim = await site.create(ns, forged("points-to-it", asked(gpu.name)))
    event = await site.event(victim, Reason.CLAIM_FOREIGN)
    assert event["note"] == (
        f"ResourceClaim {ns}/{FORGED} is not owned by Pod {ns}/points-to-it. Cure: {CURES[Reason.CLAIM_FOREIGN]}."
    )
    assert await site.api.call("GET", f"{claims}/{FORGED}") == foreign

    greedy = forged("greedy", asked(gpu.name, container_count=1, count=8), claim="drabridge-greedygreedygree")
    stored = await site.create(ns, greedy)
    await site.event(stored, Reason.ANNOTATION_INVALID)

    # What a rewritten Pod would look like is served, whoever wrote it: it asks for no more than it could have had.
    fair = forged("fair", asked(gpu.name, container_count=2, count=2), claim="drabridge-fairfairfairfair")
    bound = await site.bound_back(await site.create(ns, fair))
    assert requests_of(await site.claim(bound)) == {REQUEST: 2}
    missed = await site.create(ns, pod("missed", container(limits={gpu.name: 1})))
    await site.event(missed, Reason.MISSED)
    assert await claims_in(site, ns) == sorted([FORGED, claim_name(bound)])
