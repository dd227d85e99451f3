"""Kubernetes' URL library: url, isURL and the parts of a URL."""

from typing import Final

from drabridge.core.cel.declarations import Library, Overload
from drabridge.core.cel.library.costs import scan_target
from drabridge.core.cel.library.declaring import function, member
from drabridge.core.cel.library.url import URL, InvalidURL, parse, parse_request_uri
from drabridge.core.cel.types import BOOL, STRING, list_of, map_of
from drabridge.core.cel.types import URL as URL_TYPE
from drabridge.core.cel.values import CelError


def to_url(text: str) -> URL:
    """The URL of a text. Raises CelError for what is neither an absolute URL nor an absolute path."""
    try:
        parse_request_uri(text)
        return parse(text)  # once more, since the first reading takes no fragment off
    except InvalidURL as error:
        raise CelError(f"URL parse error during conversion from string: {error}") from None


def is_url(text: str) -> bool:
    """Whether the text is an absolute URL or an absolute path."""
    try:
        parse_request_uri(text)
    except InvalidURL:
        return False
    return True


LIBRARY: Final = Library(
    "kubernetes.urls",
    (
        function("url", Overload("string_to_url", (STRING,), URL_TYPE, to_url, cost=scan_target), by_name=scan_target),
        function("getScheme", member("url_get_scheme", (URL_TYPE,), STRING, lambda url: url.scheme)),
        function("getHost", member("url_get_host", (URL_TYPE,), STRING, lambda url: url.host_and_port)),
        function("getHostname", member("url_get_hostname", (URL_TYPE,), STRING, lambda url: url.hostname)),
        function("getPort", member("url_get_port", (URL_TYPE,), STRING, lambda url: url.port)),
        function("getEscapedPath", member("url_get_escaped_path", (URL_TYPE,), STRING, lambda url: url.escaped_path)),
        function("getQuery", member("url_get_query", (URL_TYPE,), map_of(STRING, list_of(STRING)), URL.values)),
        function("isURL", Overload("is_url_string", (STRING,), BOOL, is_url)),
    ),
)
