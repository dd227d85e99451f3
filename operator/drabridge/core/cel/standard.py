"""CEL's standard library: the declarations of cel-go's common/stdlib, with the functions behind them.

Overloads stand in cel-go's order: where the type of an argument is open, the first one that fits decides it.

`==`, `!=`, `&&`, `||`, `?:` and the index operators are declared for the checker only: the compiler knows them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from drabridge.core.cel import conversions, cost, operators, regex, times
from drabridge.core.cel.declarations import Cost, Function, Library, Overload, unit
from drabridge.core.cel.regex import InvalidRegex, Pattern
from drabridge.core.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    UINT,
    Type,
    list_of,
    map_of,
    optional_of,
    parameter,
    type_of,
)
from drabridge.core.cel.values import CelError, Duration, Timestamp

A, B, K, V = map(parameter, "ABKV")
LIST, MAP = list_of(A), map_of(A, B)

Call = Callable[..., Any]


def _compiled(*_: Any) -> Any:
    """Stand for an operator that the compiler writes out."""
    raise CelError(operators.NO_OVERLOAD)


def _operator(
    name: str, call: Call, *rows: tuple[str, tuple[Type, ...], Type] | tuple[str, tuple[Type, ...], Type, Cost]
) -> Function:
    """Declare an operator: one function for all its overloads, which looks at its arguments itself."""
    return Function(
        name,
        tuple(
            Overload(row[0], row[1], row[2], call, cost=row[3] if len(row) > 3 else unit, guarded=False) for row in rows
        ),
    )


_DOUBLES: Final = ("double", (DOUBLE, DOUBLE), DOUBLE)
_INTS: Final = ("int64", (INT, INT), INT)
_UINTS: Final = ("uint64", (UINT, UINT), UINT)


def _arithmetic(name: str, call: Call, word: str, *rows: Any) -> Function:
    """Declare an operator on numbers and others; the word goes before the names in the rows."""
    return _operator(name, call, *((f"{word}_{row[0]}", *row[1:]) for row in rows))


_NUMERIC: Final = (
    (INT, "int64", ((INT, "int64"), (DOUBLE, "double"), (UINT, "uint64"))),
    (UINT, "uint64", ((UINT, "uint64"), (DOUBLE, "double"), (INT, "int64"))),
    (DOUBLE, "double", ((DOUBLE, "double"), (INT, "int64"), (UINT, "uint64"))),
)


def _relation(name: str, call: Call, word: str) -> Function:
    rows: list[Any] = [(f"{word}_bool", (BOOL, BOOL), BOOL)]
    for left, left_name, rights in _NUMERIC:
        for right, right_name in rights:
            tail = left_name if left is right else f"{left_name}_{right_name}"
            rows.append((f"{word}_{tail}", (left, right), BOOL))
    rows += [
        (f"{word}_string", (STRING, STRING), BOOL, cost.equality),
        (f"{word}_bytes", (BYTES, BYTES), BOOL, cost.equality),
        (f"{word}_timestamp", (TIMESTAMP, TIMESTAMP), BOOL),
        (f"{word}_duration", (DURATION, DURATION), BOOL),
    ]
    return _operator(name, call, *rows)


def _conversion(name: str, result: Type, call: Call, *sources: Type, priced: Type | None = None) -> Function:
    return Function(
        name,
        tuple(
            Overload(f"{source.name}_to_{name}", (source,), result, call, cost=cost.first if source is priced else unit)
            for source in sources
        ),
    )


def _text(test: Callable[[str, str], bool]) -> Call:
    def tested(text: Any, part: Any) -> bool:
        if isinstance(text, str) and isinstance(part, str):
            return test(text, part)
        raise CelError(operators.NO_OVERLOAD)

    return tested


def _text_function(name: str, test: Callable[[str, str], bool], price: Cost) -> Function:
    overload = Overload(f"{name}_string", (STRING, STRING), BOOL, _text(test), member=True, cost=price, guarded=False)
    return Function(name, (overload,))


def matches(text: Any, pattern: Any) -> bool:
    """Say whether a pattern of RE2 is found in a text. Raises CelError for other types and broken patterns."""
    if isinstance(pattern, Pattern):
        return pattern.matches(text)
    if not isinstance(text, str):
        if text.__class__ in (Timestamp, Duration):
            raise CelError(operators.NO_OVERLOAD)
        raise CelError(f"{operators.NO_OVERLOAD}: matches")
    if not isinstance(pattern, str):
        raise CelError(operators.NO_OVERLOAD)
    try:
        return regex.pattern(pattern).matches(text)
    except InvalidRegex as error:
        raise CelError(str(error)) from None


_MATCHES: Final = Overload(
    "matches_string",
    (STRING, STRING),
    BOOL,
    matches,
    member=True,
    cost=cost.match,
    guarded=False,
)


def _sizes() -> Function:
    overloads = []
    for type_, word in ((BYTES, "bytes"), (LIST, "list"), (MAP, "map"), (STRING, "string")):
        overloads.append(Overload(f"size_{word}", (type_,), INT, operators.size, guarded=False))
        overloads.append(Overload(f"{word}_size", (type_,), INT, operators.size, member=True, guarded=False))
    return Function("size", tuple(overloads))


def _time_fields() -> list[Function]:
    functions = []
    for name in times.FIELDS:
        call = times.timestamp_field(name)
        overloads = [
            Overload(f"timestamp_{name}", (TIMESTAMP,), INT, call, member=True),
            Overload(f"timestamp_{name}_with_tz", (TIMESTAMP, STRING), INT, call, member=True),
        ]
        if name in times.DURATION_FIELDS:
            overloads.append(Overload(f"duration_{name}", (DURATION,), INT, times.duration_field(name), member=True))
        functions.append(Function(name, tuple(overloads)))
    return functions


_OPTIONAL_LIST, _OPTIONAL_MAP = optional_of(list_of(V)), optional_of(map_of(K, V))

FUNCTIONS: Final[tuple[Function, ...]] = (
    _operator("_?_:_", _compiled, ("conditional", (BOOL, A, A), A)),
    _operator("_&&_", _compiled, ("logical_and", (BOOL, BOOL), BOOL)),
    _operator("_||_", _compiled, ("logical_or", (BOOL, BOOL), BOOL)),
    _operator("@not_strictly_false", _compiled, ("not_strictly_false", (BOOL,), BOOL)),
    _operator("_==_", _compiled, ("equals", (A, A), BOOL)),
    _operator("_!=_", _compiled, ("not_equals", (A, A), BOOL)),
    _operator("!_", operators.negation, ("logical_not", (BOOL,), BOOL)),
    _operator(
        "_[_]",
        _compiled,
        ("index_list", (LIST, INT), A),
        ("index_map", (MAP, A), B),
        ("optional_list_index_int", (_OPTIONAL_LIST, INT), optional_of(V)),
        ("optional_map_index_value", (_OPTIONAL_MAP, K), optional_of(V)),
    ),
    _operator(
        "_[?_]",
        _compiled,
        ("list_optindex_optional_int", (list_of(V), INT), optional_of(V)),
        ("optional_list_optindex_optional_int", (_OPTIONAL_LIST, INT), optional_of(V)),
        ("map_optindex_optional_value", (map_of(K, V), K), optional_of(V)),
        ("optional_map_optindex_optional_value", (_OPTIONAL_MAP, K), optional_of(V)),
    ),
    _operator("_?._", _compiled, ("select_optional_field", (DYN, STRING), optional_of(V))),
    _arithmetic(
        "_+_",
        operators.add,
        "add",
        ("bytes", (BYTES, BYTES), BYTES, cost.concatenation),
        _DOUBLES,
        ("duration_duration", (DURATION, DURATION), DURATION),
        ("duration_timestamp", (DURATION, TIMESTAMP), TIMESTAMP),
        ("timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
        _INTS,
        ("list", (LIST, LIST), LIST),
        ("string", (STRING, STRING), STRING, cost.concatenation),
        _UINTS,
    ),
    _arithmetic(
        "_-_",
        operators.subtract,
        "subtract",
        _DOUBLES,
        ("duration_duration", (DURATION, DURATION), DURATION),
        _INTS,
        ("timestamp_duration", (TIMESTAMP, DURATION), TIMESTAMP),
        ("timestamp_timestamp", (TIMESTAMP, TIMESTAMP), DURATION),
        _UINTS,
    ),
    _arithmetic("_*_", operators.multiply, "multiply", _DOUBLES, _INTS, _UINTS),
    _arithmetic("_/_", operators.divide, "divide", _DOUBLES, _INTS, _UINTS),
    _arithmetic("_%_", operators.modulo, "modulo", _INTS, _UINTS),
    _operator("-_", operators.negate, ("negate_double", (DOUBLE,), DOUBLE), ("negate_int64", (INT,), INT)),
    _relation("_<_", operators.less, "less"),
    _relation("_<=_", operators.less_equals, "less_equals"),
    _relation("_>_", operators.greater, "greater"),
    _relation("_>=_", operators.greater_equals, "greater_equals"),
    _operator("@in", operators.contained, ("in_list", (A, LIST), BOOL, cost.membership), ("in_map", (A, MAP), BOOL)),
    _sizes(),
    Function("type", (Overload("type", (A,), type_of(A), conversions.to_type, guarded=False),)),
    Function("dyn", (Overload("to_dyn", (A,), DYN, conversions.identity, guarded=False),)),
    _conversion("bool", BOOL, conversions.to_bool, BOOL, STRING),
    _conversion("bytes", BYTES, conversions.to_bytes, BYTES, STRING, priced=STRING),
    _conversion("double", DOUBLE, conversions.to_double, DOUBLE, INT, STRING, UINT),
    _conversion("duration", DURATION, conversions.to_duration, DURATION, STRING),
    _conversion("int", INT, conversions.to_int, INT, DOUBLE, DURATION, STRING, TIMESTAMP, UINT),
    _conversion(
        "string", STRING, conversions.to_string,
        STRING, BOOL, BYTES, DOUBLE, DURATION, INT, TIMESTAMP, UINT, priced=BYTES,
    ),
    _conversion("timestamp", TIMESTAMP, conversions.to_timestamp, TIMESTAMP, INT, STRING),
    _conversion("uint", UINT, conversions.to_uint, UINT, DOUBLE, INT, STRING),
    _text_function("contains", lambda text, part: part in text, cost.search),
    _text_function("endsWith", str.endswith, cost.second),
    _text_function("startsWith", str.startswith, cost.second),
    Function(
        "matches",
        (
            replace(_MATCHES, id="matches", member=False),
            _MATCHES,
        ),
    ),
    *_time_fields(),
    Function(
        "cel.@mapInsert",
        (
            Overload("@mapInsert_map_key_value", (map_of(K, V), K, V), map_of(K, V), operators.insert),
            Overload("@mapInsert_map_map", (map_of(K, V), map_of(K, V)), map_of(K, V), operators.insert_all),
        ),
    ),
)  # fmt: skip

CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
"""Functions that are applied to constants when the expression is compiled, so that their errors show then."""


def _authorization() -> tuple[Function, ...]:
    """Declare what Kubernetes declares everywhere, though DRA has no authorizer to call it on."""
    names = ("Authorizer", "PathCheck", "GroupCheck", "ResourceCheck", "Decision")
    authorizer, path, group, resource, decision = (Type(f"kubernetes.authorization.{name}") for name in names)
    rows = (
        ("path", (authorizer, STRING), path),
        ("group", (authorizer, STRING), group),
        ("serviceAccount", (authorizer, STRING, STRING), authorizer),
        ("resource", (group, STRING), resource),
        ("subresource", (resource, STRING), resource),
        ("namespace", (resource, STRING), resource),
        ("name", (resource, STRING), resource),
        ("check", (path, STRING), decision),
        ("check", (resource, STRING), decision),
        ("errored", (decision,), BOOL),
        ("error", (decision,), STRING),
        ("allowed", (decision,), BOOL),
        ("reason", (decision,), STRING),
        ("fieldSelector", (resource, STRING), resource),
        ("labelSelector", (resource, STRING), resource),
    )
    return tuple(
        Function(name, (Overload(f"{name}_{arguments[0].name}", arguments, result, _compiled, member=True),))
        for name, arguments, result in rows
    )


STANDARD: Final = Library("standard", FUNCTIONS)
AUTHORIZATION: Final = Library("authorization", _authorization())
