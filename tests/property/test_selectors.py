"""Selectors against their definition (metav1.LabelSelectorRequirement), over all labels of a small world."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.errors import InvalidInput
from drabridge.core.selectors import LabelSelector

KEYS = st.sampled_from(["a", "b", "example.com/c"])
VALUES = st.sampled_from(["", "1", "2"])
LABELS = st.dictionaries(KEYS, VALUES)
EXPRESSIONS = st.one_of(
    st.fixed_dictionaries(
        {"key": KEYS, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(VALUES, min_size=1)}
    ),
    st.fixed_dictionaries({"key": KEYS, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
)


def meets(labels: dict[str, str], expression: dict[str, Any]) -> bool:
    has = expression["key"] in labels
    listed = has and labels[expression["key"]] in expression.get("values", [])
    return {"In": listed, "NotIn": not listed, "Exists": has, "DoesNotExist": not has}[expression["operator"]]


@given(LABELS, st.lists(EXPRESSIONS, max_size=3), LABELS)
def test_a_selector_is_the_conjunction_of_its_requirements(
    wanted: dict[str, str], expressions: list[dict[str, Any]], labels: dict[str, str]
) -> None:
    selector = LabelSelector.parse({"matchLabels": wanted, "matchExpressions": expressions}, "Policy p", "spec.s")
    every = wanted.items() <= labels.items() and all(meets(labels, expression) for expression in expressions)
    assert selector.matches(labels) == every


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(
    st.fixed_dictionaries({}, optional={"matchLabels": JSON, "matchExpressions": JSON | st.lists(EXPRESSIONS | JSON)})
    | JSON
)
def test_anything_else_is_invalid_input_and_says_where(raw: Any) -> None:
    try:
        LabelSelector.parse(raw, "Policy p", "spec.s").matches({"a": ""})
    except InvalidInput as invalid:
        said = invalid
    else:
        assert raw is None or raw.keys() <= {"matchLabels", "matchExpressions"}
        return
    assert said.path.startswith("spec.s")
    assert str(said).isprintable()
