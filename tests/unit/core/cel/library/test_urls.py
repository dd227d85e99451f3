"""URLs, after net/url."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.cel.library import LIBRARIES
from drabridge.core.cel.library.url import InvalidURL, parse
from drabridge.core.cel.operators import equal
from drabridge.core.cel.values import CelError

OVERLOADS = {o.id: o for library in LIBRARIES for f in library.functions for o in f.overloads}


class Parts(NamedTuple):
    scheme: str = ""
    host: str = ""
    hostname: str = ""
    port: str = ""
    path: str = ""
    query: Mapping[str, list[str]] = MappingProxyType({})
    printed: str | None = None


H = "http"
URLS = {
    "https://a.b:80/p?q=1#f": Parts("https", "a.b:80", "a.b", "80", "/p", {"q": ["1"]}),
    "HTTP://H/": Parts(H, "H", "H", "", "/", printed="http://H/"),
    "http://u:p%40@h": Parts(H, "h", "h"),
    "http://u@v@h/": Parts(H, "h", "h", "", "/", printed="http://u%40v@h/"),
    "http://u:@h": Parts(H, "h", "h"),
    "http://[::1]:80/": Parts(H, "[::1]:80", "::1", "80", "/"),
    "http://[fe80::1%25en0]/": Parts(H, "[fe80::1%en0]", "fe80::1%en0", "", "/", printed="http://[fe80::1%25en0]/"),
    "http://h:/": Parts(H, "h:", "h", "", "/"),
    "http://é/é": Parts(H, "é", "é", "", "/%C3%A9", printed="http://%C3%A9/%C3%A9"),
    "http://%c3%a9/": Parts(H, "é", "é", "", "/", printed="http://%C3%A9/"),
    "http://h/%41%2f": Parts(H, "h", "h", "", "/%41%2f"),
    "http://h/a b": Parts(H, "h", "h", "", "/a%20b", printed="http://h/a%20b"),
    "http://h/[x]": Parts(H, "h", "h", "", "/[x]"),
    "http://h/;,&$!": Parts(H, "h", "h", "", "/;,&$!"),
    "http://h?a=%zz&b=c;d&e&&a+b=c+d&=x": Parts(H, "h", "h", query={"e": [""], "a b": ["c d"], "": ["x"]}),
    "http://h?x=1&x=2&y=%c3%a9": Parts(H, "h", "h", query={"x": ["1", "2"], "y": ["é"]}),
    "http://h/?": Parts(H, "h", "h", "", "/"),
    "http://h/#f g": Parts(H, "h", "h", "", "/", printed="http://h/#f%20g"),
    "http://h/#f%21": Parts(H, "h", "h", "", "/"),
    "http:///p": Parts(H, path="/p"),
    "http:/p": Parts(H, path="/p"),
    "ftp://1:2:3/": Parts("ftp", "1:2:3", "1:2", "3", "/"),
    "mailto:a@b": Parts("mailto"),
    "/abs?x=1": Parts(path="/abs", query={"x": ["1"]}),
    "//h/p": Parts("", "h", "h", "", "/p"),
    "///p": Parts(path="///p"),
    "/a:b": Parts(path="/a:b"),
    "*": Parts(path="*"),
}


@pytest.mark.parametrize(("text", "parts"), URLS.items())
def test_parts(text: str, parts: Parts) -> None:
    assert OVERLOADS["is_url_string"].call(text) is True
    url = OVERLOADS["string_to_url"].call(text)
    assert OVERLOADS["url_get_scheme"].call(url) == parts.scheme
    assert OVERLOADS["url_get_host"].call(url) == parts.host
    assert OVERLOADS["url_get_hostname"].call(url) == parts.hostname
    assert OVERLOADS["url_get_port"].call(url) == parts.port
    assert OVERLOADS["url_get_escaped_path"].call(url) == parts.path
    assert OVERLOADS["url_get_query"].call(url) == dict(parts.query)
    assert str(url) == (text if parts.printed is None else parts.printed)


FAULTS = {
    "": "empty url",
    "foo": "invalid URI for request",
    ":x": "missing protocol scheme",
    "1http://x": "invalid URI for request",
    "/\x7f": "net/url: invalid control character in URL",
    "http://a b/": 'invalid character " " in host name',
    "http://h:a/": 'invalid port ":a" after host',
    "http://1:2:3/": 'invalid port ":2:3" after host',
    "http://h/%zz": 'invalid URL escape "%zz"',
    "http://h/%4": 'invalid URL escape "%4"',
    "http://%41/": 'invalid URL escape "%41"',
    "http://x[::1]/": "invalid IP-literal",
    "http://[1.2.3.4]/": "invalid IP-literal",
    "http://[::1": "missing ']' in host",
    "http://[::1]x/": 'invalid port "x" after host',
    "http://[x]/": 'invalid host: ParseAddr("x"): unable to parse IP',
    "http://[fe80::1%25%zz]/": 'invalid URL escape "%zz"',
    "http://[fe80::1%25%23]/": 'invalid URL escape "%23"',
    "http://[fe80::1%25 ]/": 'invalid character " " in host name',
    "http://[^]/": 'invalid character "^" in host name',
    "http://u^@h/": "net/url: invalid userinfo",
    "http://u%zz@h/": 'invalid URL escape "%zz"',
    "http://u:%zz@h/": 'invalid URL escape "%zz"',
}


@pytest.mark.parametrize(("text", "fault"), FAULTS.items())
def test_what_is_no_url_is_refused_with_gos_words(text: str, fault: str) -> None:
    assert OVERLOADS["is_url_string"].call(text) is False
    with pytest.raises(CelError) as error:
        OVERLOADS["string_to_url"].call(text)
    quoted = text.replace("\x7f", r"\x7f")
    assert str(error.value) == f'URL parse error during conversion from string: parse "{quoted}": {fault}'


def test_a_broken_fragment_is_found_by_the_second_reading() -> None:
    with pytest.raises(CelError) as error:
        OVERLOADS["string_to_url"].call("/p#%")
    assert "invalid URL escape" in str(error.value)
    with pytest.raises(InvalidURL, match='invalid URL escape "%"'):
        parse("/p#%")


def test_relative_urls_are_read_but_never_by_expressions() -> None:
    assert str(parse("a/b")) == "a/b"
    assert str(parse("///p")) == "///p"
    with pytest.raises(InvalidURL, match="first path segment in URL cannot contain colon"):
        parse("1a:b/c")


def test_urls_equal_urls_that_print_the_same() -> None:
    assert equal(parse("HTTP://h/%20"), parse("http://h/%20"))
    assert not equal(parse("http://h/%20"), parse("http://h/"))
    with pytest.raises(CelError, match=r"^no such overload$"):
        equal(parse("http://h/"), "http://h/")


def test_a_query_of_too_many_parameters_is_taken_for_none() -> None:
    assert OVERLOADS["url_get_query"].call(parse("/?" + "&".join(["a=b"] * 10_000))) == {"a": ["b"] * 10_000}
    assert OVERLOADS["url_get_query"].call(parse("/?" + "&".join(["a=b"] * 10_001))) == {}


@given(st.text(), st.text(), st.text())
def test_any_text_is_a_url_or_is_refused(host: str, path: str, fragment: str) -> None:
    text = f"http://{host}/{path}#{fragment}"
    if OVERLOADS["is_url_string"].call(text):
        try:
            url = OVERLOADS["string_to_url"].call(text)
        except CelError:
            assert "%" in path + fragment
            return
        again = OVERLOADS["string_to_url"].call(str(url))
        assert str(again) == str(url)
