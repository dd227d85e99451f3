from __future__ import annotations

import copy
from typing import Any

import pytest

from drabridge.api.policy import ExtendedResourcePolicy
from drabridge.core.errors import InvalidInput
from drabridge.core.policy import Coexistence, Delivery, MissedPods


def raw(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "drabridge.io/v1alpha1",
        "kind": "ExtendedResourcePolicy",
        "metadata": {
            "name": "gpu",
            "uid": "u-1",
            "generation": 3,
            "creationTimestamp": "2026-11-30T10:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {"resourceName": "example.com/gpu", "devices": [{"deviceClassName": "gpu.example.com"}], **spec},
    }


def test_a_policy_with_the_least_said_has_the_defaults_of_the_crd() -> None:
    view = ExtendedResourcePolicy.parse(raw()).view()
    assert (view.name, view.uid, view.generation, view.created) == ("gpu", "u-1", 3, "2026-11-30T10:00:00Z")
    assert (view.resource, view.device_class) == ("example.com/gpu", "gpu.example.com")
    assert (view.delivery, view.coexistence) == (Delivery.AUTO, Coexistence.DEVICE_PLUGIN)
    assert view.selects_namespace({})
    assert view.selects_namespace({"team": "a"})


def test_missed_pods_are_reported_unless_the_policy_says_otherwise() -> None:
    assert ExtendedResourcePolicy.parse(raw()).view().missed is MissedPods.REPORT
    assert ExtendedResourcePolicy.parse(raw(missedPods="Recreate")).view().missed is MissedPods.RECREATE


def test_selectors_select_as_elsewhere_in_kubernetes() -> None:
    selector = {
        "matchLabels": {"team": "a"},
        "matchExpressions": [
            {"key": "tier", "operator": "NotIn", "values": ["test"]},
            {"key": "example.com/opt-out", "operator": "DoesNotExist"},
        ],
    }
    view = ExtendedResourcePolicy.parse(raw(namespaceSelector=selector)).view()
    assert view.selects_namespace({"team": "a"})
    assert not view.selects_namespace({"team": "b"})
    assert not view.selects_namespace({"team": "a", "tier": "test"})
    assert not view.selects_namespace({"team": "a", "example.com/opt-out": ""})


def test_fields_of_a_newer_crd_are_ignored() -> None:
    policy = raw(aliases=["example.com/card"], rollout={"percent": 25})
    policy["spec"]["devices"][0]["selectors"] = [{"cel": {"expression": "true"}}]
    assert ExtendedResourcePolicy.parse(policy) == ExtendedResourcePolicy.parse(raw())


def test_a_status_of_another_version_does_not_stop_the_policy() -> None:
    policy = {**raw(), "status": {"delivery": "Teleport", "pods": "many"}}
    assert ExtendedResourcePolicy.parse(policy) == ExtendedResourcePolicy.parse(raw())


BROKEN: dict[str, tuple[tuple[str | int, ...], Any, str, str]] = {
    "a delivery of a newer version": (("spec", "delivery"), "Teleport", "spec.delivery", "'Bind', 'Native' or 'Off'"),
    "another fate of missed Pods": (("spec", "missedPods"), "Delete", "spec.missedPods", "'Report' or 'Recreate'"),
    "a number as resource name": (("spec", "resourceName"), 7, "spec.resourceName", "string"),
    "a resource name beyond the limit": (("spec", "resourceName"), "a/" + "b" * 400, "spec.resourceName", "308"),
    "a boolean that YAML made of Off": (
        ("spec", "delivery"),
        False,
        "spec.delivery",
        "'Auto', 'Rewrite', 'Bind', 'Native' or 'Off'",
    ),
    "no devices": (("spec", "devices"), [], "spec.devices", "at least 1"),
    "two entries in devices": (
        ("spec", "devices"),
        [{"deviceClassName": "a"}, {"deviceClassName": "b"}],
        "spec.devices",
        "at most 1",
    ),
    "an entry without a class": (("spec", "devices", 0), {}, "spec.devices[0].deviceClassName", "required"),
    "devices as a map": (("spec", "devices"), {"deviceClassName": "a"}, "spec.devices", "array"),
    "an operator that does not exist": (
        ("spec", "podSelector"),
        {"matchExpressions": [{"key": "a", "operator": "Like", "values": ["b"]}]},
        "spec.podSelector.matchExpressions[0].operator",
        "'In', 'NotIn'",
    ),
    "a label's value that is a number": (
        ("spec", "podSelector"),
        {"matchLabels": {"a": 1}},
        "spec.podSelector.matchLabels.a",
        "string",
    ),
    "In without values": (
        ("spec", "namespaceSelector"),
        {"matchExpressions": [{"key": "a", "operator": "In"}]},
        "spec.namespaceSelector.matchExpressions[0].values",
        "",
    ),
    "no spec": (("spec",), None, "spec", "object"),
    "metadata that is a list": (("metadata",), [], "metadata", "object"),
}


@pytest.mark.parametrize(("field", "value", "path", "problem"), BROKEN.values(), ids=BROKEN)
def test_a_broken_policy_is_refused_with_object_path_and_problem(
    field: tuple[str | int, ...], value: Any, path: str, problem: str
) -> None:
    policy = copy.deepcopy(raw())
    place: Any = policy
    for part in field[:-1]:
        place = place[part]
    place[field[-1]] = value
    with pytest.raises(InvalidInput) as refused:
        ExtendedResourcePolicy.parse(policy).view()
    assert refused.value.object == f"ExtendedResourcePolicy {'?' if field[0] == 'metadata' else 'gpu'}"
    assert refused.value.path == path
    assert problem in refused.value.problem
    assert refused.value.cure


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(InvalidInput, match=r"spec\.delivery.*spec\.coexistence"):
        ExtendedResourcePolicy.parse(raw(delivery="Teleport", coexistence="Both"))
