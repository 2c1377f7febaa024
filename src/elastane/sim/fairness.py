"""Computes the time a job would have taken alone on an equal share of the cluster, for finish-time fairness.

ρ = JCT ÷ that time.  The equal share is the cluster divided by the number of jobs active on average during the job's
life; the job is alone on it, packed, with the best batch at every moment and no restarts.  It is the same yardstick
for every policy, computed from the truth.  The one start that a job has alone as well is added by the caller.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

from elastane.cluster import Batch, Cluster, Grant
from elastane.models.speed import FloatArray
from elastane.sim.truth.alone import alone_s, packed_grant
from elastane.simcore.job_run import JobRun


class Contention:
    """The number of unfinished jobs over time, and its average over any interval."""

    def __init__(self, intervals: Iterable[tuple[float, float]]) -> None:
        changes: dict[float, int] = {}
        for start, end in intervals:
            changes[start] = changes.get(start, 0) + 1
            changes[end] = changes.get(end, 0) - 1
        self._times = sorted(changes)
        counts = np.cumsum([changes[t] for t in self._times])
        gaps = np.diff(np.array(self._times)) if len(self._times) > 1 else np.zeros(0)
        self._integral: FloatArray = np.concatenate([[0.0], np.cumsum(counts[:-1] * gaps)])
        self._counts = counts

    def _until(self, when: float) -> float:
        i = bisect_right(self._times, when) - 1
        if i < 0:
            return 0.0
        return float(self._integral[i] + self._counts[i] * (when - self._times[i]))

    def average(self, start: float, end: float) -> float:
        """Returns the mean number of active jobs in the interval."""
        return (self._until(end) - self._until(start)) / (end - start) if end > start else 1.0


class Isolation:
    """Computes times alone on a share, cached per kind of job and share."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._seconds: dict[tuple[object, ...], float] = {}

    def alone_s(self, run: JobRun, contention: float) -> float:
        """Returns the seconds this job would need alone on an equal share, its start not counted."""
        share = max(1, round(self.cluster.total_gpus / max(contention, 1.0)))
        behaviour = run.arrival.behaviour
        if behaviour.limits is None:
            workers = min(share, run.arrival.request.max_workers, self.cluster.total_gpus)
            workers = max(workers, run.arrival.request.min_workers)
        else:
            workers = min(share, behaviour.limits.max_workers)
        scale = getattr(behaviour, "scale", 1.0)
        identity = id(behaviour) if behaviour.limits is None else 0
        key = (behaviour.app, behaviour.limits, workers, behaviour.total_work / scale, identity)
        if key not in self._seconds:
            self._seconds[key] = self._simulate(run, workers) / scale
        return self._seconds[key] * scale

    def _simulate(self, run: JobRun, workers: int) -> float:
        behaviour = run.arrival.behaviour
        grant = packed_grant(self.cluster, workers)
        workers = grant.workers  # never more than there are of one kind
        gpu_type = self.cluster.nodes[grant.slices[0].node].gpu_type
        if run.arrival.request.max_servers:
            tasks = [(part.node, part.workers) for part in grant.slices]
            grant = Grant.of(tasks, tasks)  # a server beside every worker

        def best(done: float) -> Batch | None:
            if behaviour.limits is None:
                return None
            _, speed = behaviour.oracle(done, behaviour.limits)
            return speed.best_batch(len(grant.slices), workers, gpu_type)

        return alone_s(behaviour, grant, gpu_type, best)
