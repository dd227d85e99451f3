"""The control planes that tests share, and the order tests run in."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio
from hypothesis import settings

from cluster_site import Site
from upstream.api import Object
from upstream.build import BuildFailed, binary, built
from upstream.controlplane import ControlPlane
from upstream.installation import Installation
from upstream.node_programs import PROGRAMS
from upstream.realnode import missing
from workers import Sharing

if TYPE_CHECKING:
    from _pytest.capture import CaptureManager
    from _pytest.terminal import TerminalReporter
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController

# The same examples each time: a change is judged by what it changes. `make fuzz` looks for new ones, and so does
# `pytest --hypothesis-profile=default tests/property`.
settings.register_profile("fixed", derandomize=True)
settings.load_profile("fixed")

# The cheap and precise tests first: they say more about a fault than what fails because of it.
ORDER = ("unit", "property", "integration", "e2e", "bench")
GATE_OFF = "1.35"
GATE_ON = "1.37"
# Short enough for tests to wait, long enough that the defaults' order (Lease, probes, settling) stays.
SITE_OPTIONS = ("--pending-every=1", "--probe-every=1", "--native-after=4", "--log-format=json", "--log-level=debug")

NewNamespace = Callable[[ControlPlane], Awaitable[str]]
NewNode = Callable[..., Awaitable[str]]  # (plane, **what Cluster.add_node takes)
InFullView = Callable[[Callable[[], Sequence[Path]]], Sequence[Path]]
NewObject = Callable[[ControlPlane, str, Object], Awaitable[Object]]

KEPT_LOGS = pytest.StashKey[list[Path]]()
NAMES = pytest.StashKey[int]()


class Planes:
    """One bare control plane a Kubernetes version, each started when the first test asks for it.

    The two usual ones start side by side if the session needs both. Control planes with drabridge in them are others:
    tests of manifests and definitions would take its parts away.
    """

    def __init__(self, program: Path, directory: Path, wanted: set[str]) -> None:
        self._program = program
        self._directory = directory
        self._wanted = wanted
        self._starting: dict[str, asyncio.Task[ControlPlane]] = {}
        self._sites: dict[str, asyncio.Task[Site]] = {}
        self._kubelets: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    async def site(self, version: str) -> Site:
        """Give the site of that version: a control plane of its own, with drabridge installed and kubelets played."""
        if version not in self._sites:
            self._sites[version] = asyncio.create_task(self._start_site(version))
        return await self._sites[version]

    async def _start_site(self, version: str) -> Site:
        plane = await self._start(version, self._directory / f"site-{version}")
        installation = Installation(plane, options=SITE_OPTIONS)
        await self._stack.enter_async_context(installation)
        site = Site(plane, installation)
        self._kubelets.append(asyncio.create_task(plane.play_kubelets()))
        return site

    async def get(self, version: str) -> ControlPlane:
        """Give the running control plane of that version."""
        for each in {version} | (self._wanted if version in self._wanted else set()):
            if each not in self._starting:
                self._starting[each] = asyncio.create_task(self._start(each, self._directory / each))
        return await self._starting[version]

    async def _start(self, version: str, directory: Path) -> ControlPlane:
        emulated = None if version == GATE_ON else version
        plane = ControlPlane(self._program, emulated, directory=directory, audit=True)
        try:
            await plane.start()
        except BaseException:
            await plane.stop()
            raise
        return plane

    async def stop(self) -> None:
        """End them all."""
        for kubelets in self._kubelets:
            kubelets.cancel()
        await self._stack.aclose()
        for started in await asyncio.gather(*self._starting.values(), *self._sites.values(), return_exceptions=True):
            plane = started.cluster if isinstance(started, Site) else started
            if isinstance(plane, ControlPlane):
                await plane.stop()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Path(__file__).parent

    def rank(item: pytest.Item) -> int:
        room = item.path.relative_to(here).parts[0] if item.path.is_relative_to(here) else ""
        return ORDER.index(room) if room in ORDER else len(ORDER)

    items.sort(key=rank)
    for item in items:
        if rank(item) == ORDER.index("property"):
            item.add_marker("unmeasured")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Take coverage's hand off `unmeasured` tests. pytest-cov's own marker has no effect in workers."""
    tracer = sys.gettrace()
    if item.get_closest_marker("unmeasured"):
        sys.settrace(None)
    try:
        return (yield)
    finally:
        sys.settrace(tracer)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config) -> None:
    """Build everything before there are workers, which can neither show how it goes nor end the session."""
    seen(config, lambda: [binary(), *map(built, () if missing() else PROGRAMS)])
    # Else coverage starts in the workers twice: pytest-cov does it, which can pause it, and has their children do it.
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Sharing:
    return Sharing(config, log)


def pytest_configure(config: pytest.Config) -> None:
    config.stash[KEPT_LOGS] = []


def pytest_sessionfinish(session: pytest.Session) -> None:
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["logs"] = [str(each) for each in session.config.stash[KEPT_LOGS]]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: WorkerController) -> None:
    """Take over what a worker has kept; one that crashed says nothing."""
    node.config.stash[KEPT_LOGS] += map(Path, getattr(node, "workeroutput", {}).get("logs", ()))


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    failed = terminalreporter.stats.get("failed", []) + terminalreporter.stats.get("error", [])
    kept = [logs for directory in config.stash[KEPT_LOGS] for logs in sorted(directory.glob("*/logs"))]
    if kept and failed:
        terminalreporter.write_sep("=", "control plane logs")
        for logs in kept:
            terminalreporter.write_line(str(logs))


@pytest.fixture(scope="session")
def in_full_view(request: pytest.FixtureRequest) -> InFullView:
    """Builds programs so that what is said meanwhile is seen; ends the session where that fails."""
    return lambda programs: seen(request.config, programs)


def seen(config: pytest.Config, programs: Callable[[], Sequence[Path]]) -> Sequence[Path]:
    capture: CaptureManager | None = config.pluginmanager.getplugin("capturemanager")
    try:
        if capture is None:
            return programs()
        with capture.global_and_fixture_disabled():
            return programs()
    except BuildFailed as failure:
        pytest.exit(str(failure), returncode=1)


@pytest.fixture(scope="session")
def controlplane_binary(in_full_view: InFullView) -> Path:
    """The control-plane program; the first one to ask builds it."""
    return in_full_view(lambda: [binary()])[0]


@pytest.fixture(scope="session")
def controlplane_directory(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where control planes of this session live. It goes unless a test failed: logs are for reading afterwards."""
    directory = tmp_path_factory.mktemp("controlplanes")
    request.config.stash[KEPT_LOGS].append(directory)
    yield directory
    if not request.session.testsfailed:
        shutil.rmtree(directory, ignore_errors=True)


@pytest_asyncio.fixture(scope="session")
async def planes(
    request: pytest.FixtureRequest, controlplane_binary: Path, controlplane_directory: Path
) -> AsyncIterator[Planes]:
    wanted = {version for version in (GATE_OFF, GATE_ON) if _is_wanted(request.session, version)}
    planes = Planes(controlplane_binary, controlplane_directory, wanted)
    yield planes
    await planes.stop()


def _is_wanted(session: pytest.Session, version: str) -> bool:
    fixture = f"plane_{version.replace('.', '')}"
    for item in session.items:
        names = getattr(item, "fixturenames", ())
        if fixture in names:
            return True
        if "plane" in names:
            params = item.callspec.params if hasattr(item, "callspec") else {}
            if params.get("kubernetes", GATE_OFF) == version:
                return True
    return False


@pytest_asyncio.fixture(scope="session")
async def site_135(planes: Planes) -> Site:
    """Kubernetes 1.35 (gate off) with drabridge."""
    return await planes.site(GATE_OFF)


@pytest_asyncio.fixture(scope="session")
async def site_137(planes: Planes) -> Site:
    """Kubernetes 1.37 (gate on) with drabridge."""
    return await planes.site(GATE_ON)


@pytest_asyncio.fixture(scope="session")
async def plane_135(planes: Planes) -> ControlPlane:
    """Kubernetes 1.35: the gate DRAExtendedResource is off."""
    return await planes.get(GATE_OFF)


@pytest_asyncio.fixture(scope="session")
async def plane_137(planes: Planes) -> ControlPlane:
    """Kubernetes 1.37: the gate DRAExtendedResource is on and locked."""
    return await planes.get(GATE_ON)


@pytest.fixture
def kubernetes() -> str:
    """The version `plane` runs; `@pytest.mark.parametrize("kubernetes", ["1.34", "1.36"])` chooses others."""
    return GATE_OFF


@pytest_asyncio.fixture
async def plane(planes: Planes, kubernetes: str) -> ControlPlane:
    """The shared control plane of the version in `kubernetes`. Tests must not stop or restart it."""
    return await planes.get(kubernetes)


@pytest_asyncio.fixture
async def own_plane(
    controlplane_binary: Path, controlplane_directory: Path, kubernetes: str, unique: Callable[[], str]
) -> AsyncIterator[ControlPlane]:
    """A control plane that no other test uses: to be killed, paused, upgraded."""
    directory = controlplane_directory / unique()
    emulated = None if kubernetes == GATE_ON else kubernetes
    plane = ControlPlane(controlplane_binary, emulated, directory=directory, audit=True)
    try:
        await plane.start()
        yield plane
    finally:
        await plane.stop()


@pytest_asyncio.fixture
async def afterwards() -> AsyncIterator[AsyncExitStack]:
    """What the test leaves in a shared control plane is taken away by what it pushes here, last first."""
    async with AsyncExitStack() as stack:
        yield stack


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> Callable[[], str]:
    """Gives names that nothing else in the session has, with the test's own in them (DNS labels of 40 characters)."""

    def name() -> str:
        number = request.config.stash[NAMES] = request.config.stash.get(NAMES, 0) + 1
        slug = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())
        return f"t{number}-{slug[:34]}".strip("-")

    return name


@pytest.fixture
def new_namespace(unique: Callable[[], str], afterwards: AsyncExitStack) -> NewNamespace:
    """Makes a namespace for this test: `await new_namespace(plane_137)` gives its name."""

    async def make(plane: ControlPlane) -> str:
        name = unique()
        await plane.add_namespace(name)
        afterwards.push_async_callback(plane.remove_namespace, name)
        return name

    return make


@pytest.fixture
def new_node(unique: Callable[[], str], afterwards: AsyncExitStack) -> NewNode:
    """Adds a node for this test: `await new_node(plane, devices=2, driver=...)` gives its name."""

    async def make(plane: ControlPlane, **options: Any) -> str:
        name = unique()
        await plane.add_node(name, **options)
        afterwards.push_async_callback(plane.remove_node, name)
        return name

    return make


@pytest.fixture
def new_object(afterwards: AsyncExitStack) -> NewObject:
    """Creates an object for this test: `await new_object(plane, collection_path, body)` gives it as it was stored."""

    async def make(plane: ControlPlane, path: str, body: Object) -> Object:
        stored = await plane.api.call("POST", path, body)
        # request, not call: the test may have deleted it itself.
        afterwards.push_async_callback(plane.api.request, "DELETE", f"{path}/{stored['metadata']['name']}")
        return stored

    return make


@pytest_asyncio.fixture
async def namespace(plane: ControlPlane, new_namespace: NewNamespace) -> str:
    """A namespace on `plane` that is this test's own."""
    return await new_namespace(plane)
