"""The Pods that manifests of workloads stand for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from clusters import Object, asking
from drabridge.core.errors import InvalidInput
from drabridge.core.inventory.replicas import is_workload, pods_of

TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [asking(1)]}}


@dataclass(frozen=True)
class Case:
    """A workload -> the names of its Pods."""

    kind: str
    spec: Object
    want: list[str]
    api: str = "apps/v1"
    metadata: Object = field(default_factory=dict)


CASES = {
    "a Deployment has as many as it says": Case("Deployment", {"replicas": 2}, ["web-0", "web-1"]),
    "one if it does not say": Case("Deployment", {}, ["web-0"]),
    "none if it says so": Case("StatefulSet", {"replicas": 0}, []),
    "a StatefulSet": Case("StatefulSet", {"replicas": 2}, ["web-0", "web-1"]),
    "a ReplicaSet": Case("ReplicaSet", {"replicas": 1}, ["web-0"]),
    "a ReplicationController": Case("ReplicationController", {"replicas": 1}, ["web-0"], api="v1"),
    "a DaemonSet is one that stands for all": Case("DaemonSet", {}, ["web-0"]),
    "a Job has those that run together": Case("Job", {"parallelism": 2}, ["web-0", "web-1"], api="batch/v1"),
    "but no more than are to end": Case("Job", {"parallelism": 9, "completions": 1}, ["web-0"], api="batch/v1"),
    "a Job that is suspended has none": Case("Job", {"suspend": True}, [], api="batch/v1"),
    "a workload of a cluster has made its Pods": Case("Deployment", {}, [], metadata={"uid": "u"}),
}


def workload(case: Case) -> Object:
    metadata = {"name": "web", **case.metadata}
    return {
        "apiVersion": case.api,
        "kind": case.kind,
        "metadata": metadata,
        "spec": {**case.spec, "template": TEMPLATE},
    }


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_pods_of_a_workload(case: Case) -> None:
    raw = workload(case)
    assert is_workload(raw)
    pods = list(pods_of(raw))
    assert [each["metadata"]["name"] for each in pods] == case.want
    for each in pods:
        assert each["metadata"]["labels"] == {"app": "web"}
        assert each["metadata"]["namespace"] == "default"
        assert each["metadata"]["ownerReferences"][0]["kind"] == case.kind
        assert each["spec"]["containers"] == TEMPLATE["spec"]["containers"]


def test_a_cron_job_has_the_pods_of_one_job() -> None:
    job = {"parallelism": 2, "template": TEMPLATE}
    raw = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c", "namespace": "n"}}
    pods = list(pods_of({**raw, "spec": {"jobTemplate": {"spec": job}}}))
    assert [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in pods] == [("n", "c-0"), ("n", "c-1")]


def test_a_daemon_may_run_on_a_cordoned_node() -> None:
    [pod] = pods_of(workload(Case("DaemonSet", {}, [])))
    assert "node.kubernetes.io/unschedulable" in {each["key"] for each in pod["spec"]["tolerations"]}


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"kind": "Deployment"},
        {"apiVersion": "apps/v1", "kind": []},
        {"apiVersion": "v1", "kind": "Pod"},
        {"apiVersion": "example.com/v1", "kind": "Deployment"},
    ],
    ids=["nothing", "no version", "no kind", "a Pod", "somebody else's kind of that name"],
)
def test_what_is_no_workload(raw: Object) -> None:
    assert not is_workload(raw)


BROKEN: dict[str, tuple[Any, str]] = {
    "replicas that are no number": ({"replicas": "many"}, "replicas is 'many', not a whole number"),
    "more than anybody runs": ({"replicas": 10**9}, "more than 100000"),
    "a template that is no object": ({"template": []}, r"template is \[\], not an object"),
}


@pytest.mark.parametrize(("spec", "problem"), BROKEN.values(), ids=BROKEN)
def test_a_broken_workload_is_named(spec: Object, problem: str) -> None:
    raw = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    with pytest.raises(InvalidInput, match=problem) as caught:
        list(pods_of(raw))
    assert caught.value.object == "Deployment web"
