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

    CLAIM_UNKNOWN = "ClaimNotThereYet"
    """A claim that the Pod names, or its template, does not exist yet, so that nobody can tell whose devices it asks
    for; the Pod keeps its scheduler (`podsWithClaims: Bind`)."""

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

    # What keeps a Pod from its devices, or may do so when it is started again; its condition drabridge.io/DevicesUsable
    # says it, or the Pod has an event where drabridge writes nothing on it.

    NO_DEVICES_PUBLISHED = "NoDevicesPublished"
    """No ResourceSlice publishes a device of the DeviceClass that the Pod waits for."""

    DRIVER_MISSING = "DriverMissing"
    """The Pod has devices on its node, and their DRA driver is not there to prepare them."""

    PREPARING_FAILS = "PreparingFails"
    """The Pod has devices on its node, and their DRA driver fails to prepare them."""

    NODE_NOT_WRITABLE = "NodeNotWritable"
    """A file cannot be written on the Pod's node that its devices need, such as those in the CDI directory."""

    DEVICE_UNPUBLISHED = "DeviceNotPublished"
    """A device of the Pod is in no ResourceSlice any more: it has gone, or has another name now."""

    DEVICE_UNHEALTHY = "DeviceUnhealthy"
    """The kubelet says that a device of the Pod is unhealthy, or its driver has tainted it."""

    DEVICES_USABLE = "DevicesUsable"
    """What kept the Pod from its devices is over."""

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

    # The state of an ExtendedResourcePolicy. The first two are of its condition OneAllocator, with delivery Bind.

    ONE_ALLOCATOR = "OneAllocator"
    """Nobody but drabridge has allocated devices of the drivers that the DeviceClass selects."""

    OTHER_ALLOCATOR = "AllocatedByOthers"
    """Another scheduler has allocated devices of the same drivers, perhaps before the policy was made; if it goes on,
    sooner or later both give away the same one."""

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

    CLAIM_STAYS = "ClaimStaysOnPod"
    """A try to bind the Pod failed, and API servers keep the claim in the Pod's status. On a node where a device plugin
    serves the name the kubelet would wait for that claim."""

    CLASS_DIFFERS = "ClassDiffers"
    """kube-scheduler would serve the name by another DeviceClass, or by none."""

    SETTLING = "Settling"
    """All that native delivery needs is there, but not for long enough yet."""

    GATE_UNKNOWN = "GateUnknown"
    """Whether the API server's gate is on has not been found out yet."""

    # What `drabridge convert` did with a manifest, or why it did not.

    CONVERTED = "Converted"
    """The Pod template uses devices of a ResourceClaimTemplate instead of extended resources, or the way back."""

    TEMPLATE_WRITTEN = "ClaimTemplateWritten"
    """A ResourceClaimTemplate was added for the Pod templates of one shape."""

    TEMPLATE_REMOVED = "ClaimTemplateRemoved"
    """A ResourceClaimTemplate of ours was removed, since nothing uses it any more."""

    UPGRADED = "ApiVersionUpgraded"
    """An object of resource.k8s.io was written as v1; v1beta1 goes with Kubernetes 1.38, v1beta2 with 1.39."""

    API_VERSION_LEFT = "ApiVersionNotUpgraded"
    """The version of resource.k8s.io is too old to be written as v1 by rule."""

    CANNOT_EXPRESS_CLAIMS = "CannotExpressClaims"
    """The kind describes Pods, but its API has no place for the claims of a Pod."""

    OUTSIDE_CONTAINERS = "OutsideContainers"
    """The name is asked for outside a list of containers, where the API of the kind has no place for claims."""

    NAME_AS_VALUE = "NameAsValue"
    """The name stands as a value; a controller will make a resource request of it."""

    CLUSTER_SCOPED = "NamespaceNotKnown"
    """The object has no namespace, and a ResourceClaimTemplate must be in that of the Pods."""

    POD_LEVEL = "PodLevelResources"
    """The name stands in `spec.resources` of a Pod, where Kubernetes takes CPU, memory and hugepages only."""

    PLACEHOLDER = "Placeholder"
    """The quantity is a placeholder that another program replaces."""

    TEMPLATE_TEXT = "TemplateText"
    """The file is the text of a template (Helm, Jinja), and no YAML before it is rendered."""

    NOT_AN_OBJECT = "NotAnObject"
    """The document names extended resources, but has no apiVersion and kind: values of a chart, or a patch."""

    PART_OF_DEVICE = "PartOfDevice"
    """A container asks for a part of a device as well, such as its memory; a request for whole devices says less."""

    REQUEST_ONLY = "RequestWithoutLimit"
    """There was a request without a limit, which the API server refuses; it was taken for what is wanted."""

    WITHOUT_IMAGE = "ContainerWithoutImage"
    """A container has no image: the manifest may be a patch, and what it is applied to goes on asking."""

    SAME_DOMAIN_LEFT = "OtherNamesOfTheDomain"
    """Other names of the same domain stay in the container; nobody offers them once the device plugin is gone."""

    SHARED_UNITS = "SharedUnits"
    """The name stood for a share of a device; now each unit is a whole one."""

    CONFIG_SHARED = "ConfigSharedByDevices"
    """The DeviceClass has `config`, which is applied to all devices of a request alike."""

    SCHEDULER = "SchedulerToBeChecked"
    """The Pods are for another scheduler, which may not allocate claims, or not those of extended resources."""

    TOLERATION_ADDED = "TolerationAdded"
    """A toleration was added that the admission plugin ExtendedResourceToleration gives to Pods that name the
    resource."""

    TOLERATION_LEFT = "TolerationLeft"
    """A toleration of the resource stays; it does no harm."""

    DEVICES_COUNTED = "DevicesCountedFromLimits"
    """The kind's controller counts devices by the limits of the container, which are gone."""

    QUOTA_TO_BE_CHANGED = "QuotaToBeChanged"
    """A ResourceQuota, LimitRange or ClusterQueue caps the name, and does not see claims."""

    ANCHOR_CHANGED = "AnchorChanged"
    """What an anchor stands for has changed, and with it what its aliases mean; or an alias was written out."""

    LINE_ENDS = "LineEnds"
    """Lines end otherwise than those of Unix and Windows, and the change would have been within such a line."""

    EDIT_UNSAFE = "EditUnsafe"
    """The change could not be made in the text without touching something else, such as other users of an anchor."""

    CLAIM_TEMPLATE_UNKNOWN = "ClaimTemplateUnknown"
    """The ResourceClaimTemplate that the Pods use is not among the files."""

    NOT_EXPRESSIBLE = "NotExpressible"
    """The claim says more than extended resources can."""

    # Why `drabridge convert` cannot read a file.

    EMPTY = "Empty"
    """There is nothing in the file."""

    NOT_TEXT = "NotText"
    """The file is no text in UTF-8."""

    TOO_LARGE = "TooLarge"
    """The file is larger than manifests are."""

    NOT_READABLE = "NotReadable"
    """The file cannot be read or written."""

    INVALID_YAML = "InvalidYaml"
    """The document is no YAML."""

    DUPLICATE_KEY = "DuplicateKey"
    """A mapping has a key twice; readers do not agree which one counts, if they take it at all."""

    ALIAS_BOMB = "AliasesTooLarge"
    """The document would be very large with its aliases written out."""


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
    Reason.CLAIM_UNKNOWN: "create claims and templates before the Pods that use them",
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
    Reason.ONE_ALLOCATOR: "nothing is to be done",
    Reason.OTHER_ALLOCATOR: "set podsWithClaims: Bind in the policy, and delivery: Bind for all names of these drivers",
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
    Reason.INVALID_POD: "correct the field that is named",
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
    Reason.NO_DEVICES_PUBLISHED: (
        "start the DRA driver on the nodes with such devices, or correct the DeviceClass; the Pod goes on by itself"
    ),
    Reason.DRIVER_MISSING: "start the DRA driver on the Pod's node; the Pod goes on by itself",
    Reason.PREPARING_FAILS: (
        "see the DRA driver's log on the Pod's node; it is tried again by itself, and a new Pod may get other devices"
    ),
    Reason.NODE_NOT_WRITABLE: (
        "make what is named writable for the DRA driver on the Pod's node, or give it room; it is tried again by itself"
    ),
    Reason.DEVICE_UNPUBLISHED: (
        "delete the Pod, so that a new one gets devices that are there; see the DRA driver's log for why it went"
    ),
    Reason.DEVICE_UNHEALTHY: (
        "see the DRA driver's log on the Pod's node; taint the device and delete the Pod: a new one gets another"
    ),
    Reason.DEVICES_USABLE: "nothing is to be done",
    Reason.SERVING: "nothing is to be done",
    Reason.NAME_INVALID: "write a name with a domain, such as example.com/gpu",
    Reason.NAME_LOST: "apply the DeviceClass again where the gate is on; annotate it where it is off",
    Reason.NAME_SHADOWED: "delete one of the two policies",
    Reason.NAME_COLLISION: "let one DeviceClass declare the name, or name the class in an ExtendedResourcePolicy",
    Reason.GATE_OFF: "set delivery: Auto or Rewrite, or switch the gate on",
    Reason.KUBELET_TOO_OLD: "upgrade the node's kubelet to 1.36 or newer, or set delivery: Auto or Rewrite",
    Reason.CLAIM_STAYS: "wait for devices on another node, or delete the Pod so that its owner makes a new one",
    Reason.CLASS_DIFFERS: "set spec.extendedResourceName of the DeviceClass (apply it again after an upgrade to 1.36)",
    Reason.SETTLING: "wait",
    Reason.GATE_UNKNOWN: "wait; if it lasts, look at the logs of drabridge's leader",
    Reason.CONVERTED: "nothing is to be done",
    Reason.TEMPLATE_WRITTEN: "nothing is to be done",
    Reason.TEMPLATE_REMOVED: "nothing is to be done",
    Reason.UPGRADED: "nothing is to be done",
    Reason.API_VERSION_LEFT: "write the object anew as resource.k8s.io/v1",
    Reason.CANNOT_EXPRESS_CLAIMS: "leave the manifest and install drabridge's operator, which rewrites the Pods",
    Reason.OUTSIDE_CONTAINERS: "leave the manifest and install drabridge's operator, which rewrites the Pods",
    Reason.NAME_AS_VALUE: "leave the manifest and install drabridge's operator, which rewrites the Pods",
    Reason.CLUSTER_SCOPED: "name the namespace by --namespace, or install drabridge's operator",
    Reason.POD_LEVEL: "ask for it in resources of a container",
    Reason.PLACEHOLDER: "convert the file after it is rendered, or write a number",
    Reason.TEMPLATE_TEXT: "convert what it is rendered to (helm template), or install drabridge's operator",
    Reason.NOT_AN_OBJECT: "convert the manifests that it is rendered to, or install drabridge's operator",
    Reason.PART_OF_DEVICE: "ask for whole devices, or for capacity of a device in a claim of your own",
    Reason.REQUEST_ONLY: "check the number",
    Reason.WITHOUT_IMAGE: "convert the manifest that it is applied to as well",
    Reason.SAME_DOMAIN_LEFT: "map these names, too, or remove them",
    Reason.SHARED_UNITS: "check that there are enough devices, or ask for capacity of a device in a claim of your own",
    Reason.CONFIG_SHARED: "check that the driver can apply it to several devices",
    Reason.SCHEDULER: "check that the scheduler allocates ResourceClaims",
    Reason.TOLERATION_ADDED: "nothing is to be done",
    Reason.TOLERATION_LEFT: "remove it if it was not there before the conversion",
    Reason.DEVICES_COUNTED: "write the number for the controller (KubeRay: num-gpus in rayStartParams)",
    Reason.QUOTA_TO_BE_CHANGED: "cap the devices of the class as well: <class>.deviceclass.resource.k8s.io/devices",
    Reason.ANCHOR_CHANGED: "look in the diff at what else uses the anchor",
    Reason.LINE_ENDS: "save the file with line feeds at the ends of its lines",
    Reason.EDIT_UNSAFE: "write aliases and merged keys out, or change it by hand",
    Reason.CLAIM_TEMPLATE_UNKNOWN: "name the file with the ResourceClaimTemplate as well",
    Reason.NOT_EXPRESSIBLE: "leave the claim, or ask for whole devices of a class that serves a name",
    Reason.EMPTY: "remove the file, or name another",
    Reason.NOT_TEXT: "save it as UTF-8 text, or name another file",
    Reason.TOO_LARGE: "split it into files of single objects",
    Reason.NOT_READABLE: "check its path and your rights, or name another",
    Reason.INVALID_YAML: "correct the line",
    Reason.DUPLICATE_KEY: "remove one of the two",
    Reason.ALIAS_BOMB: "write the document without so many aliases",
}


def with_cure(detail: str, reason: Reason) -> str:
    """The sentence that people read: what is wrong, and what to do about it."""
    return f"{detail}. Cure: {CURES[reason]}."
