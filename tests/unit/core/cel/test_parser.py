"""Trees: precedence, macros, places of errors, and limits on nesting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.cel import ast
from drabridge.core.cel.diagnostics import MOST_ISSUES, Issue, SourceError, display
from drabridge.core.cel.parser import parse


def shown(node: ast.Node) -> str:
    """Write a tree so that one sees its shape."""
    match node:
        case ast.Literal():
            return repr(node.value)
        case ast.Ident():
            return node.name
        case ast.Select():
            return f"{'has ' if node.test_only else ''}{shown(node.operand)}.{node.field}"
        case ast.Call():
            target = f"{shown(node.target)}." if node.target is not None else ""
            return f"{target}{node.function}({', '.join(map(shown, node.args))})"
        case ast.ListLiteral():
            return (
                f"[{', '.join(('?' if i in node.optionals else '') + shown(e) for i, e in enumerate(node.elements))}]"
            )
        case ast.MapLiteral():
            return f"{{{', '.join(_entry(e) for e in node.entries)}}}"
        case ast.Message():
            return f"{node.type_name}{{{', '.join(_entry(e) for e in node.fields)}}}"
        case ast.Comprehension():
            names = ", ".join(filter(None, (node.variable, node.second)))
            parts = (node.range, node.init, node.condition, node.step, node.result)
            return f"fold({names}; {node.accumulator}; {'; '.join(map(shown, parts))})"


def _entry(entry: ast.Entry) -> str:
    return f"{'?' if entry.optional else ''}{shown(entry.key)}: {shown(entry.value)}"


TREES = {
    "products bind tighter than sums": ("1 + 2 * 3", "_+_(1, _*_(2, 3))"),
    "operators of one precedence go from the left": ("1 - 2 - 3", "_-_(_-_(1, 2), 3)"),
    "comparisons bind looser than sums": ("1 + 2 < 3", "_<_(_+_(1, 2), 3)"),
    "in is a comparison": ("1 in x == y", "_==_(@in(1, x), y)"),
    "&& binds tighter than ||": ("a || b && c", "_||_(a, _&&_(b, c))"),
    "chains of && are balanced": ("a && b && c && d", "_&&_(_&&_(a, b), _&&_(c, d))"),
    "ternaries nest to the right": ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
    "a ternary may stand in brackets inside": ("a ? (b ? c : d) : e", "_?_:_(a, _?_:_(b, c, d), e)"),
    "an even number of ! is none": ("!!a", "a"),
    "an odd number is one": ("!!!a", "!_(a)"),
    "a minus belongs to a number": ("-1", "-1"),
    "two of them do not": ("--1", "1"),
    "a minus before a name": ("-a", "-_(a)"),
    "a minus between numbers": ("1 -1", "_-_(1, 1)"),
    "the smallest integer": ("-9223372036854775808", "-9223372036854775808"),
    "brackets": ("(1 + 2) * 3", "_*_(_+_(1, 2), 3)"),
    "selections, indices and calls": ("a.b['c'].d(1, 2)", "_[_](a.b, 'c').d(1, 2)"),
    "optional selections": ("a.?b[?'c']", "_[?_](_?._(a, 'b'), 'c')"),
    "escaped names": ("a.`b-c/d`", "a.b-c/d"),
    "names that are reserved only as variables": ("a.package", "a.package"),
    "a leading dot": (".a.b", ".a.b"),
    "a function": (".f(1)", ".f(1)"),
    "lists with optional elements": ("[1, ?a]", "[1, ?a]"),
    "a comma at the end of a list": ("[1,]", "[1]"),
    "a comma in an empty list": ("[,]", "[]"),
    "maps": ("{'a': 1, ?'b': c,}", "{'a': 1, ?'b': c}"),
    "a comma in an empty map": ("{,}", "{}"),
    "messages": ("a.B{c: 1, ?`d`: 2}", "a.B{'c': 1, ?'d': 2}"),
    "messages with a leading dot": (".a.B{}", ".a.B{}"),
    "comments": ("1 // + 2\n + 3", "_+_(1, 3)"),
    "has()": ("has(a.b)", "has a.b"),
    "has() with two arguments is a function": ("has(a.b, 1)", "has(a.b, 1)"),
    "all()": ("a.all(x, p)", "fold(x; @result; a; True; @not_strictly_false(@result); _&&_(@result, p); @result)"),
    "exists()": (
        "a.exists(x, p)",
        "fold(x; @result; a; False; @not_strictly_false(!_(@result)); _||_(@result, p); @result)",
    ),
    "exists_one()": (
        "a.exists_one(x, p)",
        "fold(x; @result; a; 0; True; _?_:_(p, _+_(@result, 1), @result); _==_(@result, 1))",
    ),
    "map()": ("a.map(x, f)", "fold(x; @result; a; []; True; _+_(@result, [f]); @result)"),
    "map() with a filter": (
        "a.map(x, p, f)",
        "fold(x; @result; a; []; True; _?_:_(p, _+_(@result, [f]), @result); @result)",
    ),
    "filter()": ("a.filter(x, p)", "fold(x; @result; a; []; True; _?_:_(p, _+_(@result, [x]), @result); @result)"),
    "all() with two variables": (
        "a.all(k, v, p)",
        "fold(k, v; @result; a; True; @not_strictly_false(@result); _&&_(@result, p); @result)",
    ),
    "transformMap()": (
        "a.transformMap(k, v, f)",
        "fold(k, v; @result; a; {}; True; cel.@mapInsert(@result, k, f); @result)",
    ),
    "transformMapEntry() with a filter": (
        "a.transformMapEntry(k, v, p, e)",
        "fold(k, v; @result; a; {}; True; _?_:_(p, cel.@mapInsert(@result, e), @result); @result)",
    ),
    "transformList()": ("a.transformList(i, v, f)", "fold(i, v; @result; a; []; True; _+_(@result, [f]); @result)"),
    "cel.bind()": ("cel.bind(x, a, b)", "fold(#unused; x; []; a; False; x; b)"),
    "bind() of something else is a call": ("a.bind(x, a, b)", "a.bind(x, a, b)"),
    "optMap()": (
        "a.optMap(x, f)",
        "_?_:_(a.hasValue(), optional.of(fold(#unused; x; []; a.value(); False; x; f)), optional.none())",
    ),
    "optFlatMap()": (
        "a.optFlatMap(x, f)",
        "_?_:_(a.hasValue(), fold(#unused; x; []; a.value(); False; x; f), optional.none())",
    ),
}


@pytest.mark.parametrize(("source", "tree"), TREES.values(), ids=TREES)
def test_an_expression_has_the_tree(source: str, tree: str) -> None:
    assert shown(parse(source).root) == tree


WRONG = {
    "nothing": ("", "1:0: Syntax error: mismatched input '<EOF>' expecting"),
    "something behind the end": ("1 2", "1:3: Syntax error: extraneous input '2' expecting <EOF>"),
    "a bracket that is not closed": ("(1", "1:3: Syntax error: mismatched input '<EOF>' expecting ')'"),
    "a ternary without its end": ("a ? b", "1:6: Syntax error: mismatched input '<EOF>' expecting ':'"),
    "a ternary as the middle of another": (
        "a ? b ? c : d : e",
        "1:7: Syntax error: mismatched input '?' expecting ':'",
    ),
    "a colon without a ternary": ("a : b", "1:3: Syntax error: mismatched input ':' expecting <EOF>"),
    "a dot without a name": ("a.", "1:3: Syntax error: no viable alternative at input '.<EOF>'"),
    "true as a field": ("a.true", "1:3: Syntax error: no viable alternative at input '.true'"),
    "a leading dot without a name": (".1a", "1:3: Syntax error"),
    "a name in backticks as a variable": ("`a`", "1:1: Syntax error: mismatched input '`a`' expecting"),
    "a minus and a !": ("-!a", "1:2: Syntax error: extraneous input '!' expecting"),
    "a reserved word": ("1 == while", "1:6: reserved identifier: while"),
    "a reserved word as a function": ("loop(1)", "1:1: reserved identifier: loop"),
    "an integer out of range": ("1 == 9223372036854775808", "1:6: invalid int literal"),
    "the line and the column": ("1 ==\n\t&& 2", "2:2: Syntax error"),
    "has() of something else": ("has(a)", "1:5: invalid argument to has() macro"),
    "has() of a test": ("has(has(a.b))", "1:8: invalid argument to has() macro"),
    "a loop's variable that is no name": ("a.all(1, true)", "1:7: argument must be a simple name"),
    "map() with a variable that is no name": ("a.map(x.y, 1)", "1:8: argument is not an identifier"),
    "two variables of one name": ("a.all(x, x, true)", "1:10: duplicate variable name: x"),
    "a second variable that is no name": ("a.all(x, 1, true)", "1:10: argument must be a simple name"),
    "the accumulator as a variable": ("a.all(__result__, true)", "1:7: iteration variable overwrites accumulator"),
    "cel.bind() of no name": ("cel.bind(1, 2, 3)", "1:10: cel.bind() variable names must be simple identifiers"),
    "optMap() of no name": ("a.optMap(1, 2)", "1:10: optMap() variable name must be a simple identifier"),
    "sortBy() of a literal": ("'a'.sortBy(x, x)", "1:1: sortBy can only be applied to a list, identifier"),
}


@pytest.mark.parametrize(("source", "message"), WRONG.values(), ids=WRONG)
def test_an_expression_is_refused(source: str, message: str) -> None:
    with pytest.raises(SourceError) as refused:
        parse(source)
    assert f"ERROR: <input>:{message}" in str(refused.value)


def test_errors_of_macros_and_names_come_together_in_the_order_of_their_places() -> None:
    with pytest.raises(SourceError) as refused:
        parse("has(1) && while")
    assert str(refused.value) == (
        "ERROR: <input>:1:5: invalid argument to has() macro\n | has(1) && while\n | ....^\n"
        "ERROR: <input>:1:11: reserved identifier: while\n | has(1) && while\n | ..........^"
    )


DEEPEST = {
    "brackets": ("(" * 249 + "1" + ")" * 249, "(" * 250 + "1" + ")" * 250),
    "lists": ("[" * 249 + "]" * 249, "[" * 251 + "]" * 251),
    "sums": ("1" + "+1" * 250, "1" + "+1" * 251),
    "selections": ("a" + ".b" * 250, "a" + ".b" * 251),
    "calls": ("a" + ".b()" * 250, "a" + ".b()" * 251),
    "indices": ("a" + "[0]" * 250, "a" + "[0]" * 251),
    "ternaries": ("a ? b : " * 249 + "c", "a ? b : " * 250 + "c"),
    "mixed": ("f(" * 125 + "1" + ".a" * 250 + ")" * 125, "f(" * 125 + "(1" + ".a" * 250 + " + 1)" + ")" * 125),
}


@pytest.mark.parametrize(("within", "beyond"), DEEPEST.values(), ids=DEEPEST)
def test_nesting_is_limited_as_upstream_does_it(within: str, beyond: str) -> None:
    parse(within)
    with pytest.raises(SourceError, match="recursion"):
        parse(beyond)


def test_chains_of_logic_are_not_nesting() -> None:
    parse("true" + " && true" * 1000 + " || false" * 200)


def test_macros_that_copy_are_limited() -> None:
    with pytest.raises(SourceError, match="expands to more than 20000 nodes"):
        parse("optional.of(1)" + ".optMap(x, x)" * 40)


def test_a_long_list_of_issues_is_cut() -> None:
    text = display("a", [Issue(0, "wrong")] * (MOST_ISSUES + 2))
    assert text.count("wrong") == MOST_ISSUES
    assert text.endswith("\n2 more errors were truncated")


def test_wide_characters_are_marked_by_wide_dots() -> None:
    assert display("é\tü", [Issue(2, "wrong")]) == "ERROR: <input>:1:3: wrong\n | é ü\n | \uff0e.\uff3e"


_ALPHABET = st.sampled_from(
    ["a", "1", "'s'", "(", ")", "[", "]", "{", "}", ",", ":", "?", ".", "!", "-", "&&", "in", " "]
)


@given(st.lists(_ALPHABET, max_size=25).map("".join))
def test_any_sequence_of_tokens_parses_or_is_a_source_error(source: str) -> None:
    try:
        parsed = parse(source)
    except SourceError:
        return
    assert all(0 <= parsed.offsets[node.id] <= len(source) for node in ast.walk(parsed.root))
