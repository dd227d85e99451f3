"""Kubernetes' semver library, version 1: semver and isSemver with normalization, parts, comparisons."""

from collections.abc import Callable
from typing import Final

from drabridge.core.cel import semver
from drabridge.core.cel.declarations import Library, Overload
from drabridge.core.cel.library.costs import scan_target
from drabridge.core.cel.library.declaring import function, member
from drabridge.core.cel.semver import Semver
from drabridge.core.cel.types import BOOL, INT, SEMVER, STRING
from drabridge.core.cel.values import CelError

_TWO: Final = (SEMVER, SEMVER)


def parse(text: str, normalize: bool = False) -> Semver:
    """The version of a text."""
    return semver.parse_normalized(text) if normalize else semver.parse(text)


def is_semver(text: str, normalize: bool = False) -> bool:
    """Whether `parse` would take it."""
    try:
        parse(text, normalize)
    except CelError:
        return False
    return True


def is_greater_than(left: Semver, right: Semver) -> bool:
    """Left > right."""
    return semver.compare(left, right) > 0


def is_less_than(left: Semver, right: Semver) -> bool:
    """Left < right."""
    return semver.compare(left, right) < 0


def _part(number: Callable[[Semver], int]) -> Callable[[Semver], int]:
    """A number of the version as an int: what is beyond int64 wraps around."""
    return lambda version: (number(version) + 2**63) % 2**64 - 2**63


LIBRARY: Final = Library(
    "kubernetes.Semver",
    (
        function(
            "semver",
            Overload("string_to_semver", (STRING,), SEMVER, parse, cost=scan_target),
            Overload("string_bool_to_semver", (STRING, BOOL), SEMVER, parse, cost=scan_target),
            by_name=scan_target,
        ),
        function(
            "isSemver",
            Overload("is_semver_string", (STRING,), BOOL, is_semver, cost=scan_target),
            Overload("is_semver_string_bool", (STRING, BOOL), BOOL, is_semver, cost=scan_target),
            by_name=scan_target,
        ),
        function("isGreaterThan", member("semver_is_greater_than", _TWO, BOOL, is_greater_than)),
        function("isLessThan", member("semver_is_less_than", _TWO, BOOL, is_less_than)),
        function("compareTo", member("semver_compare_to", _TWO, INT, semver.compare)),
        function("major", member("semver_major", (SEMVER,), INT, _part(lambda version: version.major))),
        function("minor", member("semver_minor", (SEMVER,), INT, _part(lambda version: version.minor))),
        function("patch", member("semver_patch", (SEMVER,), INT, _part(lambda version: version.patch))),
    ),
)
