"""A behaviour says how a job really trains: the truth in a simulation, the best estimate in looking ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from elastane.cluster import Batch, Grant
from elastane.models.estimate import Estimate
from elastane.models.goodput import BatchLimits
from elastane.models.speed import SpeedModel


@dataclass(frozen=True, slots=True)
class Pace:
    """A rate of useful work that holds until the job has done ``until_work``, and what can be measured of it.

    ``gradient_s`` and ``step_s``: seconds per pass without and with synchronisation; ``noise`` is φ in samples.
    """

    rate: float
    until_work: float
    efficiency: float = 1.0
    gradient_s: float = 0.0
    step_s: float = 0.0
    noise: float | None = None


class Behaviour(Protocol):
    """The physics of one job: what a pace, an oracle and a loss curve are computed from."""

    @property
    def app(self) -> str:
        """The name of the application, as policies see it."""
        ...

    @property
    def limits(self) -> BatchLimits | None:
        """Batches it may use; None for jobs whose batch is not modelled."""
        ...

    @property
    def total_work(self) -> float:
        """Work from start to end."""
        ...

    def pace(self, grant: Grant, gpu_type: str, batch: Batch | None, done: float) -> Pace:
        """The rate with this grant and batch after ``done`` work."""
        ...

    def oracle(self, done: float, limits: BatchLimits | None) -> tuple[Estimate, SpeedModel]:
        """True remaining work and true speed, for policies that are labelled oracles."""
        ...

    def loss(self, done: float) -> float | None:
        """The training loss after ``done`` work; None when the job reports none."""
        ...
