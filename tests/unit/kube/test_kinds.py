"""Which stores are filled by which list and watch."""

from __future__ import annotations

import pytest

from drabridge.kube.caches import Caches


@pytest.mark.parametrize("bind_scheduler", ["", "drabridge-scheduler"])
def test_every_store_has_its_kind_while_it_is_empty(bind_scheduler: str) -> None:
    """What a watch shows later is taken in by the stores that were known at the start."""
    caches = Caches(("default-scheduler",), bind_scheduler)
    kinds = {store.resource.kind for kind in caches.kinds for store in kind}
    assert ("ResourceClaimTemplate" in kinds) is bool(bind_scheduler)
    assert kinds >= {"Pod", "ResourceClaim", "ResourceSlice", "DeviceClass", "Node", "Namespace"}
