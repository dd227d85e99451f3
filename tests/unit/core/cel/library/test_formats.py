"""Kubernetes' named formats."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drabridge.core.cel.library import LIBRARIES
from drabridge.core.cel.library.formats import named, validate
from drabridge.core.cel.library.named_formats import FORMATS
from drabridge.core.cel.operators import equal
from drabridge.core.cel.values import NONE, CelError

OVERLOADS = {o.id: o for library in LIBRARIES for f in library.functions for o in f.overloads}

VALID = [
    ("dns1123Label", "a-1"),
    ("dns1123Label", "a" * 63),
    ("dns1123LabelPrefix", "a-"),
    ("dns1123LabelPrefix", "--"),
    ("dns1123Subdomain", "a-b.c.1"),
    ("dns1123SubdomainPrefix", "a.b-"),
    ("dns1035Label", "a-1"),
    ("dns1035LabelPrefix", "a-"),
    ("qualifiedName", "example.com/My_Name.1"),
    ("qualifiedName", "A"),
    ("labelValue", ""),
    ("labelValue", "A_b.c-1"),
    ("uri", "http://x/"),
    ("uri", "/x"),
    ("uuid", "550e8400-E29B-41d4-a716-446655440000"),
    ("uuid", "550e8400e29b41d4a716446655440000"),
    ("byte", "YQ=="),
    ("byte", "YWI="),
    ("byte", "YWJj"),
    ("date", "2020-02-29"),
    ("date", "0000-02-29"),
    ("datetime", "2020-01-01T23:59:59Z"),
    ("datetime", "2020-01-01t00:00:00.5+99:99"),
    ("datetime", "2020-01-01T00:00:00zTx"),
]


@pytest.mark.parametrize(("name", "text"), VALID)
def test_what_is_valid_has_no_faults(name: str, text: str) -> None:
    assert validate(FORMATS[name], text) is NONE


LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
KEY = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
SUFFIX = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"

FAULTS = [
    ("dns1123Label", "A", [LABEL]),
    ("dns1123Label", "", [LABEL]),
    ("dns1123Label", "a.b", ["must not contain dots"]),
    ("dns1123Label", "a" * 64, ["must be no more than 63 characters"]),
    ("dns1123Label", "a\n", [LABEL]),
    ("dns1123LabelPrefix", "-", [LABEL]),
    ("dns1123LabelPrefix", "-a--", [LABEL]),
    ("dns1123Subdomain", "A", [SUBDOMAIN]),
    ("dns1123Subdomain", "a" * 254, ["must be no more than 253 characters"]),
    ("dns1035Label", "1", [LABEL_1035]),
    ("dns1035Label", "A" * 64, ["must be no more than 63 characters", LABEL_1035]),
    ("qualifiedName", "a/b/c", [f"a valid label key {KEY}{SUFFIX}"]),
    ("qualifiedName", "/b", ["prefix part must be non-empty"]),
    ("qualifiedName", "a/", ["name part must be non-empty", f"name part {KEY}"]),
    ("qualifiedName", "A/b", [f"prefix part {SUBDOMAIN}"]),
    ("qualifiedName", f"{'a' * 254}/b", ["prefix part must be no more than 253 bytes"]),
    ("qualifiedName", "a" * 64, ["name part must be no more than 63 bytes"]),
    ("labelValue", "-", [VALUE]),
    ("labelValue", "é" * 32, ["must be no more than 63 bytes", VALUE]),
    ("uri", "x", ['parse "x": invalid URI for request']),
    ("uuid", "x", ["does not match the UUID format"]),
    ("byte", "", ["invalid base64"]),
    ("byte", "YQ=", ["invalid base64"]),
    ("date", "2021-02-29", ["invalid date"]),
    ("date", "20200-1-1", ["invalid date"]),
    ("datetime", "2020-01-01T24:00:00Z", ["invalid datetime"]),
    ("datetime", "2020-01-01T00:00:00", ["invalid datetime"]),
    ("datetime", "x", ["invalid datetime"]),
]


@pytest.mark.parametrize(("name", "text", "faults"), FAULTS)
def test_faults_are_told_in_upstreams_words(name: str, text: str, faults: list[str]) -> None:
    found = OVERLOADS["format-validate"].call(FORMATS[name], text)
    assert (found.present, found.value) == (True, faults)


def test_each_format_has_a_function_and_a_name() -> None:
    for name, known in FORMATS.items():
        assert OVERLOADS[f"format.{name}"].call() is known
        assert named(name).value is known
    assert OVERLOADS["format-named"].call("nope") is NONE


def test_a_format_equals_itself_only() -> None:
    label, uuid = FORMATS["dns1123Label"], FORMATS["uuid"]
    assert equal(label, label)
    assert not equal(label, uuid)
    assert str(label) == "DNS1123Label"
    with pytest.raises(CelError, match=r"^no such overload$"):
        equal(label, "DNS1123Label")


@given(st.uuids())
def test_uuids_are_valid(uuid: object) -> None:
    assert not FORMATS["uuid"].faults(str(uuid))


@given(st.dates())
def test_dates_are_valid(day: object) -> None:
    assert not FORMATS["date"].faults(str(day))
    assert not FORMATS["datetime"].faults(f"{day}T00:00:00Z")
