"""Keeps the store in order between rounds: expired tokens, packages, the copy of the store, old entries."""

from __future__ import annotations

import asyncio
import logging

from elastane.errors import ElastaneError
from elastane.service.control.ledger import Clock
from elastane.service.packages import Packages
from elastane.service.store import Store

log = logging.getLogger("elastane")

_CLOSE_EVERY_S = 10.0
"""How often it is looked for tokens that have expired."""
_KEEP_EVENTS, _KEEP_DECISIONS = 200_000, 5_000


class Housekeeping:
    """What is done for the store once in a while."""

    def __init__(self, store: Store, clock: Clock, packages: Packages) -> None:
        self._store, self._clock, self._packages = store, clock, packages
        self._closed_s = 0.0

    async def keep(self) -> None:
        """Close expired tokens and, when one is due, make a copy of the store and prune old entries."""
        self._close_expired(self._clock())
        await self._packages.tidy()
        if not self._store.backup_due():
            return
        try:
            await asyncio.to_thread(self._store.backup)
        except ElastaneError as error:  # a full disk, say: what is stored is still good
            log.warning("the copy of the store could not be made: %s", error)
        with self._store.transaction() as t:
            t.log.prune(_KEEP_EVENTS, _KEEP_DECISIONS)

    def _close_expired(self, now_s: float) -> None:
        """What has expired is closed for good, so that no clock that is set back opens it again."""
        if 0.0 <= now_s - self._closed_s < _CLOSE_EVERY_S:
            return
        self._closed_s = now_s
        if self._store.accounts.expired_tokens(now_s):
            with self._store.transaction() as t:
                t.accounts.close_expired_tokens(now_s)
