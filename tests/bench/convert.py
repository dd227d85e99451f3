"""How fast manifests are converted: a thousand files of a hundred lines, by the program itself. JSON on stdout.

Seconds of whole runs, by the clock and of CPU, the start of the program included: one that writes, one that finds
nothing more to do, and one over files in which nothing was ever to be done.
Not a test: nothing here passes or fails, but what a run must not do is checked.
"""

from __future__ import annotations

import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES = 1000
LINES = 100
PROGRAM = Path(sys.executable).with_name("drabridge")
MAP = ("--map", "example.com/gpu=gpu.example.com", "--map", "example.com/nic=nic.example.com")

HEAD = """\
# Workload {number}.
apiVersion: apps/v1
kind: Deployment
metadata:
  name: workload-{number}
  namespace: team-{team}
  labels:
    app.kubernetes.io/name: workload
spec:
  replicas: 3
  selector:
    matchLabels: {{app: w{number}}}
  template:
    metadata:
      labels: {{app: w{number}}}
    spec:
      containers:
"""
CONTAINER = """\
      - name: c{index}   # container {index}
        image: "registry.example/app:{index}"
        args: ["--port={index}", '--verbose']
        env:
        - name: INDEX
          value: "{index}"
        resources:
          requests:
            cpu: "1"
            {request}
          limits:
            memory: 1Gi
            {limit}
        ports:
        - containerPort: 80{index}
"""


def manifest(number: int, resource: str, count: int) -> str:
    text = HEAD.format(number=number, team=number % 7)
    index = 0
    while text.count("\n") < LINES - 14:
        asked = f"{resource}: {count}"
        text += CONTAINER.format(index=index, request=asked, limit=asked)
        index += 1
    text += "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: s\n"
    return text + "# end\n" * (LINES - text.count("\n"))


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(directory: Path, *options: str) -> tuple[dict[str, float], str]:
    began, before = time.perf_counter(), cpu()
    done = subprocess.run(
        [PROGRAM, "convert", directory, *MAP, *options, "-o", "json"], capture_output=True, text=True, check=False
    )
    seconds = {"clock": round(time.perf_counter() - began, 2), "cpu": round(cpu() - before, 2)}
    if done.returncode:
        raise AssertionError(done.stderr)
    return seconds, done.stdout


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        asking, plain = Path(name) / "asking", Path(name) / "plain"
        for directory, resources in ((asking, ("example.com/gpu", "example.com/nic")), (plain, ("hugepages-2Mi",))):
            directory.mkdir()
            for number in range(FILES):
                text = manifest(number, resources[number % len(resources)], 1 + number % 3)
                (directory / f"{number:04}.yaml").write_text(text)
        before = contents(plain)
        written, report = run(asking, "--write")
        converted = contents(asking)
        again, _ = run(asking, "--write")
        if converted != contents(asking) or json.loads(report)["summary"]["changed"] != FILES:
            raise AssertionError("the second run changes what the first one wrote")
        nothing, _ = run(plain, "--write")
        if before != contents(plain):
            raise AssertionError("files changed in which nothing was to be done")
    figures = {
        "python": platform.python_version(),
        "files": FILES,
        "linesEach": LINES,
        "seconds": {"all converted and written": written, "a second time": again, "nothing to do": nothing},
    }
    json.dump(figures, sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
