from __future__ import annotations

from typing import Any

import pytest

from builders import GPU, IMPLICIT_GPU, NIC, device_class
from drabridge.core.classmap import ClassMap, ClassMapping, ClassView, InvalidName, Source
from drabridge.core.errors import InvalidInput

OLD, NEW = "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"
IMPLICIT = "deviceclass.resource.kubernetes.io/"


def classmap(*raw: dict[str, Any], policies: dict[str, str] | None = None) -> ClassMap:
    return ClassMap.of([ClassView.of(entry) for entry in raw], policies or {})


def test_a_class_view_holds_what_mappings_need() -> None:
    raw = device_class("gpu", extended=GPU, created=NEW, annotation=NIC)
    assert ClassView.of(raw) == ClassView("gpu", "uid-of-gpu", NEW, GPU, NIC, deleting=False)
    raw["metadata"]["deletionTimestamp"] = NEW
    assert ClassView.of(raw).deleting


# sentence -> map, what GPU resolves to, what kube-scheduler itself would take
CASES: dict[str, tuple[ClassMap, ClassMapping | None, str | None]] = {
    "a name that nobody declares is not served": (classmap(device_class("gpu")), None, None),
    "the spec field declares a name": (
        classmap(device_class("gpu", extended=GPU)),
        ClassMapping(GPU, "gpu", Source.FIELD),
        "gpu",
    ),
    "the annotation declares a name that the scheduler does not know": (
        classmap(device_class("gpu", annotation=GPU)),
        ClassMapping(GPU, "gpu", Source.ANNOTATION),
        None,
    ),
    "field and annotation of one class are one declaration": (
        classmap(device_class("gpu", extended=GPU, annotation=GPU)),
        ClassMapping(GPU, "gpu", Source.FIELD),
        "gpu",
    ),
    "a field goes before a newer annotation": (
        classmap(device_class("a", extended=GPU, created=OLD), device_class("b", annotation=GPU, created=NEW)),
        ClassMapping(GPU, "a", Source.FIELD, ("b",)),
        "a",
    ),
    "the newest class wins": (
        classmap(device_class("a", extended=GPU, created=OLD), device_class("b", extended=GPU, created=NEW)),
        ClassMapping(GPU, "b", Source.FIELD, ("a",)),
        "b",
    ),
    "of equally old classes the smaller name wins": (
        classmap(device_class("b", extended=GPU), device_class("c", extended=GPU), device_class("a", extended=GPU)),
        ClassMapping(GPU, "a", Source.FIELD, ("b", "c")),
        "a",
    ),
    "the newest annotation wins": (
        classmap(device_class("a", annotation=GPU, created=OLD), device_class("b", annotation=GPU, created=NEW)),
        ClassMapping(GPU, "b", Source.ANNOTATION, ("a",)),
        None,
    ),
    "a policy goes before everything": (
        classmap(device_class("a", extended=GPU), device_class("b"), policies={GPU: "b"}),
        ClassMapping(GPU, "b", Source.POLICY, ("a",)),
        "a",
    ),
    "a policy may say what the class says": (
        classmap(device_class("a", extended=GPU), policies={GPU: "a"}),
        ClassMapping(GPU, "a", Source.POLICY),
        "a",
    ),
    "a policy whose class is missing is not replaced by a class": (
        classmap(device_class("a", extended=GPU), policies={GPU: "gone"}),
        ClassMapping(GPU, "gone", Source.POLICY, ("a",), present=False),
        "a",
    ),
}


@pytest.mark.parametrize(("made", "mapping", "native"), CASES.values(), ids=CASES)
def test_a_name_resolves(made: ClassMap, mapping: ClassMapping | None, native: str | None) -> None:
    assert made.resolve(GPU) == mapping
    assert made.native(GPU) == native
    assert (GPU in made.names()) == (mapping is not None and mapping.present)


def test_every_class_answers_to_its_implicit_name_beside_the_others() -> None:
    made = classmap(device_class("gpu", extended=GPU, annotation=NIC), device_class("loser", extended=GPU, created=OLD))
    assert made.resolve(IMPLICIT_GPU) == ClassMapping(IMPLICIT_GPU, "gpu", Source.IMPLICIT)
    assert made.native(IMPLICIT_GPU) == "gpu"
    assert made.names() == {GPU, NIC, IMPLICIT_GPU, f"{IMPLICIT}loser"}


def test_a_class_is_known_by_the_name_under_which_kube_scheduler_serves_it() -> None:
    made = classmap(device_class("gpu", extended=GPU), device_class("loser", extended=GPU, created=OLD))
    assert made.name_of("gpu") == GPU
    assert made.name_of("loser") == f"{IMPLICIT}loser"


def test_a_class_whose_name_is_too_long_has_no_implicit_name() -> None:
    made = classmap(device_class("a" * 64))
    assert made.names() == frozenset()
    assert made.native(IMPLICIT + "a" * 64) is None


def test_a_policy_may_lead_an_implicit_name_elsewhere() -> None:
    made = classmap(device_class("gpu"), device_class("mig"), policies={IMPLICIT_GPU: "mig"})
    assert made.resolve(IMPLICIT_GPU) == ClassMapping(IMPLICIT_GPU, "mig", Source.POLICY, ("gpu",))
    assert made.native(IMPLICIT_GPU) == "gpu"


def test_collisions_are_listed_whatever_the_policies_say() -> None:
    classes = [device_class("a", extended=GPU), device_class("b", annotation=GPU), device_class("c", extended=NIC)]
    assert classmap(*classes, policies={GPU: "c"}).collisions() == {GPU: ("a", "b")}


def test_an_annotation_that_is_no_extended_name_is_ignored_and_reported() -> None:
    made = classmap(device_class("b", annotation="gpu"), device_class("a", annotation=IMPLICIT_GPU, extended=GPU))
    assert made.names() == {GPU, f"{IMPLICIT}a", f"{IMPLICIT}b"}
    assert [(problem.device_class, problem.name) for problem in made.problems] == [("a", IMPLICIT_GPU), ("b", "gpu")]
    assert made.problems[1] == InvalidName("b", "gpu", "it has no domain before a slash, as example.com/gpu has")


def test_an_empty_annotation_declares_nothing() -> None:
    made = classmap(device_class("a", annotation=""))
    assert not made.problems
    assert made.names() == {f"{IMPLICIT}a"}


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "metadata that is a list": ({"metadata": []}, "metadata"),
    "a spec that is a text": ({"metadata": {"name": "a"}, "spec": "x"}, "spec"),
    "an extended name that is a number": (
        {"metadata": {"name": "a"}, "spec": {"extendedResourceName": 1}},
        "spec.extendedResourceName",
    ),
    "annotations that are a list": ({"metadata": {"name": "a", "annotations": [1]}}, "metadata.annotations"),
}


@pytest.mark.parametrize(("raw", "path"), INVALID.values(), ids=INVALID)
def test_a_class_of_the_wrong_shape_is_named(raw: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        ClassView.of(raw)
    assert caught.value.object.startswith("DeviceClass ")
    assert caught.value.path == path


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SET = [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:extendedResourceName": {}, "f:selectors": {}}}}]
LOST: dict[str, tuple[dict[str, Any], dict[str, Any], str | None]] = {
    "a class that never had a name": ({"managedFields": [{"fieldsV1": {"f:spec": {"f:selectors": {}}}}]}, {}, None),
    "a class without managed fields": ({"managedFields": None}, {}, None),
    "a name that is there": ({"managedFields": SET}, {"extendedResourceName": "example.com/gpu"}, None),
    "a dropped name that kubectl kept": (
        {"managedFields": SET, "annotations": {LAST_APPLIED: '{"spec":{"extendedResourceName":"example.com/gpu"}}'}},
        {},
        "example.com/gpu",
    ),
    "a dropped name that nobody kept": ({"managedFields": SET}, {}, ""),
    "a copy of the manifest that is rubbish": ({"managedFields": SET, "annotations": {LAST_APPLIED: "[1"}}, {}, ""),
    "a copy of the manifest that is a list": ({"managedFields": SET, "annotations": {LAST_APPLIED: "[]"}}, {}, ""),
}


@pytest.mark.parametrize(("metadata", "spec", "want"), LOST.values(), ids=LOST)
def test_a_name_that_the_api_server_dropped_is_noticed(
    metadata: dict[str, Any], spec: dict[str, Any], want: str | None
) -> None:
    raw = device_class("gpu")
    raw["metadata"] |= metadata
    raw["spec"] = spec
    assert ClassView.of(raw).lost_name == want
