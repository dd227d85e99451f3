"""How fast devices are allocated: ours and upstream's allocator, side by side in one run. JSON on stdout.

Shapes: one allocation from parsed JSON objects, milliseconds, the best of several; upstream's is NewAllocator and
Allocate. Warm: microseconds for an allocation in a cluster of 5,000 nodes with 8 devices each of which a snapshot is
known. Passes: milliseconds for all nodes of it, one after the other; `first` is the first Pod of its kind on nodes that
are known for other Pods, `next` the next Pod. Not a test: nothing here passes or fails.

`--ours` leaves upstream out, which needs the control plane's program.
"""

from __future__ import annotations

import gc
import json
import platform
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from allocation_upstream import DEVICES, NODES, figures, nodes

from allocation_shapes import DRIVER, MODEL, Shape, claim, cluster, device_class, match, request, shapes
from drabridge.core.allocation.allocate import allocate
from drabridge.core.allocation.claims import Claim, claims_of
from drabridge.core.allocation.features import Features
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.outcomes import AllocationError
from drabridge.core.allocation.passes import fits
from drabridge.core.allocation.scenario import answer, outcome_of
from drabridge.core.allocation.settings import Settings
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState, Holding
from upstream.build import binary

BEST_OF = 5
WARM_ROUNDS = 500
CLASSES = [device_class()]

CLAIMS = {
    "1 of 8": [claim(request("r"))],
    "8 of 8": [claim(request("r", 8))],
    "4 of 8 with CEL and matchAttribute": [claim(request("r", 4, MODEL), constraints=[match("numa")])],
}


def best(act: Callable[[], object], rounds: int = 1, tries: int = BEST_OF) -> float:
    """Seconds a round, of the best try."""
    found = []
    for _ in range(tries):
        began = time.perf_counter()
        for _ in range(rounds):
            act()
        found.append((time.perf_counter() - began) / rounds)
    return min(found)


def milli(value: float) -> float:
    return round(value * 1e3, 3)


def micro(value: float) -> float:
    return round(value * 1e6, 2)


def shape(found: Shape) -> dict[str, Any]:
    """One shape from parsed objects."""
    settings = Settings(Features.of(found.scenario["features"]))

    def allocated() -> None:
        with suppress(AllocationError):
            outcome_of(found.scenario, settings)

    return {"ms": milli(best(allocated)), "steps": answer(found.scenario)["allocateOneInvocations"]}


def half_full() -> AllocatedState:
    """Half of the devices of each node, held by a claim a node."""
    state = AllocatedState()
    for number in range(NODES):
        held = [Holding(DRIVER, f"node-{number}", f"gpu-{i}") for i in range(DEVICES // 2)]
        state = state.commit(f"default/held-{number}", held)
    return state


def snapshots(raw: list[dict[str, Any]]) -> dict[str, Any]:
    """What it takes to know a cluster."""
    gc.collect()
    tracemalloc.start()
    kept = Snapshot.of(raw, CLASSES)
    size = tracemalloc.get_traced_memory()[0]
    where = [Node.of(each) for each in nodes()]
    claims = claims_of(CLAIMS["1 of 8"])
    fits(kept, AllocatedState(), where, claims)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    changed = iter(range(10**9))

    def replace() -> None:
        number = next(changed) % NODES
        allocate(kept.with_slice(raw[number]), AllocatedState(), where[number], claims)

    return {
        "devices": NODES * DEVICES,
        "ms": milli(best(lambda: Snapshot.of(raw, CLASSES))),
        "MB": round(size / 1e6, 1),
        "MB after a pass": round(used / 1e6, 1),
        "one slice replaced and its node allocated again, microseconds": micro(best(replace, WARM_ROUNDS)),
    }


def warm(snapshot: Snapshot, where: list[Node]) -> dict[str, Any]:
    """Allocations on a node that is known."""
    found = {}
    for name, raw in CLAIMS.items():
        claims = claims_of(raw)
        first = best(lambda asked=claims: allocate(snapshot, AllocatedState(), where[7], asked), tries=1)
        again = best(lambda asked=claims: allocate(snapshot, AllocatedState(), where[7], asked), WARM_ROUNDS)
        found[name] = {"first": micro(first), "again": micro(again)}
    return found


def passes(raw: list[dict[str, Any]], where: list[Node]) -> dict[str, Any]:
    """The filter pass over all nodes, half of each in use."""
    snapshot = Snapshot.of(raw, CLASSES)
    half = half_full()
    selected = claims_of([claim(request("r", 1, f"device.attributes['{DRIVER}'].healthy"))])

    def run(claims: tuple[Claim, ...], state: AllocatedState = half) -> float:
        return best(lambda: fits(snapshot, state, where, claims), tries=1)

    found: dict[str, Any] = {
        "slices never looked at": milli(run(claims_of([claim(request("r"))]))),
        "selectors that read other attributes": milli(run(selected)),
    }
    asked = {
        "1 device": [claim(request("other", 1))],
        "4 devices": [claim(request("r", 4))],
        "5 devices: none fits": [claim(request("r", 5))],
    }
    for name, raw_claims in asked.items():
        claims = claims_of(raw_claims)
        found[name] = {"first": milli(run(claims)), "next": milli(min(run(claims) for _ in range(BEST_OF)))}
    committed = half.commit("default/more", [Holding(DRIVER, "node-9", "gpu-7")])
    found["after one more commit"] = milli(run(claims_of(asked["1 device"]), committed))
    return found


def beside(ours: dict[str, Any]) -> dict[str, Any]:
    """Upstream's figures, by the names of ours."""
    theirs = figures(binary())
    return {
        "shapes": {
            name: {
                **ours["shapes"][name],
                "upstream": times.error or {"ms": milli(times.new + times.allocate), "steps": times.steps},
            }
            for name, times in theirs["shapes"].items()
        },
        "upstream's passes, ms": {
            name: {"new": milli(times.new), "pass": milli(times.whole_pass)} for name, times in theirs["passes"].items()
        },
    }


def main(arguments: Iterable[str]) -> None:
    raw = cluster(NODES, DEVICES)
    where = [Node.of(each) for each in nodes()]
    snapshot = Snapshot.of(raw, CLASSES)
    report: dict[str, Any] = {
        "python": platform.python_version(),
        "shapes": {name: shape(found) for name, found in shapes().items()},
        "snapshot": snapshots(raw),
        "warm, microseconds": warm(snapshot, where),
        "passes, ms": passes(raw, where),
    }
    if "--ours" not in arguments:
        report |= beside(report)
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main(sys.argv[1:])
