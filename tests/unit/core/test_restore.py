"""Updates of rewritten Pods. The properties of tests/property/test_rewrite.py go through every shape of Pod."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jsonpatch
import pytest

from builders import (
    CLAIM,
    GPU,
    GPU_AND_NIC,
    GPU_CLASS,
    IMPLICIT_GPU,
    NIC_CLASS,
    OTHER_CLAIM,
    PodBuilder,
    cluster,
    pod,
    rewritten,
)
from drabridge.core.asked import ANNOTATION
from drabridge.core.caps import Limit
from drabridge.core.podview import PodView
from drabridge.core.restore import Restored, restore
from drabridge.core.rewrite import ALLOCATION, DELIVERY_LABEL

Raw = dict[str, Any]
Edit = Callable[[Raw], None]

WEB = pod().init(gpu=1).app(gpu=2, nic=1).app(cpu=1)
LIMITED = cluster(GPU_CLASS, NIC_CLASS, limits={GPU: Limit()})
CURE = "delete the Pod and create it again"


def updated(new: Raw, old: Raw) -> tuple[Restored, Raw]:
    restored = restore(PodView.of(new), PodView.of(old))
    return restored, jsonpatch.apply_patch(new, restored.patch)


def app(raw: Raw, index: int = 0) -> Raw:
    found: Raw = raw["spec"]["containers"][index]
    return found


# --- what is ours and is undone


def names_come_back(raw: Raw) -> None:
    app(raw)["resources"] |= {"requests": {GPU: "2", "cpu": "1"}, "limits": {GPU: "2"}}


def names_come_back_in_other_words(raw: Raw) -> None:
    app(raw)["resources"] |= {"requests": {GPU: "2e0"}, "limits": {GPU: "2000m"}}


def claims_go(raw: Raw) -> None:
    del app(raw)["resources"]["claims"]


def entry_goes(raw: Raw) -> None:
    del raw["spec"]["resourceClaims"]


def entry_points_elsewhere(raw: Raw) -> None:
    raw["spec"]["resourceClaims"][0]["resourceClaimName"] = OTHER_CLAIM


def resources_go(raw: Raw) -> None:
    del app(raw)["resources"]


def label_goes(raw: Raw) -> None:
    del raw["metadata"]["labels"]


def label_changes(raw: Raw) -> None:
    raw["metadata"]["labels"][DELIVERY_LABEL] = "Native"


def annotations_go(raw: Raw) -> None:
    raw["metadata"]["annotations"] = None


def annotations_change(raw: Raw) -> None:
    raw["metadata"]["annotations"] = {ANNOTATION: "{}", ALLOCATION: "{}"}


def bare(raw: Raw) -> None:
    """Replace it by the original, as the API server completes it."""
    original = WEB.raw()
    raw["metadata"], raw["spec"] = original["metadata"], original["spec"]


UNDONE: dict[str, Edit] = {
    "names that come back": names_come_back,
    "names that come back, written differently": names_come_back_in_other_words,
    "a container's claims that are gone": claims_go,
    "a container's resources that are gone": resources_go,
    "our entry that is gone": entry_goes,
    "our entry that points elsewhere": entry_points_elsewhere,
    "our label that is gone": label_goes,
    "our label that says something else": label_changes,
    "our annotations that are gone": annotations_go,
    "our annotations that say something else": annotations_change,
    "all of it at once, by a replace with the original": bare,
}


@pytest.mark.parametrize("view", [GPU_AND_NIC, LIMITED], ids=["", "with a LimitRange"])
@pytest.mark.parametrize("edit", UNDONE.values(), ids=UNDONE)
def test_what_an_update_does_to_our_part_is_undone(edit: Edit, view: Any) -> None:
    old = rewritten(WEB.annotations({ALLOCATION: "forged"}), view)
    old["metadata"]["annotations"][ALLOCATION] = "[]"
    new = copy.deepcopy(old)
    edit(new)
    assert new != old
    restored, result = updated(new, old)
    assert restored.refused == ()
    assert result["metadata"] == old["metadata"]
    assert result["spec"]["resourceClaims"] == old["spec"]["resourceClaims"]
    for now, before in zip(PodView.of(result).containers, PodView.of(old).containers, strict=True):
        left = {name for name in now.requests if name != "cpu"}
        assert left == {name for name in before.requests if name != "cpu"}
        assert (dict(now.limits), now.claims) == (dict(before.limits), before.claims)
    assert updated(result, old)[0] == Restored([])


def test_the_patch_of_a_repeated_apply_in_full() -> None:
    old = rewritten(pod().app(gpu=1))
    new = copy.deepcopy(old)
    app(new)["resources"] |= {"requests": {GPU: "1"}, "limits": {GPU: "1"}}
    assert restore(PodView.of(new), PodView.of(old)).patch == [
        {"op": "remove", "path": "/spec/containers/0/resources/requests/example.com~1gpu"},
        {"op": "remove", "path": "/spec/containers/0/resources/limits/example.com~1gpu"},
    ]


def test_zeros_for_a_limit_range_are_put_back_where_the_original_does_not_have_them() -> None:
    old = rewritten(WEB, LIMITED)
    new = copy.deepcopy(old)
    bare(new)
    _, result = updated(new, old)
    assert [each["resources"].get("limits") for each in result["spec"]["containers"]] == [{GPU: "0"}, {GPU: "0"}]
    assert result["spec"] == old["spec"]


# --- order, which the API server compares, too


def test_our_parts_come_back_where_they_were() -> None:
    old = rewritten(WEB.claim("mine", "my-claim"))
    old["spec"]["resourceClaims"].append({"name": "later", "resourceClaimName": "theirs"})
    app(old)["resources"]["claims"].append({"name": "later"})
    new = copy.deepcopy(old)
    del new["spec"]["resourceClaims"][1]
    app(new)["resources"]["claims"] = [{"name": "later"}]
    _, result = updated(new, old)
    assert result["spec"] == old["spec"]


def test_if_others_changed_ours_come_last() -> None:
    old = rewritten(WEB)
    new = copy.deepcopy(old)
    new["spec"]["resourceClaims"] = [{"name": "added", "resourceClaimName": "theirs"}]
    app(new)["resources"]["claims"] = [{"name": "added"}]
    _, result = updated(new, old)
    assert result["spec"]["resourceClaims"] == [
        {"name": "added", "resourceClaimName": "theirs"},
        *old["spec"]["resourceClaims"],
    ]
    assert app(result)["resources"]["claims"] == [{"name": "added"}, *app(old)["resources"]["claims"]]


def test_containers_are_told_apart_by_name() -> None:
    old = rewritten(WEB)
    new = copy.deepcopy(old)
    names_come_back(new)
    new["spec"]["containers"].reverse()
    _, result = updated(new, old)
    assert [each["name"] for each in result["spec"]["containers"]] == ["c2", "c1"]
    assert app(result, 1)["resources"]["limits"] == {}
    assert app(result, 0) == app(old, 1)


# --- what is not ours


def image(raw: Raw) -> None:
    app(raw)["image"] = "registry.example/app:2"


def own_label(raw: Raw) -> None:
    raw["metadata"]["labels"]["app"] = "web"


def own_annotation(raw: Raw) -> None:
    raw["metadata"]["annotations"]["a/b"] = "größe 🚀"


def first_allocation(raw: Raw) -> None:
    raw["metadata"]["annotations"][ALLOCATION] = "[]"


def own_claim(raw: Raw) -> None:
    app(raw, 1)["resources"]["claims"] = [{"name": "drabridge"}]


def memory(raw: Raw) -> None:
    app(raw)["resources"]["limits"] = {"memory": "1Gi", "example.com/fpga": "1"}


def another_container(raw: Raw) -> None:
    raw["spec"]["containers"].append({"name": "added", "resources": {"limits": {GPU: "1"}}})


def nothing(_: Raw) -> None: ...


LEFT: dict[str, Edit] = {
    "nothing at all": nothing,
    "an image": image,
    "a label": own_label,
    "an annotation": own_annotation,
    "the allocation that was not there before": first_allocation,
    "resources of other names": memory,
    "our claim on a container that did not have it, which the API server refuses": own_claim,
    "a container that comes in, which the API server refuses": another_container,
}


@pytest.mark.parametrize("edit", LEFT.values(), ids=LEFT)
def test_what_a_user_changes_besides_is_left(edit: Edit) -> None:
    old = rewritten(WEB)
    new = copy.deepcopy(old)
    edit(new)
    assert restore(PodView.of(new), PodView.of(old)) == Restored([])


def test_a_pod_that_is_not_ours_is_left() -> None:
    old, new = WEB.claim("mine", "my-claim"), WEB
    assert restore(new.view(), old.view()) == Restored([])


def test_a_pod_that_becomes_like_ours_is_left() -> None:
    assert restore(PodView.of(rewritten(WEB)), WEB.view()) == Restored([])


# --- names that come back with something else


def quantity(requests: Raw, limits: Raw, index: int = 0) -> Edit:
    def edit(raw: Raw) -> None:
        made = app(raw, index)["resources"]
        made["requests"] = {**made.get("requests", {}), **requests}
        made["limits"] = {**made.get("limits", {}), **limits}

    return edit


C1, C2 = "Pod default/web: spec.containers[0] was created", "Pod default/web: spec.containers[1] was created"
REFUSED: dict[str, tuple[Edit, str]] = {
    "more than before": (quantity({GPU: "3"}, {GPU: "3"}), f"{C1} with 2 {GPU} and cannot change to 3; {CURE}"),
    "a limit alone": (quantity({GPU: "2"}, {GPU: "4"}), f"{C1} with 2 {GPU} and cannot change to 4; {CURE}"),
    "none any more": (quantity({GPU: "0"}, {GPU: "0"}), f"{C1} with 2 {GPU} and cannot change to 0; {CURE}"),
    "no quantity": (quantity({GPU: "x"}, {GPU: "x"}), f"{C1} with 2 {GPU} and cannot change to x; {CURE}"),
    "some for a container that had none": (
        quantity({GPU: "1"}, {GPU: "1"}, 1),
        f"{C2} with no {GPU} and cannot change to 1; {CURE}",
    ),
}


@pytest.mark.parametrize(("edit", "problem"), REFUSED.values(), ids=REFUSED)
def test_a_changed_quantity_is_left_for_the_api_server_to_refuse_and_explained(edit: Edit, problem: str) -> None:
    old = rewritten(WEB)
    new = copy.deepcopy(old)
    edit(new)
    entry_goes(new)
    assert restore(PodView.of(new), PodView.of(old)) == Restored([], (problem,))


def test_every_container_whose_quantity_changed_is_named() -> None:
    old = rewritten(pod().app(gpu=1).app(gpu=1), LIMITED)
    new = copy.deepcopy(old)
    for index in (0, 1):
        quantity({GPU: "3"}, {GPU: "3"}, index)(new)
    restored = restore(PodView.of(new), PodView.of(old))
    assert [each.partition(" was ")[0] for each in restored.refused] == [
        "Pod default/web: spec.containers[0]",
        "Pod default/web: spec.containers[1]",
    ]


def implicit(requests: Raw, limits: Raw) -> PodBuilder:
    return pod().app(raw={"resources": {"requests": requests, "limits": limits}})


IMPLICIT: dict[str, tuple[Raw, Raw, bool]] = {
    "the same, its limit above the request": ({IMPLICIT_GPU: "1"}, {IMPLICIT_GPU: "3"}, True),
    "without a limit": ({IMPLICIT_GPU: "1"}, {}, True),
    "with another request": ({IMPLICIT_GPU: "2"}, {IMPLICIT_GPU: "3"}, False),
}


@pytest.mark.parametrize(("requests", "limits", "same"), IMPLICIT.values(), ids=IMPLICIT)
def test_an_implicit_name_is_compared_by_its_request(requests: Raw, limits: Raw, *, same: bool) -> None:
    old = rewritten(implicit({IMPLICIT_GPU: "1"}, {IMPLICIT_GPU: "3"}))
    new = copy.deepcopy(old)
    app(new)["resources"] |= {"requests": requests, "limits": limits}
    restored, result = updated(new, old)
    assert (restored.refused == ()) is same
    if same:
        assert result == old


# --- what can be done without the annotation


@pytest.mark.parametrize("text", [None, "{}"], ids=["lost", "spoilt"])
def test_claims_are_restored_without_the_annotation_and_names_are_left_in(text: str | None) -> None:
    old = rewritten(WEB)
    old["metadata"]["annotations"] = {ANNOTATION: text} if text else {}
    new = copy.deepcopy(old)
    names_come_back(new)
    claims_go(new)
    entry_goes(new)
    restored, result = updated(new, old)
    assert restored.refused == ()
    assert result["spec"]["resourceClaims"] == [{"name": "drabridge", "resourceClaimName": CLAIM}]
    assert app(result)["resources"]["claims"] == app(old)["resources"]["claims"]
    assert app(result)["resources"]["limits"] == {GPU: "2"}
    assert result["metadata"]["annotations"] == old["metadata"]["annotations"]
