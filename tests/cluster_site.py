"""A cluster with drabridge in it, as tests of the whole use it: ask for a resource name, create Pods, see what comes.

On a control plane of ours every name gets devices and a DeviceClass of its own, and kubelets are played. On a real
cluster the names lead to the DeviceClass of its DRA driver, and kubelets are real.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from upstream.api import MERGE_PATCH, Object, wait_for
from upstream.cluster import Cluster, pod_path
from upstream.installation import PROGRAM, Installation

REAL_CLASS = "gpu.example.com"
POLICIES = "/apis/drabridge.io/v1alpha1/extendedresourcepolicies"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
IMAGE = "registry.k8s.io/pause:3.10"


@dataclass(frozen=True, slots=True)
class Served:
    """A resource name of one test, the policy and DeviceClass behind it, and the nodes that have its devices."""

    name: str
    policy: str
    device_class: str
    nodes: tuple[str, ...]


class Site:
    """One cluster with drabridge; `installation` is None where it was there before."""

    def __init__(self, cluster: Cluster, installation: Installation | None) -> None:
        self.cluster = cluster
        self.installation = installation
        self.api = cluster.api

    @property
    def installed(self) -> Installation:
        """The installation, for tests that stop and start replicas."""
        assert self.installation, "this test needs a control plane of ours"
        return self.installation

    # --- what tests make

    async def serve(
        self,
        unique: str,
        undo: AsyncExitStack,
        *,
        devices: int = 8,
        nodes: int = 1,
        on: Sequence[str] = (),
        kubelet_version: str = "v1.35.0",
        policy: Mapping[str, Any] | None = None,
    ) -> Served:
        """Have drabridge serve a new name, `<unique>.example.com/gpu`, by a policy whose spec `policy` adds to.

        The devices are on new nodes, or on the nodes `on` that there are already.
        """
        device_class, driver = REAL_CLASS, f"{unique}.example.com"
        made = list(on)
        if self.installation:
            for name in on:
                node = await self.api.call("GET", f"/api/v1/nodes/{name}")
                await self.cluster.add_devices(node, driver=driver, devices=devices)
            for number in range(0 if on else nodes):
                name = f"{unique}-{number}"
                await self.cluster.add_node(name, devices=devices, driver=driver, kubelet_version=kubelet_version)
                undo.push_async_callback(self.cluster.remove_node, name)
                made.append(name)
            device_class = await self.add_class(unique, driver, undo)
        resource = f"{unique}.example.com/gpu"
        await self.add_policy(unique, {"resourceName": resource, **(policy or {})}, device_class, undo)
        return Served(resource, unique, device_class, tuple(made))

    async def add_class(self, name: str, driver: str, undo: AsyncExitStack, **spec: Any) -> str:
        """Make a DeviceClass for all devices of a driver."""
        body = {
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{driver}'"}}], **spec},
        }
        await self.api.call("POST", CLASSES, body)
        undo.push_async_callback(self.api.request, "DELETE", f"{CLASSES}/{name}")
        return name

    async def add_policy(self, name: str, spec: Mapping[str, Any], device_class: str, undo: AsyncExitStack) -> Object:
        """Make an ExtendedResourcePolicy."""
        kind = {"apiVersion": "drabridge.io/v1alpha1", "kind": "ExtendedResourcePolicy"}
        body = {**kind, "metadata": {"name": name}, "spec": {"devices": [{"deviceClassName": device_class}], **spec}}
        stored = await self.api.call("POST", POLICIES, body)
        undo.push_async_callback(self.api.request, "DELETE", f"{POLICIES}/{name}")
        return stored

    async def create(self, namespace: str, pod: Object) -> Object:
        """Create a Pod."""
        return await self.api.call("POST", f"/api/v1/namespaces/{namespace}/pods", pod)

    async def delete(self, pod: Object) -> None:
        """Delete a Pod at once: on a control plane of ours no kubelet confirms its end."""
        await self.api.call("DELETE", pod_path(pod), {"gracePeriodSeconds": 0})

    # --- what tests see

    async def pod(self, pod: Object) -> Object:
        """The Pod as it is now."""
        return await self.api.call("GET", pod_path(pod))

    async def bound_back(self, pod: Object, deadline: float = 30.0) -> Object:
        """The Pod once it has a node and its devices are written on it."""
        return await wait_for(
            lambda: self.pod(pod), f"{pod_path(pod)} to be bound back", until=allocation, deadline=deadline
        )

    async def claim(self, pod: Object) -> Object:
        """The claim that a rewritten Pod points to. Raises Refused (404) if there is none."""
        return await self.api.call("GET", claim_path(pod))

    async def claim_exists(self, pod: Object) -> bool:
        """Whether the claim that a rewritten Pod points to is there."""
        return (await self.api.request("GET", claim_path(pod)))[0] == 200

    async def events(self, pod: Object) -> list[Object]:
        """drabridge's events about a Pod, oldest first."""
        namespace = pod["metadata"]["namespace"]
        listed = await self.api.call("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
        ours = [
            event
            for event in listed["items"]
            if event.get("reportingController") == "drabridge.io/operator"
            and event["regarding"].get("uid") == pod["metadata"]["uid"]
        ]
        return sorted(ours, key=lambda event: str(event["eventTime"]))

    async def event(self, pod: Object, reason: str, deadline: float = 30.0) -> Object:
        """The event of that reason about a Pod, once it is there."""

        async def look() -> Object | None:
            return next((event for event in await self.events(pod) if event["reason"] == reason), None)

        found = await wait_for(look, f"an event {reason} about {pod_path(pod)}", deadline=deadline)
        assert found
        return found

    async def told(self, pod: Object, reason: str, *words: str, condition: bool = True) -> Object:
        """The event of that reason about a Pod; it and, unless it must have none, the condition have these words."""
        event = await self.event(pod, reason)

        async def shown() -> Object:
            return usable_of(await self.pod(pod))

        if condition:
            found = await wait_for(shown, f"the condition {reason}", until=lambda seen: seen.get("reason") == reason)
            assert (found["status"], found["message"]) == ("False", event["note"])
        else:
            assert await shown() == {}
        assert event["type"] == "Warning"
        for each in (*words, "Cure: "):
            assert each in event["note"]
        return event

    async def over(self, pod: Object) -> None:
        """Wait until a Pod's condition says that its devices can be used again."""
        what = f"{pod_path(pod)} to have usable devices"
        await wait_for(lambda: self.pod(pod), what, until=lambda seen: usable_of(seen).get("status") == "True")

    async def policy(
        self, name: str, condition: Callable[[Object], object], what: str, deadline: float = 30.0
    ) -> Object:
        """The status of a policy, once `condition` holds for it."""

        async def status() -> Object:
            seen: Object = (await self.api.call("GET", f"{POLICIES}/{name}")).get("status", {})
            return seen

        return await wait_for(
            status, f"policy {name}: {what}", until=lambda seen: seen and condition(seen), deadline=deadline
        )

    async def ready(self, name: str, reason: str) -> Object:
        """The Ready condition of a policy, once it has that reason."""
        return await self.condition(name, "Ready", reason)

    async def condition(self, name: str, type_: str, reason: str) -> Object:
        """A condition of a policy, once it has that reason."""
        status = await self.policy(
            name, lambda seen: condition_of(seen, type_).get("reason") == reason, f"{type_} with {reason}"
        )
        return condition_of(status, type_)

    async def set_policy(self, name: str, spec: Mapping[str, Any]) -> None:
        """Change fields of a policy's spec (merge patch)."""
        await self.api.call("PATCH", f"{POLICIES}/{name}", {"spec": dict(spec)}, MERGE_PATCH)

    # --- the part of kubelets

    async def finish(self, pod: Object) -> None:
        """Let a Pod end by itself."""
        if self.installation:
            await self.cluster.finish(pod)
        else:
            await wait_for(
                lambda: self.pod(pod), "the Pod to end", until=lambda seen: seen["status"]["phase"] == "Succeeded"
            )


def squeezed(text: str) -> str:
    """The text without white space: long warnings come in several lines."""
    return "".join("".join(line.removeprefix("Warning: ") for line in text.splitlines()).split())


async def create_by_kubectl(site: Site, ns: str, body: Object) -> tuple[Object, str]:
    """Create a Pod as a person does; give it as it was stored, and all warnings as one squeezed text."""
    output = await site.cluster.kubectl("create", "-n", ns, "-f", "-", "-o", "json", stdin=json.dumps(body))
    return json.loads(output.out), squeezed(output.err)


async def drain(site: Site, *options: str) -> tuple[int, str]:
    """Run `drabridge drain`; give its exit code, and what it says."""
    process = await asyncio.create_subprocess_exec(
        str(PROGRAM),
        "drain",
        f"--kubeconfig={site.cluster.kubeconfig_admin()}",
        *options,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


def container(name: str = "main", **spec: Any) -> Object:
    """A container that asks for nothing; `limits` are its resource limits."""
    limits = spec.pop("limits", None)
    resources = {"resources": {"limits": {key: str(value) for key, value in limits.items()}}} if limits else {}
    return {"name": name, "image": IMAGE, **resources, **spec}


def pod(
    name: str = "pod", *containers: Object, init: tuple[Object, ...] = (), metadata: Object | None = None, **spec: Any
) -> Object:
    """A Pod."""
    body: Object = {"containers": list(containers), "terminationGracePeriodSeconds": 0, **spec}
    if init:
        body["initContainers"] = list(init)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **(metadata or {})}, "spec": body}


def claim_name(pod: Object) -> str:
    """The name of the claim that drabridge put into a Pod; empty if there is none."""
    names = [str(claim.get("resourceClaimName", "")) for claim in pod["spec"].get("resourceClaims", ())]
    return next((name for name in names if name.startswith("drabridge-")), "")


def claim_path(pod: Object) -> str:
    """Where that claim lives."""
    return f"/apis/resource.k8s.io/v1/namespaces/{pod['metadata']['namespace']}/resourceclaims/{claim_name(pod)}"


def allocation(pod: Object) -> list[Object]:
    """What is bound back on a Pod: container, resource, request, driver, pool, device of each device."""
    return list(json.loads(pod["metadata"].get("annotations", {}).get("drabridge.io/allocation", "[]")))


def requests_of(claim: Object) -> dict[str, int]:
    """Request name -> count."""
    return {each["name"]: each["exactly"]["count"] for each in claim["spec"]["devices"]["requests"]}


def uses(pod: Object) -> dict[str, list[str]]:
    """Container name -> the requests of our claim that it uses."""
    entry = next(
        (
            each["name"]
            for each in pod["spec"].get("resourceClaims", ())
            if each.get("resourceClaimName") == claim_name(pod)
        ),
        "",
    )
    return {
        each["name"]: [
            claim["request"] for claim in each.get("resources", {}).get("claims", ()) if claim["name"] == entry
        ]
        for each in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
    }


def condition_of(status: Object, type_: str) -> Object:
    """A condition; empty if there is none."""
    return next((each for each in status.get("conditions", ()) if each["type"] == type_), {})


def usable_of(pod: Object) -> Object:
    """What drabridge says of a Pod's devices where something was wrong with them; empty if nothing ever was."""
    return condition_of(pod["status"], "drabridge.io/DevicesUsable")


def ready_of(status: Object) -> Object:
    """The Ready condition; empty if there is none."""
    return condition_of(status, "Ready")
