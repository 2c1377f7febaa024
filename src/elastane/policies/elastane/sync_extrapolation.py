"""Limits the extrapolation of the synchronisation time beyond the GPUs that a job was ever seen with.

A job that has run on two nodes with six and then eight GPUs has a fitted T_sync = α + β·(K − 2) of which only the value
at eight is certain.  Extrapolated to 64, a slope from two points may make it ten times as long, and the job seems to
gain nothing from more GPUs.  Rings and trees do not behave like that: beyond what was seen, doubling the GPUs is
assumed to add a quarter to the time at most.
"""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from elastane.models.goodput import GoodputModel
from elastane.models.speed import SpeedModel
from elastane.models.throughput import ThroughputParams
from elastane.policies.view import JobView, View

_SLOPE = 0.25
"""K_seen·β ÷ T_sync(K_seen), at most."""

_CACHE: WeakKeyDictionary[GoodputModel, GoodputModel | None] = WeakKeyDictionary()
"""Models are immutable, so corrected ones are kept as long as they live; None: no correction."""


def calmer(view: View) -> View:
    """Returns the view with the synchronisation slope of every fitted model limited."""
    per_node = max((node.gpus for node in view.usable.values()), default=1)
    return replace(view, jobs={name: _calmer_job(job, per_node) for name, job in view.jobs.items()})


def _calmer_job(job: JobView, per_node: int) -> JobView:
    speed = job.speed
    believed = _calmer_model(speed, per_node)
    return job if believed is speed else replace(job, facts=replace(job.facts, speed=believed))


def _calmer_model(speed: SpeedModel | None, per_node: int) -> SpeedModel | None:
    """Limits the slopes of one model; one that was never seen on several nodes stays as it is."""
    if not isinstance(speed, GoodputModel) or speed.max_profiled <= per_node:
        return speed
    if speed in _CACHE:
        known = _CACHE[speed]
    else:
        seen = {kind: speed.seen_on(kind) for kind in speed.params}
        params = {
            kind: gentler(theta, seen[kind]) if seen[kind] > per_node else theta
            for kind, theta in speed.params.items()
        }
        known = _CACHE[speed] = None if params == speed.params else replace(speed, params=params)
    return known or speed


def gentler(theta: ThroughputParams[float], seen: int) -> ThroughputParams[float]:
    """Returns θ with the same T_sync on several nodes at ``seen`` GPUs, and a limited slope beyond."""
    sync_s = theta.alpha_n + theta.beta_n * (seen - 2)
    slope = min(theta.beta_n, _SLOPE * sync_s / seen)
    return theta if slope == theta.beta_n else theta._replace(alpha_n=sync_s - slope * (seen - 2), beta_n=slope)
