"""Conditions that drabridge writes on Pods."""

from __future__ import annotations


def pod_condition(type_: str, status: str, reason: str, message: str, now: str) -> dict[str, str]:
    """A v1 PodCondition whose status has changed now (RFC 3339)."""
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": now}
