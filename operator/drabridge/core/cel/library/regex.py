"""Kubernetes' regex library: find and findAll."""

from typing import Final

from drabridge.core.cel import regex
from drabridge.core.cel.declarations import Library
from drabridge.core.cel.library.costs import match_pattern
from drabridge.core.cel.library.declaring import function, member
from drabridge.core.cel.regex import InvalidRegex, Pattern
from drabridge.core.cel.types import INT, STRING, list_of
from drabridge.core.cel.values import CelError


def find(text: str, pattern: str | Pattern) -> str:
    """The leftmost match, or "". Raises CelError for a pattern that RE2 refuses."""
    return _compiled(pattern).find(text)


def find_all(text: str, pattern: str | Pattern, limit: int = -1) -> list[str]:
    """The matches, `limit` at most; all of them if that is negative. Raises CelError as `find` does."""
    return _compiled(pattern).find_all(text, limit)


def _compiled(pattern: str | Pattern) -> Pattern:
    try:
        return pattern if isinstance(pattern, Pattern) else regex.pattern(pattern)
    except InvalidRegex as error:
        raise CelError(f"Illegal regex: {error}") from None


LIBRARY: Final = Library(
    "kubernetes.regex",
    (
        function(
            "find",
            member("string_find_string", (STRING, STRING), STRING, find, match_pattern),
            by_name=match_pattern,
        ),
        function(
            "findAll",
            member("string_find_all_string", (STRING, STRING), list_of(STRING), find_all, match_pattern),
            member(
                "string_find_all_string_int",
                (STRING, STRING, INT),
                list_of(STRING),
                find_all,
                match_pattern,
            ),
            by_name=match_pattern,
        ),
    ),
)
