"""The cgroups of a real node: one of its own in each hierarchy, with all of the kubelet's below it.

Run by an interpreter without site-packages, `node_cgroups.py PID NAME` waits for the end of a process, which is the
first one in the node's namespaces, and removes them then: also where the tests were killed and nobody else would.
"""

from __future__ import annotations

import os
import select
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path("/sys/fs/cgroup")
END_SECONDS = 60.0


def directories(name: str) -> Iterator[Path]:
    """Where the node's cgroups are: one in version 2, one a hierarchy in version 1."""
    if (ROOT / "cgroup.controllers").exists():
        yield ROOT / name
    else:
        yield from (hierarchy / name for hierarchy in ROOT.iterdir() if hierarchy.is_dir())


def make(name: str) -> None:
    """Make them, so that processes can enter."""
    for directory in directories(name):
        directory.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):  # version 1: empty until written
            above = directory.parent / setting
            if above.exists():
                (directory / setting).write_text(above.read_text())


def remove(name: str) -> bool:
    """Remove those that are not in use; whether all are gone."""
    for directory in directories(name):
        for each, _, _ in os.walk(directory, topdown=False):
            with suppress(OSError):  # still busy, or somebody else was faster
                Path(each).rmdir()
    return not any(directory.exists() for directory in directories(name))


def main() -> None:
    """Wait, and remove."""
    with suppress(ProcessLookupError):
        select.select([os.pidfd_open(int(sys.argv[1]))], [], [])
    deadline = time.monotonic() + END_SECONDS
    while not remove(sys.argv[2]) and time.monotonic() < deadline:
        time.sleep(0.1)


if __name__ == "__main__":
    main()
