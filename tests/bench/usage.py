"""What the processes that a benchmark has started use of the processors."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from upstream.processes import children_of

TICKS = os.sysconf("SC_CLK_TCK")
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")


def cpu_seconds() -> Mapping[str, float]:
    """CPU time used until now, by who used it: the components, the operator, and `clients`, which is us."""
    found: dict[str, float] = defaultdict(float)
    for pid in _family(os.getpid()):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
        except OSError:  # it has ended meanwhile
            continue
        component = next((name for name in COMPONENTS if name in words[:3]), "operator")
        found["clients" if pid == os.getpid() else component] += (int(fields[11]) + int(fields[12])) / TICKS
    return found


def milliseconds_each(before: Mapping[str, float], after: Mapping[str, float], count: int) -> dict[str, float]:
    """CPU milliseconds for each of `count` things done between the two, by who used them."""
    return {name: round((after[name] - before.get(name, 0.0)) * 1000 / count, 2) for name in sorted(after)}


def _family(pid: int) -> Iterator[int]:
    yield pid
    for child in children_of(pid):
        yield from _family(child)
