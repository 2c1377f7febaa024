"""Packs a working directory into an archive that depends on nothing but what is in it.

Names are sorted, times are fixed, of permissions only "may be executed" is kept: who packs the same files twice gets
the same bytes, and so the same digest, by which the package is known from then on.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from elastane.engines.nodes.package_tree import Entry, PackageError, Tree

SPARE_BYTES = 32 << 20
"""By how much an archive may be longer than its files: names, and what cannot be compressed."""
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MODES = {"folder": stat.S_IFDIR | 0o755, "link": stat.S_IFLNK | 0o777, "file": stat.S_IFREG | 0o644}
_UNIX, _QUICK = 3, 1
_PIECE_BYTES = 1 << 20
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def is_digest(text: str) -> bool:
    """Whether a text could be the digest of a package: 64 digits of a SHA-256, in small letters."""
    return _DIGEST.fullmatch(text) is not None


def digest_of(file: IO[bytes]) -> str:
    """The digest of an archive, read from its beginning."""
    file.seek(0)
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]


def write_archive(tree: Tree, file: IO[bytes], packed: Callable[[int], object] = lambda _: None) -> str:
    """Write the archive of a tree into an empty file that can be read as well; returns its digest.

    ``packed`` hears how many bytes of files were read, piece by piece.

    Raises:
        PackageError: a file has changed since the tree was looked at, or cannot be read.
    """
    with zipfile.ZipFile(file, "w", allowZip64=False) as archive:
        for entry in tree.entries:
            facts = _facts(entry)
            try:
                with archive.open(facts, "w") as member:
                    for piece in _content(tree.top, entry):
                        member.write(piece)
                        packed(len(piece) if entry.kind == "file" else 0)
            except OSError as error:
                raise PackageError(f"{tree.top / entry.path} cannot be packed: {error.strerror}") from None
    return digest_of(file)


def _facts(entry: Entry) -> zipfile.ZipInfo:
    facts = zipfile.ZipInfo(entry.path + ("/" if entry.kind == "folder" else ""), _EPOCH)
    facts.create_system = _UNIX
    facts.external_attr = (_MODES[entry.kind] | (0o111 if entry.executable else 0)) << 16
    facts.compress_type = zipfile.ZIP_DEFLATED if entry.kind == "file" else zipfile.ZIP_STORED
    facts._compresslevel = _QUICK  # type: ignore[attr-defined]
    return facts


def _content(top: Path, entry: Entry) -> Iterator[bytes]:
    if entry.kind == "link":
        yield entry.target.encode()
    if entry.kind != "file":
        return
    left = entry.bytes
    with _opened(top / entry.path) as file:
        while piece := file.read(min(_PIECE_BYTES, left + 1)):
            left -= len(piece)
            if left < 0:
                break
            yield piece
    if left:
        raise PackageError(f"{top / entry.path} changed while it was packed; submit again when it is complete")


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """A regular file; what has been put in its place since is not read."""
    with os.fdopen(os.open(path, _READ), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise PackageError(f"{path} changed while it was packed; submit again when it is complete")
        yield file
