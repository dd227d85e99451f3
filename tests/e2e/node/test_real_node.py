"""The real node itself: that nothing of it is left on the machine, and what is said where it cannot run."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cluster_site import container
from e2e.node.conftest import require
from real_site import HARDWARE, body
from upstream import node_cgroups, realnode
from upstream.api import wait_for
from upstream.node_init import SYSCTLS
from upstream.realnode import RealNode

if TYPE_CHECKING:
    from collections.abc import Callable

    from e2e.node.conftest import NewPlane


KINDS = ("mnt", "net", "pid")


def processes_in(own: dict[str, str]) -> list[str]:
    """The processes that are in one of these namespaces."""
    found = []
    for kind, namespace in own.items():
        for link in Path("/proc").glob(f"[0-9]*/ns/{kind}"):
            with suppress(OSError):  # it has ended meanwhile
                if str(link.readlink()) == namespace:
                    found.append(link.parts[2])
    return found


def sysctls() -> dict[str, str]:
    """What the kubelet would set on the whole machine."""
    return {name: Path("/proc/sys", name).read_text() for name in SYSCTLS}


def links() -> list[str]:
    """The machine's network interfaces."""
    return sorted(path.name for path in Path("/sys/class/net").iterdir())


def namespaces_of(pid: int) -> dict[str, str]:
    """The namespaces that a process is in."""
    return {kind: str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in KINDS}


def traces(node: RealNode) -> list[str]:
    """Mounts and cgroups of the machine that a node has made."""
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(node.directory) in line]
    cgroups = [str(path) for path in node_cgroups.ROOT.glob(f"**/{node.cgroup}")]
    return mounts + cgroups


@pytest.mark.parametrize("end", ["stopped", pytest.param("killed", marks=pytest.mark.node)])
async def test_nothing_of_a_node_is_left_on_the_machine(
    real_plane: NewPlane, unique: Callable[[], str], end: str
) -> None:
    before, links_before = sysctls(), links()
    plane = real_plane(unique(), "1.35")
    await plane.start()
    node = RealNode(plane, version="1.35", hardware=HARDWARE)
    try:
        async with node:
            made = await plane.api.call("POST", "/api/v1/namespaces/default/pods", body("pod", container()))
            await node.wait_seen(made)
            assert node.init
            own = namespaces_of(node.init)
            assert len(processes_in(own)) > 3 * len(("init", "containerd", "kubelet", "shim", "pause", "show"))
            assert sysctls() == before
            assert links() == links_before
            assert traces(node)
            if end == "killed":  # as when the tests themselves are killed: by the death of one process
                node.part("init").kill()
                await wait_for(lambda: processes_in(own), "all processes to end", until=lambda left: not left)
                await wait_for(lambda: traces(node), "the cgroups to go", until=lambda left: not left)
    finally:
        await plane.stop()
    assert processes_in(own) == []
    assert traces(node) == []
    assert sysctls() == before
    assert not node.directory.exists()
    assert "Started kubelet" in (node.logs / "kubelet.log").read_text()


def test_what_the_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda tool, **_: None if tool == "runc" else f"/usr/bin/{tool}")
    assert realnode.missing() == ["root", "runc"]
    with pytest.raises(pytest.skip.Exception, match="it lacks: root, runc"):
        require(realnode.missing(), must=False)
    with pytest.raises(pytest.fail.Exception, match=r"it lacks: root, runc\. DRABRIDGE_REAL_NODE=must"):
        require(realnode.missing(), must=True)
