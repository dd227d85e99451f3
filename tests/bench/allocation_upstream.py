"""Upstream's allocator, measured: the shapes of allocation_shapes, and passes over a cluster of 5,000 nodes.

tests/bench/allocation.py shows these figures beside ours, of the same run. By itself this prints upstream's as JSON.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from allocation_shapes import NODE, claim, cluster, request, scenario, shapes
from upstream.allocator import Times, times
from upstream.build import binary

NODES, DEVICES = 5_000, 8
Scenario = dict[str, Any]


def nodes() -> list[dict[str, Any]]:
    """The nodes of the cluster."""
    return [{"metadata": {"name": f"node-{number}"}} for number in range(NODES)]


def passes() -> Mapping[str, Scenario]:
    """What is asked for on all nodes of the cluster, one after the other, with half of each in use or none."""
    slices = cluster(NODES, DEVICES)
    half = [
        f"{each['spec']['driver']}/{each['spec']['pool']['name']}/{device['name']}"
        for each in slices
        for device in each["spec"]["devices"][: DEVICES // 2]
    ]
    return {
        "empty, 1 device": scenario(slices, claim(request("r", 1))),
        "empty, 8 devices": scenario(slices, claim(request("r", 8))),
        "half full, 1 device": scenario(slices, claim(request("r", 1))) | {"allocatedDevices": half},
        "half full, 4 devices": scenario(slices, claim(request("r", 4))) | {"allocatedDevices": half},
        "half full, 5 devices: none fits": scenario(slices, claim(request("r", 5))) | {"allocatedDevices": half},
    }


def shape_times(program: Path, *, budget: float = 1) -> dict[str, Times]:
    """Upstream's figures for every shape, on its node."""
    assert all(shape.scenario["node"]["metadata"]["name"] == NODE for shape in shapes().values())
    return times(program, {name: shape.scenario for name, shape in shapes().items()}, budget=budget)


def pass_times(program: Path, *, budget: float = 2) -> dict[str, Times]:
    """Upstream's figures for passes over the whole cluster: `new` once, and then `whole_pass`."""
    return times(program, passes(), nodes=nodes(), rounds=10, budget=budget)


def figures(program: Path) -> dict[str, dict[str, Times]]:
    """Everything: by shape, and by pass."""
    return {"shapes": shape_times(program), "passes": pass_times(program)}


def main() -> None:
    """Print the figures, in microseconds."""
    micro = {
        part: {
            name: {
                key: round(value * 1e6, 1) if isinstance(value, float) else value
                for key, value in dataclasses.asdict(each).items()
            }
            for name, each in some.items()
        }
        for part, some in figures(binary()).items()
    }
    json.dump(micro, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
