"""kubernetes.Semver as CEL sees it: versions after SemVer 2.0.0, as github.com/blang/semver/v4 reads them.

Build metadata is kept but never compared: `1.0.0+a == 1.0.0+b`.
"""

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from drabridge.core.cel.quoting import quote
from drabridge.core.cel.values import CelError, Opaque

_DIGITS: Final = re.compile(r"[0-9]*")
_IDENTIFIER: Final = re.compile(r"[0-9A-Za-z-]*")
_MAX_UINT64: Final = 2**64 - 1

_PreRelease = tuple[bool, int, str]
"""An identifier of a pre-release, to be compared: numbers come before words."""


@dataclass(frozen=True, slots=True, eq=False)
class Semver(Opaque):
    """A version. The numbers are uint64."""

    type_name: ClassVar[str] = "kubernetes.Semver"
    go_type: ClassVar[str] = "cel.Semver"
    hashable: ClassVar[bool] = False

    major: int
    minor: int
    patch: int
    pre: tuple[_PreRelease, ...] = ()
    build: tuple[str, ...] = ()

    def __str__(self) -> str:
        pre = ".".join(word or str(number) for _, number, word in self.pre)
        build = ".".join(self.build)
        return f"{self.major}.{self.minor}.{self.patch}{'-' + pre if pre else ''}{'+' + build if build else ''}"

    def equals(self, other: Any) -> bool:
        """Whether both have the same precedence. Raises CelError unless other is a version."""
        if not isinstance(other, Semver):
            raise CelError("no such overload")
        return compare(self, other) == 0


def parse(text: str) -> Semver:
    """Read a version strictly. Raises CelError with upstream's text."""
    if not text:
        raise CelError("Version string empty")
    parts = text.split(".", 2)
    if len(parts) != 3:
        raise CelError("No Major.Minor.Patch elements found")
    major, minor = _number(parts[0], "major", "Major"), _number(parts[1], "minor", "Minor")
    rest, plus, build = parts[2].partition("+")
    patch, minus, pre = rest.partition("-")
    return Semver(
        major,
        minor,
        _number(patch, "patch", "Patch"),
        tuple(map(_pre_release, pre.split("."))) if minus else (),
        tuple(map(_build, build.split("."))) if plus else (),
    )


def parse_normalized(text: str) -> Semver:
    """Read a version after making it one: no leading "v", no leading zeros, two zeros for what is missing.

    Raises CelError with upstream's text.
    """
    parts = list(map(_without_zeros, text.removeprefix("v").split(".", 2)))
    if len(parts) < 3 and ("+" in parts[-1] or "-" in parts[-1]):
        raise CelError("short version cannot contain PreRelease/Build meta data")
    return parse(".".join(parts + ["0"] * (3 - len(parts))))


def compare(left: Semver, right: Semver) -> int:
    """-1, 0 or 1: by SemVer's precedence."""
    mine, others = (left.major, left.minor, left.patch), (right.major, right.minor, right.patch)
    if mine != others:
        return -1 if mine < others else 1
    if left.pre == right.pre:
        return 0
    if not left.pre or not right.pre:  # a release comes after its pre-releases
        return -1 if left.pre else 1
    return -1 if left.pre < right.pre else 1


def _number(text: str, name: str, title: str) -> int:
    if not _DIGITS.fullmatch(text):
        raise CelError(f"Invalid character(s) found in {name} number {quote(text)}")
    if len(text) > 1 and text[0] == "0":
        raise CelError(f"{title} number must not contain leading zeroes {quote(text)}")
    return _uint64(text)


def _uint64(digits: str) -> int:
    if not digits:
        raise CelError('strconv.ParseUint: parsing "": invalid syntax')
    if len(digits) > 20 or (value := int(digits)) > _MAX_UINT64:
        raise CelError(f"strconv.ParseUint: parsing {quote(digits)}: value out of range")
    return value


def _pre_release(text: str) -> _PreRelease:
    if not text:
        raise CelError("Prerelease is empty")
    if _DIGITS.fullmatch(text):
        if len(text) > 1 and text[0] == "0":
            raise CelError(f"Numeric PreRelease version must not contain leading zeroes {quote(text)}")
        return False, _uint64(text), ""
    if not _IDENTIFIER.fullmatch(text):
        raise CelError(f"Invalid character(s) found in prerelease {quote(text)}")
    return True, 0, text


def _build(text: str) -> str:
    if not text:
        raise CelError("Build meta data is empty")
    if not _IDENTIFIER.fullmatch(text):
        raise CelError(f"Invalid character(s) found in build meta data {quote(text)}")
    return text


def _without_zeros(part: str) -> str:
    if len(part.encode("utf-8", "replace")) < 2:
        return part
    rest = part.lstrip("0")
    return rest if rest[:1] in set("0123456789") else f"0{rest}"
