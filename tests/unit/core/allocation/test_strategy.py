"""Strategies: another order of devices, the same rules."""

from __future__ import annotations

from typing import Any

import pytest

from allocation_shapes import (
    DRIVER,
    NODE,
    claim,
    cluster,
    mig,
    nics,
    plain,
    profile,
    request,
    scenario,
    shapes,
    share,
    slice_of,
)
from drabridge.core.allocation.nodes import Node
from drabridge.core.allocation.passes import preferred_nodes
from drabridge.core.allocation.scenario import answer
from drabridge.core.allocation.settings import Settings
from drabridge.core.allocation.snapshot import Snapshot
from drabridge.core.allocation.state import AllocatedState, Holding
from drabridge.core.allocation.strategy import Strategy


def in_use(found: dict[str, Any], *devices: str, **amounts: str) -> dict[str, Any]:
    """Say what is in use: whole devices by name, and the bandwidth that is taken of shared ones."""
    ids = {name.replace("_", "-"): amount for name, amount in amounts.items()}
    return {
        **found,
        "allocatedDevices": [f"{DRIVER}/{NODE}/{name}" for name in devices],
        "allocatedSharedDeviceIDs": [f"{DRIVER}/{NODE}/{name}/s-{name}" for name in ids],
        "aggregatedCapacity": {f"{DRIVER}/{NODE}/{name}": {"bandwidth": amount} for name, amount in ids.items()},
    }


NICS = in_use(scenario([slice_of(nics(4))], claim(share("a", "2G"), share("b", "2G"))), nic_1="4G", nic_2="7G")
CARDS = in_use(scenario(mig(3), claim(request("r", 2, profile("1g")))), "gpu-1-2g-0")
ANY_PARTITION = in_use(scenario(mig(2), claim(request("r"))), "gpu-1-3g-0")

CASES = {
    "upstream begins with the first": (NICS, Strategy.FIRST_FIT, ["nic-0", "nic-0"]),
    "Pack fills the fullest first, as far as it goes": (NICS, Strategy.PACK, ["nic-2", "nic-1"]),
    "Spread begins with one that nobody uses": (NICS, Strategy.SPREAD, ["nic-0", "nic-0"]),
    "partitions of a card in use keep the others whole": (CARDS, Strategy.PACK, ["gpu-1-1g-0", "gpu-1-1g-1"]),
    "partitions of an unused card": (CARDS, Strategy.SPREAD, ["gpu-0-1g-0", "gpu-0-1g-1"]),
    "the smallest partition serves whoever does not care": (ANY_PARTITION, Strategy.PACK, ["gpu-1-1g-0"]),
    "plain devices keep upstream's order": (
        in_use(scenario([slice_of(plain(4))], claim(request("r", 2))), "d-0001"), Strategy.PACK, ["d-0000", "d-0002"],
    ),
    "All takes all": (
        scenario([slice_of(nics(2))], claim(request("r", 0, allocationMode="All"))), Strategy.PACK, ["nic-0", "nic-1"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("scenario", "strategy", "devices"), CASES.values(), ids=CASES)
def test_devices_in_order_of_preference(scenario: dict[str, Any], strategy: Strategy, devices: list[str]) -> None:
    found = answer(scenario, strategy=strategy)
    assert found["error"] is None
    assert [device["device"] for result in found["results"] for device in result["devices"]["results"]] == devices


def test_what_a_share_consumes_goes_with_the_device_that_is_chosen() -> None:
    found = answer(NICS, strategy=Strategy.PACK)
    first = found["results"][0]["devices"]["results"][0]
    assert (first["device"], first["consumedCapacity"]) == ("nic-2", {"bandwidth": "2G"})


SMALL = [name for name in shapes() if "," not in name]


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("strategy", [Strategy.PACK, Strategy.SPREAD])
def test_whether_something_fits_does_not_depend_on_the_strategy(name: str, strategy: Strategy) -> None:
    shape = shapes()[name]
    assert (answer(shape.scenario, strategy=strategy)["results"] is not None) == shape.fits


def test_an_error_is_upstreams_whatever_the_order() -> None:
    broken = in_use(scenario([slice_of(nics(3))], claim(share("a", "2G"))), nic_2="1G")
    broken["claims"][0]["spec"]["devices"]["requests"][0]["exactly"]["selectors"] = [
        {"cel": {"expression": f"device.attributes['{DRIVER}'].nothing == 1"}}
    ]
    assert answer(broken, strategy=Strategy.PACK)["error"] == answer(broken)["error"]


def test_nodes_in_order_of_preference() -> None:
    snapshot = Snapshot.of(cluster(3), [])
    nodes = [Node.of({"metadata": {"name": f"node-{i}"}}) for i in range(4)]
    state = AllocatedState().commit("default/a", [Holding(DRIVER, "node-2", f"gpu-{i}") for i in range(4)])
    state = state.commit("default/b", [Holding(DRIVER, "node-1", "gpu-0")])

    def order(strategy: Strategy) -> list[str]:
        return [each.name for each in preferred_nodes(snapshot, state, nodes, Settings(strategy=strategy))]

    assert order(Strategy.FIRST_FIT) == ["node-0", "node-1", "node-2", "node-3"]
    assert order(Strategy.PACK) == ["node-2", "node-1", "node-0", "node-3"]
    assert order(Strategy.SPREAD) == ["node-0", "node-3", "node-1", "node-2"]
