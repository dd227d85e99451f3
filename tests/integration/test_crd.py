"""The CustomResourceDefinition as the API server understands it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from drabridge.api.policy import ExtendedResourcePolicy
from upstream.api import MERGE_PATCH, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import NewObject
    from upstream.api import Object
    from upstream.controlplane import ControlPlane

CRDS = str(Path(__file__).parents[2] / "crds")
POLICIES = "/apis/drabridge.io/v1alpha1/extendedresourcepolicies"
DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/extendedresourcepolicies.drabridge.io"
IMPLICIT = "deviceclass.resource.kubernetes.io/"


@pytest_asyncio.fixture(scope="module", params=["1.35", "1.37"])
async def plane(
    request: pytest.FixtureRequest, plane_135: ControlPlane, plane_137: ControlPlane
) -> AsyncIterator[ControlPlane]:
    plane = plane_135 if request.param == "1.35" else plane_137
    applied = await plane.kubectl("apply", "-k", CRDS)
    assert "Warning" not in applied.err

    async def served() -> int:
        status, _ = await plane.api.request("GET", POLICIES)
        return status

    await wait_for(served, "policies to be served", until=lambda status: status == 200)
    yield plane
    await plane.kubectl("delete", "-k", CRDS)


def policy(name: str, **spec: Any) -> Object:
    """A policy that is fine; a field of `spec` that is None is left out."""
    whole = {"resourceName": "example.com/gpu", "devices": [{"deviceClassName": "gpu.example.com"}], **spec}
    return {
        "apiVersion": "drabridge.io/v1alpha1",
        "kind": "ExtendedResourcePolicy",
        "metadata": {"name": name},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def requirement(**said: Any) -> Object:
    return {"matchExpressions": [said]}


async def test_the_definition_is_established_and_structural(plane: ControlPlane) -> None:
    crd = await plane.api.call("GET", DEFINITION)
    conditions = {condition["type"]: condition["status"] for condition in crd["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}


async def test_the_least_that_can_be_said_gets_its_defaults(
    plane: ControlPlane, unique: Callable[[], str], new_object: NewObject
) -> None:
    stored = await new_object(plane, POLICIES, policy(unique()))
    assert stored["spec"] == {
        "resourceName": "example.com/gpu",
        "devices": [{"deviceClassName": "gpu.example.com"}],
        "delivery": "Auto",
        "coexistence": "DevicePlugin",
        "missedPods": "Report",
        "strategy": "FirstFit",
        "podsWithClaims": "Leave",
    }
    assert ExtendedResourcePolicy.parse(stored).spec == ExtendedResourcePolicy.parse(policy("p")).spec


ACCEPTED: dict[str, Object] = {
    "every field": {
        "delivery": "Rewrite",
        "coexistence": "Rewrite",
        "missedPods": "Recreate",
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "a", "team": ""}},
        "podSelector": requirement(key="example.com/tier", operator="In", values=["a", "b_c.d-E", ""]),
    },
    "empty selectors": {"namespaceSelector": {}, "podSelector": {"matchLabels": {}, "matchExpressions": []}},
    "operators without values": {"podSelector": requirement(key="a", operator="Exists", values=[])},
    "an implicit name": {"resourceName": IMPLICIT + "gpu.example.com"},
    "the shortest name": {"resourceName": "a/b"},
    "capitals, dots, underlines and dashes after the slash": {"resourceName": "example.com/A.b_c-D"},
    "the longest name": {"resourceName": ".".join(["d" * 61] * 3 + ["e" * 58]) + "/" + "n" * 63},
    "the longest class": {"devices": [{"deviceClassName": ".".join(["c" * 61] * 4) + ".ccccc"}]},
    "as many labels as there may be": {"podSelector": {"matchLabels": {f"{'k' * 60}{i}": "v" * 63 for i in range(64)}}},
}


@pytest.mark.parametrize("spec", ACCEPTED.values(), ids=ACCEPTED)
async def test_a_good_policy_is_stored_and_means_the_same_to_the_operator(
    plane: ControlPlane, unique: Callable[[], str], new_object: NewObject, spec: Object
) -> None:
    sent = policy(unique(), **spec)
    stored = await new_object(plane, POLICIES, sent)
    assert {key: stored["spec"][key] for key in sent["spec"]} == sent["spec"]
    assert ExtendedResourcePolicy.parse(stored).view().resource == sent["spec"]["resourceName"]


REFUSED: dict[str, tuple[Object, str, str]] = {
    "no resource name": ({"resourceName": None}, "spec.resourceName", "Required value"),
    "a name without domain": ({"resourceName": "gpu"}, "spec.resourceName", "such as example.com/gpu"),
    "a name of Kubernetes": ({"resourceName": "kubernetes.io/gpu"}, "spec.resourceName", "use a domain of yours"),
    "a name of a quota": ({"resourceName": "requests.example.com/gpu"}, "spec.resourceName", "leave that prefix out"),
    "two slashes": ({"resourceName": "example.com/a/b"}, "spec.resourceName", "must be domain/name"),
    "nothing after the slash": ({"resourceName": "example.com/"}, "spec.resourceName", "must be domain/name"),
    "nothing before the slash": ({"resourceName": "/gpu"}, "spec.resourceName", "must be domain/name"),
    "a domain in capitals": ({"resourceName": "Example.com/gpu"}, "spec.resourceName", "must be domain/name"),
    "a name that ends with a dash": ({"resourceName": "example.com/gpu-"}, "spec.resourceName", "must be domain/name"),
    "a name that is not ASCII": ({"resourceName": "example.com/gpü"}, "spec.resourceName", "must be domain/name"),
    "64 characters after the slash": ({"resourceName": "a/" + "n" * 64}, "spec.resourceName", "must be domain/name"),
    "245 characters before the slash": (
        {"resourceName": ".".join(["d" * 61] * 3 + ["e" * 59]) + "/n"},
        "spec.resourceName",
        "at most 244 characters",
    ),
    "a name beyond all limits": ({"resourceName": "a/" + "n" * 400}, "spec.resourceName", "308"),
    "an implicit name without class": ({"resourceName": IMPLICIT}, "spec.resourceName", "must be domain/name"),
    "no devices": ({"devices": None}, "spec.devices", "Required value"),
    "an empty list of devices": ({"devices": []}, "spec.devices", "at least 1"),
    "two entries in devices": (
        {"devices": [{"deviceClassName": "a"}, {"deviceClassName": "b"}]},
        "spec.devices",
        "at most 1",
    ),
    "an entry without class": ({"devices": [{}]}, "spec.devices[0].deviceClassName", "Required value"),
    "a class that is no name": (
        {"devices": [{"deviceClassName": "GPU"}]},
        "spec.devices[0].deviceClassName",
        "such as gpu.example.com",
    ),
    "a delivery that does not exist": (
        {"delivery": "Magic"},
        "spec.delivery",
        'supported values: "Auto", "Rewrite", "Bind", "Native", "Off"',
    ),
    "an Off that YAML made a boolean": ({"delivery": False}, "spec.delivery", "must be of type string"),
    "a coexistence that does not exist": ({"coexistence": "Both"}, "spec.coexistence", "supported values"),
    "In without values": (
        {"podSelector": requirement(key="a", operator="In")},
        "spec.podSelector.matchExpressions[0]",
        "In and NotIn need at least one entry in values",
    ),
    "Exists with values": (
        {"namespaceSelector": requirement(key="a", operator="Exists", values=["b"])},
        "spec.namespaceSelector.matchExpressions[0]",
        "Exists and DoesNotExist must have none",
    ),
    "an operator that does not exist": (
        {"podSelector": requirement(key="a", operator="Like", values=["b"])},
        "spec.podSelector.matchExpressions[0].operator",
        "supported values",
    ),
    "a key that is no label": (
        {"podSelector": requirement(key="-a", operator="Exists")},
        "spec.podSelector.matchExpressions[0].key",
        "must be a label key",
    ),
    "a value that is no label's": (
        {"podSelector": requirement(key="a", operator="In", values=["b c"])},
        "spec.podSelector.matchExpressions[0].values[0]",
        "must be a label value",
    ),
    "labels that are none": (
        {"namespaceSelector": {"matchLabels": {"a b": "c"}}},
        "spec.namespaceSelector.matchLabels",
        "keys must be label keys",
    ),
    "a label's value that is none": (
        {"namespaceSelector": {"matchLabels": {"a": "c d"}}},
        "spec.namespaceSelector.matchLabels",
        "values label values",
    ),
}


@pytest.mark.parametrize(("spec", "path", "message"), REFUSED.values(), ids=REFUSED)
async def test_a_broken_policy_is_refused_with_path_and_cure(
    plane: ControlPlane, spec: Object, path: str, message: str
) -> None:
    status, answer = await plane.api.request("POST", POLICIES, policy("broken", **spec))
    assert status == 422, answer
    assert path in [cause["field"] for cause in answer["details"]["causes"]]
    assert message in answer["message"]


async def test_the_resource_name_cannot_be_changed_and_all_else_can(
    plane: ControlPlane, unique: Callable[[], str], new_object: NewObject
) -> None:
    path = f"{POLICIES}/{(await new_object(plane, POLICIES, policy(unique())))['metadata']['name']}"
    status, answer = await plane.api.request(
        "PATCH", path, {"spec": {"resourceName": "example.com/other"}}, content_type=MERGE_PATCH
    )
    assert status == 422
    assert "delete this policy and create another one for the new name" in answer["message"]
    other = {
        "delivery": "Off",
        "coexistence": "Rewrite",
        "missedPods": "Recreate",
        "strategy": "Pack",
        "podsWithClaims": "Bind",
        "devices": [{"deviceClassName": "other"}],
        "podSelector": {"matchLabels": {"a": "b"}},
    }
    changed = await plane.api.call("PATCH", path, {"spec": other}, content_type=MERGE_PATCH)
    assert changed["spec"] == {"resourceName": "example.com/gpu", **other}


async def test_kubectl_lists_what_matters(
    plane: ControlPlane, unique: Callable[[], str], new_object: NewObject
) -> None:
    name = (await new_object(plane, POLICIES, policy(unique())))["metadata"]["name"]
    condition = {
        "type": "Ready",
        "status": "False",
        "reason": "DeviceClassMissing",
        "message": "DeviceClass gpu.example.com does not exist",
        "observedGeneration": 1,
        "lastTransitionTime": "2026-11-30T10:00:00Z",
    }
    status = {
        "observedGeneration": 1,
        "delivery": "Rewrite",
        "conditions": [condition],
        "pods": 12,
        "claims": 11,
        "devices": {"total": 64, "allocated": 24},
    }
    stored = await plane.api.call("PATCH", f"{POLICIES}/{name}/status", {"status": status}, content_type=MERGE_PATCH)
    assert stored["status"] == status
    listed = (await plane.kubectl("get", "erp", name)).out.splitlines()
    assert listed[0].split() == ["NAME", "RESOURCE", "CLASS", "DELIVERY", "READY", "PODS", "DEVICES", "TOTAL", "AGE"]
    assert listed[1].split()[:-1] == [name, "example.com/gpu", "gpu.example.com", "Rewrite", "False", "12", "24", "64"]
    wide = (await plane.kubectl("get", "erp", name, "-o", "wide")).out
    assert "REASON" in wide
    assert "DeviceClassMissing" in wide
    assert name in (await plane.kubectl("get", "dra")).out


async def test_policies_can_be_selected_by_their_resource_name(
    plane: ControlPlane, unique: Callable[[], str], new_object: NewObject
) -> None:
    wanted = await new_object(plane, POLICIES, policy(unique(), resourceName="example.com/one"))
    await new_object(plane, POLICIES, policy(unique(), resourceName="example.com/two"))
    found = await plane.api.call("GET", POLICIES, query={"fieldSelector": "spec.resourceName=example.com/one"})
    assert [item["metadata"]["name"] for item in found["items"]] == [wanted["metadata"]["name"]]


def _without_description(schema: Object, path: str) -> Iterator[str]:
    """The fields that `kubectl explain` would have nothing to say about."""
    for name, field in schema.get("properties", {}).items():
        if not field.get("description") and "$ref" not in field and "allOf" not in field:
            yield f"{path}.{name}"
        yield from _without_description(field, f"{path}.{name}")
        yield from _without_description(field.get("items", {}), f"{path}.{name}")


async def test_kubectl_explains_every_field(plane: ControlPlane) -> None:
    async def published() -> Object:
        _, document = await plane.api.request("GET", "/openapi/v3/apis/drabridge.io/v1alpha1")
        schemas: Object = document.get("components", {}).get("schemas", {})
        return schemas

    name = "io.drabridge.v1alpha1.ExtendedResourcePolicy"
    schemas = await wait_for(published, "the schema to be published", until=lambda schemas: name in schemas)
    assert schemas[name]["properties"]["spec"]["properties"].keys() >= {"resourceName", "devices", "delivery"}
    assert list(_without_description(schemas[name], "")) == []
    explained = (await plane.kubectl("explain", "erp.spec.delivery")).out
    assert "Native: Kubernetes' own feature" in " ".join(explained.split())
