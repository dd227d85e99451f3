"""Converted manifests as the API server sees them, and as the scheduler serves them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import manifests
from convert_cases import NAMES, converted, source
from drabridge.core.convert.file import convert
from manifests import conversion, objects, values
from pods import drawn
from upstream.api import wait_for
from upstream.cluster import pod_path

if TYPE_CHECKING:
    from conftest import NewNamespace, NewNode
    from upstream.api import Object
    from upstream.controlplane import ControlPlane

PROGRAM = Path(sys.executable).with_name("drabridge")
EXAMPLES = Path(__file__).parents[2] / "examples"
STRICT = {"dryRun": "All", "fieldValidation": "Strict"}
PLURALS = {
    ("v1", "Pod"): "pods",
    ("v1", "PodTemplate"): "podtemplates",
    ("v1", "ReplicationController"): "replicationcontrollers",
    ("apps/v1", "Deployment"): "deployments",
    ("apps/v1", "DaemonSet"): "daemonsets",
    ("apps/v1", "ReplicaSet"): "replicasets",
    ("apps/v1", "StatefulSet"): "statefulsets",
    ("batch/v1", "CronJob"): "cronjobs",
    ("batch/v1", "Job"): "jobs",
    ("resource.k8s.io/v1", "DeviceClass"): "deviceclasses",
    ("resource.k8s.io/v1", "ResourceClaim"): "resourceclaims",
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): "resourceclaimtemplates",
    ("resource.k8s.io/v1", "ResourceSlice"): "resourceslices",
}
CLUSTER_SCOPED = ("DeviceClass", "ResourceSlice")
NO_OBJECTS = (
    "broken-among-good.yaml",
    "limit-differs.yaml",
    "pod-ephemeral-container.yaml",
    "pod-variables-elsewhere.yaml",
)
"""Cases that the API server would refuse for what they are about."""

NOT_FOR_KUBECTL = ("directive.yaml", "marker-line-with-content.yaml")
"""kubectl cuts a file at its `---` lines: directives are a document of their own to it, and `--- {}` is an error."""


def completed(value: Object, namespace: str) -> Object:
    """What short examples leave out, and the API server asks for: selectors, labels, images, restart policies."""
    value["metadata"]["namespace"] = namespace
    if value["kind"] in CLUSTER_SCOPED:
        del value["metadata"]["namespace"]
    spec = value.get("spec", {})
    if value["apiVersion"] == "apps/v1" or value["kind"] == "ReplicationController":
        labels = {"completed": "true"}
        spec["template"].setdefault("metadata", {})["labels"] = labels
        spec["selector"] = labels if value["kind"] == "ReplicationController" else {"matchLabels": labels}
    if value["kind"] == "StatefulSet":
        for claim in spec.get("volumeClaimTemplates", ()):
            claim["spec"]["accessModes"] = ["ReadWriteOnce"]
    for path in manifests.pod_specs(value):
        pod = value
        for step in path:
            pod = pod[step]
        if value["kind"] in ("Job", "CronJob"):
            pod["restartPolicy"] = "Never"
        elif value["kind"] != "Pod":
            pod.pop("restartPolicy", None)
        for container in pod["containers"]:
            container.setdefault("image", "a")
    return value


def flat(found: list[Any]) -> Iterator[Object]:
    for value in found:
        yield from value["items"] if value["kind"] == "List" else [value]


async def refusals(plane: ControlPlane, namespace: str, text: str) -> list[str]:
    """What the API server says of the objects that it does not take, of those that it knows."""
    said = []
    for value in flat(values(text)):
        plural = PLURALS.get((value["apiVersion"], value["kind"]))
        if plural is None:
            continue
        group = "api" if value["apiVersion"] == "v1" else "apis"
        scope = "" if value["kind"] in CLUSTER_SCOPED else f"/namespaces/{namespace}"
        path = f"/{group}/{value['apiVersion']}{scope}/{plural}"
        status, answer = await plane.api.request("POST", path, completed(value, namespace), query=STRICT)
        if status != 201:
            said.append(f"{value['kind']}: {answer['message']}")
    return said


@pytest.mark.parametrize("name", [name for name in NAMES if converted(name).text != source(name)])
async def test_the_api_server_takes_what_a_manifest_becomes(plane_135: ControlPlane, namespace: str, name: str) -> None:
    if name not in NO_OBJECTS:
        assert await refusals(plane_135, namespace, converted(name).text) == []


async def test_the_api_server_takes_what_generated_workloads_become(plane_135: ControlPlane, namespace: str) -> None:
    taken = 0
    for number, value in enumerate(drawn(objects(), 150, 5)):
        text = convert(manifests.written(value), conversion()).text
        assert await refusals(plane_135, namespace, text) == [], f"example {number}: {text}"
        taken += "ResourceClaimTemplate" in text
    assert taken > 50


async def test_kubectl_reads_every_file_that_changed(plane_135: ControlPlane, namespace: str, tmp_path: Path) -> None:
    """Another parser: what kubectl's YAML reader makes of a text must be what ours does."""
    for name in NAMES:
        result = converted(name)
        if name in NOT_FOR_KUBECTL or result.text == source(name):
            continue
        kinds = [(value["apiVersion"], value["kind"]) for value in flat(manifests.values_or_none(result.text) or [])]
        if not kinds or not all(kind in PLURALS for kind in kinds):
            continue
        path = tmp_path / name
        path.write_bytes(result.text.encode())
        output = await plane_135.kubectl(
            "create", "--dry-run=client", "--validate=false", "-o", "name", "-f", str(path)
        )
        assert len(output.out.split()) == len(kinds), name


@pytest.fixture
async def devices(plane_135: ControlPlane, new_node: NewNode, afterwards: AsyncExitStack) -> AsyncExitStack:
    """A node with eight devices of each kind that the examples ask for, and their classes."""
    node = await new_node(plane_135, driver="gpu.example.com", devices=8)
    stored = await plane_135.api.call("GET", f"/api/v1/nodes/{node}")
    await plane_135.add_devices(stored, driver="nic.example.com", devices=8, pool=f"{node}-nics")
    await plane_135.kubectl("apply", "-f", str(EXAMPLES / "deviceclasses.yaml"))
    afterwards.push_async_callback(plane_135.kubectl, "delete", "-f", str(EXAMPLES / "deviceclasses.yaml"))
    return afterwards


async def run(*arguments: str | Path) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        PROGRAM, "convert", *map(str, arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode()


@pytest.mark.usefixtures("devices")
async def test_converted_examples_get_their_devices_without_drabridge(
    plane_135: ControlPlane, new_namespace: NewNamespace, tmp_path: Path
) -> None:
    """Kubernetes 1.35, its gate off, no operator: the manifest alone."""
    namespace = await new_namespace(plane_135)
    for name in ("training.yaml", "two-resources.yaml"):
        (tmp_path / name).write_text((EXAMPLES / name).read_text())
    kubeconfig = ("--from-cluster", "--kubeconfig", plane_135.kubeconfig_admin())
    code, output = await run(tmp_path, *kubeconfig, "--map", "example.com/gpu=gpu.example.com", "--write")
    assert code == 0, output
    await plane_135.kubectl("apply", "-n", namespace, "-f", str(tmp_path))

    async def counts() -> dict[str, list[tuple[str, str]]]:
        answer = await plane_135.api.call("GET", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims")
        return {
            claim["metadata"]["ownerReferences"][0]["name"].rpartition("-")[0] or "two": sorted(
                (result["request"], result["driver"])
                for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
            )
            for claim in answer["items"]
        }

    allocated = await wait_for(
        counts, "both Pods' claims to be allocated", until=lambda found: len(found) == 2 and all(found.values())
    )
    assert allocated["training"] == [
        ("container-0-request-0", "gpu.example.com"),
        ("container-2-request-0", "gpu.example.com"),
        ("container-2-request-0", "gpu.example.com"),
    ]
    assert allocated["two"] == [
        ("container-0-request-0", "gpu.example.com"),
        ("container-0-request-1", "nic.example.com"),
        ("container-1-request-0", "gpu.example.com"),
        ("container-1-request-0", "gpu.example.com"),
    ]
    pods = await plane_135.api.call("GET", f"/api/v1/namespaces/{namespace}/pods")
    assert all(pod["spec"].get("nodeName") for pod in pods["items"]), [pod_path(pod) for pod in pods["items"]]


async def test_a_cluster_without_our_definitions_is_read_all_the_same(plane_135: ControlPlane, tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(source("pod-limits-integer.yaml"))
    code, output = await run(path, "--from-cluster", "--kubeconfig", plane_135.kubeconfig_admin())
    assert code == 0, output
    assert "NameNotServed" in output
