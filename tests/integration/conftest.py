"""What more than one module of these tests runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from bind_rig import BindApi


@pytest_asyncio.fixture(scope="session")
async def bind_api(controlplane_binary: Path, controlplane_directory: Path) -> AsyncIterator[BindApi]:
    """Kubernetes 1.37, nothing but API server and etcd."""
    async with BindApi.start(controlplane_binary, controlplane_directory / "bind-api") as api:
        yield api
