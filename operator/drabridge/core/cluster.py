"""What is known of the cluster at one moment: the frozen input of every decision."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from drabridge.core.caps import Cap, Limit
from drabridge.core.classmap import ClassMap
from drabridge.core.policy import PolicyView


class Gate(StrEnum):
    """The API server's feature gate DRAExtendedResource, as a dry run of a DeviceClass shows it."""

    ON = "On"
    OFF = "Off"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What the nodes together say."""

    plugins: Mapping[str, str] = field(default_factory=dict)
    """Resource name -> a node whose allocatable of it is above zero (a device plugin serves it there)."""

    old_kubelets: tuple[str, ...] = ()
    """Schedulable nodes whose kubelet is older than 1.36, sorted."""


@dataclass(frozen=True, slots=True)
class NamespaceFacts:
    """What one namespace says."""

    labels: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, Limit] = field(default_factory=dict)
    """Resource name -> what the LimitRanges say of it."""

    caps: Mapping[str, Cap] = field(default_factory=dict)
    """Resource name -> a ResourceQuota that names it (`requests.<name>`), and what is wrong with that."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as one Pod's decision needs it."""

    classes: ClassMap
    policies: Mapping[str, PolicyView]
    """Resource name -> the policy that counts for it (`policy.effective`)."""

    nodes: NodeFacts
    namespace: NamespaceFacts
    gate: Gate
    settled: frozenset[str]
    """Names that native delivery could serve for long enough already (`auto.choose`)."""

    schedulers: frozenset[str]
    """Values of spec.schedulerName whose Pods may be rewritten."""

    bind_scheduler: str = ""
    """The schedulerName of the profile that calls us as its extender; "" if this drabridge runs without (Bind)."""
