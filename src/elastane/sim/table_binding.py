"""Attaching ground truth to rows of a trace that count steps: jobs whose speed is in a table of throughputs."""

from __future__ import annotations

from pathlib import Path

from elastane.cluster import Cluster
from elastane.errors import ElastaneError
from elastane.jobs.kinds import Kind
from elastane.policies.view import Request
from elastane.sim.truth.throughput_table import TableJob, throughput_table
from elastane.sim.workloads.trace import TraceJob
from elastane.simcore.job_run import Arrival


def bind_table(row: TraceJob, cluster: Cluster, path: Path | None, whole_steps_s: float | None) -> Arrival:
    """The row as a rigid job whose owner knows its steps.

    ``whole_steps_s`` is the length of a round in the published simulator, whose jobs know no placement either.
    The run time declared, of which a service level objective is a multiple, is that on the fastest type there is.
    """
    if path is None or path.is_dir():
        raise ElastaneError(f"{row.label}: the trace counts steps; --profiles must name a table of throughputs")
    if row.job_type is None or row.steps is None:
        raise ElastaneError(f"{row.label}: a table of throughputs needs a trace with job types and steps")
    table = throughput_table(path.resolve())
    table.check(row.job_type, row.gpus)
    job = TableJob(table, row.job_type, row.gpus, row.steps, whole_steps_s is None, whole_steps_s)
    rates = {kind: job.rate(row.gpus, kind) for kind in cluster.gpu_types}
    usable = tuple(kind for kind, rate in rates.items() if rate > 0.0)
    if not usable:
        known = ", ".join(cluster.gpu_types)
        raise ElastaneError(f"{row.label}: {table.source} has no throughput of {row.job_type!r} on {known}")
    whole_s = row.steps / max(rates.values())
    # Where it has no throughput it does not fit into memory: its owner knows, and so may every policy.
    types = () if len(usable) == len(rates) else usable
    request = Request(workers=row.gpus, min_workers=row.gpus, max_workers=row.gpus, types=types)
    return Arrival(
        id=row.id,
        submit_s=row.submit_s,
        behaviour=job,
        request=request,
        kind=row.kind or Kind.RIGID,
        tenant=row.tenant,
        klass=row.klass,
        weight=row.weight,
        priority=row.priority,
        deadline_s=row.submit_s + row.slo * whole_s if row.slo else row.deadline_s,
        declared_work=job.total_work,
        declared_s=whole_s,
        data_zone=row.data_zone,
        data_gb=row.data_gb,
    )
