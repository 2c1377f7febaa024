"""Unpacked packages on one machine: each is fetched and unpacked once, whoever asks, and stays while it is in use.

``DIGEST`` is the unpacked copy, ``DIGEST.json`` says that it is whole (and since which start of the machine: after a
power cut files may be empty), ``DIGEST.lock`` is held by whoever makes or removes it, ``held/DIGEST/NAME`` says who
uses it.  Several processes may work on the folder at once.  A copy is shared by all who use it.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from elastane.engines.local.json_files import Lock, read_json, write_json
from elastane.engines.nodes.package_archive import SPARE_BYTES, is_digest
from elastane.engines.nodes.package_tree import LARGEST_BYTES, PackageError
from elastane.engines.nodes.unpack_package import unpack

Fetch = Callable[[str], AsyncIterator[bytes]]
"""Gives the bytes of the archive with this digest, piece by piece."""
MOST_BYTES = 16 << 30
YOUNG_S = 3600.0
"""How long a copy is kept at least after it was asked for: whoever asked may not use it yet."""
_HOLDER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}", re.ASCII)
_LOOK_S = 0.05
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class _Known:
    digest: str
    bytes: int
    asked_s: float


class PackageCache:
    """Copies of packages below one folder; ``most_bytes`` of them are kept when nobody uses them."""

    def __init__(
        self,
        folder: Path,
        most_bytes: int = MOST_BYTES,
        young_s: float = YOUNG_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder, self._most, self._young_s, self._clock = folder, most_bytes, young_s, clock

    def place(self, digest: str) -> Path:
        """Where the copy of a package lies, or would lie.

        Raises:
            PackageError: that is no digest.
        """
        if not is_digest(digest):
            raise PackageError(f"{digest[:80]!a} is no digest of a package")
        return self._folder / digest

    def holds(self, digest: str) -> bool:
        """Whether there is a whole copy now."""
        return self._bytes_of(digest) is not None

    async def copy(self, digest: str, fetch: Fetch, holder: str = "") -> Path:
        """The folder of the unpacked package, made if it is not there; ``holder`` keeps it until it is released.

        Raises:
            PackageError: it cannot be fetched or unpacked, or is not what its digest says.
        """
        place = self.place(digest)
        if holder and not _HOLDER.fullmatch(holder):
            raise PackageError(f"{holder[:80]!a} is no name to hold a package by")
        try:
            self._make_folder()
            lock = Lock(self._folder / f"{digest}.lock")
            while not lock.take():
                await asyncio.sleep(_LOOK_S)
            try:
                if holder:
                    self._hold(digest, holder)
                if not self.holds(digest):
                    await self._make(digest, fetch)
                self._touch(digest)
            finally:
                lock.release()
        except OSError as error:
            raise PackageError(f"the package cannot be unpacked in {self._folder}: {error.strerror}") from None
        return place

    def release(self, holder: str) -> None:
        """Let go of everything that is held by this name; harmless to repeat."""
        for held in self._held():
            if held.name == holder:
                held.unlink(missing_ok=True)

    def release_all(self) -> None:
        """Let go of everything: whoever held it is gone."""
        for held in self._held():
            held.unlink(missing_ok=True)

    def forget(self, keep: Collection[str] = ()) -> list[str]:
        """Remove copies nobody holds, the one that was asked for longest ago first, until the rest is small enough.

        ``keep`` are digests that are in use all the same.  Returns which were removed.
        """
        known = sorted(self._known(), key=lambda each: each.asked_s)
        left, gone = sum(each.bytes for each in known), list[str]()
        now_s = self._clock()
        for each in known:
            young = 0.0 <= now_s - each.asked_s < self._young_s
            if left > self._most and each.digest not in keep and not young and self._remove(each.digest):
                left -= each.bytes
                gone.append(each.digest)
        return gone

    def _make_folder(self) -> None:
        if not self._folder.is_dir():
            self._folder.mkdir(parents=True, exist_ok=True)
            self._folder.chmod(0o711)  # who knows a digest may enter, nobody may look around

    async def _make(self, digest: str, fetch: Fetch) -> None:
        """Fetch, check and unpack; only who has the lock comes here, so what lies around was left by the dead."""
        for left in self._folder.glob(f".new-{digest}-*"):
            await asyncio.to_thread(_remove_folder, left)
        # A name of its own: a thread that unpacks goes on for a while when whoever waits for it is cancelled.
        own = f"{digest}-{secrets.token_hex(4)}"
        part, new = self._folder / f".new-{own}.zip", self._folder / f".new-{own}"
        try:
            await self._fetch(digest, fetch, part)
            size = await asyncio.to_thread(self._unpack, part, new)
            await asyncio.to_thread(_remove_folder, self.place(digest))
            new.rename(self.place(digest))
            write_json(self._marker(digest), {"boot": _boot(), "bytes": size})
        finally:
            part.unlink(missing_ok=True)
            await asyncio.to_thread(_remove_folder, new)

    async def _fetch(self, digest: str, fetch: Fetch, part: Path) -> None:
        seen, size = hashlib.sha256(), 0

        def take(piece: bytes) -> None:
            seen.update(piece)
            file.write(piece)

        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            async for piece in fetch(digest):
                size += len(piece)
                if size > LARGEST_BYTES + SPARE_BYTES:
                    raise PackageError(f"package {digest[:12]} is larger than any may be")
                await asyncio.to_thread(take, piece)
        if seen.hexdigest() != digest:
            raise PackageError(f"what came is not package {digest[:12]}: {size:,} bytes with another digest")

    @staticmethod
    def _unpack(part: Path, new: Path) -> int:
        new.mkdir()
        new.chmod(0o755)
        with part.open("rb") as file:
            return unpack(file, new)

    def _remove(self, digest: str) -> bool:
        lock = Lock(self._folder / f"{digest}.lock")
        if not lock.take():
            return False
        try:
            if any((self._folder / "held" / digest).glob("*")):
                return False
            self._marker(digest).unlink(missing_ok=True)  # first: half a copy is none
            _remove_folder(self.place(digest))
            with contextlib.suppress(OSError):
                (self._folder / "held" / digest).rmdir()
            return True
        finally:
            lock.release()

    def _hold(self, digest: str, holder: str) -> None:
        folder = self._folder / "held" / digest
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / holder).touch(mode=0o600)

    def _held(self) -> Iterator[Path]:
        return (self._folder / "held").glob("*/*")

    def _known(self) -> Iterator[_Known]:
        for marker in self._folder.glob("*.json"):
            size = self._bytes_of(marker.stem) if is_digest(marker.stem) else None
            with contextlib.suppress(OSError):
                yield _Known(marker.stem, size or 0, marker.stat().st_mtime)

    def _bytes_of(self, digest: str) -> int | None:
        values = read_json(self._marker(digest)) or {}
        size = values.get("bytes")
        whole = values.get("boot") == _boot() and self.place(digest).is_dir()
        return size if whole and isinstance(size, int) else None

    def _touch(self, digest: str) -> None:
        now_s = self._clock()
        os.utime(self._marker(digest), (now_s, now_s))

    def _marker(self, digest: str) -> Path:
        return self._folder / f"{digest}.json"


def _remove_folder(place: Path) -> None:
    """Remove a folder with all in it, or a file, as far as it lets itself be removed."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            place.unlink(missing_ok=True)


def _boot() -> str:
    """Tells one start of the machine from another."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""
