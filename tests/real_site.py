"""A cluster with drabridge and one real node: what tests make there, and what the containers see of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from bind_site import BindSite, bind_on
from cluster_site import Served, Site, claim_name, container, pod, ready_of
from upstream.api import Object, wait_for
from upstream.cluster import pod_path
from upstream.controlplane import ControlPlane
from upstream.installation import PROGRAM, Installation
from upstream.realnode import Hardware, RealNode, Seen

CLAIMS = "/apis/resource.k8s.io/v1/resourceclaims"
COUNTS = {"gpu": 8, "nic": 4, "fpga": 2}
HARDWARE = {f"{kind}.example.com": Hardware.of(f"{kind}.example.com", count) for kind, count in COUNTS.items()}
GPU, NIC, FPGA = (f"example.com/{kind}" for kind in COUNTS)
GPUS = "gpu.example.com"
"""The driver and the DeviceClass of the GPUs."""


class RealSite:
    """One cluster: `delivery` is what becomes of its Pods (Rewrite, Native or Bind)."""

    def __init__(self, site: Site, node: RealNode, delivery: str) -> None:
        self.site = site
        self.node = node
        self.delivery = delivery
        self.api = site.api

    @property
    def plane(self) -> ControlPlane:
        """The control plane."""
        assert isinstance(self.site.cluster, ControlPlane)
        return self.site.cluster

    @property
    def installed(self) -> Installation:
        """drabridge."""
        return self.site.installed

    async def start_operator(self) -> None:
        """Start drabridge again after it was killed."""
        if isinstance(self.site, BindSite):
            await self.site.start_leader()
        else:
            await self.installed.start_replica()
            await self.installed.wait_trusted()

    async def serve_all(self, undo: AsyncExitStack) -> None:
        """Make a DeviceClass and a policy for each kind of device; wait until they are delivered as they should be."""
        policy = {"delivery": self.delivery} if self.delivery == "Bind" else {}  # the others come by themselves
        for kind in COUNTS:
            await self.serve(kind, undo, **policy)
        for kind in COUNTS:
            await self.delivered(kind, self.delivery)

    async def serve(self, kind: str, undo: AsyncExitStack, **policy: Any) -> Served:
        """Make the DeviceClass and the policy of one kind of device."""
        driver, name = f"{kind}.example.com", f"example.com/{kind}"
        declared = {"extendedResourceName": name} if self.plane.version is None else {}
        await self.site.add_class(driver, driver, undo, **declared)
        await self.site.add_policy(kind, {"resourceName": name, **policy}, driver, undo)
        return Served(name, kind, driver, (self.node.name,))

    async def delivered(self, kind: str, delivery: str, deadline: float = 60.0) -> Object:
        """The policy's status, once its name is served like that."""
        return await self.site.policy(
            kind,
            lambda seen: seen.get("delivery") == delivery and ready_of(seen).get("status") == "True",
            f"to be served by {delivery}",
            deadline=deadline,
        )

    # --- Pods

    async def start(self, namespace: str, body: Object, *, deadline: float = 60.0) -> Object:
        """Create a Pod, wait until its containers have looked for their devices; check what they saw; give the Pod."""
        return await self.started(await self.site.create(namespace, body), deadline=deadline)

    async def started(self, made: Object, *, deadline: float = 60.0) -> Object:
        """Wait until a Pod's containers have looked for their devices; check what they saw; give the Pod."""
        for each in containers(made):
            await self.node.wait_seen(made, each["name"], deadline)
        live = await self.site.pod(made)
        await self.check(live)
        return live

    async def check(self, live: Object) -> None:
        """Check that each container saw what the API says it was given, and as many devices as it asked for."""
        assert bool(claim_name(live)) == (self.delivery == "Rewrite" and bool(asked(live)))
        given = await self.given(live)
        for each in containers(live):
            seen = self.look(live, each["name"])
            assert Counter(seen.devices) == given[each["name"]], f"container {each['name']}"
            assert not seen.plugin_devices
        await self.check_nothing_twice()

    def look(self, live: Object, name: str = "main") -> Seen:
        """What a container that has started saw."""
        seen = self.node.seen(live, name)
        assert seen, f"container {name} has not started"
        return seen

    async def given(self, live: Object) -> dict[str, Counter[str]]:
        """Container name -> the devices (driver/pool/device) that its claims give it, as the API server shows it."""
        given: dict[str, Counter[str]] = {}
        names = {each["name"]: each["resourceClaimName"] for each in live["spec"].get("resourceClaims", ())}
        special = live["status"].get("extendedResourceClaimStatus", {})
        for each in containers(live):
            wanted = [(names[use["name"]], use.get("request")) for use in each.get("resources", {}).get("claims", ())]
            wanted += [
                (special["resourceClaimName"], mapping["requestName"])
                for mapping in special.get("requestMappings", ())
                if mapping["containerName"] == each["name"]
            ]
            devices: set[str] = set()
            for claim, request in wanted:
                devices |= await self._devices(live["metadata"]["namespace"], claim, request)
            given[each["name"]] = Counter(devices)
        return given

    async def _devices(self, namespace: str, claim: str, request: str | None) -> set[str]:
        stored = await self.api.call("GET", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{claim}")
        results = stored["status"]["allocation"]["devices"]["results"]
        return {device(result) for result in results if request in (None, result["request"])}

    async def claims(self, namespace: str = "") -> list[Object]:
        """All claims, or those of a namespace."""
        listed = (await self.api.call("GET", CLAIMS))["items"]
        return [claim for claim in listed if namespace in ("", claim["metadata"]["namespace"])]

    async def check_nothing_twice(self) -> None:
        """Check that no device is allocated to two claims."""
        used = Counter(
            device(result)
            for claim in await self.claims()
            for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        )
        assert not {name: count for name, count in used.items() if count > 1}

    async def told(self, made: Object, reason: str, *words: str) -> None:
        """Wait until a Pod says what is wrong with its devices: an event, and a condition if it is rewritten."""
        await self.site.told(made, reason, *words, condition=self.delivery == "Rewrite")

    async def over(self, made: Object) -> None:
        """Wait until a rewritten Pod says that it can use its devices again; others never said the opposite."""
        if self.delivery == "Rewrite":
            await self.site.over(made)

    async def explain(self, made: Object) -> str:
        """What `drabridge explain` says of a Pod."""
        metadata = made["metadata"]
        process = await asyncio.create_subprocess_exec(
            PROGRAM,
            "explain",
            f"pod/{metadata['name']}",
            f"--namespace={metadata['namespace']}",
            f"--kubeconfig={self.plane.kubeconfig_admin()}",
            stdout=asyncio.subprocess.PIPE,
        )
        out, _ = await process.communicate()
        return out.decode()

    async def delete(self, live: Object, **options: Any) -> None:
        """Delete a Pod, as a user does: the kubelet confirms its end."""
        await self.api.call("DELETE", pod_path(live), options or None)

    async def gone(self, live: Object, deadline: float = 60.0) -> None:
        """Wait until a Pod is not there any more."""

        async def there() -> bool:
            status, found = await self.api.request("GET", pod_path(live))
            return status == 200 and found["metadata"]["uid"] == live["metadata"]["uid"]

        await wait_for(there, "the Pod to go", until=lambda there: not there, deadline=deadline)

    async def phase(self, live: Object, phase: str, deadline: float = 60.0) -> Object:
        """The Pod, once it is in that phase."""
        return await wait_for(
            lambda: self.site.pod(live), phase, until=lambda seen: seen["status"]["phase"] == phase, deadline=deadline
        )

    async def free(self, namespace: str) -> None:
        """Wait until no claim of a namespace is left, nor anything that is prepared on the node."""
        await wait_for(lambda: self.claims(namespace), "all claims to go", until=lambda left: not left, deadline=60)
        await wait_for(self.node.cdi_specs, "all claims to be unprepared", until=lambda left: not left, deadline=60)

    async def of_kubelet(self, live: Object, reason: str, deadline: float = 60.0) -> Object:
        """The kubelet's event of that reason about a Pod, once it is there."""
        path = f"/api/v1/namespaces/{live['metadata']['namespace']}/events"
        query = {"fieldSelector": f"involvedObject.uid={live['metadata']['uid']},reason={reason}"}

        async def look() -> list[Object]:
            return list((await self.api.call("GET", path, query=query))["items"])

        return (await wait_for(look, f"an event {reason}", deadline=deadline))[-1]

    async def empty(self, namespace: str) -> None:
        """Delete what is in a namespace, with its workloads; wait until the devices are free; delete it."""
        for path in ("apis/apps/v1/namespaces/{}/deployments", "apis/batch/v1/namespaces/{}/jobs"):
            query = {"propagationPolicy": "Background"}
            await self.api.call("DELETE", "/" + path.format(namespace), query=query)
        pods = f"/api/v1/namespaces/{namespace}/pods"

        async def left() -> list[str]:
            await self.api.call("DELETE", pods)
            return [each["metadata"]["name"] for each in (await self.api.call("GET", pods))["items"]]

        await wait_for(left, "all Pods to go", until=lambda names: not names, deadline=60)
        await self.api.call("DELETE", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims")
        await self.free(namespace)
        await self.api.call("DELETE", f"/api/v1/namespaces/{namespace}")


async def start(
    plane: ControlPlane, stack: AsyncExitStack, delivery: str, kubelet: str | None, *, options: tuple[str, ...]
) -> RealSite:
    """Start a control plane, a node whose kubelet is of that version, and drabridge; the stack ends them."""
    stack.push_async_callback(plane.stop)
    await plane.start()
    node = await stack.enter_async_context(RealNode(plane, version=kubelet, hardware=HARDWARE))
    if delivery == "Bind":
        site: Site = await stack.enter_async_context(bind_on(plane))
    else:
        site = Site(plane, await stack.enter_async_context(Installation(plane, options=options)))
    return RealSite(site, node, delivery)


def simple(name: str = "pod", count: int = 1, **spec: Any) -> Object:
    """A Pod with one container that asks for GPUs."""
    return body(name, container(limits={GPU: count}), **spec)


def body(name: str, *each: Object, **spec: Any) -> Object:
    """A Pod whose end the kubelet confirms, unlike that of a Pod without a grace period."""
    return pod(name, *each, **{"terminationGracePeriodSeconds": 1, **spec})


def containers(live: Object) -> list[Object]:
    """All containers of a Pod."""
    return [*live["spec"].get("initContainers", ()), *live["spec"]["containers"]]


def asked(live: Object) -> Mapping[str, str]:
    """What drabridge remembers of a rewritten Pod, and what a native one asks for."""
    annotations: Mapping[str, str] = live["metadata"].get("annotations", {})
    if any(key.startswith("drabridge.io/") for key in annotations):
        return annotations
    return {
        name: value
        for each in containers(live)
        for name, value in each.get("resources", {}).get("limits", {}).items()
        if name.startswith("example.com/")
    }


def device(result: Object) -> str:
    """A device, or a share of one, as its container sees it."""
    return "/".join(result[key] for key in ("driver", "pool", "device", "shareID") if key in result)
