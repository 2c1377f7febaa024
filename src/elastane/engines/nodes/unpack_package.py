"""Unpacks archives that anybody may have made: nothing is written outside of the folder, and not without bounds.

Everything is checked before anything is written: the archive's own list, names, kinds, sizes, and where its links lead.
Files come before links, each is created anew, so no way leads through a link.
"""

from __future__ import annotations

import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from elastane.engines.nodes.package_links import leading_out
from elastane.engines.nodes.package_tree import LARGEST_BYTES, MOST_ENTRIES, MOST_LINKS, Entry, PackageError

_TAIL = struct.Struct("<4s4H2LH")
_SIGNATURE, _ZIP64 = b"PK\x05\x06", b"PK\x06\x07"
_LONGEST_LIST = 64 << 20
_LONGEST_PATH, _LONGEST_TARGET = 2000, 2000
_KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
_HOW = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED = 0x1
_PIECE_BYTES = 1 << 20
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    NotImplementedError,
    EOFError,
    RuntimeError,
    struct.error,
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much an archive may hold."""

    bytes: int = LARGEST_BYTES
    entries: int = MOST_ENTRIES


def unpack(file: IO[bytes], folder: Path, bounds: Bounds | None = None) -> int:
    """Unpack an archive into an empty folder; returns the bytes in its files.

    Raises:
        PackageError: it is damaged, too large, or holds what no package may.
        OSError: the folder cannot be written.
    """
    bounds = bounds or Bounds()
    try:
        with _opened(file, bounds) as archive:
            members = [(_entry(info), info) for info in archive.infolist()]
            targets = {e.path: _target(archive, i) for e, i in members if e.kind == "link"}
            _check([entry for entry, _ in members], targets, bounds)
            left = bounds.bytes
            for path in sorted(entry.path for entry, _ in members if entry.kind == "folder"):
                (folder / path).mkdir()
                (folder / path).chmod(0o755)  # whatever our umask is: jobs may run as somebody else
            for entry, info in members:
                if entry.kind == "file":
                    left -= _write(archive, info, entry, folder, left)
    except _BROKEN as error:
        raise PackageError(f"the package is damaged: {error!s:.200}") from None
    for path, target in sorted(targets.items()):
        (folder / path).symlink_to(target)
    return bounds.bytes - left


def _opened(file: IO[bytes], bounds: Bounds) -> zipfile.ZipFile:
    """The archive, once the size of its list is known: that is what opening one takes memory for."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _TAIL.size - 20))
    tail = file.read()
    if len(tail) < _TAIL.size or tail[: -_TAIL.size][-20:].startswith(_ZIP64):
        raise zipfile.BadZipFile("it is no archive of ours")
    signature, disk, first, here, count, length, at, comment = _TAIL.unpack(tail[-_TAIL.size :])
    if signature != _SIGNATURE or disk or first or here != count or comment:
        raise zipfile.BadZipFile("it is no archive of ours")
    if count > bounds.entries or length > _LONGEST_LIST:
        raise PackageError(f"the package has {count:,} files, at most {bounds.entries:,} are taken")
    if at + length + _TAIL.size != size:
        raise zipfile.BadZipFile("its list is not where it should be")
    file.seek(0)
    archive = zipfile.ZipFile(file)
    if len(archive.infolist()) != count:
        raise zipfile.BadZipFile("its list is longer than it says")
    return archive


def _entry(info: zipfile.ZipInfo) -> Entry:
    mode = info.external_attr >> 16
    kind = _KINDS.get(stat.S_IFMT(mode), "")
    # What zipfile shows is cut at a NUL: only a name that is whole is a name.
    path = info.filename.removesuffix("/") if kind == "folder" else info.filename
    parts = path.split("/")
    if not kind or info.orig_filename != info.filename or info.flag_bits & _ENCRYPTED:
        raise PackageError(f"the package holds {info.filename[:100]!a}, which is no file, folder or link")
    if any(part in ("", ".", "..") for part in parts) or len(path.encode()) > _LONGEST_PATH or "\0" in path:
        raise PackageError(
            f"the package holds a file with the name {info.filename[:100]!a}, which none may have"
        )
    if info.compress_type not in _HOW or (kind == "folder" and info.file_size):
        raise PackageError(f"the package holds {info.filename[:100]!a} in a way that no package of ours does")
    return Entry(path, kind, bool(mode & stat.S_IXUSR), info.file_size if kind == "file" else 0)


def _target(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> str:
    with archive.open(info) as member:
        target = member.read(_LONGEST_TARGET + 1)
    if len(target) > _LONGEST_TARGET:
        raise PackageError(f"the link {info.filename[:100]!a} of the package leads too far")
    return target.decode()


def _check(entries: Sequence[Entry], targets: dict[str, str], bounds: Bounds) -> None:
    kinds: dict[str, str] = {}
    for entry in entries:
        if entry.path in kinds:
            raise PackageError(f"the package holds {entry.path[:100]!a} twice")
        kinds[entry.path] = entry.kind
    for path in kinds:
        above, _, _ = path.rpartition("/")
        if above and kinds.get(above) != "folder":
            raise PackageError(f"the package holds {path[:100]!a}, but no folder {above[:100]!a}")
    if len(targets) > MOST_LINKS:
        raise PackageError(f"the package holds {len(targets):,} links, at most {MOST_LINKS:,} are taken")
    out = leading_out(targets)
    if out:
        raise PackageError(f"the link {out[0][:100]!a} of the package leads out of it")
    if sum(entry.bytes for entry in entries) > bounds.bytes:
        raise PackageError(f"the package holds more than {bounds.bytes:,} bytes")


def _write(archive: zipfile.ZipFile, info: zipfile.ZipInfo, entry: Entry, top: Path, most: int) -> int:
    """Write a file; returns its size, which no list decides."""
    size = 0
    descriptor = os.open(top / entry.path, _CREATE, 0o600)
    with os.fdopen(descriptor, "wb") as file, archive.open(info) as member:
        os.fchmod(descriptor, 0o755 if entry.executable else 0o644)
        while piece := member.read(_PIECE_BYTES):
            size += len(piece)
            if size > most:
                raise PackageError("the package holds more than it says, and more than is taken")
            file.write(piece)
    return size
