"""Kubernetes' CIDR library: cidr, isCIDR, what a network contains, its parts."""

import math
from dataclasses import replace
from typing import Any, Final

from drabridge.core.cel.declarations import Library, Overload
from drabridge.core.cel.library.addresses import CIDR, IP, parse_cidr, parse_ip
from drabridge.core.cel.library.costs import STRING_FACTOR, scan_target, size
from drabridge.core.cel.library.declaring import function, member
from drabridge.core.cel.types import BOOL, INT, STRING
from drabridge.core.cel.types import CIDR as CIDR_TYPE
from drabridge.core.cel.types import IP as IP_TYPE
from drabridge.core.cel.values import CelError


def contains_ip(cidr: CIDR, ip: IP) -> bool:
    """Whether the address is in the network."""
    return cidr.ip.bits == ip.bits and cidr.ip.prefix(cidr.length) == ip.prefix(cidr.length)


def contains_ip_text(cidr: CIDR, text: str) -> bool:
    """Whether the address is in the network. Raises CelError for what is no address."""
    try:
        return contains_ip(cidr, parse_ip(text))
    except CelError:
        raise CelError("no such overload") from None  # upstream loses the reason


def contains_cidr(cidr: CIDR, other: CIDR) -> bool:
    """Whether all of the other network is in this one."""
    return cidr.length <= other.length and contains_ip(cidr, other.ip)


def contains_cidr_text(cidr: CIDR, text: str) -> bool:
    """Whether all of the other network is in this one. Raises CelError for what is no network."""
    return contains_cidr(cidr, parse(text))


def parse(text: str) -> CIDR:
    """The network of a text. Raises CelError."""
    try:
        return parse_cidr(text)
    except CelError as error:  # upstream says it twice
        raise CelError(f"network address parse error during conversion from string: {error}") from None


def is_cidr(text: str) -> bool:
    """Whether `cidr` would take it."""
    try:
        parse_cidr(text)
    except CelError:
        return False
    return True


def address(cidr: CIDR) -> IP:
    """The address as it was written."""
    return cidr.ip


def prefix_length(cidr: CIDR) -> int:
    """The bits of the network."""
    return cidr.length


def masked(cidr: CIDR) -> CIDR:
    """The network by its first address."""
    rest = cidr.ip.bits - cidr.length
    return replace(cidr, ip=replace(cidr.ip, number=cidr.ip.number >> rest << rest))


def _contains_ip_cost(cidr: Any, *_: Any) -> int:
    bytes_ = size(cidr)
    return math.ceil((bytes_ + bytes_) * STRING_FACTOR)


def _contains_cidr_cost(cidr: Any, *_: Any) -> int:
    return _contains_ip_cost(cidr) + math.ceil(size(cidr) * STRING_FACTOR) + 1


def _contains_ip_text_cost(cidr: Any, text: Any, *_: Any) -> int:
    return _contains_ip_cost(cidr) + math.ceil(size(text) * STRING_FACTOR)


def _contains_cidr_text_cost(cidr: Any, text: Any, *_: Any) -> int:
    return _contains_cidr_cost(cidr) + math.ceil(size(text) * STRING_FACTOR)


LIBRARY: Final = Library(
    "kubernetes.net.cidr",
    (
        function(
            "cidr", Overload("string_to_cidr", (STRING,), CIDR_TYPE, parse, cost=scan_target), by_name=scan_target
        ),
        function(
            "containsIP",
            member("cidr_contains_ip_string", (CIDR_TYPE, STRING), BOOL, contains_ip_text, _contains_ip_text_cost),
            member("cidr_contains_ip_ip", (CIDR_TYPE, IP_TYPE), BOOL, contains_ip, _contains_ip_cost),
            by_name=_contains_ip_cost,
        ),
        function(
            "containsCIDR",
            member(
                "cidr_contains_cidr_string", (CIDR_TYPE, STRING), BOOL, contains_cidr_text, _contains_cidr_text_cost
            ),
            member("cidr_contains_cidr", (CIDR_TYPE, CIDR_TYPE), BOOL, contains_cidr, _contains_cidr_cost),
            by_name=_contains_cidr_cost,
        ),
        function("ip", member("cidr_ip", (CIDR_TYPE,), IP_TYPE, address), by_name=scan_target),
        function("prefixLength", member("cidr_prefix_length", (CIDR_TYPE,), INT, prefix_length)),
        function("masked", member("cidr_masked", (CIDR_TYPE,), CIDR_TYPE, masked)),
        function("isCIDR", Overload("is_cidr", (STRING,), BOOL, is_cidr, cost=scan_target), by_name=scan_target),
        function("string", Overload("cidr_to_string", (CIDR_TYPE,), STRING, str)),
    ),
)
