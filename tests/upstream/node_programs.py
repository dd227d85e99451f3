"""What runs on a real node, all built from Go modules beside the control plane's.

They are modules of their own: a change here must not have everybody build the control plane anew, and containerd needs
other versions of what Kubernetes depends on, too.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from upstream.build import KUBERNETES, KUBERNETES_VERSION, MODULE, BuildFailed, Program, built

if TYPE_CHECKING:
    from collections.abc import Iterator

NODE = MODULE / "node"
CONTAINERD = MODULE / "containerd"
CONTAINERD_PACKAGE = "github.com/containerd/containerd/v2"
SOON = "some seconds if the control-plane program was built here"


def _programs() -> Iterator[Program]:
    yield Program(
        name="kubelet",
        described="the kubelet",
        version=KUBERNETES,
        takes="half a minute on two cores if the control-plane program was built here, 5 min if not",
        cache="node",
        module=NODE,
        package="kubelet",
        linked=KUBERNETES_VERSION,
    )
    for name in ("dra-driver", "device-plugin", "cni", "pause", "show"):
        version = "k8s.io/kubelet"
        yield Program(name=name, described=name, version=version, takes=SOON, cache="node", module=NODE, package=name)
    for name in ("containerd", "containerd-shim-runc-v2", "ctr"):
        yield Program(
            name=name,
            described=name,
            version=CONTAINERD_PACKAGE,
            takes="about 1 min on two cores" if name == "containerd" else "some seconds",
            cache="node",
            module=CONTAINERD,
            package=f"{CONTAINERD_PACKAGE}/cmd/{name}",
            linked=((f"{CONTAINERD_PACKAGE}/version.Version", "{}"),),
        )


PROGRAMS = tuple(_programs())


def install(directory: Path) -> None:
    """Put all programs into a directory, by their plain names. Raises BuildFailed."""
    directory.mkdir(parents=True)
    for program in PROGRAMS:
        path = built(program)
        try:
            os.link(path, directory / program.name)
        except OSError:  # another file system
            shutil.copy2(path, directory / program.name)


if __name__ == "__main__":
    try:
        for each in PROGRAMS:
            sys.stdout.write(f"{built(each)}\n")
    except BuildFailed as failure:
        sys.exit(f"drabridge: {failure}")
