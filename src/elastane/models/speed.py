"""Defines the speed model that elastic policies read: a job's work per second for any allocation."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from elastane.cluster import Batch
from elastane.models.estimate import Provenance

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class SpeedModel(Protocol):
    """Useful work per second as a function of the allocation; an estimate, or the truth for an oracle.

    Where a job adapts its batch this is goodput, with the best batch for each allocation; otherwise throughput.
    Work is counted in samples at the efficiency of the owner's own batch size.
    """

    @property
    def source(self) -> Provenance:
        """How the speed came to be known."""
        ...

    @property
    def max_profiled(self) -> int:
        """The largest number of workers this job was ever observed with (0: never)."""
        ...

    @property
    def max_useful(self) -> int:
        """The largest number of workers that can be given any work at all."""
        ...

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:
        """Work per second for each (nodes, workers) pair; 0 where the allocation is not feasible."""
        ...

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:
        """The batch that reaches that rate; None when the allocation is not feasible."""
        ...


@runtime_checkable
class ServerSpeedModel(SpeedModel, Protocol):
    """The speed of a job that trains with parameter servers, where their number matters as much as the workers'.

    Its ``rates``, for policies that do not know of servers, suppose one server per worker as far as allowed.
    """

    def server_rates(self, nodes: IntArray, servers: IntArray, workers: IntArray) -> FloatArray:
        """Work per second for each triple, tasks spread evenly over the nodes; 0 where it is not known."""
        ...
