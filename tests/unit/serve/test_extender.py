"""The extender protocol: field names as Go writes them, and errors where kube-scheduler looks for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from aiohttp.test_utils import TestClient, TestServer

from drabridge.core.errors import Unavailable
from drabridge.delivery.bind import Filtered
from drabridge.serve.extender import application

POD = {"metadata": {"name": "web"}}


class Answers:
    """Stands for Bindings; what it was asked is kept."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.error: Exception | None = None
        self.serving = True

    def _note(self, *call: Any) -> None:
        self.asked.append(call)
        if self.error:
            raise self.error

    async def filter(self, pod: Any, names: Any) -> Filtered:
        self._note("filter", pod, names)
        return Filtered(["a"], {"b": "NotEnoughDevices: x"})

    async def prioritize(self, pod: Any, names: Any) -> dict[str, int]:
        self._note("prioritize", pod, names)
        return {"a": 7}

    async def bind(self, *call: str) -> None:
        self._note("bind", *call)


@pytest.fixture
def answers() -> Answers:
    return Answers()


@pytest_asyncio.fixture
async def client(answers: Answers) -> AsyncIterator[TestClient[Any, Any]]:
    bindings: Any = answers
    async with TestClient(TestServer(application(bindings))) as client:
        yield client


async def ask(client: TestClient[Any, Any], path: str, body: Any) -> Any:
    response = await client.post(path, data=body if isinstance(body, str) else json.dumps(body))
    assert response.status == 200, "anything else loses the text on its way to the Pod's event"
    return await response.json()


async def test_filter(client: TestClient[Any, Any], answers: Answers) -> None:
    answer = await ask(client, "/filter", {"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]})
    assert answer == {"NodeNames": ["a"], "FailedAndUnresolvableNodes": {"b": "NotEnoughDevices: x"}}
    assert answers.asked == [("filter", POD, ["a", "b"])]


async def test_prioritize(client: TestClient[Any, Any]) -> None:
    answer = await ask(client, "/prioritize", {"Pod": POD, "NodeNames": ["a"]})
    assert answer == [{"Host": "a", "Score": 7}]


async def test_bind(client: TestClient[Any, Any], answers: Answers) -> None:
    call = {"PodName": "web", "PodNamespace": "default", "PodUID": "uid", "Node": "a"}
    assert await ask(client, "/bind", call) == {}
    assert answers.asked == [("bind", "default", "web", "uid", "a")]


CALLS = {
    "/filter": ({"Pod": POD, "NodeNames": []}, {"Error": "drabridge: later"}),
    "/bind": ({"PodName": "w", "PodNamespace": "d", "PodUID": "u", "Node": "a"}, {"Error": "drabridge: later"}),
    "/prioritize": ({"Pod": POD, "NodeNames": []}, []),
}


@pytest.mark.parametrize("path", CALLS)
async def test_what_cannot_be_answered_now_is_an_error_in_the_answer(
    client: TestClient[Any, Any], answers: Answers, path: str
) -> None:
    answers.error = Unavailable("later")
    body, wanted = CALLS[path]
    assert await ask(client, path, body) == wanted


@pytest.mark.parametrize("serving", [True, False])
async def test_who_does_not_lead_ends_the_connection_so_that_the_next_one_leads_elsewhere(
    client: TestClient[Any, Any], answers: Answers, serving: bool
) -> None:
    answers.serving = serving
    response = await client.post("/bind", data="{}")
    assert (response.headers.get("Connection") == "close") is not serving


async def test_a_bug_of_ours_says_so_and_no_more(client: TestClient[Any, Any], answers: Answers) -> None:
    answers.error = ZeroDivisionError("secret")
    answer = await ask(client, "/filter", CALLS["/filter"][0])
    assert answer == {"Error": "drabridge: internal error (ZeroDivisionError); please report it"}


MALFORMED = {
    "no JSON": "{",
    "a list": [],
    "nothing": {},
    "no names": {"Pod": POD},
    "names that are numbers": {"Pod": POD, "NodeNames": [1]},
    "names that are no list": {"Pod": POD, "NodeNames": "a"},
    "a Pod that is text": {"Pod": "web", "NodeNames": []},
    "an empty node": {"PodName": "w", "PodNamespace": "d", "PodUID": "u", "Node": ""},
    "nested too deeply": "[" * 100_000,
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
async def test_a_malformed_call_names_the_cure_and_asks_nobody(
    client: TestClient[Any, Any], answers: Answers, body: Any
) -> None:
    for path in ("/filter", "/bind"):
        answer = await ask(client, path, body)
        assert answer["Error"].startswith("drabridge: extender call")
        assert "nodeCacheCapable" in answer["Error"]
    assert answers.asked == []
