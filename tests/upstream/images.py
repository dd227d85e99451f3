"""Container images of one static program each, as OCI image layouts: no registry, no tool."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
MEDIA_TYPE = "application/vnd.oci.image"


class _Layout:
    """The blobs of an image layout, as descriptors name them."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}

    def add(self, kind: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        self.blobs[digest] = content
        return {"mediaType": f"{MEDIA_TYPE}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    def add_json(self, kind: str, content: Mapping[str, Any]) -> dict[str, Any]:
        return self.add(kind, json.dumps(content).encode())


def write_image(program: Path, names: Sequence[str], *, links: Sequence[str] = (), to: Path) -> Path:
    """Write an image that runs `program`, known by all of `names`; give the path of the archive.

    `links` are further names of the program in the image's /bin, which is its PATH.
    """
    layout = _Layout()
    layer = _layer(program, links)
    machine = {"architecture": ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux"}
    config = {
        **machine,
        "config": {"Entrypoint": [f"/bin/{program.name}"], "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    manifest = layout.add_json(
        "manifest.v1+json",
        {
            "schemaVersion": 2,
            "mediaType": f"{MEDIA_TYPE}.manifest.v1+json",
            "config": layout.add_json("config.v1+json", config),
            "layers": [layout.add("layer.v1.tar", layer)],
        },
    )
    manifests = [manifest | {"platform": machine, "annotations": {"io.containerd.image.name": name}} for name in names]
    index = {"schemaVersion": 2, "mediaType": f"{MEDIA_TYPE}.index.v1+json", "manifests": manifests}
    with tarfile.open(to, "w") as archive:
        _add(archive, "oci-layout", json.dumps({"imageLayoutVersion": "1.0.0"}).encode())
        _add(archive, "index.json", json.dumps(index).encode())
        for digest, content in layout.blobs.items():
            _add(archive, f"blobs/sha256/{digest}", content)
    return to


def _layer(program: Path, links: Sequence[str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for name in ("bin", "dev", "etc", "proc", "sys", "tmp"):
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(directory)
        _add(archive, f"bin/{program.name}", program.read_bytes(), mode=0o755)
        for name in links:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, program.name
            archive.addfile(link)
    return content.getvalue()


def _add(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
