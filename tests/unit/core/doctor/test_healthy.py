"""A cluster with nothing wrong in it, in each of the ways that devices are delivered."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from clusters import (
    BRIDGE,
    NAME,
    Object,
    asking,
    claim,
    device_class,
    exactly,
    from_template,
    inventory,
    made,
    native,
    node,
    owned_by,
    pod,
    resource_slice,
    result,
    server,
    special,
    template,
    uses,
)
from drabridge.core.doctor.findings import Severity
from drabridge.core.doctor.registry import diagnose

HARDWARE = [node("node-1"), resource_slice("slice-1")]
OLD_HARDWARE = [node("node-1", kubelet="v1.35.0"), resource_slice("slice-1")]
NATIVE = [
    server("v1.37.2"),
    *HARDWARE,
    device_class(extendedResourceName=NAME),
    pod("web", asking(), spec={"nodeName": "node-1"}, status=native("web-extended")),
    claim("web-extended", exactly(), results=[result()], reserved=["web"], metadata=special("web")),
]
MANIFESTS = Path(__file__).parents[4] / "manifests/base/rbac.yaml"
BRIDGED = [
    server("v1.35.1"),
    *OLD_HARDWARE,
    *BRIDGE,
    *yaml.safe_load_all(MANIFESTS.read_text()),
    device_class(metadata={"annotations": {"drabridge.io/extended-resource-name": NAME}}),
]
CLAIMS = [
    server("v1.37.0"),
    *HARDWARE,
    device_class(),
    template("one-gpu"),
    pod(
        "web",
        spec={"nodeName": "node-1"} | from_template("one-gpu"),
        status={"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-gpu"}]},
    ),
    claim("web-gpu", results=[result()], reserved=["web"], metadata=owned_by("Pod", "web")),
    pod("other", spec={"nodeName": "node-1"} | uses("own")),
    claim("own", results=[result("gpu-1")], reserved=["other"]),
]
PLUGIN = [
    server("v1.35.1"),
    node("node-1", kubelet="v1.34.0", allocatable={NAME: 2}),
    pod("web", asking(), spec={"nodeName": "node-1"}),
]
CLUSTERS: dict[str, list[Object]] = {
    "served natively": NATIVE,
    "drabridge with nothing to do": BRIDGED,
    "claims of users' own": CLAIMS,
    "device plugins only": PLUGIN,
    "nothing at all": [server("v1.37.0"), made("v1", "Namespace", "default", None)],
}


@pytest.mark.parametrize("objects", CLUSTERS.values(), ids=CLUSTERS)
def test_a_healthy_cluster_has_nothing_but_information(objects: list[Object]) -> None:
    diagnosis = diagnose(inventory(objects))
    bad = [(check.id, findings) for check, findings in diagnosis.found if check.severity is not Severity.INFO]
    assert bad == []
    assert diagnosis.unmade == ()
