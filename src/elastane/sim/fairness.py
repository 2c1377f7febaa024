"""Finish-time fairness: how long a job would have taken alone on an equal share of the cluster.

ρ = JCT ÷ that time.  The equal share is the cluster divided by the number of jobs active on average during the job's
life; the job is alone on it, packed, with the best batch at every moment and no restarts.  The same yardstick
for every policy, computed from the truth.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

from elastane.cluster import Cluster, Grant
from elastane.lookahead.job import JobRun
from elastane.models.speed import FloatArray


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
        """Mean number of active jobs in the interval."""
        return (self._until(end) - self._until(start)) / (end - start) if end > start else 1.0


class Isolation:
    """Times alone on a share, remembered per kind of job and share."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._nodes = [node for node in cluster.nodes.values() if node.gpus]
        self._seconds: dict[tuple[object, ...], float] = {}

    def alone_s(self, run: JobRun, contention: float) -> float:
        """Seconds this job would need alone on an equal share."""
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

    def _packed(self, workers: int) -> Grant:
        counts, left = [], workers
        for node in self._nodes:
            counts.append((node.id, min(node.gpus, left)))
            left -= node.gpus
            if left <= 0:
                break
        return Grant.of(counts)

    def _simulate(self, run: JobRun, workers: int) -> float:
        behaviour = run.arrival.behaviour
        grant = self._packed(workers)
        gpu_type = self.cluster.nodes[grant.slices[0].node].gpu_type
        if run.arrival.request.max_servers:
            grant = Grant.of([(grant.slices[0].node, workers)], [(grant.slices[0].node, max(1, workers // 2))])
        done, seconds = 0.0, 0.0
        while done < behaviour.total_work * (1.0 - 1e-12):
            batch = None
            if behaviour.limits is not None:
                _, speed = behaviour.oracle(done, behaviour.limits)
                batch = speed.best_batch(len(grant.slices), workers, gpu_type)
            pace = behaviour.pace(grant, gpu_type, batch, done)
            if pace.rate <= 0.0:
                return float("inf")
            seconds += (pace.until_work - done) / pace.rate
            done = pace.until_work
        return seconds
