"""What counts as in use where claims show what no allocator of ours would write, nor the API server of today store."""

from __future__ import annotations

from typing import Any

import pytest

from bind_rig import claim
from drabridge.delivery.devices import Devices
from drabridge.kube.caches import BindStores
from upstream import kubelet

RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "node", "device": "gpu-0"}


@pytest.fixture
def stores() -> BindStores:
    stores = BindStores()
    node = kubelet.node("node", labels={})
    node["metadata"]["uid"] = "uid"
    raw = kubelet.resource_slice(node, driver="gpu.example.com", pool="node", devices=2)
    raw["metadata"]["resourceVersion"] = "1"
    stores.slices.seen(raw)
    return stores


def devices(stores: BindStores, results: list[Any]) -> Devices:
    """With one claim that has these results."""
    raw = claim("odd", allocation={"devices": {"results": results}})
    raw["metadata"] |= {"uid": "uid", "resourceVersion": "2"}
    stores.claims.seen(raw)
    found = Devices(stores, lambda: "share")
    found.rebuild()
    return found


def test_a_claim_that_holds_one_device_twice_is_told(stores: BindStores) -> None:
    found = devices(stores, [RESULT, RESULT])
    assert found.overlaps == {"default/odd": "gpu.example.com/node/gpu-0"}
    assert found.in_use("node") == (1, 2)


def test_an_allocation_that_cannot_be_read_holds_nothing_and_stops_nobody(stores: BindStores) -> None:
    found = devices(stores, [{"request": "r", "driver": 3}])
    assert found.overlaps == {}
    assert found.in_use("node") == (0, 2)
