"""Kubernetes quantities, exact: "2", "1500m", "1.5Gi", "12e6".

The grammar, the rounding and the canonical form are those of `resource.Quantity` in k8s.io/apimachinery. A quantity is
kept as an integer times a power of ten, so that neither a float nor a large number is ever needed: "1e2000000000" is as
cheap as "1".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from functools import total_ordering
from typing import Final, Self

from drabridge.core.errors import quoted

MAX_VALUE: Final = 2**63 - 1
"""The largest magnitude that counts: upstream hands out quantities as int64."""

MAX_LENGTH: Final = 2000
"""Characters of a quantity's text. Upstream has no limit; beyond this one, arithmetic would cost noticeable time."""

_NANO: Final = -9
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = ("", *_BINARY)

# Upstream's scanner wants no digit at all: "k" and "." are zero. They are taken here as well, since the API server
# stores such a Pod.
_QUANTITY = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:([eE])([+-]?[0-9]+)|([numkMGTPE]?|[KMGTPE]i))")


class Format(StrEnum):
    """The family of suffixes a quantity was written with, and is printed with."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


@total_ordering
@dataclass(frozen=True, slots=True)
class Quantity:
    """`mantissa` x 10^`exponent`. Equal, ordered and hashed by value; the format matters to printing only.

    Made by `parse`, which sees to one representation a value: no factor of ten in the mantissa, exponent -9 or larger,
    zero as 0 x 10^0.
    """

    mantissa: int
    exponent: int
    format: Format = field(default=Format.DECIMAL_SI, compare=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a quantity as the API server does.

        What is more precise than nano is rounded away from zero; with a binary suffix, what is beyond 2^63-1 becomes
        2^63-1. Raises ValueError with a text for users.
        """
        if text.isascii() and text.isdecimal() and len(text) < 19:
            return cls._of(int(text), 0, Format.DECIMAL_SI)
        if not text:
            raise ValueError("a quantity must not be empty")
        if len(text) > MAX_LENGTH:
            raise ValueError(f"{quoted(text)} is longer than the {MAX_LENGTH} characters that a quantity may have here")
        match = _QUANTITY.fullmatch(text)
        if match is None:
            raise ValueError(
                f"{quoted(text)} is not a quantity: a number is expected, with nothing, an exponent (e3) or one of "
                "n u m k M G T P E Ki Mi Gi Ti Pi Ei after it"
            )
        sign, whole, fraction, _, power, suffix = match.groups(default="")
        mantissa, exponent = int(whole + fraction or "0"), -len(fraction)
        format_ = Format.DECIMAL_SI
        if suffix in _BINARY:
            mantissa <<= _BINARY[suffix]
            format_ = Format.BINARY_SI
        elif power:
            exponent += _int32(power, text)
            format_ = Format.DECIMAL_EXPONENT
        else:
            exponent += _DECIMAL[suffix]
        mantissa, exponent = _at_least_nano(mantissa, exponent)
        if format_ is Format.BINARY_SI:  # the exponent is -9..0 here
            one = 10**-exponent
            mantissa = min(mantissa, MAX_VALUE * one)
            format_ = Format.DECIMAL_SI if mantissa < one else format_
        return cls._of(-mantissa if sign == "-" else mantissa, exponent, format_)

    @classmethod
    def _of(cls, mantissa: int, exponent: int, format_: Format) -> Self:
        if mantissa == 0:
            return cls(0, 0, format_)
        if mantissa % 10 == 0:
            digits = str(mantissa)
            zeros = len(digits) - len(digits.rstrip("0"))
            mantissa, exponent = mantissa // 10**zeros, exponent + zeros
        return cls(mantissa, exponent, format_)

    @classmethod
    def of_nano(cls, value: int, format_: Format = Format.DECIMAL_SI) -> Self:
        """Make the quantity of so many thousand-millionths, printed with the suffixes of `format_`."""
        return cls._of(value, _NANO, format_)

    @property
    def nano(self) -> int:
        """The value in thousand-millionths, which is always whole. Large for large exponents: check them first."""
        value: int = self.mantissa * 10 ** (self.exponent - _NANO)  # never negative: of at least nano precision
        return value

    @property
    def is_whole(self) -> bool:
        """Whether there is nothing behind the decimal point."""
        return self.exponent >= 0

    def as_int(self) -> int | None:
        """Return the value, or None if it is not whole. Beyond +-(2^63-1) it is +-(2^63-1)."""
        return self.ceil() if self.is_whole else None

    def ceil(self) -> int:
        """Return the value rounded away from zero, as `Quantity.Value()` does. Beyond +-(2^63-1) it is +-(2^63-1)."""
        if self._magnitude > len(str(MAX_VALUE)):
            size = MAX_VALUE
        elif self.is_whole:
            size = min(abs(self.mantissa) * 10**self.exponent, MAX_VALUE)
        else:
            size = min(-(-abs(self.mantissa) // 10**-self.exponent), MAX_VALUE)
        return -size if self.mantissa < 0 else size

    @property
    def _magnitude(self) -> int:
        """Digits before the decimal point; zero or less for what is smaller than 0.1."""
        return len(str(abs(self.mantissa))) + self.exponent

    def __lt__(self, other: Quantity) -> bool:
        if (self.mantissa > 0) != (other.mantissa > 0) or not (self.mantissa and other.mantissa):
            return self.mantissa < other.mantissa
        if self._magnitude != other._magnitude:
            return (self._magnitude < other._magnitude) == (self.mantissa > 0)
        mine, others, _ = self._aligned(other)  # cheap: of one magnitude, exponents differ by digits of a mantissa
        return mine < others

    def __add__(self, other: Quantity) -> Quantity:
        """Add, in the format of the first that is not zero. Raises OverflowError for sums of too many digits."""
        if self.mantissa and other.mantissa:
            digits = max(self._magnitude, other._magnitude) - min(self.exponent, other.exponent)
            if digits > 2 * MAX_LENGTH:
                raise OverflowError(
                    f"the sum of {quoted(str(self))} and {quoted(str(other))} would have {digits} digits"
                )
        mine, others, exponent = self._aligned(other)
        return Quantity._of(mine + others, exponent, self.format if self.mantissa else other.format)

    def __sub__(self, other: Quantity) -> Quantity:
        """Subtract, with the rules of the sum."""
        return self + Quantity(-other.mantissa, other.exponent, other.format)

    def _aligned(self, other: Quantity) -> tuple[int, int, int]:
        if not self.mantissa:
            return 0, other.mantissa, other.exponent
        if not other.mantissa:
            return self.mantissa, 0, self.exponent
        exponent = min(self.exponent, other.exponent)
        return (
            self.mantissa * 10 ** (self.exponent - exponent),
            other.mantissa * 10 ** (other.exponent - exponent),
            exponent,
        )

    def __str__(self) -> str:
        """Print the canonical form: no fraction, the largest suffix of the format that loses nothing.

        Two oddities of upstream are left out: it repeats some texts as they were written ("1.500", "+1"), and it loses
        the power of ten of decimal values from 1000E on.
        """
        if self.format is Format.BINARY_SI and self.is_whole and self._magnitude <= len(str(MAX_VALUE)) + 1:
            value = self.mantissa * 10**self.exponent
            if abs(value) >= 1024:
                return _binary(value)
        exponent = self.exponent // 3 * 3  # rounds down, below zero as well
        if self.format is not Format.DECIMAL_EXPONENT:
            exponent = min(exponent, max(_DECIMAL_SUFFIX))
        digits = f"{self.mantissa}{'0' * (self.exponent - exponent)}"
        if self.format is Format.DECIMAL_EXPONENT:
            return f"{digits}e{exponent}" if exponent else digits
        return digits + _DECIMAL_SUFFIX[exponent]


def _at_least_nano(mantissa: int, exponent: int) -> tuple[int, int]:
    """Round up what is more precise than nano: who wants some of a resource gets some."""
    surplus = _NANO - exponent
    if surplus <= 0 or mantissa == 0:
        return mantissa, exponent if mantissa else 0
    if surplus > len(str(mantissa)):  # all of it is behind the ninth place; the power of ten may be too large to form
        return 1, _NANO
    return -(-mantissa // 10**surplus), _NANO


def _int32(power: str, text: str) -> int:
    """Read an exponent the way Go code does that parses 64 bits and keeps 32."""
    value = int(power)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"{quoted(text)} is not a quantity: its exponent is out of range")
    return (value + 2**31) % 2**32 - 2**31


def _binary(value: int) -> str:
    rank = 0
    while value % 1024 == 0 and rank < len(_BINARY_SUFFIX) - 1:
        value //= 1024
        rank += 1
    return f"{value}{_BINARY_SUFFIX[rank]}"
