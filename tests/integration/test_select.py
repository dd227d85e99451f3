"""`drabridge select` on the ResourceSlices of a real API server."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from conftest import NewNode
from upstream.controlplane import ControlPlane

PROGRAM = Path(sys.executable).with_name("drabridge")


async def select(*args: str, kubeconfig: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program to its end beside the control plane."""
    return await asyncio.to_thread(
        subprocess.run,
        [PROGRAM, "select", *args],
        env={"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


async def test_devices_of_the_cluster_are_selected_and_explained(
    plane_135: ControlPlane, new_node: NewNode, unique: Callable[[], str], tmp_path: Path
) -> None:
    driver = f"{unique()}.example.com"
    node = await new_node(plane_135, devices=3, driver=driver)
    kubeconfig = plane_135.kubeconfig_admin()
    of_driver = f"device.driver == '{driver}'"
    index = f"device.attributes['{driver}'].index"

    named = await select(f"{of_driver} && {index} >= 1", "-o", "name", kubeconfig=kubeconfig)
    kind = driver.partition(".")[0]
    assert (named.returncode, named.stdout.splitlines()) == (
        0,
        [f"{driver}/{node}/{kind}-1", f"{driver}/{node}/{kind}-2"],
    )

    told = await select(f"{of_driver} && {index} >= 1", "-o", "json", kubeconfig=kubeconfig)
    devices: list[dict[str, Any]] = [each for each in json.loads(told.stdout)["devices"] if each["driver"] == driver]
    assert [(each["result"], each["node"], each["slice"]) for each in devices] == [
        (result, node, f"{node}-{driver}") for result in ("noMatch", "match", "match")
    ]
    assert devices[0]["reason"] == f"{index} >= 1 is false: {index} = 0"
    assert devices[0]["source"].startswith(f"ResourceSlice {node}-{driver} (cluster https://127.0.0.1:")

    explained = await select(f"{of_driver} && {index} >= 1", "--explain", f"{node}/{kind}-0", kubeconfig=kubeconfig)
    assert explained.returncode == 1
    assert explained.stdout.splitlines()[0].startswith(f"{driver}/{node}/{kind}-0: no match, cost ")
    assert f"{index} = 0" in explained.stdout

    none = await select(f"{of_driver} && {index} > 9", "-o", "name", kubeconfig=kubeconfig)
    assert (none.returncode, none.stdout) == (1, "")

    # The same slices from a file, as kubectl prints them, are the same devices.
    slices = await plane_135.api.call("GET", "/apis/resource.k8s.io/v1/resourceslices")
    (tmp_path / "slices.yaml").write_text(yaml.safe_dump(slices))
    again = await select(
        f"{of_driver} && {index} >= 1", "-o", "name", "-f", str(tmp_path / "slices.yaml"), kubeconfig=Path("/nowhere")
    )
    assert (again.returncode, again.stdout) == (0, named.stdout)


async def test_a_cluster_without_the_right_to_list_slices_is_told(
    plane_135: ControlPlane, new_namespace: Callable[[ControlPlane], Any]
) -> None:
    kubeconfig = await plane_135.kubeconfig_for(await new_namespace(plane_135), "default")
    refused = await select("true", kubeconfig=kubeconfig)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("drabridge: refused by the API server (403 Forbidden): ResourceSlice *: ")
