from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jsonpatch
import pytest

from builders import (
    CLAIM,
    GPU,
    GPU_AND_NIC,
    GPU_CLASS,
    IMPLICIT_GPU,
    NIC,
    NIC_CLASS,
    OTHER_CLAIM,
    PodBuilder,
    cluster,
    patched,
    pod,
    policy,
    rewritten,
)
from drabridge.core import asked as annotation
from drabridge.core.asked import Asked, AskedRequest
from drabridge.core.caps import Cap, Limit, Max
from drabridge.core.claimspec import RequestMapping
from drabridge.core.cluster import ClusterView, Gate
from drabridge.core.podview import PodView
from drabridge.core.policy import Coexistence, Delivery
from drabridge.core.quantity import Quantity
from drabridge.core.reasons import Reason
from drabridge.core.rewrite import (
    ANNOTATIONS_MAX,
    CLAIM_NAME,
    CONTAINERS_MAX,
    ClaimNames,
    LeaveAlone,
    Objection,
    Rewrite,
    decide,
    our_claim,
)

Raw = dict[str, Any]
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OPT_OUT = {"drabridge.io/rewrite": "false"}
MIRROR = {"kubernetes.io/config.mirror": "hash"}


def left(builder: PodBuilder, view: ClusterView = GPU_AND_NIC) -> tuple[Objection, ...]:
    verdict = decide(builder.view(), view, ClaimNames(CLAIM))
    return verdict.objections if isinstance(verdict, LeaveAlone) else verdict.left


def served(builder: PodBuilder, view: ClusterView = GPU_AND_NIC) -> Rewrite:
    verdict = decide(builder.view(), view, ClaimNames(CLAIM))
    assert isinstance(verdict, Rewrite), verdict
    return verdict


def again(raw: Raw, view: ClusterView = GPU_AND_NIC, taken: frozenset[str] = frozenset()) -> Rewrite | LeaveAlone:
    """Decide about a Pod that admission has seen before: a fresh name has been made up, as always."""
    return decide(PodView.of(raw), view, ClaimNames(OTHER_CLAIM, taken))


def written(requests: Raw | None = None, limits: Raw | None = None, builder: PodBuilder | None = None) -> PodBuilder:
    """Add a container with exactly these requests and limits."""
    resources = {key: value for key, value in (("requests", requests), ("limits", limits)) if value is not None}
    return (builder or pod()).app(raw={"resources": resources})


# --- what is left alone, and why


@dataclass(frozen=True)
class Left:
    pod: PodBuilder
    reason: Reason
    detail: str
    resource: str | None = GPU
    cluster: ClusterView = GPU_AND_NIC


def gpu_policy(
    *, plugins: dict[str, str] | None = None, labels: dict[str, str] | None = None, **spec: Any
) -> ClusterView:
    return cluster(GPU_CLASS, policies=[policy(**spec)], plugins=plugins, labels=labels)


def crowd(containers: int, builder: PodBuilder | None = None, *, gpu: int = 0, nic: int = 0) -> PodBuilder:
    """Add that many init containers, which may share their devices."""
    builder = builder or pod()
    return builder.with_spec(initContainers=[*pod().init(gpu=gpu, nic=nic).spec["initContainers"]] * containers)


def most(quantity: int | str, limit_range: str = "caps") -> Max:
    return Max(Quantity.parse(str(quantity)), limit_range)


ONE = pod().app(gpu=1)
CONTAINER = "Pod default/web: spec.containers[0]"
FIELD = f"{CONTAINER}.resources.requests['example.com/gpu']"

LEFT: dict[str, Left] = {
    "the picture of a static Pod": Left(
        ONE.annotations(MIRROR), Reason.MIRROR_POD, "Pod default/web mirrors a static Pod", None
    ),
    "a Pod that names its node": Left(
        ONE.with_spec(nodeName="node-a"), Reason.NODE_NAME_SET, "Pod default/web: spec.nodeName is node-a", None
    ),
    "a Pod whose author opts out": Left(
        ONE.annotations(OPT_OUT),
        Reason.OPTED_OUT,
        "Pod default/web: metadata.annotations['drabridge.io/rewrite'] is false",
        None,
    ),
    "a Pod whose author opts out in capitals": Left(
        ONE.annotations({"drabridge.io/rewrite": "False"}),
        Reason.OPTED_OUT,
        "Pod default/web: metadata.annotations['drabridge.io/rewrite'] is false",
        None,
    ),
    "a Pod of another scheduler": Left(
        ONE.with_spec(schedulerName="volcano"),
        Reason.OTHER_SCHEDULER,
        "Pod default/web: spec.schedulerName is 'volcano'",
        None,
    ),
    "a Pod of the default scheduler where that is not listed": Left(
        ONE,
        Reason.OTHER_SCHEDULER,
        "Pod default/web: spec.schedulerName is 'default-scheduler'",
        None,
        cluster(GPU_CLASS, schedulers=["volcano"]),
    ),
    "a Pod that has no name yet": Left(
        ONE.generate_name("web-7f-").with_spec(nodeName="n"),
        Reason.NODE_NAME_SET,
        "Pod default/web-7f-*: spec.nodeName is n",
        None,
    ),
    "a name that nobody serves": Left(
        ONE, Reason.NOT_SERVED, "no DeviceClass stands behind example.com/gpu", cluster=cluster(NIC_CLASS)
    ),
    "an implicit name without its class": Left(
        pod().app(implicit_gpu=1),
        Reason.NOT_SERVED,
        "DeviceClass gpu does not exist",
        IMPLICIT_GPU,
        cluster(NIC_CLASS),
    ),
    "a policy that is Off": Left(
        ONE,
        Reason.POLICY_OFF,
        "ExtendedResourcePolicy gpu: spec.delivery is Off",
        cluster=gpu_policy(delivery=Delivery.OFF),
    ),
    "a namespace that the policy does not select": Left(
        ONE,
        Reason.NOT_SELECTED,
        "ExtendedResourcePolicy gpu: spec.namespaceSelector does not select the namespace",
        cluster=gpu_policy(namespaces={"team": "ml"}, labels={"team": "web"}),
    ),
    "a Pod that the policy does not select": Left(
        ONE.labels(tier="web"),
        Reason.NOT_SELECTED,
        "ExtendedResourcePolicy gpu: spec.podSelector does not select the Pod",
        cluster=gpu_policy(pods={"tier": "batch"}),
    ),
    "a name that kube-scheduler serves itself": Left(
        ONE,
        Reason.NATIVE,
        "kube-scheduler serves example.com/gpu itself",
        cluster=cluster(GPU_CLASS, gate=Gate.ON, settled=[GPU]),
    ),
    "a name that a policy gives to kube-scheduler, even in vain": Left(
        ONE,
        Reason.NATIVE,
        "kube-scheduler serves example.com/gpu itself",
        cluster=gpu_policy(delivery=Delivery.NATIVE),
    ),
    "a name that a device plugin serves": Left(
        ONE,
        Reason.DEVICE_PLUGIN_PRESENT,
        "node node-a has example.com/gpu in status.allocatable",
        cluster=cluster(GPU_CLASS, plugins={GPU: "node-a"}),
    ),
    "a name that a device plugin serves and a policy, too": Left(
        ONE,
        Reason.DEVICE_PLUGIN_PRESENT,
        "node node-a has example.com/gpu in status.allocatable",
        cluster=gpu_policy(plugins={GPU: "node-a"}),
    ),
    "a quantity that is none": Left(
        written({GPU: "two"}, {GPU: "two"}),
        Reason.INVALID_POD,
        f"{FIELD}: 'two' is not a quantity: a number is expected, with nothing, an exponent (e3) or one of"
        " n u m k M G T P E Ki Mi Gi Ti Pi Ei after it",
    ),
    "an empty quantity": Left(
        written({GPU: ""}, {GPU: "1"}), Reason.INVALID_POD, f"{FIELD}: a quantity must not be empty"
    ),
    "a limit that is no quantity": Left(
        written({GPU: "1"}, {GPU: "1 2"}),
        Reason.INVALID_POD,
        f"{FIELD}: '1 2' is not a quantity: a number is expected, with nothing, an exponent (e3) or one of"
        " n u m k M G T P E Ki Mi Gi Ti Pi Ei after it",
    ),
    "a quantity below zero": Left(
        written({GPU: "-1"}, {GPU: "-1"}), Reason.INVALID_POD, f"{FIELD} is -1, less than zero"
    ),
    "an implicit name below zero": Left(
        written({IMPLICIT_GPU: "-2"}),
        Reason.INVALID_POD,
        f"Pod default/web: spec.containers[0].resources.requests['{IMPLICIT_GPU}'] is -2, less than zero",
        IMPLICIT_GPU,
    ),
    "a quantity that is not whole": Left(pod().app(gpu="1500m"), Reason.NOT_WHOLE, f"{FIELD} is 1500m"),
    "a quantity that is hardly more than nothing": Left(pod().app(gpu="1e-99"), Reason.NOT_WHOLE, f"{FIELD} is 1e-99"),
    "a quantity that is not whole under an implicit name": Left(
        written({IMPLICIT_GPU: "0.5"}),
        Reason.NOT_WHOLE,
        f"Pod default/web: spec.containers[0].resources.requests['{IMPLICIT_GPU}'] is 0.5",
        IMPLICIT_GPU,
    ),
    "a quantity that is not whole in one container of several": Left(
        pod().app(gpu=1).init(gpu="0.1"),
        Reason.NOT_WHOLE,
        "Pod default/web: spec.initContainers[0].resources.requests['example.com/gpu'] is 0.1",
    ),
    "a request without limit": Left(written({GPU: "1"}), Reason.LIMIT_DIFFERS, f"{FIELD} is 1, its limit not set"),
    "a request below its limit": Left(
        written({GPU: "1"}, {GPU: "2"}), Reason.LIMIT_DIFFERS, f"{FIELD} is 1, its limit 2"
    ),
    "a LimitRange with a min, which zero would not satisfy": Left(
        ONE,
        Reason.LIMIT_RANGE,
        "LimitRange default/caps has min for example.com/gpu",
        cluster=cluster(GPU_CLASS, limits={GPU: Limit("min", "caps", most(4))}),
    ),
    "a LimitRange with a ratio of limit to request": Left(
        ONE,
        Reason.LIMIT_RANGE,
        "LimitRange default/caps has maxLimitRequestRatio for example.com/gpu",
        cluster=cluster(GPU_CLASS, limits={GPU: Limit("maxLimitRequestRatio", "caps")}),
    ),
    "a container above its max": Left(
        pod().init(gpu=2).app(gpu=3),
        Reason.LIMIT_EXCEEDED,
        f"{CONTAINER} asks for 3 example.com/gpu, more than the max 2 of LimitRange default/caps",
        cluster=cluster(GPU_CLASS, limits={GPU: Limit(container_max=most(2))}),
    ),
    "an implicit name whose limit is above the max": Left(
        written({IMPLICIT_GPU: "1"}, {IMPLICIT_GPU: "3"}),
        Reason.LIMIT_EXCEEDED,
        f"{CONTAINER} asks for 3 {IMPLICIT_GPU}, more than the max 2 of LimitRange default/caps",
        IMPLICIT_GPU,
        cluster(GPU_CLASS, limits={IMPLICIT_GPU: Limit(container_max=most(2))}),
    ),
    "a Pod above its max": Left(
        pod().init(gpu=4).sidecar(gpu=1).app(gpu=2).app(gpu=2),
        Reason.LIMIT_EXCEEDED,
        "Pod default/web asks for 5 example.com/gpu in all, more than the max 4 of LimitRange default/caps",
        cluster=cluster(GPU_CLASS, limits={GPU: Limit(container_max=most(4), pod_max=most(4))}),
    ),
    "a Pod above a max that is not whole": Left(
        pod().app(gpu=2),
        Reason.LIMIT_EXCEEDED,
        "Pod default/web asks for 2 example.com/gpu in all, more than the max 1500m of LimitRange default/caps",
        cluster=cluster(GPU_CLASS, limits={GPU: Limit(pod_max=most("1500m"))}),
    ),
    "a ResourceQuota whose cap cannot be kept": Left(
        ONE,
        Reason.RESOURCE_QUOTA,
        "ResourceQuota default/team names requests.example.com/gpu, and it has scopes",
        cluster=cluster(GPU_CLASS, caps={GPU: Cap("team", "it has scopes")}),
    ),
    "more devices than a claim holds": Left(
        pod().app(gpu=20).app(gpu=12, nic=1),
        Reason.TOO_MANY_DEVICES,
        (
            "Pod default/web asks for 33 devices in all, a ResourceClaim holds 32:"
            " c0 20 example.com/gpu, c1 12 example.com/gpu, c1 1 example.com/nic"
        ),
        None,
    ),
    "more devices than anybody has": Left(
        pod().app(gpu="1e30"),
        Reason.TOO_MANY_DEVICES,
        ("Pod default/web asks for more devices in all, a ResourceClaim holds 32: c0 1e30 example.com/gpu"),
        None,
    ),
    "more containers than a plan is made for": Left(
        crowd(512, ONE), Reason.POD_TOO_LARGE, "Pod default/web has 513 containers, more than 512", None
    ),
    "more asks than a plan is made for": Left(
        crowd(257, gpu=1, nic=1),
        Reason.POD_TOO_LARGE,
        "Pod default/web has 514 asks for extended resources, more than 512",
        None,
    ),
    "a claim name of ours without annotation": Left(
        ONE.claim("x", CLAIM), Reason.COPY_UNREADABLE, f"Pod default/web uses claim {CLAIM}", None
    ),
    "a claim name of ours with an annotation that cannot be read": Left(
        ONE.claim("x", CLAIM).annotations({annotation.ANNOTATION: "[]"}),
        Reason.COPY_UNREADABLE,
        f"Pod default/web uses claim {CLAIM}",
        None,
    ),
}


@pytest.mark.parametrize("case", LEFT.values(), ids=LEFT)
def test_what_is_left_alone_and_why(case: Left) -> None:
    verdict = decide(case.pod.view(), case.cluster, ClaimNames(CLAIM))
    assert verdict == LeaveAlone((Objection(case.reason, case.detail, case.resource),))


# Each of these objects to the Pod or the name; of two that do, the earlier one is shown.
POD_ORDER: list[tuple[Reason, Callable[[PodBuilder], PodBuilder]]] = [
    (Reason.MIRROR_POD, lambda builder: builder.annotations(MIRROR)),
    (Reason.NODE_NAME_SET, lambda builder: builder.with_spec(nodeName="n")),
    (Reason.OPTED_OUT, lambda builder: builder.annotations(OPT_OUT)),
    (Reason.OTHER_SCHEDULER, lambda builder: builder.with_spec(schedulerName="volcano")),
    (Reason.POD_TOO_LARGE, lambda builder: crowd(CONTAINERS_MAX, builder)),
    (Reason.COPY_UNREADABLE, lambda builder: builder.claim("x", CLAIM)),
]


@pytest.mark.parametrize("first", range(len(POD_ORDER)), ids=[reason for reason, _ in POD_ORDER])
def test_the_first_rule_that_objects_to_a_pod_is_the_one_shown(first: int) -> None:
    builder = pod().app(gpu="1500m")
    for _, edit in POD_ORDER[first:]:
        builder = edit(builder)
    assert [each.reason for each in left(builder)] == [POD_ORDER[first][0]]


BAD, UNEQUAL = written({GPU: "x"}), written({GPU: "1"}, {GPU: "2"})
CAPPED: dict[str, Any] = {"limits": {GPU: Limit("min", "caps")}, "caps": {GPU: Cap("team", "it has scopes")}}
PLUGIN: dict[str, Any] = {**CAPPED, "plugins": {GPU: "node-a"}}
NAME_ORDER: dict[str, tuple[PodBuilder, ClusterView, Reason]] = {
    "not served before a device plugin": (BAD, cluster(**PLUGIN), Reason.NOT_SERVED),
    "Off before not selected": (
        BAD,
        cluster(GPU_CLASS, policies=[policy(delivery=Delivery.OFF, pods={"a": "b"})], **PLUGIN),
        Reason.POLICY_OFF,
    ),
    "not selected before native": (
        BAD,
        cluster(GPU_CLASS, policies=[policy(delivery=Delivery.NATIVE, pods={"a": "b"})], **PLUGIN),
        Reason.NOT_SELECTED,
    ),
    "native before a device plugin": (
        BAD,
        cluster(GPU_CLASS, policies=[policy(delivery=Delivery.NATIVE)], **PLUGIN),
        Reason.NATIVE,
    ),
    "a device plugin before the numbers, which may be right for the plugin": (
        BAD,
        cluster(GPU_CLASS, **PLUGIN),
        Reason.DEVICE_PLUGIN_PRESENT,
    ),
    "unreadable before not whole": (
        BAD.app(gpu="0.5"),
        cluster(GPU_CLASS, **CAPPED),
        Reason.INVALID_POD,
    ),
    "not whole before limits": (UNEQUAL.app(gpu="0.5"), cluster(GPU_CLASS, **CAPPED), Reason.NOT_WHOLE),
    "limits before the namespace's caps": (UNEQUAL, cluster(GPU_CLASS, **CAPPED), Reason.LIMIT_DIFFERS),
    "a LimitRange before a quota": (ONE, cluster(GPU_CLASS, **CAPPED), Reason.LIMIT_RANGE),
    "caps before the number of devices": (
        pod().app(gpu=33),
        cluster(GPU_CLASS, caps={GPU: Cap("team", "it has scopes")}),
        Reason.RESOURCE_QUOTA,
    ),
}


@pytest.mark.parametrize(("builder", "view", "want"), NAME_ORDER.values(), ids=NAME_ORDER)
def test_the_first_rule_that_objects_to_a_name_is_the_one_shown(
    builder: PodBuilder, view: ClusterView, want: Reason
) -> None:
    assert [each.reason for each in left(builder, view)] == [want]


NOT_LEFT: dict[str, tuple[PodBuilder, ClusterView]] = {
    "a policy that selects the Pod and its namespace": (
        ONE.labels(tier="batch"),
        gpu_policy(pods={"tier": "batch"}, namespaces={"team": "ml"}, labels={"team": "ml"}),
    ),
    "a device plugin, where the policy lets both be": (
        ONE,
        gpu_policy(coexistence=Coexistence.REWRITE, plugins={GPU: "node-a"}),
    ),
    "a policy whose class is missing: the Pod waits for it": (ONE, cluster(policies=[policy(device_class="gone")])),
    "caps of other names": (
        ONE,
        cluster(GPU_CLASS, limits={NIC: Limit("min", "a")}, caps={NIC: Cap("b", "it has scopes")}, plugins={NIC: "n"}),
    ),
    "a container and a Pod at their max": (
        pod().init(gpu=4).app(gpu=2).app(gpu=2),
        cluster(GPU_CLASS, limits={GPU: Limit(container_max=most(4), pod_max=most(4))}),
    ),
    "an implicit name without limit, at the max": (
        written({IMPLICIT_GPU: "2"}),
        cluster(GPU_CLASS, limits={IMPLICIT_GPU: Limit(container_max=most(2), pod_max=most(2))}),
    ),
    "a LimitRange that has nothing but defaults": (ONE, cluster(GPU_CLASS, limits={GPU: Limit()})),
    "a quota whose cap is in force": (ONE, cluster(GPU_CLASS, caps={GPU: Cap("team")})),
    "the gate on, but not for long": (ONE, cluster(GPU_CLASS, gate=Gate.ON)),
    "a policy that wants a rewrite where native would do": (
        ONE,
        cluster(GPU_CLASS, policies=[policy(delivery=Delivery.REWRITE)], gate=Gate.ON, settled=[GPU]),
    ),
    "another scheduler that is listed": (
        ONE.with_spec(schedulerName="volcano"),
        cluster(GPU_CLASS, schedulers=["default-scheduler", "volcano"]),
    ),
    "an opt-out that says true": (ONE.annotations({"drabridge.io/rewrite": "true"}), GPU_AND_NIC),
    "an implicit name with a request only": (written({IMPLICIT_GPU: "2"}), GPU_AND_NIC),
    "an implicit name below its limit": (written({IMPLICIT_GPU: "1"}, {IMPLICIT_GPU: "2"}), GPU_AND_NIC),
    "a limit only": (written(limits={GPU: "2"}), GPU_AND_NIC),
    "request and limit that are equal in other words": (written({GPU: "2"}, {GPU: "2000m"}), GPU_AND_NIC),
    "a claim name that is nearly ours": (ONE.claim("x", f"{CLAIM}0"), GPU_AND_NIC),
    "our annotation without a claim of ours": (
        ONE.annotations({annotation.ANNOTATION: "forged"}).labels(**{"drabridge.io/delivery": "Rewrite"}),
        GPU_AND_NIC,
    ),
}


@pytest.mark.parametrize(("builder", "view"), NOT_LEFT.values(), ids=NOT_LEFT)
def test_what_does_not_keep_a_pod_from_being_rewritten(builder: PodBuilder, view: ClusterView) -> None:
    verdict = served(builder, view)
    assert (verdict.claim_name, verdict.left) == (CLAIM, ())


@pytest.mark.parametrize("builder", [pod(), pod().app(cpu=1), pod().app(gpu=0), written({"hugepages-2Mi": "1Gi"})])
def test_a_pod_that_asks_for_no_device_is_none_of_our_business(builder: PodBuilder) -> None:
    assert decide(builder.view(), GPU_AND_NIC, ClaimNames(CLAIM)) == LeaveAlone(())


def test_names_of_one_pod_have_fates_of_their_own() -> None:
    fpga = "example.com/fpga"
    names = {GPU: "2", NIC: "1500m", IMPLICIT_GPU: "1", fpga: "3"}
    builder = written(dict(names), dict(names)).app(nic=1)
    verdict = served(builder)
    assert [(each.reason, each.resource) for each in verdict.left] == [
        (Reason.NOT_SERVED, fpga),
        (Reason.NOT_WHOLE, NIC),
    ]
    assert [request.resource for request in verdict.asked.requests] == [IMPLICIT_GPU, GPU]
    first, second = patched(builder.raw(), verdict)["spec"]["containers"]
    assert first["resources"]["limits"] == first["resources"]["requests"] == {fpga: "3", NIC: "1500m"}
    assert second == builder.raw()["spec"]["containers"][1]


def test_what_is_too_many_with_one_name_is_not_made_right_by_leaving_another_alone() -> None:
    builder = pod().app(gpu=33, nic="0.5")
    assert [each.reason for each in left(builder)] == [Reason.NOT_WHOLE, Reason.TOO_MANY_DEVICES]


def test_the_message_about_too_many_devices_stays_short() -> None:
    builder = pod()
    for i in range(64):
        builder = builder.app(f"worker-{i}", gpu=1)
    [objection] = left(builder)
    assert objection.reason is Reason.TOO_MANY_DEVICES
    assert "asks for 64 devices in all" in objection.detail
    assert objection.detail.endswith("worker-7 1 example.com/gpu and 56 more")


COUNTS = {"2": 2, "2000m": 2, "1e1": 10, "0.5e1": 5, "+3": 3, "32": 32, "0.032k": 32, "4.0": 4, "1E1": 10}


@pytest.mark.parametrize(("text", "count"), COUNTS.items())
def test_quantities_are_read_as_the_api_server_reads_them(text: str, count: int) -> None:
    verdict = served(pod().app(gpu=text))
    assert verdict.asked.requests == (AskedRequest("container-0-request-0", GPU, count),)
    assert verdict.asked.containers == {"c0": {GPU: text}}


@pytest.mark.parametrize("text", ["33", "2k", "1Ki", "9223372036854775808", "1e2000000"])
def test_huge_quantities_are_too_many_devices(text: str) -> None:
    assert [each.reason for each in left(pod().app(gpu=text))] == [Reason.TOO_MANY_DEVICES]


# --- the patch


def asked_text(verdict: Rewrite) -> str:
    return verdict.asked.encode()


def test_the_patch_of_a_typical_pod_in_full() -> None:
    builder = pod().init(gpu=1).sidecar(gpu=1, cpu="100m").app(gpu=2, nic=1).app(cpu=1)
    verdict = served(builder)
    mappings = [("c1", GPU, "1-request-1"), ("c2", GPU, "2-request-0"), ("c0", GPU, "1-request-1")]
    assert verdict.asked == Asked(
        {"c0": {GPU: "1"}, "c1": {GPU: "1"}, "c2": {GPU: "2", NIC: "1"}},
        (
            AskedRequest("container-1-request-1", GPU, 1),
            AskedRequest("container-2-request-0", GPU, 2),
            AskedRequest("container-2-request-1", NIC, 1),
        ),
        (
            *(RequestMapping(name, resource, f"container-{request}") for name, resource, request in mappings),
            RequestMapping("c2", NIC, "container-2-request-1"),
        ),
    )
    gpu, nic = "example.com~1gpu", "example.com~1nic"
    init, sidecar, app = "/spec/initContainers/0", "/spec/initContainers/1", "/spec/containers/0"

    def claims(*requests: str) -> list[Raw]:
        return [{"name": "drabridge", "request": f"container-{request}"} for request in requests]

    assert verdict.patch == [
        {"op": "remove", "path": f"{init}/resources/requests/{gpu}"},
        {"op": "remove", "path": f"{init}/resources/limits/{gpu}"},
        {"op": "add", "path": f"{init}/resources/claims", "value": claims("1-request-1")},
        {"op": "remove", "path": f"{sidecar}/resources/requests/{gpu}"},
        {"op": "remove", "path": f"{sidecar}/resources/limits/{gpu}"},
        {"op": "add", "path": f"{sidecar}/resources/claims", "value": claims("1-request-1")},
        {"op": "remove", "path": f"{app}/resources/requests/{gpu}"},
        {"op": "remove", "path": f"{app}/resources/requests/{nic}"},
        {"op": "remove", "path": f"{app}/resources/limits/{gpu}"},
        {"op": "remove", "path": f"{app}/resources/limits/{nic}"},
        {"op": "add", "path": f"{app}/resources/claims", "value": claims("2-request-0", "2-request-1")},
        {"op": "add", "path": "/spec/resourceClaims", "value": [{"name": "drabridge", "resourceClaimName": CLAIM}]},
        {"op": "add", "path": "/metadata/labels", "value": {"drabridge.io/delivery": "Rewrite"}},
        {
            "op": "add",
            "path": "/metadata/annotations",
            "value": {"drabridge.io/extended-resources": asked_text(verdict)},
        },
    ]


def test_claims_of_the_author_stay_and_ours_come_after_them() -> None:
    mine = [{"name": "mine"}, {"name": "other", "request": "a"}]
    builder = (
        pod()
        .claim("mine", "my-claim")
        .claim("other", template="my-template")
        .app(gpu=1, raw={"resources": {"limits": {GPU: "1"}, "claims": mine}})
        .app(raw={"resources": {"claims": mine}})
    )
    stored = rewritten(builder)
    assert stored["spec"]["resourceClaims"] == [
        {"name": "mine", "resourceClaimName": "my-claim"},
        {"name": "other", "resourceClaimTemplateName": "my-template"},
        {"name": "drabridge", "resourceClaimName": CLAIM},
    ]
    first, second = stored["spec"]["containers"]
    assert first["resources"] == {
        "limits": {},
        "claims": [*mine, {"name": "drabridge", "request": "container-0-request-0"}],
    }
    assert second["resources"] == {"claims": mine}


def test_our_entry_gives_way_to_names_of_the_author() -> None:
    builder = ONE.claim("drabridge", "theirs").claim("drabridge-2", "theirs-too")
    stored = rewritten(builder)
    assert stored["spec"]["resourceClaims"][2] == {"name": "drabridge-3", "resourceClaimName": CLAIM}
    assert stored["spec"]["containers"][0]["resources"]["claims"] == [
        {"name": "drabridge-3", "request": "container-0-request-0"}
    ]


def test_an_init_container_that_reuses_several_requests_points_to_each_once() -> None:
    stored = rewritten(pod().init(gpu=5).app(gpu=2).app(gpu=2))
    assert [claim["request"] for claim in stored["spec"]["initContainers"][0]["resources"]["claims"]] == [
        "container-1-request-0",
        "container-2-request-0",
        "container-0-request-0",
    ]


def edit_metadata(**fields: Any) -> PodBuilder:
    return ONE.meta(**fields)


# sentence -> Pod, (labels, annotations) of the stored Pod beside ours
METADATA: dict[str, tuple[PodBuilder, Raw, Raw]] = {
    "neither labels nor annotations": (ONE, {}, {}),
    "labels and annotations that are null": (edit_metadata(labels=None, annotations=None), {}, {}),
    "empty ones": (edit_metadata(labels={}, annotations={}), {}, {}),
    "labels and annotations of the author": (
        ONE.labels(app="web").annotations({"a/b": "größe 🚀", "c~d": '"\\'}),
        {"app": "web"},
        {"a/b": "größe 🚀", "c~d": '"\\'},
    ),
    "nothing but what kubectl applied, which the view leaves out": (
        ONE.annotations({LAST_APPLIED: "{}"}),
        {},
        {LAST_APPLIED: "{}"},
    ),
    "label and annotation forged before": (
        ONE.labels(**{"drabridge.io/delivery": "x"}).annotations({"drabridge.io/extended-resources": "x"}),
        {},
        {},
    ),
    "the allocation of a Pod that this one is a copy of": (
        ONE.annotations({"drabridge.io/allocation": "[]", "a": "b"}),
        {},
        {"a": "b"},
    ),
}


@pytest.mark.parametrize(("builder", "labels", "annotations"), METADATA.values(), ids=METADATA)
def test_labels_and_annotations_are_kept_beside_ours(builder: PodBuilder, labels: Raw, annotations: Raw) -> None:
    metadata = rewritten(builder)["metadata"]
    assert metadata["labels"] == {**labels, "drabridge.io/delivery": "Rewrite"}
    text = served(builder).asked.encode()
    assert metadata["annotations"] == {**annotations, "drabridge.io/extended-resources": text}


def test_our_annotation_must_fit_beside_those_of_the_author() -> None:
    room = ANNOTATIONS_MAX - len(annotation.ANNOTATION) - len(served(ONE).asked.encode())
    fitting = ONE.annotations({"ä": "x" * (room - 2)})  # two bytes in UTF-8
    stored = rewritten(fitting)
    full = sum(len(text.encode()) for pair in stored["metadata"]["annotations"].items() for text in pair)
    assert full == ANNOTATIONS_MAX
    assert patched(stored, again(stored)) == stored
    detail = (
        f"metadata.annotations would have {ANNOTATIONS_MAX + 1} bytes with {annotation.ANNOTATION}, more than 262144"
    )
    objection = Objection(Reason.POD_TOO_LARGE, f"Pod default/web: {detail}")
    assert left(ONE.annotations({"ä": "x" * (room - 1)})) == (objection,)


def test_a_container_whose_devices_come_from_limits_loses_those() -> None:
    [container] = rewritten(written(limits={GPU: "1", "cpu": "2"}))["spec"]["containers"]
    assert container["resources"]["limits"] == {"cpu": "2"}
    assert container["resources"]["claims"] == [{"name": "drabridge", "request": "container-0-request-1"}]


def test_64_containers_share_what_runs_one_after_the_other() -> None:
    builder = pod().app(gpu=1)
    for _ in range(63):
        builder = builder.init(gpu=2)
    verdict = served(builder)
    assert [(each.name, each.count) for each in verdict.asked.requests] == [
        ("container-0-request-0", 1),
        ("container-63-request-0", 1),
    ]
    stored = patched(builder.raw(), verdict)
    for container in stored["spec"]["initContainers"]:
        assert [claim["request"] for claim in container["resources"]["claims"]] == [
            "container-63-request-0",
            "container-0-request-0",
        ]
    assert patched(stored, again(stored)) == stored


def test_names_may_be_as_long_as_the_api_lets_them() -> None:
    """A resource name has 244 characters before the slash ("requests." must fit as well) and 63 after it."""
    resource = ".".join(["d" * 61, *["d" * 60] * 3]) + "/" + "R" * 63
    assert len(resource) == 244 + 1 + 63
    builder = pod("p" * 253, "n" * 63).app("c" * 63, raw={"resources": {"limits": {resource: "1"}}})
    view = cluster(GPU_CLASS, policies=[policy(resource)])
    stored = rewritten(builder, view)
    verdict = again(stored, view)
    assert isinstance(verdict, Rewrite)
    assert verdict.patch == []
    assert verdict.asked.containers == {"c" * 63: {resource: "1"}}


# --- names that a LimitRange looks for

ZERO = {GPU: "0"}
LIMITED = cluster(GPU_CLASS, NIC_CLASS, limits={GPU: Limit(container_max=most(4)), "example.com/fpga": Limit()})


def resources_of(raw: Raw) -> dict[str, Raw | None]:
    return {
        each["name"]: each.get("resources")
        for each in (*raw["spec"].get("initContainers", []), *raw["spec"]["containers"])
    }


def test_a_name_with_a_limit_range_stays_as_zero_on_every_container_and_no_other_name_does() -> None:
    bare = {"image": "registry.example/app"}
    builder = (
        pod()
        .init(gpu=1, nic=1)
        .app(gpu=2, cpu=1)
        .app(cpu=1)
        .app()
        .app(raw={"resources": {}})
        .app(raw={"resources": None})
        .app(raw={**bare, "resources": {"requests": None, "limits": {NIC: "1"}}})
    )
    stored = rewritten(builder, LIMITED)

    def use(*names: str) -> list[Raw]:
        return [{"name": "drabridge", "request": f"container-{name}"} for name in names]

    assert resources_of(stored) == {
        "c0": {"requests": ZERO, "limits": ZERO, "claims": use("1-request-1", "6-request-1")},
        "c1": {"requests": {"cpu": "1", **ZERO}, "limits": ZERO, "claims": use("1-request-1")},
        "c2": {"requests": {"cpu": "1", **ZERO}, "limits": ZERO},
        "c3": {"requests": ZERO, "limits": ZERO},
        "c4": {"requests": ZERO, "limits": ZERO},
        "c5": {"requests": ZERO, "limits": ZERO},
        "c6": {"requests": ZERO, "limits": ZERO, "claims": use("6-request-1")},
    }
    assert patched(stored, again(stored, LIMITED)) == stored


def test_a_container_with_two_names_to_keep_has_both() -> None:
    view = cluster(GPU_CLASS, NIC_CLASS, limits={GPU: Limit(), NIC: Limit()})
    stored = rewritten(pod().app(gpu=1).app(nic=1).app(raw={"resources": None}), view)
    both = {GPU: "0", NIC: "0"}
    assert [each and each["requests"] for each in resources_of(stored).values()] == [both, both, both]
    assert [each and each["limits"] for each in resources_of(stored).values()] == [both, both, both]
    assert patched(stored, again(stored, view)) == stored


def test_names_of_pods_that_ask_for_nothing_served_are_not_touched() -> None:
    assert decide(pod().app(cpu=1).view(), LIMITED, ClaimNames(CLAIM)) == LeaveAlone(())
    stored = rewritten(pod().app(nic=1).app(cpu=1), LIMITED)
    assert resources_of(stored)["c1"] == {"requests": {"cpu": "1"}}


def test_what_a_limit_range_puts_back_between_two_calls_becomes_zero_again() -> None:
    """Such a LimitRange came, or a webhook that does not like zeros took them away."""
    first = rewritten(pod().app(gpu=2).app(cpu=1), LIMITED)
    changed = copy.deepcopy(first)
    container(changed)["resources"]["limits"] = {GPU: "4"}
    container(changed)["resources"]["requests"] = {GPU: "4"}
    stored = patched(changed, again(changed, LIMITED))
    assert stored == first


def test_a_limit_range_that_comes_between_two_calls_is_heeded() -> None:
    first = rewritten(pod().app(gpu=2).app(cpu=1))
    stored = patched(first, again(first, LIMITED))
    assert resources_of(stored) == {
        "c0": {"requests": ZERO, "limits": ZERO, "claims": [{"name": "drabridge", "request": "container-0-request-0"}]},
        "c1": {"requests": {"cpu": "1", **ZERO}, "limits": ZERO},
    }
    assert patched(stored, again(stored, LIMITED)) == stored


def test_of_several_names_only_those_above_their_max_are_left() -> None:
    view = cluster(GPU_CLASS, NIC_CLASS, limits={GPU: Limit(container_max=most(1)), NIC: Limit(container_max=most(1))})
    builder = pod().app(gpu=2, nic=1)
    verdict = served(builder, view)
    assert [(each.reason, each.resource) for each in verdict.left] == [(Reason.LIMIT_EXCEEDED, GPU)]
    [resources] = resources_of(patched(builder.raw(), verdict)).values()
    assert resources
    assert resources["limits"] == {GPU: "2", NIC: "0"}


# --- later calls for the same Pod

TWO = pod().init(gpu=1).app(gpu=2, nic=1)


def container(raw: Raw, index: int = 0) -> Raw:
    found: Raw = raw["spec"]["containers"][index]
    return found


def put_back(raw: Raw) -> None:
    for each in (container(raw), raw["spec"]["initContainers"][0]):
        each["resources"]["limits"] = {GPU: "7"}
        each["resources"]["requests"] = {GPU: "5"}


def put_back_in_place_of_maps(raw: Raw) -> None:
    container(raw)["resources"]["limits"] = {NIC: "0", GPU: "2"}


def lose_metadata(raw: Raw) -> None:
    raw["metadata"]["labels"] = {"other": "label"}


def gain_bystander(raw: Raw) -> None:
    raw["spec"]["containers"].append({"name": "mesh", "resources": {"requests": {"cpu": "1"}}})


def gain_foreign_claim(raw: Raw) -> None:
    raw["spec"]["resourceClaims"].insert(0, {"name": "new", "resourceClaimName": "foreign"})
    container(raw)["resources"]["claims"].append({"name": "new"})


def lose_claims(raw: Raw) -> None:
    """Lose what a webhook drops that does not know the field."""
    del container(raw)["resources"]["claims"]


def lose_resources(raw: Raw) -> None:
    del container(raw)["resources"]


def another_uid(raw: Raw) -> None:
    raw["metadata"]["uid"] = "of-the-second-call"


IN_BETWEEN: dict[str, Callable[[Raw], None]] = {
    "another UID": another_uid,
    "names put back with other values": put_back,
    "names put back, one of them as zero": put_back_in_place_of_maps,
    "the label lost": lose_metadata,
    "a container that asks for nothing": gain_bystander,
    "a claim of somebody else": gain_foreign_claim,
    "a container's claims lost": lose_claims,
    "a container's resources lost": lose_resources,
}


@pytest.mark.parametrize("edit", IN_BETWEEN.values(), ids=IN_BETWEEN)
def test_a_later_call_ends_in_the_same_state(edit: Callable[[Raw], None]) -> None:
    first = rewritten(TWO)
    changed = copy.deepcopy(first)
    edit(changed)
    verdict = again(changed)
    assert isinstance(verdict, Rewrite)
    assert (verdict.claim_name, verdict.asked, verdict.left) == (CLAIM, served(TWO).asked, ())
    stored = patched(changed, verdict)
    assert stored["metadata"]["annotations"] == first["metadata"]["annotations"]
    assert stored["metadata"]["labels"]["drabridge.io/delivery"] == "Rewrite"
    assert {"name": "drabridge", "resourceClaimName": CLAIM} in stored["spec"]["resourceClaims"]
    for each in (*stored["spec"]["initContainers"], *stored["spec"]["containers"]):
        resources = each.get("resources", {})
        assert not {GPU, NIC} & {*resources.get("requests", {}), *resources.get("limits", {})}
    ours = [each for each in container(stored)["resources"]["claims"] if each["name"] == "drabridge"]
    assert ours == container(first)["resources"]["claims"]
    assert patched(stored, again(stored)) == stored


def test_a_second_call_has_nothing_to_do() -> None:
    verdict = again(rewritten(TWO))
    assert isinstance(verdict, Rewrite)
    assert verdict.patch == []


def test_requests_are_numbered_anew_when_cpu_is_defaulted_in_between() -> None:
    raw = rewritten(pod().app(gpu=1))
    container(raw)["resources"]["requests"] = {"cpu": "100m"}
    stored = patched(raw, again(raw))
    want = [{"name": "drabridge", "request": "container-0-request-1"}]
    assert container(stored)["resources"]["claims"] == want
    text = json.loads(stored["metadata"]["annotations"][annotation.ANNOTATION])
    assert [request["name"] for request in text["requests"]] == ["container-0-request-1"]
    assert patched(stored, again(stored)) == stored


def test_a_container_that_another_webhook_adds_is_served_as_well() -> None:
    raw = rewritten(pod().app(gpu=1))
    raw["spec"]["containers"].append({"name": "added", "resources": {"limits": {GPU: "2", NIC: "1"}}})
    verdict = again(raw)
    assert isinstance(verdict, Rewrite)
    assert verdict.claim_name == CLAIM
    assert verdict.asked.containers == {"c0": {GPU: "1"}, "added": {GPU: "2", NIC: "1"}}
    assert verdict.asked.devices == 4
    assert container(patched(raw, verdict), 1)["resources"] == {
        "limits": {},
        "claims": [
            {"name": "drabridge", "request": "container-1-request-0"},
            {"name": "drabridge", "request": "container-1-request-1"},
        ],
    }


def test_an_init_container_added_in_front_moves_the_numbers_of_all_others() -> None:
    raw = rewritten(pod().app(gpu=2))
    raw["spec"]["initContainers"] = [{"name": "added", "resources": {"limits": {GPU: "1"}}}]
    stored = patched(raw, again(raw))
    request = [{"name": "drabridge", "request": "container-1-request-0"}]
    assert container(stored)["resources"]["claims"] == request
    assert stored["spec"]["initContainers"][0]["resources"]["claims"] == request


def test_a_name_that_comes_in_later_and_is_not_served_is_left_and_the_rest_goes_on() -> None:
    raw = rewritten(pod().app(gpu=1))
    raw["spec"]["containers"].append({"name": "added", "resources": {"limits": {"example.com/fpga": "1"}}})
    verdict = again(raw)
    assert isinstance(verdict, Rewrite)
    assert verdict.patch == []
    assert [(each.reason, each.resource) for each in verdict.left] == [(Reason.NOT_SERVED, "example.com/fpga")]


# sentence -> resources of a container that is added to a rewritten Pod, reason
SPOILED: dict[str, tuple[Raw, Reason]] = {
    "a quantity that cannot be read": ({"limits": {GPU: "x"}}, Reason.INVALID_POD),
    "a quantity below zero": ({"limits": {GPU: "-1"}}, Reason.INVALID_POD),
    "a quantity that is not whole": ({"limits": {GPU: "0.5"}}, Reason.NOT_WHOLE),
    "a limit that differs": ({"limits": {GPU: "2"}, "requests": {GPU: "1"}}, Reason.LIMIT_DIFFERS),
    "more devices than are left": ({"limits": {GPU: "32"}}, Reason.TOO_MANY_DEVICES),
}


@pytest.mark.parametrize(("resources", "reason"), SPOILED.values(), ids=SPOILED)
def test_what_is_added_later_and_cannot_be_served_leaves_the_pod_as_it_was_rewritten(
    resources: Raw, reason: Reason
) -> None:
    raw = rewritten(pod().app(gpu=1))
    raw["spec"]["containers"].append({"name": "added", "resources": resources})
    verdict = again(raw)
    assert isinstance(verdict, LeaveAlone)
    assert [each.reason for each in verdict.objections] == [reason]


CHANGED: dict[str, ClusterView] = {
    "the class is gone": cluster(),
    "a device plugin came": cluster(GPU_CLASS, plugins={GPU: "n"}),
    "native delivery settled": cluster(GPU_CLASS, gate=Gate.ON, settled=[GPU]),
    "a ResourceQuota came": cluster(GPU_CLASS, caps={GPU: Cap("team", "it has scopes")}),
    "the policy turned Off": gpu_policy(delivery=Delivery.OFF),
}


@pytest.mark.parametrize("view", CHANGED.values(), ids=CHANGED)
def test_what_one_call_took_over_a_later_one_keeps_whatever_the_cluster_says(view: ClusterView) -> None:
    """The names are off the Pod, so that nobody else would serve them; whether a claim is made is decided then."""
    verdict = again(rewritten(pod().app(gpu=1)), view)
    assert isinstance(verdict, Rewrite)
    assert verdict.patch == []


# --- copies of rewritten Pods

TAKEN = frozenset({CLAIM})


def test_a_copy_gets_a_claim_of_its_own_in_the_shape_of_the_original() -> None:
    original = rewritten(TWO.claim("mine", "my-claim"))
    copied = copy.deepcopy(original)
    copied["metadata"]["name"] = "copy"
    copied["metadata"]["annotations"]["drabridge.io/allocation"] = '[{"device":"gpu-0"}]'
    verdict = again(copied, taken=TAKEN)
    assert isinstance(verdict, Rewrite)
    assert verdict.claim_name == OTHER_CLAIM
    assert verdict.patch == [
        {"op": "add", "path": "/spec/resourceClaims/1/resourceClaimName", "value": OTHER_CLAIM},
        {"op": "remove", "path": "/metadata/annotations/drabridge.io~1allocation"},
    ]
    stored = patched(copied, verdict)
    assert stored["spec"]["containers"] == original["spec"]["containers"]
    assert stored["spec"]["resourceClaims"] == [
        {"name": "mine", "resourceClaimName": "my-claim"},
        {"name": "drabridge", "resourceClaimName": OTHER_CLAIM},
    ]
    later = again(stored, taken=TAKEN)
    assert isinstance(later, Rewrite)
    assert (later.claim_name, later.patch) == (OTHER_CLAIM, [])


def test_a_copy_without_label_gets_it_back() -> None:
    copied = rewritten(TWO)
    del copied["metadata"]["labels"]
    stored = patched(copied, again(copied, taken=TAKEN))
    assert stored["metadata"]["labels"] == {"drabridge.io/delivery": "Rewrite"}


def test_a_copy_that_is_left_only_one_container_asks_for_its_devices_only() -> None:
    copied = rewritten(pod().app(gpu=1).app(gpu=4))
    del copied["spec"]["containers"][1]
    verdict = again(copied, taken=TAKEN)
    assert isinstance(verdict, Rewrite)
    assert (verdict.asked.containers, verdict.asked.devices) == ({"c0": {GPU: "1"}}, 1)


def lose_annotation(raw: Raw) -> None:
    del raw["metadata"]["annotations"]


def spoil_annotation(raw: Raw) -> None:
    raw["metadata"]["annotations"][annotation.ANNOTATION] = "{}"


def rename_container(raw: Raw) -> None:
    container(raw)["name"] = "renamed"


def on_the_same_node(raw: Raw) -> None:
    raw["spec"]["nodeName"] = "node-a"


def for_another_scheduler(raw: Raw) -> None:
    raw["spec"]["schedulerName"] = "volcano"


def with_more_devices(raw: Raw) -> None:
    raw["spec"]["containers"].append({"name": "added", "resources": {"limits": {GPU: "32"}}})


# sentence -> what the copy lost or gained, reason, words of the detail
LEFT_COPIES: dict[str, tuple[Callable[[Raw], None], Reason, str]] = {
    "without its annotation": (lose_annotation, Reason.COPY_UNREADABLE, f"Pod default/web uses claim {CLAIM}"),
    "with an annotation that was edited": (
        spoil_annotation,
        Reason.COPY_UNREADABLE,
        f"Pod default/web uses claim {CLAIM}",
    ),
    "with a container renamed, whose devices would be lost": (
        rename_container,
        Reason.COPY_UNREADABLE,
        f"Pod default/web: spec.containers[0] (renamed) uses claim {CLAIM}",
    ),
    "that names the node of its original": (on_the_same_node, Reason.NODE_NAME_SET, "spec.nodeName is node-a"),
    "for a scheduler that is not listed": (for_another_scheduler, Reason.OTHER_SCHEDULER, "is 'volcano'"),
    "that asks for more than a claim holds": (with_more_devices, Reason.TOO_MANY_DEVICES, "asks for 35 devices"),
}


@pytest.mark.parametrize(("edit", "reason", "detail"), LEFT_COPIES.values(), ids=LEFT_COPIES)
def test_a_copy_that_is_left_alone_shares_nothing_with_its_original(
    edit: Callable[[Raw], None], reason: Reason, detail: str
) -> None:
    copied = rewritten(TWO.claim("mine", "my-claim"))
    edit(copied)
    verdict = again(copied, taken=TAKEN)
    assert isinstance(verdict, LeaveAlone)
    [objection] = verdict.objections
    assert objection.reason is reason
    assert detail in objection.detail
    assert verdict.patch == [
        {"op": "add", "path": "/spec/resourceClaims/1/resourceClaimName", "value": OTHER_CLAIM},
    ]
    stored = jsonpatch.apply_patch(copied, verdict.patch)
    later = decide(PodView.of(stored), GPU_AND_NIC, ClaimNames("drabridge-9999999999999999", TAKEN))
    assert isinstance(later, LeaveAlone)
    assert later.patch == []


@pytest.mark.parametrize(("edit", "reason", "detail"), LEFT_COPIES.values(), ids=LEFT_COPIES)
def test_a_pod_that_is_left_alone_keeps_a_claim_name_that_nobody_else_has(
    edit: Callable[[Raw], None], reason: Reason, detail: str
) -> None:
    """As a Pod restored from its YAML, whose original is gone."""
    copied = rewritten(TWO)
    edit(copied)
    verdict = again(copied)
    assert isinstance(verdict, LeaveAlone)
    assert (verdict.objections[0].reason, verdict.patch) == (reason, [])


def test_who_opts_out_may_share_a_claim_on_purpose() -> None:
    copied = rewritten(TWO)
    copied["metadata"]["annotations"] |= OPT_OUT
    verdict = again(copied, taken=TAKEN)
    assert isinstance(verdict, LeaveAlone)
    assert ([each.reason for each in verdict.objections], verdict.patch) == ([Reason.OPTED_OUT], [])


ORIGINS: dict[str, Callable[[Raw], None]] = {
    "lost": lose_annotation,
    "spoilt": spoil_annotation,
    "and label, too": lambda raw: raw.update(metadata={"name": "copy", "namespace": "default"}),
}


@pytest.mark.parametrize("edit", ORIGINS.values(), ids=ORIGINS)
def test_a_copy_whose_annotation_is_lost_takes_its_shape_from_the_claim_of_its_original(
    edit: Callable[[Raw], None],
) -> None:
    original = rewritten(TWO)
    copied = copy.deepcopy(original)
    edit(copied)
    origin = original["metadata"]["annotations"][annotation.ANNOTATION]
    verdict = decide(PodView.of(copied), GPU_AND_NIC, ClaimNames(OTHER_CLAIM, TAKEN, origin))
    assert isinstance(verdict, Rewrite)
    assert (verdict.claim_name, verdict.asked) == (OTHER_CLAIM, served(TWO).asked)
    stored = patched(copied, verdict)
    assert stored["spec"]["containers"] == original["spec"]["containers"]
    assert stored["metadata"]["annotations"] == {annotation.ANNOTATION: origin}
    assert stored["metadata"]["labels"] == {"drabridge.io/delivery": "Rewrite"}


def test_what_a_pod_says_itself_counts_more_than_the_claim_of_its_original() -> None:
    copied = rewritten(pod().app(gpu=1))
    origin = served(pod().app(gpu=8)).asked.encode()
    verdict = decide(PodView.of(copied), GPU_AND_NIC, ClaimNames(OTHER_CLAIM, TAKEN, origin))
    assert isinstance(verdict, Rewrite)
    assert verdict.asked == served(pod().app(gpu=1)).asked


BAD_ORIGINS = {"that cannot be read": "[]", "of other containers": served(pod().app("other", gpu=1)).asked.encode()}


@pytest.mark.parametrize("origin", BAD_ORIGINS.values(), ids=BAD_ORIGINS)
def test_an_original_that_does_not_explain_its_copy_leaves_the_copy_alone(origin: str) -> None:
    copied = rewritten(TWO)
    lose_annotation(copied)
    verdict = decide(PodView.of(copied), GPU_AND_NIC, ClaimNames(OTHER_CLAIM, TAKEN, origin))
    assert isinstance(verdict, LeaveAlone)
    assert [each.reason for each in verdict.objections] == [Reason.COPY_UNREADABLE]
    [operation] = verdict.patch
    assert operation["value"] == OTHER_CLAIM


# --- forgeries


def test_a_forged_annotation_takes_nothing_off_a_pod_and_adds_nothing_to_it() -> None:
    forged = served(pod().app(gpu=30)).asked.encode()
    builder = pod().app(gpu=1).annotations({annotation.ANNOTATION: forged})
    assert served(builder).asked == served(pod().app(gpu=1)).asked


def test_a_forged_annotation_cannot_name_containers_that_are_not_there() -> None:
    raw = rewritten(pod().app(gpu=1))
    value = json.loads(raw["metadata"]["annotations"][annotation.ANNOTATION])
    value["containers"]["ghost"] = {GPU: "9"}
    raw["metadata"]["annotations"][annotation.ANNOTATION] = json.dumps(value)
    verdict = again(raw)
    assert isinstance(verdict, Rewrite)
    assert verdict.asked == served(pod().app(gpu=1)).asked


CLAIM_NAMES = {
    CLAIM: True,
    "drabridge-0000000000000000": True,
    "drabridge-0123456789abcde": False,
    "drabridge-0123456789abcdef0": False,
    "drabridge-0123456789ABCDEF": False,
    "drabridge-01234567-9abcdef": False,
    "drabridge-0123456789abcdef\n": False,
    "my-drabridge-0123456789abcdef": False,
    "drabridge": False,
}


@pytest.mark.parametrize(("name", "ours"), CLAIM_NAMES.items())
def test_a_claim_is_ours_by_the_pattern_of_its_name(name: str, ours: bool) -> None:
    assert bool(CLAIM_NAME.fullmatch(name)) is ours
    entry = our_claim(pod().claim("a", "other").claim("b", template=CLAIM).claim("c", name).view())
    assert (entry is not None and entry.name == "c") is ours


def test_the_first_claim_of_ours_counts() -> None:
    entry = our_claim(pod().claim("a", CLAIM).claim("b", OTHER_CLAIM).view())
    assert entry
    assert entry.name == "a"
