"""Attaching ground truth to a trace: from rows to jobs that can be simulated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np

from elastane.cluster import Cluster
from elastane.errors import ElastaneError
from elastane.jobs.kinds import Kind
from elastane.models.catalog import catalog, catalog_app
from elastane.models.goodput import BatchLimits
from elastane.models.online import first_batch
from elastane.policies.view import Request
from elastane.sim.declarations import Declaration, as_declared, misjudged
from elastane.sim.server_binding import bind_servers
from elastane.sim.table_binding import bind_table
from elastane.sim.truth.alone import alone_s, packed_grant
from elastane.sim.truth.catalog_job import CatalogJob
from elastane.sim.truth.measured import MeasuredApp
from elastane.sim.truth.measured_job import MeasuredJob
from elastane.sim.truth.typed_job import TypedMeasuredJob
from elastane.sim.typed_binding import (
    OWN_RESTARTS,
    PROFILE_S,
    only_types,
    own_restart_s,
    profile_of,
    typed_profiles,
)
from elastane.sim.workloads.optimus_like import is_server_app
from elastane.sim.workloads.trace import Omission, Trace, TraceJob
from elastane.simcore.job_run import Arrival
from elastane.suggest import did_you_mean


@dataclass(frozen=True)
class Binding:
    """The settings by which rows of a trace become jobs.

    ``rigid`` and ``fixed_batch`` are the fractions of jobs that cannot change their size, or their batch.
    ``recorded`` and ``pinned`` reproduce published simulators: gradient noise as recorded, and applications that
    are held at one GPU and one batch.  ``declare`` is what owners say about the length of their jobs: epochs, loss
    (a stop rule) or nothing; ``declare_error`` is how wrong they may be about epochs.  ``profiles`` is a directory of
    measurements, or the file of a throughput table for traces that count steps; ``whole_steps_s`` is the round of a
    simulator that does only whole steps in it.
    """

    profiles: Path | None = None
    rigid: float = 0.0
    fixed_batch: float = 0.0
    recorded: bool = False
    pinned: Mapping[str, int] | None = None
    skip_bad: bool = False
    declare: str = Declaration.EPOCHS.value
    declare_error: float = 0.0
    own_restarts: bool = False
    """Whether restarts take what the catalog says of the application, in place of the same time for all."""
    whole_steps_s: float | None = None

    @property
    def table(self) -> Path | None:
        """The file of the throughput table, if that is the truth."""
        return self.profiles if self.profiles is not None and self.profiles.is_file() else None


def bind(trace: Trace, cluster: Cluster, binding: Binding, seed: int) -> tuple[list[Arrival], list[str]]:
    """Arrivals, and notes about what was left out and what owners declared."""
    declaration = Declaration.parse(binding.declare)
    rng = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    draws = rng.random((len(trace.jobs), 3))
    arrivals: list[Arrival] = []
    too_wide, refused = 0, []
    widest = max(
        (sum(n.gpus for n in cluster.nodes.values() if n.gpu_type == kind) for kind in cluster.gpu_types),
        default=0,
    )
    for row, draw in zip(trace.jobs, draws, strict=True):
        if row.gpus > widest:
            if not binding.skip_bad:
                raise ElastaneError(
                    f"{trace.source}: {row.label} asks for {row.gpus} GPUs, the cluster has {widest} of one kind; "
                    "use a larger cluster, or --skip-bad to leave such jobs out"
                )
            too_wide += 1
            continue
        try:
            arrivals.append(_declared(_arrival(row, cluster, binding, draw.tolist()), binding, declaration))
        except ElastaneError as error:
            if not binding.skip_bad:
                raise ElastaneError(f"{trace.source}: {error}") from None
            refused.append(str(error))
    if not arrivals:
        why = refused[0] if refused else "no job of this workload can run on this cluster"
        raise ElastaneError(f"{trace.source}: {why}")
    notes: list[str] = []
    if too_wide:
        notes.append(Omission(f"jobs wider than the cluster that were left out: {too_wide}"))
    if refused:
        notes.append(
            Omission(f"jobs that cannot be simulated and were left out: {len(refused)} (first: {refused[0]})")
        )
    if binding.own_restarts:
        notes.append(OWN_RESTARTS)
    return arrivals, [*notes, declaration.note(binding.declare_error)]


def _declared(arrival: Arrival, binding: Binding, declaration: Declaration) -> Arrival:
    return as_declared(misjudged(arrival, binding.declare_error), declaration)


def _kind(row: TraceJob, binding: Binding, draw: list[float]) -> Kind:
    """What the trace says, or what a draw says where it says nothing."""
    if row.kind is not None:
        return row.kind
    if draw[1] < binding.rigid:
        return Kind.RIGID
    return Kind.RESIZABLE if draw[2] < binding.fixed_batch else Kind.ADAPTIVE


def _arrival(row: TraceJob, cluster: Cluster, binding: Binding, draw: list[float]) -> Arrival:
    if is_server_app(row.app):
        kind = _kind(row, binding, draw)
        return bind_servers(row, cluster, Kind.RESIZABLE if kind is Kind.ADAPTIVE else kind)
    if row.steps is not None or binding.table is not None:
        return bind_table(row, cluster, binding.table, binding.whole_steps_s)
    app = row.app or app_by_gpu_hours(row.gpus * (row.duration_s or 0.0) / 3600.0, draw[0])
    limits = _limits(app, cluster, binding)
    limits = replace(limits, per_gpu_min=max(1, min(limits.per_gpu_min, limits.maximum // row.gpus)))
    typed = typed_profiles(app, binding.profiles, cluster)
    least = typed.width if typed else 1
    pinned = (binding.pinned or {}).get(app)
    if pinned is not None:
        limits = replace(limits, fixed=pinned)
    batch = row.batch or min(limits.initial * row.gpus, limits.maximum)
    batch = _checked_batch(row, batch, limits)
    behaviour = (
        TypedMeasuredJob.of(typed, limits, binding.recorded) if typed else _behaviour(app, limits, binding)
    )
    if row.duration_s is not None:
        behaviour = _scaled(behaviour, row, batch, cluster)
    most = 1 if pinned is not None else min(limits.max_workers, cluster.total_gpus)
    return Arrival(
        id=row.id,
        submit_s=row.submit_s,
        behaviour=behaviour,
        request=Request(max(row.gpus, least), least, max(most, least), types=only_types(typed, cluster)),
        kind=_kind(row, binding, draw),
        batch=batch,
        tenant=row.tenant,
        klass=row.klass,
        weight=row.weight,
        priority=row.priority,
        deadline_s=row.deadline_s,
        declared_work=behaviour.total_work,
        declared_s=row.duration_s or _whole_s(behaviour, row.gpus, batch, cluster),
        skew=row.skew,
        data_zone=row.data_zone,
        data_gb=row.data_gb,
        restart_s=own_restart_s(app) if binding.own_restarts else None,
        profile=(profile := profile_of(behaviour)),
        profile_s=PROFILE_S if profile else 0.0,
    )


def _checked_batch(row: TraceJob, batch: int, limits: BatchLimits) -> int:
    if not limits.initial <= batch <= limits.maximum:
        raise ElastaneError(
            f"{row.label}: batch {batch} is outside [{limits.initial}, {limits.maximum}], what was measured"
        )
    # A batch so small that some worker would go empty is raised to the least that keeps all busy.
    return max(batch, limits.per_gpu_min * row.gpus)


def app_by_gpu_hours(gpu_hours: float, coin: float) -> str:
    """Pollux's rule: small jobs are cifar10 or ncf, then deepspeech2 or bert, yolov3, imagenet."""
    if gpu_hours < 1.0:
        return "cifar10" if coin < 0.5 else "ncf"
    if gpu_hours < 10.0:
        return "deepspeech2" if coin < 0.5 else "bert"
    return "yolov3" if gpu_hours < 100.0 else "imagenet"


@cache
def measured_app(directory: Path) -> MeasuredApp:
    """Profiles of one application, read once; memory limits come from the catalog where it knows the name."""
    known = catalog().get(directory.name)
    per_gpu_max = known.per_gpu["t4"][1] if known else None
    return MeasuredApp(directory, per_gpu_max)


def _measured(app: str, profiles: Path) -> MeasuredApp:
    if not (profiles / app).is_dir():
        if not profiles.is_dir():
            raise ElastaneError(f"{profiles}: no such directory of profiles")
        known = sorted(path.name for path in profiles.iterdir() if path.is_dir())
        raise ElastaneError(f"{profiles} has no profiles of {app!r}{did_you_mean(app, known)}")
    return measured_app((profiles / app).resolve())


def _limits(app: str, cluster: Cluster, binding: Binding) -> BatchLimits:
    if binding.profiles is None:
        return catalog_app(app).limits(cluster.gpu_types)
    if (typed := typed_profiles(app, binding.profiles, cluster)) is not None:
        return typed.limits()
    source = _measured(app, binding.profiles)
    return BatchLimits(source.initial, source.maximum, source.per_gpu_min, source.per_gpu_max)


def _behaviour(app: str, limits: BatchLimits, binding: Binding) -> CatalogJob | MeasuredJob:
    if binding.profiles is None:
        return CatalogJob(catalog_app(app), limits)
    return MeasuredJob(_measured(app, binding.profiles), limits, binding.recorded)


def _scaled(
    behaviour: CatalogJob | MeasuredJob, row: TraceJob, batch: int, cluster: Cluster
) -> CatalogJob | MeasuredJob:
    """Work such that the job takes the trace's duration on the GPUs the trace gave it."""
    if isinstance(behaviour, MeasuredJob):
        return behaviour  # measured runs have the length they had
    assert row.duration_s is not None
    return replace(behaviour, scale=max(row.duration_s, 1.0) / _whole_s(behaviour, row.gpus, batch, cluster))


_ALONE: dict[tuple[object, ...], float] = {}
"""Run times already computed: traces have many jobs of few kinds."""


def _whole_s(job: CatalogJob | MeasuredJob, gpus: int, batch: int, cluster: Cluster) -> float:
    """The run time an owner who knows the job would declare: alone, on what was asked for."""
    grant = packed_grant(cluster, gpus)
    gpu_type = cluster.nodes[grant.slices[0].node].gpu_type
    recorded = job.recorded if isinstance(job, MeasuredJob) else None
    key = (id(job.source), recorded, job.limits, grant.shape, batch, gpu_type, job.total_work)
    if key not in _ALONE:
        split = first_batch(replace(job.limits, fixed=job.limits.fixed or batch), gpus)
        _ALONE[key] = alone_s(job, grant, gpu_type, lambda _done: split)
    return _ALONE[key]
