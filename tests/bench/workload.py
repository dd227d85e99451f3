"""The Pods that benchmarks create: all in one namespace."""

from __future__ import annotations

from upstream.controlplane import ControlPlane

PODS = "/api/v1/namespaces/bench/pods"
CREATORS = 16
"""Pods are created by so many clients at once."""


async def all_bound(plane: ControlPlane) -> bool:
    """Whether no Pod waits. A list by a field does not tell how many are left."""
    unbound = await plane.api.call("GET", PODS, query={"fieldSelector": "spec.nodeName=", "limit": "1"})
    return not unbound["items"]
