"""A ``NamedStore`` is what a communicator takes for c10d's store: the members' own exchange, without a server.

Gloo's keys end in a rank, a communicator's do not: the first member puts the communicator's identity under one
name, and the others wait for it.  Whoever makes a store keeps it: c10d holds only its C++ half.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Protocol

from torch._C._distributed_c10d import Store


class NamedExchange(Protocol):
    """How members of one generation tell each other short values."""

    def put(self, name: str, data: bytes) -> None:
        """Publishes a value under a name, for all members of a generation."""
        ...

    def get(self, name: str, timeout_s: float) -> bytes:
        """Wait for one; raises MembershipChanged when it will not come."""
        ...


class NamedStore(Store):
    """Values by name; each is put once."""

    def __init__(self, exchange: NamedExchange, timeout_s: float) -> None:
        super().__init__()
        self._exchange = exchange
        self._timeout_s = timeout_s
        self._known: dict[str, bytes] = {}

    def set(self, key: str, value: Any) -> None:
        """Publishes a value under its key."""
        self._known[key] = bytes(value)
        self._exchange.put(key, bytes(value))

    def get(self, key: str) -> bytes:
        """Wait for a value."""
        if key not in self._known:
            self._known[key] = self._exchange.get(key, self._timeout_s)
        return self._known[key]

    def wait(self, keys: list[str], _timeout: timedelta | None = None) -> None:
        """Waits until several keys have values."""
        for key in keys:
            self.get(key)

    def has_extended_api(self) -> bool:
        """Returns False: c10d may ask for single values only."""
        return False
