"""A cluster where drabridge rewrites Pods, and Pods as its webhook stores them."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch

from builders import CLAIM
from clusters import BRIDGE, NAME, Object, device_class, inventory, node, resource_slice, server
from drabridge.core.podview import PodView
from drabridge.core.rewrite import ClaimNames, Rewrite, decide

ANNOTATED = device_class(metadata={"annotations": {"drabridge.io/extended-resource-name": NAME}})
OLD = [server("v1.35.0"), node("node-1", kubelet="v1.35.0"), resource_slice("slice-1"), ANNOTATED, *BRIDGE]
"""Kubernetes 1.35, two devices on one node, drabridge installed."""


def rewritten(raw: Object) -> Object:
    """The Pod as drabridge's webhook stores it in the cluster OLD; the node's name, if any, comes after that."""
    view = inventory(OLD).cluster("default")
    verdict = decide(PodView.of({**raw, "spec": {**raw["spec"], "nodeName": ""}}), view, ClaimNames(CLAIM))
    assert isinstance(verdict, Rewrite), verdict
    patched: Any = jsonpatch.apply_patch(copy.deepcopy(raw), verdict.patch)
    return dict(patched)
