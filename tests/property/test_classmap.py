"""What holds for the mappings of every set of classes and policies."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from builders import GPU, NIC
from drabridge.core.classmap import ClassMap, ClassView, Source
from drabridge.core.names import implicit_name

CLASS_NAMES = ["a", "b", "c", "d", "long" * 20]
DECLARED = st.sampled_from([None, GPU, NIC])
NAMES = [GPU, NIC, *map(implicit_name, CLASS_NAMES), "example.com/unknown"]


@st.composite
def views(draw: st.DrawFn, name: str) -> ClassView:
    created = f"2026-01-0{draw(st.integers(1, 3))}T00:00:00Z"
    annotation = draw(DECLARED | st.just("not-extended"))
    return ClassView(name, f"uid-of-{name}", created, draw(DECLARED), annotation, deleting=False)


@st.composite
def class_lists(draw: st.DrawFn) -> list[ClassView]:
    return [draw(views(name)) for name in draw(st.lists(st.sampled_from(CLASS_NAMES), unique=True))]


POLICIES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([*CLASS_NAMES, "gone"]), max_size=3)


def naive(classes: list[ClassView], policies: dict[str, str], name: str) -> tuple[str, Source] | None:
    """Ask every source in turn, and within a source play every class against every other."""

    def winner(candidates: list[ClassView]) -> ClassView:
        [best] = [
            one
            for one in candidates
            if all(
                one.created > two.created or (one.created == two.created and one.name <= two.name) for two in candidates
            )
        ]
        return best

    if name in policies:
        return policies[name], Source.POLICY
    if fields := [view for view in classes if view.extended_name == name]:
        return winner(fields).name, Source.FIELD
    if annotations := [view for view in classes if view.annotated_name == name]:
        return winner(annotations).name, Source.ANNOTATION
    for view in classes:
        if implicit_name(view.name) == name and len(view.name) <= 63:
            return view.name, Source.IMPLICIT
    return None


@given(class_lists(), POLICIES)
def test_the_winner_is_the_one_of_the_rule(classes: list[ClassView], policies: dict[str, str]) -> None:
    made = ClassMap.of(classes, policies)
    present = {view.name for view in classes}
    for name in NAMES:
        mapping, want = made.resolve(name), naive(classes, policies, name)
        assert ((mapping.device_class, mapping.source) if mapping else None) == want
        assert mapping is None or mapping.present == (mapping.device_class in present)


@given(class_lists(), POLICIES)
def test_kube_schedulers_winner_heeds_fields_and_implicit_names_only(
    classes: list[ClassView], policies: dict[str, str]
) -> None:
    made = ClassMap.of(classes, policies)
    bare = [ClassView(v.name, v.uid, v.created, v.extended_name, None, v.deleting) for v in classes]
    for name in NAMES:
        want = naive(bare, {}, name)
        assert made.native(name) == (want[0] if want else None)


@given(class_lists(), POLICIES)
def test_every_class_that_declares_a_name_is_the_winner_or_a_loser(
    classes: list[ClassView], policies: dict[str, str]
) -> None:
    made = ClassMap.of(classes, policies)
    for name in (GPU, NIC):
        declaring = {view.name for view in classes if name in (view.extended_name, view.annotated_name)}
        mapping = made.resolve(name)
        if mapping is None:
            assert not declaring
        else:
            assert set(mapping.losers) == declaring - {mapping.device_class}
        assert (name in made.collisions()) == (len(declaring) > 1)


@given(class_lists(), POLICIES, st.randoms(use_true_random=False))
def test_the_order_of_classes_does_not_matter(
    classes: list[ClassView], policies: dict[str, str], random: Random
) -> None:
    shuffled = random.sample(classes, len(classes))
    assert ClassMap.of(shuffled, policies) == ClassMap.of(classes, dict(reversed(policies.items())))


@given(st.data())
def test_what_remains_after_any_history_is_what_a_fresh_start_sees(data: st.DataObject) -> None:
    cache: dict[str, ClassView] = {}
    for name in data.draw(st.lists(st.sampled_from(CLASS_NAMES), max_size=12)):
        view = data.draw(views(name) | st.none())
        if view is None:
            cache.pop(name, None)
        else:
            cache[name] = view
        made = ClassMap.of(cache.values(), {})
        # Kubernetes issue 141103: a cache that is changed step by step forgot runners-up and implicit names.
        assert made == ClassMap.of([cache[key] for key in sorted(cache)], {})
        assert all(implicit_name(key) in made.names() for key in cache if len(key) <= 63)
