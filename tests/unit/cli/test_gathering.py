"""A cluster that answers in part: what may not be listed or is not served, and what follows from that."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml
from aiohttp import web

from clusters import NAME, device_class, node, pod
from drabridge.cli.gathering import LISTS, from_cluster
from drabridge.core.cluster import Gate
from drabridge.core.errors import InvalidInput, Unavailable
from drabridge.core.inventory.cluster import Inventory, Kind
from drabridge.delivery.native import text_of
from drabridge.kube.client import Client

CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"


@dataclass
class Server:
    """An API server in a few words: path -> status, or the items of a list. Other lists are empty."""

    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    version: dict[str, str] = field(default_factory=lambda: {"gitVersion": "v1.37.1"})
    gate: Any = 403
    state: Any = 404

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/version":
            return web.json_response(self.version)
        if request.method == "PATCH":
            return self._said(self.gate)
        if request.path.endswith("/configmaps/drabridge-state"):
            return self._said(self.state)
        items = self.answers.get(request.path, [])
        if not isinstance(items, list):
            return self._said(items)
        if len(items) > 1 and "continue" not in request.query:  # in two pages
            return web.json_response({"metadata": {"resourceVersion": "1", "continue": "x"}, "items": items[:1]})
        rest = items[1:] if "continue" in request.query else items
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": rest})

    def _said(self, what: Any) -> web.Response:
        if isinstance(what, int):
            return web.json_response({"kind": "Status", "message": f"answer {what}"}, status=what)
        return web.json_response(what)

    async def look(self, directory: Path, events_of: str = "") -> Inventory:
        kubeconfig = directory / "kubeconfig"
        config = {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        kubeconfig.write_text(yaml.safe_dump(config))
        async with await Client.connect(kubeconfig, user_agent="drabridge/test") as client:
            return await from_cluster(client, events_of=events_of)


@pytest_asyncio.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield server
    await runner.cleanup()


async def test_lists_are_read_page_by_page(server: Server, tmp_path: Path) -> None:
    server.answers["/api/v1/nodes"] = [node("a"), node("b"), node("c")]
    cluster = await server.look(tmp_path)
    assert [each.name for each in cluster.nodes] == ["a", "b", "c"]
    assert cluster.unseen == {}


async def test_what_may_not_be_listed_is_named(server: Server, tmp_path: Path) -> None:
    server.answers["/api/v1/pods"] = 403
    server.answers["/apis/apps/v1/deployments"] = 404
    cluster = await server.look(tmp_path)
    assert cluster.unseen.keys() == {Kind.PODS, Kind.DEPLOYMENTS}
    assert "answer 403" in cluster.unseen[Kind.PODS]


async def test_policies_and_taint_rules_need_not_be_served(server: Server, tmp_path: Path) -> None:
    for kind in (Kind.POLICIES, Kind.TAINT_RULES):
        server.answers.update({resource.path(): 404 for resource in LISTS[kind]})
    assert (await server.look(tmp_path)).unseen == {}


async def test_an_older_version_of_taint_rules_will_do(server: Server, tmp_path: Path) -> None:
    newest, older, _ = LISTS[Kind.TAINT_RULES]
    server.answers[newest.path()] = 404
    taint = {"key": "x", "effect": "NoSchedule"}
    server.answers[older.path()] = [{"metadata": {"name": "r"}, "spec": {"taint": taint}}]
    assert [each.name for each in (await server.look(tmp_path)).taint_rules] == ["r"]


async def test_a_cluster_without_dra_is_told_so(server: Server, tmp_path: Path) -> None:
    server.answers[CLASSES] = 404
    with pytest.raises(InvalidInput, match=r"it does not serve resource\.k8s\.io/v1; upgrade the cluster to") as error:
        await server.look(tmp_path)
    assert server.url in str(error.value)


async def test_a_cluster_that_does_not_answer_is_told_so(server: Server, tmp_path: Path) -> None:
    server.answers["/api/v1/nodes"] = 503
    with pytest.raises(Unavailable, match="answer 503"):
        await server.look(tmp_path)


@pytest.mark.parametrize(
    ("gate", "stored", "found"),
    [
        ({"spec": {"extendedResourceName": "x"}}, False, Gate.ON),
        ({"spec": {}}, True, Gate.OFF),
        (403, True, Gate.ON),
        (403, False, Gate.OFF),
    ],
    ids=["it is on", "it is off", "a stored name shows it", "the version shows it"],
)
async def test_the_gate_is_asked_for_or_follows(
    server: Server, tmp_path: Path, gate: Any, *, stored: bool, found: Gate
) -> None:
    server.version = {"gitVersion": "v1.37.0", "emulationMajor": "1", "emulationMinor": "35"}
    server.gate = gate
    server.answers[CLASSES] = [device_class(**({"extendedResourceName": NAME} if stored else {}))]
    cluster = await server.look(tmp_path)
    assert cluster.server == (1, 35)
    assert cluster.gate is found


async def test_what_the_operator_counts_is_read(server: Server, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    since = {"long.example.com/x": now - timedelta(hours=1), "lately.example.com/x": now}
    server.state = {"data": {"nativeSince": text_of(since)}}
    assert (await server.look(tmp_path)).settled == {"long.example.com/x"}
    server.state = {"data": {"nativeSince": "nonsense"}}
    assert (await server.look(tmp_path)).settled is None


async def test_events_are_read_of_one_pod_only(server: Server, tmp_path: Path) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "web"}
    server.answers["/api/v1/events"] = [{"metadata": {"namespace": "default", "name": "e"}, "involvedObject": about}]
    assert (await server.look(tmp_path)).events == ()
    assert [event.pod for event in (await server.look(tmp_path, events_of="web")).events] == ["default/web"]
    server.answers["/api/v1/events"] = 403
    assert Kind.EVENTS in (await server.look(tmp_path, events_of="web")).unseen


async def test_an_object_that_cannot_be_read_does_not_hide_the_others(server: Server, tmp_path: Path) -> None:
    server.answers["/api/v1/pods"] = [pod("bad", spec={"containers": 1}), pod("good")]
    cluster = await server.look(tmp_path)
    assert [each.key for each in cluster.pods] == ["default/good"]
    assert [odd.object for odd in cluster.odd] == ["Pod default/bad"]
