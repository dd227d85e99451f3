"""Random expressions of DRA's CEL, and devices for them.

Expressions come from a typed grammar, so that most of them compile and their functions get arguments that mean
something to them; now and then a hole is filled with what does not fit. Others are real expressions with a few tokens
changed. The same seed gives the same cases.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drabridge.core.cel import types
from drabridge.core.cel.types import Type
from upstream.cel import STORED, Environment

DRIVER = "gpu.example.com"
DEPTH = 4
WRONG = 0.005
"""How often a hole is filled by an expression of another type."""

LIES = 0.02
"""How often the checker is kept from seeing that a hole is filled by an expression of another type."""

# One production a line: `result = template`. <type> is a hole; <name> of POOLS is a literal made for the function;
# $x is a fresh variable and <type | $x: type> a hole that sees it. Capitals are type parameters, bound by the result.
GRAMMAR = {
    "logic": """
        bool = <bool> && <bool>
        bool = <bool> || <bool>
        bool = !<bool>
        A = <bool> ? <A> : <A>
        bool = <A> == <A>
        bool = <A> != <A>
        bool = <ordered> < <ordered>
        bool = <A> == <dyn>
        bool = <dyn> != <A>
        bool = <dyn> == <dyn>
        bool = <dyn> && <bool>
        bool = <bool> || <dyn>
        bool = <dyn> ? <bool> : <bool>
        bool = <A> in <list(A)>
        bool = <A> in <map(A, B)>
        bool = <dyn> in <list(A)>
        bool = <dyn> in <dyn>
    """,
    "order": """
        bool = <int> < <int>
        bool = <int> >= <double>
        bool = <double> <= <uint>
        bool = <uint> > <int>
        bool = <int> > <uint>
        bool = <double> < <double>
        bool = <uint> <= <uint>
        bool = <string> < <string>
        bool = <bytes> >= <bytes>
        bool = <bool> > <bool>
        bool = <timestamp> < <timestamp>
        bool = <duration> <= <duration>
        bool = <dyn> < <dyn>
        bool = <dyn> >= <int>
        bool = <double> > <dyn>
    """,
    "arithmetic": """
        int = <int> + <int>
        int = <int> - <int>
        int = <int> * <int>
        int = <int> / <int>
        int = <int> % <int>
        int = -<int>
        int = <dyn> + <int>
        int = <dyn> % <int>
        int = <dyn> / <dyn>
        uint = <uint> + <uint>
        uint = <uint> - <uint>
        uint = <uint> * <uint>
        uint = <uint> / <uint>
        uint = <uint> % <uint>
        double = <double> + <double>
        double = <double> - <double>
        double = <double> * <double>
        double = <double> / <double>
        double = -<double>
        string = <string> + <string>
        bytes = <bytes> + <bytes>
        list(A) = <list(A)> + <list(A)>
        timestamp = <timestamp> + <duration>
        timestamp = <duration> + <timestamp>
        timestamp = <timestamp> - <duration>
        duration = <duration> + <duration>
        duration = <duration> - <duration>
        duration = <timestamp> - <timestamp>
        dyn = <dyn> + <dyn>
        dyn = <dyn> - <dyn>
        dyn = -<dyn>
    """,
    "conversion": """
        int = int(<int>)
        int = int(<uint>)
        int = int(<double>)
        int = int(<number_text>)
        int = int(<timestamp>)
        int = int(<duration>)
        uint = uint(<int>)
        uint = uint(<double>)
        uint = uint(<number_text>)
        uint = uint(<dyn>)
        double = double(<int>)
        double = double(<uint>)
        double = double(<number_text>)
        double = double(<dyn>)
        string = string(<int>)
        string = string(<uint>)
        string = string(<double>)
        string = string(<bool>)
        string = string(<bytes>)
        string = string(<timestamp>)
        string = string(<duration>)
        string = string(<ip>)
        string = string(<cidr>)
        string = string(<dyn>)
        bytes = bytes(<string>)
        bytes = bytes(<bytes>)
        bool = bool(<bool_text>)
        bool = bool(<dyn>)
        timestamp = timestamp(<timestamp_text>)
        timestamp = timestamp(<int>)
        duration = duration(<duration_text>)
        type = type(<A>)
        type = type(<dyn>)
        dyn = dyn(<A>)
        int = size(<string>)
        int = size(<bytes>)
        int = size(<list(A)>)
        int = size(<map(A, B)>)
        int = size(<dyn>)
        int = <string>.size()
        int = <bytes>.size()
        int = <list(A)>.size()
        int = <map(A, B)>.size()
        int = <dyn>.size()
    """,
    "text": """
        bool = <string>.contains(<string>)
        bool = <string>.startsWith(<string>)
        bool = <string>.endsWith(<string>)
        bool = <dyn>.contains(<string>)
        bool = <string>.matches(<regex>)
        bool = matches(<string>, <regex>)
        bool = <string>.matches(<string>)
    """,
    "time": """
        int = <timestamp>.getFullYear()
        int = <timestamp>.getMonth(<zone>)
        int = <timestamp>.getDayOfYear()
        int = <timestamp>.getDayOfMonth(<zone>)
        int = <timestamp>.getDate()
        int = <timestamp>.getDayOfWeek()
        int = <timestamp>.getHours(<zone>)
        int = <timestamp>.getMinutes(<zone>)
        int = <timestamp>.getSeconds()
        int = <timestamp>.getMilliseconds()
        int = <duration>.getHours()
        int = <duration>.getMinutes()
        int = <duration>.getSeconds()
        int = <duration>.getMilliseconds()
    """,
    "access": """
        A = <list(A)>[<index>]
        A = <list(A)>[<int>]
        A = <list(A)>[<dyn>]
        B = <map(A, B)>[<A>]
        A = <map(string, A)>.<field>
        bool = has(<map(string, A)>.<field>)
        bool = has(<device_map>.<id>)
        dyn = <dyn>[<index>]
        dyn = <dyn>.<field>
        dyn = <device_map>[<string>]
        dyn = <device_map>.<id>
        quantity = <capacity_map>.<capacity_id>
        bool = <string> in <device_map>
        bool = <string> in device.attributes
        int = size(<device_map>)
        bool = <device_map> == <device_map>
        bool = device.allowMultipleAllocations
        string = device.driver
    """,
    "macros": """
        bool = <list(A)>.all($x, <bool | $x: A>)
        bool = <list(A)>.exists($x, <bool | $x: A>)
        bool = <list(A)>.exists_one($x, <bool | $x: A>)
        bool = <list(A)>.existsOne($x, <bool | $x: A>)
        bool = <map(A, B)>.all($x, <bool | $x: A>)
        bool = <map(A, B)>.exists($x, <bool | $x: A>)
        list(A) = <list(B)>.map($x, <A | $x: B>)
        list(A) = <list(B)>.map($x, <bool | $x: B>, <A | $x: B>)
        list(A) = <map(B, C)>.map($x, <A | $x: B>)
        list(A) = <list(A)>.filter($x, <bool | $x: A>)
        list(A) = <map(A, B)>.filter($x, <bool | $x: A>)
        bool = <dyn>.exists($x, <bool | $x: dyn>)
        bool = <dyn>.all($x, <bool | $x: dyn>)
        list(dyn) = <dyn>.filter($x, <bool | $x: dyn>)
        bool = device.attributes.exists($x, <bool | $x: string>)
        bool = <device_map>.all($x, <bool | $x: string>)
        bool = <capacity_map>.exists($x, <bool | $x: string>)
    """,
    "two variables": """
        bool = <list(A)>.all($i, $x, <bool | $i: int, $x: A>)
        bool = <list(A)>.exists($i, $x, <bool | $i: int, $x: A>)
        bool = <list(A)>.existsOne($i, $x, <bool | $i: int, $x: A>)
        bool = <map(A, B)>.all($k, $x, <bool | $k: A, $x: B>)
        bool = <map(A, B)>.exists($k, $x, <bool | $k: A, $x: B>)
        bool = <map(A, B)>.exists_one($k, $x, <bool | $k: A, $x: B>)
        list(A) = <list(B)>.transformList($i, $x, <A | $i: int, $x: B>)
        list(A) = <list(B)>.transformList($i, $x, <bool | $i: int, $x: B>, <A | $i: int, $x: B>)
        list(A) = <map(C, B)>.transformList($i, $x, <A | $i: C, $x: B>)
        map(int, A) = <list(B)>.transformMap($i, $x, <A | $i: int, $x: B>)
        map(A, B) = <map(A, C)>.transformMap($k, $x, <B | $k: A, $x: C>)
        map(A, B) = <map(A, C)>.transformMap($k, $x, <bool | $k: A, $x: C>, <B | $k: A, $x: C>)
        map(A, B) = <list(C)>.transformMapEntry($i, $x, {<A | $i: int, $x: C>: <B | $i: int, $x: C>})
        map(A, B) = <map(C, D)>.transformMapEntry($i, $x, {<A | $i: C, $x: D>: <B | $i: C, $x: D>})
        bool = <capacity_map>.all($k, $x, <bool | $k: string, $x: quantity>)
        bool = device.attributes.exists($k, $x, <bool | $k: string, $x: map(string, dyn)>)
    """,
    "bind": """
        A = cel.bind($x, <B>, <A | $x: B>)
        A = cel.bind($x, <device_map>, <A | $x: map(string, dyn)>)
    """,
    "literals": """
        list(A) = [<A>]
        list(A) = [<A>, <A>]
        list(A) = [<A>, <A>, <A>]
        list(A) = [?<optional(A)>, <A>]
        list(A) = [?<optional(A)>]
        list(dyn) = [<dyn>, <dyn>]
        map(A, B) = {<A>: <B>}
        map(A, B) = {<A>: <B>, <A>: <B>}
        map(A, B) = {?<A>: <optional(B)>}
        int = google.protobuf.Int64Value{value: <int>}
        string = google.protobuf.StringValue{value: <string>}
        bool = google.protobuf.BoolValue{value: <bool>}
        double = google.protobuf.DoubleValue{value: <double>}
        uint = google.protobuf.UInt32Value{value: <uint>}
        int = google.protobuf.Int32Value{value: <int>}
        double = google.protobuf.FloatValue{value: <double>}
        bytes = google.protobuf.BytesValue{value: <bytes>}
        timestamp = google.protobuf.Timestamp{seconds: <int>}
        duration = google.protobuf.Duration{seconds: <int>, nanos: <index>}
        dyn = google.protobuf.Value{number_value: <double>}
        dyn = google.protobuf.Value{string_value: <string>}
        dyn = google.protobuf.Value{bool_value: <bool>}
        list(dyn) = google.protobuf.ListValue{values: [<dyn>, <dyn>]}
        map(string, dyn) = google.protobuf.Struct{fields: {<string>: <dyn>}}
    """,
    "optional": """
        optional(A) = optional.of(<A>)
        optional(A) = optional.none()
        optional(A) = optional.ofNonZeroValue(<A>)
        bool = <optional(A)>.hasValue()
        A = <optional(A)>.value()
        A = <optional(A)>.orValue(<A>)
        optional(A) = <optional(A)>.or(<optional(A)>)
        optional(B) = <optional(A)>.optMap($x, <B | $x: A>)
        optional(B) = <optional(A)>.optFlatMap($x, <optional(B) | $x: A>)
        optional(A) = <list(A)>[?<index>]
        optional(B) = <map(A, B)>[?<A>]
        optional(A) = <map(string, A)>.?<field>
        optional(dyn) = <device_map>.?<id>
        optional(dyn) = device.attributes[?<domain>].?<id>
        optional(quantity) = <capacity_map>[?<string>]
        dyn = <device_map>.?<id>.orValue(<A>)
        bool = has(<optional(map(string, A))>.<field>)
        optional(A) = <optional(map(string, A))>.<field>
        optional(A) = <list(A)>.first()
        optional(A) = <list(A)>.last()
        list(A) = optional.unwrap([<optional(A)>, <optional(A)>])
        list(A) = [<optional(A)>].unwrapOpt()
    """,
    "strings": """
        string = <string>.charAt(<index>)
        int = <string>.indexOf(<string>)
        int = <string>.indexOf(<string>, <index>)
        int = <string>.lastIndexOf(<string>)
        int = <string>.lastIndexOf(<string>, <index>)
        string = <string>.lowerAscii()
        string = <string>.upperAscii()
        string = <string>.trim()
        string = <string>.replace(<string>, <string>)
        string = <string>.replace(<string>, <string>, <index>)
        list(string) = <string>.split(<string>)
        list(string) = <string>.split(<string>, <index>)
        string = <string>.substring(<index>)
        string = <string>.substring(<index>, <index>)
        string = <list(string)>.join()
        string = <list(string)>.join(<string>)
        string = strings.quote(<string>)
        string = <format>.format([<A>])
        string = <format>.format([<dyn>, <dyn>])
        string = <format>.format([<dyn>, <dyn>, <dyn>])
        string = '%s'.format([<A>])
        string = '%d|%x'.format([<number>, <number>])
        string = '%.3f|%e'.format([<number>, <number>])
        string = '%b|%o'.format([<number>, <number>])
        string = '%X'.format([<A>])
        string = <dyn>.lowerAscii()
        list(string) = <dyn>.split(<string>)
        string = <dyn>.substring(<index>)
        string = <dyn>.join(<string>)
    """,
    "sets": """
        bool = sets.contains(<list(A)>, <list(A)>)
        bool = sets.equivalent(<list(A)>, <list(A)>)
        bool = sets.intersects(<list(A)>, <list(A)>)
        bool = sets.contains(<dyn>, <list(A)>)
        bool = sets.intersects(<list(A)>, <dyn>)
    """,
    "lists": """
        list(A) = <list(A)>.slice(<index>, <index>)
        list(A) = <list(list(A))>.flatten()
        list(dyn) = <list(list(A))>.flatten(<index>)
        list(dyn) = <dyn>.flatten()
        list(A) = <list(A)>.sort()
        list(scalar) = <list(scalar)>.sort()
        list(A) = <list(A)>.sortBy($x, <scalar | $x: A>)
        list(A) = <list(A)>.distinct()
        list(int) = lists.range(<index>)
        list(A) = <list(A)>.reverse()
        list(dyn) = <dyn>.distinct()
        list(dyn) = <dyn>.sort()
        list(dyn) = <dyn>.slice(<index>, <index>)
        list(dyn) = <dyn>.reverse()
        bool = <list(scalar)>.isSorted()
        bool = <dyn>.isSorted()
        int = <list(int)>.sum()
        double = <list(double)>.sum()
        uint = <list(uint)>.sum()
        duration = <list(duration)>.sum()
        int = <list(int)>.min()
        int = <list(int)>.max()
        string = <list(string)>.min()
        string = <list(string)>.max()
        bool = <list(bool)>.min()
        double = <list(double)>.max()
        timestamp = <list(timestamp)>.max()
        int = <dyn>.sum()
        int = <dyn>.max()
        int = <list(A)>.indexOf(<A>)
        int = <list(A)>.lastIndexOf(<A>)
        int = <dyn>.indexOf(<dyn>)
        bool = <dyn>.includes(<dyn>)
        bool = <dyn>.includes(<A>)
        bool = <list(A)>.includes(<A>)
    """,
    "regex": """
        string = <string>.find(<regex>)
        list(string) = <string>.findAll(<regex>)
        list(string) = <string>.findAll(<regex>, <index>)
        string = <dyn>.find(<regex>)
    """,
    "net": """
        url = url(<url_text>)
        bool = isURL(<url_text>)
        string = <url>.getScheme()
        string = <url>.getHost()
        string = <url>.getHostname()
        string = <url>.getPort()
        string = <url>.getEscapedPath()
        map(string, list(string)) = <url>.getQuery()
        ip = ip(<ip_text>)
        bool = isIP(<ip_text>)
        bool = ip.isCanonical(<ip_text>)
        int = <ip>.family()
        bool = <ip>.isUnspecified()
        bool = <ip>.isLoopback()
        bool = <ip>.isLinkLocalMulticast()
        bool = <ip>.isLinkLocalUnicast()
        bool = <ip>.isGlobalUnicast()
        cidr = cidr(<cidr_text>)
        bool = isCIDR(<cidr_text>)
        bool = <cidr>.containsIP(<ip>)
        bool = <cidr>.containsIP(<ip_text>)
        bool = <cidr>.containsCIDR(<cidr>)
        bool = <cidr>.containsCIDR(<cidr_text>)
        ip = <cidr>.ip()
        cidr = <cidr>.masked()
        int = <cidr>.prefixLength()
    """,
    "format": """
        named_format = format.dns1123Label()
        named_format = format.dns1123Subdomain()
        named_format = format.dns1035Label()
        named_format = format.qualifiedName()
        named_format = format.dns1123LabelPrefix()
        named_format = format.dns1123SubdomainPrefix()
        named_format = format.dns1035LabelPrefix()
        named_format = format.labelValue()
        named_format = format.uri()
        named_format = format.uuid()
        named_format = format.byte()
        named_format = format.date()
        named_format = format.datetime()
        optional(named_format) = format.named(<format_name>)
        optional(list(string)) = <named_format>.validate(<formatted>)
        optional(list(string)) = <named_format>.validate(<string>)
        bool = <named_format>.validate(<formatted>).hasValue()
    """,
    "quantity": """
        quantity = quantity(<quantity_text>)
        bool = isQuantity(<quantity_text>)
        bool = <quantity>.isInteger()
        int = <quantity>.asInteger()
        double = <quantity>.asApproximateFloat()
        quantity = <quantity>.add(<quantity>)
        quantity = <quantity>.add(<int>)
        quantity = <quantity>.sub(<quantity>)
        quantity = <quantity>.sub(<int>)
        int = sign(<quantity>)
        bool = <quantity>.isGreaterThan(<quantity>)
        bool = <quantity>.isLessThan(<quantity>)
        int = <quantity>.compareTo(<quantity>)
        bool = <dyn>.isGreaterThan(<quantity>)
        int = <quantity>.compareTo(<dyn>)
    """,
    "semver": """
        semver = semver(<semver_text>)
        semver = semver(<semver_text>, <bool>)
        bool = isSemver(<semver_text>)
        bool = isSemver(<semver_text>, <bool>)
        int = <semver>.major()
        int = <semver>.minor()
        int = <semver>.patch()
        bool = <semver>.isGreaterThan(<semver>)
        bool = <semver>.isLessThan(<semver>)
        int = <semver>.compareTo(<semver>)
        bool = <dyn>.isLessThan(<semver>)
        int = <dyn>.compareTo(<dyn>)
    """,
}

INTS = (
    "0", "1", "2", "3", "-1", "7", "10", "42", "100", "0x1F", "-0x10", "1000000", "4294967296",
    "9223372036854775807", "-9223372036854775808", "-9223372036854775807",
)  # fmt: skip
UINTS = ("0u", "1u", "2u", "3U", "10u", "0xFFu", "18446744073709551615u")
DOUBLES = (
    "0.0", "1.0", "-1.0", "0.5", "2.0", "3.7", "-2.5", "1e3", "1.5e-3", "1e300", "-1e300", ".5", "9007199254740993.0",
    "double('NaN')", "double('Infinity')", "double('-inf')", "-0.0", "1e18", "9.3e18", "123456789.123",
)  # fmt: skip
STRINGS = (
    "", "a", "b", "fish", "gpu", "NVIDIA A100", "A100", "nic0", "x,y,,z", " padded ", "ünïcödé", "日本語", "😀 smile",
    "a\nb\tc", 'quo"te', "it's", "back\\slash", "0", "true", "1Gi", "1.2.3", "model", "index", DRIVER, "aaa", "ABC",
    "\x00nul", "A\u0301", "\u017ftraße", "İi", "\u00a0nbsp\u2003", "%s", "%d%%", "zz", "10.0.0.1",
)  # fmt: skip
BYTES = ("b''", "b'a'", "b'abc'", "b'\\xff\\x00'", "b'\\377'", "b'ü'", 'b"x"', "br'\\n'")

POOLS: Mapping[str, Sequence[str]] = {
    "number_text": ("0", "12", "-7", "1.5", "1e3", "abc", "", "9223372036854775807", "9223372036854775808",
        "-0", "+3", " 1", "0x10", "18446744073709551615", "NaN", "inf", "-Infinity", "1_000", "007", "1.", ".5",
        "1e999",
        "0b1", "0x1p-2", "1e-400", "٣"),
    "bool_text": ("true", "false", "True", "TRUE", "t", "1", "0", "F", "f", "yes", "", "tRUE", " true"),
    "timestamp_text": ("1970-01-01T00:00:00Z", "2026-12-01T10:20:30Z", "2024-02-29T23:59:59.999999999Z",
        "2024-01-01T00:00:00+05:30", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999999Z", "2023-02-29T00:00:00Z",
        "2024-01-01", "x", "2024-01-01t00:00:00z", "2024-01-01T24:00:00Z", "2024-01-01T00:00:60Z",
        "1969-12-31T23:59:59.5Z", "2024-01-01T00:00:00,5Z", "2024-1-1T0:0:0Z", "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-01:00", "2024-01-01T00:00:00+24:00", "2024-01-01 00:00:00Z", "2024-06-15T12:00:00.123Z"),
    "duration_text": ("1h", "60m", "1.5s", "-3m", "1h2m3s", "100ms", "5us", "7ns", "0", "1", "", "x", "1d",
        "2540400h", "9223372036s", "9223372037s", "-1h30m", "+1s", ".5s", "1.s", "1µs", "1.0000000001s",
        "315576000001s",
        "1e3s", "0.000000001s", "86400s", "- 1s", "1h1h", ".s"),
    "zone": ("UTC", "Europe/Berlin", "America/New_York", "+01:00", "-08:30", "05:30", "Nowhere/None", "",
        "Local", "Asia/Kolkata", "+1:00", "+01", "-00:30", "24:00", "utc", "EST", "+99:99", "02:00"),
    "regex": ("a", "^a", "a*", "[a-z]+", "[0-9]", "(a|b)+", "^.*a100.*$", "(?i)a100", "\\d+", "\\w+\\s",
        "[^a]?sym", "a{2,3}", "(?P<n>a)b", "[", "(", "a**", "(?=a)", "\\1", "^$", "", ".", "\\bA", "x?", "a|",
        "[[:alpha:]]+",
        "\\p{L}+", "\\x41", "(?s).", "(?m)^b$", "\\Aa\\z", "\\Z", "a{1001}", "[a-", "\\pN", "(?:ab)?", "\\Qa.b\\E",
        "\\C",
        "(?<n>a)", "[\\d]", "[^\\w]", "*", "a??", "(?U)a+", "\\u0041", "[z-a]", "\\S+$", "{", "a{,2}", "(?i:A)b",
        "\\h",
        "[[:word:]]", "\\p{Greek}", "\\P{Lu}", "(?P<n>a)(?P<n>b)", "x{0}", "\\07", "\\xZ", "((a*)*)*", "\\D\\W",
        "a++"),
    "format": ("%s", "%d", "%f", "%.2f", "%e", "%.0e", "%x", "%X", "%o", "%b", "%%", "%s-%s", "%d %s",
        "%s %s %s", "a", "%", "%z", "%.s", "%.2d", "%.20f", "%.1000f", "%s%", "%5d", "%-s", "%.", "%.5e %x", "%c",
        "%b %o %X", "ü%s日"),
    "url_text": ("https://example.com/a/b?x=1&y=2&x=3#f", "http://user:pw@host:8080/p%20q", "zz", "",
        "https://[::1]:443/", "/path/only", "http://", "mailto:a@b.c", "https://example.com:port/", "http://a b/",
        "ftp://x/%zz", "https://ex.com/?a;b", "HTTPS://EX.com", "//host/path", "http://1.2.3.4/?q=%41%zz",
        "http://h/?a=1&&b",
        "https://[::1%25eth0]/", "http://[::1", "file:///x", "http://ü.example/ä?ö=ü", "a:b", "?x=1", "http://h:/",
        "https://h/a%2Fb?x=a+b", "http://h/\\x", ":x", "1a://h/", "a+b.c-d://h/", "*", "http://h?x", "http://@h/",
        "/\n"),
    "ip_text": ("1.2.3.4", "127.0.0.1", "0.0.0.0", "::1", "::", "fe80::1", "224.0.0.1", "169.254.1.1",
        "ff02::1", "2001:db8::FFFF", "1.2.3", "256.1.1.1", "01.2.3.4", "::ffff:1.2.3.4", "x", "", "fe80::1%eth0",
        "2001:DB8:0:0:0:0:0:1", "1.2.3.4 ", "1:2:3:4:5:6:7:8", "1::2::3", "10.0.0.1", "255.255.255.255", "::1.2.3.4",
        "1:2:3:4:5:6:1.2.3.4", "12345::", ":::", "1.2.3.4.5", "0x1.2.3.4", "64:ff9b::1.2.3.4"),
    "cidr_text": ("10.0.0.0/8", "10.1.2.3/16", "0.0.0.0/0", "::/0", "fe80::/10", "1.2.3.4/32", "1.2.3.4/33",
        "x", "", "10.0.0.0", "2001:db8::1/64", "::ffff:1.2.3.4/120", "1.2.3.4/08", "10.0.0.0/-1", "10.0.0.0/8/8",
        "fe80::1%eth0/64", "192.168.0.0/24", "1.2.3.4/+8", "::1/128", "::/129", "10.0.0.0/ 8", "10.0.0.0/"),
    "format_name": ("dns1123Label", "uri", "uuid", "nope", "", "date", "labelValue", "datetime", "byte"),
    "formatted": ("a-b", "A", "a.b.c", "", "-x", "https://a/b", "123e4567-e89b-12d3-a456-426614174000",
        "aGVsbG8=", "2024-01-01", "2024-01-01T00:00:00Z", "example.com/name", "x" * 64, "a_b", "not base64!",
        "2024-13-01",
        "1a", "a-", "example.com/", "/x", "a/b/c", "123E4567E89B12D3A456426614174000", "a.-b",
        "2024-01-01T00:00:00.5+01:00",
        "x" * 254, "aGVsbG8", "2024-02-30", "//x", "x y", "日本", "2024-01-01 00:00:00", "{x}"),
    "quantity_text": ("0", "1", "1Gi", "1024Mi", "1.5Gi", "10k", "1e3", "-1", "100m", "1.5k", "0.5", "1Ti",
        "9223372036854775807", "9223372036854775808", "1E", "1Ei", "abc", "", "Mi", ".5", "5.", "+1", "1K", "1e",
        "1 Gi",
        "1n", "1u", "0.000000001", "1e-10", "12e6", "1E3", "123456789012345678901234567890", "40960Mi", "8", "1e19",
        "-0",
        "1.0", "1000m", "0.1n", "1e18", "9223372036854775807m", "99999999999999999999E", "1e999999999", "1.2.3",
        "--1", "1ki",
        "8Ei", "1e+3", "1e2147483648", "00001", "1.50", "-1.5Gi", "-100m", "1P", "1M", "1G", "1T", "500",
        "1.2345678901"),
    "semver_text": ("1.2.3", "1.0.0", "0.0.1", "2.0.0-alpha", "2.0.0-alpha.1", "1.0.0+a", "1.0.0-rc.1+b",
        "v1.2.3", "1.2", "1", "01.2.3", "", "x", "1.2.3.4", "1.2.3-", "1.0.0-01", "1.0.0-alpha..1", "v1", "550.54.15",
        " 1.2.3", "1.2.3-a_b", "18446744073709551616.0.0", "v01.02", "1.-1.0", "1.2.3+", "1.0.0-beta", "1.0.0-1",
        "V1.2.3",
        "v1.2-alpha", "1.2+b", "18446744073709551615.0.0", "9223372036854775808.0.0", "1.0.0--", "vv1.0.0", "1..0",
        "1.2.x"),
}  # fmt: skip
WORDS: Mapping[str, Sequence[str]] = {
    "index": ("0", "0", "0", "0", "1", "1", "2", "3", "-1", "100", "5"),
    "field": ("a", "b", "model", "x1", "`a`", "`b-c`"),
    "id": (
        "model", "index", "healthy", "version", "names", "numas", "flags", "versions", "nope", "kind", "uuid",
        "`model`",
        "weird", "empty",
    ),
    "capacity_id": ("memory", "cores", "memory", "slots", "nope", "odd", "bytes"),
    "domain": (f"'{DRIVER}'", "'other.example.com'", "'nope'", "device.driver"),
    "device_map": (
        f"device.attributes['{DRIVER}']", f'device.attributes["{DRIVER}"]', "device.attributes[device.driver]",
        "device.attributes['other.example.com']", "device.attributes['nope']", "device.attributes.nope",
        "device.`attributes`['gpu.example.com']",
    ),
    "capacity_map": (
        f"device.capacity['{DRIVER}']", f"device.capacity['{DRIVER}']", "device.capacity[device.driver]",
        "device.capacity['other.example.com']", "device.capacity['nope']",
    ),
}  # fmt: skip
ATTRIBUTES: Mapping[str, Sequence[str]] = {
    "string": ("model", "kind", "uuid"),
    "int": ("index", "count"),
    "bool": ("healthy",),
    "kubernetes.Semver": ("version",),
    "list(string)": ("names",),
    "list(int)": ("numas",),
    "list(bool)": ("flags",),
    "list(kubernetes.Semver)": ("versions",),
}
"""The attributes of random devices that usually hold a value of that type."""

NAMES = {
    "timestamp": types.TIMESTAMP,
    "duration": types.DURATION,
    "null": types.NULL,
    "type": types.type_of(types.DYN),
    "quantity": types.QUANTITY,
    "semver": types.SEMVER,
    "url": types.URL,
    "ip": types.IP,
    "cidr": types.CIDR,
    "named_format": types.NAMED_FORMAT,
}
SCALARS = (types.BOOL, types.INT, types.INT, types.STRING, types.STRING, types.DOUBLE, types.UINT, types.BYTES)
LIBRARY_TYPES = (types.QUANTITY, types.SEMVER, types.TIMESTAMP, types.DURATION, types.IP, types.CIDR, types.URL)
KEYS = (types.STRING, types.STRING, types.INT, types.UINT, types.BOOL)
TYPE_NAMES = (
    "int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type",
        "google.protobuf.Timestamp",
    "google.protobuf.Duration", "optional_type", "kubernetes.Quantity", "net.IP", "dyn",
)  # fmt: skip

Bindings = dict[str, Type]


class Dice(random.Random):
    """Random choices, the same ones for the same seed."""

    def chance(self, probability: float) -> bool:
        """Say yes that often."""
        return self.random() < probability


@dataclass(frozen=True, slots=True)
class Hole:
    """A place in a template: what fits there, and the variables that can be seen from it."""

    wanted: Type
    sees: tuple[tuple[str, Type], ...] = ()


@dataclass(frozen=True, slots=True)
class Production:
    """A line of GRAMMAR. `parts` are texts, fresh variables ("$x") and holes in their order."""

    result: Type
    parts: tuple[str | Hole, ...]

    @property
    def is_operator(self) -> bool:
        """Whether its text needs parentheses inside another operator."""
        return isinstance(self.parts[0], Hole) or self.parts[0] in ("!", "-")


def parse_type(text: str) -> Type:
    """Read "map(string, list(A))"."""
    name, _, rest = text.strip().partition("(")
    if not rest:
        if len(name) == 1:
            return types.parameter(name)
        return NAMES.get(name, Type(name))
    args, level, start = [], 0, 0
    inner = rest[:-1]
    for at, sign in enumerate(inner + ","):
        level += (sign == "(") - (sign == ")")
        if sign == "," and not level:
            args.append(parse_type(inner[start:at]))
            start = at + 1
    return Type({"optional": "optional_type"}.get(name, name), tuple(args))


def parse_production(line: str) -> Production:
    """Read a line of GRAMMAR."""
    result, _, template = line.strip().partition(" = ")
    parts: list[str | Hole] = []
    for text in re.findall(r"<[a-z_A-Z][^<>]*>|\$\w|[^<$]+|<", template):
        if not text.startswith("<") or text == "<":
            parts.append(text)
            continue
        wanted, _, seen = text[1:-1].partition(" | ")
        sees = [entry.partition(": ") for entry in re.split(r", (?=\$)", seen) if entry]
        parts.append(Hole(parse_type(wanted), tuple((name, parse_type(each)) for name, _, each in sees)))
    return Production(parse_type(result), tuple(parts))


PRODUCTIONS = {
    library: tuple(parse_production(line) for line in lines.strip().splitlines()) for library, lines in GRAMMAR.items()
}


def unify(pattern: Type, wanted: Type, bound: Bindings) -> bool:
    """Whether the pattern can be the wanted type; `bound` gets its parameters."""
    if pattern.is_parameter:
        return bound.setdefault(pattern.name, wanted) == wanted
    if pattern.name != wanted.name or len(pattern.args) != len(wanted.args):
        return False
    return all(unify(*pair, bound) for pair in zip(pattern.args, wanted.args, strict=True))


def candidates(wanted: Type) -> dict[str, list[tuple[Production, Bindings]]]:
    """What can make the type, by library."""
    found: dict[str, list[tuple[Production, Bindings]]] = {}
    for library, productions in PRODUCTIONS.items():
        for production in productions:
            bound: Bindings = {}
            if unify(production.result, wanted, bound):
                found.setdefault(library, []).append((production, bound))
    return found


@dataclass(frozen=True, slots=True)
class Case:
    """An expression, and the device it is asked about. `origin` says where it came from: a library, or a mutation."""

    origin: str
    expression: str
    driver: str
    device: dict[str, Any]
    environment: Environment = STORED


@dataclass(slots=True)
class Expressions:
    """The typed grammar at work."""

    random: Dice
    origin: str = ""
    _variables: int = 0
    _literals: int = 0
    _candidates: dict[Type, dict[str, list[tuple[Production, Bindings]]]] = field(default_factory=dict)

    def boolean(self) -> str:
        """A whole expression: of type bool, or of dyn, which a selector may be as well."""
        self._variables = 0
        self._literals = 0
        self.origin = ""
        wanted = types.DYN if self.random.chance(0.04) else types.BOOL
        return self._produce(wanted, self.random.randint(1, DEPTH), {})

    def make(self, wanted: Type, depth: int, scope: Mapping[str, Type]) -> str:
        """An expression of that type that uses the variables in scope."""
        if self.random.chance(WRONG):
            wanted = self._any(depth)
        if special := self._special(wanted, depth, scope):
            return special
        if depth > 0 and not self._literals and self.random.chance(LIES):
            return self._lie(wanted, depth, scope)
        if self.random.chance(0.3) and (fitting := [name for name, each in scope.items() if each == wanted]):
            return self.random.choice(fitting)
        if depth <= 0 or self.random.chance(0.12):
            return self.leaf(wanted, depth, scope)
        return self._produce(wanted, depth, scope)

    def _lie(self, wanted: Type, depth: int, scope: Mapping[str, Type]) -> str:
        """An expression that is dyn to the checker, or of the wanted type in its eyes only."""
        other = self.make(self._any(depth), depth - 1, scope)
        if self.random.chance(0.5):
            return f"dyn({other})"
        return f"(dyn([{other}]) + [{self.make(wanted, depth - 1, scope)}])[{self.random.choice(WORDS['index'])}]"

    def _produce(self, wanted: Type, depth: int, scope: Mapping[str, Type]) -> str:
        if wanted not in self._candidates:
            self._candidates[wanted] = candidates(wanted)
        libraries = self._candidates[wanted]
        if not libraries:
            return self.leaf(wanted, depth, scope)
        library = self.random.choice(list(libraries))
        self.origin = self.origin or library
        production, bound = self.random.choice(libraries[library])
        return self._fill(production, dict(bound), depth, scope)

    def _fill(self, production: Production, bound: Bindings, depth: int, scope: Mapping[str, Type]) -> str:
        fresh: dict[str, str] = {}
        text = []
        for part in production.parts:
            if isinstance(part, str):
                text.append(self._variable(part, fresh) if part.startswith("$") else part)
                continue
            wanted = self._bind(part.wanted, bound)
            seen = {fresh[name]: self._bind(each, bound) for name, each in part.sees}
            text.append(self.make(wanted, depth - 1, {**scope, **seen}))
        whole = "".join(text)
        return f"({whole})" if production.is_operator and self.random.chance(0.8) else whole

    def _variable(self, name: str, fresh: dict[str, str]) -> str:
        if name not in fresh:
            self._variables += 1
            # Most have a name of their own; others hide one from around them.
            fresh[name] = f"v{self._variables}" if self.random.chance(0.8) else name[1:]
        return fresh[name]

    def _bind(self, wanted: Type, bound: Bindings) -> Type:
        if wanted.is_parameter:
            return bound.setdefault(wanted.name, self._any(1))
        if wanted.name == "map" and wanted.args[0].is_parameter:
            bound.setdefault(wanted.args[0].name, self.random.choice(KEYS))
        return Type(wanted.name, tuple(self._bind(each, bound) for each in wanted.args)) if wanted.args else wanted

    def _any(self, depth: int) -> Type:
        kinds = ("scalar", "library", "dyn", "list", "map", "optional") if depth > 0 else ("scalar",)
        match self.random.choices(kinds, (60, 15, 5, 10, 6, 4)[: len(kinds)])[0]:
            case "library":
                return self.random.choice(LIBRARY_TYPES)
            case "dyn":
                return types.DYN
            case "list":
                return types.list_of(self._any(depth - 1))
            case "map":
                return types.map_of(self.random.choice(KEYS), self._any(depth - 1))
            case "optional":
                return types.optional_of(self._any(depth - 1))
            case _:
                return self.random.choice(SCALARS)

    def _special(self, wanted: Type, depth: int, scope: Mapping[str, Type]) -> str:
        """Fill the holes that are no types: words, literals made for a function, families of types."""
        name = wanted.name
        if name in WORDS:
            return self.random.choice(WORDS[name])
        if name in POOLS:
            if self.random.chance(0.1):
                return self.make(types.STRING, depth, scope)
            return self.pooled(name)
        if name == "number":
            return self.make(self.random.choice((types.INT, types.UINT, types.DOUBLE, types.DYN)), depth, scope)
        if name in ("scalar", "ordered"):
            return self.make(self.random.choice((*SCALARS, *LIBRARY_TYPES[:4])), depth, scope)
        return ""

    def leaf(self, wanted: Type, depth: int, scope: Mapping[str, Type]) -> str:
        """A literal of that type or, where attributes hold such values, an attribute."""
        # An attribute is dyn, and a literal of lists or maps must not mix that with other types.
        if str(wanted) in ATTRIBUTES and not self._literals and self.random.chance(0.5):
            return self.attribute(self.random.choice(ATTRIBUTES[str(wanted)]))
        if wanted == types.QUANTITY and self.random.chance(0.5):
            return f"{self.random.choice(WORDS['capacity_map'])}.{self.random.choice(WORDS['capacity_id'])}"
        return self.literal(wanted, depth, scope)

    def attribute(self, name: str) -> str:
        """An attribute in one of the ways it can be written."""
        domain = self.random.choice(WORDS["device_map"][:3])
        return self.random.choice((f"{domain}.{name}", f"{domain}['{name}']", f"{domain}.{name}"))

    def literal(self, wanted: Type, depth: int, scope: Mapping[str, Type]) -> str:
        """The simplest expressions of a type."""
        if simple := LITERALS.get(wanted.name):
            return simple(self)
        self._literals += 1
        try:
            if wanted.name == "list":
                count = self.random.choice((0, 1, 2, 2, 3, 3))
                return f"[{', '.join(self.make(wanted.args[0], depth - 1, scope) for _ in range(count))}]"
            if wanted.name == "map":
                count = self.random.choice((0, 1, 1, 2, 2))
                return f"{{{', '.join(self._entry(wanted, depth, scope) for _ in range(count))}}}"
            if wanted.name == "optional_type" and self.random.chance(0.7):
                return f"optional.of({self.make(wanted.args[0], depth - 1, scope)})"
        finally:
            self._literals -= 1
        return "optional.none()" if wanted.name == "optional_type" else "null"

    def _entry(self, wanted: Type, depth: int, scope: Mapping[str, Type]) -> str:
        key, value = wanted.args
        if key == types.STRING and self.random.chance(0.7):
            named = self.random.choice(("'a'", "'b'", "'model'", "'x1'"))  # what WORDS["field"] selects
        else:
            named = self.make(key, depth - 1, scope)
        return f"{named}: {self.make(value, depth - 1, scope)}"

    def any_value(self) -> str:
        """Something that is dyn to the checker."""
        if self.random.chance(0.7):
            return self.attribute(self.random.choice(WORDS["id"]))
        return f"dyn({self.leaf(self._any(1), 0, {})})"

    def call(self, function: str, pool: str) -> str:
        """A conversion of a text made for it."""
        return f"{function}({self.pooled(pool)})"

    def pooled(self, pool: str) -> str:
        """A literal made for a function. The first ones of each pool are the valid ones, mostly."""
        texts = POOLS[pool]
        text = texts[int(len(texts) * self.random.random() ** 2)]
        if self.random.chance(0.1):
            at = self.random.randrange(len(text) + 1)
            other = self.random.choice(texts)
            text = text[:at] + self.random.choice(other or "x") + text[at + self.random.randrange(2) :]
        return self.quoted(text)

    def quoted(self, text: str) -> str:
        """The string literal, in one of CEL's spellings."""
        style = self.random.randrange(8)
        if style == 0 and not re.search(r"['\n\r\\]", text):
            return f"r'{text}'"
        if style == 1 and "'''" not in text and not text.endswith("'") and "\\" not in text:
            return f"'''{text}'''"
        quote = '"' if style < 5 else "'"
        return quote + "".join(self._escaped(sign, quote) for sign in text) + quote

    def _escaped(self, sign: str, quote: str) -> str:
        named = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", quote: f"\\{quote}"}
        if sign in named:
            return named[sign]
        if sign < " ":
            return f"\\{ord(sign):03o}"
        if not self.random.chance(0.02):
            return sign
        if ord(sign) < 0x100 and self.random.chance(0.5):
            return f"\\x{ord(sign):02x}"
        return f"\\u{ord(sign):04X}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


LITERALS: Mapping[str, Callable[[Expressions], str]] = {
    "bool": lambda made: made.random.choice(("true", "false")),
    "int": lambda made: made.random.choice(INTS if made.random.chance(0.5) else INTS[:7]),
    "uint": lambda made: made.random.choice(UINTS),
    "double": lambda made: made.random.choice(DOUBLES),
    "string": lambda made: made.quoted(made.random.choice(STRINGS)),
    "bytes": lambda made: made.random.choice(BYTES),
    "null_type": lambda _: "null",
    "dyn": Expressions.any_value,
    "type": lambda made: made.random.choice(TYPE_NAMES),
    "google.protobuf.Timestamp": lambda made: made.call("timestamp", "timestamp_text"),
    "google.protobuf.Duration": lambda made: made.call("duration", "duration_text"),
    "kubernetes.Quantity": lambda made: made.call("quantity", "quantity_text"),
    "kubernetes.Semver": lambda made: made.call("semver", "semver_text"),
    "kubernetes.URL": lambda made: made.call("url", "url_text"),
    "net.IP": lambda made: made.call("ip", "ip_text"),
    "net.CIDR": lambda made: made.call("cidr", "cidr_text"),
    "kubernetes.NamedFormat": lambda made: made.random.choice(
        ("format.dns1123Label()", "format.labelValue()", "format.uri()", "format.date()")
    ),
}

GOOD_VERSIONS = ("1.2.3", "1.0.0", "2.0.0-alpha", "1.0.0+a", "550.54.15", "0.0.1")
GOOD_QUANTITIES = tuple(
    text
    for text in POOLS["quantity_text"]
    if re.fullmatch(r"[+-]?\d+(\.\d*)?([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,2})?", text)
)


def device(chosen: Dice) -> dict[str, Any]:
    """A device as a ResourceSlice has it: mostly what the names promise, sometimes not."""

    def strings(count: int) -> list[str]:
        return [chosen.choice(STRINGS) for _ in range(count)]

    count = chosen.choice((0, 1, 2, 3))
    values: dict[str, dict[str, Any]] = {
        "model": {"string": chosen.choice(STRINGS)},
        "kind": {"string": chosen.choice(("gpu", "fish", "mig"))},
        "uuid": {"string": "123e4567-e89b-12d3-a456-426614174000"},
        "index": {"int": chosen.choice((0, 1, 2, 7, -1, 2**63 - 1, -(2**63)))},
        "count": {"int": chosen.randrange(10)},
        "healthy": {"bool": chosen.chance(0.7)},
        "version": {"version": chosen.choice(GOOD_VERSIONS)},
        "names": {"strings": strings(count)},
        "numas": {"ints": [chosen.choice((0, 1, 2, 3, -1, 2**63 - 1)) for _ in range(count)]},
        "flags": {"bools": [chosen.chance(0.5) for _ in range(count)]},
        "versions": {"versions": [chosen.choice(GOOD_VERSIONS) for _ in range(count)]},
        "empty": {"strings": []},
    }
    values["weird"] = chosen.choice(list(values.values()))
    attributes = {name: value for name, value in values.items() if chosen.chance(0.85)}
    if chosen.chance(0.4):
        attributes["other.example.com/model"] = values["kind"]
        attributes["other.example.com/index"] = values["count"]
    if chosen.chance(0.01):
        attributes["weird"] = chosen.choice(({"version": "1.2"}, {}, {"versions": ["1.0.0", "x"]}))
    capacity = {
        name: {"value": chosen.choice(GOOD_QUANTITIES)}
        for name in ("memory", "cores", "slots", "odd", "other.example.com/memory")
        if chosen.chance(0.8)
    }
    made: dict[str, Any] = {"name": "d", "attributes": attributes, "capacity": capacity}
    if chosen.chance(0.3):
        made["allowMultipleAllocations"] = chosen.chance(0.5)
    return made


def environment(chosen: Dice) -> Environment:
    """Mostly the scheduler's, sometimes admission's with any gates."""
    return Environment(True, chosen.chance(0.5), chosen.chance(0.5)) if chosen.chance(0.1) else STORED


TOKEN = re.compile(
    r"""\s+|//[^\n]*|[rRbB]{0,2}(?:'''.*?'''|\"\"\".*?\"\"\"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")"""
    r"""|`[^`]*`|\d[\w.]*|\w+|&&|\|\||[=!<>]=|.""",
    re.DOTALL,
)
REPLACEMENTS = (
    ("==", "!=", "<", "<=", ">", ">=", "in", "+", "-", "*", "/", "%", "&&", "||", "?", ":", ".", ",", "[?", ".?"),
    ("(", ")", "[", "]", "{", "}", "!", "-", "null", "true", "false", "0", "1", "-1", "1u", "1.0", "'a'", "''",
        "b'a'"),
    ("size", "contains", "startsWith", "matches", "exists", "all", "map", "filter", "exists_one", "includes", "sum",
        "min"),
    ("isGreaterThan", "compareTo", "isLessThan", "quantity", "semver", "major", "add", "sub", "first", "sort",
        "distinct"),
    ("lowerAscii", "split", "join", "indexOf", "substring", "orValue", "hasValue", "optMap", "has", "dyn", "type",
        "int"),
    ("device", "attributes", "capacity", "driver", "allowMultipleAllocations", "x", "index", "model", "version",
        "string"),
    ("`x`", "for", "package", "as", "optional", "cel", "$", "\\", "@", "é", ";", "\n", "// c\n", "1e", "0x", "'",
        '"'),
)  # fmt: skip


def tokens(expression: str) -> list[str]:
    """The expression in pieces, blanks among them: joined they are the expression again."""
    return TOKEN.findall(expression)


@dataclass(frozen=True, slots=True)
class Mutations:
    """Real expressions and their devices, to change a few tokens of."""

    random: Dice
    real: Sequence[Mapping[str, Any]]

    def case(self) -> Case:
        """A real case with one to three changes of the expression and, sometimes, one of the device."""
        chosen = self.random.choice(self.real)
        pieces = tokens(chosen["expression"])
        for _ in range(self.random.choice((1, 1, 2, 3))):
            self._change(pieces)
        changed = self._device(chosen["device"]) if self.random.chance(0.3) else chosen["device"]
        return Case("mutation", "".join(pieces), chosen["driver"], changed)

    def _change(self, pieces: list[str]) -> None:
        at = self.random.randrange(len(pieces) + 1)
        match self.random.randrange(14):
            case 0:
                del pieces[at : at + 1]
            case 1:
                pieces[at : at + 1] = [self.random.choice(self.random.choice(REPLACEMENTS))]
            case 2:
                pieces.insert(at, self.random.choice(self.random.choice(REPLACEMENTS)))
            case 3:
                pieces[at:at] = pieces[at : at + self.random.randint(1, 4)]
            case 4:
                other = tokens(self.random.choice(self.real)["expression"])
                start = self.random.randrange(len(other))
                pieces[at : at + 1] = other[start : start + self.random.randint(1, 5)]
            case 5:
                pieces[at : at + 2] = reversed(pieces[at : at + 2])
            case _:
                self._replace_alike(pieces)

    def _replace_alike(self, pieces: list[str]) -> None:
        """A literal by another literal, a name by another name: what most likely still compiles."""
        numbers = [at for at, piece in enumerate(pieces) if re.match(r"[\w'\"]", piece)]
        if not numbers:
            return
        at = self.random.choice(numbers)
        if pieces[at][0].isdigit():
            pieces[at] = self.random.choice((*INTS, *UINTS, *DOUBLES))
        elif pieces[at][0] in "'\"":
            pieces[at] = Expressions(self.random).quoted(self.random.choice(STRINGS))
        else:
            pieces[at] = self.random.choice(self.random.choice(REPLACEMENTS[2:6]))

    def _device(self, before: Mapping[str, Any]) -> dict[str, Any]:
        changed: dict[str, Any] = json.loads(json.dumps(before))
        attributes = changed.get("attributes") or {}
        if not attributes:
            return changed
        name = self.random.choice(sorted(attributes))
        if self.random.chance(0.3):
            del attributes[name]
        else:
            attributes[name] = self.random.choice(list(device(self.random)["attributes"].values()) or [{"int": 1}])
        return changed


def bomb(chosen: Dice) -> str:
    """What strains limits: nesting, length, growth."""
    many = chosen.choice((5, 49, 120, 200, 249, 250, 251, 252, 260, 300, 600))
    nested = "true"
    return chosen.choice(
        (
            "(" * many + nested + ")" * many,
            "!" * many + nested,
            "-" * many + "1 == 1",
            "[" * many + "1" + "]" * many + " == []",
            " && ".join(["true"] * many),
            " + ".join(["1"] * many) + " == 1",
            "true ? " * many + "true" + " : false" * many,
            "dyn(" * many + "true" + ")" * many,
            "[1]" + "[0]" * many + " == 1",
            "{1: " * many + "1" + "}" * many + " == {}",
            "'a'" + ".trim()" * many + " == 'a'",
            "device" + ".x" * many,
            "[1].all(x, " * (many % 20) + "true" + ")" * (many % 20),
            "lists.range(100).all(x, lists.range(100).all(y, lists.range(" + str(many) + ").all(z, z >= 0)))",
            f"lists.range({many}).map(x, 'a').join().size() == {many}",
            f"lists.range({many}).all(x, 'aaaaaaaaaaaaaaaaaaaaaaa'.matches('(a|aa)+$'))",
            "'" + "x" * many * 15 + "'.size() > 0",
            "optional.of(1)" + ".optMap(x, x)" * chosen.choice((2, 5, 9, 60)) + ".hasValue()",
            "quantity('1e999999999').add(quantity('1')).isInteger()",
            "cel.bind(a, [1, 2], " * (many % 30) + "true" + ")" * (many % 30),
        )
    )


def cases(seed: int, real: Sequence[Mapping[str, Any]]) -> Iterator[Case]:
    """Endlessly many cases, the same ones for the same seed."""
    chosen = Dice(seed)
    expressions = Expressions(chosen)
    mutations = Mutations(chosen, real)
    while True:
        match chosen.choices(("grammar", "mutation", "limits"), (780, 210, 10))[0]:
            case "grammar":
                expression = expressions.boolean()
                yield Case(expressions.origin, expression, DRIVER, device(chosen), environment(chosen))
            case "mutation":
                yield mutations.case()
            case _:
                yield Case("limits", bomb(chosen), DRIVER, device(chosen))
