from __future__ import annotations

from typing import Any

import pytest

from builders import GPU, GPU_CLASS, IMPLICIT_GPU, NIC, NIC_CLASS, cluster, policy
from drabridge.core.auto import rewritten
from drabridge.core.caps import (
    COMPANION_OF,
    NAME_MAX,
    Cap,
    Limit,
    LimitRangeView,
    Max,
    QuotaView,
    caps_of,
    companion_hard,
    companion_name,
    problem_of,
    stricter,
)
from drabridge.core.cluster import Gate
from drabridge.core.names import is_dns_subdomain
from drabridge.core.policy import Delivery
from drabridge.core.quantity import Quantity

Raw = dict[str, Any]


def most(quantity: str, limit_range: str = "caps") -> Max:
    return Max(Quantity.parse(quantity), limit_range)


# --- LimitRanges (plugin/pkg/admission/limitranger; tests/integration/test_caps.py asks the API server itself)


def limit_range(*limits: Raw, name: str = "caps") -> LimitRangeView:
    return LimitRangeView.of({"metadata": {"namespace": "team", "name": name}, "spec": {"limits": list(limits)}})


LIMITS: dict[str, tuple[list[Raw], dict[str, Limit]]] = {
    "no limits": ([], {}),
    "other resources only": ([{"type": "Container", "max": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "1Gi"}}], {}),
    "a max for containers": (
        [{"type": "Container", "max": {GPU: "4", "cpu": "2"}}],
        {GPU: Limit(container_max=most("4"))},
    ),
    "a max for Pods": ([{"type": "Pod", "max": {GPU: "4"}}], {GPU: Limit(pod_max=most("4"))}),
    "a max for an implicit name": (
        [{"type": "Pod", "max": {IMPLICIT_GPU: "4"}}],
        {IMPLICIT_GPU: Limit(pod_max=most("4"))},
    ),
    "a max for both": (
        [{"type": "Container", "max": {GPU: "2"}}, {"type": "Pod", "max": {GPU: "4"}}],
        {GPU: Limit(container_max=most("2"), pod_max=most("4"))},
    ),
    "a max of nothing": ([{"type": "Container", "max": {GPU: "0"}}], {GPU: Limit(container_max=most("0"))}),
    "a default, which would put the name back": ([{"type": "Container", "default": {GPU: "1"}}], {GPU: Limit()}),
    "a default request": ([{"type": "Container", "defaultRequest": {GPU: "1"}}], {GPU: Limit()}),
    "a min for containers": (
        [{"type": "Container", "min": {GPU: "1"}, "max": {GPU: "2"}}],
        {GPU: Limit("min", "caps", most("2"))},
    ),
    "a min for Pods": ([{"type": "Pod", "min": {GPU: "1"}}], {GPU: Limit("min", "caps")}),
    "a min of nothing, which zero satisfies": ([{"type": "Container", "min": {GPU: "0"}}], {GPU: Limit()}),
    "a min of hardly more than nothing": ([{"type": "Container", "min": {GPU: "1n"}}], {GPU: Limit("min", "caps")}),
    "a ratio for containers": (
        [{"type": "Container", "maxLimitRequestRatio": {GPU: "1"}}],
        {GPU: Limit("maxLimitRequestRatio", "caps")},
    ),
    "a ratio for Pods": (
        [{"type": "Pod", "maxLimitRequestRatio": {GPU: "1"}}],
        {GPU: Limit("maxLimitRequestRatio", "caps")},
    ),
    "a ratio with a min of nothing": (
        [{"type": "Pod", "maxLimitRequestRatio": {GPU: "1"}, "min": {GPU: "0"}}],
        {GPU: Limit("maxLimitRequestRatio", "caps")},
    ),
    "limits of volume claims": ([{"type": "PersistentVolumeClaim", "max": {"storage": "1Gi", GPU: "1"}}], {}),
    "limits of a type that is not known": ([{"type": "example.com/Image", "max": {GPU: "1"}}], {}),
    "fields that are null": (
        [{"type": "Container", "max": {GPU: "1"}, "min": None, "default": None, "maxLimitRequestRatio": None}],
        {GPU: Limit(container_max=most("1"))},
    ),
    "several names": (
        [{"type": "Container", "max": {GPU: "1", NIC: "2"}, "default": {NIC: "0"}}],
        {GPU: Limit(container_max=most("1")), NIC: Limit(container_max=most("2"))},
    ),
}


@pytest.mark.parametrize(("limits", "want"), LIMITS.values(), ids=LIMITS)
def test_what_a_limit_range_says_of_extended_resources(limits: list[Raw], want: dict[str, Limit]) -> None:
    assert limit_range(*limits) == LimitRangeView("team", "caps", want)


@pytest.mark.parametrize("spec", [{}, {"limits": None}], ids=["no limits", "limits that are null"])
def test_a_limit_range_may_be_stored_empty(spec: Raw) -> None:
    assert LimitRangeView.of({"metadata": {"namespace": "team", "name": "caps"}, "spec": spec}).limits == {}


MERGED: dict[str, tuple[Limit, Limit, Limit]] = {
    "the smaller max, with the name of its LimitRange": (
        Limit(container_max=most("4", "a"), pod_max=most("4", "a")),
        Limit(container_max=most("2", "b"), pod_max=most("8", "b")),
        Limit(container_max=most("2", "b"), pod_max=most("4", "a")),
    ),
    "maxima of different types": (
        Limit(container_max=most("4", "a")),
        Limit(pod_max=most("8", "b")),
        Limit(container_max=most("4", "a"), pod_max=most("8", "b")),
    ),
    "equal maxima": (
        Limit(container_max=most("2", "b")),
        Limit(container_max=most("2000m", "a")),
        Limit(container_max=most("2", "a")),
    ),
    "one that refuses": (
        Limit(container_max=most("1", "a")),
        Limit("min", "b"),
        Limit("min", "b", container_max=most("1", "a")),
    ),
    "defaults and a max": (Limit(), Limit(pod_max=most("1")), Limit(pod_max=most("1"))),
    "defaults alone": (Limit(), Limit(), Limit()),
}


@pytest.mark.parametrize(("one", "other", "want"), MERGED.values(), ids=MERGED)
def test_of_several_limit_ranges_all_hold(one: Limit, other: Limit, want: Limit) -> None:
    assert stricter(one, other) == stricter(other, one) == want


def test_of_two_that_refuse_one_is_named_with_its_own_field() -> None:
    assert stricter(Limit("min", "a"), Limit("maxLimitRequestRatio", "b")) == Limit("min", "a")


# --- ResourceQuotas


def raw_quota(hard: Raw | None, *, name: str = "team", labels: Raw | None = None, **spec: Any) -> Raw:
    metadata = {"namespace": "ns", "name": name, "uid": f"uid-of-{name}"} | ({"labels": labels} if labels else {})
    return {"metadata": metadata, "spec": {"hard": hard, **spec}}


def quota(hard: Raw | None, *, name: str = "team", **spec: Any) -> QuotaView:
    return QuotaView.of(raw_quota(hard, name=name, **spec))


def companion(of: str, enforced: Raw, hard: Raw | None = None) -> QuotaView:
    raw = raw_quota(hard or enforced, name=f"drabridge-{of}", labels={COMPANION_OF: f"uid-of-{of}"})
    return QuotaView.of({**raw, "status": {"hard": enforced, "used": dict.fromkeys(enforced, "0")}})


GPU_DEVICES, NIC_DEVICES = (f"{name}.deviceclass.resource.k8s.io/devices" for name in ("gpu", "nic"))
SERVED = {GPU: "gpu", NIC: "nic"}
BOTH_BY_ONE = {GPU: "gpu", NIC: "gpu"}


def test_a_quota_in_full() -> None:
    hard = {"cpu": "4", f"requests.{GPU}": "8", f"requests.{IMPLICIT_GPU}": 2, "requests.storage": "1Gi", NIC: "1"}
    raw = raw_quota({**hard, NIC_DEVICES: "3"}, labels={COMPANION_OF: "another", "a": "b"})
    status = {"hard": {"cpu": "4", NIC_DEVICES: "2"}, "used": {"cpu": "1", NIC_DEVICES: "1"}}
    view = QuotaView.of({**raw, "status": status})
    assert view == QuotaView(
        namespace="ns",
        name="team",
        uid="uid-of-team",
        companion_of="another",
        scoped=False,
        capped={GPU: "8", IMPLICIT_GPU: "2"},
        dead=frozenset({NIC}),
        devices={NIC_DEVICES: "3"},
        enforced={NIC_DEVICES: "2"},
        used={NIC_DEVICES: "1"},
    )
    assert view.key == "ns/team"


KEYS: dict[str, tuple[str, str]] = {
    "an extended resource without its prefix": (GPU, "dead"),
    "an implicit one without its prefix": (IMPLICIT_GPU, "dead"),
    "one with a prefix that is for others": (f"limits.{GPU}", "dead"),
    "an extended resource": (f"requests.{GPU}", "capped"),
    "an implicit one": (f"requests.{IMPLICIT_GPU}", "capped"),
    "devices of a class": (GPU_DEVICES, "devices"),
    "devices of a class with a long name": ("a.b.c.deviceclass.resource.k8s.io/devices", "devices"),
    "a count of objects": ("count/pods", ""),
    "a count of objects of a group": ("count/widgets.example.com", ""),
    "storage of a class": ("gold.storageclass.storage.k8s.io/requests.storage", ""),
    "volume claims of a class": ("gold.storageclass.storage.k8s.io/persistentvolumeclaims", ""),
    "CPU": ("requests.cpu", ""),
    "huge pages": ("requests.hugepages-2Mi", ""),
    "something of Kubernetes' own": ("kubernetes.io/thing", ""),
    "a request of something of Kubernetes' own": ("requests.kubernetes.io/thing", ""),
}


@pytest.mark.parametrize(("key", "kind"), KEYS.values(), ids=KEYS)
def test_what_a_key_of_a_quota_means(key: str, kind: str) -> None:
    view = quota({key: "4"})
    found = {"dead": view.dead, "capped": view.capped, "devices": view.devices}
    assert {each for each, keys in found.items() if keys} == ({kind} if kind else set())
    if kind:
        assert list(found[kind]) == [key.removeprefix("requests.")]


SCOPES: dict[str, Raw] = {
    "scopes": {"scopes": ["NotTerminating"]},
    "a scope selector": {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
}


@pytest.mark.parametrize("spec", SCOPES.values(), ids=SCOPES)
def test_a_quota_with_scopes_has_no_companion(spec: Raw) -> None:
    view = quota({f"requests.{GPU}": "8"}, **spec)
    assert view.scoped
    assert companion_hard(view, SERVED) == {}
    assert caps_of([view], SERVED) == {GPU: Cap("team", "it has scopes, which claims do not have")}


@pytest.mark.parametrize("spec", [{"scopes": None}, {"scopes": []}, {"scopeSelector": None}, {"hard": None}])
def test_empty_fields_of_a_quota_say_nothing(spec: Raw) -> None:
    view = QuotaView.of(raw_quota(None, **{key: each for key, each in spec.items() if key != "hard"}))
    assert (view.scoped, view.capped, view.dead, view.companion_of) == (False, {}, frozenset(), "")


HARD: dict[str, tuple[QuotaView, dict[str, str], dict[str, str]]] = {
    "a served name": (quota({f"requests.{GPU}": "8"}), SERVED, {GPU_DEVICES: "8"}),
    "two names of two classes": (
        quota({f"requests.{NIC}": "2", f"requests.{GPU}": "8", "cpu": "1"}),
        SERVED,
        {GPU_DEVICES: "8", NIC_DEVICES: "2"},
    ),
    "two names of one class, which cannot be counted apart": (
        quota({f"requests.{GPU}": "8", f"requests.{NIC}": "2"}),
        BOTH_BY_ONE,
        {},
    ),
    "two names of one class, one of which is not rewritten": (
        quota({f"requests.{GPU}": "8", f"requests.{IMPLICIT_GPU}": "2"}),
        {GPU: "gpu"},
        {GPU_DEVICES: "8"},
    ),
    "a name that is not rewritten": (quota({f"requests.{GPU}": "8"}), {NIC: "nic"}, {}),
    "a dead key": (quota({GPU: "8"}), SERVED, {}),
    "devices of a class, which need no help": (quota({GPU_DEVICES: "8"}), SERVED, {}),
    "a companion": (companion("team", {f"requests.{GPU}": "8", GPU_DEVICES: "8"}), SERVED, {}),
    "none": (quota({f"requests.{GPU}": "0"}), SERVED, {GPU_DEVICES: "0"}),
}


@pytest.mark.parametrize(("view", "served", "want"), HARD.values(), ids=HARD)
def test_a_companion_caps_what_can_be_capped(view: QuotaView, served: dict[str, str], want: dict[str, str]) -> None:
    assert companion_hard(view, served) == want


NOT_YET = "its companion quota is not in force yet"
EIGHT = quota({f"requests.{GPU}": "8"})
OTHER = quota({f"requests.{GPU}": "4"}, name="other")
IN_FORCE: dict[str, tuple[list[QuotaView], dict[str, str], dict[str, Cap]]] = {
    "no quotas": ([], SERVED, {}),
    "quotas of other resources": ([quota({"cpu": "1", GPU: "2", GPU_DEVICES: "3"})], SERVED, {}),
    "no companion": ([EIGHT], SERVED, {GPU: Cap("team", NOT_YET, pending=True)}),
    "a companion in force": ([EIGHT, companion("team", {GPU_DEVICES: "8"})], SERVED, {GPU: Cap("team")}),
    "a companion in force in other words": (
        [EIGHT, companion("team", {GPU_DEVICES: "8000m"})],
        SERVED,
        {GPU: Cap("team")},
    ),
    "a companion that the API server does not count by yet": (
        [EIGHT, companion("team", {}, {GPU_DEVICES: "8"})],
        SERVED,
        {GPU: Cap("team", NOT_YET, pending=True)},
    ),
    "a companion that shows a former cap": (
        [EIGHT, companion("team", {GPU_DEVICES: "9"}, {GPU_DEVICES: "8"})],
        SERVED,
        {GPU: Cap("team", NOT_YET, pending=True)},
    ),
    "a companion for a former class": (
        [EIGHT, companion("team", {NIC_DEVICES: "8"})],
        SERVED,
        {GPU: Cap("team", NOT_YET, pending=True)},
    ),
    "the companion of another quota": (
        [EIGHT, companion("another", {GPU_DEVICES: "8"})],
        SERVED,
        {GPU: Cap("team", NOT_YET, pending=True)},
    ),
    "a companion that caps the name itself": (
        [companion("team", {f"requests.{GPU}": "8", GPU_DEVICES: "8"})],
        SERVED,
        {},
    ),
    "the cap of a name that is not rewritten": ([EIGHT], {}, {GPU: Cap("team")}),
    "two names of one class in one quota": (
        [quota({f"requests.{GPU}": "8", f"requests.{NIC}": "2"})],
        BOTH_BY_ONE,
        {
            GPU: Cap("team", f"it caps {NIC} as well, which the same DeviceClass gpu serves"),
            NIC: Cap("team", f"it caps {GPU} as well, which the same DeviceClass gpu serves"),
        },
    ),
    "two quotas, both with companions in force": (
        [OTHER, EIGHT, companion("team", {GPU_DEVICES: "8"}), companion("other", {GPU_DEVICES: "4"})],
        SERVED,
        {GPU: Cap("other")},
    ),
    "two quotas, the first without its companion": (
        [OTHER, EIGHT, companion("team", {GPU_DEVICES: "8"})],
        SERVED,
        {GPU: Cap("other", NOT_YET, pending=True)},
    ),
    "two quotas, the second without its companion": (
        [OTHER, EIGHT, companion("other", {GPU_DEVICES: "4"})],
        SERVED,
        {GPU: Cap("team", NOT_YET, pending=True)},
    ),
}


@pytest.mark.parametrize(("quotas", "served", "want"), IN_FORCE.values(), ids=IN_FORCE)
def test_a_cap_is_in_force_once_the_api_server_counts_by_the_companion(
    quotas: list[QuotaView], served: dict[str, str], want: dict[str, Cap]
) -> None:
    assert caps_of(quotas, served) == caps_of(quotas[::-1], served) == want


def test_a_cap_that_can_be_kept_has_no_problem() -> None:
    assert problem_of(EIGHT, GPU, SERVED) == ""


LONGEST = "a" * 242 + "-" + "b" * 10
NAMES = {
    "team": "drabridge-team",
    LONGEST: "drabridge-" + "a" * 242,
    "a.b": "drabridge-a.b",
    "c" * 241 + "-.d": "drabridge-" + "c" * 241,
}


@pytest.mark.parametrize(("name", "want"), NAMES.items(), ids=["short", "253 characters", "dotted", "cut at a dot"])
def test_the_name_of_a_companion_is_valid_however_long_that_of_its_quota(name: str, want: str) -> None:
    assert companion_name(quota({}, name=name)) == want
    assert len(want) <= NAME_MAX
    assert is_dns_subdomain(want)


# --- the names that caps are kept for


REWRITTEN: dict[str, tuple[Any, dict[str, str]]] = {
    "names of classes": (cluster(GPU_CLASS, NIC_CLASS), {GPU: "gpu", NIC: "nic", IMPLICIT_GPU: "gpu"}),
    "a name that nobody serves": (cluster(NIC_CLASS), {NIC: "nic"}),
    "a policy's class that is missing": (
        cluster(NIC_CLASS, policies=[policy(device_class="gone")]),
        {GPU: "gone", NIC: "nic"},
    ),
    "a name that a policy switches off": (
        cluster(GPU_CLASS, NIC_CLASS, policies=[policy(delivery=Delivery.OFF)]),
        {NIC: "nic", IMPLICIT_GPU: "gpu"},
    ),
    "a name that kube-scheduler serves itself": (
        cluster(GPU_CLASS, NIC_CLASS, gate=Gate.ON, settled=[GPU]),
        {NIC: "nic", IMPLICIT_GPU: "gpu"},
    ),
}


@pytest.mark.parametrize(("view", "want"), REWRITTEN.values(), ids=REWRITTEN)
def test_the_names_that_are_rewritten_and_their_classes(view: Any, want: dict[str, str]) -> None:
    assert rewritten([GPU, NIC, IMPLICIT_GPU], view) == want
