"""The packages that a head keeps for its nodes: archives by digest, and unpacked copies for what runs on the head.

An archive takes its name only when it is whole, is what its digest says, and is on disk.  Nobody counts references:
whoever asks for room names the digests that jobs still need, so nothing can be counted wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from elastane.engines.nodes.package_archive import SPARE_BYTES, is_digest
from elastane.engines.nodes.package_cache import MOST_BYTES, YOUNG_S, PackageCache
from elastane.engines.nodes.package_tree import LARGEST_BYTES, PackageError
from elastane.kit.atomic_files import sync

PACKAGES, UNPACKED = "packages", "unpacked"
LARGEST_ARCHIVE = LARGEST_BYTES + SPARE_BYTES
CHUNK_BYTES = 1 << 20
"""Read, and written, at a time."""
_PART = ".part-"


class Incoming:
    """An archive that is being received: written piece by piece, kept only by ``finish``."""

    def __init__(self, folder: Path, digest: str) -> None:
        self._target = folder / f"{digest}.zip"
        self._digest = digest
        self._part = folder / f"{_PART}{digest[:12]}-{secrets.token_hex(4)}"
        self._seen = hashlib.sha256()
        self._size = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        descriptor = os.open(self._part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError):  # a full disk may be noticed only now
            self._opened.close()
        self._part.unlink(missing_ok=True)

    def write(self, piece: bytes) -> None:
        """Add a piece.

        Raises:
            PackageError: that is more than any package may have.
        """
        self._size += len(piece)
        if self._size > LARGEST_ARCHIVE:
            raise PackageError(f"a package has at most {LARGEST_ARCHIVE:,} bytes")
        self._seen.update(piece)
        self._opened.write(piece)

    def finish(self) -> int:
        """Keep the archive for good; returns its size.

        Raises:
            PackageError: it is not what its digest says.
        """
        if self._seen.hexdigest() != self._digest:
            raise PackageError(
                f"the {self._size:,} bytes that came have not the digest {self._digest[:12]}…; send them again"
            )
        self._opened.flush()
        os.fsync(self._opened.fileno())
        self._part.rename(self._target)
        sync(self._target.parent)
        return self._size

    @property
    def _opened(self) -> IO[bytes]:
        assert self._file is not None
        return self._file


class PackageStore:
    """The packages below one folder, at most ``most_bytes`` beyond what jobs need, and copies of them."""

    def __init__(
        self,
        folder: Path,
        most_bytes: int = MOST_BYTES,
        young_s: float = YOUNG_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._most, self._young_s, self._clock = folder, most_bytes, young_s, clock
        self._copies = PackageCache(folder / UNPACKED, most_bytes, young_s, clock)

    def size(self, digest: str) -> int | None:
        """Bytes of an archive that is there, which is not forgotten for a while then; None if there is none."""
        if not is_digest(digest):
            return None
        path, now_s = self._archive(digest), self._clock()
        with contextlib.suppress(OSError):
            os.utime(path, (now_s, now_s))
            return path.stat().st_size
        return None

    def receive(self, digest: str) -> Incoming:
        """Take an archive in: a context with ``write`` and ``finish``.

        Raises:
            PackageError: that is no digest.
        """
        if not is_digest(digest):
            raise PackageError(f"{digest[:80]!a} is no digest of a package")
        self._make_folder()
        return Incoming(self._folder, digest)

    async def fetch(self, digest: str) -> AsyncIterator[bytes]:
        """The bytes of an archive, piece by piece, for a node or for a copy here.

        Raises:
            PackageError: there is no such package.
        """
        if self.size(digest) is None:
            raise PackageError(f"there is no package {digest[:12]!a} here; submit the job again")
        with self._archive(digest).open("rb") as file:
            while piece := await asyncio.to_thread(file.read, CHUNK_BYTES):
                yield piece

    async def copy(self, digest: str) -> Path:
        """The unpacked copy on this machine, made if it is not there.

        Raises:
            PackageError: there is no such package, or it cannot be unpacked.
        """
        return await self._copies.copy(digest, self.fetch)

    def copy_place(self, digest: str) -> Path:
        """Where the unpacked copy on this machine lies."""
        return self._copies.place(digest)

    def is_full(self) -> bool:
        """Whether there is twice as much as is kept for nobody: whoever sends more is refused."""
        return sum(size for _, size, _ in self._known()) >= 2 * self._most

    def forget(self, needed: Collection[str]) -> list[str]:
        """Remove what no job needs, the one that was asked for longest ago first, until the rest is small enough.

        Returns the digests of the archives that were removed.
        """
        self._forget_parts()
        known = sorted(self._known())
        left, gone, now_s = sum(size for _, size, _ in known), list[str](), self._clock()
        for asked_s, size, path in known:
            young = 0.0 <= now_s - asked_s < self._young_s
            if left > self._most and path.stem not in needed and not young:
                path.unlink(missing_ok=True)
                left -= size
                gone.append(path.stem)
        self._copies.forget(needed)
        return gone

    def _known(self) -> Iterator[tuple[float, int, Path]]:
        """When each archive was asked for, its size, and where it lies."""
        for path in self._folder.glob("*.zip"):
            with contextlib.suppress(OSError):
                facts = path.stat()
                yield facts.st_mtime, facts.st_size, path

    def _forget_parts(self) -> None:
        """Remove what was being received when somebody died."""
        for part in self._folder.glob(f"{_PART}*"):
            with contextlib.suppress(OSError):
                if self._clock() - part.stat().st_mtime > self._young_s:
                    part.unlink(missing_ok=True)

    def _make_folder(self) -> None:
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._folder.chmod(0o711)  # jobs of other users enter to reach their copy, and see nothing else

    def _archive(self, digest: str) -> Path:
        return self._folder / f"{digest}.zip"
