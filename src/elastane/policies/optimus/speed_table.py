"""Speed as a function of what a job holds: along one axis for all-reduce, on a grid for parameter servers."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from elastane.models.speed import IntArray, ServerSpeedModel, SpeedModel
from elastane.policies.optimus.resource_pool import Amounts

_FIRST_BLOCK = 8


class SpeedSurface(Protocol):
    """Work per second with ``servers`` and ``workers``; 0 where the job could not run."""

    def rate(self, servers: int, workers: int) -> float:
        """Returns the training speed for one number of servers and workers."""
        ...

    def runs_later(self, servers: int, workers: int) -> bool:
        """Whether the job could run with more workers, where it cannot with these."""
        ...


class WorkerLine:
    """An all-reduce job on packed nodes: only its workers count."""

    def __init__(self, speed: SpeedModel, most: int, per_node: int) -> None:
        workers = np.arange(most + 1)
        self._rates: list[float] = speed.rates(-(-workers // per_node), workers).tolist()

    def rate(self, servers: int, workers: int) -> float:  # noqa: ARG002
        """Returns work per second; 0 beyond the most workers asked about."""
        return self._rates[workers] if workers < len(self._rates) else 0.0

    def runs_later(self, servers: int, workers: int) -> bool:  # noqa: ARG002
        """Tells whether more workers would run: a fixed batch may not fit into the memory of few workers."""
        return any(self._rates[workers + 1 :])


class ServerGrid:
    """A parameter-server job, spread evenly over the fewest equal nodes that hold it (Optimus's theorem).

    Computed in blocks that double, so that a job which stays small costs little.
    """

    def __init__(
        self, speed: ServerSpeedModel, most: tuple[int, int], tasks: tuple[Amounts, Amounts], node: Amounts
    ) -> None:
        self._speed, self._most, self._tasks, self._node = speed, most, tasks, node
        self._rates = np.zeros((0, 0))

    def rate(self, servers: int, workers: int) -> float:
        """Returns work per second with so many servers and workers."""
        rows, columns = self._rates.shape
        if servers >= rows or workers >= columns:
            self._grow(servers, workers)
        return float(self._rates[servers, workers])

    def runs_later(self, servers: int, workers: int) -> bool:  # noqa: ARG002
        """Returns False: any number of servers and workers runs; a rate of 0 only means that it is unknown."""
        return False

    def _grow(self, servers: int, workers: int) -> None:
        rows, columns = (
            max(wanted, min(most, max(2 * have, _FIRST_BLOCK))) + 1
            for wanted, most, have in zip((servers, workers), self._most, self._rates.shape, strict=True)
        )
        p, w = np.divmod(np.arange(rows * columns), columns)
        nodes = fewest_nodes(p, w, self._tasks, self._node)
        self._rates = self._speed.server_rates(nodes, p, w).reshape(rows, columns)


def fewest_nodes(
    servers: IntArray, workers: IntArray, tasks: tuple[Amounts, Amounts], node: Amounts
) -> IntArray:
    """The fewest equal empty nodes on which each (servers, workers) stands evenly.

    Never more nodes than workers, as in placement: a node with servers alone would send all its traffic away.
    """
    nodes = np.ones_like(workers)
    limit = np.maximum(workers, 1)
    while True:
        p, w = -(-servers // nodes), -(-workers // nodes)
        crowded = np.zeros(len(nodes), dtype=bool)
        for per_server, per_worker, room in zip(*tasks, node, strict=True):
            crowded |= p * per_server + w * per_worker > room + 1e-9
        crowded &= nodes < limit
        if not crowded.any():
            return nodes
        nodes[crowded] += 1
