from __future__ import annotations

from typing import Any

import jsonpatch
import pytest

from builders import CLAIM, GPU, NIC, OTHER_CLAIM, PodBuilder, pod
from drabridge.core.podpatch import JSONPatch, remove_annotation, set_annotations, set_entry, set_labels, set_resources
from drabridge.core.podview import ContainerClaim

Raw = dict[str, Any]

# sentence -> resources of a container, wanted quantities, resources afterwards
QUANTITIES: dict[str, tuple[Any, dict[str, tuple[str | None, str | None]], Any]] = {
    "a name taken away": ({"requests": {GPU: "1", "cpu": "1"}}, {GPU: (None, None)}, {"requests": {"cpu": "1"}}),
    "a name taken away that is not there": (
        {"requests": {"cpu": "1"}},
        {GPU: (None, None)},
        {"requests": {"cpu": "1"}},
    ),
    "a name replaced": ({"limits": {GPU: "1"}}, {GPU: (None, "0")}, {"limits": {GPU: "0"}}),
    "names added to a map": (
        {"requests": {"cpu": "1"}},
        {GPU: ("0", None), NIC: ("2", None)},
        {"requests": {"cpu": "1", GPU: "0", NIC: "2"}},
    ),
    "names added to a map that is missing": (
        {},
        {GPU: ("0", None), NIC: ("2", None)},
        {"requests": {GPU: "0", NIC: "2"}},
    ),
    "names added to a map that is empty": ({"limits": {}}, {GPU: (None, "0")}, {"limits": {GPU: "0"}}),
    "names added to a map that is null": ({"limits": None}, {GPU: (None, "0")}, {"limits": {GPU: "0"}}),
    "names added where there are no resources": (
        None,
        {GPU: ("1", "2")},
        {"requests": {GPU: "1"}, "limits": {GPU: "2"}},
    ),
    "nothing added where there are no resources": (None, {GPU: (None, None)}, None),
    "one name replaced by another": (
        {"requests": {GPU: "1"}},
        {GPU: (None, None), NIC: ("1", None)},
        {"requests": {NIC: "1"}},
    ),
    "a name with every character that a pointer escapes": (
        {},
        {"a/b~1c~0": ("1", None)},
        {"requests": {"a/b~1c~0": "1"}},
    ),
}


@pytest.mark.parametrize(("before", "quantities", "after"), QUANTITIES.values(), ids=QUANTITIES)
def test_a_container_asks_for_what_it_is_told(before: Any, quantities: Any, after: Any) -> None:
    builder = pod().app(raw={"resources": before})
    result = applied(builder, set_resources(builder.view().containers[0], quantities, ()))
    assert result["spec"]["containers"][0]["resources"] == after
    stored = PodBuilder(result["metadata"], result["spec"], {})
    assert set_resources(stored.view().containers[0], quantities, ()) == []


def applied(builder: PodBuilder, patch: JSONPatch) -> Raw:
    result: Raw = jsonpatch.apply_patch(builder.raw(), patch)
    return result


CLAIMS = [ContainerClaim("mine", None), ContainerClaim("ours", "one")]
RAW_CLAIMS = [{"name": "mine"}, {"name": "ours", "request": "one"}]


@pytest.mark.parametrize(
    "before",
    [None, {}, {"claims": None}, {"claims": []}, {"claims": [{"name": "mine"}]}, {"claims": RAW_CLAIMS[::-1]}],
)
def test_a_container_uses_the_claims_it_is_told_in_that_order(before: Any) -> None:
    builder = pod().app(raw={"resources": before})
    result = applied(builder, set_resources(builder.view().containers[0], {}, CLAIMS))
    assert result["spec"]["containers"][0]["resources"]["claims"] == RAW_CLAIMS


def test_quantities_and_claims_come_together_where_there_are_no_resources() -> None:
    builder = pod().app()
    result = applied(builder, set_resources(builder.view().containers[0], {GPU: ("0", "0")}, CLAIMS))
    want = {"requests": {GPU: "0"}, "limits": {GPU: "0"}, "claims": RAW_CLAIMS}
    assert result["spec"]["containers"][0]["resources"] == want


def test_claims_that_are_there_need_no_patch() -> None:
    [container] = pod().app(raw={"resources": {"claims": RAW_CLAIMS}}).view().containers
    assert set_resources(container, {}, CLAIMS) == []


OURS = {"name": "ours", "resourceClaimName": CLAIM}
MINE = {"name": "mine", "resourceClaimName": "my-claim"}
OTHER = {"name": "other", "resourceClaimName": "other-claim"}
ENTRIES: dict[str, tuple[Any, int | None, list[Raw]]] = {
    "no entries": ([], None, [OURS]),
    "entries that are null": (None, None, [OURS]),
    "no entries, and a place": ([], 0, [OURS]),
    "others": ([MINE, OTHER], None, [MINE, OTHER, OURS]),
    "others, and the first place": ([MINE, OTHER], 0, [OURS, MINE, OTHER]),
    "others, and the last place": ([MINE, OTHER], 2, [MINE, OTHER, OURS]),
    "ours already": ([MINE, OURS], 0, [MINE, OURS]),
    "ours with another claim": ([MINE, {**OURS, "resourceClaimName": OTHER_CLAIM}], None, [MINE, OURS]),
}


@pytest.mark.parametrize(("before", "index", "after"), ENTRIES.values(), ids=ENTRIES)
def test_the_pod_points_to_our_claim(before: Any, index: int | None, after: list[Raw]) -> None:
    builder = pod().with_spec(resourceClaims=before)
    result = applied(builder, set_entry(builder.view(), "ours", CLAIM, index))
    assert result["spec"]["resourceClaims"] == after
    assert set_entry(PodBuilder(result["metadata"], result["spec"], {}).view(), "ours", CLAIM) == []


LAST_APPLIED = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
MAPS: dict[str, tuple[Raw | None, Raw]] = {
    "none": (None, {"a/b": "1"}),
    "an empty map": ({}, {"a/b": "1"}),
    "others": ({"c": "2"}, {"c": "2", "a/b": "1"}),
    "another value": ({"a/b": "2"}, {"a/b": "1"}),
    "the value": ({"a/b": "1"}, {"a/b": "1"}),
    "what the view leaves out": (LAST_APPLIED, {**LAST_APPLIED, "a/b": "1"}),
}


@pytest.mark.parametrize(("before", "after"), MAPS.values(), ids=MAPS)
def test_labels_and_annotations_are_set_beside_others(before: Raw | None, after: Raw) -> None:
    builder = pod().meta(labels=before, annotations=before)
    view = builder.view()
    patch = set_labels(view, {"a/b": "1"}) + set_annotations(view, {"a/b": "1"})
    metadata = applied(builder, patch)["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == (after, after)
    assert (patch == []) is (before == after)


def test_an_annotation_is_removed_if_it_is_there() -> None:
    builder = pod().annotations({"a/b": "1", "c": "2"})
    assert applied(builder, remove_annotation(builder.view(), "a/b"))["metadata"]["annotations"] == {"c": "2"}
    assert remove_annotation(builder.view(), "d") == []
    assert remove_annotation(pod().view(), "d") == []
