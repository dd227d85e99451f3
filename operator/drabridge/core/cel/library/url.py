"""A URL's value: how Go's net/url reads, takes apart and prints it.

Go works on bytes. Bytes stand here as the characters of Latin 1 while a URL is taken apart, so that an escape may stand
for a byte that is no character yet.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from drabridge.core.cel.library.addresses import InvalidAddress, parse_address
from drabridge.core.cel.quoting import quote
from drabridge.core.cel.values import CelError, Opaque
from drabridge.core.cel.work import spend

_MAX_QUERY_PARAMETERS: Final = 10_000

_UNRESERVED: Final = frozenset("-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_PATH: Final = _UNRESERVED | frozenset("$&+,/:;=@")
_HOST: Final = _UNRESERVED | frozenset("!\"$&'()*+,:;<=>[]")
_USER: Final = _UNRESERVED | frozenset("$&+,;=")
_FRAGMENT: Final = _UNRESERVED | frozenset("!$&()*+,/:;=?@")
_USERINFO: Final = _UNRESERVED | frozenset("!$&'()*+,;=:%@")
_NEVER_ESCAPED: Final = frozenset("!$&'()*+,;=:@[]%")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_LETTERS: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_SCHEME: Final = _LETTERS | frozenset("0123456789+-.")


class InvalidURL(ValueError):
    """Text that is no URL. The message is Go's."""


@dataclass(frozen=True, slots=True, eq=False)
class URL(Opaque):
    """A URL in its parts. `path` and `fragment` are unescaped; the raw ones are kept if escaping gives another text."""

    type_name: ClassVar[str] = "kubernetes.URL"
    go_type: ClassVar[str] = "cel.URL"

    scheme: str = ""
    opaque: str = ""
    user: str | None = None
    host: str = ""
    omit_host: bool = False
    path: str = ""
    raw_path: str = ""
    query: str = ""
    force_query: bool = False
    fragment: str = ""
    raw_fragment: str = ""

    def equals(self, other: Any) -> bool:
        """Whether both print the same. Raises CelError for what is no URL."""
        if not isinstance(other, URL):
            raise CelError("no such overload")
        return str(self) == str(other)

    def __str__(self) -> str:
        printed = f"{self.scheme}:" if self.scheme else ""
        printed += self.opaque or self._hierarchy(empty=not printed)
        if self.force_query or self.query:
            printed += f"?{self.query}"
        if self.fragment:
            printed += f"#{_escaped_part(self.raw_fragment, self.fragment, _FRAGMENT)}"
        return _characters(printed)

    def _hierarchy(self, *, empty: bool) -> str:
        printed = ""
        has_authority = bool(self.scheme or self.host or self.user is not None)
        if has_authority and not (self.omit_host and not self.host and self.user is None):
            if self.host or self.path or self.user is not None:
                printed += "//"
            printed += f"{self.user}@" if self.user is not None else ""
            printed += _escape(self.host, _HOST)
        path = self._escaped_path()
        if path and path[0] != "/" and self.host:
            printed += "/"
        if empty and not printed and ":" in path.partition("/")[0]:
            printed += "./"
        return printed + path

    def _escaped_path(self) -> str:
        return "*" if self.path == "*" and not self.raw_path else _escaped_part(self.raw_path, self.path, _PATH)

    @property
    def escaped_path(self) -> str:
        """The path as it was written, if that was right; else escaped anew."""
        return _characters(self._escaped_path())

    @property
    def host_and_port(self) -> str:
        """The host, with the port that follows."""
        return _characters(self.host)

    @property
    def hostname(self) -> str:
        """The host without port and brackets."""
        return _characters(self._split_host()[0])

    @property
    def port(self) -> str:
        """The port; empty if there is none."""
        return self._split_host()[1]

    def _split_host(self) -> tuple[str, str]:
        host, port = self.host, ""
        before, colon, after = host.rpartition(":")
        if colon and _valid_port(f":{after}"):
            host, port = before, after
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        return host, port

    def values(self) -> dict[str, list[str]]:
        """The query's parameters. What cannot be read is left out."""
        values: dict[str, list[str]] = {}
        if self.query.count("&") >= _MAX_QUERY_PARAMETERS:
            return values
        for pair in self.query.split("&"):
            if not pair or ";" in pair:
                continue
            key, _, value = pair.partition("=")
            try:
                key, value = (_unescape(part.replace("+", " ")) for part in (key, value))
            except InvalidURL:
                continue
            values.setdefault(_characters(key), []).append(_characters(value))
        return values


def parse_request_uri(text: str) -> URL:
    """Read a URL as an HTTP request may have it: absolute, or an absolute path. Raises InvalidURL."""
    return _named(text, _bytes(text), request=True)


def parse(text: str) -> URL:
    """Read any URL, with its fragment. Raises InvalidURL."""
    whole = _bytes(text)
    before, _, fragment = whole.partition("#")
    url = _named(_characters(before), before, request=False)
    if not fragment:
        return url
    try:
        plain = _unescape(fragment)
    except InvalidURL as error:
        raise InvalidURL(f"parse {quote(text)}: {error}") from None
    raw = "" if _escape(plain, _FRAGMENT) == fragment else fragment
    return _with(url, fragment=plain, raw_fragment=raw)


def _named(text: str, whole: str, *, request: bool) -> URL:
    try:
        return _parse(whole, request=request)
    except InvalidURL as error:
        raise InvalidURL(f"parse {quote(text)}: {error}") from None


_STEPS_PER_CHARACTER: Final = 25


def _parse(text: str, *, request: bool) -> URL:
    spend(len(text) * _STEPS_PER_CHARACTER)
    if any(character < " " or character == "\x7f" for character in text):
        raise InvalidURL("net/url: invalid control character in URL")
    if not text and request:
        raise InvalidURL("empty url")
    if text == "*":
        return URL(path="*")
    scheme, rest = _split_scheme(text)
    force_query = rest.endswith("?") and rest.count("?") == 1
    rest, _, query = rest.partition("?")
    url = URL(scheme=scheme.lower(), query=query, force_query=force_query)
    if not rest.startswith("/"):
        if scheme:
            return _with(url, opaque=rest)
        if request:
            raise InvalidURL("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise InvalidURL("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (scheme or (not request and not rest.startswith("///"))):
        authority, slash, path = rest[2:].partition("/")
        user, host = _authority(url.scheme, authority)
        rest = slash + path
        url = _with(url, user=user, host=host)
    elif scheme and rest.startswith("/"):
        url = _with(url, omit_host=True)
    plain = _unescape(rest)
    return _with(url, path=plain, raw_path="" if _escape(plain, _PATH) == rest else rest)


def _with(url: URL, **changes: Any) -> URL:
    return replace(url, **changes)


def _split_scheme(text: str) -> tuple[str, str]:
    for place, character in enumerate(text):
        if character == ":":
            if not place:
                raise InvalidURL("missing protocol scheme")
            return text[:place], text[place + 1 :]
        if character not in _SCHEME or (not place and character not in _LETTERS):
            break
    return "", text


def _authority(scheme: str, authority: str) -> tuple[str | None, str]:
    """Read user and host. The user comes back escaped, as it is printed."""
    userinfo, at, host = authority.rpartition("@")
    host = _host(scheme, host)
    if not at:
        return None, host
    if not set(userinfo) <= _USERINFO:
        raise InvalidURL("net/url: invalid userinfo")
    name, colon, password = userinfo.partition(":")
    return _escape(_unescape(name), _USER) + (f":{_escape(_unescape(password), _USER)}" if colon else ""), host


def _host(scheme: str, host: str) -> str:
    bracket = host.rfind("[")
    if bracket > 0:
        raise InvalidURL("invalid IP-literal")
    if bracket == 0:
        return _literal_host(host)
    first, last = host.find(":"), host.rfind(":")
    if first >= 0:
        # Several colons are an old mistake that Go goes on taking, except in the web's own schemes.
        port = host[first if scheme in {"http", "https"} else last :]
        _check_port(port)
    return _unescape_host(host)


def _literal_host(host: str) -> str:
    inner, closing, port = host[1:].rpartition("]")
    if not closing:
        raise InvalidURL("missing ']' in host")
    _check_port(port)
    before, percent, zone = inner.partition("%25")
    inner = _unescape_host(before) + _unescape_zone(percent + zone)
    try:
        ip, _ = parse_address(_characters(inner))
    except InvalidAddress as error:
        raise InvalidURL(f"invalid host: {error}") from None
    if ip.bits == 32:
        raise InvalidURL("invalid IP-literal")
    return f"[{inner}]{port}"


def _check_port(port: str) -> None:
    if not _valid_port(port):
        raise InvalidURL(f"invalid port {quote(_characters(port))} after host")


def _valid_port(port: str) -> bool:
    return not port or (port[0] == ":" and all(digit in "0123456789" for digit in port[1:]))


def _unescape_host(text: str) -> str:
    """Unescape a host: only bytes beyond ASCII may be escaped in it, and the percent sign of a zone."""
    for place, character in enumerate(text):
        if character == "%":
            escape = _escape_at(text, place)
            if int(escape[1], 16) < 8 and escape != "%25":
                raise InvalidURL(f"invalid URL escape {quote(escape)}")
        elif character.isascii() and character not in _HOST:
            raise InvalidURL(f"invalid character {quote(character)} in host name")
    return _unescape(text)


def _unescape_zone(text: str) -> str:
    """Unescape the zone of an address: what may stand in a host, and blanks."""
    for place, character in enumerate(text):
        if character == "%":
            escape = _escape_at(text, place)
            byte = chr(int(escape[1:], 16))
            if escape != "%25" and byte != " " and byte not in _HOST:
                raise InvalidURL(f"invalid URL escape {quote(escape)}")
        elif character.isascii() and character not in _HOST:
            raise InvalidURL(f"invalid character {quote(character)} in host name")
    return _unescape(text)


def _unescape(text: str) -> str:
    if "%" not in text:
        return text
    first, *rest = text.split("%")
    parts, place = [first], len(first)
    for part in rest:
        escape = _escape_at(text, place)
        parts.append(chr(int(escape[1:], 16)) + part[2:])
        place += 1 + len(part)
    return "".join(parts)


def _escape_at(text: str, place: int) -> str:
    escape = text[place : place + 3]
    if len(escape) < 3 or escape[1] not in _HEX or escape[2] not in _HEX:
        raise InvalidURL(f"invalid URL escape {quote(_characters(escape))}")
    return escape


def _escape(text: str, kept: frozenset[str]) -> str:
    return "".join(character if character in kept else f"%{ord(character):02X}" for character in text)


def _escaped_part(raw: str, plain: str, kept: frozenset[str]) -> str:
    """The raw text where it is a right way to write the plain one, else the plain one escaped."""
    return raw if raw and set(raw) <= kept | _NEVER_ESCAPED else _escape(plain, kept)


def _bytes(text: str) -> str:
    return text if text.isascii() else text.encode("utf-8", "replace").decode("latin-1")


def _characters(text: str) -> str:
    return text if text.isascii() else text.encode("latin-1").decode("utf-8", "replace")
