"""The real node itself: that nothing of it is left on the machine, and what is said where it cannot run."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster_site import container
from e2e.node.conftest import require
from real_site import HARDWARE, body
from upstream import realnode
from upstream.api import wait_for
from upstream.node_init import SYSCTLS
from upstream.realnode import RealNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from e2e.node.conftest import NewPlane


def namespaces(kind: str) -> set[str]:
    """The namespaces of that kind that processes are in."""
    found = set()
    for link in Path("/proc").glob(f"[0-9]*/ns/{kind}"):
        try:
            found.add(str(link.readlink()))
        except OSError:  # it has ended, or is nobody's business
            continue
    return found


def machine() -> dict[str, object]:
    """What a node could leave behind."""
    return {
        "namespaces": {kind: namespaces(kind) for kind in ("mnt", "net", "pid")},
        "mounts": sorted(Path("/proc/self/mountinfo").read_text().splitlines()),
        "cgroups": sorted(str(path) for path in realnode.CGROUPS.glob("**/drabridge-*")),
        "sysctls": {name: Path("/proc/sys", name).read_text() for name in SYSCTLS},
        "links": sorted(os.listdir("/sys/class/net")),
    }


@pytest.mark.parametrize("end", ["stopped", "killed"])
async def test_nothing_of_a_node_is_left_on_the_machine(
    real_plane: NewPlane, unique: Callable[[], str], end: str
) -> None:
    before = machine()
    plane = real_plane(unique(), "1.35")
    await plane.start()
    try:
        node = RealNode(plane, version="1.35", hardware=HARDWARE)
        async with node:
            made = await plane.api.call("POST", "/api/v1/namespaces/default/pods", body("pod", container()))
            await node.wait_seen(made)
            during = machine()
            assert during["mounts"] == before["mounts"]
            assert during["sysctls"] == before["sysctls"]
            assert during["namespaces"] != before["namespaces"]
            assert during["cgroups"] != before["cgroups"]
            if end == "killed":  # as when the tests themselves are: by the death of one process
                node._processes["init"].kill()
                await wait_for(
                    lambda: namespaces("pid"),
                    "the node's processes to end",
                    until=lambda now: now <= namespaces_of(before, "pid"),
                )
    finally:
        await plane.stop()
    assert machine() == before
    assert not node.directory.exists()
    assert "Started kubelet" in (node.logs / "kubelet.log").read_text()


def namespaces_of(state: dict[str, object], kind: str) -> set[str]:
    kinds = state["namespaces"]
    assert isinstance(kinds, dict)
    found: set[str] = kinds[kind]
    return found


def test_what_the_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda tool, path: None if tool == "runc" else f"/usr/bin/{tool}")
    assert realnode.missing() == ["root", "runc"]
    with pytest.raises(pytest.skip.Exception, match="it lacks: root, runc"):
        require(realnode.missing(), must=False)
    with pytest.raises(pytest.fail.Exception, match=r"it lacks: root, runc\. DRABRIDGE_REAL_NODE=must"):
        require(realnode.missing(), must=True)
