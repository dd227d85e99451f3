"""`drabridge simulate` foretells what the real kube-scheduler then does."""

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

from conftest import NewNamespace, NewNode, NewObject
from upstream.api import Object, wait_for
from upstream.controlplane import ControlPlane

PROGRAM = Path(sys.executable).with_name("drabridge")


async def simulate(*args: str, kubeconfig: Path) -> tuple[int, Any]:
    """Run the program to its end beside the control plane; gives the exit code and what it says."""
    done = await asyncio.to_thread(
        subprocess.run,
        [PROGRAM, "simulate", "--from-cluster", "-o", "json", *args],
        env={"PATH": os.environ["PATH"], "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def asking(name: str, namespace: str, resource: str, count: int) -> Object:
    resources = {"limits": {resource: str(count)}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "main", "image": "example.com/none", "resources": resources}]},
    }


async def test_kube_scheduler_does_what_was_foretold(
    plane_137: ControlPlane,
    new_namespace: NewNamespace,
    new_node: NewNode,
    new_object: NewObject,
    unique: Callable[[], str],
    tmp_path: Path,
) -> None:
    driver = f"{unique()}.example.com"
    resource = f"{driver}/thing"
    namespace = await new_namespace(plane_137)
    node = await new_node(plane_137, devices=4, driver=driver)
    selectors = [{"cel": {"expression": f"device.driver == '{driver}'"}}]
    spec = {"extendedResourceName": resource, "selectors": selectors}
    await new_object(plane_137, "/apis/resource.k8s.io/v1/deviceclasses", {"metadata": {"name": driver}, "spec": spec})
    kubeconfig = plane_137.kubeconfig_admin()
    manifests = [asking(name, namespace, resource, count) for name, count in (("a", 1), ("b", 2), ("big", 3))]
    path = tmp_path / "pods.yaml"
    path.write_text(yaml.safe_dump_all(manifests))

    code, found = await simulate("-f", str(path), kubeconfig=kubeconfig)
    assert code == 1
    foretold = {each["pod"]: each for each in found["pods"]}
    assert [each["outcome"] for each in found["pods"]] == ["placed", "placed", "unplaced"]

    pods = f"/api/v1/namespaces/{namespace}/pods"
    claims = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    for manifest in manifests[:2]:
        await new_object(plane_137, pods, manifest)
        name = manifest["metadata"]["name"]
        stored = await wait_for(
            lambda name=name: plane_137.api.call("GET", f"{pods}/{name}"),
            f"Pod {name} to get a node",
            until=lambda pod: bool(pod["spec"].get("nodeName")),
        )
        want = foretold[f"{namespace}/{name}"]
        assert stored["spec"]["nodeName"] == want["node"] == node
        claim = stored["status"]["extendedResourceClaimStatus"]["resourceClaimName"]
        results = (await plane_137.api.call("GET", f"{claims}/{claim}"))["status"]["allocation"]["devices"]["results"]
        got = [(each["request"], f"{each['driver']}/{each['pool']}/{each['device']}") for each in results]
        assert got == [(each["request"], each["device"]) for each in want["devices"]]

    await new_object(plane_137, pods, manifests[2])
    code, found = await simulate("-n", namespace, kubeconfig=kubeconfig)
    assert code == 1
    [big] = found["pods"]
    assert (big["pod"], big["outcome"]) == (f"{namespace}/big", "unplaced")
    reasons = {name: each["reason"] for each in big["barred"] for name in each["nodes"]}
    assert "needs 3, 1 of " in reasons[node]
