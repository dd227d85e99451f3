"""What holds for every Pod that admission sees, however often and whoever else changes it in between."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jsonpatch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from builders import (
    CLAIM,
    GPU,
    GPU_AND_NIC,
    GPU_CLASS,
    IMPLICIT_GPU,
    NIC,
    NIC_CLASS,
    OTHER_CLAIM,
    cluster,
    patched,
    pod,
    policy,
    rewritten,
)
from drabridge.core.asked import ANNOTATION, decode
from drabridge.core.caps import Cap, Limit, Max
from drabridge.core.claims import CreateClaim, next_step
from drabridge.core.claimspec import ContainerDemand, total
from drabridge.core.cluster import ClusterView
from drabridge.core.errors import InvalidInput
from drabridge.core.podview import Container, ContainerKind, PodView
from drabridge.core.quantity import Quantity
from drabridge.core.restore import Restored, restore
from drabridge.core.rewrite import ClaimNames, Rewrite, decide

Raw = dict[str, Any]

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""How long an example takes says something about the machine only."""

FPGA = "example.com/fpga"
EXTENDED = (GPU, NIC, IMPLICIT_GPU, FPGA)
LABEL = "drabridge.io/delivery"

FOUR = Max(Quantity.parse("4"), "caps")
CLUSTERS = st.sampled_from(
    [
        GPU_AND_NIC,
        cluster(GPU_CLASS, NIC_CLASS, plugins={NIC: "node-a"}),
        cluster(GPU_CLASS, policies=[policy(NIC, "missing", name="nic")], caps={IMPLICIT_GPU: Cap("team", "scopes")}),
        cluster(GPU_CLASS, NIC_CLASS, limits={GPU: Limit(container_max=FOUR, pod_max=FOUR), NIC: Limit("min", "caps")}),
        cluster(GPU_CLASS, NIC_CLASS, limits=dict.fromkeys((GPU, NIC, IMPLICIT_GPU, FPGA), Limit())),
    ]
)
WHOLE = st.sampled_from(["1", "2", "3", "1000m", "2e0", "0"])
ODD = st.sampled_from(["0.5", "-1", "x", "", "33", "1Ki"])
QUANTITIES = st.integers(0, 15).flatmap(lambda n: ODD if n == 0 else WHOLE)


@st.composite
def resources(draw: st.DrawFn, claims: list[str]) -> Raw | None:
    if draw(st.integers(0, 9)) == 0:
        return None
    requests: Raw = dict.fromkeys(draw(st.sets(st.sampled_from(["cpu", "memory", "ephemeral-storage"]))), "100m")
    limits: Raw = {}
    for name in draw(st.sets(st.sampled_from(EXTENDED), max_size=3)):
        limits[name] = draw(QUANTITIES)
        match draw(st.integers(0, 11)):
            case 0:
                requests[name] = draw(QUANTITIES)
            case 1 | 2 | 3:
                pass  # the API server makes a request of the limit
            case _:
                requests[name] = limits[name]
    used = [{"name": name} for name in draw(st.sets(st.sampled_from(claims)))] if claims else []
    made = {"requests": requests, "limits": limits, "claims": used}
    return {key: value for key, value in made.items() if draw(st.booleans()) or value}


@st.composite
def pods(draw: st.DrawFn) -> Raw:
    claims = sorted(draw(st.sets(st.sampled_from(["drabridge", "drabridge-2", "mine"]), max_size=2)))
    spec: Raw = {"initContainers": [], "containers": [], "schedulerName": "default-scheduler"}
    kinds = [*draw(st.lists(st.sampled_from(["init", "sidecar"]), max_size=4)), *["app"] * draw(st.integers(1, 4))]
    for i, kind in enumerate(kinds):
        container: Raw = {"name": f"c{i}", "image": "registry.example/app"}
        if kind == "sidecar":
            container["restartPolicy"] = "Always"
        if draw(st.booleans()) or kind == "app":
            container["resources"] = draw(resources(claims))
        spec["containers" if kind == "app" else "initContainers"].append(container)
    if draw(st.integers(0, 15)):  # else nothing may be asked for at all
        spec["containers"][-1]["resources"] = {"limits": {GPU: "1", "cpu": "1"}}
    if claims:
        spec["resourceClaims"] = [{"name": name, "resourceClaimName": f"claim-of-{name}"} for name in claims]
    maps = st.sampled_from([None, {}, {"app": "web"}, {"a/b~c": "größe 🚀"}])
    metadata = {"name": "web", "namespace": "team", "labels": draw(maps), "annotations": draw(maps)}
    made: Raw = json.loads(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}))
    return made  # without two places that are one object, as sampled values are


def containers(raw: Raw) -> list[Raw]:
    return [*raw["spec"].get("initContainers", []), *raw["spec"]["containers"]]


def first_call(raw: Raw, view: ClusterView) -> tuple[Rewrite, Raw]:
    """Rewrite the Pod; examples that are left alone are none."""
    verdict = decide(PodView.of(raw), view, ClaimNames(CLAIM))
    assume(isinstance(verdict, Rewrite))
    assert isinstance(verdict, Rewrite)
    return verdict, patched(raw, verdict)


def later_call(raw: Raw, view: ClusterView) -> tuple[Rewrite, Raw]:
    verdict = decide(PodView.of(raw), view, ClaimNames(OTHER_CLAIM))
    assert isinstance(verdict, Rewrite), verdict
    return verdict, patched(raw, verdict)


def entry_of(stored: Raw) -> str:
    [name] = [each["name"] for each in stored["spec"]["resourceClaims"] if each.get("resourceClaimName") == CLAIM]
    return str(name)


def pruned(value: Any) -> Any:
    """Take away what says nothing: null, and empty lists and maps."""
    if isinstance(value, dict):
        return {key: kept for key, each in value.items() if (kept := pruned(each)) not in (None, {}, [])}
    return [pruned(each) for each in value] if isinstance(value, list) else value


def without_ours(raw: Raw, verdict: Rewrite, view: ClusterView, entry: str) -> Raw:
    """Take away all that a rewrite may touch."""
    raw = copy.deepcopy(raw)
    for container in containers(raw):
        made = container.get("resources") or {}
        zeros = counted(verdict).keys() & view.namespace.limits.keys()
        for name in {*verdict.asked.containers.get(container["name"], {}), *zeros}:
            for field in ("requests", "limits"):
                (made.get(field) or {}).pop(name, None)
        if entry and made.get("claims"):
            made["claims"] = [each for each in made["claims"] if each["name"] != entry]
    if entry:
        raw["spec"]["resourceClaims"] = [each for each in raw["spec"]["resourceClaims"] if each["name"] != entry]
        del raw["metadata"]["labels"][LABEL], raw["metadata"]["annotations"][ANNOTATION]
    return dict(pruned(raw))


def demands(view: PodView, verdict: Rewrite) -> list[ContainerDemand]:
    def demand(container: Container) -> ContainerDemand:
        texts = verdict.asked.containers.get(container.name, {})
        counts = {name: Quantity.parse(text).as_int() or 0 for name, text in texts.items()}
        return ContainerDemand(container.name, container.kind is ContainerKind.INIT, tuple(counts), counts)

    return [demand(container) for container in view.containers]


def counted(verdict: Rewrite) -> Counter[str]:
    counts: Counter[str] = Counter()
    for request in verdict.asked.requests:
        counts[request.resource] += request.count
    return counts


@UNHURRIED
@given(pods(), CLUSTERS)
def test_a_second_call_changes_nothing(raw: Raw, view: ClusterView) -> None:
    first, stored = first_call(raw, view)
    second, _ = later_call({**stored, "metadata": {**stored["metadata"], "uid": "another"}}, view)
    assert second.patch == []
    assert (second.claim_name, second.asked, second.left) == (first.claim_name, first.asked, first.left)
    assert decode(PodView.of(stored)) == first.asked


@UNHURRIED
@given(pods(), CLUSTERS)
def test_nothing_but_the_served_names_leaves_a_pod_and_nothing_but_ours_is_added(raw: Raw, view: ClusterView) -> None:
    before = copy.deepcopy(raw)
    verdict, stored = first_call(raw, view)
    assert raw == before
    assert without_ours(stored, verdict, view, entry_of(stored)) == without_ours(raw, verdict, view, "")
    served = {name for names in verdict.asked.containers.values() for name in names}
    assert not served & {ask.resource for ask in PodView.of(stored).extended()}
    for container in containers(stored):
        made = container.get("resources") or {}
        for name in served:
            want = "0" if name in view.namespace.limits else None
            if name in verdict.asked.containers.get(container["name"], {}):
                assert (made.get("requests", {}).get(name), made.get("limits", {}).get(name)) == (want, want)
            elif want:
                assert name in made["requests"]
                assert name in made["limits"]


@UNHURRIED
@given(pods(), CLUSTERS)
def test_claims_of_containers_are_valid_and_those_of_the_author_are_kept(raw: Raw, view: ClusterView) -> None:
    verdict, stored = first_call(raw, view)
    entries = [each["name"] for each in stored["spec"]["resourceClaims"]]
    assert len(set(entries)) == len(entries)
    assert stored["spec"]["resourceClaims"][:-1] == raw["spec"].get("resourceClaims", [])
    ours, requests = entry_of(stored), {each.name for each in verdict.asked.requests}
    for old, new in zip(PodView.of(raw).containers, PodView.of(stored).containers, strict=True):
        assert len(set(new.claims)) == len(new.claims)
        assert {claim.name for claim in new.claims} <= set(entries)
        assert [claim for claim in new.claims if claim.name != ours] == list(old.claims)
        assert {claim.request for claim in new.claims if claim.name == ours} <= requests
        asks = bool(verdict.asked.containers.get(new.name))
        assert any(claim.name == ours for claim in new.claims) == asks


@UNHURRIED
@given(pods(), CLUSTERS)
def test_the_claim_asks_for_the_pods_total(raw: Raw, view: ClusterView) -> None:
    verdict, stored = first_call(raw, view)
    needs = demands(PodView.of(raw), verdict)
    assert counted(verdict) == {name: need for name in EXTENDED if (need := total(needs, name))}
    assert 0 < verdict.asked.devices <= 32
    stored["metadata"]["uid"] = "pod-uid"
    everything = cluster(GPU_CLASS, NIC_CLASS)
    step = next_step(PodView.of(stored), None, everything)
    assert isinstance(step, CreateClaim)
    assert step.devices == verdict.asked.devices
    assert [
        (each["name"], each["exactly"]["deviceClassName"], each["exactly"]["count"])
        for each in step.body["spec"]["devices"]["requests"]
    ] == [
        (each.name, {GPU: "gpu", NIC: "nic", IMPLICIT_GPU: "gpu"}[each.resource], each.count)
        for each in verdict.asked.requests
    ]


@st.composite
def edited(draw: st.DrawFn, stored: Raw, verdict: Rewrite) -> Raw:
    """Change a rewritten Pod as other webhooks and in-tree plugins do between two calls."""
    raw = copy.deepcopy(stored)
    for container in containers(raw):
        asked = sorted(verdict.asked.containers.get(container["name"], {}))
        back = draw(st.sets(st.sampled_from(asked))) if asked else set()
        for name in back:
            for field in draw(st.sampled_from([["limits"], ["requests"], ["requests", "limits"]])):
                container["resources"].setdefault(field, {})[name] = draw(QUANTITIES)
        if draw(st.booleans()):
            made = container["resources"] = container.get("resources") or {}
            made["requests"] = {**made.get("requests", {}), "a.first/key": "1", "cpu": "2"}
            made["limits"] = {**made.get("limits", {}), "a.first/key": "1"}
        if asked and draw(st.integers(0, 3)) == 0:
            container["resources"].pop("claims", None)
    if draw(st.booleans()):
        raw["metadata"]["labels"] = draw(st.sampled_from([None, {}, {LABEL: "x"}, {"new": "label"}]))
    if draw(st.booleans()):
        raw["metadata"]["annotations"]["added/by"] = "another webhook"
    if draw(st.booleans()):
        raw["spec"]["resourceClaims"].insert(0, {"name": "added", "resourceClaimTemplateName": "added"})
    return raw


@UNHURRIED
@given(st.data(), pods(), CLUSTERS)
def test_whatever_happens_between_two_calls_the_pod_is_served_the_same(
    data: st.DataObject, raw: Raw, view: ClusterView
) -> None:
    first, stored = first_call(raw, view)
    for _ in range(2):
        changed = data.draw(edited(stored, first))
        verdict, stored = later_call(changed, view)
        assert verdict.claim_name == CLAIM
        assert verdict.asked.containers == first.asked.containers
        assert counted(verdict) == counted(first)
        assert stored["metadata"]["labels"][LABEL] == "Rewrite"
        assert not {each.resource for each in PodView.of(stored).extended()} & set(counted(first))
        again, _ = later_call(stored, view)
        assert again.patch == []


# --- updates of rewritten Pods


def defaulted(raw: Raw) -> Raw:
    """Default requests from limits, as the API server does before admission sees the Pod."""
    raw = copy.deepcopy(raw)
    for container in containers(raw):
        made = container.get("resources") or {}
        if made.get("limits"):
            made["requests"] = {**made["limits"], **(made.get("requests") or {})}
    return raw


def merged(stored: Any, manifest: Any, field: str = "") -> Any:
    """Lay a manifest over what is stored, as `kubectl apply` does: maps, and lists of these fields by name."""
    if isinstance(stored, dict) and isinstance(manifest, dict):
        return {**stored, **{key: merged(stored.get(key), each, key) for key, each in manifest.items()}}
    if field in {"containers", "initContainers", "resourceClaims"} and stored:
        wanted = {each["name"]: each for each in manifest}
        kept = [merged(each, wanted.pop(each["name"])) if each["name"] in wanted else each for each in stored]
        return [*kept, *wanted.values()]
    return manifest


def applied(stored: Raw, manifest: Raw) -> Raw:
    return defaulted(merged(stored, pruned(manifest)))


def replaced(stored: Raw, manifest: Raw) -> Raw:
    metadata = {**manifest["metadata"], "uid": stored["metadata"]["uid"], "resourceVersion": "7"}
    return defaulted({**copy.deepcopy(manifest), "metadata": metadata})


UPDATES = st.sampled_from([applied, replaced])


def updated(new: Raw, stored: Raw) -> tuple[Restored, Raw]:
    restored = restore(PodView.of(new), PodView.of(stored))
    return restored, jsonpatch.apply_patch(new, restored.patch)


@st.composite
def visited(draw: st.DrawFn, stored: Raw) -> Raw:
    """Let another webhook add a claim of its own, anywhere, to a Pod and to containers whose author uses no claim."""
    raw = copy.deepcopy(stored)
    entries = raw["spec"]["resourceClaims"]
    entries.insert(draw(st.integers(0, len(entries))), {"name": "foreign", "resourceClaimName": "theirs"})
    for container in containers(raw):
        claims = (container.get("resources") or {}).get("claims") or []
        if claims and all(claim.get("request") for claim in claims) and draw(st.booleans()):
            claims.insert(draw(st.integers(0, len(claims))), {"name": "foreign"})
    return raw


@UNHURRIED
@given(pods(), CLUSTERS, UPDATES)
def test_the_original_manifest_changes_nothing_of_a_rewritten_pod(raw: Raw, view: ClusterView, update: Any) -> None:
    _, stored = first_call(defaulted(raw), view)
    stored["metadata"]["uid"] = "pod-uid"
    stored["metadata"]["annotations"]["drabridge.io/allocation"] = "[]"
    restored, result = updated(update(stored, raw), stored)
    assert restored.refused == ()
    assert pruned(result["spec"]) == pruned(stored["spec"])
    assert result["metadata"]["labels"] == stored["metadata"]["labels"]
    assert result["metadata"]["annotations"] == stored["metadata"]["annotations"]
    again, _ = updated(result, stored)
    assert again == Restored([])


@UNHURRIED
@given(st.data(), pods(), CLUSTERS)
def test_claims_of_others_outlive_an_apply(data: st.DataObject, raw: Raw, view: ClusterView) -> None:
    _, stored = first_call(defaulted(raw), view)
    stored = data.draw(visited(stored))
    _, result = updated(applied(stored, raw), stored)
    assert pruned(result["spec"]) == pruned(stored["spec"])


def quantities(raw: Raw) -> Iterator[str]:
    for container in containers(raw):
        for amounts in (container.get("resources") or {}).values():
            if isinstance(amounts, dict):
                yield from amounts.values()


def is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except (ValueError, OverflowError):
        return False
    return True


@UNHURRIED
@given(st.data(), pods(), CLUSTERS, UPDATES)
def test_what_a_user_changes_besides_is_left_to_the_api_server(
    data: st.DataObject, raw: Raw, view: ClusterView, update: Any
) -> None:
    assume(all(map(is_quantity, quantities(raw))))  # the API server reads no others
    _, stored = first_call(defaulted(raw), view)
    stored["metadata"]["uid"] = "pod-uid"
    manifest = copy.deepcopy(raw)
    index = data.draw(st.integers(0, len(containers(raw)) - 1))
    containers(manifest)[index]["image"] = "registry.example/app:2"
    for field in ("labels", "annotations"):
        manifest["metadata"][field] = {**(manifest["metadata"][field] or {}), "new": "one"}
    restored, result = updated(update(stored, manifest), stored)
    assert restored.refused == ()
    want = copy.deepcopy(stored)
    containers(want)[index]["image"] = "registry.example/app:2"
    for field in ("labels", "annotations"):
        want["metadata"][field]["new"] = "one"
        assert result["metadata"][field] == want["metadata"][field]
    assert pruned(result["spec"]) == pruned(want["spec"])


@UNHURRIED
@given(st.data(), pods(), CLUSTERS, UPDATES)
def test_another_quantity_of_a_served_name_is_refused_in_words(
    data: st.DataObject, raw: Raw, view: ClusterView, update: Any
) -> None:
    verdict, stored = first_call(defaulted(raw), view)
    stored["metadata"]["uid"] = "pod-uid"
    name = data.draw(st.sampled_from(sorted(verdict.asked.containers)))
    resource = data.draw(st.sampled_from(sorted(verdict.asked.containers[name])))
    manifest = copy.deepcopy(raw)
    [container] = [each for each in containers(manifest) if each["name"] == name]
    for field in ("requests", "limits"):
        container["resources"][field] = {**(container["resources"].get(field) or {}), resource: "17"}
    new = update(stored, manifest)
    restored, _ = updated(new, stored)
    assert restored.patch == []
    [problem] = restored.refused
    assert f" {resource} and cannot change to 17; delete the Pod and create it again" in problem


# --- arbitrary input

TEXTS = st.one_of(
    st.text(max_size=8), st.sampled_from([*EXTENDED, CLAIM, "drabridge", "containers", "1", "-1", "1e99"])
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=8,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Walk all (parent, key) in a JSON value."""
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield value, key
            yield from places(each)


@st.composite
def broken(draw: st.DrawFn, value: Raw) -> Raw:
    """Put anything in some places of a JSON value that is right."""
    value = copy.deepcopy(value)
    for _ in range(draw(st.integers(1, 3))):
        parent, key = draw(st.sampled_from(list(places(value))))
        parent[key] = draw(JSON)
    return value


FORMER = pod("web", "team").app(gpu=1, nic=2).app(gpu=1)


def never_fails(raw: Raw, view: ClusterView, origin: str | None = None) -> None:
    """Take the Pod through everything; InvalidInput is an answer, and no other exception is."""
    try:
        seen = PodView.of(raw)
    except InvalidInput as error:
        str(error)
        return
    former = PodView.of(rewritten(FORMER))
    verdict = decide(seen, view, ClaimNames(OTHER_CLAIM, frozenset({CLAIM}), origin))
    if isinstance(raw.get("metadata"), dict):  # always, in what an API server sends
        patched(raw, verdict)
    decide(seen, view, ClaimNames(OTHER_CLAIM))
    for new, old in ((seen, former), (former, seen)):
        restore(new, old)
    next_step(seen, None, view)
    try:
        decode(seen)
    except InvalidInput as error:
        str(error)


@UNHURRIED
@given(st.dictionaries(TEXTS, JSON, max_size=4), st.dictionaries(TEXTS, JSON, max_size=4), CLUSTERS)
def test_any_object_is_answered(raw: Raw, spec: Raw, view: ClusterView) -> None:
    never_fails({**raw, "spec": spec}, view)


@UNHURRIED
@given(st.data(), pods(), CLUSTERS)
def test_a_pod_with_anything_in_it_is_answered(data: st.DataObject, raw: Raw, view: ClusterView) -> None:
    never_fails(data.draw(broken(raw)), view)


@UNHURRIED
@given(st.data(), pods(), CLUSTERS)
def test_a_rewritten_pod_with_anything_in_it_is_answered(data: st.DataObject, raw: Raw, view: ClusterView) -> None:
    _, stored = first_call(raw, view)
    never_fails(data.draw(broken(stored)), view)


@UNHURRIED
@given(st.data(), pods(), CLUSTERS)
def test_any_annotation_is_answered(data: st.DataObject, raw: Raw, view: ClusterView) -> None:
    _, stored = first_call(raw, view)
    annotations = stored["metadata"]["annotations"]
    spoilt = broken(json.loads(annotations[ANNOTATION])).map(json.dumps)
    annotations[ANNOTATION] = data.draw(st.one_of(spoilt, JSON.map(json.dumps), st.text(max_size=20)))
    never_fails(stored, view)
    never_fails(stored, view, annotations[ANNOTATION])
