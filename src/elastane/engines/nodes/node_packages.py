"""The node's side of packages: what an attempt needs is fetched from the hub, unpacked once, and held until its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from elastane.engines.nodes.attempt_package import AttemptPackage, have_package
from elastane.engines.nodes.joining import Join
from elastane.engines.nodes.line import JoinError, dial
from elastane.engines.nodes.messages import TO_NODE, Opened, PackageHello, Refused
from elastane.engines.nodes.package_cache import PackageCache
from elastane.engines.nodes.package_tree import PackageError
from elastane.errors import ElastaneError
from elastane.train.coordinator import wire
from elastane.train.coordinator.login_reader import BUFFER_BYTES

_QUIET_S = 15.0
"""How long the hub may send nothing of a package before that line is given up."""
_TRIES = 10
"""How often the line may break while a package is fetched for one attempt."""


class NotNowError(ElastaneError):
    """The line broke; whoever wants the package asks again."""


class NodePackages:
    """The packages of one node."""

    def __init__(self, folder: Path, join: Join, session: Callable[[], str]) -> None:
        """``session`` is what the hub called the line that there is now; empty while there is none."""
        self._cache = PackageCache(folder)
        self._cache.release_all()  # whoever held them ended with the agent before us
        self._join, self._session = join, session
        self._broken: dict[str, int] = {}

    async def have(self, told: AttemptPackage) -> tuple[tuple[str, str], ...]:
        """Hold the package of an attempt, fetched if need be; which paths of the head are which here.

        Raises:
            PackageError: it cannot be had.
            NotNowError: it could not be fetched this time.
        """
        try:
            pairs = await have_package(self._cache, told, self._fetch)
        except NotNowError as error:
            self._broken[told.attempt] = self._broken.get(told.attempt, 0) + 1
            if self._broken[told.attempt] < _TRIES:
                raise
            raise PackageError(f"package {told.digest[:12]} could not be fetched: {error}") from error
        self._broken.pop(told.attempt, None)
        return pairs

    def release(self, attempt: str) -> None:
        """Nothing of an attempt is left here."""
        self._broken.pop(attempt, None)
        self._cache.release(attempt)

    async def tidy(self) -> None:
        """Remove what nobody used for long, if there is much."""
        await asyncio.to_thread(self._cache.forget)

    async def _fetch(self, digest: str) -> AsyncIterator[bytes]:
        session = self._session()
        if not session:
            raise NotNowError("there is no line to the head")
        try:
            lines, writer = await dial(self._join)
        except JoinError as error:
            raise NotNowError(str(error)) from error
        try:
            writer.write(wire.encode_message(PackageHello(session, digest)))
            async with asyncio.timeout(_QUIET_S):
                left = _size(TO_NODE.decode(await lines.next()))
            piece = lines.rest()
            while True:
                left -= len(piece)
                yield piece
                if left <= 0:
                    return
                async with asyncio.timeout(_QUIET_S):
                    piece = await lines.stream.read(BUFFER_BYTES)
                if not piece:
                    raise ConnectionError("the line ended in the middle")
        except (OSError, ValueError) as error:
            raise NotNowError(str(error) or f"nothing came for {_QUIET_S:g} s") from error
        finally:
            writer.close()


def _size(answer: object) -> int:
    if isinstance(answer, Refused) and answer.why == "missing":
        raise PackageError(answer.cause)
    if not isinstance(answer, Opened):
        raise NotNowError(answer.cause if isinstance(answer, Refused) else "the hub did not understand")
    return answer.size
