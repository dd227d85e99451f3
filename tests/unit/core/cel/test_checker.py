"""Types: what an expression is, and what the checker says if it is nothing."""

from __future__ import annotations

import pytest

from drabridge.core.cel.checker import check
from drabridge.core.cel.diagnostics import SourceError
from drabridge.core.cel.environment import new_expressions, stored_expressions
from drabridge.core.cel.parser import parse
from drabridge.core.cel.types import DYN, INT, STRING, Type, list_of, map_of, parameter, wrapper_of
from drabridge.core.cel.unification import Bindings, described, equivalent
from drabridge.core.cel.validation import validate

TYPES = {
    "the driver is a string": ("device.driver", "string"),
    "attributes are maps of maps": ("device.attributes", "map(string, map(string, dyn))"),
    "a domain of attributes": ("device.attributes['d']", "map(string, dyn)"),
    "an attribute": ("device.attributes['d'].a", "dyn"),
    "a capacity is a quantity": ("device.capacity['d'].a", "kubernetes.Quantity"),
    "an optional capacity": ("device.capacity['d'].?a", "optional_type(kubernetes.Quantity)"),
    "a selection from an optional stays optional": ("device.capacity.?d.a", "optional_type(kubernetes.Quantity)"),
    "an index of an optional stays optional": ("optional.of([1])[0]", "optional_type(int)"),
    "sums of dyn and text are text": ("device.attributes['d'].a + 'x'", "string"),
    "sums of dyn are dyn": ("dyn(1) + dyn(2)", "dyn"),
    "comparisons are bools": ("dyn(1) < 2.5", "bool"),
    "a list of nothing": ("[]", "list(dyn)"),
    "a list takes the type of what it is compared with": ("[] == [1] ? [] : [2]", "list(int)"),
    "a map": ("{'a': [1]}", "map(string, list(int))"),
    "a map of nothing": ("{}", "map(dyn, dyn)"),
    "the type of a type": ("type(1)", "type(int)"),
    "a type's name": ("int", "type(int)"),
    "a ternary": ("true ? 1 : 2", "int"),
    "a ternary with dyn": ("true ? 1 : dyn(2)", "dyn"),
    "has() is a bool": ("has(device.attributes.x)", "bool"),
    "map() of a list": ("[1].map(x, string(x))", "list(string)"),
    "map() of a map goes over its keys": ("{'a': 1}.map(k, k)", "list(string)"),
    "two variables of a list": ("['a'].transformList(i, v, i)", "list(int)"),
    "two variables of a map": ("{'a': 1}.transformMap(k, v, [v])", "map(string, list(int))"),
    "a bound name": ("cel.bind(x, 1u, x + x)", "uint"),
    "a name hides the device": ("[1].exists(device, device == 1)", "bool"),
    "a dot finds it again": ("['a'].all(device, .device.driver == device)", "bool"),
    "a message": ("google.protobuf.Duration{seconds: 1}", "google.protobuf.Duration"),
    "a wrapper": ("google.protobuf.Int64Value{value: 1}", "wrapper(int)"),
    "the first of a list": ("[1].first()", "optional_type(int)"),
    "an enum value": ("google.protobuf.NullValue.NULL_VALUE", "int"),
    "null fits an optional": ("optional.none() == null", "bool"),
    "literals in format() may differ in type": ("'%s %d'.format(['a', 1])", "string"),
}


@pytest.mark.parametrize(("source", "type_"), TYPES.values(), ids=TYPES)
def test_an_expression_has_the_type(source: str, type_: str) -> None:
    checked = check(parse(source), stored_expressions())
    validate(checked)
    assert str(checked.types[checked.root.id]) == type_


WRONG = {
    "an unknown name": ("x == 1", ["1:1: undeclared reference to 'x' (in container '')"]),
    "an unknown function": ("f(1)", ["1:2: undeclared reference to 'f' (in container '')"]),
    "an unknown method": ("'a'.f()", ["1:6: undeclared reference to 'f' (in container '')"]),
    "both": ("x.f()", ["1:1: undeclared reference to 'x'", "1:4: undeclared reference to 'f'"]),
    "an unknown field": ("device.name", ["1:7: undefined field 'name'"]),
    "no overload of an operator": ("1 + 'a'", ["1:3: found no matching overload for '_+_' applied to '(int, string)'"]),
    "no overload of a method": (
        "'a'.size(1)",
        ["1:9: found no matching overload for 'size' applied to 'string.(int)'"],
    ),
    "equality of other types": ("1 == 'a'", ["1:3: found no matching overload for '_==_' applied to '(int, string)'"]),
    "equality of other numbers": (
        "1 == 1.0",
        ["1:3: found no matching overload for '_==_' applied to '(int, double)'"],
    ),
    "an index on an object": ("device['driver']", ["'_[_]' applied to '(kubernetes.DRADevice, string)'"]),
    "an index of another type": (
        "[1]['a']",
        ["1:4: found no matching overload for '_[_]' applied to '(list(int), string)'"],
    ),
    "a field of a number": ("(1).a", ["1:4: type 'int' does not support field selection"]),
    "a field of a quantity": ("quantity('1').a", ["1:14: unexpected failed resolution of 'kubernetes.Quantity'"]),
    "a field of a timestamp": ("timestamp(0).a", ["1:13: type 'timestamp' does not support field selection"]),
    "logic of a number": ("true && 1", ["1:9: expected type 'bool' but found 'int'"]),
    "a predicate that is none": ("[1].all(x, x)", ["1:12: expected type 'bool' but found 'int'"]),
    "a loop over a number": ("1.all(x, true)", ["expression of type 'int' cannot be range of a comprehension"]),
    "an element that is no optional": ("[?1]", ["1:3: expected type 'optional_type(int)' but found 'int'"]),
    "a value that is no optional": ("{?'a': 1}", ["1:8: expected type 'optional_type(int)' but found 'int'"]),
    "mixed lists": ("[1, 'a', 2u]", ["1:5: expected type 'int' but found 'string'"]),
    "mixed keys": ("{1: 1, 'a': 2}", ["1:8: expected type 'int' but found 'string'"]),
    "mixed values": ("{1: 1, 2: dyn(2)}", ["1:14: expected type 'int' but found 'dyn'"]),
    "a null among others": ("[1, null]", ["1:5: expected type 'int' but found 'null'"]),
    "an unknown message": ("a.B{}", ["1:4: undeclared reference to 'a.B' (in container '')"]),
    "a message of a type that is none": ("int{}", ["1:4: 'int' is not a message type"]),
    "an unknown field of a message": ("google.protobuf.Duration{a: 1}", ["1:27: undefined field 'a'"]),
    "a field of another type": (
        "google.protobuf.Duration{seconds: 'a'}",
        ["1:33: expected type of field 'seconds' is 'int' but provided type is 'string'"],
    ),
    "an optional field that is none": ("google.protobuf.Duration{?seconds: 1}", ["expected type 'optional_type(int)'"]),
    "an unreadable duration": ("duration('x')", ["1:10: invalid duration argument"]),
    "an unreadable timestamp": ("timestamp('x')", ["1:11: invalid timestamp argument"]),
    "a timestamp out of range": ("timestamp('0000-01-01T00:00:00Z')", ["1:11: invalid timestamp argument"]),
    "a broken pattern": ("'a'.matches('[')", ["1:13: invalid matches argument"]),
    "the first argument of the other form of matches()": ("matches('[', 'a')", ["1:9: invalid matches argument"]),
    "format() with too few arguments": ("'%d'.format([])", ["index 0 out of range"]),
    "format() with an argument of another type": (
        "'%d'.format(['a'])",
        ["decimal clause can only be used on integers"],
    ),
    "an authorizer": ("authorizer.path('/').check('get').allowed()", ["1:1: undeclared reference to 'authorizer'"]),
}


@pytest.mark.parametrize(("source", "messages"), WRONG.values(), ids=WRONG)
def test_an_expression_is_refused(source: str, messages: list[str]) -> None:
    with pytest.raises(SourceError) as refused:
        validate(check(parse(source), stored_expressions()))
    text = str(refused.value)
    assert [message for message in messages if message not in text] == []
    assert text.count("ERROR:") == len(messages)


def test_new_expressions_know_what_the_gates_allow() -> None:
    bare = new_expressions(consumable_capacity=False, list_attributes=False)
    full = new_expressions(consumable_capacity=True, list_attributes=True)
    for source in ("device.allowMultipleAllocations", "device.attributes['d'].a.includes(1)"):
        check(parse(source), full)
        with pytest.raises(SourceError):
            check(parse(source), bare)


def test_an_attribute_of_unknown_type_is_no_list_without_the_gate() -> None:
    bare = new_expressions(consumable_capacity=False, list_attributes=False)
    with pytest.raises(SourceError, match="expression of type 'any' cannot be range"):
        check(parse("device.attributes['d'].a.all(x, true)"), bare)


def test_a_try_that_fails_leaves_no_trace() -> None:
    bindings = Bindings()
    free = bindings.fresh()
    assert not bindings.all_assignable((INT, STRING), (free, INT))
    assert bindings.substitute(free) == free
    assert bindings.all_assignable((INT, STRING), (free, STRING))
    assert bindings.substitute(free) == INT


def test_a_parameter_does_not_stand_for_what_holds_it() -> None:
    bindings = Bindings()
    free = bindings.fresh()
    assert not bindings.assignable(list_of(free), free)
    assert bindings.substitute(free, free_to_dyn=True) == DYN


def test_a_parameter_takes_the_more_general_type() -> None:
    bindings = Bindings()
    free = bindings.fresh()
    assert bindings.assignable(list_of(INT), free)
    assert bindings.assignable(list_of(DYN), free)
    assert bindings.substitute(free) == list_of(DYN)


DESCRIBED = {
    "any": Type("google.protobuf.Any"),
    "duration": Type("google.protobuf.Duration"),
    "map(string, timestamp)": map_of(STRING, Type("google.protobuf.Timestamp")),
    "A": parameter("A"),
}


@pytest.mark.parametrize(("text", "type_"), DESCRIBED.items(), ids=DESCRIBED)
def test_a_type_is_described_as_upstream_does(text: str, type_: Type) -> None:
    assert described(type_) == text


def test_wrappers_and_parameters_are_equivalent_to_what_they_may_stand_for() -> None:
    assert equivalent(wrapper_of(INT), INT)
    assert equivalent(list_of(parameter("A")), list_of(parameter("B")))
    assert not equivalent(list_of(INT), list_of(DYN))
    assert not equivalent(parameter("A"), INT)
