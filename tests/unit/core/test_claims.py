from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from builders import (
    CLAIM,
    GPU,
    GPU_AND_NIC,
    GPU_CLASS,
    NIC,
    NIC_CLASS,
    OTHER_CLAIM,
    PodBuilder,
    cluster,
    device_class,
    pod,
    policy,
    rewritten,
)
from drabridge.core.asked import ANNOTATION, Asked, AskedRequest, decode
from drabridge.core.caps import Cap, Limit, Max
from drabridge.core.claims import (
    ALLOCATION_MAX_BYTES,
    CONDITION,
    SPECIAL_CLAIM,
    BindBack,
    ClaimView,
    CreateClaim,
    DeviceResult,
    NextStep,
    Settled,
    Waiting,
    allocation_of,
    next_step,
)
from drabridge.core.claimspec import RequestMapping
from drabridge.core.cluster import ClusterView, Gate
from drabridge.core.podview import PodView
from drabridge.core.policy import Delivery
from drabridge.core.quantity import Quantity
from drabridge.core.reasons import CURES, Reason, with_cure
from drabridge.core.rewrite import ALLOCATION, ANNOTATIONS_MAX

Raw = dict[str, Any]
UID = "pod-uid"
TWO = pod("web", "team").meta(uid=UID).init(gpu=1).app(gpu=2, nic=1)


def stored(builder: PodBuilder = TWO, *edits: Callable[[Raw], None]) -> PodView:
    """Give the Pod after admission and what happened to it since."""
    raw = rewritten(builder)
    for edit in edits:
        edit(raw)
    return PodView.of(raw)


def on_node(raw: Raw) -> None:
    raw["spec"]["nodeName"] = "node-a"


def phase(name: str) -> Callable[[Raw], None]:
    def edit(raw: Raw) -> None:
        raw["status"] = {"phase": name}

    return edit


def deleting(raw: Raw) -> None:
    raw["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"


def annotated(**edits: Any) -> Callable[[Raw], None]:
    """Edit top-level fields of our annotation; None as the only value removes it."""

    def edit(raw: Raw) -> None:
        value = json.loads(raw["metadata"]["annotations"][ANNOTATION])
        raw["metadata"]["annotations"][ANNOTATION] = json.dumps({**value, **edits})

    return edit


def without_annotation(raw: Raw) -> None:
    del raw["metadata"]["annotations"]


def bound_back(raw: Raw) -> None:
    raw["metadata"]["annotations"][ALLOCATION] = "[]"


def raw_claim(*results: tuple[str, str], owner_uid: str = UID, **metadata: Any) -> Raw:
    """Make a ResourceClaim of a rewritten Pod; `results` are (request, device), none at all means not allocated."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": owner_uid, "controller": True}
    status: Raw = {}
    if results:
        devices = [{"request": request, "driver": "d.io", "pool": "p", "device": name} for request, name in results]
        status = {"allocation": {"devices": {"results": devices}}}
    return {
        "metadata": {"namespace": "team", "name": CLAIM, "uid": "claim-uid", "ownerReferences": [owner]} | metadata,
        "spec": {"devices": {"requests": []}},
        "status": status,
    }


def claim(*results: tuple[str, str], **fields: Any) -> ClaimView:
    return ClaimView.of(raw_claim(*results, **fields))


GPU_REQUEST, NIC_REQUEST = "container-1-request-0", "container-1-request-1"
ALLOCATED = claim((GPU_REQUEST, "gpu-0"), (GPU_REQUEST, "gpu-1"), (NIC_REQUEST, "nic-0"))


# --- the claim


BODY: Raw = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {
        "name": CLAIM,
        "namespace": "team",
        "labels": {"app.kubernetes.io/managed-by": "drabridge"},
        "annotations": {ANNOTATION: stored().annotations[ANNOTATION]},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": UID, "controller": True}],
    },
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": GPU_REQUEST,
                    "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2},
                },
                {
                    "name": NIC_REQUEST,
                    "exactly": {"deviceClassName": "nic", "allocationMode": "ExactCount", "count": 1},
                },
            ]
        }
    },
}


def test_the_claim_in_full() -> None:
    """No blockOwnerDeletion, no adminAccess, no mark of kube-scheduler's own claims: nothing beyond this."""
    assert next_step(stored(), None, GPU_AND_NIC) == CreateClaim(BODY, devices=3)


def test_the_claim_of_a_stored_pod_reads_as_ours() -> None:
    view = ClaimView.of({**BODY, "metadata": {**BODY["metadata"], "uid": "u"}})
    assert view == ClaimView(
        namespace="team",
        name=CLAIM,
        uid="u",
        owner_name="web",
        owner_uid=UID,
        special=False,
        ours=True,
        classes={GPU_REQUEST: "gpu", NIC_REQUEST: "nic"},
        results=None,
    )
    assert view.key == f"team/{CLAIM}"


def test_classes_are_those_of_the_moment() -> None:
    """They do not stand in the annotation: a user's word would count then."""
    newer = device_class("newer", extended=GPU, created="2026-09-09T00:00:00Z")
    step = next_step(stored(), None, cluster(GPU_CLASS, NIC_CLASS, newer))
    assert isinstance(step, CreateClaim)
    [gpu, _] = step.body["spec"]["devices"]["requests"]
    assert gpu["exactly"]["deviceClassName"] == "newer"


# --- every state of a Pod and its claim

STATES: dict[str, tuple[PodView, ClaimView | None, NextStep | type[CreateClaim]]] = {
    "a Pod without a claim of ours": (pod().claim("mine", "my-claim").app(gpu=1).view(), None, Settled()),
    "a Pod that was just stored": (stored(), None, CreateClaim),
    "a Pod that waits for the scheduler": (stored(TWO, phase("Pending")), None, CreateClaim),
    "its claim is made": (stored(), claim(), Settled()),
    "its claim is allocated, but the Pod is not bound: the scheduler may think again": (
        stored(),
        ALLOCATED,
        Settled(),
    ),
    "the Pod is bound, but the claim shows no allocation yet": (stored(TWO, on_node), claim(), Settled()),
    "the result is on the Pod already": (stored(TWO, on_node, bound_back), ALLOCATED, Settled()),
    "a bound Pod that runs, and whose claim is gone": (stored(TWO, on_node, phase("Running")), None, Settled()),
    "a Pod that came with its node's name and has no claim": (
        stored(TWO, on_node, phase("Pending")),
        None,
        Waiting(Reason.NODE_NAME_SET, "Pod team/web: spec.nodeName is node-a, and it has no claim"),
    ),
    "a finished Pod": (stored(TWO, phase("Succeeded")), None, Settled()),
    "a failed Pod": (stored(TWO, phase("Failed")), None, Settled()),
    "a finished Pod with a claim": (stored(TWO, on_node, phase("Succeeded")), ALLOCATED, Settled()),
    "a Pod that is being deleted": (stored(TWO, deleting), None, Settled()),
    "a bound Pod that is being deleted": (stored(TWO, on_node, deleting), ALLOCATED, Settled()),
    "a claim of another Pod": (
        stored(),
        claim(owner_uid="other"),
        Waiting(Reason.CLAIM_FOREIGN, f"ResourceClaim team/{CLAIM} is not owned by Pod team/web"),
    ),
    "a claim that nobody owns": (
        stored(),
        claim(ownerReferences=[]),
        Waiting(Reason.CLAIM_FOREIGN, f"ResourceClaim team/{CLAIM} is not owned by Pod team/web"),
    ),
    "an allocated claim of another Pod is not bound back": (
        stored(TWO, on_node),
        replace(ALLOCATED, owner_uid="other"),
        Waiting(Reason.CLAIM_FOREIGN, f"ResourceClaim team/{CLAIM} is not owned by Pod team/web"),
    ),
    "a foreign claim does not trouble a finished Pod": (
        stored(TWO, phase("Failed")),
        claim(owner_uid="other"),
        Settled(),
    ),
    "the annotation is lost": (
        stored(TWO, without_annotation),
        None,
        Waiting(Reason.COPY_UNREADABLE, f"Pod team/web: annotation {ANNOTATION} is missing"),
    ),
    "the annotation is lost when the claim is there already": (stored(TWO, without_annotation), claim(), Settled()),
}


@pytest.mark.parametrize(("view", "existing", "want"), STATES.values(), ids=STATES)
def test_the_next_step_follows_from_what_the_api_server_shows(
    view: PodView, existing: ClaimView | None, want: NextStep | type[CreateClaim]
) -> None:
    step = next_step(view, existing, GPU_AND_NIC)
    if isinstance(want, type):
        assert step == CreateClaim(BODY, devices=3)
    else:
        assert step == want


# --- what was allowed at admission and is not any more


ONE = Max(Quantity.parse("1"), "caps")


def gpu_policy(labels: dict[str, str] | None = None, *classes: Raw, **spec: Any) -> ClusterView:
    return cluster(*(classes or (GPU_CLASS, NIC_CLASS)), policies=[policy(**spec)], labels=labels)


REFUSED: dict[str, tuple[ClusterView, Reason, str]] = {
    "nobody serves the name": (
        cluster(NIC_CLASS),
        Reason.NOT_SERVED,
        "no DeviceClass stands behind example.com/gpu",
    ),
    "the second of two names is not served": (
        cluster(GPU_CLASS),
        Reason.NOT_SERVED,
        "no DeviceClass stands behind example.com/nic",
    ),
    "the policy's class is missing": (
        gpu_policy(None, NIC_CLASS, device_class="gone"),
        Reason.DEVICE_CLASS_MISSING,
        "DeviceClass gone for example.com/gpu does not exist",
    ),
    "the policy turned Off": (
        gpu_policy(delivery=Delivery.OFF),
        Reason.POLICY_OFF,
        "ExtendedResourcePolicy gpu: spec.delivery is Off",
    ),
    "the namespace is not selected": (
        gpu_policy({"team": "web"}, namespaces={"team": "ml"}),
        Reason.NOT_SELECTED,
        "ExtendedResourcePolicy gpu: spec.namespaceSelector does not select the namespace",
    ),
    "the Pod is not selected": (
        gpu_policy(pods={"tier": "batch"}),
        Reason.NOT_SELECTED,
        "ExtendedResourcePolicy gpu: spec.podSelector does not select the Pod",
    ),
    "a LimitRange came that refuses the Pod": (
        cluster(GPU_CLASS, NIC_CLASS, limits={NIC: Limit("min", "caps")}),
        Reason.LIMIT_RANGE,
        "LimitRange team/caps has min for example.com/nic",
    ),
    "a LimitRange came with less for a container": (
        cluster(GPU_CLASS, NIC_CLASS, limits={GPU: Limit(container_max=ONE)}),
        Reason.LIMIT_EXCEEDED,
        "Pod team/web: spec.containers[0] asks for 2 example.com/gpu, more than the max 1 of LimitRange team/caps",
    ),
    "a LimitRange came with less for a Pod": (
        cluster(GPU_CLASS, NIC_CLASS, limits={GPU: Limit(pod_max=ONE)}),
        Reason.LIMIT_EXCEEDED,
        "Pod team/web asks for 2 example.com/gpu in all, more than the max 1 of LimitRange team/caps",
    ),
    "a ResourceQuota came whose cap cannot be kept": (
        cluster(GPU_CLASS, NIC_CLASS, caps={GPU: Cap("caps", "it has scopes")}),
        Reason.RESOURCE_QUOTA,
        "ResourceQuota team/caps names requests.example.com/gpu, and it has scopes",
    ),
}


@pytest.mark.parametrize(("view", "reason", "detail"), REFUSED.values(), ids=REFUSED)
def test_the_claim_waits_until_it_is_allowed_again(view: ClusterView, reason: Reason, detail: str) -> None:
    waiting = Waiting(reason, detail)
    assert next_step(stored(), None, view) == waiting
    assert next_step(stored(), None, GPU_AND_NIC) == CreateClaim(BODY, devices=3)
    assert with_cure(waiting.detail, waiting.reason) == f"{detail}. Cure: {CURES[reason]}."


@pytest.mark.parametrize("view", [view for view, _, _ in REFUSED.values()], ids=REFUSED)
def test_a_claim_that_is_there_is_used_whatever_is_allowed_now(view: ClusterView) -> None:
    assert isinstance(next_step(stored(TWO, on_node), ALLOCATED, view), BindBack)


STILL_ALLOWED: dict[str, ClusterView] = {
    "a device plugin came": cluster(GPU_CLASS, NIC_CLASS, plugins={GPU: "n"}),
    "native delivery would serve it now": cluster(GPU_CLASS, NIC_CLASS, gate=Gate.ON, settled=[GPU, NIC]),
    "the scheduler is not listed any more": cluster(GPU_CLASS, NIC_CLASS, schedulers=[]),
    "a LimitRange came that leaves room": cluster(
        GPU_CLASS,
        NIC_CLASS,
        limits={GPU: Limit(container_max=Max(Quantity.parse("2"), "caps"), pod_max=Max(Quantity.parse("2"), "caps"))},
    ),
    "a ResourceQuota came whose cap is in force": cluster(GPU_CLASS, NIC_CLASS, caps={GPU: Cap("caps")}),
}


@pytest.mark.parametrize("view", STILL_ALLOWED.values(), ids=STILL_ALLOWED)
def test_what_matters_at_admission_only_does_not_keep_a_rewritten_pod_waiting(view: ClusterView) -> None:
    """Its names are off the Pod: nothing but a claim can serve it now."""
    assert next_step(stored(), None, view) == CreateClaim(BODY, devices=3)


# --- an annotation that was edited


def request(name: str, count: int = 1, resource: str = GPU) -> Raw:
    return {"name": name, "resourceName": resource, "count": count}


def point_to_the_whole_claim(raw: Raw) -> None:
    raw["spec"]["containers"][0]["resources"]["claims"] = [{"name": "drabridge"}]


ONLY_ONE = f"Pod team/web: only one of annotation {ANNOTATION} and resources.claims has request"
REQUESTS = [request(GPU_REQUEST, 2), request(NIC_REQUEST, 1, NIC)]
EDITED: dict[str, tuple[Callable[[Raw], None], str]] = {
    "a request that no container uses": (annotated(requests=[*REQUESTS, request("extra", 8)]), f"{ONLY_ONE} extra"),
    "a request that a container uses is missing": (
        annotated(requests=REQUESTS[:1], requestMappings=[]),
        f"{ONLY_ONE} {NIC_REQUEST}",
    ),
    "a container that uses the whole claim": (point_to_the_whole_claim, f"{ONLY_ONE} None"),
    "no requests": (annotated(requests=[]), f"metadata.annotations['{ANNOTATION}'].requests: is empty"),
    "too many devices": (
        annotated(requests=[request(GPU_REQUEST, 32), request(NIC_REQUEST, 1, NIC)]),
        f"metadata.annotations['{ANNOTATION}'].requests: asks for 33 devices, more than 32",
    ),
    "more devices than the containers asked for": (
        annotated(requests=[request(GPU_REQUEST, 3), request(NIC_REQUEST, 1, NIC)]),
        f"requests 3 {GPU} in all, but its containers ask for 2",
    ),
    "fewer devices than the containers asked for": (
        annotated(requests=[request(GPU_REQUEST, 1), request(NIC_REQUEST, 1, NIC)]),
        f"requests 1 {GPU} in all, but its containers ask for 2",
    ),
    "a name that is not extended": (
        annotated(requests=[request(GPU_REQUEST, 2, "cpu")]),
        "is not the name of an extended resource",
    ),
}


@pytest.mark.parametrize(("edit", "detail"), EDITED.values(), ids=EDITED)
def test_an_annotation_that_does_not_fit_the_pod_makes_no_claim(edit: Callable[[Raw], None], detail: str) -> None:
    step = next_step(stored(TWO, edit), None, GPU_AND_NIC)
    assert isinstance(step, Waiting)
    assert step.reason is Reason.ANNOTATION_INVALID
    assert step.detail.startswith("Pod team/web: ")
    assert detail in step.detail


def test_an_annotation_that_names_another_resource_is_held_to_the_rules_of_that() -> None:
    """Or one could have devices of a name that a policy keeps for others."""
    view = cluster(GPU_CLASS, NIC_CLASS, policies=[policy(NIC, "nic", name="nic", namespaces={"team": "ml"})])
    builder = pod("web", "team").app(gpu=1)
    edit = annotated(requests=[request("container-0-request-0", 1, NIC)], requestMappings=[])
    step = next_step(stored(builder, edit), None, view)
    assert isinstance(step, Waiting)
    assert step.reason is Reason.NOT_SELECTED


CAPS: dict[str, tuple[ClusterView, Reason]] = {
    "a LimitRange's max for a container": (
        cluster(GPU_CLASS, limits={GPU: Limit(container_max=Max(Quantity.parse("4"), "caps"))}),
        Reason.LIMIT_EXCEEDED,
    ),
    "a LimitRange's max for a Pod": (
        cluster(GPU_CLASS, limits={GPU: Limit(pod_max=Max(Quantity.parse("7"), "caps"))}),
        Reason.LIMIT_EXCEEDED,
    ),
    "a quota that is not in force yet": (
        cluster(GPU_CLASS, caps={GPU: Cap("q", "no companion")}),
        Reason.RESOURCE_QUOTA,
    ),
}


@pytest.mark.parametrize(("view", "reason"), CAPS.values(), ids=CAPS)
def test_caps_are_held_against_an_annotation_that_no_webhook_wrote(view: ClusterView, reason: Reason) -> None:
    """A Pod that comes with claim, annotation and label of its author's own making was not capped at admission."""
    name = "container-0-request-0"
    forged = annotated(containers={"c0": {GPU: "8"}}, requests=[request(name, 8)])
    view_of_pod = stored(pod("web", "team").meta(uid=UID).app(gpu=1), forged)
    assert isinstance(next_step(view_of_pod, None, cluster(GPU_CLASS)), CreateClaim)
    step = next_step(view_of_pod, None, view)
    assert isinstance(step, Waiting)
    assert step.reason is reason


def test_the_pods_name_for_its_claim_counts() -> None:
    def another(raw: Raw) -> None:
        raw["spec"]["resourceClaims"][0]["resourceClaimName"] = OTHER_CLAIM

    step = next_step(stored(TWO, another), None, GPU_AND_NIC)
    assert isinstance(step, CreateClaim)
    assert step.body["metadata"]["name"] == OTHER_CLAIM


# --- the allocation bound back


def row(container: str, resource: str, request: str, device: str) -> Raw:
    placed = {"container": container, "resource": resource} if container else {}
    return {**placed, "request": request, "driver": "d.io", "pool": "p", "device": device}


ROWS = [
    row("c1", GPU, GPU_REQUEST, "gpu-0"),
    row("c1", GPU, GPU_REQUEST, "gpu-1"),
    row("c0", GPU, GPU_REQUEST, "gpu-0"),
    row("c0", GPU, GPU_REQUEST, "gpu-1"),
    row("c1", NIC, NIC_REQUEST, "nic-0"),
]
PLAIN = [
    row("", "", GPU_REQUEST, "gpu-0"),
    row("", "", GPU_REQUEST, "gpu-1"),
    row("", "", NIC_REQUEST, "nic-0"),
]


def test_the_allocation_is_bound_back_by_container_as_upstream_orders_them() -> None:
    step = next_step(stored(TWO, on_node), ALLOCATED, GPU_AND_NIC)
    assert isinstance(step, BindBack)
    assert step.annotation is not None
    assert json.loads(step.annotation) == ROWS
    assert step.message == "3 devices on node-a: gpu-0, gpu-1, nic-0"


def test_one_device_is_not_called_devices() -> None:
    builder = pod("web", "team").meta(uid=UID).app(gpu=1)
    step = next_step(stored(builder, on_node), claim(("container-0-request-0", "gpu-7")), GPU_AND_NIC)
    assert isinstance(step, BindBack)
    assert step.message == "1 device on node-a: gpu-7"


def test_the_message_is_cut_at_what_a_condition_may_hold() -> None:
    devices = [(GPU_REQUEST, f"{i:063}") for i in range(32)]
    step = next_step(stored(TWO, on_node), claim(*devices), GPU_AND_NIC)
    assert isinstance(step, BindBack)
    assert len(step.message) == 1024
    assert step.annotation is not None
    assert len(json.loads(step.annotation)) == 64


@pytest.mark.parametrize("edit", [without_annotation, annotated(requests=[])], ids=["lost", "spoilt"])
def test_devices_are_shown_without_containers_if_the_annotation_is_gone(edit: Callable[[Raw], None]) -> None:
    step = next_step(stored(TWO, on_node, edit), ALLOCATED, GPU_AND_NIC)
    assert isinstance(step, BindBack)
    assert step.annotation is not None
    assert json.loads(step.annotation) == PLAIN


def test_mappings_that_fit_no_result_do_not_hide_the_devices() -> None:
    assert ALLOCATED.results
    asked = Asked({}, (AskedRequest("other", GPU, 1),), (RequestMapping("c0", GPU, "other"),))
    text = allocation_of(ALLOCATED.results, asked, ALLOCATION_MAX_BYTES)
    assert text is not None
    assert json.loads(text) == PLAIN


def test_a_list_that_is_too_long_for_an_annotation_shows_each_device_once() -> None:
    """64 containers that share 32 devices with names at their length limits."""
    builder = pod().app(gpu=32)
    for i in range(63):
        builder = builder.init(f"{i:063}", gpu=32)
    asked = decode(stored(builder))
    assert asked
    [request] = asked.requests
    results = tuple(DeviceResult(request.name, "d" * 63, "p" * 253, f"{i:063}") for i in range(32))
    text = allocation_of(results, asked, ALLOCATION_MAX_BYTES)
    assert text is not None
    assert len(text) <= ALLOCATION_MAX_BYTES
    assert [each["device"] for each in json.loads(text)] == [f"{i:063}" for i in range(32)]
    short = tuple(DeviceResult(request.name, "d", "p", f"{i}") for i in range(3))
    text = allocation_of(short, asked, ALLOCATION_MAX_BYTES)
    assert text is not None
    assert len(json.loads(text)) == 64 * 3


def full_but(room: int) -> Callable[[Raw], None]:
    """Fill the annotations up, but for so many bytes of a value of ours."""

    def edit(raw: Raw) -> None:
        annotations = raw["metadata"]["annotations"]
        used = sum(len(text.encode()) for pair in annotations.items() for text in pair)
        annotations["ä"] = "x" * (ANNOTATIONS_MAX - used - len(ALLOCATION) - room - 2)  # ä has two bytes

    return edit


LONG, SHORT = (json.dumps(rows, separators=(",", ":")) for rows in (ROWS, PLAIN))
ROOM: dict[str, tuple[int, str | None]] = {
    "room for all": (len(LONG), LONG),
    "a byte too little for the containers": (len(LONG) - 1, SHORT),
    "room for the devices alone": (len(SHORT), SHORT),
    "a byte too little for the devices": (len(SHORT) - 1, None),
    "no room at all": (-2000, None),
}


@pytest.mark.parametrize(("room", "want"), ROOM.values(), ids=ROOM)
def test_the_allocation_takes_no_more_than_other_annotations_leave(room: int, want: str | None) -> None:
    step = next_step(stored(TWO, on_node, full_but(room)), ALLOCATED, GPU_AND_NIC)
    assert step == BindBack(want, "3 devices on node-a: gpu-0, gpu-1, nic-0")


CONDITIONS: dict[str, tuple[str, type[NextStep]]] = {"True": ("True", Settled), "False": ("False", BindBack)}


@pytest.mark.parametrize(("status", "want"), CONDITIONS.values(), ids=CONDITIONS)
def test_a_pod_without_room_for_the_annotation_is_settled_by_its_condition(status: str, want: type[NextStep]) -> None:
    def condition(raw: Raw) -> None:
        raw["status"] = {"conditions": [{"type": CONDITION, "status": status}]}

    assert isinstance(next_step(stored(TWO, on_node, full_but(0), condition), ALLOCATED, GPU_AND_NIC), want)


# --- how a claim is read

POD_OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": UID, "controller": True}
OWNERS: dict[str, tuple[list[Raw], str]] = {
    "no owner": ([], ""),
    "the Pod as controller": ([POD_OWNER], UID),
    "the Pod, but not as controller": ([{**POD_OWNER, "controller": False}], ""),
    "a Pod that is mentioned only": ([{key: POD_OWNER[key] for key in ("apiVersion", "kind", "name", "uid")}], ""),
    "another kind": ([{**POD_OWNER, "kind": "Job", "apiVersion": "batch/v1"}], ""),
    "a Pod of another group": ([{**POD_OWNER, "apiVersion": "pods.example.com/v1"}], ""),
    "another owner before the controller": (
        [{"apiVersion": "v1", "kind": "ConfigMap", "name": "c", "uid": "x"}, POD_OWNER],
        UID,
    ),
}


@pytest.mark.parametrize(("owners", "uid"), OWNERS.values(), ids=OWNERS)
def test_a_claim_is_owned_by_the_pod_that_controls_it(owners: list[Raw], uid: str) -> None:
    assert claim(ownerReferences=owners).owner_uid == uid


MARKS: dict[str, tuple[Raw, bool, bool]] = {
    "neither": ({}, False, False),
    "ours by its label": ({"labels": {"app.kubernetes.io/managed-by": "drabridge"}}, True, False),
    "somebody else's label": ({"labels": {"app.kubernetes.io/managed-by": "helm"}}, False, False),
    "kube-scheduler's by its annotation": ({"annotations": {SPECIAL_CLAIM: "true"}}, False, True),
    "an annotation of another value": ({"annotations": {SPECIAL_CLAIM: "web"}}, False, False),
}


@pytest.mark.parametrize(("metadata", "ours", "special"), MARKS.values(), ids=MARKS)
def test_who_made_a_claim_is_known_by_its_marks(metadata: Raw, ours: bool, special: bool) -> None:
    view = claim(**metadata)
    assert (view.ours, view.special) == (ours, special)


def test_a_claim_that_an_author_wrote_by_hand_is_readable() -> None:
    raw = raw_claim()
    raw["spec"] = {"devices": {"requests": [{"name": "any", "firstAvailable": [{"name": "a"}]}]}}
    raw["status"] = {"allocation": {}}
    view = ClaimView.of(raw)
    assert (view.classes, view.results) == ({"any/a": ""}, ())
    del raw["status"]
    raw["spec"] = {}
    assert (ClaimView.of(raw).classes, ClaimView.of(raw).results) == ({}, None)
