"""The settings of the API; the defaults suit one machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from elastane.engines.nodes.package_store import LARGEST_ARCHIVE

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """Limits and names.  ``host`` is the address served on; ``names`` are others by which clients call it."""

    host: str = "127.0.0.1"
    names: tuple[str, ...] = ()
    rate_per_s: float = 20.0
    burst: int = 200
    anonymous_rate_per_s: float = 5.0
    anonymous_burst: int = 50
    buckets: int = 10_000
    """Most callers whose rate is remembered."""
    connections: int = 1000
    """Most that are open; half of the descriptors that the process may have, where that is less."""
    under_way_per_user: int = 100
    """Requests of one user that are being answered at the same time, those that follow something included."""
    head_bytes: int = 32_768
    """Largest head of a request: its first line and headers."""
    head_s: float = 10.0
    """Longest time a client may take to send a head."""
    body_bytes: int = 1_000_000
    body_s: float = 30.0
    """Longest time a client may take to send a body."""
    package_bytes: int = LARGEST_ARCHIVE
    """Longest package; while one comes, ``body_s`` is the longest silence."""
    chunk_bytes: int = 65_536
    heartbeat_s: float = 15.0
    recheck_s: float = 1.0
    """How soon a stream notices that its token was revoked."""
    poll_s: float = 0.1
    """How soon a followed log is looked at again; grows to ten times this while nothing is written."""
    unavailable: tuple[type[Exception], ...] = ()
    """Errors by which the service says that it is not in charge (any more): 503, try again."""
    clock: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time

    @property
    def hosts(self) -> frozenset[str]:
        """Names that a Host header may carry."""
        return LOOPBACK_NAMES | {self.host.lower()} | {name.lower() for name in self.names}
