"""Jobs whose speed is a table of measured throughputs, in the format that Gavel published.

    {worker type: {"('job type', workers)": {"null": steps per second alone, "('other', workers)": co-located}}}

A worker type with the suffix ``_unconsolidated`` holds the throughputs of workers on several nodes.  Co-located
throughputs are not read: two jobs on one GPU are not simulated.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from elastane.cluster import Batch, Grant
from elastane.errors import ElastaneError
from elastane.models.estimate import Estimate, Provenance
from elastane.models.goodput import BatchLimits
from elastane.models.speed import FloatArray, IntArray
from elastane.sim.truth.true_speed import TrueSpeed
from elastane.simcore.behaviour import Pace
from elastane.suggest import did_you_mean
from elastane.textfiles import read_json

_ALONE = "null"
_APART = "_unconsolidated"
_KEY = re.compile(r"\('([^']{1,200})', ([0-9]{1,6})\)")
_FASTEST = 1e9


@dataclass(frozen=True)
class ThroughputTable:
    """Steps per second alone, by worker type, job type and number of workers."""

    source: str
    alone: Mapping[str, Mapping[tuple[str, int], float]]

    def rate(self, job_type: str, workers: int, gpu_type: str, nodes: int = 1) -> float:
        """Steps per second; 0 where it was not measured, so where the job cannot run."""
        key = (job_type, workers)
        if nodes > 1 and (apart := self.alone.get(gpu_type + _APART, {}).get(key)) is not None:
            return apart
        return self.alone.get(gpu_type, {}).get(key, 0.0)

    def check(self, job_type: str, workers: int) -> None:
        """Complain about a job that no worker type can run."""
        names = {name for rates in self.alone.values() for name, _ in rates}
        if job_type not in names:
            raise ElastaneError(
                f"{self.source} has no throughput of {job_type!r:.200}{did_you_mean(job_type, names)}"
            )
        if not any(rates.get((job_type, workers), 0.0) > 0.0 for rates in self.alone.values()):
            raise ElastaneError(f"{self.source} has no throughput of {job_type!r} on {workers} workers")


@cache
def throughput_table(path: Path) -> ThroughputTable:
    """The table in a JSON file, which may be packed with gzip."""
    content = read_json(path)
    if not isinstance(content, dict) or not content:
        raise ElastaneError(f"{path} is no table of throughputs: an object by worker type is expected")
    return ThroughputTable(
        path.name, {str(kind): _rates(path, str(kind), rows) for kind, rows in content.items()}
    )


def _rates(path: Path, kind: str, rows: Any) -> dict[tuple[str, int], float]:
    if not isinstance(rows, dict):
        raise ElastaneError(f"{path}, {kind!r:.80}: an object by job type is expected")
    found = {}
    for written, values in rows.items():
        match = _KEY.fullmatch(written)
        if match is None:
            raise ElastaneError(
                f"{path}, {kind!r:.80}: {written!r:.200} is not of the form ('job type', workers)"
            )
        rate = values.get(_ALONE) if isinstance(values, dict) else None
        if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0.0 <= rate <= _FASTEST:
            raise ElastaneError(
                f"{path}, {kind!r:.80}, {written!r:.200}: {_ALONE!r} is no throughput in steps per second: {rate!r:.80}"
            )
        found[match[1], int(match[2])] = float(rate)
    return found


@dataclass(frozen=True)
class TableJob:
    """A job of so many steps on exactly ``workers`` workers; one unit of work is one step.

    The published simulator knows no placement (``placed`` false) and lets only whole steps be done in a round of
    ``whole_steps_s`` seconds: what is left of each round is lost.
    """

    table: ThroughputTable
    job_type: str
    workers: int
    steps: float
    placed: bool = True
    whole_steps_s: float | None = None

    @property
    def app(self) -> str:
        """The job type as the table names it."""
        return self.job_type

    @property
    def limits(self) -> BatchLimits | None:
        """Returns None: the batch is part of the job type."""
        return None

    @property
    def total_work(self) -> float:
        """Returns the work to do: all steps of the trace."""
        return self.steps

    def rate(self, workers: int, gpu_type: str, nodes: int = 1) -> float:
        """Steps per second as the table has it; 0 for another number of workers."""
        if workers != self.workers:
            return 0.0
        return self.table.rate(self.job_type, workers, gpu_type, nodes if self.placed else 1)

    def pace(self, grant: Grant, gpu_type: str, batch: Batch | None, done: float) -> Pace:  # noqa: ARG002
        """One rate from the beginning to the end."""
        rate = self.rate(grant.workers, gpu_type, len(grant.slices))
        if self.whole_steps_s is not None:
            rate = math.floor(rate * self.whole_steps_s) / self.whole_steps_s
        step_s = 1.0 / rate if rate else 0.0
        return Pace(rate, self.total_work, gradient_s=step_s, step_s=step_s)

    def oracle(self, done: float, limits: BatchLimits | None) -> tuple[Estimate, TableSpeed]:  # noqa: ARG002
        """What is really left, and the table."""
        return Estimate(max(self.steps - done, 0.0), source=Provenance.ORACLE), TableSpeed(self)

    def loss(self, done: float) -> float | None:  # noqa: ARG002
        """Returns None: the table knows no losses."""
        return None


@dataclass(frozen=True)
class TableSpeed(TrueSpeed):
    """The speed of a job in the table."""

    job: TableJob

    @property
    def max_useful(self) -> int:
        """It can use only what it asked for."""
        return self.job.workers

    def rates(self, nodes: IntArray, workers: IntArray, gpu_type: str = "") -> FloatArray:
        """Steps per second for each allocation."""
        pairs = zip(np.ravel(nodes).tolist(), np.ravel(workers).tolist(), strict=True)
        return np.array([self.job.rate(count, gpu_type, spread) for spread, count in pairs], dtype=np.float64)

    def best_batch(self, nodes: int, workers: int, gpu_type: str = "") -> Batch | None:  # noqa: ARG002
        """There is none to choose."""
        return None
