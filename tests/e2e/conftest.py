"""The cluster that the end-to-end tests run on: control planes of ours, or the one that `make e2e` names."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bind_site import BindSite, bind_site
from cluster_site import Served, Site
from conftest import Planes
from upstream.cluster import Cluster

KUBECONFIG = os.environ.get("DRABRIDGE_E2E_KUBECONFIG", "")

BOTH = pytest.mark.parametrize("site", ["existing"] if KUBECONFIG else ["1.35", "1.37"], indirect=True)
"""For tests whose subject depends on the API server's version."""

Serve = Callable[..., Awaitable[Served]]
Report = Callable[..., None]


if KUBECONFIG:

    @pytest_asyncio.fixture(scope="session", name="site")
    async def existing_site() -> AsyncIterator[Site]:
        """The cluster that KUBECONFIG names; drabridge and a DRA driver (gpu.example.com) must be installed there."""
        cluster = Cluster(kubeconfig=Path(KUBECONFIG), kubectl=("kubectl",), directory=Path())
        yield Site(cluster, None)
        await cluster.close()

else:

    @pytest_asyncio.fixture(scope="session", name="site", params=["1.35"])
    async def own_site(request: pytest.FixtureRequest, planes: Planes) -> Site:
        """A cluster with drabridge where names are served by Rewrite.

        1.35, and for modules that say so (`BOTH`) 1.37 with kubelets that are too old for native delivery as well.
        """
        return await planes.site(request.param)


@pytest_asyncio.fixture
async def ns(site: Site, unique: Callable[[], str], afterwards: AsyncExitStack) -> str:
    """A namespace of this test's own on `site`."""
    name = unique()
    await site.cluster.add_namespace(name)
    afterwards.push_async_callback(site.cluster.remove_namespace, name)
    return name


@pytest.fixture
def serve(site: Site, unique: Callable[[], str], afterwards: AsyncExitStack) -> Serve:
    """Makes a resource name for this test and has it served: `await serve(devices=2)`."""

    async def make(**options: Any) -> Served:
        return await site.serve(unique(), afterwards, **options)

    return make


@pytest.fixture
def ours(site: Site) -> Site:
    """`site`, for tests that need a control plane of ours: they count devices, stop replicas, or change nodes."""
    if site.installation is None:
        pytest.skip("needs a control plane of its own; this is somebody's cluster")
    return site


@pytest_asyncio.fixture(scope="session", name="bind_site")
async def site_with_bind(controlplane_binary: Path, controlplane_directory: Path) -> AsyncIterator[BindSite]:
    """Kubernetes 1.37 with drabridge, its extender, and the kube-scheduler that calls it."""
    async with bind_site(controlplane_binary, controlplane_directory / "bind") as site:
        yield site


@pytest.fixture
def report(capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest) -> Report:
    """Prints what was measured."""
    began = time.monotonic()

    def show(**figures: object) -> None:
        seconds = round(time.monotonic() - began)
        with capsys.disabled():
            print("\n" + json.dumps({"test": request.node.name, "seconds": seconds, **figures}))  # noqa: T201

    return show
