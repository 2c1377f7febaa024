"""Defines the result of one simulation: plain figures from which metrics and reports are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elastane.models.history.experience import Experience


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time during which a job's allocation and batch stayed the same.

    ``efficiency`` is the true statistical efficiency at its start (1 where the batch is the owner's own);
    ``restarting_s`` is the part of the stretch spent on restart rather than training.
    """

    start_s: float
    end_s: float
    gpus: int
    nodes: int
    batch: int
    efficiency: float
    restarting_s: float = 0.0


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The record of one job in one run.

    ``finish_s`` None: the run ended first.  ``isolated_s``: its time alone on an equal share of the cluster.
    """

    id: str
    app: str
    tenant: str
    submit_s: float
    start_s: float | None
    finish_s: float | None
    requested_gpus: int
    service_gpu_s: float
    restart_gpu_s: float
    restarts: int
    isolated_s: float
    stretches: tuple[Stretch, ...] = ()
    deadline_s: float | None = None
    experience: Experience | None = None
    """Its measurements, for the pool of past jobs."""

    @property
    def jct_s(self) -> float | None:
        """Job completion time in seconds, from submission to the end; None if it did not finish."""
        return None if self.finish_s is None else self.finish_s - self.submit_s


@dataclass(frozen=True)
class RunResult:
    """One policy on one workload with one seed."""

    policy: str
    title: str
    parameters: Mapping[str, object]
    oracle: bool
    workload: str
    physics: Mapping[str, object]
    seed: int
    total_gpus: int
    jobs: tuple[JobRecord, ...]
    decision_ms: tuple[float, ...]
    wall_s: float
    cpu_s: float
    notes: tuple[str, ...] = ()
