"""Manifests as they are on disk: read to the byte, and written in one step."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from drabridge.cli.sources import STDIN, SUFFIXES
from drabridge.core.convert.findings import Finding, Outcome
from drabridge.core.reasons import Reason

MAX_BYTES: Final = 16 * 1024 * 1024
"""Ten times what the API server takes as one object, and what all CustomResourceDefinitions of a platform have."""

_BOM: Final = "\ufeff"


@dataclass(frozen=True, slots=True)
class Manifest:
    """A file's text. `bom` stood before it; `named` says that the user named the file itself."""

    name: str
    text: str
    bom: bool
    named: bool

    @property
    def path(self) -> Path:
        """Where it is; not for standard input."""
        return Path(self.name)


@dataclass(frozen=True, slots=True)
class Unread:
    """A file that is no manifest, or cannot be read, and why."""

    name: str
    finding: Finding


def read(paths: Iterable[str]) -> Iterator[Manifest | Unread]:
    """Read the files, those in the directories and below (hidden ones left out), and `-`; each file once."""
    seen: set[Path] = set()
    for path in paths:
        if path == STDIN:
            yield _decoded("standard input", sys.stdin.buffer.read(MAX_BYTES + 1), named=True)
        elif (directory := Path(path)).is_dir():
            for each in _below(directory):
                if each.resolve() not in seen:
                    seen.add(each.resolve())
                    yield _read(each, named=False)
        elif directory.resolve() not in seen:
            seen.add(directory.resolve())
            yield _read(directory, named=True)


def _below(directory: Path) -> Iterator[Path]:
    for parent, names, files in os.walk(directory):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            path = Path(parent) / name
            if name.endswith(SUFFIXES) and not name.startswith(".") and not _is_special(path):
                yield path


def _is_special(path: Path) -> bool:
    """Whether it is a pipe, a socket or a device: reading it may never end."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except OSError:
        return False  # `_read` says what is wrong with it


def _read(path: Path, *, named: bool) -> Manifest | Unread:
    try:
        if (size := path.stat().st_size) > MAX_BYTES:
            return _unread(str(path), Reason.TOO_LARGE, f"it has {size} bytes, more than {MAX_BYTES}")
        content = path.read_bytes()
    except OSError as error:
        return _unread(str(path), Reason.NOT_READABLE, (error.strerror or str(error)).lower())
    return _decoded(str(path), content, named=named)


def _decoded(name: str, content: bytes, *, named: bool) -> Manifest | Unread:
    if len(content) > MAX_BYTES:
        return _unread(name, Reason.TOO_LARGE, f"it has more than {MAX_BYTES} bytes")
    if b"\0" in content:
        return _unread(name, Reason.NOT_TEXT, f"it has a zero at byte {content.index(0)}")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        return _unread(name, Reason.NOT_TEXT, f"byte {error.start} is no UTF-8")
    return Manifest(name, text.removeprefix(_BOM), text.startswith(_BOM), named)


def _unread(name: str, reason: Reason, detail: str) -> Unread:
    return Unread(name, Finding(Outcome.BROKEN, reason, 0, "", "", detail))


def write(manifest: Manifest, text: str) -> None:
    """Put a text in the place of a file, in one step: there is the old one or the new one, never a half.

    Mode and owner stay, and a symbolic link goes on pointing. Raises OSError.
    """
    target = Path(os.path.realpath(manifest.path))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(13, "Permission denied", str(target))
    handle, name = tempfile.mkstemp(prefix=f".{target.name[:100]}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            if target.exists():
                status = target.stat()
                with suppress(PermissionError):  # only root may give files away
                    os.fchown(file.fileno(), status.st_uid, status.st_gid)
                os.fchmod(file.fileno(), status.st_mode & 0o7777)
            else:
                os.fchmod(file.fileno(), 0o644)
            file.write(((_BOM if manifest.bom else "") + text).encode())
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
