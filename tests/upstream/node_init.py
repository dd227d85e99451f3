"""The first process in a real node's namespaces: makes the machine's places the node's own, then reaps until killed.

Run by an interpreter without site-packages: `node_init.py DIRECTORY ADDRESS`. DIRECTORY becomes /run/node; what is in
its `var-lib` becomes /var/lib. When this process ends, the kernel ends all others in the namespaces, and the mounts and
the network go with them.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

# What the kubelet wants (and would set on the whole machine, for these know no namespaces).
SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def run(*command: str) -> None:
    subprocess.run(command, check=True)


def own_places(directory: Path) -> None:
    """Put directories of the node over the machine's /run and /var/lib."""
    run("mount", "--make-rprivate", "/")
    run_directory = directory / "run"
    run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(run_directory))
    (run_directory / "node").mkdir()
    run("mount", "--bind", str(directory), str(run_directory / "node"))
    run("mount", "--rbind", str(run_directory), "/run")
    run("mount", "--bind", str(directory / "var-lib"), "/var/lib")
    # Mounts that the kubelet makes must reach containers that run already.
    run("mount", "--make-rshared", "/")


def own_sysctls(directory: Path) -> None:
    """Put a file over each sysctl that the kubelet would change, with the value that it wants."""
    for name, value in SYSCTLS.items():
        target = Path("/proc/sys") / name
        if target.exists():
            copy = directory / name.replace("/", ".")
            copy.write_text(f"{value}\n")
            run("mount", "--bind", str(copy), str(target))


def own_network(address: str) -> None:
    """Give the node an address. It leads nowhere, but the kubelet accepts none of 127.0.0.0/8."""
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", f"{address}/32", "dev", "lo")


def main() -> None:
    directory, address = Path(sys.argv[1]), sys.argv[2]
    own_places(directory)
    own_sysctls(Path("/run/node/sysctls"))
    own_network(address)
    Path("/run/node/initialized").touch()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        signal.sigwait({signal.SIGCHLD})
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass


if __name__ == "__main__":
    main()
