"""How long `drabridge doctor` takes for a large cluster in files, and how much memory: python tests/bench/doctor.py

5,000 nodes with 8 devices each, 20,000 Pods, half of them with claims; as `kubectl get -o json` or `-o yaml` (with
--yaml) would write them. The figures are JSON on stdout. Not a test: nothing here passes or fails.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from clusters import NAME, Object, claim, device, device_class, exactly, node, pod, resource_slice, result


class Written(yaml.CSafeDumper):
    """Writes YAML without aliases, as kubectl does."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True


NODES, PODS, DEVICES = 5_000, 20_000, 8
FIELDS = {"f:metadata": {"f:labels": {f"f:label-{i}": {} for i in range(8)}}, "f:spec": {"f:containers": {}}}


def nodes() -> Iterator[Object]:
    for number in range(NODES):
        labels = {f"example.com/label-{i}": f"value-{i}" for i in range(30)}
        raw = node(f"node-{number}", kubelet="v1.36.1", labels=labels | {"kubernetes.io/hostname": f"node-{number}"})
        raw["status"]["conditions"] = [{"type": f"Condition{i}", "status": "False", "reason": "x"} for i in range(5)]
        raw["status"]["images"] = [{"names": [f"registry.example/image-{i}:1"], "sizeBytes": 1} for i in range(20)]
        yield raw


def slices() -> Iterator[Object]:
    for number in range(NODES):
        published = [
            device(
                f"gpu-{at}",
                attributes={
                    "uuid": {"string": f"GPU-{number}-{at}"},
                    "model": {"string": "a100"},
                    "index": {"int": at},
                    "driverVersion": {"version": "550.54.15"},
                    **{f"attribute-{i}": {"string": f"value-{i}"} for i in range(6)},
                },
                capacity={"memory": {"value": "80Gi"}},
            )
            for at in range(DEVICES)
        ]
        yield resource_slice(f"slice-{number}", f"node-{number}", published=published)


def pods() -> Iterator[Object]:
    for number in range(PODS):
        main = {
            "name": "main",
            "image": "registry.example/training:1",
            "env": [{"name": f"VARIABLE_{i}", "value": f"value-{i}"} for i in range(10)],
            "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}},
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets", "readOnly": True}],
        }
        spec: Object = {"nodeName": f"node-{number % NODES}", "tolerations": [{"operator": "Exists"}]}
        if number % 2 == 0:
            spec["resourceClaims"] = [{"name": "gpu", "resourceClaimName": f"claim-{number}"}]
        managed = [{"manager": name, "apiVersion": "v1", "fieldsV1": FIELDS} for name in ("kubelet", "controller")]
        status = {"conditions": [{"type": f"Condition{i}", "status": "True"} for i in range(5)]}
        yield pod(f"pod-{number}", main, spec=spec, status=status, metadata={"managedFields": managed})


def claims() -> Iterator[Object]:
    for number in range(0, PODS, 2):
        place = number // 2
        held = [result(f"gpu-{place // NODES}", f"node-{place % NODES}")]
        yield claim(f"claim-{number}", exactly(), results=held, reserved=[f"pod-{number}"])


def classes() -> Iterator[Object]:
    yield device_class(extendedResourceName=NAME)
    for number in range(9):
        yield device_class(f"class-{number}", f"device.attributes['gpu.example.com'].model == 'a10{number}'")


KINDS: dict[str, Callable[[], Iterator[Object]]] = {
    "nodes": nodes,
    "slices": slices,
    "pods": pods,
    "claims": claims,
    "classes": classes,
}


def write(directory: Path, *, as_yaml: bool) -> None:
    for name, make in KINDS.items():
        items: Any = {"apiVersion": "v1", "kind": "List", "items": list(make())}
        if as_yaml:
            with (directory / f"{name}.yaml").open("w") as file:
                yaml.dump_all(items["items"], file, Dumper=Written)
        else:
            (directory / f"{name}.json").write_text(json.dumps(items, indent=4))


def measure(directory: Path, *, as_yaml: bool) -> dict[str, Any]:
    # Written by a process of its own: what a process was large as counts for those that it starts.
    subprocess.run([sys.executable, __file__, "--write", directory, *(["--yaml"] if as_yaml else [])], check=True)
    size = sum(path.stat().st_size for path in directory.iterdir())
    begun = time.monotonic()
    with (directory.parent / f"{directory.name}.answer").open("w+") as file:
        command = [Path(sys.executable).with_name("drabridge"), "doctor", "-f", directory, "-o", "json"]
        process = subprocess.Popen(command, stdout=file)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - begun
        file.seek(0)
        answer = json.load(file)
    return {
        "format": "yaml" if as_yaml else "json",
        "megabytes": round(size / 1e6),
        "seconds": round(seconds, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "memory_megabytes": round(usage.ru_maxrss / 1024),
        "checks": answer["checksMade"],
        "findings": len(answer["findings"]),
        "exit_code": os.waitstatus_to_exitcode(status),
    }


if __name__ == "__main__":
    options = sys.argv[1:]
    if "--write" in options:
        write(Path(options[options.index("--write") + 1]), as_yaml="--yaml" in options)
    else:
        with tempfile.TemporaryDirectory() as temporary:
            dump = Path(temporary) / "dump"
            dump.mkdir()
            sys.stdout.write(json.dumps(measure(dump, as_yaml="--yaml" in options), indent=2) + "\n")
