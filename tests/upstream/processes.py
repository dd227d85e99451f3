"""Processes that end with their parent, and ports for them to listen on."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# The kernel kills the process when its parent dies, even by SIGKILL (PR_SET_PDEATHSIG is 1, and it outlives execve).
# Done by an interpreter of its own: subprocess's preexec_fn is unsafe, and warned about, once there are threads.
# "Parent" is the thread that started it: start processes from the main thread.
_UNTIL_PARENT_DIES = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the parent is gone")
os.execv(sys.argv[2], sys.argv[2:])
"""
_PORTS_FROM = 20000
_handed_out: set[int] = set()


def free_port() -> int:
    """Give a TCP port that nobody listens on at 127.0.0.1.

    It lies below the range that the kernel takes for outgoing connections, so only another listener can be faster.
    """
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.randrange(_PORTS_FROM, ephemeral if ephemeral > _PORTS_FROM else 60000)
        if port in _handed_out:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _handed_out.add(port)
        return port


def children_of(parent: int) -> Iterator[int]:
    """Give the ids of a process' children, zombies among them."""
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in brackets, may have blanks and brackets of its own; behind it come the state and the parent.
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if int(fields[1]) == parent:
            yield int(status.parent.name)


class Process:
    """A child with its log, in a session of its own (so that Ctrl-C reaches only us), which ends when we end.

    One that `survives` goes on, and has to see to its end itself.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str],
        survives: bool = False,
    ) -> None:
        self.name = name
        self.log = log
        shim = [] if survives else [sys.executable, "-I", "-S", "-c", _UNTIL_PARENT_DIES, str(os.getpid())]
        with log.open("ab") as output:
            self._log_start = output.tell()
            self._child = subprocess.Popen(
                [*shim, *map(str, command)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=dict(env),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process id, which is the same before and after the program takes the place of the interpreter."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code as subprocess gives it (negative: the signal), None while the process runs."""
        return self._child.poll()

    @property
    def resident_mb(self) -> float:
        """Resident memory in MiB."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(round(int(line.split()[1]) / 1024, 1) for line in lines if line.startswith("VmRSS:"))

    def said(self, lines: int | None = None) -> str:
        """Give the log since this process began; with `lines`, only that many from its end."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            text = log.read().decode(errors="replace")
        return text if lines is None else "\n".join(text.splitlines()[-lines:])

    def send(self, number: signal.Signals) -> None:
        """Send a signal; nothing happens to a process that has ended."""
        self._child.send_signal(number)

    def kill(self) -> None:
        """End the process by SIGKILL, also if it is stopped, and wait until it is gone."""
        self._child.kill()
        self._child.wait()
