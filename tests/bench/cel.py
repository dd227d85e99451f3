"""How fast devices are selected: ours and upstream's CEL, side by side in one run. JSON on stdout.

Microseconds, the best of several rounds for what is repeated. Upstream builds the maps of the device anew for every
match, as kube-scheduler does; ours are in the device's view, which is made once a slice version.
Not a test: nothing here passes or fails.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from drabridge.core.cel.device import DeviceView
from drabridge.core.cel.selector import Selector, compile_selector
from upstream.build import binary
from upstream.cel import bench

DRIVER = "gpu.example.com"
EXPRESSIONS = {
    "class": f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'",
    "quantity": f"device.capacity['{DRIVER}'].memory.compareTo(quantity('10Gi')) >= 0",
    "semver": f"device.attributes['{DRIVER}'].driverVersion.compareTo(semver('1.2.3')) >= 0",
    "regex": f"device.attributes['{DRIVER}'].productName.lowerAscii().matches('^.*a100.*$') && "
    f"(device.attributes['{DRIVER}'].index == 0 || device.attributes['{DRIVER}'].index == 2)",
    "macro": f"device.attributes['{DRIVER}'].nics.exists(n, n == 'nic1')",
}
WARM_ROUNDS = 20_000
BEST_OF = 5
DEVICES = 10_000


def device(number: int) -> dict[str, Any]:
    return {
        "name": f"gpu-{number}",
        "attributes": {
            "type": {"string": "gpu" if number % 10 else "mig"},
            "productName": {"string": f"NVIDIA A100-SXM4-{40 * (1 + number % 2)}GB"},
            "driverVersion": {"version": f"550.54.{number % 20}"},
            "index": {"int": number % 8},
            "uuid": {"string": f"GPU-{number:08d}"},
            "nics": {"strings": ["nic0", f"nic{number % 4}"]},
            "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number % 16:02x}"},
        },
        "capacity": {
            "memory": {"value": f"{40 * (1 + number % 2)}Gi"},
            "multiprocessors": {"value": str(number % 108)},
        },
    }


def seconds(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def micro(value: float) -> float:
    return round(value * 1e6, 2)


def matches(selector: Selector, views: list[DeviceView]) -> int:
    return sum(selector.matches(view).matched for view in views)


def single(name: str, expression: str) -> dict[str, Any]:
    """One expression and one device."""
    asked = {"name": name, "expression": expression, "driver": DRIVER, "devices": [device(1)], "rounds": WARM_ROUNDS}
    theirs = min(bench(binary(), [asked] * BEST_OF), key=lambda times: times["warm"])
    view = DeviceView.of(DRIVER, device(1))
    compiled = min(seconds(lambda: compile_selector(expression)) for _ in range(BEST_OF))
    first = min(seconds(partial(compile_selector(expression).matches, view)) for _ in range(BEST_OF))
    selector = compile_selector(expression)
    match = selector.matches

    def warm() -> None:
        for _ in range(WARM_ROUNDS):
            match(view)

    ours = min(seconds(warm) for _ in range(BEST_OF)) / WARM_ROUNDS
    upstream = theirs["warm"] / 1e9 / WARM_ROUNDS
    return {
        "ours": {"compile": micro(compiled), "first": micro(first), "warm": micro(ours)},
        "upstream": {
            "compile": micro(theirs["compile"] / 1e9),
            "first": micro(theirs["first"] / 1e9),
            "warm": micro(upstream),
        },
        "timesFaster": {"compile": round(theirs["compile"] / 1e9 / compiled, 2), "warm": round(upstream / ours, 1)},
    }


def fleet() -> dict[str, Any]:
    """All expressions over ten thousand devices."""
    devices = [device(number) for number in range(DEVICES)]
    views: list[DeviceView] = []
    viewed = seconds(lambda: views.extend(DeviceView.of(DRIVER, each) for each in devices))
    asked = [
        {"name": name, "expression": expression, "driver": DRIVER, "devices": devices, "rounds": 0}
        for name, expression in EXPRESSIONS.items()
    ]
    theirs = bench(binary(), asked)
    selectors = {name: compile_selector(expression) for name, expression in EXPRESSIONS.items()}
    counts = {name: matches(selector, views) for name, selector in selectors.items()}
    if counts != {times["name"]: times["matches"] for times in theirs}:
        raise AssertionError(f"different matches: {counts}, {theirs}")
    ours = min(seconds(lambda: [matches(each, views) for each in selectors.values()]) for _ in range(BEST_OF))
    upstream = sum(times["first"] for times in theirs) / 1e9
    return {
        "devices": DEVICES,
        "expressions": len(EXPRESSIONS),
        "matches": counts,
        "milliseconds": {
            "ours": round(ours * 1e3, 1),
            "views": round(viewed * 1e3, 1),
            "upstream": round(upstream * 1e3, 1),
        },
        "timesFaster": {"matching": round(upstream / ours, 1), "withViews": round(upstream / (ours + viewed), 1)},
    }


def main() -> None:
    report = {
        "python": platform.python_version(),
        "microseconds": {name: single(name, expression) for name, expression in EXPRESSIONS.items()},
        "fleet": fleet(),
    }
    json.dump(report, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
