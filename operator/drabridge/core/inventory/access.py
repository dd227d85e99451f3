"""Who may do what: roles and bindings (rbac.authorization.k8s.io/v1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from drabridge.core.inventory.shape import Raw, part, parts, text, texts


@dataclass(frozen=True, slots=True)
class Rule:
    """A PolicyRule."""

    groups: frozenset[str]
    resources: frozenset[str]
    verbs: frozenset[str]
    names: frozenset[str]

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a PolicyRule."""
        fields = ("apiGroups", "resources", "verbs", "resourceNames")
        return cls(*(frozenset(texts(raw, field)) for field in fields))

    def covers(self, group: str, resource: str) -> bool:
        """Whether it speaks of this resource or subresource ("resourceclaims/status")."""
        wild = f"*/{resource.partition('/')[2]}"
        return not self.groups.isdisjoint({group, "*"}) and not self.resources.isdisjoint({resource, "*", wild})

    def allows(self, group: str, resource: str, verb: str) -> bool:
        """Whether it grants the verb, on some object at least."""
        return self.covers(group, resource) and not self.verbs.isdisjoint({verb, "*"})


@dataclass(frozen=True, slots=True)
class RoleRecord:
    """A ClusterRole, or a Role, which has a namespace."""

    namespace: str
    name: str
    rules: tuple[Rule, ...]
    bootstrap: bool
    """Whether Kubernetes itself made it, and keeps it up to date."""

    @property
    def described(self) -> str:
        """How messages call it."""
        return f"Role {self.namespace}/{self.name}" if self.namespace else f"ClusterRole {self.name}"

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a Role or ClusterRole."""
        metadata = part(raw, "metadata")
        labels = part(metadata, "labels")
        return cls(
            text(metadata, "namespace"),
            text(metadata, "name"),
            tuple(map(Rule.of, parts(raw, "rules"))),
            bootstrap=labels.get("kubernetes.io/bootstrapping") == "rbac-defaults",
        )

    def allows(self, group: str, resource: str, verb: str) -> bool:
        """Whether any rule grants the verb."""
        return any(rule.allows(group, resource, verb) for rule in self.rules)


@dataclass(frozen=True, slots=True)
class BindingRecord:
    """A RoleBinding or ClusterRoleBinding (which has no namespace); subjects as "ServiceAccount default/x"."""

    namespace: str
    name: str
    role_kind: str
    role: str
    subjects: tuple[str, ...]

    @property
    def described(self) -> str:
        """How messages call it."""
        return f"RoleBinding {self.namespace}/{self.name}" if self.namespace else f"ClusterRoleBinding {self.name}"

    @classmethod
    def of(cls, raw: Raw) -> Self:
        """Read a RoleBinding or ClusterRoleBinding."""
        metadata, role = part(raw, "metadata"), part(raw, "roleRef")
        return cls(
            text(metadata, "namespace"),
            text(metadata, "name"),
            text(role, "kind"),
            text(role, "name"),
            tuple(
                f"{text(each, 'kind')} {text(each, 'namespace')}/{text(each, 'name')}".replace(" /", " ")
                for each in parts(raw, "subjects")
            ),
        )

    def binds(self, role: RoleRecord) -> bool:
        """Whether it grants this role."""
        if (self.role_kind == "Role") != bool(role.namespace) or self.role != role.name:
            return False
        return not role.namespace or role.namespace == self.namespace
