"""IP addresses and networks, after net/netip."""

from ipaddress import ip_address, ip_network
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.cel.library import LIBRARIES
from drabridge.core.cel.library.addresses import CIDR, IP, parse_cidr, parse_ip
from drabridge.core.cel.operators import equal
from drabridge.core.cel.values import CelError

OVERLOADS = {o.id: o for library in LIBRARIES for f in library.functions for o in f.overloads}

ADDRESS_FAULTS = {
    "": "unable to parse IP",
    "x": "unable to parse IP",
    "1%x": "missing IPv6 address",
    "1.2.3": "IPv4 address too short",
    "1.2.3.4.5": "IPv4 address too long",
    "256.1.1.1": "IPv4 field has value >255",
    "01.2.3.4": "IPv4 field has octet with leading zero",
    ".1.2.3": 'IPv4 field must have at least one digit (at ".1.2.3")',
    "1..2.3": 'IPv4 field must have at least one digit (at ".2.3")',
    "1.2.3.": 'IPv4 field must have at least one digit (at ".")',
    "1.2.3.x": 'unexpected character (at "x")',
    "fe80::1%": "zone must be a non-empty string",
    "12345::": 'each group must have 4 or less digits (at "12345::")',
    "1::g": 'each colon-separated field must have at least one digit (at "g")',
    "1:x": 'each colon-separated field must have at least one digit (at "x")',
    "1:2": "address string too short",
    "1:": 'colon must be followed by more characters (at ":")',
    "1:2x": 'unexpected character, want colon (at "x")',
    "1::2::3": 'multiple :: in address (at ":3")',
    "::1::": 'multiple :: in address (at ":")',
    "1:2:3:4:5:6:7:8:9": 'trailing garbage after address (at "9")',
    "1:2:3:4:5:6:7:8::": "the :: must expand to at least one field of zeros",
    "::1:2:3:4:5:6:7:8": "the :: must expand to at least one field of zeros",
    "1:1.2.3.4": 'embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")',
    "::1:2:3:4:5:6:7:1.2.3.4": ('too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")'),
    "::1.2.3": "IPv4 address too short",
}


@pytest.mark.parametrize(("text", "fault"), ADDRESS_FAULTS.items())
def test_what_is_no_address_is_refused_with_gos_words(text: str, fault: str) -> None:
    assert OVERLOADS["is_ip"].call(text) is False
    with pytest.raises(CelError) as error:
        parse_ip(text)
    quoted = f'"{text}"'
    assert str(error.value) == (
        f"IP Address {quoted} parse error during conversion from string: ParseAddr({quoted}): {fault}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fe80::1%eth0", 'IP address "fe80::1%eth0" with zone value is not allowed'),
        ("::ffff:1.2.3.4", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        ("::ffff:102:304", 'IPv4-mapped IPv6 address "::ffff:102:304" is not allowed'),
    ],
)
def test_some_addresses_are_not_allowed(text: str, message: str) -> None:
    with pytest.raises(CelError) as error:
        parse_ip(text)
    assert str(error.value) == message


PREFIX = "network address parse error during conversion from string: "
NETWORK_FAULTS = {
    "1.2.3.4": "no '/'",
    "x/8": 'ParseAddr("x"): unable to parse IP',
    "fe80::%e/10": "IPv6 zones cannot be present in a prefix",
    "1.2.3.4/": 'bad bits after slash: ""',
    "1.2.3.4/01": 'bad bits after slash: "01"',
    "1.2.3.4/+8": 'bad bits after slash: "+8"',
    "1.2.3.4/٣": 'bad bits after slash: "٣"',
    "1.2.3.4/99999999999999999999": 'bad bits after slash: "99999999999999999999"',
    "1.2.3.4/33": "prefix length out of range",
    "::/129": "prefix length out of range",
}


@pytest.mark.parametrize(("text", "fault"), NETWORK_FAULTS.items())
def test_what_is_no_network_is_refused_with_gos_words(text: str, fault: str) -> None:
    assert OVERLOADS["is_cidr"].call(text) is False
    with pytest.raises(CelError) as error:
        OVERLOADS["string_to_cidr"].call(text)
    assert str(error.value) == f'{PREFIX}{PREFIX}netip.ParsePrefix("{text}"): {fault}'


def test_a_network_of_mapped_addresses_is_not_allowed() -> None:
    with pytest.raises(CelError, match=r'^IPv4-mapped IPv6 address "::ffff:1.2.3.4/96" is not allowed$'):
        parse_cidr("::ffff:1.2.3.4/96")


class Kind(NamedTuple):
    text: str
    family: int
    kinds: set[str]


KINDS = [
    Kind("0.0.0.0", 4, {"unspecified"}),
    Kind("::", 6, {"unspecified"}),
    Kind("127.1.2.3", 4, {"loopback"}),
    Kind("::1", 6, {"loopback"}),
    Kind("224.0.0.1", 4, {"link_local_multicast"}),
    Kind("224.0.1.1", 4, set()),
    Kind("ff02::1", 6, {"link_local_multicast"}),
    Kind("ff12::1", 6, {"link_local_multicast"}),
    Kind("ff05::1", 6, set()),
    Kind("169.254.1.1", 4, {"link_local_unicast"}),
    Kind("fe80::1", 6, {"link_local_unicast"}),
    Kind("febf::1", 6, {"link_local_unicast"}),
    Kind("255.255.255.255", 4, set()),
    Kind("10.0.0.1", 4, {"global_unicast"}),
    Kind("fd00::1", 6, {"global_unicast"}),
    Kind("::1.2.3.4", 6, {"global_unicast"}),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.text)
def test_kinds_of_addresses(kind: Kind) -> None:
    names = ("unspecified", "loopback", "link_local_multicast", "link_local_unicast", "global_unicast")
    ip = OVERLOADS["string_to_ip"].call(kind.text)
    assert {name for name in names if OVERLOADS[f"ip_is_{name}"].call(ip)} == kind.kinds
    assert OVERLOADS["ip_family"].call(ip) == kind.family
    assert ip.size() == {4: 4, 6: 16}[kind.family]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.2.3.4", True),
        ("2001:db8::1", True),
        ("2001:DB8::1", False),
        ("2001:db8:0:0::1", False),
        ("::1.2.3.4", False),
    ],
)
def test_canonical_addresses(text: str, canonical: bool) -> None:
    assert OVERLOADS["ip_is_canonical"].call(text) is canonical


def test_whether_it_is_canonical_can_be_asked_of_addresses_only() -> None:
    with pytest.raises(CelError, match="unable to parse IP"):
        OVERLOADS["ip_is_canonical"].call("x")


CONTAINED = [
    ("10.0.0.0/8", "10.1.2.3", True),
    ("10.1.2.3/8", "10.9.9.9", True),
    ("10.0.0.0/8", "11.0.0.0", False),
    ("0.0.0.0/0", "1.2.3.4", True),
    ("0.0.0.0/0", "::1", False),
    ("2001:db8::/32", "2001:db8:1::", True),
]


@pytest.mark.parametrize(("network", "address", "contained"), CONTAINED)
def test_networks_contain_addresses(network: str, address: str, contained: bool) -> None:
    cidr = parse_cidr(network)
    assert OVERLOADS["cidr_contains_ip_ip"].call(cidr, parse_ip(address)) is contained
    assert OVERLOADS["cidr_contains_ip_string"].call(cidr, address) is contained


@pytest.mark.parametrize(
    ("network", "other", "contained"),
    [
        ("10.0.0.0/8", "10.1.0.0/16", True),
        ("10.0.0.0/8", "10.0.0.0/8", True),
        ("10.1.0.0/16", "10.0.0.0/8", False),
        ("10.0.0.0/8", "::/128", False),
    ],
)
def test_networks_contain_networks(network: str, other: str, contained: bool) -> None:
    cidr = parse_cidr(network)
    assert OVERLOADS["cidr_contains_cidr"].call(cidr, parse_cidr(other)) is contained
    assert OVERLOADS["cidr_contains_cidr_string"].call(cidr, other) is contained


def test_text_that_is_no_address_is_an_error_without_a_reason() -> None:
    with pytest.raises(CelError, match=r"^no such overload$"):
        OVERLOADS["cidr_contains_ip_string"].call(parse_cidr("::/0"), "x")


def test_the_parts_of_a_network() -> None:
    cidr = parse_cidr("10.1.2.3/12")
    assert str(OVERLOADS["cidr_ip"].call(cidr)) == "10.1.2.3"
    assert OVERLOADS["cidr_prefix_length"].call(cidr) == 12
    assert OVERLOADS["cidr_to_string"].call(OVERLOADS["cidr_masked"].call(cidr)) == "10.0.0.0/12"
    assert cidr.size() == 2


def test_addresses_and_networks_equal_their_own_kind_only() -> None:
    ip, cidr = parse_ip("1.2.3.4"), parse_cidr("1.2.3.4/8")
    assert equal(ip, parse_ip("1.2.3.4"))
    assert equal(cidr, parse_cidr("1.2.3.4/8"))
    assert not equal(cidr, parse_cidr("1.0.0.0/8"))
    for left, right in ((ip, cidr), (cidr, ip), (ip, "1.2.3.4")):
        with pytest.raises(CelError, match=r"^no such overload$"):
            equal(left, right)


@given(st.ip_addresses())
def test_addresses_are_read_and_printed_as_python_does(address: Any) -> None:
    if address.version == 6 and address.ipv4_mapped is not None:
        return
    ip = parse_ip(str(address))
    assert OVERLOADS["ip_to_string"].call(ip) == str(address)
    assert ip == parse_ip(address.exploded) == IP(int(address), address.max_prefixlen)


@given(st.ip_addresses(), st.integers(0, 128), st.ip_addresses())
def test_networks_contain_what_python_says(address: Any, length: int, other: Any) -> None:
    length = min(length, address.max_prefixlen)
    cidr = CIDR(IP(int(address), address.max_prefixlen), length)
    network = ip_network(f"{address}/{length}", strict=False)
    assert OVERLOADS["cidr_contains_ip_ip"].call(cidr, IP(int(other), other.max_prefixlen)) is (other in network)
    assert OVERLOADS["cidr_masked"].call(cidr).ip.number == int(ip_address(network.network_address))
