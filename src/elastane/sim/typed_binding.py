"""Attaching measured profiles per accelerator type to jobs of a trace."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from elastane.cluster import Cluster
from elastane.models.catalog import catalog
from elastane.sim.truth.measured_types import MeasuredTypes, is_typed, measured_types
from elastane.sim.truth.typed_job import TypedMeasuredJob
from elastane.simcore.job_run import Profiled

PROFILE_S = 20.0
"""Seconds in which short runs on one GPU of each type are made, all types at the same time (Sia, SOSP'23, §3.2)."""
OWN_RESTARTS = "restarts take what was published of each application; --restart holds for others only"
"""A note on every run with such restarts."""
_BATCHES = 10
_read = cache(measured_types)
"""Profiles per type, read once."""


def typed_profiles(app: str, profiles: Path | None, cluster: Cluster) -> MeasuredTypes | None:
    """Returns the profiles on the types of the cluster; None where the directory does not tell types apart."""
    if profiles is None or not is_typed(profiles / app):
        return None
    return _read((profiles / app).resolve(), cluster.gpu_types)


def only_types(typed: MeasuredTypes | None, cluster: Cluster) -> tuple[str, ...]:
    """Returns the types that a job has to be restricted to: those it was measured on, or () if that is all."""
    return typed.types if typed and set(typed.types) != set(cluster.gpu_types) else ()


def profile_of(job: object) -> tuple[Profiled, ...]:
    """Returns what short runs of the job would measure; nothing where its speed per type was not measured."""
    return _profile(job) if isinstance(job, TypedMeasuredJob) else ()


@cache
def _profile(job: TypedMeasuredJob) -> tuple[Profiled, ...]:
    return job.profile(_BATCHES)


def own_restart_s(app: str) -> float | None:
    """Returns what a restart of the application takes as Sia measured it; None where it did not."""
    known = catalog().get(app)
    return known.restart_s if known else None
