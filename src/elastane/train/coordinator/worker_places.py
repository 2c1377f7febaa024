"""Worker places map each worker to its node, and name the workers that have to go when the places change.

A job is told how many workers it may have on each node; who comes and goes to make it so is decided here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

LOCAL = "local"


class Places:
    """Workers by node, wanted and assigned."""

    def __init__(self, wanted: Mapping[str, int]) -> None:
        self._wanted = {node: count for node, count in wanted.items() if count > 0}
        self._node_of: dict[str, str] = {}

    @property
    def wanted(self) -> Mapping[str, int]:
        """Workers by node, as they shall be."""
        return self._wanted

    @property
    def total(self) -> int:
        """Workers over all nodes."""
        return sum(self._wanted.values())

    def resize(self, workers: int) -> None:
        """As many in all as this, where nobody has said on which nodes: on the first."""
        first = next(iter(self._wanted), LOCAL)
        self._wanted = {first: workers}

    def node_of(self, worker: str) -> str:
        """Where a worker is, or was."""
        return self._node_of.get(worker, LOCAL)

    def remember(self, worker: str, node: str) -> None:
        """Somebody else has placed it."""
        self._node_of[worker] = node

    def assign(self, worker: str, staying: Iterable[str]) -> str:
        """A place for a new worker: the node that lacks most, given who stays."""
        held = Counter(self.node_of(name) for name in staying if name != worker and name in self._node_of)
        node = max(self._wanted, key=lambda n: self._wanted[n] - held[n], default=LOCAL)
        self._node_of[worker] = node
        return node

    def change(self, wanted: Mapping[str, int], staying: Iterable[str]) -> list[str]:
        """These places from now on; returns who has to go (those named last go first)."""
        self._wanted = {node: count for node, count in wanted.items() if count > 0}
        room = Counter(self._wanted)
        leaving = []
        for name in staying:
            node = self.node_of(name)
            if room[node] > 0:
                room[node] -= 1
            else:
                leaving.append(name)
        return leaving
