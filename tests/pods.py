"""Raw Pods of every shape that admission may meet, valid ones and others, as hypothesis strategies.

Whether a Pod is valid is for the API server to say; the strategies only see to it that most of them are.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from drabridge.core.asked import ANNOTATION
from drabridge.core.rewrite import DELIVERY_LABEL, OPT_OUT

Object = dict[str, Any]

OUR_CLAIM = "drabridge-0123456789abcdef"
ANNOTATIONS_MAX = 256 * 1024  # bytes of an object's annotations (apimachinery, TotalAnnotationSizeLimitB)


@dataclass(frozen=True, slots=True)
class Names:
    """The resource names that Pods ask for: two explicit ones that are served, an implicit one, and one that is not."""

    first: str
    second: str
    implicit: str
    unserved: str

    @property
    def explicit(self) -> tuple[str, ...]:
        return (self.first, self.second, self.unserved)


WHOLE = st.sampled_from(["1", "1", "1", "2", "2", "3", "4", "8", "1000m", "2e0", "0"])
LARGE = st.sampled_from(["17", "33", "40", "1k", "0.5k", "1Ki", "2M", "1E", "9223372036854775807"])
ODD = st.sampled_from(
    ["1500m", "0.5", "1n", "-1", "-1k", "-0.5", "1e30", "9223372036854775808", "two", "", " 1", "1 ", "1,5", "0x1", "k"]
)
NUMBERS = st.sampled_from([1, 2, 33, -1, 0.5, True, None])

NONE_OR_FEW: tuple[Object, ...] = ({}, {}, {"cpu": "100m"}, {"cpu": "100m", "memory": "16Mi"})

TOSS: st.SearchStrategy[Any] = st.booleans()
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
LABELS = st.dictionaries(
    st.sampled_from(["app", "team", "example.com/tier", DELIVERY_LABEL, "a" * 63]),
    st.sampled_from(["", "a", "Rewrite", "Native", "b" * 63]),
    max_size=3,
)
ODD_LABELS = st.sampled_from([{"-": "a"}, {"a": "\u00e4"}, {"b" * 64: "a"}, {"a": "b" * 64}, {"": ""}])
FORGED = st.sampled_from(["", "[]", "{}", "no JSON", '{"containers":{},"requests":[],"requestMappings":[]}'])


def _often(usual: st.SearchStrategy[Any], rare: st.SearchStrategy[Any], times: int = 9) -> st.SearchStrategy[Any]:
    return st.integers(0, times).flatmap(lambda drawn: rare if drawn == times else usual)


class Fault(StrEnum):
    """What may be wrong with a Pod: one thing at a time, so that nothing else hides what becomes of it."""

    NONE = "none"
    QUANTITY = "quantity"
    LIMIT = "limit"
    NAME = "name"
    CLAIM = "claim"
    CLAIM_USE = "claim use"
    METADATA = "metadata"
    SPEC = "spec"


def _quantity(fault: Fault) -> st.SearchStrategy[Any]:
    usual = _often(WHOLE, LARGE, 12)
    return _often(usual, ODD | NUMBERS, 2) if fault is Fault.QUANTITY else usual


@st.composite
def _resources(draw: st.DrawFn, names: Names, fault: Fault) -> Object:
    requests: Object = dict(draw(st.sampled_from(NONE_OR_FEW)))
    limits: Object = {}
    wanted = draw(st.lists(st.sampled_from([names.first, names.first, names.second, names.implicit]), max_size=2))
    if fault is Fault.LIMIT:
        wanted = [draw(st.sampled_from([names.first, names.implicit]))]
    elif draw(st.integers(0, 15)) == 0:
        wanted.append(names.unserved)
    for name in sorted(set(wanted)):
        shapes = ["both", "both", "limit"]
        if name == names.implicit:
            shapes += ["request"]
        if fault is Fault.LIMIT:
            shapes = ["both", "request", "different", "different"]
        shape = draw(st.sampled_from(shapes))
        quantity = draw(_quantity(fault))
        if shape != "limit":
            requests[name] = quantity
        if shape != "request":
            limits[name] = draw(_quantity(fault)) if shape == "different" else quantity
    if fault is Fault.NAME and draw(TOSS):
        requests[draw(st.sampled_from(["Example.com/GPU", "example.com/", "/gpu", "gpu", "kubernetes.io/gpu"]))] = "1"
    resources = {"requests": requests, "limits": limits}
    return {key: value for key, value in resources.items() if value or draw(TOSS)}


@st.composite
def _claims(draw: st.DrawFn, fault: Fault) -> tuple[list[Object], list[str]]:
    """Entries for spec.resourceClaims, and names that containers may use."""
    missing = [draw(st.sampled_from(["drabridge", "drabridge", "nobody"]))] if fault is Fault.CLAIM_USE else []
    if draw(st.integers(0, 3)) and fault is not Fault.CLAIM:
        return [], missing
    names = draw(
        st.lists(
            st.sampled_from(["own", "drabridge", "drabridge-2", "c" * 63]),
            min_size=1,
            max_size=3,
            unique=fault is not Fault.CLAIM,
        )
    )
    entries = [
        {"name": name, draw(st.sampled_from(["resourceClaimName", "resourceClaimTemplateName"])): f"{name[:9]}-claim"}
        for name in names
    ]
    if draw(st.integers(0, 4)) == 0:
        entries.append({"name": "copied", "resourceClaimName": OUR_CLAIM})
    if fault is Fault.CLAIM:
        odd: list[Object] = [{"name": "x"}, {"name": "B_d", "resourceClaimName": "c"}, {"resourceClaimName": "c"}, {}]
        entries += draw(st.lists(st.sampled_from(odd), max_size=1))
    return entries, [*names, *missing]


@st.composite
def _container(draw: st.DrawFn, names: Names, fault: Fault, claims: list[str], name: str) -> Object:
    container: Object = {"name": name, "image": "registry.example/app"}
    resources = draw(_resources(names, fault))
    if claims and draw(TOSS):
        resources["claims"] = [
            {"name": each} | draw(st.sampled_from([{}, {"request": "one"}]))
            for each in draw(st.lists(st.sampled_from(claims), max_size=2, unique=fault is not Fault.CLAIM_USE))
        ]
    if resources or draw(TOSS):
        container["resources"] = resources
    return container


SPECS: tuple[Object, ...] = (
    {"nodeName": "nowhere"},
    {"schedulerName": "another"},
    {"schedulerName": ""},
    {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
    {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "4", "memory": "1Gi"}}},
    {"automountServiceAccountToken": False},
    {"nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"operator": "Exists"}]},
    {"os": {"name": "linux"}, "hostname": "h", "volumes": [{"name": "v", "emptyDir": {}}]},
    {"schedulingGates": [{"name": "example.com/wait"}]},
)
ODD_SPECS: tuple[Object, ...] = (
    {"restartPolicy": "Perhaps"},
    {"containers": []},
    {"resources": {"requests": {"example.com/gpu": "1"}}},
    {"nodeName": "NO"},
    {"initContainers": [{"name": "c0", "image": "i"}]},
    {"schedulingGates": [{"name": "g"}, {"name": "g"}]},
)


@st.composite
def _metadata(draw: st.DrawFn, fault: Fault) -> Object:
    metadata: Object = draw(st.sampled_from([{"name": "web"}, {"generateName": "web-"}, {"name": "n" * 253}]))
    annotations = dict(draw(st.dictionaries(st.sampled_from(["note", "example.com/x.y"]), TEXTS, max_size=2)))
    odd = draw(st.integers(0, 19))
    if odd == 0:
        annotations[OPT_OUT] = draw(st.sampled_from(["false", "true", "FALSE", ""]))
    elif odd == 1:
        annotations[ANNOTATION] = draw(FORGED)
    elif odd == 2:
        annotations["big"] = "x" * draw(st.sampled_from([ANNOTATIONS_MAX - 100, ANNOTATIONS_MAX - 3 - 90]))
        annotations = {"big": annotations["big"]}
    labels = draw(_often(LABELS, ODD_LABELS, 1) if fault is Fault.METADATA else LABELS)
    metadata |= {"annotations": annotations} if annotations or draw(TOSS) else {}
    metadata |= {"labels": labels} if labels or draw(TOSS) else {}
    if fault is Fault.METADATA:
        metadata |= draw(_often(st.just({}), st.sampled_from([{"name": "No_Name"}, {"annotations": {"a b": ""}}]), 1))
    return metadata


@st.composite
def pods(draw: st.DrawFn, names: Names) -> Object:
    """Draw one Pod to be created; about three of four are valid, and the others have one fault."""
    fault = draw(st.sampled_from([*[Fault.NONE] * 14, *Fault, Fault.LIMIT, Fault.CLAIM_USE]))
    entries, usable = draw(_claims(fault))

    def container(name: str) -> Object:
        return draw(_container(names, fault, usable, name))

    inits = [
        container(f"i{i}") | ({"restartPolicy": "Always"} if draw(TOSS) else {})
        for i in range(draw(st.sampled_from([0, 0, 1, 2, 3])))
    ]
    apps = [container(f"c{i}") for i in range(draw(st.sampled_from([1, 1, 1, 2, 3])))]
    if draw(st.integers(0, 49)) == 0:
        apps += [{"name": f"more-{i}", "image": "i", "resources": apps[0].get("resources", {})} for i in range(63)]
    spec: Object = {"containers": apps}
    spec |= {"initContainers": inits} if inits else {}
    spec |= {"resourceClaims": entries} if entries else {}
    for extra in draw(st.lists(st.sampled_from(SPECS), max_size=1)):
        spec |= extra
    if fault is Fault.SPEC:
        spec |= draw(st.sampled_from(ODD_SPECS))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": draw(_metadata(fault)), "spec": spec}


def drawn(strategy: st.SearchStrategy[Object], count: int, number: int) -> list[Object]:
    """Give `count` examples, the same ones for the same seed `number` and version of hypothesis."""
    found: list[Object] = []

    @seed(number)
    @settings(max_examples=count, database=None, phases=[Phase.generate], deadline=None, suppress_health_check=[])
    @given(strategy)
    def collect(example: Object) -> None:
        found.append(example)

    collect()
    return found[:count]
