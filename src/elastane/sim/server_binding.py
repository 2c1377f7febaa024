"""Attaches ground truth to rows of a trace that are jobs with parameter servers."""

from __future__ import annotations

from dataclasses import replace

from elastane.cluster import Cluster, Grant
from elastane.errors import ElastaneError
from elastane.jobs.kinds import Kind
from elastane.policies.view import Request
from elastane.resources import Resources
from elastane.sim.declarations import job_seed
from elastane.sim.truth.alone import alone_s, packed_grant, reference_type
from elastane.sim.truth.parameter_server import ServerJob, ServerKind
from elastane.sim.truth.server_kinds import KINDS, server_arrival
from elastane.sim.workloads.optimus_like import PREFIX
from elastane.sim.workloads.trace import TraceJob
from elastane.simcore.job_run import Arrival
from elastane.suggest import did_you_mean

_MOST_TASKS = 16
_LOSS_NOISE = 0.002
_WORKER = Resources(gpus=1.0)
_SERVER = Resources(cpus=1.0)
"""What one parameter server takes: a CPU.  Where CPUs are not accounted it takes nothing from other jobs."""


def bind_servers(row: TraceJob, cluster: Cluster, kind: Kind) -> Arrival:
    """Makes a row a job that ends by its stop rule, whose owner nevertheless knows when that will be.

    Policies without a notion of servers give it ``row.gpus`` workers with a server each, as the paper's own
    baselines do.
    """
    if row.batch is not None or row.duration_s is not None:
        raise ElastaneError(f"{row.label}: jobs with parameter servers have their own batch and length")
    job = ServerJob(_kind(row), loss_noise=_LOSS_NOISE, seed=job_seed(row.id, row.submit_s))
    nodes = [node for node in cluster.nodes.values() if node.gpu_type == reference_type(cluster)]
    most = min(max(_MOST_TASKS, row.gpus), sum(node.gpus for node in nodes))
    request = Request(
        workers=row.gpus, max_workers=max(most, 1), worker=_WORKER, server=_SERVER, max_servers=max(most, 1)
    )
    roomiest = max(nodes, key=lambda node: node.gpus)
    arrival = server_arrival(row.id, row.submit_s, job, request, roomiest.capacity, len(nodes))
    return replace(
        arrival,
        kind=kind,
        tenant=row.tenant,
        klass=row.klass,
        weight=row.weight,
        priority=row.priority,
        deadline_s=row.deadline_s,
        declared_work=job.total_work,
        declared_s=_whole_s(job, row.gpus, cluster),
        skew=row.skew,
        data_zone=row.data_zone,
        data_gb=row.data_gb,
    )


def _kind(row: TraceJob) -> ServerKind:
    name = (row.app or "").removeprefix(PREFIX)
    if name not in KINDS:
        known = ", ".join(PREFIX + kind for kind in KINDS)
        raise ElastaneError(
            f"{row.label}: no parameter-server job {row.app!r}{did_you_mean(name, KINDS)} (known: {known})"
        )
    return KINDS[name]


def _whole_s(job: ServerJob, workers: int, cluster: Cluster) -> float:
    """Returns the run time in seconds alone on what was asked for, with a server beside every worker."""
    packed = packed_grant(cluster, workers)
    tasks = [(part.node, part.workers) for part in packed.slices]
    return alone_s(job, Grant.of(tasks, tasks), reference_type(cluster), lambda _done: None)
