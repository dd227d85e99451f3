"""Kubernetes' IP library: ip, isIP, ip.isCanonical, family and the kinds of addresses."""

from typing import Final

from drabridge.core.cel.declarations import Library, Overload
from drabridge.core.cel.library.addresses import IP, parse_ip
from drabridge.core.cel.library.costs import scan_target, scan_target_twice
from drabridge.core.cel.library.declaring import function, member
from drabridge.core.cel.types import BOOL, INT, STRING
from drabridge.core.cel.types import IP as IP_TYPE
from drabridge.core.cel.values import CelError


def family(ip: IP) -> int:
    """4 or 6."""
    return 4 if ip.bits == 32 else 6


def is_canonical(text: str) -> bool:
    """Whether the text is the address's shortest form. Raises CelError for what is no address."""
    return str(parse_ip(text)) == text


def is_ip(text: str) -> bool:
    """Whether `ip` would take it."""
    try:
        parse_ip(text)
    except CelError:
        return False
    return True


def is_unspecified(ip: IP) -> bool:
    """0.0.0.0 or ::."""
    return ip.number == 0


def is_loopback(ip: IP) -> bool:
    """127.0.0.0/8 or ::1."""
    return ip.prefix(8) == 127 if ip.bits == 32 else ip.number == 1


def is_link_local_multicast(ip: IP) -> bool:
    """224.0.0.0/24 or ff02::/16, whatever the flags."""
    return ip.prefix(24) == 0xE00000 if ip.bits == 32 else ip.prefix(16) & 0xFF0F == 0xFF02


def is_link_local_unicast(ip: IP) -> bool:
    """169.254.0.0/16 or fe80::/10."""
    return ip.prefix(16) == 0xA9FE if ip.bits == 32 else ip.prefix(10) == 0x3FA


def is_global_unicast(ip: IP) -> bool:
    """What is none of the others, no multicast and no broadcast; private addresses among them."""
    multicast = ip.prefix(4) == 0xE if ip.bits == 32 else ip.prefix(8) == 0xFF
    broadcast = ip.bits == 32 and ip.number == 2**32 - 1
    return not (multicast or broadcast or is_unspecified(ip) or is_loopback(ip) or is_link_local_unicast(ip))


LIBRARY: Final = Library(
    "kubernetes.net.ip",
    (
        function("ip", Overload("string_to_ip", (STRING,), IP_TYPE, parse_ip, cost=scan_target), by_name=scan_target),
        function("family", member("ip_family", (IP_TYPE,), INT, family)),
        function(
            "ip.isCanonical",
            Overload("ip_is_canonical", (STRING,), BOOL, is_canonical, cost=scan_target_twice),
            by_name=scan_target_twice,
        ),
        function("isUnspecified", member("ip_is_unspecified", (IP_TYPE,), BOOL, is_unspecified)),
        function("isLoopback", member("ip_is_loopback", (IP_TYPE,), BOOL, is_loopback)),
        function(
            "isLinkLocalMulticast", member("ip_is_link_local_multicast", (IP_TYPE,), BOOL, is_link_local_multicast)
        ),
        function("isLinkLocalUnicast", member("ip_is_link_local_unicast", (IP_TYPE,), BOOL, is_link_local_unicast)),
        function("isGlobalUnicast", member("ip_is_global_unicast", (IP_TYPE,), BOOL, is_global_unicast)),
        function("isIP", Overload("is_ip", (STRING,), BOOL, is_ip, cost=scan_target), by_name=scan_target),
        function("string", Overload("ip_to_string", (IP_TYPE,), STRING, str)),
    ),
)
