"""Rewritten Pods that come again: copied, restored, applied again."""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING

import pytest

from cluster_site import Site, allocation, claim_name, container, pod, requests_of, uses
from upstream.api import Refused, wait_for

if TYPE_CHECKING:
    from e2e.conftest import Serve
    from upstream.api import Object


def bare(stored: Object, name: str, *, without: tuple[str, ...] = ()) -> Object:
    """A stored Pod as `kubectl get -o yaml` gives it to somebody who creates it again under another name."""
    body = copy.deepcopy(stored)
    for key in ("status",):
        body.pop(key, None)
    for key in ("uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", *without):
        body["metadata"].pop(key, None)
    body["metadata"]["name"] = name
    body["spec"].pop("nodeName", None)
    return body


def devices(claim: Object) -> set[tuple[str, str]]:
    return {(each["pool"], each["device"]) for each in claim["status"]["allocation"]["devices"]["results"]}


async def test_a_copy_of_a_rewritten_pod_gets_a_claim_and_devices_of_its_own(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=4)
    first = await ours.bound_back(await ours.create(ns, pod("first", container(limits={gpu.name: 2}))))
    second = await ours.bound_back(await ours.create(ns, bare(first, "second")))
    assert claim_name(second) != claim_name(first)
    one, other = await ours.claim(first), await ours.claim(second)
    assert requests_of(one) == requests_of(other)
    assert not devices(one) & devices(other)
    assert len(allocation(second)) == 2
    assert len(one["status"]["reservedFor"]) == 1


async def test_a_copy_that_lost_its_annotations_gets_the_shape_of_the_originals_claim(
    ours: Site, ns: str, serve: Serve
) -> None:
    """As `kubectl debug --copy-to` makes it."""
    gpu = await serve(devices=4)
    first = await ours.bound_back(
        await ours.create(ns, pod("first", container("a", limits={gpu.name: 1}), container("b", limits={gpu.name: 1})))
    )
    second = await ours.bound_back(await ours.create(ns, bare(first, "second", without=("labels", "annotations"))))
    assert uses(second) == uses(first)
    assert not devices(await ours.claim(first)) & devices(await ours.claim(second))


async def test_kubectl_debug_copies_do_not_share_devices(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=4)
    first = await ours.bound_back(await ours.create(ns, pod("first", container(limits={gpu.name: 1}))))
    await ours.cluster.kubectl(
        "debug", "first", "-n", ns, "--copy-to=second", "--image=busybox", "--container=shell", "--attach=false"
    )
    path = f"/api/v1/namespaces/{ns}/pods/second"
    second = await ours.bound_back(await ours.api.call("GET", path))
    assert not devices(await ours.claim(first)) & devices(await ours.claim(second))


async def test_a_copy_whose_shape_nobody_knows_does_not_share_and_is_told(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=4)
    first = await ours.bound_back(await ours.create(ns, pod("first", container(limits={gpu.name: 1}))))
    strange = bare(first, "second", without=("labels", "annotations"))
    strange["spec"]["containers"][0]["name"] = "renamed"
    stored = await ours.create(ns, strange)
    assert claim_name(stored) != claim_name(first)
    await ours.event(stored, "CopyWithoutAnnotation")
    assert len((await ours.claim(first))["status"]["reservedFor"]) == 1


@pytest.mark.parametrize("options", [(), ("--same-node",)], ids=["its YAML", "debug --same-node"])
async def test_a_copy_that_names_its_node_does_not_share_and_is_told(
    ours: Site, ns: str, serve: Serve, options: tuple[str, ...]
) -> None:
    """As `kubectl get -o yaml | kubectl create` makes it: no scheduler allocates for a Pod that has its node."""
    gpu = await serve(devices=4)
    first = await ours.bound_back(await ours.create(ns, pod("first", container(limits={gpu.name: 1}))))
    if options:
        debug = ("debug", "first", "-n", ns, "--copy-to=second", "--image=busybox", "--container=shell", *options)
        await ours.cluster.kubectl(*debug, "--attach=false")
        second = await ours.api.call("GET", f"/api/v1/namespaces/{ns}/pods/second")
    else:
        body = bare(first, "second")
        body["spec"]["nodeName"] = first["spec"]["nodeName"]
        second = await ours.create(ns, body)
    assert claim_name(second) != claim_name(first)
    assert not allocation(second)
    await ours.event(second, "NodeNameSet")
    assert len((await ours.claim(first))["status"]["reservedFor"]) == 1


async def test_a_restored_pod_whose_original_is_gone_is_served_again(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=1)
    first = await ours.bound_back(await ours.create(ns, pod("one", container(limits={gpu.name: 1}))))
    backup = bare(first, "one")
    await ours.delete(first)
    await wait_for(lambda: ours.claim_exists(first), "the first claim to go", until=lambda there: not there)
    again = await ours.bound_back(await ours.create(ns, backup))
    assert requests_of(await ours.claim(again)) == {"container-0-request-0": 1}


async def test_applying_the_original_manifest_again_changes_nothing(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=4)
    manifest = pod(
        "applied",
        container("main", limits={gpu.name: 2, "cpu": "100m"}),
        init=(container("init", limits={gpu.name: 1}),),
    )
    text = json.dumps(manifest)
    await ours.cluster.kubectl("apply", "-n", ns, "-f", "-", stdin=text)
    first = await ours.bound_back({"metadata": {"namespace": ns, "name": "applied"}})
    for arguments in (("apply",), ("apply", "--server-side", "--force-conflicts")):
        output = await ours.cluster.kubectl(*arguments, "-n", ns, "-f", "-", stdin=text)
        assert "applied" in output.out
        now = await ours.pod(first)
        assert now["spec"] == first["spec"], arguments
        assert allocation(now) == allocation(first)
        assert now["metadata"]["labels"]["drabridge.io/delivery"] == "Rewrite"


async def test_changes_that_pods_allow_go_through_and_the_quantity_does_not(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=4)
    manifest = pod("applied", container("main", limits={gpu.name: 1}))
    await ours.cluster.kubectl("apply", "-n", ns, "-f", "-", stdin=json.dumps(manifest))
    first = await ours.bound_back({"metadata": {"namespace": ns, "name": "applied"}})

    manifest["metadata"]["labels"] = {"team": "a"}
    manifest["spec"]["containers"][0]["image"] = "registry.k8s.io/pause:3.9"
    await ours.cluster.kubectl("apply", "-n", ns, "-f", "-", stdin=json.dumps(manifest))
    now = await ours.pod(first)
    assert now["metadata"]["labels"] == {"team": "a", "drabridge.io/delivery": "Rewrite"}
    assert now["spec"]["containers"][0]["image"] == "registry.k8s.io/pause:3.9"
    assert claim_name(now) == claim_name(first)

    manifest["spec"]["containers"][0]["resources"]["limits"][gpu.name] = "2"
    output = await ours.cluster.kubectl("apply", "-n", ns, "-f", "-", stdin=json.dumps(manifest), check=False)
    assert output.code
    assert "was created with 1" in output.err
    assert "delete the Pod and create it again" in output.err


async def test_a_rewritten_pod_keeps_its_marks(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=4)
    first = await ours.bound_back(await ours.create(ns, pod("marked", container(limits={gpu.name: 1}))))
    await ours.cluster.kubectl("label", "pod", "marked", "-n", ns, "drabridge.io/delivery-")
    await ours.cluster.kubectl("annotate", "pod", "marked", "-n", ns, "drabridge.io/extended-resources-")
    now = await ours.pod(first)
    assert now["metadata"]["labels"] == first["metadata"]["labels"]
    assert allocation(now) == allocation(first)
    assert now["metadata"]["annotations"] == first["metadata"]["annotations"]


async def test_the_api_server_would_refuse_the_apply_without_the_webhook(ours: Site, ns: str, serve: Serve) -> None:
    """What the tests above rest on: the same update past the webhook is refused."""
    gpu = await serve(devices=4)
    first = await ours.bound_back(await ours.create(ns, pod("direct", container(limits={gpu.name: 1}))))
    changed = copy.deepcopy(first)
    changed["spec"]["resourceClaims"] = []
    changed["spec"]["containers"][0]["resources"] = {"limits": {gpu.name: "3"}, "requests": {gpu.name: "3"}}
    path = f"/api/v1/namespaces/{ns}/pods/direct"
    try:
        await ours.api.call("PUT", path, changed)
    except Refused as refused:
        assert "pod updates may not change fields" in str(refused.body)  # noqa: PT017 - the text matters
    else:
        raise AssertionError("it went through")
