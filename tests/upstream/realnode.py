"""A real node: kubelet, containerd, runc and DRA drivers of their own, on this machine, without Docker.

It has its own mounts, processes, network and cgroups, and ends as a whole. It needs root on Linux and runc.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from upstream import kubelet, node_cgroups
from upstream.api import Object, wait_for
from upstream.cluster import DRIVER
from upstream.images import write_image
from upstream.node_programs import install
from upstream.processes import Process, children_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from upstream.controlplane import ControlPlane

SLICES = "/apis/resource.k8s.io/v1/resourceslices"
ADDRESS = "10.99.0.1"
PATH = "/run/node/bin:/usr/sbin:/usr/bin:/sbin:/bin"
TOOLS = ("runc", "ip", "mount", "nsenter", "setpriv", "unshare")
NAMESPACES = ("--mount", "--pid", "--net")
PAUSE_IMAGE = "drabridge.test/pause:1"
SHOW_IMAGES = ("docker.io/library/busybox:1.37", "registry.k8s.io/pause:3.10")
"""What containers run, whatever the manifests in examples/ and the tests call it: it prints its environment."""

READY_SECONDS = 90.0
END_SECONDS = 30.0


def missing() -> list[str]:
    """Say what a real node needs and this machine lacks; nothing if it can run here."""
    if platform.system() != "Linux":
        return ["Linux"]
    lacks = [] if os.geteuid() == 0 else ["root"]
    lacks += [tool for tool in TOOLS if not shutil.which(tool, path=PATH)]
    if not lacks:
        tried = subprocess.run(
            ["unshare", *NAMESPACES, "--fork", "mount", "--make-rprivate", "/"],
            capture_output=True,
            text=True,
            check=False,
        )
        if tried.returncode:
            lacks.append(f"the right to make namespaces and mounts ({tried.stderr.strip()})")
    return lacks


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a DRA driver finds on its node, and how well that works. Devices and counters as in a ResourceSlice.

    health: device to (Healthy, Unhealthy or Unknown; what is the matter). Devices that are not in it are healthy.
    prepare_delay, prepare_error: preparing a claim takes so many seconds; it fails with this text.
    """

    devices: tuple[Object, ...] = ()
    shared_counters: tuple[Object, ...] = ()
    prepare_delay: float = 0.0
    prepare_error: str = ""
    health: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, driver: str, count: int, **rest: Any) -> Self:
        """Give `count` devices called after the driver: `gpu-0`, … of gpu.example.com."""
        return cls(devices=tuple(kubelet.devices_of(driver, count)), **rest)

    def state(self) -> str:
        """Give the driver's state file (see tests/upstream/node/dra-driver/state.go)."""
        slices: list[Object] = [{"devices": list(self.devices)}]
        if self.shared_counters:  # a ResourceSlice has either
            slices.insert(0, {"sharedCounters": list(self.shared_counters)})
        health = [
            {"device": device, "health": health, "message": message}
            for device, (health, message) in self.health.items()
        ]
        prepare = {"delaySeconds": self.prepare_delay, "error": self.prepare_error}
        return json.dumps({"slices": slices, "prepare": prepare, "health": health})


@dataclass(frozen=True, slots=True)
class Seen:
    """What a container found in its environment when it started.

    devices: what DRA drivers gave, as driver/pool/device[/share]. plugin_devices: what device plugins gave.
    at: when it had looked (the container runtime's clock, which is the machine's).
    """

    devices: tuple[str, ...]
    plugin_devices: tuple[str, ...]
    at: datetime


class RealNode:
    """A node of `plane`, called `name`, whose kubelet emulates `version` (None: the program's own). Also `async with`.

    hardware: what DRA driver has what devices; the default is 8 GPUs.
    """

    def __init__(
        self,
        plane: ControlPlane,
        name: str = "real",
        *,
        version: str | None = None,
        hardware: Mapping[str, Hardware] | None = None,
    ) -> None:
        self.plane = plane
        self.name = name
        self.version = version
        self.directory = plane.directory / f"node-{name}"
        self.logs = plane.logs / f"node-{name}"
        self.hardware = dict(hardware if hardware is not None else {DRIVER: Hardware.of(DRIVER, 8)})
        self.cgroup = f"drabridge-{uuid.uuid4().hex[:12]}"
        self.init: int | None = None
        """The first process in the node's namespaces, while it runs."""

        self._processes: dict[str, Process] = {}
        self._undertaker: Process | None = None

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    # --- the whole

    async def start(self) -> None:
        """Start everything and wait until Pods can be scheduled here. Raises AssertionError with the end of a log."""
        for directory in (self.directory / "run", self.directory / "var-lib", self.directory / "sysctls", self.logs):
            directory.mkdir(parents=True)
        install(self.directory / "bin")
        self._write_configuration()
        node_cgroups.make(self.cgroup)
        await self._make_namespaces()
        for driver in self.hardware:
            self._write_state(driver)
        self.launch("containerd")
        await self._import_images()
        self.launch("kubelet")
        await self.wait_ready()
        for driver in self.hardware:
            self.launch(driver)
        for driver in self.hardware:
            await self.wait_registered(driver)

    async def stop(self) -> None:
        """End all processes of the node, its containers with them. Nothing of it is left on the machine but logs."""
        init, self.init = self.init, None
        for process in self._processes.values():
            process.kill()
        self._processes.clear()
        if init is not None:
            await wait_for(lambda: not Path(f"/proc/{init}").exists(), "the node's processes to end")
        what = "the node's cgroups to be empty"
        await wait_for(lambda: node_cgroups.remove(self.cgroup), what, deadline=END_SECONDS)
        if undertaker := self._undertaker:
            await wait_for(lambda: undertaker.exit_code is not None, "the process to end that would have removed them")
        with suppress(OSError):  # there is none if it did not come so far
            (self.directory / "pod-logs").rename(self.logs / "pods")
        shutil.rmtree(self.directory, ignore_errors=True)

    async def wait_ready(self) -> None:
        """Wait until the node is Ready and free of taints."""

        async def look() -> Object:
            self._raise_if_died()
            status, node = await self.plane.api.request("GET", f"/api/v1/nodes/{self.name}")
            return node if status == 200 else {}

        def ready(node: Object) -> bool:
            conditions = {each["type"]: each["status"] for each in node.get("status", {}).get("conditions", ())}
            return conditions.get("Ready") == "True" and not node["spec"].get("taints")

        await wait_for(look, f"node {self.name} to be ready", until=ready, deadline=READY_SECONDS)

    async def wait_registered(self, driver: str, times: int = 1) -> None:
        """Wait until the kubelet knows a driver, and its devices are published.

        A kubelet that has been restarted takes note of it once more: then it is to be so many `times`.
        """
        await self.published(driver)

        def registered() -> bool:
            self._raise_if_died()
            return self._registrations(driver) >= times

        await wait_for(registered, f"the kubelet to know driver {driver}")

    def _registrations(self, driver: str) -> int:
        return self._processes[driver].said().count("Registered with the kubelet")

    async def published(self, driver: str) -> None:
        """Wait until the devices of a driver that the API server knows are those of its hardware, with their taints."""
        wanted = _outline(self.hardware[driver].devices)

        async def known() -> list[tuple[str, ...]]:
            self._raise_if_died()
            listed = await self.plane.api.call("GET", SLICES, query={"fieldSelector": f"spec.driver={driver}"})
            mine = [each["spec"] for each in listed["items"] if each["spec"].get("nodeName") == self.name]
            newest = max((spec["pool"]["generation"] for spec in mine), default=0)
            current = [spec for spec in mine if spec["pool"]["generation"] == newest]
            return _outline(device for spec in current for device in spec.get("devices", ()))

        what = f"the devices of {driver} on {self.name}"
        await wait_for(known, what, until=lambda seen: seen == wanted, deadline=READY_SECONDS)

    # --- its parts: containerd, kubelet, and each DRA driver by its name

    def launch(self, part: str, *command: str | Path) -> None:
        """Start a part that does not run; one of another name needs its command, in the node's view of the files."""
        known = {"containerd": self._containerd, "kubelet": self._kubelet}
        if not command:
            command = tuple(known[part]() if part in known else self._driver(part))
        environment = {"PATH": PATH, "HOME": "/run/node"}
        if part == "kubelet" and self.version:
            environment["EMULATED_VERSION"] = self.version
        self._processes[part] = Process(
            part, [*self._inside(), *command], log=self.logs / f"{part}.log", env=environment
        )

    def part(self, name: str) -> Process:
        """Give the process of a part that runs; it stands outside the namespaces, and its end is the part's end."""
        return self._processes[name]

    async def end(self, part: str, number: signal.Signals = signal.SIGKILL) -> None:
        """End a part by a signal, and wait until it has; its containers stay."""
        process = self._processes.pop(part)
        inside = list(children_of(process.pid))
        for pid in inside:
            with suppress(ProcessLookupError):
                os.kill(pid, number)
        try:
            await wait_for(lambda: process.exit_code is not None, f"{part} to end", deadline=END_SECONDS)
        finally:
            process.kill()

    async def restart(self, part: str) -> None:
        """End a part by SIGKILL, start it again, and wait until it is of use.

        A kubelet takes half a minute: when it starts it deletes the ResourceSlices of its node, and drivers publish
        them again only after so long.
        """
        await self.end(part)
        known = {driver: self._registrations(driver) for driver in self.hardware if driver in self._processes}
        self.launch(part)
        if part in self.hardware:
            await self.wait_registered(part)
        elif part == "kubelet":
            await self._wait_healthy()
            await self.wait_ready()
            for driver, times in known.items():
                await self.wait_registered(driver, times + 1)

    async def restart_as(self, version: str | None) -> None:
        """Upgrade or downgrade the kubelet; containers go on."""
        self.version = version
        await self.restart("kubelet")

    async def change(self, driver: str, hardware: Hardware) -> None:
        """Change what a driver finds; wait until the API server knows the devices."""
        self.hardware[driver] = hardware
        self._write_state(driver)
        if driver in self._processes:
            await self.published(driver)

    async def run(self, *command: str) -> str:
        """Run a command in the node's namespaces; give its output. Raises AssertionError with its words if it fails."""
        process = await asyncio.create_subprocess_exec(
            *self._inside(),
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={"PATH": PATH},
        )
        out, _ = await process.communicate()
        if process.returncode:
            raise AssertionError(f"{' '.join(command)} ended with {process.returncode}: {out.decode()}")
        return out.decode()

    # --- what containers see

    def seen(self, pod: Object, container: str) -> Seen | None:
        """What a container of a Pod saw when it started last; None if it has not started."""
        metadata = pod["metadata"]
        directory = self.directory / "pod-logs" / "_".join(metadata[key] for key in ("namespace", "name", "uid"))
        logs = sorted((directory / container).glob("*.log"), key=lambda path: int(path.stem))
        return _seen(logs[-1].read_text().splitlines()) if logs else None

    async def wait_seen(self, pod: Object, container: str = "main", deadline: float = 60.0) -> Seen:
        """What a container of a Pod saw, once it has started."""
        what = f"container {container} of Pod {pod['metadata']['name']} to start"
        found = await wait_for(lambda: self.seen(pod, container), what, deadline=deadline)
        assert found
        return found

    def cdi_specs(self) -> list[str]:
        """The names of the files by which prepared claims are known to the container runtime."""
        return sorted(path.name for path in (self.directory / "cdi").glob("*.json"))

    # --- how it is made

    def _write_configuration(self) -> None:
        for name in ("cdi", "cni", "pod-logs"):
            (self.directory / name).mkdir()
        (self.directory / "containerd.toml").write_text(_containerd_configuration())
        network = {"cniVersion": "1.0.0", "name": "none", "plugins": [{"type": "cni"}]}
        (self.directory / "cni" / "none.conflist").write_text(json.dumps(network))
        (self.directory / "kubelet.json").write_text(json.dumps(_kubelet_configuration(self.cgroup)))
        for identity, file in (
            (("system:node:" + self.name, "system:nodes"), "kubelet.kubeconfig"),
            (("dra-driver", "system:masters"), "driver.kubeconfig"),
        ):
            shutil.move(self.plane.kubeconfig_of(*identity), self.directory / file)

    def _write_state(self, driver: str) -> None:
        partial = self.directory / f"{driver}.partial"
        partial.write_text(self.hardware[driver].state())
        partial.rename(self.directory / f"{driver}.json")

    def _inside(self) -> list[str]:
        # nsenter stays outside as the parent; what it starts must not outlive it.
        return [
            _tool("nsenter"),
            f"--target={self.init}",
            *NAMESPACES,
            "--",
            "setpriv",
            "--pdeathsig=KILL",
            "--",
        ]

    async def _make_namespaces(self) -> None:
        here = Path(__file__).parent
        python = [sys.executable, "-I", "-S"]
        init = [*python, str(here / "node_init.py"), str(self.directory), ADDRESS]
        outside = Process(
            "init",
            [_tool("unshare"), *NAMESPACES, "--mount-proc", "--fork", "--kill-child", *init],
            log=self.logs / "init.log",
            env={"PATH": PATH},
        )
        self._processes["init"] = outside

        def initialized() -> bool:
            self._raise_if_died()
            return (self.directory / "initialized").exists()

        await wait_for(initialized, "the node's namespaces")
        (self.init,) = children_of(outside.pid)
        self._undertaker = Process(
            "undertaker",
            [*python, str(here / "node_cgroups.py"), str(self.init), self.cgroup],
            log=self.logs / "undertaker.log",
            env={"PATH": PATH},
            survives=True,
        )
        door = [*python, str(here / "node_door.py"), str(self.init), str(self.plane.port("kube-apiserver"))]
        self._processes["door"] = Process("door", door, log=self.logs / "door.log", env={"PATH": PATH})

    async def _import_images(self) -> None:
        programs = self.directory / "bin"
        images = (
            write_image(programs / "pause", [PAUSE_IMAGE], to=self.directory / "pause.tar"),
            write_image(programs / "show", SHOW_IMAGES, links=("sh", "sleep"), to=self.directory / "show.tar"),
        )
        socket = self.directory / "run" / "containerd" / "containerd.sock"
        ctr = ("/run/node/bin/ctr", "--namespace=k8s.io")

        async def answers() -> bool:
            self._raise_if_died()
            try:
                return bool(await self.run(*ctr, "version"))
            except AssertionError:
                return False

        await wait_for(answers, f"containerd to answer ({socket})")
        for image in images:
            await self.run(*ctr, "images", "import", "--local", f"/run/node/{image.name}")

    def _containerd(self) -> Sequence[str]:
        return ["containerd", "--config=/run/node/containerd.toml"]

    def _kubelet(self) -> Sequence[str]:
        return [
            "kubelet",
            "--config=/run/node/kubelet.json",
            "--kubeconfig=/run/node/kubelet.kubeconfig",
            "--cert-dir=/var/lib/kubelet/pki",
            f"--hostname-override={self.name}",
            f"--node-ip={ADDRESS}",
        ]

    def _driver(self, driver: str) -> Sequence[str]:
        return [
            "dra-driver",
            f"-driver={driver}",
            f"-node={self.name}",
            "-kubeconfig=/run/node/driver.kubeconfig",
            "-kubelet-root=/var/lib/kubelet",
            "-cdi=/run/node/cdi",
            f"-state=/run/node/{driver}.json",
            "-v=5",
        ]

    async def _wait_healthy(self) -> None:
        def listening() -> bool:
            self._raise_if_died()
            return "Started kubelet" in self._processes["kubelet"].said()

        await wait_for(listening, "the kubelet to start", deadline=READY_SECONDS)

    def _raise_if_died(self) -> None:
        for part, process in self._processes.items():
            if process.exit_code is not None:
                raise AssertionError(f"{part} of node {self.name} ended:\n{process.said(lines=30)}")


def _outline(devices: Iterable[Object]) -> list[tuple[str, ...]]:
    return sorted((device["name"], *(taint["key"] for taint in device.get("taints", ()))) for device in devices)


def _tool(name: str) -> str:
    return shutil.which(name, path=PATH) or name


def _seen(lines: Sequence[str]) -> Seen | None:
    """Read a container's log as the container runtime writes it: time, stream, tag and text."""
    found: dict[str, list[str]] = {"DEVICE_": [], "PLUGIN_DEVICE_": []}
    for line in lines:
        parts = line.split(" ", 3)
        if len(parts) < 4:  # half a line
            break
        at, _, _, text = parts
        if text == "END":
            # Nine digits are three more than datetime reads.
            when = datetime.fromisoformat(at[:26].removesuffix("Z") + "+00:00")
            return Seen(tuple(found["DEVICE_"]), tuple(found["PLUGIN_DEVICE_"]), when)
        variable, _, value = text.partition("=")
        for prefix, values in found.items():
            if variable.startswith(prefix):
                values.append(value)
    return None


def _containerd_configuration() -> str:
    return f"""
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
address = "/run/containerd/containerd.sock"

[plugins."io.containerd.nri.v1.nri"]
disable = true

[plugins."io.containerd.cri.v1.images"]
snapshotter = "native"  # an overlay cannot lie on an overlay, which is what a container's own root is

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
cdi_spec_dirs = ["/run/node/cdi"]
disable_apparmor = true
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["/run/node/bin"]
conf_dir = "/run/node/cni"
use_internal_loopback = true

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"""


def _kubelet_configuration(cgroup: str) -> Object:
    enough = {"memory.available": "1Mi", "nodefs.available": "1%", "imagefs.available": "1%"}
    inodes = {"nodefs.inodesFree": "1%", "imagefs.inodesFree": "1%"}
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": ADDRESS,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": enough
        | inodes,  # what happens to be free on a developer's machine is none of the tests' business
        "failCgroupV1": False,
        "failSwapOn": False,
        "imageGCHighThresholdPercent": 100,
        "makeIPTablesUtilChains": False,
        "nodeStatusUpdateFrequency": "2s",
        "podLogsDir": "/run/node/pod-logs",
        "readOnlyPort": 0,
        "registerNode": True,
        "resolvConf": "",
        "syncFrequency": "5s",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    }
