"""The API resources that drabridge talks to, and where they live on the API server."""

from __future__ import annotations

from dataclasses import dataclass, replace
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource: group ("" is the core group), version, plural (as in paths), kind (as in bodies)."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """The `apiVersion` of a body: "v1", "apps/v1"."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Where an object lives; without a name: its collection, without a namespace: that of the whole cluster.

        Raises ValueError where the path would name something else than the caller meant: a namespaced object without
        its namespace, a namespace around a cluster-scoped one, a subresource of nothing.
        """
        if namespace and not self.namespaced:
            raise ValueError(f"{self.kind} is cluster-scoped, it has no namespace {namespace!r}")
        if name and self.namespaced and not namespace:
            raise ValueError(f"{self.kind} {name!r} needs its namespace")
        if subresource and not name:
            raise ValueError(f"the subresource {subresource!r} needs the name of its {self.kind}")
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        parts = (*(("namespaces", namespace) if namespace else ()), self.plural, name, subresource)
        return "/".join((root, *(quote(part, safe="") for part in parts if part)))

    def label(self, namespace: str | None = None, name: str | None = None) -> str:
        """How messages name an object, or what its collection holds: "ResourceClaim default/x", "Pod default/*"."""
        where = f"{namespace}/" if namespace else ""
        return f"{self.kind} {where}{name or '*'}"


PODS = Resource("", "v1", "pods", "Pod", namespaced=True)
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
SERVICES = Resource("", "v1", "services", "Service", namespaced=True)
SECRETS = Resource("", "v1", "secrets", "Secret", namespaced=True)
CONFIGMAPS = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", namespaced=True)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", namespaced=True)
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True)
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "deviceclasses", "DeviceClass", namespaced=False)
DEVICE_TAINT_RULES = Resource("resource.k8s.io", "v1", "devicetaintrules", "DeviceTaintRule", namespaced=False)
RESOURCE_SLICES = Resource("resource.k8s.io", "v1", "resourceslices", "ResourceSlice", namespaced=False)
EXTENDED_RESOURCE_POLICIES = Resource(
    "drabridge.io", "v1alpha1", "extendedresourcepolicies", "ExtendedResourcePolicy", namespaced=False
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
EVENTS = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
CORE_EVENTS = Resource("", "v1", "events", "Event", namespaced=True)
"""The same events, which this group lets one select by the object that they are about."""

MUTATING_WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOK_CONFIGURATIONS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True
)
DEVICE_TAINT_RULE_VERSIONS = (
    DEVICE_TAINT_RULES,
    *(replace(DEVICE_TAINT_RULES, version=version) for version in ("v1beta2", "v1alpha3")),
)
"""What API servers from 1.34 on may serve them in, the newest first."""

DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role", namespaced=True)
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", namespaced=True)
