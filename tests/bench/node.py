"""How long a Pod waits for its devices on a real node, by each delivery: `make bench-node > bench-node.json`.

The clusters run side by side, and Pods are created in turn, one at a time, so that whatever else the machine does
meets all of them. The time is from the request that creates the Pod to the container having read its environment. Needs
root on Linux, and runc. Not a test: nothing here passes or fails.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from real_site import RealSite, simple, start
from upstream.api import Object
from upstream.build import binary
from upstream.controlplane import ControlPlane
from upstream.realnode import missing

PODS, WARM_UP, DEVICES = 50, 3, 2
KEYS = ("p50_s", "p99_s")
OPTIONS = ("--native-after=1", "--probe-every=0.5")


async def cluster(version: str | None, delivery: str, stack: AsyncExitStack) -> RealSite:
    plane = ControlPlane(binary(), version, real_nodes=True)
    stack.push_async_exit(plane)  # it takes its directory away
    real = await start(plane, stack, delivery, version, options=OPTIONS)
    await real.serve_all(AsyncExitStack())
    sys.stderr.write(f"{delivery}: ready\n")
    return real


async def served(real: RealSite, name: str) -> tuple[Object, float]:
    """A new Pod, and the seconds until its container had seen its devices."""
    began = datetime.now(UTC)
    live = await real.start("default", simple(name, DEVICES))
    seen = real.look(live)
    assert len(seen.devices) == DEVICES
    return live, (seen.at - began).total_seconds()


async def remove(real: RealSite, live: Object) -> None:
    """Delete a Pod; wait until its devices are free, so that its end disturbs no other's start."""
    await real.delete(live)
    await real.gone(live)
    await real.free("default")


def figures(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50_s": round(cuts[49], 3), "p99_s": round(cuts[98], 3), "max_s": round(max(seconds), 3)}


async def main() -> dict[str, Any]:
    async with AsyncExitStack() as stack:
        versions = {"Rewrite": "1.35", "Native": None, "Bind": None}
        reals = [await cluster(version, delivery, stack) for delivery, version in versions.items()]
        times: dict[str, list[float]] = {real.delivery: [] for real in reals}
        for number in range(WARM_UP + PODS):
            pods = []
            for real in reals:
                live, took = await served(real, f"pod-{number}")
                pods.append((real, live))
                if number >= WARM_UP:
                    times[real.delivery].append(took)
            await asyncio.gather(*(remove(*each) for each in pods))
            if number % 10 == 0:
                sys.stderr.write(f"{number} Pods of {WARM_UP + PODS} each\n")
    rows: dict[str, Any] = {delivery: figures(seconds) for delivery, seconds in times.items()}
    ratios = {
        f"{delivery.lower()}_to_native": {key: round(rows[delivery][key] / rows["Native"][key], 2) for key in KEYS}
        for delivery in ("Rewrite", "Bind")
    }
    return {"pods": PODS, "devices_a_pod": DEVICES, "cpus": os.cpu_count(), **rows, **ratios}


if __name__ == "__main__":
    if lacks := missing():
        sys.exit(f"a real node cannot run here, it lacks: {', '.join(lacks)}")
    sys.stdout.write(json.dumps(asyncio.run(main()), indent=2) + "\n")
