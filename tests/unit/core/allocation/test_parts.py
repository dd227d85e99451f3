"""The small parts: features, node selectors, read sets, tables, histories, flows, groups, constraints, settings."""

from __future__ import annotations

import random
from typing import Any

import pytest

from allocation_shapes import NODE, claim, device, device_class, plain, request, slice_of
from drabridge.core.allocation import constraints as rules
from drabridge.core.allocation.claims import Toleration
from drabridge.core.allocation.expressions import (
    DerivedProblem,
    attributes_read,
    derived_of,
    evaluate_derived,
    selector_of,
)
from drabridge.core.allocation.features import JSON_NAMES, Features, Flavour
from drabridge.core.allocation.flow import Network
from drabridge.core.allocation.groups import UNGROUPED, folded, joined
from drabridge.core.allocation.kinds import UNKNOWN, Attribute, attribute_value
from drabridge.core.allocation.nodes import Node, SelectorProblem, matches, on_node
from drabridge.core.allocation.persistent import History, Table
from drabridge.core.allocation.scenario import answer
from drabridge.core.allocation.settings import Settings
from drabridge.core.allocation.shapes import bitsets
from drabridge.core.allocation.techniques import Techniques
from drabridge.core.cel.derived import DerivedExpression
from drabridge.core.cel.device import DeviceView
from drabridge.core.cel.selector import CompileError, SelectorError

GATES = {
    "everything off": (Features.none(), Flavour.STABLE),
    "stock 1.37": (Features(), Flavour.INCUBATING),
    "everything on": (Features.all(), Flavour.EXPERIMENTAL),
    "what stable knows": (Features.of({"adminAccess": True, "deviceTaints": True}), Flavour.STABLE),
    "an alpha gate": (Features.of({"listTypeAttributes": True}), Flavour.EXPERIMENTAL),
}


@pytest.mark.parametrize(("features", "flavour"), GATES.values(), ids=GATES)
def test_the_flavour_that_a_cluster_runs(features: Features, flavour: Flavour) -> None:
    assert features.flavours()[0] == flavour
    assert features.flavours()[-1] == Flavour.EXPERIMENTAL


def test_features_by_their_names_in_scenarios() -> None:
    assert Features.of(dict.fromkeys(JSON_NAMES.values(), True)) == Features.all()
    with pytest.raises(KeyError):
        Features.of({"telepathy": True})
    assert Settings(Features.none()).rules != Settings(Features.all()).rules
    assert Settings(techniques=Techniques.none()).effort != Settings().effort
    assert not Techniques.none().bounds


WHERE = Node.of({"metadata": {"name": NODE, "labels": {"zone": "a", "gpus": "8", "odd": "x"}}})


def requirement(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


def named(operator: str, *values: str, key: str = "metadata.name") -> dict[str, Any]:
    return {"matchFields": [{"key": key, "operator": operator, "values": list(values)}]}


SELECTORS = {
    "In": ([requirement("zone", "In", "a", "b")], True),
    "In another": ([requirement("zone", "In", "b")], False),
    "NotIn": ([requirement("zone", "NotIn", "a")], False),
    "NotIn of a label that is not there": ([requirement("x", "NotIn", "a")], True),
    "Exists": ([requirement("zone", "Exists")], True),
    "DoesNotExist": ([requirement("zone", "DoesNotExist")], False),
    "Gt": ([requirement("gpus", "Gt", "7")], True),
    "Lt": ([requirement("gpus", "Lt", "8")], False),
    "Lt of no number": ([requirement("odd", "Lt", "8")], False),
    "Gt of a label that is not there": ([requirement("x", "Gt", "7")], False),
    "Gt of a number beyond int64": ([requirement("gpus", "Gt", str(2**62))], False),
    "no term": ([], False),
    "an empty term": ([{}], False),
    "one of two terms": ([requirement("zone", "In", "b"), requirement("zone", "In", "a")], True),
    "a name": ([named("In", NODE)], True),
    "not a name": ([named("NotIn", NODE)], False),
    "another field": ([named("In", NODE, key="metadata.uid")], False),
    "both": ([{**named("In", NODE), **requirement("zone", "In", "b")}], False),
}


@pytest.mark.parametrize(("terms", "selected"), SELECTORS.values(), ids=SELECTORS)
def test_node_selectors(terms: list[dict[str, Any]], selected: bool) -> None:
    assert matches({"nodeSelectorTerms": terms}, WHERE) is selected


BROKEN_SELECTORS = {
    "an unknown operator": requirement("zone", "Near", "a"),
    "In without values": requirement("zone", "In"),
    "Exists with values": requirement("zone", "Exists", "a"),
    "Gt of two": requirement("gpus", "Gt", "1", "2"),
    "Gt of no number": requirement("gpus", "Gt", "many"),
    "Lt beyond int64": requirement("gpus", "Lt", str(2**63)),
    "a key that is none": requirement("not a key", "Exists"),
    "a value that is none": requirement("zone", "In", "not a value"),
    "a field with an unknown operator": named("Exists"),
    "a field with two values": named("In", "a", "b"),
}


@pytest.mark.parametrize("term", BROKEN_SELECTORS.values(), ids=BROKEN_SELECTORS)
def test_broken_node_selectors_are_found_behind_what_matches(term: dict[str, Any]) -> None:
    with pytest.raises(SelectorProblem):
        matches({"nodeSelectorTerms": [requirement("zone", "In", "a"), term]}, WHERE)


def test_where_a_slice_is_for() -> None:
    assert on_node({"nodeName": NODE}, WHERE) is True
    assert on_node({"nodeName": "elsewhere", "allNodes": True}, WHERE) is False
    assert on_node({"nodeName": "", "allNodes": True}, WHERE) is True
    assert on_node({"allNodes": False}, WHERE) is None
    assert on_node({"nodeSelector": {"nodeSelectorTerms": []}}, WHERE) is False


D = "gpu.example.com"
READ = {
    "nothing": ("true", frozenset()),
    "the driver": ("device.driver == 'x'", frozenset()),
    "an attribute": (f"device.attributes['{D}'].model == 'a'", {(D, "model")}),
    "an attribute in brackets": (f"device.attributes['{D}']['model'] == 'a'", {(D, "model")}),
    "two": (f"device.attributes['{D}'].a == 1 || device.attributes['x'].b", {(D, "a"), ("x", "b")}),
    "an optional one": (f"device.attributes['{D}'].?model.orValue('x') == 'a'", {(D, "model")}),
    "a test": (f"has(device.attributes['{D}'].model)", {(D, "model")}),
    "a list": (f"device.attributes['{D}'].roots.exists(r, r == 'x')", {(D, "roots")}),
    "capacity": (f"device.capacity['{D}'].memory.compareTo(quantity('1Gi')) > 0", frozenset()),
    "all of a domain": (f"'model' in device.attributes['{D}']", None),
    "a computed key": (f"device.attributes['{D}'][device.driver] == 'x'", None),
    "the device itself": ("cel.bind(d, device, d.driver == 'x')", None),
    "what does not parse": ("device.", frozenset()),
}


@pytest.mark.parametrize(("expression", "read"), READ.values(), ids=READ)
def test_what_an_expression_can_see(expression: str, read: set[tuple[str, str]] | None) -> None:
    assert attributes_read(expression) == read


def test_expressions_that_do_not_compile_are_values() -> None:
    assert isinstance(selector_of("device.driver"), CompileError)
    assert isinstance(selector_of("device.driver == 'x'").matches(DeviceView.of("x", {})).matched, bool)  # type: ignore[union-attr]
    assert selector_of("true") is selector_of("true")


VIEW = DeviceView.of(D, device("d", model="a", index=3, healthy=True))

DERIVED = {
    "a string": (f"device.attributes['{D}'].model + 'x'", Attribute("string", frozenset({"ax"}), False)),
    "an int": (f"device.attributes['{D}'].index % 2", Attribute("int", frozenset({1}), False)),
    "a bool": (f"device.attributes['{D}'].healthy", Attribute("bool", frozenset({True}), False)),
    "a version": ("semver('1.2.3')", Attribute("version", frozenset({"1.2.3"}), False)),
    "a list": ("[device.driver, 'b']", Attribute("string", frozenset({D, "b"}), True)),
    "an empty list": (f"[device.attributes['{D}'].model].filter(m, m == 'b')", UNKNOWN),
    "an optional": (f"device.attributes['{D}'].?model.or(optional.of(dyn('b'))).orValue('c')",
                    Attribute("string", frozenset({"a"}), False)),
}  # fmt: skip


@pytest.mark.parametrize(("expression", "value"), DERIVED.values(), ids=DERIVED)
def test_derived_attributes(expression: str, value: Attribute) -> None:
    compiled = derived_of(expression)
    assert isinstance(compiled, DerivedExpression), compiled
    assert evaluate_derived(compiled, VIEW) == value


NOT_DERIVED = {
    "a missing key": (f"device.attributes['{D}'].nothing", "no such key: nothing"),
    "a double": ("dyn(1.5)", "unsupported CEL return type: float64"),
    "a map": ("dyn({'a': 1})", "unsupported CEL return type: "),
    "a list of doubles": ("dyn([1.5])", "unsupported list element type: float64"),
    "a mixed list": ("dyn([dyn(1), dyn('a')])", "expected list element at index 1 to be int, got string"),
    "nothing": ("dyn(optional.none())", "optional.none() dereference"),
}


@pytest.mark.parametrize(("expression", "problem"), NOT_DERIVED.values(), ids=NOT_DERIVED)
def test_derived_attributes_without_a_value(expression: str, problem: str) -> None:
    compiled = derived_of(expression)
    assert isinstance(compiled, DerivedExpression), compiled
    with pytest.raises(DerivedProblem) as error:
        evaluate_derived(compiled, VIEW)
    assert str(error.value).startswith(problem)


TYPES = {"double": "1.5", "uint": "1u", "null_type": "null", "map(string, int)": "{'a': 1}", "list(double)": "[1.5]"}


@pytest.mark.parametrize("type_", TYPES)
def test_derived_attributes_of_a_wrong_type(type_: str) -> None:
    problem = derived_of(TYPES[type_])
    assert isinstance(problem, CompileError)
    assert str(problem).endswith(f"or a list of these scalars, not {type_}")


@pytest.mark.parametrize("expression", ["device.", "'x'.matches('[')", "(" * 300, "x" * 11000])
def test_derived_attributes_that_do_not_compile(expression: str) -> None:
    assert isinstance(derived_of(expression), CompileError)


def test_a_derived_expression_that_costs_too_much_is_an_error() -> None:
    numbers = str(list(range(100)))
    nested = derived_of(f"{numbers}.all(a, {numbers}.all(b, {numbers}.all(c, a + b + c >= 0)))")
    assert isinstance(nested, DerivedExpression)
    with pytest.raises(SelectorError):
        nested.evaluate(VIEW, limit=1000)


def test_a_table_is_a_mapping_that_does_not_change() -> None:
    dice = random.Random(1)
    table, plain_dict = Table[str, int](), dict[str, int]()
    for _ in range(2000):
        key = f"k{dice.randrange(300)}"
        before = len(table)
        if dice.randrange(3):
            table, plain_dict = table.set(key, before), {**plain_dict, key: before}
        else:
            table = table.remove(key)
            plain_dict.pop(key, None)
        assert len(table) == len(plain_dict)
    assert {key: table.get(key) for key in table} == plain_dict
    assert sorted(table.values()) == sorted(plain_dict.values())
    assert table == Table.of(plain_dict)
    assert table != Table.of({})
    assert table.get("never") is None


def test_a_history_knows_what_changed_since() -> None:
    first = History[str]()
    second = first.after("a")
    third = second.after("b", "c")
    assert third.since(third) == []
    assert third.since(second) == ["b", "c"]
    assert sorted(third.since(first) or []) == ["a", "b", "c"]
    assert first.since(third) is None
    assert second.after("x").since(third) is None
    long = first
    for number in range(100):
        long = long.after(str(number))
    assert long.since(first) is None


def test_a_flow_finds_ways_round() -> None:
    network = Network(6)  # 2, 3: requests; 4, 5: devices
    network.arc(0, 2, 1)
    network.arc(0, 3, 1)
    network.arc(2, 4, 1)
    network.arc(2, 5, 1)
    network.arc(3, 4, 1)
    network.arc(4, 1, 1)
    network.arc(5, 1, 1)
    assert network.largest_flow() == 2


A, B, AB = frozenset("a"), frozenset("b"), frozenset("ab")
GROUPS = {
    "the first sets it": (None, A, True, A),
    "the first without any": (None, frozenset(), True, UNGROUPED),
    "another without any": (UNGROUPED, frozenset(), True, UNGROUPED),
    "one with groups beside them": (UNGROUPED, A, False, UNGROUPED),
    "one without groups beside one with": (A, frozenset(), False, A),
    "a common group": (AB, B, True, B),
    "no common group": (A, B, False, frozenset()),
    "the group that all members share": (frozenset(), A, False, frozenset()),
}


@pytest.mark.parametrize(("state", "groups", "fits", "after"), GROUPS.values(), ids=GROUPS)
def test_compatibility_groups(state: Any, groups: frozenset[str], fits: bool, after: Any) -> None:
    assert joined(state, groups) == (fits, after)


def test_allocated_members_are_never_refused() -> None:
    assert folded(None, A) == A
    assert folded(None, frozenset()) is UNGROUPED
    assert folded(UNGROUPED, A) is UNGROUPED
    assert folded(A, frozenset()) == A
    assert folded(A, B) == frozenset()


def value(**raw: Any) -> Attribute:
    return attribute_value(raw)


ONE, TWO, TEXT, LIST, ODD = value(int=1), value(int=2), value(string="1"), value(ints=[1, 2]), value()

CONSTRAINTS: dict[str, tuple[tuple[bool, bool], list[Attribute], int]] = {
    "match: equal values": ((True, False), [ONE, ONE, TWO], 2),
    "match: types differ": ((True, False), [ONE, TEXT], 1),
    "match: true is not 1": ((True, False), [ONE, value(bool=True)], 1),
    "match: a list first": ((True, False), [LIST, LIST], 1),
    "match: a list later": ((True, False), [ONE, LIST], 1),
    "match: nothing known first": ((True, False), [ODD, ONE], 1),
    "match sets: an element in common": ((True, True), [LIST, ONE, TWO], 2),
    "match sets: nothing known": ((True, True), [ODD], 0),
    "match sets: types differ": ((True, True), [ONE, TEXT], 1),
    "distinct: different values": ((False, False), [ONE, TWO, TEXT, TWO], 3),
    "distinct: a list is accepted first only": ((False, False), [LIST, ONE, TWO, LIST], 3),
    "distinct: nothing known later": ((False, False), [ONE, ODD], 1),
    "distinct sets: nothing in common": ((False, True), [ONE, value(ints=[2, 3]), TWO], 2),
    "distinct sets: nothing known": ((False, True), [ODD], 0),
}


@pytest.mark.parametrize(("kind", "values", "accepted"), CONSTRAINTS.values(), ids=CONSTRAINTS)
def test_constraints(kind: tuple[bool, bool], values: list[Attribute], accepted: int) -> None:
    state: Any = None
    count = 0
    for each in values:
        state = rules.RULES[kind](state, each)
        if state is rules.REFUSED:
            break
        count += 1
    assert count == accepted


TAINT = ("key", "value", "NoSchedule")
TOLERATIONS = {
    "the same": (Toleration("key", "Equal", "value", "NoSchedule"), True),
    "no operator means Equal": (Toleration("key", "", "value", "NoSchedule"), True),
    "another value": (Toleration("key", "Equal", "x", ""), False),
    "Exists": (Toleration("key", "Exists", "", ""), True),
    "another key": (Toleration("x", "Exists", "", ""), False),
    "another effect": (Toleration("key", "Exists", "", "NoExecute"), False),
    "an empty key compares values": (Toleration("", "Equal", "value", ""), True),
    "an unknown operator": (Toleration("key", "Near", "value", ""), False),
}


@pytest.mark.parametrize(("toleration", "covered"), TOLERATIONS.values(), ids=TOLERATIONS)
def test_tolerations(toleration: Toleration, covered: bool) -> None:
    assert toleration.covers(*TAINT) is covered


@pytest.mark.parametrize(("size", "count"), [(3, 1), (10, 3), (600, 3), (600, 100)])
def test_bitsets(size: int, count: int) -> None:
    dice = random.Random(size)
    numbers = tuple(dice.randrange(count) for _ in range(size))
    wanted = tuple(sum(1 << place for place, number in enumerate(numbers) if number == n) for n in range(count))
    assert bitsets(numbers, count) == wanted


AMOUNTS = {
    "a default that is not in its own range": ({"default": "12", "validRange": {"min": "1", "max": "8"}}, None, "12"),
    "the same default in other words is no exception": (
        {"default": "12", "validRange": {"min": "1", "max": "8"}}, "12000m", None,
    ),
    "a default of many digits is no exception": (
        {"default": "10Pi", "validRange": {"min": "1", "max": "8"}}, None, None,
    ),
    "below the minimum": ({"default": "4", "validRange": {"min": "2"}}, "1", "2"),
    "a value that is not among the valid ones": ({"default": "4", "validValues": ["2", "4"]}, "5", None),
    "the next valid value": ({"default": "4", "validValues": ["4", "2"]}, "3", "4"),
    "off the steps": ({"default": "3", "validRange": {"min": "2", "step": "2"}}, None, "3"),
    "a fraction of a whole range": ({"default": "2", "validRange": {"min": "2", "step": "2"}}, "2500m", "4"),
    "a default off the thousandths": (
        {"default": "1u", "validRange": {"min": "1m", "step": "1m"}}, None, "1u",
    ),
    "finer than a thousandth": ({"default": "1", "validRange": {"min": "1m", "step": "1m"}}, "1500u", "error"),
    "more than int64": ({"default": "1", "validRange": {"min": "1", "step": "1"}}, "10E", "error"),
    "negative": ({"default": "1"}, "-1", "error"),
    "no policy, no request": (None, None, "16"),
    "a policy that says nothing": ({}, None, "16"),
}  # fmt: skip


@pytest.mark.parametrize(("policy", "asked", "given"), AMOUNTS.values(), ids=AMOUNTS)
def test_what_a_request_consumes(policy: dict[str, Any] | None, asked: str | None, given: str | None) -> None:
    capacity: dict[str, Any] = {"value": "16"} if policy is None else {"value": "16", "requestPolicy": policy}
    more = {} if asked is None else {"capacity": {"requests": {"c": asked}}}
    shared = {**device("d"), "allowMultipleAllocations": True, "capacity": {"c": capacity}}
    found = answer(
        {
            "features": {"consumableCapacity": True, "fractionalCapacityRange": True},
            "classes": [device_class()],
            "slices": [slice_of([shared])],
            "node": {"metadata": {"name": NODE}},
            "claims": [claim(request("r", **more))],
        }
    )
    if given == "error":
        assert found["error"].startswith("claim default/claim-0, request r: checking capacity for device ")
    elif given is None:
        assert (found["results"], found["error"]) == (None, None)
    else:
        assert found["results"][0]["devices"]["results"][0]["consumedCapacity"] == {"c": given}


def test_a_claim_may_be_empty_and_a_pod_may_have_none() -> None:
    base = {"classes": [], "slices": [slice_of(plain(1))], "node": {"metadata": {"name": NODE}}}
    assert answer(base)["results"] == []
    assert answer({**base, "claims": [claim()]})["results"] == [{"devices": {}}]
