"""A cluster we are the administrator of: namespaces, identities, and the part of its nodes that nobody runs."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import aiohttp

from upstream import kubelet
from upstream.api import MERGE_PATCH, STRATEGIC_PATCH, Api, Object, Refused, wait_for
from upstream.credentials import write_kubeconfig

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

TOKEN_SECONDS = 24 * 3600
PLAY_SECONDS = 0.3
DRIVER = "gpu.example.com"
NOT_STARTED = "not-started"


@dataclass(frozen=True, slots=True)
class Output:
    """What a kubectl said."""

    code: int
    out: str
    err: str


class Cluster:
    """Any cluster, by an admin kubeconfig; `directory` takes the files made for it. It must be closed."""

    def __init__(self, *, kubeconfig: Path, kubectl: Sequence[str | Path], directory: Path) -> None:
        self._kubectl = kubectl
        self.directory = directory
        self._kubeconfig = kubeconfig
        self._api: Api | None = None

    @property
    def api(self) -> Api:
        """The administrator's client."""
        if self._api is None:
            self._api = Api.from_kubeconfig(self._kubeconfig)
        return self._api

    async def close(self) -> None:
        """Close the client."""
        if self._api:
            await self._api.close()
            self._api = None

    def kubeconfig_admin(self) -> Path:
        """Give the path of the administrator's kubeconfig."""
        return self._kubeconfig

    async def kubeconfig_for(self, namespace: str, service_account: str) -> Path:
        """Give the path of a kubeconfig with a real token of that ServiceAccount (TokenRequest, a day long)."""
        answer = await self.api.call(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": TOKEN_SECONDS},
            },
        )
        # The authority that every namespace is given is the one the API server's certificate verifies by.
        authority = await self.api.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt")
        return write_kubeconfig(
            self.directory / f"{namespace}.{service_account}.kubeconfig",
            server=self.api.server,
            authority=authority["data"]["ca.crt"],
            user={"token": answer["status"]["token"]},
        )

    async def kubectl(
        self, *args: str, stdin: str | None = None, check: bool = True, kubeconfig: Path | None = None
    ) -> Output:
        """Run kubectl, as the administrator unless `kubeconfig` says otherwise.

        Raises AssertionError with its words if it fails, unless `check` is off.
        """
        process = await asyncio.create_subprocess_exec(
            *self._kubectl,
            f"--kubeconfig={kubeconfig or self._kubeconfig}",
            f"--cache-dir={self.directory / 'kubectl-cache'}",
            *args,
            stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "KUBERC": "off"},
        )
        out, err = await process.communicate(stdin.encode() if stdin is not None else None)
        output = Output(process.returncode or 0, out.decode(), err.decode())
        if check and output.code:
            raise AssertionError(f"kubectl {' '.join(args)} ended with {output.code}: {output.err}{output.out}")
        return output

    async def add_namespace(self, name: str, *, labels: Mapping[str, str] | None = None) -> None:
        """Make a namespace; wait until Pods can be created in it and it knows the cluster's authority."""
        await self.api.call("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": dict(labels or {})}})
        for resource in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            await self._wait_until_there(f"/api/v1/namespaces/{name}/{resource}")

    async def remove_namespace(self, name: str) -> None:
        """Delete a namespace, and its Pods at once: no kubelet is there to confirm that they ended. Does not wait."""
        await self.api.call("DELETE", f"/api/v1/namespaces/{name}/pods", {"gracePeriodSeconds": 0})
        await self.api.call("DELETE", f"/api/v1/namespaces/{name}")

    async def add_node(
        self,
        name: str,
        *,
        devices: int = 8,
        driver: str = DRIVER,
        pool: str | None = None,
        allocatable: Mapping[str, int] | None = None,
        kubelet_version: str = "v1.35.0",
        labels: Mapping[str, str] | None = None,
    ) -> Object:
        """Add a Ready node; give the Node.

        `devices` are published by `driver` in one ResourceSlice (none for 0), in the pool of the node's name unless
        `pool` is given. `allocatable` is what device plugins would offer.
        """
        await self.api.call("POST", "/api/v1/nodes", kubelet.node(name, labels=labels or {}))
        plugins = {resource: str(count) for resource, count in (allocatable or {}).items()}
        status = kubelet.node_status(allocatable=plugins, kubelet_version=kubelet_version)
        await self.api.call("PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, STRATEGIC_PATCH)
        # Admission taints a new node as not ready, and the controller that would see it ready does not run.
        node = await self.api.call("PATCH", f"/api/v1/nodes/{name}", {"spec": {"taints": None}}, MERGE_PATCH)
        if devices:
            await self.add_devices(node, driver=driver, pool=pool, devices=devices)
        return node

    async def add_devices(self, node: Object, *, driver: str, devices: int, pool: str | None = None) -> None:
        """Publish devices of one more driver on a node, in one ResourceSlice."""
        body = kubelet.resource_slice(node, driver=driver, pool=pool or node["metadata"]["name"], devices=devices)
        await self.api.call("POST", "/apis/resource.k8s.io/v1/resourceslices", body)

    async def set_allocatable(self, node: str, resources: Mapping[str, int | None]) -> None:
        """Set what device plugins offer on a node. A plugin that went away leaves 0; after a reboot it is None."""
        values = {name: None if count is None else str(count) for name, count in resources.items()}
        status = {"status": {"capacity": values, "allocatable": values}}
        await self.api.call("PATCH", f"/api/v1/nodes/{node}/status", status, MERGE_PATCH)

    async def remove_node(self, name: str) -> None:
        """Take a node and its ResourceSlices away."""
        await self.api.call("DELETE", f"/api/v1/nodes/{name}")
        query = {"fieldSelector": f"spec.nodeName={name}"}
        await self.api.call("DELETE", "/apis/resource.k8s.io/v1/resourceslices", query=query)

    async def mark_running(self, pod: Object) -> Object:
        """Say what a kubelet says once the Pod's containers run; give the Pod.

        Raises AssertionError where a kubelet would not start it: no node yet, or a claim that is not allocated to it.
        """
        path = pod_path(pod)
        live = await self.api.call("GET", path)
        if not live["spec"].get("nodeName"):
            raise AssertionError(f"{path}: a kubelet cannot run it, it is not bound to a node")
        for name in kubelet.claim_names(live):
            claim = await self.api.call(
                "GET", f"/apis/resource.k8s.io/v1/namespaces/{live['metadata']['namespace']}/resourceclaims/{name}"
            )
            status = claim.get("status", {})
            reserved = [consumer["uid"] for consumer in status.get("reservedFor", ())]
            if "allocation" not in status or live["metadata"]["uid"] not in reserved:
                raise AssertionError(f"{path}: a kubelet would wait for claim {name}, its status is {status}")
        return await self._write_status(path, kubelet.running_status(live))

    async def finish(self, pod: Object, phase: str = "Succeeded") -> Object:
        """Say what a kubelet says once the Pod has ended (`phase`: Succeeded or Failed); give the Pod."""
        path = pod_path(pod)
        return await self._write_status(path, kubelet.finished_status(await self.api.call("GET", path), phase))

    async def play_kubelets(self, *, finish_after: float | None = None) -> None:
        """Report Pods as running once they can run, and as gone once they are deleted. Runs until cancelled.

        After `finish_after` seconds of running, Pods with restartPolicy Never (those of Jobs) have succeeded. Pods with
        the label NOT_STARTED are left as they are, as by a kubelet that cannot prepare their devices.
        """
        running: dict[str, float] = {}
        while True:
            now = asyncio.get_running_loop().time()
            pods: list[Object] = []
            with suppress(Refused, aiohttp.ClientError):  # the API server may be about to be started again
                pods = (await self.api.call("GET", "/api/v1/pods"))["items"]
            for pod in pods:
                since = running.setdefault(pod["metadata"]["uid"], now) if pod["status"]["phase"] == "Running" else now
                ends = (
                    finish_after is not None and pod["spec"]["restartPolicy"] == "Never" and now - since > finish_after
                )
                # It may be gone by now, or not reserved yet: the next round sees it anew.
                with suppress(AssertionError, Refused, aiohttp.ClientError):
                    await self._play(pod, ends=ends)
            await asyncio.sleep(PLAY_SECONDS)

    async def _play(self, pod: Object, *, ends: bool) -> None:
        if not pod["spec"].get("nodeName"):
            return
        if "deletionTimestamp" in pod["metadata"]:
            await self.api.call("DELETE", pod_path(pod), {"gracePeriodSeconds": 0})
        elif pod["status"]["phase"] == "Pending":
            if NOT_STARTED not in pod["metadata"].get("labels", {}):
                await self.mark_running(pod)
        elif ends:
            await self.finish(pod)

    async def _wait_until_there(self, path: str) -> None:
        await wait_for(lambda: self.api.request("GET", path), path, until=lambda answer: answer[0] == 200)

    async def _write_status(self, path: str, status: Object) -> Object:
        # A strategic patch, like the kubelet's own: conditions of others stay.
        return await self.api.call("PATCH", f"{path}/status", {"status": status}, STRATEGIC_PATCH)

    async def add_webhook_service(self, namespace: str, name: str, port: int) -> None:
        """Make `name` a Service that leads the API server to a webhook on this machine's loopback.

        The webhook configuration stays as in a real cluster (`clientConfig.service`), but its `port` must be this one:
        for an ExternalName there is no translation to a target port.
        """
        path = f"/api/v1/namespaces/{namespace}/services"
        # The type of a Service that has a cluster address cannot be changed in place.
        await self.api.request("DELETE", f"{path}/{name}")
        spec = {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}
        await self.api.call("POST", path, {"metadata": {"name": name}, "spec": spec})


def pod_path(pod: Object) -> str:
    """Give the path of a Pod, from its metadata."""
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
