"""The manifests of `data/convert`: by shape, as they are found in public, and what becomes of them.

`python tests/convert_cases.py` writes down what the program says now, for a person to read as a diff.
"""

from __future__ import annotations

import json
from pathlib import Path

from drabridge.api.policy import ExtendedResourcePolicy
from drabridge.cli.yamltree import parse
from drabridge.core.classmap import ClassMap, ClassView
from drabridge.core.convert.file import Converted, convert, inventory, read
from drabridge.core.convert.piece import Conversion, Direction
from drabridge.core.convert.serving import Serving

DATA = Path(__file__).parent / "data" / "convert"
FINDINGS = DATA / "findings.json"

MAP = {
    "nvidia.com/gpu": "gpu.nvidia.com",
    "amd.com/gpu": "gpu.amd.com",
    "google.com/tpu": "tpu.google.com",
    "aws.amazon.com/neuron": "neuron.aws.com",
    "dlb.intel.com/pf": "pf.dlb.intel.com",
    "dlb.intel.com/vf": "vf.dlb.intel.com",
    "fpga.intel.com/d5005.NLB.3-f7df405cbd7acf7222f144b0b93acd18": "fpga.intel.com",
    "iluvatar.ai/BI-V100.vgpu": "bi-v100.iluvatar.ai",
    "rdma/ib": "rdma.example.com",
    "sgx.intel.com/epc": "sgx.intel.com",
    "vpc.amazonaws.com/efa": "efa.amazonaws.com",
}
"""What the command line would say by --map."""

NAMES = sorted(path.name for path in (DATA / "in").iterdir())


def source(name: str) -> str:
    return (DATA / "in" / name).read_bytes().decode()


def wanted(name: str) -> str:
    return (DATA / "out" / name).read_bytes().decode()


def conversion(text: str, direction: Direction = Direction.FORWARD) -> Conversion:
    """What the command line would make of one file and `MAP`."""
    documents, _, _ = read(text, parse)
    objects = list(inventory(documents))
    policies = [ExtendedResourcePolicy.parse(each.value).view() for each in objects if each.group == "drabridge.io"]
    chosen = {each.resource: each.device_class for each in policies} | MAP
    classes = [ClassView.of(each.value) for each in objects if each.kind == "DeviceClass"]
    templates = {(each.namespace, each.name): each.value for each in objects if each.kind == "ResourceClaimTemplate"}
    return Conversion(
        Serving(ClassMap.of(classes, chosen), chosen), parse, direction, templates=templates, used=frozenset()
    )


def converted(name: str) -> Converted:
    text = source(name)
    return convert(text, conversion(text))


def findings(result: Converted) -> list[str]:
    """A line a finding."""
    lines = []
    for each in result.findings:
        where = " ".join(filter(None, (each.object, each.path)))
        lines.append(f"{each.line}: {each.outcome} {each.reason}: {where + ': ' if where else ''}{each.detail}")
    return lines


def main() -> None:
    said = {}
    (DATA / "out").mkdir(exist_ok=True)
    for name in NAMES:
        result = converted(name)
        (DATA / "out" / name).write_bytes(result.text.encode())
        said[name] = findings(result)
    FINDINGS.write_text(json.dumps(said, indent=1) + "\n")


if __name__ == "__main__":
    main()
