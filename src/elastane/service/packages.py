"""The packages of a service: taken in from users, unpacked for what runs here, forgotten when no job needs them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

from elastane.engines.contract import Package
from elastane.engines.nodes.package_places import command_in_copy, directory_on_head, variables_in_copy
from elastane.engines.nodes.package_store import CHUNK_BYTES, PACKAGES, Incoming, PackageStore
from elastane.engines.nodes.package_tree import PackageError
from elastane.errors import ElastaneError
from elastane.service.messages import PackageInfo
from elastane.service.protocol import Conflict, NotFound, Principal
from elastane.service.store import Store

log = logging.getLogger("elastane")

_AT_ONCE = 2
"""Packages that one user may be sending."""
_TIDY_EVERY_S = 60.0


class Packages:
    """Binds the archives below a home to the jobs in its store; ``archives`` gives them to the line of a node."""

    def __init__(self, home: Path, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self.archives = PackageStore(home / PACKAGES)
        self._home, self._store, self._clock = home, store, clock
        self._coming: Counter[str] = Counter()
        self._tidied_s = clock()

    def info(self, digest: str) -> PackageInfo:
        """A package that is here, and stays for a while; ``NotFound`` if there is none."""
        size = self.archives.size(digest)
        if size is None:
            raise NotFound(f"there is no package {digest[:12]!a}; send it first")
        return PackageInfo(digest=digest, bytes=size)

    async def keep(self, who: Principal, digest: str, pieces: AsyncIterator[bytes]) -> PackageInfo:
        """Store what comes, unless it is not what its digest says."""
        if self._coming[who.user] >= _AT_ONCE:
            raise Conflict(f"{who.user} is sending {_AT_ONCE} packages already; wait until one is here")
        self._coming[who.user] += 1
        try:
            await self._make_room()
            with await asyncio.to_thread(self.archives.receive, digest) as incoming:
                size = await _receive(incoming, pieces)
        except OSError as error:
            raise ElastaneError(f"the package cannot be stored: {error.strerror}") from None
        finally:
            self._coming[who.user] -= 1
            self._coming += Counter()  # forgets those who send nothing
        return PackageInfo(digest=digest, bytes=size)

    async def run_of(
        self, code: Package, command: Sequence[str], variables: Mapping[str, str]
    ) -> tuple[tuple[str, ...], str, dict[str, str]]:
        """Command, directory and variables with which a job of this code runs here, from the unpacked copy.

        Raises:
            ElastaneError: the package is not here, is none, or has no such directory.
        """
        self.info(code.digest)
        await self.archives.copy(code.digest)
        place = directory_on_head(self._home, code)
        top = self.archives.copy_place(code.digest).resolve()
        if not Path(place).is_dir() or not Path(place).resolve().is_relative_to(top):
            raise PackageError(f"the package has no directory {code.subdirectory!a}; was it left out of it?")
        here = command_in_copy(code, self._home, command)
        return here, place, variables_in_copy(code, self._home, variables)

    async def take_up(self) -> list[str]:
        """Have copies of all packages that active jobs need; why not, for each that cannot be had."""
        problems = []
        for digest in sorted(self._needed()):
            try:
                await self.archives.copy(digest)
            except PackageError as error:
                log.warning("package %s: %s", digest[:12], error)
                problems.append(f"jobs of package {digest[:12]} cannot run: {error}")
        return problems

    async def tidy(self) -> None:
        """Once in a while, forget what no active job needs if there is too much."""
        if 0.0 <= self._clock() - self._tidied_s < _TIDY_EVERY_S:
            return
        await self._forget()

    async def _make_room(self) -> None:
        """Refuse more while users have sent far more than is kept: nobody may fill the disk."""
        if await asyncio.to_thread(self.archives.is_full):
            await self._forget()
            if await asyncio.to_thread(self.archives.is_full):
                raise Conflict(
                    "there are too many packages here; try again in an hour, or submit with --shared"
                )

    async def _forget(self) -> None:
        self._tidied_s = self._clock()
        try:
            await asyncio.to_thread(self.archives.forget, self._needed())
        except OSError as error:
            log.warning("packages are not tidied up: %s", error)

    def _needed(self) -> set[str]:
        found = (row.code_from.get("package") for row in self._store.jobs.active() if row.code_from)
        return {digest for digest in found if isinstance(digest, str)}


async def _receive(incoming: Incoming, pieces: AsyncIterator[bytes]) -> int:
    """Write in large parts, in a thread: the disk must not keep others waiting."""
    waiting, size = list[bytes](), 0
    async for piece in pieces:
        waiting.append(piece)
        size += len(piece)
        if size >= CHUNK_BYTES:
            await asyncio.to_thread(incoming.write, b"".join(waiting))
            waiting, size = [], 0
    await asyncio.to_thread(incoming.write, b"".join(waiting))
    return await asyncio.to_thread(incoming.finish)
