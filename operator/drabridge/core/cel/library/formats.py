"""Kubernetes' format library: a function for each named format, format.named, validate."""

from collections.abc import Callable
from typing import Any, Final

from drabridge.core.cel.declarations import Function, Library, Overload
from drabridge.core.cel.library.costs import match_pattern_of
from drabridge.core.cel.library.declaring import function, member
from drabridge.core.cel.library.named_formats import FORMATS, NamedFormat
from drabridge.core.cel.types import NAMED_FORMAT, STRING, list_of, optional_of
from drabridge.core.cel.values import NONE, Optional


def named(name: str) -> Optional:
    """The format of that name, if there is one."""
    found = FORMATS.get(name)
    return NONE if found is None else Optional(True, found)


def validate(named_format: NamedFormat, text: str) -> Optional:
    """What is wrong with the text, if anything."""
    faults = named_format.faults(text)
    return Optional(True, faults) if faults else NONE


def _validate_cost(named_format: Any, text: Any, *_: Any) -> int:
    return match_pattern_of(named_format.regex_size, text) if isinstance(named_format, NamedFormat) else 1


def _constant(named_format: NamedFormat) -> Callable[[], NamedFormat]:
    return lambda: named_format


def _function(name: str, named_format: NamedFormat) -> Function:
    return function(f"format.{name}", Overload(f"format.{name}", (), NAMED_FORMAT, _constant(named_format)))


LIBRARY: Final = Library(
    "kubernetes.format",
    (
        *(_function(name, named_format) for name, named_format in FORMATS.items()),
        function(
            "validate",
            member("format-validate", (NAMED_FORMAT, STRING), optional_of(list_of(STRING)), validate, _validate_cost),
            by_name=_validate_cost,
        ),
        function("format.named", Overload("format-named", (STRING,), optional_of(NAMED_FORMAT), named)),
    ),
)
