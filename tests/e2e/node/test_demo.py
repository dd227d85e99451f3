"""`make demo REAL=1`, as its user sees it."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from pathlib import Path

import pytest

from upstream.installation import REPOSITORY

pytestmark = pytest.mark.node


def files_in(directory: Path) -> list[Path]:
    return list(directory.iterdir())


@pytest.mark.usefixtures("possible", "controlplane_binary")
async def test_the_demo_on_a_real_node_shows_what_each_container_sees(tmp_path: Path) -> None:
    inherited = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "KEEP", "YES")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        REPOSITORY / "hack" / "demo.py",
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**inherited, "TMPDIR": str(tmp_path), "COLUMNS": "100", "REAL": "1"},
    )
    output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    assert "a real node with 20 devices" in output
    _, _, table = output.partition("sees, in its own environment")
    seen = re.findall(r"gpu\.example\.com/node-0/gpu-\d+", table.partition("The Job has finished")[0])
    # 3 x 2 of the Deployment; 1 + 2 + 2 of the Job's containers, of which one uses another's; 3; 1 and the Pod's own.
    assert (len(seen), len(set(seen))) == (6 + 5 + 3 + 2, 6 + 3 + 3 + 2), output
    assert not files_in(tmp_path)
