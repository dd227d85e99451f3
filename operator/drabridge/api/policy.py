"""ExtendedResourcePolicy (`drabridge.io/v1alpha1`): how one extended resource is served by DRA.

The models are the single source: `crds/` is generated from them (`drabridge.api.generate`), and the operator reads
policies through them. Descriptions are what `kubectl explain` shows.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from drabridge.api.crd import Column, Definition
from drabridge.api.markers import Atomic, Format, ListMap, Rule
from drabridge.core import selectors
from drabridge.core.errors import InvalidInput
from drabridge.core.policy import Coexistence, Delivery, MissedPods, PodsWithClaims, PolicyView, Strategy

RESOURCE_NAME_MAX = 308
"""The longest extended name: a prefix of 253 characters less the 9 of `requests.`, "/", and 63 (KEP-5004)."""


class _Model(BaseModel):
    """Strict about types; fields it does not know are ignored, because a newer CRD must not break an older operator."""

    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", alias_generator=to_camel, validate_by_name=True)


class SelectorRequirement(_Model):
    """A condition on one label."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                Rule(
                    "self.operator in ['In', 'NotIn'] ? has(self.values) && size(self.values) > 0"
                    " : !has(self.values) || size(self.values) == 0",
                    "In and NotIn need at least one entry in values, Exists and DoesNotExist must have none",
                ).said()
            ]
        }
    )

    key: Annotated[
        str,
        Field(max_length=317, description="The label's key."),
        Rule(
            "!format.qualifiedName().validate(self).hasValue()",
            "must be a label key, such as team or example.com/team",
        ),
    ]
    operator: Annotated[
        selectors.Operator,
        Field(description="How the label's value is compared with `values`: In, NotIn, Exists or DoesNotExist."),
    ]
    values: Annotated[
        tuple[
            Annotated[
                str,
                Field(max_length=63),
                Rule("!format.labelValue().validate(self).hasValue()", "must be a label value"),
            ],
            ...,
        ],
        Field(
            max_length=64,
            description="The values that In and NotIn compare with; empty for Exists and DoesNotExist.",
        ),
        Atomic(),
    ] = Field(default_factory=tuple)


class LabelSelector(_Model):
    """A label query, as elsewhere in Kubernetes: all conditions must hold; an empty selector selects everything."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-map-type": "atomic"})  # as metav1.LabelSelector is

    match_labels: Annotated[
        dict[str, Annotated[str, Field(max_length=63)]],
        Field(
            max_length=64,
            description="Labels that must be there with exactly these values.",
        ),
        Rule(
            "self.all(k, !format.qualifiedName().validate(k).hasValue()"
            " && !format.labelValue().validate(self[k]).hasValue())",
            "keys must be label keys, such as team or example.com/team, and values label values",
        ),
    ] = Field(default_factory=dict)
    match_expressions: Annotated[
        tuple[SelectorRequirement, ...],
        Field(max_length=64, description="Conditions on labels, all of which must hold."),
        Atomic(),
    ] = Field(default_factory=tuple)


class Device(_Model):
    """How one unit of the resource is served."""

    device_class_name: Annotated[
        str,
        Field(
            min_length=1,
            max_length=253,
            description="The DeviceClass whose devices serve the resource: each unit asked for becomes one device of"
            " this class. It may be created later; until then the policy is not Ready.",
        ),
        Rule(
            "!format.dns1123Subdomain().validate(self).hasValue()",
            "must be the name of a DeviceClass: lower-case letters, digits, '-' and '.', such as gpu.example.com",
        ),
    ]


class PolicySpec(_Model):
    """What is wanted."""

    resource_name: Annotated[
        str,
        Field(
            min_length=3,
            max_length=RESOURCE_NAME_MAX,
            description="The extended resource that Pods ask for, such as example.com/gpu. It cannot be changed"
            " later. The implicit name of a DeviceClass, deviceclass.resource.kubernetes.io/<class>, is possible too."
            " One policy per name: of several, the oldest is used.",
        ),
        Rule(
            "self == oldSelf",
            "cannot be changed: delete this policy and create another one for the new name",
        ),
        Rule(
            "self.contains('/')",
            "must have a domain before a slash, such as example.com/gpu: names without one are Kubernetes' own",
        ),
        Rule(
            "!self.contains('kubernetes.io/') || self.startsWith('deviceclass.resource.kubernetes.io/')",
            "names with kubernetes.io/ are Kubernetes' own: use a domain of yours, or the implicit name"
            " deviceclass.resource.kubernetes.io/<class>",
        ),
        Rule(
            "!self.startsWith('requests.')",
            "must not begin with requests. (that is how a ResourceQuota writes it): leave that prefix out",
        ),
        Rule(
            "!format.qualifiedName().validate(self.startsWith('deviceclass.resource.kubernetes.io/')"
            " ? self : 'requests.' + self).hasValue()",
            "must be domain/name: a lower-case DNS name of at most 244 characters, a slash, and at most 63 letters,"
            " digits, '-', '_' and '.' that begin and end with a letter or digit",
        ),
    ]
    devices: Annotated[
        tuple[Device, ...],
        Field(
            min_length=1,
            max_length=1,
            description="How one unit of the resource is served. Exactly one entry in this version.",
        ),
        # Atomic, not keyed by class: the order will be the preference, and one class may come twice.
        Atomic(),
    ]
    delivery: Annotated[
        Delivery,
        Field(
            description="Who makes the ResourceClaims. Auto: Kubernetes itself where it can serve this name, else"
            " drabridge (see status.delivery). Rewrite: drabridge rewrites Pods at admission and creates their claims."
            " Bind: a kube-scheduler of drabridge's own schedules the Pods and drabridge allocates their devices (needs"
            " the component bind of the manifests, and Kubernetes 1.36)."
            " Native: Kubernetes' own feature (DRAExtendedResource), drabridge only watches. Off: Pods are left alone.",
        ),
    ] = Delivery.AUTO
    strategy: Annotated[
        Strategy,
        Field(
            description="Which nodes are preferred, with delivery Bind. FirstFit: kube-scheduler's own preferences"
            " alone. Pack: those whose devices are in use most. Spread: those whose devices are in use least.",
        ),
    ] = Strategy.FIRST_FIT
    pods_with_claims: Annotated[
        PodsWithClaims,
        Field(
            description="Who schedules Pods that ask for devices by spec.resourceClaims alone, with delivery Bind."
            " Leave: the scheduler that they name. Bind: drabridge's own kube-scheduler, if one of their claims asks"
            " for this DeviceClass or for one with devices of the same DRA drivers, so that one allocator gives away"
            " all of a driver's devices. Claims and ResourceClaimTemplates must be there before the Pod: afterwards"
            " nobody can give it another scheduler. namespaceSelector and podSelector apply, strategy does not.",
        ),
    ] = PodsWithClaims.LEAVE
    coexistence: Annotated[
        Coexistence,
        Field(
            description="What happens while a device plugin advertises the same name on some node. DevicePlugin: Pods"
            " are left to the plugin, and the policy is not Ready. Rewrite: Pods are served by DRA all the same and"
            " can no longer use the plugin's devices.",
        ),
    ] = Coexistence.DEVICE_PLUGIN
    missed_pods: Annotated[
        MissedPods,
        Field(
            description="What becomes of pending Pods that ask for the resource and were stored while no webhook"
            " answered, or before the name was served. Report: an event says so. Recreate: those that a controller"
            " owns are deleted, so that it makes new ones; a Job may count that as a failure. Needs the component"
            " recreate-missed-pods of the manifests.",
        ),
    ] = MissedPods.REPORT
    namespace_selector: Annotated[
        LabelSelector,
        Field(
            description="Only Pods in namespaces with these labels are served. Empty or absent: all namespaces that"
            " the webhook sees.",
        ),
    ] = Field(default_factory=LabelSelector)
    pod_selector: Annotated[
        LabelSelector,
        Field(
            description="Only Pods with these labels at their creation are served. Empty or absent: all Pods.",
        ),
    ] = Field(default_factory=LabelSelector)


class ConditionStatus(StrEnum):
    """metav1.ConditionStatus."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(_Model):
    """One aspect of the policy's state (metav1.Condition)."""

    type: Annotated[str, Field(max_length=316, description="What the condition is about, such as Ready.")]
    status: Annotated[ConditionStatus, Field(description="True, False or Unknown.")]
    observed_generation: Annotated[
        int | None,
        Field(ge=0, description="The metadata.generation of the policy that the condition was decided for."),
    ] = None
    last_transition_time: Annotated[
        str, Field(description="When the status last changed from one value to another."), Format("date-time")
    ]
    reason: Annotated[
        str,
        Field(
            min_length=1,
            max_length=1024,
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            description="Why, in one word for programs; the same word in events, metrics and logs.",
        ),
    ]
    message: Annotated[str, Field(max_length=32768, description="Why, and what cures it, for people.")]


class DeviceCounts(_Model):
    """Numbers of devices."""

    total: Annotated[
        int,
        Field(
            ge=0,
            description="Devices that the DeviceClass selects among those published, whoever uses them. Partitions of"
            " one piece of hardware count one by one.",
        ),
    ] = 0
    allocated: Annotated[
        int, Field(ge=0, description="Devices that are allocated to the Pods served under this policy.")
    ] = 0


class PolicyStatus(_Model):
    """What is; written by drabridge."""

    observed_generation: Annotated[
        int | None, Field(ge=0, description="The metadata.generation of the policy that this status was decided for.")
    ] = None
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=16,
            description="Ready: Pods that ask for the resource get devices. If it is False, reason and message say"
            " what is in the way and what cures it. OneAllocator, with delivery Bind: nobody but drabridge has"
            " allocated devices of the drivers that the DeviceClass selects; if it is False, the message names the"
            " claims.",
        ),
        ListMap("type"),
    ] = Field(default_factory=tuple)
    delivery: Annotated[
        Delivery | None,
        Field(description="The delivery that is in force; with spec.delivery Auto, what Auto came to. Never Auto."),
    ] = None
    pods: Annotated[
        int | None, Field(ge=0, description="Pods that are served under this policy and have not ended.")
    ] = None
    claims: Annotated[int | None, Field(ge=0, description="ResourceClaims of those Pods.")] = None
    devices: Annotated[DeviceCounts | None, Field(description="Numbers of devices.")] = None


class Metadata(_Model):
    """The part of metav1.ObjectMeta that decisions read."""

    name: str
    uid: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    """RFC 3339; of two policies for one name the older one is used."""


class ExtendedResourcePolicy(_Model):
    """A policy as the operator reads it: without status, which is only ever written."""

    metadata: Metadata
    spec: PolicySpec

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """Read a policy as the API server gives it.

        Unknown fields are ignored. Raises InvalidInput with the field's path where a type or value is not one that
        this version knows, for instance a delivery of a newer CRD.
        """
        try:
            # Strict rules for JSON, not for Python objects: a list is a tuple and a string an enum there.
            return cls.model_validate_json(json.dumps(raw))
        except ValidationError as error:
            raise _invalid(raw, error) from error

    def view(self) -> PolicyView:
        """Give what decisions read. Raises InvalidInput where a selector is broken."""
        return PolicyView(
            name=self.metadata.name,
            uid=self.metadata.uid,
            created=self.metadata.creation_timestamp,
            generation=self.metadata.generation,
            resource=self.spec.resource_name,
            device_class=self.spec.devices[0].device_class_name,
            delivery=self.spec.delivery,
            coexistence=self.spec.coexistence,
            missed=self.spec.missed_pods,
            strategy=self.spec.strategy,
            with_claims=self.spec.pods_with_claims,
            namespaces=self._selector(self.spec.namespace_selector, "spec.namespaceSelector"),
            pods=self._selector(self.spec.pod_selector, "spec.podSelector"),
        )

    def _selector(self, selector: LabelSelector, path: str) -> selectors.LabelSelector:
        raw = selector.model_dump(mode="json", by_alias=True)
        return selectors.LabelSelector.parse(raw, f"ExtendedResourcePolicy {self.metadata.name}", path)


def _invalid(raw: Mapping[str, Any], error: ValidationError) -> InvalidInput:
    metadata = raw.get("metadata")
    name = metadata.get("name", "?") if isinstance(metadata, Mapping) else "?"
    found = [(_path(detail["loc"]), detail["msg"]) for detail in error.errors(include_url=False)]
    (path, problem), *more = found
    also = "".join(f"; {other}: {what}" for other, what in more)
    return InvalidInput(
        f"ExtendedResourcePolicy {name}",
        path,
        problem + also,
        "correct the field, or bring drabridge and its CRD to the same version",
    )


def _path(location: tuple[int | str, ...]) -> str:
    """Write pydantic's location the way the API server writes field paths: `spec.devices[0].deviceClassName`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


DEFINITION = Definition(
    group="drabridge.io",
    version="v1alpha1",
    kind="ExtendedResourcePolicy",
    plural="extendedresourcepolicies",
    description="ExtendedResourcePolicy says how one extended resource is served by Dynamic Resource Allocation.",
    spec=PolicySpec,
    status=PolicyStatus,
    short_names=("erp",),
    categories=("dra",),
    selectable_fields=(".spec.resourceName",),
    columns=(
        Column("Resource", "string", ".spec.resourceName", "The extended resource that Pods ask for"),
        Column("Class", "string", ".spec.devices[0].deviceClassName", "The DeviceClass that serves it"),
        Column("Delivery", "string", ".status.delivery", "Who makes the claims, as decided"),
        Column("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', "Whether Pods get devices"),
        Column("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', "Why (not)", priority=1),
        Column(
            "One Allocator",
            "string",
            '.status.conditions[?(@.type=="OneAllocator")].status',
            "Whether only drabridge allocates the drivers' devices (Bind)",
            priority=1,
        ),
        Column("Pods", "integer", ".status.pods", "Pods served"),
        Column("Devices", "integer", ".status.devices.allocated", "Devices allocated to them"),
        Column("Total", "integer", ".status.devices.total", "Devices that the class selects"),
        Column("Age", "date", ".metadata.creationTimestamp", "Time since creation"),
    ),
)
