"""How fast rewritten Pods are served, beside native ones, and how the webhook answers: `make bench > bench.json`.

The figures are JSON on stdout; what is being measured is said on stderr. Everything runs on the same machine: control
planes, operator, and the clients that load them. Not a test: nothing here passes or fails. Arguments choose parts:
`throughput`, `load`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import statistics
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).parents[1]))

from usage import cpu_seconds, milliseconds_each
from workload import CREATORS, PODS, all_bound

from upstream.api import Object, wait_for
from upstream.build import binary
from upstream.controlplane import ControlPlane
from upstream.installation import NAMESPACE, Installation

RESOURCE = "example.com/gpu"
CLASS = "gpu.example.com"

SETTLE = 8
"""Seconds that an operator is left alone after its start, in which it compares its caches with the API server."""

RATE, SECONDS = 200, 10
"""Admission reviews a second, and for how long."""


def pod(name: str) -> Object:
    limits = {RESOURCE: "1", "cpu": "1m"}
    container = {"name": "main", "image": "none", "resources": {"limits": limits}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def say(text: str) -> None:
    sys.stderr.write(text + "\n")


@asynccontextmanager
async def plane(version: str | None, *, qps: int | None, nodes: int, devices: int) -> AsyncIterator[ControlPlane]:
    async with ControlPlane(binary(), version, qps=qps) as cluster:
        for start in range(0, nodes, 20):
            names = [f"node-{number}" for number in range(start, min(start + 20, nodes))]
            kubelet = f"v{version or '1.37'}.0"
            await asyncio.gather(*(cluster.add_node(name, devices=devices, kubelet_version=kubelet) for name in names))
        spec = {
            "selectors": [{"cel": {"expression": f"device.driver == '{CLASS}'"}}],
            "extendedResourceName": RESOURCE,
        }
        body = {
            "metadata": {"name": CLASS, "annotations": {"drabridge.io/extended-resource-name": RESOURCE}},
            "spec": spec,
        }
        await cluster.api.call("POST", "/apis/resource.k8s.io/v1/deviceclasses", body)
        await cluster.add_namespace("bench")
        yield cluster


async def create(cluster: ControlPlane, count: int, prefix: str = "p") -> None:
    names = iter(f"{prefix}{number}" for number in range(count))

    async def creator() -> None:
        for name in names:
            await cluster.api.call("POST", PODS, pod(name))

    await asyncio.gather(*(creator() for _ in range(CREATORS)))


async def throughput(cluster: ControlPlane, count: int) -> dict[str, Any]:
    """Pods a second from the first create to the last binding, and until the last was created."""
    before = cpu_seconds()
    started = time.monotonic()
    await create(cluster, count)
    created = time.monotonic() - started
    await wait_for(lambda: all_bound(cluster), "all Pods to be bound", deadline=300)
    took = time.monotonic() - started
    return {
        "pods": count,
        "seconds": round(took, 2),
        "created_after": round(created, 2),
        "per_second": round(count / took, 1),
        "cpu_ms_per_pod": milliseconds_each(before, cpu_seconds(), count),
    }


async def compare() -> list[dict[str, Any]]:
    rows = []
    for qps in (None, 5000):
        for delivery, version in (("native", None), ("rewrite", "1.35")):
            say(f"{delivery}, QPS {qps or 'default'}")
            async with plane(version, qps=qps, nodes=100, devices=8) as cluster:
                row: dict[str, Any] = {"delivery": delivery, "kubernetes": version or "1.37", "qps": qps or "default"}
                if delivery == "native":
                    rows.append(row | await throughput(cluster, 500))
                else:
                    async with Installation(cluster):
                        await asyncio.sleep(SETTLE)
                        rows.append(row | await throughput(cluster, 500))
            say(json.dumps(rows[-1]))
    return rows


async def reviews(port: int) -> dict[str, float]:
    """Latencies of the webhook in milliseconds, at RATE requests a second for SECONDS seconds."""
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    latencies: list[float] = []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls, limit=64)) as session:

        async def ask() -> None:
            request = {
                "uid": str(uuid.uuid4()),
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "operation": "CREATE",
                "namespace": "bench",
                "object": pod("asked"),
            }
            body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
            started = time.perf_counter()
            async with session.post(f"https://127.0.0.1:{port}/mutate", json=body) as response:
                answer = await response.json()
            latencies.append((time.perf_counter() - started) * 1000)
            assert answer["response"].get("patch"), answer

        start = time.perf_counter()
        async with asyncio.TaskGroup() as tasks:
            for number in range(RATE * SECONDS):
                await asyncio.sleep(max(0.0, start + number / RATE - time.perf_counter()))
                tasks.create_task(ask())
    cuts = statistics.quantiles(latencies, n=100)
    return {"p50_ms": round(cuts[49], 2), "p99_ms": round(cuts[98], 2), "max_ms": round(max(latencies), 2)}


async def load(pods: int = 5000) -> dict[str, Any]:
    """One replica with `pods` served Pods: memory, the webhook alone and during a resync, and taking the Lease over."""
    result: dict[str, Any] = {"served_pods": pods}
    async with plane("1.35", qps=5000, nodes=pods // 50, devices=50) as cluster, Installation(cluster) as installation:
        first = installation.replicas[0]
        result["webhook_alone"] = await reviews(installation.webhook_port)
        say(json.dumps(result))
        await create(cluster, pods)
        await wait_for(lambda: all_bound(cluster), "all Pods to be bound", deadline=600)
        await wait_for(
            lambda: first.metric("drabridge_allocations_bound_back_total"),
            "all allocations to be bound back",
            until=lambda count: count >= pods,
            deadline=600,
        )
        result["memory_mb"] = first.process.resident_mb
        # A replica that starts lists everything, then Kopf does; its webhook answers from the first moment on.
        second = await installation.start_replica()
        port = installation.ports[-1]
        first.process.send(signal.SIGKILL)
        killed = time.monotonic()
        result["webhook_during_resync"] = await reviews(port)
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/drabridge"
        await wait_for(
            lambda: cluster.api.call("GET", lease),
            "the second replica to lead",
            until=holds("replica-1"),
            deadline=60,
        )
        result["takeover_seconds"] = round(time.monotonic() - killed, 1)
        result["memory_of_second_mb"] = second.process.resident_mb
    return result


def holds(identity: str) -> Callable[[Object], bool]:
    return lambda lease: str(lease["spec"].get("holderIdentity", "")).startswith(identity)


async def main(parts: set[str]) -> None:
    report: dict[str, Any] = {"cpus": os.cpu_count()}
    if "throughput" in parts:
        rows = await compare()
        by = {(row["delivery"], row["qps"]): row["per_second"] for row in rows}
        report["throughput"] = rows
        report["rewrite_over_native"] = {
            str(qps): round(by["rewrite", qps] / by["native", qps], 2) for qps in ("default", 5000)
        }
    if "load" in parts:
        report["load"] = await load()
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    asyncio.run(main(set(sys.argv[1:]) or {"throughput", "load"}))
