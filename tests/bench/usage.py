"""What the processes that a benchmark has started use of the machine."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


def cpu_seconds() -> Mapping[str, float]:
    """CPU time used until now, by who used it: the components, the operator, and `clients`, which is us."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal() and (stat := _read(directory / "stat")):
            fields = stat.rpartition(")")[2].split()
            pid = int(directory.name)
            parents[pid] = int(fields[1])
            used[pid] = (int(fields[11]) + int(fields[12])) / TICKS
    found: dict[str, float] = defaultdict(float)
    for pid, seconds in used.items():
        if os.getpid() in _line(pid, parents):
            found[_name(pid)] += seconds
    return found


def milliseconds_each(before: Mapping[str, float], after: Mapping[str, float], count: int) -> dict[str, float]:
    """CPU milliseconds for each of `count` things done between the two, by who used them."""
    return {name: round((after[name] - before.get(name, 0.0)) * 1000 / count, 2) for name in sorted(after)}


def resident_mb(pid: int) -> float:
    """Resident memory in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) / 1024, 1)
    raise AssertionError("no VmRSS")


def _line(pid: int, parents: dict[int, int]) -> list[int]:
    line = []
    while pid:
        line.append(pid)
        pid = parents.get(pid, 0)
    return line


def _name(pid: int) -> str:
    words = _read(Path(f"/proc/{pid}/cmdline")).split("\0")
    found = [name for name in COMPONENTS if name in words[:3]]
    return found[0] if found else "clients" if pid == os.getpid() else "operator"


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""  # it has ended meanwhile
