"""The client against a real API server: what it sends, what it reads, and which error says what."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest
import pytest_asyncio
import yaml

from drabridge.core.errors import (
    AlreadyExists,
    Conflict,
    DrabridgeError,
    InvalidInput,
    Missing,
    NotLeader,
    Refused,
    Unavailable,
)
from drabridge.kube import credentials
from drabridge.kube.client import Client, PatchType
from drabridge.kube.resources import CONFIGMAPS, DEVICE_CLASSES, EVENTS, NODES, PODS
from upstream.api import wait_for

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from drabridge.kube.resources import Resource
    from upstream.controlplane import ControlPlane

AGENT = "drabridge/test"


@pytest_asyncio.fixture
async def client(plane: ControlPlane) -> AsyncIterator[Client]:
    async with await Client.connect(plane.kubeconfig_admin(), user_agent=AGENT) as connected:
        yield connected


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


# Reading and writing


async def test_an_object_is_created_read_patched_and_deleted(client: Client, namespace: str) -> None:
    made = await client.create(CONFIGMAPS, namespace, config_map("a", one="1"))
    assert made == await client.get(CONFIGMAPS, namespace, "a")
    patched = await client.patch(CONFIGMAPS, namespace, "a", {"data": {"two": "2"}}, PatchType.MERGE)
    assert patched["data"] == {"one": "1", "two": "2"}
    await client.delete(CONFIGMAPS, namespace, "a", uid=made["metadata"]["uid"], propagation_policy="Background")
    with pytest.raises(Missing):
        await client.get(CONFIGMAPS, namespace, "a")


PATCHES: dict[str, tuple[PatchType, Any]] = {
    "json": (PatchType.JSON, [{"op": "add", "path": "/data/two", "value": "2"}]),
    "merge": (PatchType.MERGE, {"data": {"two": "2"}}),
    "strategic": (PatchType.STRATEGIC, {"data": {"two": "2"}}),
    "apply": (PatchType.APPLY, {"data": {"two": "2"}}),
}


@pytest.mark.parametrize(("patch_type", "body"), PATCHES.values(), ids=PATCHES)
async def test_a_patch_is_read_as_its_type_says(
    client: Client, namespace: str, patch_type: PatchType, body: Any
) -> None:
    await client.create(CONFIGMAPS, namespace, config_map("a", one="1"))
    patched = await client.patch(CONFIGMAPS, namespace, "a", body, patch_type, field_manager="drabridge-test")
    assert patched["data"] == {"one": "1", "two": "2"}
    owners = {entry["manager"]: entry["operation"] for entry in patched["metadata"]["managedFields"]}
    assert owners["drabridge-test"] == ("Apply" if patch_type is PatchType.APPLY else "Update")


async def test_apply_creates_and_takes_the_fields_of_others_only_by_force(client: Client, namespace: str) -> None:
    await client.patch(CONFIGMAPS, namespace, "a", {"data": {"x": "1"}}, PatchType.APPLY, field_manager="one")
    with pytest.raises(Conflict, match='conflict with "one"'):
        await client.patch(CONFIGMAPS, namespace, "a", {"data": {"x": "2"}}, PatchType.APPLY, field_manager="two")
    taken = await client.patch(
        CONFIGMAPS, namespace, "a", {"data": {"x": "2"}}, PatchType.APPLY, field_manager="two", force=True
    )
    assert taken["data"] == {"x": "2"}


async def test_a_subresource_is_patched_and_nothing_else(client: Client, plane: ControlPlane) -> None:
    await plane.add_node("kube-client-node", devices=0)
    body = {"status": {"conditions": [{"type": "Odd", "status": "True", "reason": "Test", "message": "m"}]}}
    patched = await client.patch(NODES, None, "kube-client-node", body, PatchType.STRATEGIC, subresource="status")
    assert "Odd" in {condition["type"] for condition in patched["status"]["conditions"]}
    await plane.remove_node("kube-client-node")


async def test_a_dry_run_answers_and_stores_nothing(client: Client, namespace: str) -> None:
    assert (await client.create(CONFIGMAPS, namespace, config_map("a", x="1"), dry_run=True))["data"] == {"x": "1"}
    await client.create(CONFIGMAPS, namespace, config_map("b", x="1"))
    await client.patch(CONFIGMAPS, namespace, "b", {"data": {"x": "2"}}, PatchType.MERGE, dry_run=True)
    names = {each["metadata"]["name"]: each["data"] for each in await client.list_all(CONFIGMAPS, namespace)}
    assert "a" not in names
    assert names["b"] == {"x": "1"}


async def test_the_version_is_that_of_the_control_plane(client: Client) -> None:
    version = await client.version()
    assert version["emulationMinor"] == "35"


async def test_requests_carry_our_user_agent(client: Client, plane: ControlPlane, namespace: str) -> None:
    await client.create(CONFIGMAPS, namespace, config_map("agent"))

    def agents() -> set[str]:
        entries = plane.audit_entries("kubernetes-admin")
        return {
            e["userAgent"] for e in entries if e.get("objectRef", {}).get("name") == "agent" and e["verb"] == "create"
        }

    assert await wait_for(agents, "the audit log") == {AGENT}


async def test_warnings_of_the_api_server_are_passed_on(plane: ControlPlane, namespace: str) -> None:
    said: list[str] = []
    async with await Client.connect(plane.kubeconfig_admin(), user_agent=AGENT, on_warning=said.append) as client:
        await client.create(CONFIGMAPS, namespace, {"metadata": {"name": "a"}, "odd": 1, "peculiar": 2})
    assert said == ['unknown field "odd"', 'unknown field "peculiar"']


# Lists


@pytest_asyncio.fixture
async def seven(client: Client, namespace: str) -> list[str]:
    for number in range(7):
        body = config_map(f"n{number}", x="long" * 100)
        body["metadata"]["labels"] = {"odd": str(number % 2)}
        await client.create(CONFIGMAPS, namespace, body)
    return [f"n{number}" for number in range(7)]


def names_of(items: list[dict[str, Any]]) -> list[str]:
    return [item["metadata"]["name"] for item in items if item["metadata"]["name"].startswith("n")]


async def test_a_list_comes_in_pages(client: Client, namespace: str, seven: list[str]) -> None:
    pages = [page async for page in client.list_pages(CONFIGMAPS, namespace, limit=3, label_selector="odd")]
    assert [names_of(page["items"]) for page in pages] == [seven[:3], seven[3:6], seven[6:]]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1


async def test_selectors_and_metadata_only_are_left_to_the_server(
    client: Client, namespace: str, seven: list[str]
) -> None:
    assert names_of(await client.list_all(CONFIGMAPS, namespace, label_selector="odd=1")) == ["n1", "n3", "n5"]
    assert names_of(await client.list_all(CONFIGMAPS, namespace, field_selector="metadata.name=n4")) == ["n4"]
    items = await client.list_all(CONFIGMAPS, namespace, label_selector="odd", metadata_only=True)
    assert names_of(items) == seven
    assert not any("data" in item for item in items)


async def test_the_whole_cluster_is_listed_without_a_namespace(
    client: Client, namespace: str, seven: list[str]
) -> None:
    items = await client.list_all(CONFIGMAPS)
    assert {namespace, "kube-system"} <= {item["metadata"]["namespace"] for item in items}


async def forget_the_past(plane: ControlPlane, client: Client, namespace: str) -> None:
    """Write something, and compact etcd up to it: what was listed before cannot be continued."""
    await client.create(CONFIGMAPS, namespace, config_map("later"))
    etcd = plane._url("etcd")
    async with aiohttp.ClientSession() as http:
        async with http.post(f"{etcd}/v3/kv/range", json={"key": "AA=="}) as answer:
            revision = (await answer.json())["header"]["revision"]
        async with http.post(f"{etcd}/v3/kv/compaction", json={"revision": revision, "physical": True}) as answer:
            assert answer.status == 200


@pytest_asyncio.fixture
async def seven_events(client: Client, namespace: str) -> list[str]:
    """API servers keep no cache of Events: their lists are read from etcd, and expire when it is compacted."""
    for number in range(7):
        body = {
            "metadata": {"name": f"n{number}"},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "example.com/test",
            "reportingInstance": "test",
            "type": "Normal",
            "reason": "Test",
            "action": "Test",
        }
        await client.create(EVENTS, namespace, {**body, "regarding": {"kind": "Pod", "namespace": namespace}})
    return [f"n{number}" for number in range(7)]


async def test_a_list_whose_moment_is_forgotten_goes_on_as_of_now_without_showing_anything_twice(
    client: Client, plane: ControlPlane, namespace: str, seven_events: list[str]
) -> None:
    pages: list[dict[str, Any]] = []
    async for page in client.list_pages(EVENTS, namespace, limit=3):
        if not pages:
            await forget_the_past(plane, client, namespace)
        pages.append(page)
    assert [names_of(page["items"]) for page in pages] == [seven_events[:3], seven_events[3:6], seven_events[6:]]
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 2


async def test_a_whole_list_whose_moment_is_forgotten_is_read_again_from_its_start(
    client: Client,
    plane: ControlPlane,
    namespace: str,
    seven_events: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pages = Client.list_pages
    forgotten = 0

    async def forgetful(self: Client, *args: Any, **options: Any) -> AsyncIterator[dict[str, Any]]:
        nonlocal forgotten
        async for page in pages(self, *args, **options):
            if "continue" in page["metadata"] and forgotten < times:
                forgotten += 1
                await client.delete(CONFIGMAPS, namespace, "later")
                await forget_the_past(plane, client, namespace)
            yield page

    await client.create(CONFIGMAPS, namespace, config_map("later"))
    monkeypatch.setattr(Client, "list_pages", forgetful)
    times = 1
    assert names_of(await client.list_all(EVENTS, namespace, limit=4)) == seven_events
    assert forgotten == 1
    times = 3
    with pytest.raises(Unavailable, match=r"Event .*: the API server drops the list before it is read"):
        await client.list_all(EVENTS, namespace, limit=4)


# Paths

PATHS: dict[str, tuple[Resource, dict[str, str], str]] = {
    "a collection of the whole cluster": (PODS, {}, "/api/v1/pods"),
    "a collection of a namespace": (EVENTS, {"namespace": "n"}, "/apis/events.k8s.io/v1/namespaces/n/events"),
    "a part of an object": (
        PODS,
        {"namespace": "n", "name": "p", "subresource": "status"},
        "/api/v1/namespaces/n/pods/p/status",
    ),
    "a name that tries to lead elsewhere": (NODES, {"name": "../pods?x"}, "/api/v1/nodes/..%2Fpods%3Fx"),
}


@pytest.mark.parametrize(("resource", "of", "path"), PATHS.values(), ids=PATHS)
def test_the_path_of(resource: Resource, of: dict[str, str], path: str) -> None:
    assert resource.path(**of) == path


WRONG_PATHS: dict[str, tuple[Resource, dict[str, str]]] = {
    "a namespace around a cluster-scoped object": (NODES, {"namespace": "n", "name": "a"}),
    "a namespaced object without its namespace": (PODS, {"name": "a"}),
    "a subresource of a collection": (PODS, {"namespace": "n", "subresource": "status"}),
}


@pytest.mark.parametrize(("resource", "of"), WRONG_PATHS.values(), ids=WRONG_PATHS)
def test_there_is_no_path_to(resource: Resource, of: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=resource.kind):
        resource.path(**of)


# Errors


async def stale_patch(client: Client, namespace: str) -> None:
    body = {"metadata": {"resourceVersion": "1"}, "data": {"x": "2"}}
    await client.patch(CONFIGMAPS, namespace, "there", body, PatchType.MERGE)


async def of_another_uid(client: Client, namespace: str) -> None:
    await client.delete(CONFIGMAPS, namespace, "there", uid="00000000-0000-0000-0000-000000000000")


async def from_the_future(client: Client, namespace: str) -> None:
    async for _ in client.list_pages(CONFIGMAPS, namespace, resource_version="999999999"):
        pass


Attempt = "Callable[[Client, str], Awaitable[object]]"
ERRORS: dict[str, tuple[Attempt, type[DrabridgeError], str, dict[str, Any]]] = {  # type: ignore[valid-type]
    "what is not there is Missing": (
        lambda c, ns: c.get(CONFIGMAPS, ns, "a"),
        Missing,
        'ConfigMap {ns}/a: configmaps "a" not found',
        {},
    ),
    "a namespace that is not there is Missing, too": (
        lambda c, _: c.create(CONFIGMAPS, "nowhere", config_map("a")),
        Missing,
        'ConfigMap nowhere/a: namespaces "nowhere" not found',
        {},
    ),
    "a taken name is AlreadyExists": (
        lambda c, ns: c.create(CONFIGMAPS, ns, config_map("there")),
        AlreadyExists,
        'ConfigMap {ns}/there: configmaps "there" already exists',
        {},
    ),
    "a stale resourceVersion is a Conflict": (
        stale_patch,
        Conflict,
        "ConfigMap {ns}/there: Operation cannot be fulfilled",
        {},
    ),
    "another uid is a Conflict": (of_another_uid, Conflict, "ConfigMap {ns}/there: Operation cannot be fulfilled", {}),
    "an invalid object is Refused": (
        lambda c, ns: c.create(CONFIGMAPS, ns, config_map("Ä")),
        Refused,
        "ConfigMap {ns}/Ä: ConfigMap",
        {"status": 422, "reason": "Invalid"},
    ),
    "a failed test of a JSON patch is Refused": (
        lambda c, ns: c.patch(
            CONFIGMAPS, ns, "there", [{"op": "test", "path": "/data/x", "value": "9"}], PatchType.JSON
        ),
        Refused,
        "ConfigMap {ns}/there: ",
        {"status": 422},
    ),
    "a body that is not an object of the kind is Refused": (
        lambda c, ns: c.create(PODS, ns, {"metadata": {"generateName": "g-"}, "spec": "odd"}),
        Refused,
        "Pod {ns}/g-*: Pod in version",
        {"status": 400, "reason": "BadRequest"},
    ),
    "a resourceVersion of the future is Unavailable, and says when to come again": (
        from_the_future,
        Unavailable,
        "ConfigMap {ns}/*: Timeout: Too large resource version",
        {"retry_after": 1.0},
    ),
}


@pytest.mark.parametrize(("attempt", "error", "text", "attributes"), ERRORS.values(), ids=ERRORS)
async def test_an_answer_becomes_the_error_that_says_what_to_do(
    client: Client,
    namespace: str,
    attempt: Callable[[Client, str], Awaitable[object]],
    error: type[DrabridgeError],
    text: str,
    attributes: dict[str, Any],
) -> None:
    await client.create(CONFIGMAPS, namespace, config_map("there", x="1"))
    with pytest.raises(error) as raised:
        await attempt(client, namespace)
    assert type(raised.value) is error
    assert text.format(ns=namespace) in str(raised.value)
    for name, value in attributes.items():
        assert getattr(raised.value, name) == value


async def test_what_rbac_forbids_is_refused_with_the_name_of_who_asked(plane: ControlPlane, namespace: str) -> None:
    kubeconfig = await plane.kubeconfig_for(namespace, "default")
    async with await Client.connect(kubeconfig, user_agent=AGENT) as client:
        with pytest.raises(Refused, match=f"system:serviceaccount:{namespace}:default") as raised:
            await client.list_all(DEVICE_CLASSES)
    assert (raised.value.status, raised.value.reason) == (403, "Forbidden")


# Connections


def with_server(plane: ControlPlane, directory: Path, server: str, **user: Any) -> Path:
    config = yaml.safe_load(plane.kubeconfig_admin().read_text())
    config["clusters"][0]["cluster"]["server"] = server
    if user:
        config["users"][0]["user"] = user
    path = directory / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


@asynccontextmanager
async def listener(answer: bytes | None) -> AsyncIterator[str]:
    """Something on loopback that is no API server: it says nothing at all, or always the same."""
    connections: set[asyncio.StreamWriter] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.add(writer)
        if answer is not None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in connections:
            writer.close()
        await server.wait_closed()


async def test_a_server_that_is_not_there_is_unavailable(plane: ControlPlane, tmp_path: Path) -> None:
    async with listener(None) as server:
        pass
    async with await Client.connect(with_server(plane, tmp_path, server), user_agent=AGENT) as client:
        with pytest.raises(Unavailable, match="Node x: GET did not reach the API server") as raised:
            await client.get(NODES, None, "x")
    assert isinstance(raised.value.__cause__, aiohttp.ClientError)


async def test_a_server_that_says_nothing_is_unavailable_after_the_timeout(plane: ControlPlane, tmp_path: Path) -> None:
    async with listener(None) as server:
        kubeconfig = with_server(plane, tmp_path, server)
        async with await Client.connect(kubeconfig, user_agent=AGENT, request_timeout=0.1) as client:
            with pytest.raises(Unavailable, match=r"Node x: no answer to GET within 0\.1 s"):
                await client.get(NODES, None, "x")


STRANGE_ANSWERS = {
    "a login page": (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", Unavailable, "not JSON: '<html>'"),
    "a number": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n42", Unavailable, "not a JSON object: '42'"),
    "a gateway's error": (
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 5\r\nRetry-After: 3\r\n\r\nsorry",
        Unavailable,
        "Node x: sorry",
    ),
    "an error without words": (b"HTTP/1.1 405 No\r\nContent-Length: 0\r\n\r\n", Refused, "Node x: HTTP 405"),
    "half an answer": (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", Unavailable, "did not reach"),
}


@pytest.mark.parametrize(("answer", "error", "text"), STRANGE_ANSWERS.values(), ids=STRANGE_ANSWERS)
async def test_what_no_api_server_says_is_an_error_all_the_same(
    plane: ControlPlane, tmp_path: Path, answer: bytes, error: type[DrabridgeError], text: str
) -> None:
    async with (
        listener(answer) as server,
        await Client.connect(with_server(plane, tmp_path, server), user_agent=AGENT) as client,
    ):
        with pytest.raises(error) as raised:
            await client.get(NODES, None, "x")
    assert text in str(raised.value)
    assert getattr(raised.value, "retry_after", None) == (3 if b"Retry-After" in answer else None)


# Credentials


async def token_of(plane: ControlPlane, namespace: str) -> str:
    config = yaml.safe_load((await plane.kubeconfig_for(namespace, "default")).read_text())
    token: str = config["users"][0]["user"]["token"]
    return token


async def who_am_i(client: Client) -> str:
    """The identity, as RBAC's refusal names it."""
    with pytest.raises(Refused) as raised:
        await client.get(NODES, None, "x")
    return str(raised.value)


async def test_a_rejected_token_is_read_again_from_its_file(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("of yesterday")
    kubeconfig = with_server(plane, tmp_path, plane.api.server, tokenFile=str(file))
    async with await Client.connect(kubeconfig, user_agent=AGENT) as client:
        assert "401" in await who_am_i(client)
        file.write_text(await token_of(plane, namespace) + "\n")
        assert f"system:serviceaccount:{namespace}:default" in await who_am_i(client)


async def test_a_rejected_token_is_asked_for_again_from_its_plugin_before_it_expires(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    def credential(token: str) -> str:
        status = {"token": token, "expirationTimestamp": "2999-01-01T00:00:00Z"}
        return json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status})

    answers = tmp_path / "credential"
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "args": [str(answers)]}
    kubeconfig = with_server(
        plane, tmp_path, plane.api.server, exec={**plugin, "interactiveMode": "Never", "provideClusterInfo": False}
    )
    answers.write_text(credential("of yesterday"))
    async with await Client.connect(kubeconfig, user_agent=AGENT) as client:
        answers.write_text(credential(await token_of(plane, namespace)))
        assert f"system:serviceaccount:{namespace}:default" in await who_am_i(client)
        answers.unlink()
        assert f"system:serviceaccount:{namespace}:default" in await who_am_i(client)


async def test_a_token_is_read_again_after_a_while_and_its_loss_is_unavailable(
    plane: ControlPlane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(await token_of(plane, namespace))
    kubeconfig = with_server(plane, tmp_path, plane.api.server, tokenFile=str(file))
    monkeypatch.setattr(credentials, "REFRESH_AFTER", 0.0)
    async with await Client.connect(kubeconfig, user_agent=AGENT) as client:
        assert f"system:serviceaccount:{namespace}:default" in await who_am_i(client)
        file.unlink()
        with pytest.raises(Unavailable, match="no fresh token"):
            await client.get(NODES, None, "x")


async def test_in_a_pod_the_mounted_service_account_is_used_and_its_rotated_token(
    plane: ControlPlane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mount_service_account(plane, namespace, tmp_path, monkeypatch)
    (tmp_path / "token").write_text("of yesterday")
    async with await Client.connect(None, user_agent=AGENT) as client:
        (tmp_path / "token").write_text(await token_of(plane, namespace))
        assert f"system:serviceaccount:{namespace}:default" in await who_am_i(client)


async def test_a_context_asked_for_is_not_looked_for_in_the_pod(
    plane: ControlPlane, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await mount_service_account(plane, namespace, tmp_path, monkeypatch)
    monkeypatch.setenv("KUBECONFIG", f"/nowhere:{plane.kubeconfig_admin()}")
    async with await Client.connect(None, "drabridge", user_agent=AGENT) as client:
        assert await client.list_all(NODES) is not None


async def mount_service_account(
    plane: ControlPlane, namespace: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = await plane.api.call("GET", f"/api/v1/namespaces/{namespace}/configmaps/kube-root-ca.crt")
    (directory / "ca.crt").write_text(authority["data"]["ca.crt"])
    (directory / "token").write_text(await token_of(plane, namespace))
    monkeypatch.setattr(credentials, "SERVICE_TOKEN_FILENAME", str(directory / "token"))
    monkeypatch.setattr(credentials, "SERVICE_CERT_FILENAME", str(directory / "ca.crt"))
    host, port = plane.api.server.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)


BROKEN_KUBECONFIGS = {
    "no file": (None, "there is no such file"),
    "not YAML": ("{", "cannot be used"),
    "empty": ("", "cannot be used"),
    "no clusters": ("{contexts: [], current-context: x}", "cannot be used"),
    "an unknown context": (
        "{clusters: [], users: [], contexts: [], current-context: gone}",
        "Expected object with name gone in",
    ),
    "a certificate that is none": (
        """
        clusters: [{name: c, cluster: {server: "https://127.0.0.1:1", certificate-authority-data: YWJj}}]
        users: [{name: u, user: {token: t}}]
        contexts: [{name: x, context: {cluster: c, user: u}}]
        current-context: x
        """,
        "a certificate or key in it is broken",
    ),
}


@pytest.mark.parametrize(("text", "problem"), BROKEN_KUBECONFIGS.values(), ids=BROKEN_KUBECONFIGS)
async def test_a_kubeconfig_that_is_broken_is_named_with_the_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, problem: str
) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("KUBECONFIG", str(path))
    monkeypatch.setattr(credentials, "SERVICE_TOKEN_FILENAME", str(tmp_path / "none"))
    with pytest.raises(InvalidInput) as raised:
        await Client.connect(None, user_agent=AGENT)
    assert raised.value.object == f"kubeconfig {path}"
    assert problem in raised.value.problem
    assert raised.value.cure


# Fences


class Gate:
    """A fence that a test opens and closes."""

    def __init__(self) -> None:
        self.left = 60.0
        self.asked = 0

    def check(self) -> float:
        self.asked += 1
        if self.left <= 0:
            raise NotLeader("closed")
        return self.left


async def test_a_fenced_client_asks_before_each_write_and_for_no_reading(client: Client, namespace: str) -> None:
    gate = Gate()
    fenced = client.fenced(gate)
    await fenced.create(CONFIGMAPS, namespace, config_map("a"))
    await fenced.patch(CONFIGMAPS, namespace, "a", {"data": {"x": "1"}}, PatchType.MERGE)
    await fenced.get(CONFIGMAPS, namespace, "a")
    assert gate.asked == 2
    gate.left = 0.0
    with pytest.raises(NotLeader):
        await fenced.create(CONFIGMAPS, namespace, config_map("b"))
    with pytest.raises(NotLeader):
        await fenced.patch(CONFIGMAPS, namespace, "a", {"data": {"x": "2"}}, PatchType.MERGE)
    with pytest.raises(NotLeader):
        await fenced.delete(CONFIGMAPS, namespace, "a")
    assert {item["metadata"]["name"] for item in await fenced.list_all(CONFIGMAPS, namespace)} >= {"a"}
    assert (await client.get(CONFIGMAPS, namespace, "a"))["data"] == {"x": "1"}


async def test_a_fenced_write_is_given_up_when_the_time_of_the_fence_is_over(
    plane: ControlPlane, tmp_path: Path
) -> None:
    gate = Gate()
    gate.left = 0.1
    async with (
        listener(None) as server,
        await Client.connect(with_server(plane, tmp_path, server), user_agent=AGENT) as client,
    ):
        with pytest.raises(Unavailable, match=r"no answer to DELETE within 0\.1 s"):
            await client.fenced(gate).delete(NODES, None, "x")


async def test_a_write_is_not_sent_twice_when_the_fence_closes_while_a_token_is_renewed(
    plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    class Once(Gate):
        def check(self) -> float:
            left = super().check()
            self.left = 0.0
            return left

    gate = Once()
    kubeconfig = with_server(plane, tmp_path, plane.api.server, token="wrong")
    async with await Client.connect(kubeconfig, user_agent=AGENT) as client:
        with pytest.raises(NotLeader):
            await client.fenced(gate).create(CONFIGMAPS, namespace, config_map("a"))
    assert gate.asked == 2
