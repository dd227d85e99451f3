from __future__ import annotations

import json
from typing import Any

import pytest

from builders import GPU, NIC, pod
from drabridge.core.asked import ANNOTATION, Asked, AskedRequest, decode
from drabridge.core.claimspec import RequestMapping
from drabridge.core.errors import InvalidInput
from drabridge.core.reasons import CURES, Reason

REQUEST = {"name": "container-0-request-0", "resourceName": GPU, "count": 2}
MAPPING = {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}
GOOD: dict[str, Any] = {"containers": {"main": {GPU: "2"}}, "requests": [REQUEST], "requestMappings": [MAPPING]}

ASKED = Asked(
    {"main": {GPU: "2"}, "init": {GPU: "1", NIC: "1e0"}},
    (AskedRequest("container-0-request-1", NIC, 1), AskedRequest("container-1-request-0", GPU, 2)),
    (
        RequestMapping("main", GPU, "container-1-request-0"),
        RequestMapping("init", GPU, "container-1-request-0"),
        RequestMapping("init", NIC, "container-0-request-1"),
    ),
)


def read(value: object) -> Asked | None:
    text = value if isinstance(value, str) else json.dumps(value)
    return decode(pod().annotations({ANNOTATION: text}).view())


def test_what_is_written_is_what_is_read() -> None:
    assert read(ASKED.encode()) == ASKED


def test_the_text_is_compact_and_always_the_same() -> None:
    """A second admission call must find nothing to change, and `kubectl describe` shows it on one line."""
    small = Asked({"b": {GPU: "1"}, "a": {}}, (AskedRequest("r", GPU, 1),), (RequestMapping("b", GPU, "r"),))
    assert small.encode() == (
        '{"containers":{"a":{},"b":{"example.com/gpu":"1"}},'
        '"requestMappings":[{"containerName":"b","requestName":"r","resourceName":"example.com/gpu"}],'
        '"requests":[{"count":1,"name":"r","resourceName":"example.com/gpu"}]}'
    )


def test_devices_are_those_of_all_requests() -> None:
    assert ASKED.devices == 3


def test_a_pod_without_the_annotation_says_nothing() -> None:
    assert decode(pod().annotations({"drabridge.io/other": "{}"}).view()) is None


def test_fields_of_a_later_version_are_passed_over() -> None:
    assert read({**GOOD, "version": 2}) == read(GOOD)


def requests(*counts: object, **fields: object) -> dict[str, Any]:
    made = [{**REQUEST, "name": f"r{i}", "count": each, **fields} for i, each in enumerate(counts)]
    return {**GOOD, "requests": made, "requestMappings": []}


def mapping(**fields: object) -> dict[str, Any]:
    return {**GOOD, "requestMappings": [{**MAPPING, **fields}]}


def quantity(value: object) -> dict[str, Any]:
    return {**GOOD, "containers": {"main": {GPU: value}}}


# sentence -> value of the annotation, field, part of the problem
INVALID: dict[str, tuple[object, str, str]] = {
    "an empty text": ("", "", "is not JSON"),
    "half a text": ('{"containers":', "", "is not JSON"),
    "JSON that is nested too deeply": ("[" * 100_000, "", "is not JSON"),
    "a number of too many digits to read": ('{"requests": ' + "9" * 5000 + "}", "", "is not JSON"),
    "a list": ([], "", "is not an object"),
    "null": ("null", "", "is not an object"),
    "no containers": ({**GOOD, "containers": None}, "containers", "is not an object"),
    "a container that is a list": ({**GOOD, "containers": {"main": []}}, "containers.main", "is not an object"),
    "a name that is not extended": (
        {**GOOD, "containers": {"main": {"cpu": "2"}}},
        "containers.main",
        "is not the name of an extended resource",
    ),
    "an empty name": ({**GOOD, "containers": {"main": {"": "2"}}}, "containers.main", "is not a text"),
    "a quantity that is a number": (quantity(2), "containers.main", "is not a text"),
    "a quantity that is none": (quantity("two"), "containers.main", "'two' is not a quantity"),
    "a quantity that is not whole": (quantity("1500m"), "containers.main", "is not a number of devices"),
    "a quantity of zero": (quantity("0"), "containers.main", "is not a number of devices"),
    "a quantity below zero": (quantity("-1"), "containers.main", "is not a number of devices"),
    "requests that are missing": ({"containers": {}}, "requests", "is not a list"),
    "requests that are an object": ({**GOOD, "requests": {}}, "requests", "is not a list"),
    "no requests": ({**GOOD, "requests": []}, "requests", "is empty"),
    "a request that is a text": ({**GOOD, "requests": ["r"]}, "requests[0]", "is not an object"),
    "a request without a name": (requests(1, name=None), "requests[0].name", "is not a text"),
    "a request whose name is no label": (requests(1, name="Gpu_1"), "requests[0].name", "is not a DNS label"),
    "a request whose name is too long": (requests(1, name="r" * 64), "requests[0].name", "is not a DNS label"),
    "a request for something else": (
        requests(1, 1, resourceName="memory"),
        "requests[0].resourceName",
        "is not the name of an extended resource",
    ),
    "a count of zero": (requests(1, 0), "requests[1].count", "is not a number of devices"),
    "a count below zero": (requests(-1), "requests[0].count", "is not a number of devices"),
    "a count that is a text": (requests("1"), "requests[0].count", "is not a number of devices"),
    "a count that is true": (requests(True), "requests[0].count", "is not a number of devices"),
    "a count with a fraction": (requests(1.5), "requests[0].count", "is not a number of devices"),
    "a count that is absurd": (requests(10**4000, 10**4000), "requests[0].count", "from 1 to 32"),
    "more devices than a claim holds": (requests(16, 17), "requests", "asks for 33 devices, more than 32"),
    "two requests of one name": (requests(1, 1, name="r"), "requests", "has two entries of one name"),
    "mappings that are missing": (
        {"containers": {}, "requests": [REQUEST]},
        "requestMappings",
        "is not a list",
    ),
    "a mapping that is a number": ({**GOOD, "requestMappings": [1]}, "requestMappings[0]", "is not an object"),
    "a mapping without a container": (mapping(containerName=""), "requestMappings[0].containerName", "is not a text"),
    "a mapping of something else": (
        mapping(resourceName="cpu"),
        "requestMappings[0].resourceName",
        "is not the name of an extended resource",
    ),
    "a mapping to a name that is no label": (
        mapping(requestName="-"),
        "requestMappings[0].requestName",
        "is not a DNS label",
    ),
    "a mapping to a request that is not there": (
        mapping(requestName="other"),
        "requestMappings",
        "names the request other, which is not in requests",
    ),
}


@pytest.mark.parametrize(("value", "path", "problem"), INVALID.values(), ids=INVALID)
def test_what_the_webhook_never_writes_is_refused_with_pod_field_and_cure(
    value: object, path: str, problem: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        read(value)
    error = caught.value
    assert error.object == "Pod default/web"
    assert error.path == f"metadata.annotations['{ANNOTATION}']" + (f".{path}" if path else "")
    assert problem in error.problem
    assert error.cure == CURES[Reason.ANNOTATION_INVALID]


def test_exactly_as_many_devices_as_a_claim_holds_are_fine() -> None:
    asked = read(requests(16, 16))
    assert asked
    assert asked.devices == 32
