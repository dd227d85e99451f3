"""Clusters with a real node: on Linux, as root, with runc. Skipped elsewhere, unless DRABRIDGE_REAL_NODE=must."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from conftest import GATE_OFF, GATE_ON, SITE_OPTIONS, InFullView
from real_site import RealSite, start
from upstream.build import built
from upstream.controlplane import ControlPlane
from upstream.node_programs import PROGRAMS
from upstream.realnode import missing

MUST = os.environ.get("DRABRIDGE_REAL_NODE") == "must"
VERSIONS = {"Rewrite": GATE_OFF, "Native": GATE_ON, "Bind": GATE_ON}

NewPlane = Callable[[str, str], ControlPlane]
NewSite = Callable[..., Awaitable[RealSite]]


def require(lacks: Sequence[str], *, must: bool) -> None:
    """Skip, or fail if it must not be skipped, where something is missing."""
    if lacks:
        said = f"a real node cannot run here, it lacks: {', '.join(lacks)}"
        if must:
            pytest.fail(f"{said}. DRABRIDGE_REAL_NODE=must says that it has to")
        pytest.skip(said)


@pytest.fixture(scope="session")
def possible(in_full_view: InFullView) -> None:
    """Skips, or fails where it must not be skipped, what this machine cannot do; builds the programs otherwise."""
    if "DRABRIDGE_E2E_KUBECONFIG" in os.environ:
        pytest.skip("needs a node of its own; this is somebody's cluster")
    require(missing(), must=MUST)
    in_full_view(lambda: [built(program) for program in PROGRAMS])


@pytest.fixture(scope="session")
def real_plane(possible: None, controlplane_binary: Path, controlplane_directory: Path) -> NewPlane:
    """Makes a control plane for real nodes; it is not started."""

    def make(name: str, version: str) -> ControlPlane:
        emulated = None if version == GATE_ON else version
        directory = controlplane_directory / name
        return ControlPlane(controlplane_binary, emulated, directory=directory, audit=True, real_nodes=True)

    return make


@pytest_asyncio.fixture(scope="session")
async def real(request: pytest.FixtureRequest, real_plane: NewPlane) -> AsyncIterator[RealSite]:
    """A cluster with a real node and all kinds of devices, for tests that leave it as it was.

    As "Rewrite" it is a 1.35 whose names drabridge serves, as "Native" a 1.37 whose names are left to kube-scheduler,
    as "Bind" a 1.37 whose devices drabridge allocates.
    """
    plane = real_plane(f"real-{request.param.lower()}", VERSIONS[request.param])
    async with AsyncExitStack() as stack:
        real = await start(plane, stack, request.param, plane.version, options=SITE_OPTIONS)
        await real.serve_all(AsyncExitStack())
        yield real


@pytest_asyncio.fixture
async def new_real(real_plane: NewPlane, unique: Callable[[], str], afterwards: AsyncExitStack) -> NewSite:
    """Starts a cluster for one test: `await new_real("1.35")`, with `kubelet` for one of another version."""

    async def make(version: str, *, kubelet: str | None = None, delivery: str = "Rewrite") -> RealSite:
        plane = real_plane(unique(), version)
        return await start(plane, afterwards, delivery, kubelet or plane.version, options=SITE_OPTIONS)

    return make


@pytest_asyncio.fixture
async def ns(real: RealSite, unique: Callable[[], str], afterwards: AsyncExitStack) -> str:
    """A namespace of this test's own. What is left in it goes at the end, and devices are free for the next test."""
    name = unique()
    await real.plane.add_namespace(name)
    afterwards.push_async_callback(real.empty, name)
    return name
