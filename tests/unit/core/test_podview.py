from __future__ import annotations

from typing import Any

import pytest

from builders import GPU, IMPLICIT_GPU, NIC, PodBuilder, pod
from drabridge.core.errors import InvalidInput
from drabridge.core.podview import ContainerClaim, ContainerKind, OwnerView, PodClaim, PodView


def test_a_view_holds_what_decisions_need() -> None:
    view = (
        pod("web", "shop")
        .meta(uid="u1", resourceVersion="7", creationTimestamp="2026-11-30T10:00:00Z", deletionTimestamp="x")
        .labels(app="web")
        .annotations({"note": "hello", "kubectl.kubernetes.io/last-applied-configuration": "{...}"})
        .owned_by("ReplicaSet", "web-1", "u0")
        .claim("mine", claim="my-claim")
        .claim("other", template="a-template")
        .with_spec(nodeName="n1", schedulerName="other-scheduler")
        .with_status(
            phase="Running",
            conditions=[
                {"type": "Ready", "status": "True"},
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
                {"type": "drabridge.io/DevicesUsable", "status": "False", "reason": "DriverMissing", "message": "why"},
                {"type": "drabridge.io/DevicesAllocated", "status": "True", "reason": "DevicesAllocated"},
            ],
            initContainerStatuses=[
                {"name": "i", "allocatedResourcesStatus": [{"name": "claim:gpu", "resources": None}]}
            ],
            containerStatuses=[
                {
                    "name": "main",
                    "allocatedResourcesStatus": [
                        {
                            "name": "claim:gpu",
                            "resources": [
                                {"resourceID": "b", "health": "Unhealthy", "message": "too hot"},
                                {"resourceID": "c", "health": "Healthy"},
                                {"resourceID": "d", "health": "Unknown"},
                            ],
                        }
                    ],
                },
                {
                    "name": "other",
                    "allocatedResourcesStatus": [
                        {
                            "name": "claim:gpu",
                            "resources": [{"resourceID": "b", "health": "Unhealthy", "message": "too hot"}],
                        },
                        {"name": "claim:nic", "resources": [{"resourceID": "a", "health": "Unhealthy"}]},
                    ],
                },
            ],
            extendedResourceClaimStatus={"resourceClaimName": "web-extended-resources-x"},
        )
        .view()
    )
    assert (view.key, view.described) == ("shop/web", "Pod shop/web")
    assert (view.uid, view.resource_version, view.created, view.deleting) == ("u1", "7", "2026-11-30T10:00:00Z", True)
    assert view.labels == {"app": "web"}
    assert view.annotations == {"note": "hello"}
    assert view.owner == OwnerView("ReplicaSet", "web-1", "u0")
    assert view.resource_claims == (PodClaim("mine", "my-claim", None), PodClaim("other", None, "a-template"))
    assert (view.node_name, view.scheduler_name, view.phase) == ("n1", "other-scheduler", "Running")
    assert view.conditions == {
        "Ready": "True",
        "PodScheduled": "False",
        "drabridge.io/DevicesUsable": "False",
        "drabridge.io/DevicesAllocated": "True",
    }
    assert view.denied == {"drabridge.io/DevicesUsable": ("DriverMissing", "why")}
    assert view.unhealthy == ("a", "b (too hot)")
    assert view.extended_claim == "web-extended-resources-x"


def test_a_pod_that_says_nothing_has_the_defaults_of_the_api_server() -> None:
    nothing = PodView.of({"metadata": {"labels": None, "creationTimestamp": None}, "spec": {"containers": None}})
    assert nothing == PodView.of({})
    assert nothing.scheduler_name == "default-scheduler"
    assert not nothing.deleting
    assert not nothing.mirror
    assert nothing.owner is None
    assert nothing.extended_claim is None
    assert len(nothing.containers) == len(nothing.resource_claims) == len(nothing.extended()) == 0


def test_a_pod_has_annotations_even_if_the_view_leaves_them_out() -> None:
    view = pod().annotations({"kubectl.kubernetes.io/last-applied-configuration": "{...}"}).view()
    assert view.has_annotations
    assert not view.annotations
    assert not pod().view().has_annotations


def test_a_pod_without_a_name_is_described_by_its_prefix() -> None:
    view = pod().generate_name("web-7f-").app(gpu=1).view()
    assert (view.name, view.described) == ("", "Pod default/web-7f-*")


def test_an_owner_that_is_no_controller_does_not_count() -> None:
    assert pod().meta(ownerReferences=[{"kind": "Job", "name": "j", "uid": "u"}]).view().owner is None


def test_a_mirror_pod_is_known_by_its_annotation() -> None:
    assert pod().annotations({"kubernetes.io/config.mirror": "hash"}).view().mirror


def test_containers_are_counted_init_containers_first() -> None:
    view = pod().app("a").init("b").sidecar("c").app("d").view()
    assert [(c.index, c.path, c.name, c.kind) for c in view.containers] == [
        (0, "/spec/initContainers/0", "b", ContainerKind.INIT),
        (1, "/spec/initContainers/1", "c", ContainerKind.SIDECAR),
        (2, "/spec/containers/0", "a", ContainerKind.APP),
        (3, "/spec/containers/1", "d", ContainerKind.APP),
    ]


def test_the_restart_policy_of_an_app_container_makes_no_sidecar_of_it() -> None:
    view = pod().app(raw={"restartPolicy": "Always"}).init(raw={"restartPolicy": "OnFailure"}).view()
    assert [c.kind for c in view.containers] == [ContainerKind.INIT, ContainerKind.APP]


RESOURCES: dict[str, tuple[dict[str, Any], bool, tuple[ContainerClaim, ...]]] = {
    "no resources": ({}, False, ()),
    "resources that are null": ({"resources": None}, False, ()),
    "empty resources": ({"resources": {}}, True, ()),
    "claims that are null": ({"resources": {"claims": None}}, True, ()),
    "no claims": ({"resources": {"claims": []}}, True, ()),
    "claims": (
        {"resources": {"claims": [{"name": "a"}, {"name": "b", "request": "r"}]}},
        True,
        (ContainerClaim("a", None), ContainerClaim("b", "r")),
    ),
}


@pytest.mark.parametrize(("raw", "resources", "claims"), RESOURCES.values(), ids=RESOURCES)
def test_a_view_says_what_a_patch_can_add_to(
    raw: dict[str, Any], resources: bool, claims: tuple[ContainerClaim, ...]
) -> None:
    [container] = pod().app(raw=raw).view().containers
    assert (container.has_resources, container.claims) == (resources, claims)


def resources(requests: Any = None, limits: Any = None) -> PodBuilder:
    return pod().app(raw={"resources": {"requests": requests, "limits": limits}})


# sentence -> Pod, (container, resource, request, limit, where)
ASKS: dict[str, tuple[PodBuilder, list[tuple[str, str, str, str | None, str]]]] = {
    "containers in order, names in order, nothing but extended ones": (
        pod().app(nic=1, gpu=2, cpu=1).init(implicit_gpu=3),
        [
            ("c0", IMPLICIT_GPU, "3", "3", "spec.initContainers[0].resources.requests"),
            ("c1", GPU, "2", "2", "spec.containers[0].resources.requests"),
            ("c1", NIC, "1", "1", "spec.containers[0].resources.requests"),
        ],
    ),
    "a request comes from the limit": (
        resources(limits={GPU: "2"}),
        [("c0", GPU, "2", "2", "spec.containers[0].resources.limits")],
    ),
    "a request without limit": (
        resources({IMPLICIT_GPU: "2"}),
        [("c0", IMPLICIT_GPU, "2", None, "spec.containers[0].resources.requests")],
    ),
    "request and limit that differ are both shown": (
        resources({GPU: "1"}, {GPU: "2"}),
        [("c0", GPU, "1", "2", "spec.containers[0].resources.requests")],
    ),
    "null is zero, as the API server reads it": (resources({GPU: None}), []),
    "zero is not asked": (resources({GPU: "0", NIC: "0m"}, {GPU: "0", NIC: "0m"}), []),
    "a request of zero is not asked, whatever the limit": (resources({IMPLICIT_GPU: "0"}, {IMPLICIT_GPU: "2"}), []),
    "numbers are quantities": (
        resources({GPU: 2, NIC: 0.5}),
        [
            ("c0", GPU, "2", None, "spec.containers[0].resources.requests"),
            ("c0", NIC, "0.5", None, "spec.containers[0].resources.requests"),
        ],
    ),
    "a malformed quantity is kept as it is, to be reported": (
        resources({GPU: "two"}),
        [("c0", GPU, "two", None, "spec.containers[0].resources.requests")],
    ),
    "an empty quantity is malformed, not zero, and no reason to look at the limit": (
        resources({GPU: ""}, {GPU: "1"}),
        [("c0", GPU, "", "1", "spec.containers[0].resources.requests")],
    ),
    "ephemeral containers never ask": (
        pod().with_spec(ephemeralContainers=[{"name": "e", "resources": {"requests": {GPU: "1"}}}]),
        [],
    ),
}


@pytest.mark.parametrize(("builder", "want"), ASKS.values(), ids=ASKS)
def test_what_containers_ask_of_extended_resources(
    builder: PodBuilder, want: list[tuple[str, str, str, str | None, str]]
) -> None:
    assert [
        (ask.container.name, ask.resource, ask.request, ask.limit, ask.path) for ask in builder.view().extended()
    ] == [
        (container, resource, request, limit, f"{where}['{resource}']")
        for container, resource, request, limit, where in want
    ]


INVALID: dict[str, tuple[dict[str, Any], str, str]] = {
    "metadata that is a text": ({"metadata": "x"}, "metadata", "'x', not an object"),
    "a spec that is a list": ({"spec": []}, "spec", "[], not an object"),
    "a name that is a number": (pod().meta(name=7).raw(), "metadata.name", "7, not a string"),
    "labels that are a list": (pod().meta(labels=["a"]).raw(), "metadata.labels", "not an object"),
    "a label that is a number": (pod().meta(labels={"a": 1}).raw(), "metadata.labels['a']", "1, not a string"),
    "containers that are an object": (pod().with_spec(containers={}).raw(), "spec.containers", "{}, not a list"),
    "a container that is a text": (
        {"spec": {"initContainers": [{"name": "a"}, "b"]}},
        "spec.initContainers[1]",
        "'b', not an object",
    ),
    "a quantity that is a list": (
        resources({GPU: [2]}).raw(),
        "spec.containers[0].resources.requests['example.com/gpu']",
        "[2], not a quantity",
    ),
    "a quantity that is true": (
        resources(limits={GPU: True}).raw(),
        "spec.containers[0].resources.limits['example.com/gpu']",
        "True, not a quantity",
    ),
    "claims of a container that are a text": (
        pod().app(raw={"resources": {"claims": "all"}}).raw(),
        "spec.containers[0].resources.claims",
        "'all', not a list",
    ),
    "a long value is cut": (pod().meta(name=["n" * 5000]).raw(), "metadata.name", "..."),
}


@pytest.mark.parametrize(("raw", "path", "problem"), INVALID.values(), ids=INVALID)
def test_a_pod_of_the_wrong_shape_is_named(raw: dict[str, Any], path: str, problem: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        PodView.of(raw)
    assert caught.value.object.startswith("Pod")
    assert caught.value.path == path
    assert problem in caught.value.problem
    assert len(str(caught.value)) < 1000
    assert "\n" not in str(caught.value)


def test_the_error_says_whose_field_it_is() -> None:
    with pytest.raises(InvalidInput, match=r"^Pod default/web-\*: spec\.nodeName: is 1, not a string; send a Pod"):
        pod().generate_name("web-").with_spec(nodeName=1).view()
