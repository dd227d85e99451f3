"""What counts as in use where claims show what the API server of today would not store."""

from __future__ import annotations

from bind_rig import claim
from drabridge.delivery.devices import Devices
from drabridge.kube.caches import BindStores
from upstream import kubelet


def test_an_allocation_that_cannot_be_read_holds_nothing_and_stops_nobody() -> None:
    stores = BindStores()
    node = kubelet.node("node", labels={})
    node["metadata"]["uid"] = "uid"
    raw = kubelet.resource_slice(node, driver="gpu.example.com", pool="node", devices=2)
    raw["metadata"]["resourceVersion"] = "1"
    stores.slices.seen(raw)
    odd = claim("odd", allocation={"devices": {"results": [{"request": "r", "driver": 3}]}})
    odd["metadata"] |= {"uid": "uid", "resourceVersion": "2"}
    stores.claims.seen(odd)
    found = Devices(stores, lambda: "share")
    found.rebuild()
    assert found.overlaps == {}
    assert found.room("node") == (2, 0)
