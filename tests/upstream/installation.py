"""drabridge installed in a control plane from its own manifests, and run as its own ServiceAccount.

There is no kubelet that would start the Deployment's Pods, so replicas are processes here; all else is as in a cluster:
CRDs, RBAC, Service and webhook configuration are what `manifests/overlays/default` says.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from upstream.api import JSON_PATCH, wait_for
from upstream.cluster import Cluster
from upstream.processes import Process, free_port

REPOSITORY = Path(__file__).parents[2]
NAMESPACE = "drabridge-system"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/drabridge"
PROGRAM = Path(sys.executable).with_name("drabridge")


class Replica:
    """One operator process."""

    def __init__(self, process: Process, probe: str) -> None:
        self.process = process
        self._probe = probe

    async def get(self, path: str) -> tuple[int, str]:
        """Ask one of the plain HTTP endpoints: /healthz, /readyz, /metrics."""
        async with aiohttp.ClientSession() as session, session.get(self._probe + path) as response:
            return response.status, await response.text()

    async def ready(self) -> bool:
        """Whether /readyz says so. Raises AssertionError if the process has ended."""
        if self.process.exit_code is not None:
            raise AssertionError(f"the operator ended with {self.process.exit_code}: {self.process.said(40)}")
        return (await self.get("/readyz"))[0] == 200

    async def metric(self, name: str, **labels: str) -> float:
        """The value of one sample on /metrics; 0 if it is not there."""
        _, text = await self.get("/metrics")
        for line in text.splitlines():
            sample, _, value = line.rpartition(" ")
            if sample.partition("{")[0] == name and all(f'{key}="{want}"' in sample for key, want in labels.items()):
                return float(value)
        return 0.0

    async def stop(self, deadline: float = 20.0) -> int:
        """End it as a kubelet would, by SIGTERM, and give its exit code."""
        if self.process.exit_code is None:
            self.process.send(signal.SIGTERM)
        await wait_for(
            lambda: self.process.exit_code,
            "the operator to end",
            until=lambda code: code is not None,
            deadline=deadline,
        )
        assert self.process.exit_code is not None
        return self.process.exit_code


class Installation:
    """drabridge in `cluster`. Also `async with`, which installs it, starts one replica and stops all at the end."""

    def __init__(self, cluster: Cluster, *, options: tuple[str, ...] = (), overlay: str = "default") -> None:
        self.cluster = cluster
        self.replicas: list[Replica] = []
        self.webhook_port = free_port()
        self.ports: list[int] = []
        """The webhook's port of each replica."""

        self._options = ("--leave-after=0", *options)
        self._manifests = REPOSITORY / "manifests" / "overlays" / overlay

    async def __aenter__(self) -> Self:
        await self.install()
        await self.start_replica()
        await self.wait_trusted()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for replica in self.replicas:
            if replica.process.exit_code is None:
                await replica.stop()

    async def install(self) -> None:
        """Apply the manifests, and lead the API server to this machine instead of Pods that nobody runs."""
        await self.cluster.kubectl("apply", "--server-side", "-k", str(self._manifests))
        await self.cluster.kubectl("scale", "deployment/drabridge", "--replicas=0", "-n", NAMESPACE)
        await self.cluster.add_webhook_service(NAMESPACE, "drabridge-webhook", self.webhook_port)
        configuration = await self.cluster.api.call("GET", CONFIGURATION)
        ports = [
            {"op": "add", "path": f"/webhooks/{index}/clientConfig/service/port", "value": self.webhook_port}
            for index in range(len(configuration["webhooks"]))
        ]
        await self.cluster.api.call("PATCH", CONFIGURATION, ports, JSON_PATCH)

    async def start_replica(self, *options: str, webhook_port: int | None = None) -> Replica:
        """Start another operator process and wait until it is ready. Only one can have the webhook's port."""
        number = len(self.replicas)
        kubeconfig = await self.cluster.kubeconfig_for(NAMESPACE, "drabridge")
        probe_port = free_port()
        port = webhook_port or (free_port() if self._port_is_used() else self.webhook_port)
        self.ports.append(port)
        logs = self.cluster.directory / "logs"
        logs.mkdir(exist_ok=True)
        process = Process(
            f"operator-{number}",
            [
                PROGRAM,
                "operator",
                f"--kubeconfig={kubeconfig}",
                f"--identity=replica-{number}",
                f"--webhook-address=127.0.0.1:{port}",
                f"--probe-address=127.0.0.1:{probe_port}",
                *self._options,
                *options,
            ],
            log=logs / f"operator-{number}.log",
            env=os.environ,
        )
        replica = Replica(process, f"http://127.0.0.1:{probe_port}")
        self.replicas.append(replica)
        await wait_for(replica.ready, f"replica {number} to be ready", deadline=60)
        return replica

    async def wait_trusted(self) -> None:
        """Wait until the webhook configuration has a caBundle, so that the API server reaches the webhook."""
        await wait_for(
            lambda: self.cluster.api.call("GET", CONFIGURATION),
            "the operator to write caBundle",
            until=lambda body: all(webhook["clientConfig"].get("caBundle") for webhook in body["webhooks"]),
        )

    @property
    def running(self) -> Replica:
        """The newest replica that has not ended."""
        return next(replica for replica in reversed(self.replicas) if replica.process.exit_code is None)

    def _port_is_used(self) -> bool:
        return any(replica.process.exit_code is None for replica in self.replicas)
