"""The named formats of Kubernetes' format library, and what each finds wrong with a text.

Messages are those of k8s.io/apimachinery, since expressions may show them to users.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Final

from drabridge.core.cel.library.url import InvalidURL, parse_request_uri
from drabridge.core.cel.values import CelError, Opaque

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_KEY})?"

_MAX_LABEL: Final = 63
_MAX_SUBDOMAIN: Final = 253

_LABEL_FAULT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character"
)
_SUBDOMAIN_FAULT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character"
)
_LABEL_1035_FAULT: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character"
)
_KEY_FAULT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_FAULT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character"
)

_UUID: Final = re.compile("[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_BASE64: Final = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})")
_DATE: Final = re.compile("([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME: Final = re.compile("([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))")
_LEAP_YEAR: Final = 2000


@dataclass(frozen=True, slots=True, eq=False)
class NamedFormat(Opaque):
    """A format. `regex_size` is the length of its pattern by which `validate` is charged."""

    type_name: ClassVar[str] = "kubernetes.NamedFormat"
    go_type: ClassVar[str] = "cel.Format"
    hashable: ClassVar[bool] = False
    is_text: ClassVar[bool] = False

    name: str
    faults: Callable[[str], list[str]]
    regex_size: int

    def __str__(self) -> str:
        return self.name

    def equals(self, other: Any) -> bool:
        """Whether it is the same format. Raises CelError for what is no format."""
        if not isinstance(other, NamedFormat):
            raise CelError("no such overload")
        return self.name == other.name


def _pattern_fault(fault: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{fault} (e.g. {shown}regex used for validation is '{pattern}')"


def _too_long(text: str, limit: int, unit: str = "bytes") -> list[str]:
    # Bytes are counted everywhere; two of upstream's packages call them differently.
    return [f"must be no more than {limit} {unit}"] if len(text.encode("utf-8", "replace")) > limit else []


def _label(text: str) -> list[str]:
    faults = _too_long(text, _MAX_LABEL, "characters")
    if not re.fullmatch(_LABEL, text):
        if re.fullmatch(_SUBDOMAIN, text):
            faults.append("must not contain dots")
        else:
            faults.append(_pattern_fault(_LABEL_FAULT, _LABEL, "my-name", "123-abc"))
    return faults


def _subdomain(text: str, unit: str = "characters") -> list[str]:
    faults = _too_long(text, _MAX_SUBDOMAIN, unit)
    if not re.fullmatch(_SUBDOMAIN, text):
        faults.append(_pattern_fault(_SUBDOMAIN_FAULT, _SUBDOMAIN, "example.com"))
    return faults


def _label_1035(text: str) -> list[str]:
    faults = _too_long(text, _MAX_LABEL, "characters")
    if not re.fullmatch(_LABEL_1035, text):
        faults.append(_pattern_fault(_LABEL_1035_FAULT, _LABEL_1035, "my-name", "abc-123"))
    return faults


def _qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    wrong_name = _pattern_fault(_KEY_FAULT, _KEY, "MyName", "my.name", "123-abc")
    if len(parts) > 2:
        cure = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {wrong_name}{cure}"]
    faults: list[str] = []
    if len(parts) == 2:
        prefix_faults = _subdomain(parts[0], "bytes") if parts[0] else ["must be non-empty"]
        faults += [f"prefix part {fault}" for fault in prefix_faults]
    name = parts[-1]
    name_faults = _too_long(name, _MAX_LABEL) if name else ["must be non-empty"]
    if not re.fullmatch(_KEY, name):
        name_faults.append(wrong_name)
    return faults + [f"name part {fault}" for fault in name_faults]


def _label_value(text: str) -> list[str]:
    faults = _too_long(text, _MAX_LABEL)
    if not re.fullmatch(_VALUE, text):
        faults.append(_pattern_fault(_VALUE_FAULT, _VALUE, "MyValue", "my_value", "12345"))
    return faults


def _prefix_of(faults: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """The faults of a text to which something will be appended: a dash at its end is none."""

    def masked(text: str) -> list[str]:
        return faults(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)

    return masked


def _uri(text: str) -> list[str]:
    try:
        parse_request_uri(text)
    except InvalidURL as error:
        return [str(error)]
    return []


def _unless(valid: Callable[[str], bool], fault: str) -> Callable[[str], list[str]]:
    return lambda text: [] if valid(text) else [fault]


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    year, month, day = map(int, match.groups())
    try:
        date(year or _LEAP_YEAR, month, day)  # Go has a year 0, and it is a leap year
    except ValueError:
        return False
    return True


def _is_datetime(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    match = _TIME.fullmatch(rest.partition("t")[0])
    return _is_date(day) and match is not None and match[1] <= "23" and match[2] <= "59" and match[3] <= "59"


FORMATS: Final[dict[str, NamedFormat]] = {
    "dns1123Label": NamedFormat("DNS1123Label", _label, 30),
    "dns1123Subdomain": NamedFormat("DNS1123Subdomain", _subdomain, 60),
    "dns1035Label": NamedFormat("DNS1035Label", _label_1035, 30),
    "qualifiedName": NamedFormat("QualifiedName", _qualified_name, 60),
    "dns1123LabelPrefix": NamedFormat("DNS1123LabelPrefix", _prefix_of(_label), 30),
    "dns1123SubdomainPrefix": NamedFormat("DNS1123SubdomainPrefix", _prefix_of(_subdomain), 60),
    "dns1035LabelPrefix": NamedFormat("DNS1035LabelPrefix", _prefix_of(_label_1035), 30),
    "labelValue": NamedFormat("LabelValue", _label_value, 40),
    "uri": NamedFormat("URI", _uri, 1103),
    "uuid": NamedFormat(
        "uuid", _unless(lambda text: bool(_UUID.fullmatch(text)), "does not match the UUID format"), 70
    ),
    "byte": NamedFormat("byte", _unless(lambda text: bool(_BASE64.fullmatch(text)), "invalid base64"), 84),
    "date": NamedFormat("date", _unless(_is_date, "invalid date"), 71),
    "datetime": NamedFormat("datetime", _unless(_is_datetime, "invalid datetime"), 71),
}
"""The formats by the name that expressions use."""
