"""drabridge's own kube-scheduler (delivery Bind), as its manifests configure it, run as its own ServiceAccount.

Nothing of its configuration is another one than in a cluster, but for what has to lead to this machine: the extender's
address, the files of its credentials, and no election, since there is one of it.
"""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import yaml

from upstream.api import Object, wait_for
from upstream.processes import Process, free_port

if TYPE_CHECKING:
    from upstream.controlplane import ControlPlane

NAMESPACE = "drabridge-system"
SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"


class BindScheduler:
    """One kube-scheduler process that calls the extender at `port` of this machine."""

    def __init__(self, plane: ControlPlane, port: int, *, qps: int | None = None) -> None:
        self._plane = plane
        self._port = port
        self._qps = qps
        self.directory = plane.directory / "bind-scheduler"
        self.process: Process | None = None

    async def start(self) -> None:
        """Start it with the credentials that the operator has made, and wait until it schedules."""
        self.directory.mkdir(exist_ok=True)
        await self.write_credentials()
        config = self.directory / "config.yaml"
        config.write_text(yaml.safe_dump(await self._config()))
        kubeconfig = await self._plane.kubeconfig_for(NAMESPACE, "drabridge-scheduler")
        port = free_port()
        self.process = Process(
            "bind-scheduler",
            [
                self._plane.binary,
                "kube-scheduler",
                f"--config={config}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--authentication-skip-lookup=true",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                f"--cert-dir={self.directory}",
                "--v=2",
                *([f"--emulated-version={self._plane.version}"] if self._plane.version else []),
                *self._plane.gate_flags(),
            ],
            log=self._plane.logs / "bind-scheduler.log",
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.directory)},
        )

        async def ready() -> bool:
            assert self.process
            assert self.process.exit_code is None, self.process.said(20)
            connector = aiohttp.TCPConnector(ssl=False)  # its certificate is self-made, and it is only asked for health
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.get(f"https://127.0.0.1:{port}/readyz") as response,
            ):
                return response.status == 200

        await wait_for(ready, "drabridge's kube-scheduler to be ready", deadline=60)

    def stop(self) -> None:
        """End it."""
        if self.process and self.process.exit_code is None:
            self.process.kill()

    async def write_credentials(self) -> Object:
        """Write the Secret that is mounted in a cluster, once it is there; give its data."""
        answer = await wait_for(
            lambda: self._plane.api.request("GET", f"{SECRETS}/drabridge-scheduler-tls"),
            "the operator to make the scheduler's credentials",
            until=lambda found: found[0] == 200,
        )
        data: Object = {name: base64.b64decode(value) for name, value in answer[1]["data"].items()}
        for name, content in data.items():
            path = self.directory / name
            path.touch(mode=0o600)
            path.write_bytes(content)
        return data

    async def _config(self) -> Object:
        listed = await self._plane.api.call("GET", f"/api/v1/namespaces/{NAMESPACE}/configmaps")
        prefix = "drabridge-scheduler-configuration"
        maps = [each for each in listed["items"] if each["metadata"]["name"].startswith(prefix)]
        config: Object = yaml.safe_load(maps[-1]["data"]["config.yaml"])
        kubeconfig = await self._plane.kubeconfig_for(NAMESPACE, "drabridge-scheduler")
        config["leaderElection"] = {"leaderElect": False}
        config["clientConnection"] = {"kubeconfig": str(kubeconfig)}
        if self._qps:
            config["clientConnection"] |= {"qps": self._qps, "burst": self._qps}
        (extender,) = config["extenders"]
        host = extender["urlPrefix"].removeprefix("https://")
        extender["urlPrefix"] = f"https://127.0.0.1:{self._port}"
        files = {key: str(self.directory / Path(value).name) for key, value in extender["tlsConfig"].items()}
        extender["tlsConfig"] = {**files, "serverName": host}
        return config
