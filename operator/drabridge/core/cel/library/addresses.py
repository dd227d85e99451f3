"""IP addresses and networks: their values and how they are read and printed, after Go's net/netip."""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address
from typing import Any, ClassVar, Final

from drabridge.core.cel.quoting import quote
from drabridge.core.cel.values import CelError, Opaque
from drabridge.core.cel.work import spend

_HEX: Final = frozenset("0123456789abcdefABCDEF")
_MAPPED: Final = 0xFFFF
"""The 96 bits in front of an IPv4 address that is written as an IPv6 one."""


@dataclass(frozen=True, slots=True)
class IP(Opaque):
    """An address: its number, and 32 or 128 bits."""

    type_name: ClassVar[str] = "net.IP"
    go_type: ClassVar[str] = "cel.IP"

    number: int
    bits: int

    def __str__(self) -> str:
        return str(IPv4Address(self.number) if self.bits == 32 else IPv6Address(self.number))

    def equals(self, other: Any) -> bool:
        """Whether it is the same address. Raises CelError for what is no address."""
        if not isinstance(other, IP):
            raise CelError("no such overload")
        return self == other

    def size(self) -> int:
        """Bytes."""
        return self.bits // 8

    @property
    def is_mapped(self) -> bool:
        """Whether it is an IPv6 address that stands for an IPv4 one."""
        return self.bits == 128 and self.number >> 32 == _MAPPED

    def prefix(self, length: int) -> int:
        """The first bits of it."""
        return self.number >> (self.bits - length)


@dataclass(frozen=True, slots=True)
class CIDR(Opaque):
    """A network: an address, any one in it, and how many of its bits are the network's."""

    type_name: ClassVar[str] = "net.CIDR"
    go_type: ClassVar[str] = "cel.CIDR"

    ip: IP
    length: int

    def __str__(self) -> str:
        return f"{self.ip}/{self.length}"

    def equals(self, other: Any) -> bool:
        """Whether address and length are the same. Raises CelError for what is no network."""
        if not isinstance(other, CIDR):
            raise CelError("no such overload")
        return self == other

    def size(self) -> int:
        """Bytes of the network's part."""
        return -(-self.length // 8)


class InvalidAddress(ValueError):
    """Text that is no address or network. The message is Go's."""


def parse_ip(text: str) -> IP:
    """Read an address as Kubernetes' CEL does: without a zone, and no IPv4 in IPv6. Raises CelError."""
    try:
        ip, zone = parse_address(text)
    except InvalidAddress as error:
        raise CelError(f"IP Address {quote(text)} parse error during conversion from string: {error}") from None
    if zone:
        raise CelError(f"IP address {quote(text)} with zone value is not allowed")
    if ip.is_mapped:
        raise CelError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return ip


def parse_cidr(text: str) -> CIDR:
    """Read a network as Kubernetes' CEL does. Raises CelError."""
    try:
        cidr = _prefix(text)
    except InvalidAddress as error:
        raise CelError(f"network address parse error during conversion from string: {error}") from None
    if cidr.ip.is_mapped:
        raise CelError(f"IPv4-mapped IPv6 address {quote(text)} is not allowed")
    return cidr


_STEPS_PER_ADDRESS: Final = 2500
_STEPS_PER_CHARACTER: Final = 16


def parse_address(text: str) -> tuple[IP, str]:
    """Read an address with the zone it may have (netip.ParseAddr). Raises InvalidAddress."""
    spend(_STEPS_PER_ADDRESS + len(text) * _STEPS_PER_CHARACTER)
    for character in text:
        if character == ".":
            return IP(_ipv4(text, text), 32), ""
        if character == ":":
            return _ipv6(text)
        if character == "%":
            raise _invalid(text, "missing IPv6 address")
    raise _invalid(text, "unable to parse IP")


def _prefix(text: str) -> CIDR:
    address, slash, bits = text.rpartition("/")
    if not slash:
        raise _invalid_prefix(text, "no '/'")
    try:
        ip, zone = parse_address(address)
    except InvalidAddress as error:
        raise _invalid_prefix(text, str(error)) from None
    if zone:
        raise _invalid_prefix(text, "IPv6 zones cannot be present in a prefix")
    number = bits.isascii() and bits.isdecimal() and (bits == "0" or bits[0] != "0")
    if not number or len(bits) > 19 or int(bits) >= 2**63:
        raise _invalid_prefix(text, f"bad bits after slash: {quote(bits)}")
    if int(bits) > ip.bits:
        raise _invalid_prefix(text, "prefix length out of range")
    return CIDR(ip, int(bits))


def _ipv4(whole: str, text: str) -> int:
    """Read four numbers. `whole` is what errors show."""
    fields: list[int] = []
    value = digits = 0
    for place, character in enumerate(text):
        if character in "0123456789":
            if digits == 1 and value == 0:
                raise _invalid(whole, "IPv4 field has octet with leading zero")
            value, digits = value * 10 + int(character), digits + 1
            if value > 255:
                raise _invalid(whole, "IPv4 field has value >255")
        elif character == ".":
            if place in {0, len(text) - 1} or text[place - 1] == ".":
                raise _invalid(whole, "IPv4 field must have at least one digit", text[place:])
            if len(fields) == 3:
                raise _invalid(whole, "IPv4 address too long")
            fields.append(value)
            value = digits = 0
        else:
            raise _invalid(whole, "unexpected character", text[place:])
    if len(fields) < 3:
        raise _invalid(whole, "IPv4 address too short")
    return int.from_bytes([*fields, value], "big")


def _ipv6(text: str) -> tuple[IP, str]:
    rest, percent, zone = text.partition("%")
    if percent and not zone:
        raise _invalid(text, "zone must be a non-empty string")
    groups: list[int] = []
    ellipsis = None
    if rest.startswith("::"):
        ellipsis, rest = 0, rest[2:]
    for event in _groups(text, rest, groups, ellipsis is not None) if rest else ():
        ellipsis = event
    if len(groups) < 8:
        if ellipsis is None:
            raise _invalid(text, "address string too short")
        groups[ellipsis:ellipsis] = [0] * (8 - len(groups))
    elif ellipsis is not None:
        raise _invalid(text, "the :: must expand to at least one field of zeros")
    number = 0
    for group in groups:
        number = number << 16 | group
    return IP(number, 128), zone


def _groups(text: str, rest: str, groups: list[int], ellipsis: bool) -> Iterator[int]:
    """Read groups of hexadecimal digits into `groups`; yield where the ellipsis stands."""
    while len(groups) < 8:
        digits = next((place for place, character in enumerate(rest) if character not in _HEX), len(rest))
        if digits > 4:
            raise _invalid(text, "each group must have 4 or less digits", rest)
        if not digits:
            raise _invalid(text, "each colon-separated field must have at least one digit", rest)
        if rest.startswith(".", digits):
            groups += _embedded(text, rest, len(groups), ellipsis)
            return
        groups.append(int(rest[:digits], 16))
        rest = rest[digits:]
        if not rest:
            return
        rest = _after_colon(text, rest)
        if rest[0] == ":":
            if ellipsis:
                raise _invalid(text, "multiple :: in address", rest)
            ellipsis = True
            yield len(groups)
            rest = rest[1:]
            if not rest:
                return
    raise _invalid(text, "trailing garbage after address", rest)


def _after_colon(text: str, rest: str) -> str:
    if rest[0] != ":":
        raise _invalid(text, "unexpected character, want colon", rest)
    if len(rest) == 1:
        raise _invalid(text, "colon must be followed by more characters", rest)
    return rest[1:]


def _embedded(text: str, rest: str, count: int, ellipsis: bool) -> tuple[int, int]:
    """Read the IPv4 address that may stand for the last two groups."""
    if not ellipsis and count != 6:
        raise _invalid(text, "embedded IPv4 address must replace the final 2 fields of the address", rest)
    if count > 6:
        raise _invalid(text, "too many hex fields to fit an embedded IPv4 at the end of the address", rest)
    return divmod(_ipv4(text, rest), 2**16)


def _invalid(text: str, fault: str, at: str = "") -> InvalidAddress:
    return InvalidAddress(f"ParseAddr({quote(text)}): {fault}{f' (at {quote(at)})' if at else ''}")


def _invalid_prefix(text: str, fault: str) -> InvalidAddress:
    return InvalidAddress(f"netip.ParsePrefix({quote(text)}): {fault}")
