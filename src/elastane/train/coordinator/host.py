"""A host owns a coordination server and gives it what it needs: orders for new workers, their nodes, and an ear."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any, Protocol

from elastane.train.coordinator.script_runner import Order
from elastane.train.reports.events import Event


class Host(Protocol):
    """Owns one job; the ``Supervisor``, except in tests."""

    def event(self, values: Mapping[str, Any]) -> None:
        """Take an event for the reports, as JSON values; a worker may have made it up."""
        ...

    def happened(self, event: Event) -> None:
        """Take an event of our own for the reports; its time is now."""
        ...

    def order(self, worker: str) -> Order | None:
        """What a new worker is to run, and with what environment; None while that cannot be said yet."""
        ...

    def choose_node(self, worker: str) -> str:
        """Choose a node for a new worker."""
        ...

    def node_of(self, worker: str) -> str:
        """Where a worker is."""
        ...

    def place(self, places: Mapping[str, int]) -> None:
        """Have so many workers on these nodes from now on."""
        ...

    def silent(self, node: str) -> None:
        """Hear that the fork server of a node was given up because it fell silent."""
        ...

    def log_comes(self, worker: str) -> Awaitable[object] | None:
        """What to wait for, if anything, before the log of a worker that has ended is read; it does not take long."""
        ...

    def last_words(self, worker: str) -> str:
        """Find out what a worker that ended badly would have said, where workers cannot say it."""
        ...
