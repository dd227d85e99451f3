"""Why something is as it is, in one word each.

Events, conditions, metric labels, logs, warnings of the webhook and the command line all show these words, so that
one can be searched for and found in all of them. `CURES` says what a person can do about it.
"""

from collections.abc import Mapping
from enum import StrEnum


class Reason(StrEnum):
    """A reason that users see. CamelCase, as the API conventions ask of condition and event reasons."""

    # Why admission leaves a Pod, or one resource name of it, as it is.

    NOT_SERVED = "NameNotServed"
    """No policy and no DeviceClass stands behind the name; somebody else may serve it."""

    NODE_NAME_SET = "NodeNameSet"
    """The Pod names its node, so no scheduler would allocate a claim for it."""

    MIRROR_POD = "MirrorPod"
    """The Pod mirrors a static one; the kubelet runs that from its file, whatever the API server stores."""

    OPTED_OUT = "OptedOut"
    """The Pod says `drabridge.io/rewrite: "false"`."""

    OTHER_SCHEDULER = "OtherScheduler"
    """The Pod's scheduler is not one that is known to allocate claims."""

    DEVICE_PLUGIN_PRESENT = "DevicePluginPresent"
    """A node advertises the name by a device plugin; a rewritten Pod could not use that node's devices."""

    BIND = "ServedByBind"
    """A kube-scheduler of drabridge's schedules the Pod, and drabridge allocates its devices at binding."""

    BIND_OFF = "BindNotInstalled"
    """The policy says `delivery: Bind`, and this drabridge runs without its extender."""

    NATIVE = "ServedNatively"
    """kube-scheduler serves the name itself (feature gate DRAExtendedResource); nothing is to be done."""

    POLICY_OFF = "PolicyOff"
    """The policy of the name says `delivery: Off`."""

    NOT_SELECTED = "NotSelected"
    """The policy of the name selects other namespaces or other Pods."""

    LIMIT_RANGE = "LimitRangeNamesResource"
    """A LimitRange of the namespace has `min` or `maxLimitRequestRatio` for the name; the API server would refuse a
    rewritten Pod, which asks for none."""

    LIMIT_EXCEEDED = "LimitRangeExceeded"
    """A container or the Pod asks for more than a LimitRange of the namespace allows."""

    RESOURCE_QUOTA = "ResourceQuotaNamesResource"
    """A ResourceQuota of the namespace caps the name, and the cap cannot be kept for rewritten Pods, or not yet."""

    QUOTA_PENDING = "CompanionQuotaPending"
    """A ResourceQuota of the namespace caps the name, and the companion that keeps the cap is not in force yet."""

    QUOTA_KEY_DEAD = "QuotaKeyWithoutEffect"
    """A ResourceQuota names the resource without `requests.`; Kubernetes counts nothing by such a key."""

    COMPANION_FOREIGN = "CompanionQuotaOfAnotherOwner"
    """The name of a quota's companion is taken by a ResourceQuota of somebody else."""

    NOT_WHOLE = "QuantityNotWhole"
    """Devices are whole; the quantity is not."""

    LIMIT_DIFFERS = "LimitDiffersFromRequest"
    """Extended resources cannot be overcommitted: request and limit must be there and equal."""

    TOO_MANY_DEVICES = "TooManyDevices"
    """The Pod asks for more devices than one ResourceClaim may hold (32)."""

    POD_TOO_LARGE = "PodTooLarge"
    """What drabridge would have to write on the Pod does not fit there, or the Pod has hundreds of containers or asks
    that nobody could serve by one claim."""

    INVALID_POD = "InvalidPod"
    """The Pod is not valid; the API server says what is wrong with it."""

    COPY_UNREADABLE = "CopyWithoutAnnotation"
    """The Pod is a copy of a rewritten Pod, but what the original asked for is not on it any more."""

    MISSED = "MissedByWebhook"
    """The Pod would be rewritten now, and was not when it was stored: no webhook answered, drabridge was not installed,
    or something stood in the way that is gone."""

    RECREATED = "MissedPodRecreated"
    """The Pod did not pass the webhook, and was deleted so that its controller makes a new one, as the policy says."""

    # What becomes of a rewritten Pod.

    CLAIM_CREATED = "ClaimCreated"
    """The Pod's ResourceClaim has been created; the scheduler allocates its devices."""

    DEVICES_ALLOCATED = "DevicesAllocated"
    """The Pod has a node and devices; both are written on it."""

    CLAIM_LATE = "ClaimLate"
    """The Pod's ResourceClaim is not there yet, after more time than it should take."""

    CLAIM_REFUSED = "ClaimRefused"
    """The API server refused the Pod's ResourceClaim, for instance because of a quota."""

    CLAIM_FOREIGN = "ClaimOfAnotherOwner"
    """A ResourceClaim of the name that the Pod waits for exists and belongs to somebody else."""

    ANNOTATION_INVALID = "AnnotationInvalid"
    """The annotation that says what the Pod asked for cannot be read or does not fit the Pod."""

    DEVICE_CLASS_MISSING = "DeviceClassMissing"
    """The DeviceClass behind the name does not exist."""

    # What becomes of a Pod that a kube-scheduler of ours schedules (delivery Bind). The first ones stand in its event
    # FailedScheduling.

    NOT_ENOUGH_DEVICES = "NotEnoughDevices"
    """The node has not the devices that the Pod asks for, or they are in use."""

    CLAIM_ELSEWHERE = "ClaimAllocatedElsewhere"
    """A claim of the Pod is allocated already, to devices that this node cannot reach."""

    CLAIM_AWAITED = "ClaimAwaited"
    """A claim that the Pod names is not there yet, or is being deleted."""

    CLAIM_FULL = "ClaimHasAllConsumers"
    """A claim that the Pod names has as many consumers as one may have (256)."""

    CLAIM_INVALID = "ClaimCannotBeAllocated"
    """Nothing can be allocated: a claim, a DeviceClass or a ResourceSlice is broken. The detail says which one."""

    SCHEDULING_GROUP = "SchedulingGroup"
    """The Pod is one of a group that is scheduled together, which an extender cannot do."""

    NODE_UNKNOWN = "NodeUnknown"
    """The node is not known here yet, or not any more."""

    SEARCH_ENDED = "SearchEnded"
    """Whether the node has fitting devices was not found out within the search's budget."""

    DEVICES_UNPREPARED = "DevicesBeingPrepared"
    """The Pod has its devices, and their driver has to prepare them on the node first (binding conditions)."""

    BIND_FAILED = "BindFailed"
    """The Pod got its devices but not its node; the devices were given back, and it is scheduled again."""

    BIND_CONFLICT = "DevicesTakenMeanwhile"
    """Between the choice of the node and the binding somebody else got the devices; the Pod is scheduled again."""

    DEVICES_OVERLAP = "DevicesAllocatedTwice"
    """Two claims hold the same device: more than one scheduler allocates the devices of this driver."""

    # The state of an ExtendedResourcePolicy.

    SERVING = "Serving"
    """The name is served."""

    NAME_INVALID = "NameInvalid"
    """The annotation of a DeviceClass is not the name of an extended resource, and is ignored."""

    NAME_LOST = "ExtendedResourceNameLost"
    """`spec.extendedResourceName` of a DeviceClass was set while the API server's gate was off, which dropped it."""

    NAME_SHADOWED = "NameShadowed"
    """Another policy serves the same name; the older one wins."""

    NAME_COLLISION = "NameCollision"
    """Several DeviceClasses declare the name; the newest wins, then the smaller class name."""

    GATE_OFF = "GateOff"
    """The policy asks for native delivery, but the API server's gate DRAExtendedResource is off."""

    KUBELET_TOO_OLD = "KubeletTooOld"
    """A node's kubelet is older than 1.36 and would start native Pods without their devices, silently."""

    CLASS_DIFFERS = "ClassDiffers"
    """kube-scheduler would serve the name by another DeviceClass, or by none."""

    SETTLING = "Settling"
    """All that native delivery needs is there, but not for long enough yet."""

    GATE_UNKNOWN = "GateUnknown"
    """Whether the API server's gate is on has not been found out yet."""


CURES: Mapping[Reason, str] = {
    Reason.NOT_SERVED: "create an ExtendedResourcePolicy for the name, or a DeviceClass that declares it",
    Reason.NODE_NAME_SET: "remove spec.nodeName and use a nodeSelector or node affinity",
    Reason.MIRROR_POD: "run the workload as an ordinary Pod instead of a static one",
    Reason.OPTED_OUT: "remove the annotation drabridge.io/rewrite",
    Reason.OTHER_SCHEDULER: "use a scheduler of --scheduler-names, or add yours there if it allocates ResourceClaims",
    Reason.DEVICE_PLUGIN_PRESENT: (
        "remove the device plugin from the nodes, or set coexistence: Rewrite in the name's ExtendedResourcePolicy"
    ),
    Reason.NATIVE: "nothing is to be done",
    Reason.BIND: "nothing is to be done",
    Reason.BIND_OFF: "install the component bind of the manifests, or set another delivery",
    Reason.NOT_ENOUGH_DEVICES: "wait, ask for less, or add devices",
    Reason.CLAIM_ELSEWHERE: "let the Pod run on the claim's node, or delete the claim",
    Reason.CLAIM_AWAITED: "create the claim, or wait for whoever makes it",
    Reason.CLAIM_FULL: "use another claim",
    Reason.CLAIM_INVALID: "correct what is named",
    Reason.SCHEDULING_GROUP: "remove spec.schedulingGroup, or use another scheduler",
    Reason.NODE_UNKNOWN: "wait; the Pod goes on by itself",
    Reason.SEARCH_ENDED: "make the claim's constraints simpler",
    Reason.DEVICES_UNPREPARED: "wait; the Pod goes on by itself",
    Reason.BIND_FAILED: "wait; it is tried again by itself",
    Reason.BIND_CONFLICT: "wait; it is tried again by itself",
    Reason.DEVICES_OVERLAP: "let one scheduler allocate the devices of a driver, and delete one of the two Pods",
    Reason.POLICY_OFF: "set another delivery in the name's ExtendedResourcePolicy",
    Reason.NOT_SELECTED: "change namespaceSelector or podSelector of the policy, or the labels",
    Reason.LIMIT_RANGE: "remove the name from min and maxLimitRequestRatio of the LimitRange",
    Reason.LIMIT_EXCEEDED: "ask for less, or raise max in the LimitRange",
    Reason.RESOURCE_QUOTA: (
        "cap the devices of the name's DeviceClass instead: <class>.deviceclass.resource.k8s.io/devices"
    ),
    Reason.QUOTA_PENDING: "wait; the Pod goes on by itself",
    Reason.QUOTA_KEY_DEAD: "write requests.<name> instead",
    Reason.COMPANION_FOREIGN: "rename that ResourceQuota",
    Reason.NOT_WHOLE: "ask for a whole number of devices",
    Reason.LIMIT_DIFFERS: "set request and limit of the name to the same number",
    Reason.TOO_MANY_DEVICES: "ask for at most 32 devices in all containers together",
    Reason.POD_TOO_LARGE: "ask for devices in fewer containers, or make the annotations smaller",
    Reason.INVALID_POD: "correct the field that the API server names",
    Reason.COPY_UNREADABLE: "create the Pod from its original manifest, which names the extended resource",
    Reason.MISSED: "delete the Pod and create it again; a controller that owns it does the second part",
    Reason.RECREATED: "nothing is to be done",
    Reason.CLAIM_CREATED: "nothing is to be done",
    Reason.DEVICES_ALLOCATED: "nothing is to be done",
    Reason.CLAIM_LATE: "look at the logs of drabridge's leader; the Pod goes on by itself once its claim exists",
    Reason.CLAIM_REFUSED: "raise the quota or remove what refuses it; it is tried again by itself",
    Reason.CLAIM_FOREIGN: "delete the Pod and create it again from its original manifest",
    Reason.ANNOTATION_INVALID: "delete the Pod and create it again from its original manifest",
    Reason.DEVICE_CLASS_MISSING: "create the DeviceClass; Pods that wait for it go on by themselves",
    Reason.SERVING: "nothing is to be done",
    Reason.NAME_INVALID: "write a name with a domain, such as example.com/gpu",
    Reason.NAME_LOST: "apply the DeviceClass again where the gate is on; annotate it where it is off",
    Reason.NAME_SHADOWED: "delete one of the two policies",
    Reason.NAME_COLLISION: "let one DeviceClass declare the name, or name the class in an ExtendedResourcePolicy",
    Reason.GATE_OFF: "set delivery: Auto or Rewrite, or switch the gate on",
    Reason.KUBELET_TOO_OLD: "upgrade the node's kubelet to 1.36 or newer, or set delivery: Auto or Rewrite",
    Reason.CLASS_DIFFERS: "set spec.extendedResourceName of the DeviceClass (apply it again after an upgrade to 1.36)",
    Reason.SETTLING: "wait",
    Reason.GATE_UNKNOWN: "wait; if it lasts, look at the logs of drabridge's leader",
}


def with_cure(detail: str, reason: Reason) -> str:
    """The sentence that people read: what is wrong, and what to do about it."""
    return f"{detail}. Cure: {CURES[reason]}."
