"""`make demo`, as its user sees it: on a control plane of its own, and on a cluster that others use as well."""

from __future__ import annotations

import asyncio
import os
import pty
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from upstream.api import Object, wait_for
from upstream.installation import Installation

if TYPE_CHECKING:
    from upstream.controlplane import ControlPlane

DEMO = Path(__file__).parents[2] / "hack" / "demo.py"
NAMESPACE = "/api/v1/namespaces/drabridge-demo"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
POLICIES = "/apis/drabridge.io/v1alpha1/extendedresourcepolicies"
WORKLOADS = ("inference-", "own-claim", "too-big", "training-", "two-resources")


async def demo(directory: Path, *, stdin: int = asyncio.subprocess.DEVNULL, **environment: str) -> tuple[int, str]:
    """Run the demo with its temporary files in `directory`; give its exit code and what it said."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "KEEP", "REAL", "YES")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        DEMO,
        stdin=stdin,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**inherited, "TMPDIR": str(directory), "COLUMNS": "80", **environment},
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


def files_in(directory: Path) -> list[str]:
    return [each.name for each in directory.iterdir()]


def table_rows(output: str) -> list[str]:
    """The first words of the result table's lines about Pods."""
    _, _, table = output.partition("container")
    table, _, _ = table.partition("The Job has finished")
    return [line.split()[0] for line in table.splitlines() if line.startswith(tuple(f" {name}" for name in WORKLOADS))]


@pytest.mark.usefixtures("controlplane_binary")
async def test_the_demo_shows_every_workload_served_and_leaves_nothing_behind(tmp_path: Path) -> None:
    code, output = await demo(tmp_path)
    assert code == 0, output
    pods = table_rows(output)
    assert [sum(pod.startswith(name) for pod in pods) for name in WORKLOADS] == [3, 1, 1, 1, 1]
    assert max(map(len, output.splitlines())) <= 80
    assert files_in(tmp_path) == []


async def exists(plane: ControlPlane, path: str) -> bool:
    return (await plane.api.request("GET", path))[0] == 200


async def test_on_a_cluster_of_others_it_removes_what_it_made_and_touches_nothing_else(
    own_plane: ControlPlane, tmp_path: Path
) -> None:
    for number in range(2):
        node = await own_plane.add_node(f"node-{number}", devices=8)
        await own_plane.add_devices(node, driver="nic.example.com", devices=2)
    selector = {"cel": {"expression": "device.driver == 'gpu.example.com'"}}
    theirs = await own_plane.api.call(
        "POST", CLASSES, {"metadata": {"name": "gpu.example.com"}, "spec": {"selectors": [selector]}}
    )
    kubeconfig = str(own_plane.kubeconfig_admin())
    async with Installation(own_plane, options=("--pending-every=1",)):
        kubelets = asyncio.create_task(own_plane.play_kubelets(finish_after=2))
        try:
            await check_that_it_can_be_declined(own_plane, tmp_path, kubeconfig)
            await check_that_a_namespace_of_others_stays(own_plane, tmp_path, kubeconfig)
            code, output = await demo(tmp_path, KUBECONFIG=kubeconfig, YES="1")
        finally:
            kubelets.cancel()
    assert code == 0, output
    assert own_plane.api.server in output
    assert "DeviceClass gpu.example.com: there already" in output
    classes: Object = await own_plane.api.call("GET", CLASSES)
    assert [(each["metadata"]["uid"], each["metadata"]["resourceVersion"]) for each in classes["items"]] == [
        (theirs["metadata"]["uid"], theirs["metadata"]["resourceVersion"])
    ]
    assert (await own_plane.api.call("GET", POLICIES))["items"] == []
    assert not await exists(own_plane, NAMESPACE)


async def check_that_it_can_be_declined(plane: ControlPlane, directory: Path, kubeconfig: str) -> None:
    ours, terminal = pty.openpty()
    try:
        os.write(ours, b"no\n")
        code, output = await demo(directory, stdin=terminal, KUBECONFIG=kubeconfig)
    finally:
        os.close(ours)
        os.close(terminal)
    assert code == 1
    assert "Nothing was changed" in output
    assert not await exists(plane, NAMESPACE)


async def check_that_a_namespace_of_others_stays(plane: ControlPlane, directory: Path, kubeconfig: str) -> None:
    await plane.add_namespace("drabridge-demo")
    code, output = await demo(directory, KUBECONFIG=kubeconfig, YES="1")
    assert code == 1
    assert "not the demo's" in output
    assert (await plane.api.call("GET", NAMESPACE))["status"]["phase"] == "Active"
    await plane.remove_namespace("drabridge-demo")
    await wait_for(lambda: exists(plane, NAMESPACE), "the namespace to be gone", until=lambda there: not there)
