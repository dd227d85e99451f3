"""Pods that cannot use their devices: what event and condition say, once, and that they say when it is over.

Real kubelets and drivers fail in `node/test_bad_input.py`; here their part is played.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster_site import Served, Site, container, pod
from upstream.api import MERGE_PATCH, wait_for
from upstream.cluster import NOT_STARTED
from upstream.kubelet import devices_of

if TYPE_CHECKING:
    from e2e.conftest import Serve

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


async def publish(site: Site, gpu: Served, names: list[str]) -> None:
    """Publish other devices instead of the ones there are."""
    (node,) = gpu.nodes
    path = f"{SLICES}/{node}-{gpu.policy}.example.com"
    generation = (await site.api.call("GET", path))["spec"]["pool"]["generation"] + 1
    devices = [each | {"name": name} for each, name in zip(devices_of("x", len(names)), names, strict=True)]
    spec = {"devices": devices, "pool": {"generation": generation}}
    await site.api.call("PATCH", path, {"spec": spec}, MERGE_PATCH)


async def test_a_pod_that_waits_for_devices_that_nobody_publishes(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve(devices=0)
    made = await ours.create(ns, pod("pod", container(limits={gpu.name: 1})))
    await ours.told(made, "NoDevicesPublished", f"DeviceClass {gpu.device_class} selects none", "start the DRA driver")
    node = await ours.api.call("GET", f"/api/v1/nodes/{gpu.nodes[0]}")
    await ours.cluster.add_devices(node, driver=f"{gpu.policy}.example.com", devices=1)
    await ours.bound_back(made)
    await ours.over(made)
    assert [each["reason"] for each in await ours.events(made)].count("NoDevicesPublished") == 1


async def test_a_pod_whose_kubelet_cannot_prepare_its_devices(ours: Site, ns: str, serve: Serve) -> None:
    gpu = await serve()
    body = pod("pod", container(limits={gpu.name: 1}), metadata={"labels": {NOT_STARTED: ""}})
    made = await ours.create(ns, body)
    bound = await ours.bound_back(made)
    about = {"kind": "Pod", "apiVersion": "v1", "namespace": ns, "name": "pod", "uid": bound["metadata"]["uid"]}
    said = "Failed to prepare dynamic resources: open /var/run/cdi/gpu.json: read-only file system"
    now = bound["metadata"]["creationTimestamp"]
    event = {
        "metadata": {"name": "pod.prepare"},
        "involvedObject": about,
        "reason": "FailedPrepareDynamicResources",
        "message": said,
        "type": "Warning",
        "source": {"component": "kubelet", "host": gpu.nodes[0]},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
    bare = {**event, "metadata": {"name": "bare"}, "message": "x", **dict.fromkeys(("firstTimestamp", "lastTimestamp"))}
    for each in (bare | {"involvedObject": about | {"uid": "another"}}, event):
        await ours.api.call("POST", f"/api/v1/namespaces/{ns}/events", each)
    await ours.told(made, "NodeNotWritable", f"the kubelet on {gpu.nodes[0]} says: {said}", "writable")
    await ours.cluster.mark_running(bound)
    await ours.over(made)


async def test_a_pod_whose_device_has_another_name_now_is_told_once_and_not_again_by_the_next_leader(
    ours: Site, ns: str, serve: Serve
) -> None:
    gpu = await serve(devices=2)
    made = await ours.create(ns, pod("pod", container(limits={gpu.name: 2})))
    await ours.bound_back(made)
    await wait_for(lambda: ours.pod(made), "it to run", until=lambda seen: seen["status"]["phase"] == "Running")
    kept = [each["name"] for each in devices_of(f"{gpu.policy}.example.com", 2)]
    await publish(ours, gpu, ["card-0", kept[1]])
    event = await ours.told(made, "DeviceNotPublished", f"{gpu.policy}.example.com/{gpu.nodes[0]}/{kept[0]}")
    version = (await ours.pod(made))["metadata"]["resourceVersion"]
    await ours.installed.replicas[-1].stop()
    replica = await ours.installed.start_replica()
    await ours.installed.wait_trusted()
    later = await ours.create(ns, pod("later", container(limits={gpu.name: 1})))
    await ours.bound_back(later)
    await publish(ours, gpu, [kept[1]])
    await ours.told(later, "DeviceNotPublished", "/card-0")  # so the new leader has looked at the first one as well
    assert await replica.metric("drabridge_pods_in_trouble", reason="DeviceNotPublished") == 2
    assert [each for each in await ours.events(made) if each["reason"] == "DeviceNotPublished"] == [event]
    assert (await ours.pod(made))["metadata"]["resourceVersion"] == version

    await publish(ours, gpu, kept)
    await ours.over(made)
