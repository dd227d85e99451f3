"""Where one can read more."""

from __future__ import annotations

from typing import Final

_DOCS: Final = "https://kubernetes.io/docs"
ALLOCATION: Final = f"{_DOCS}/concepts/scheduling-eviction/dynamic-resource-allocation/"
TAINTS: Final = f"{_DOCS}/concepts/scheduling-eviction/taint-and-toleration/"
QUOTAS: Final = f"{_DOCS}/concepts/policy/resource-quotas/"
LIMIT_RANGES: Final = f"{_DOCS}/concepts/policy/limit-range/"
RBAC: Final = f"{_DOCS}/reference/access-authn-authz/rbac/"
WEBHOOKS: Final = f"{_DOCS}/reference/access-authn-authz/extensible-admission-controllers/"
RUNTIME_CLASSES: Final = f"{_DOCS}/concepts/containers/runtime-class/"
DEVICE_PLUGINS: Final = f"{_DOCS}/concepts/extend-kubernetes/compute-storage-net/device-plugins/"
PREEMPTION: Final = f"{_DOCS}/concepts/scheduling-eviction/pod-priority-preemption/"
GATES: Final = f"{_DOCS}/reference/command-line-tools-reference/feature-gates/"
DEPRECATIONS: Final = f"{_DOCS}/reference/using-api/deprecation-guide/"
SKEW: Final = "https://kubernetes.io/releases/version-skew-policy/"
CEL: Final = f"{_DOCS}/reference/using-api/cel/"
KEP_5004: Final = (
    "https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/5004-dra-extended-resource"
)


def issue(number: int, repository: str = "kubernetes/kubernetes") -> str:
    """An issue or pull request."""
    return f"https://github.com/{repository}/issues/{number}"
