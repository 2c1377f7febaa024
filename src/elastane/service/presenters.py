"""Rows and live jobs as the messages that people and programs get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from elastane.cluster import Node
from elastane.engines.contract import Pool, WorkerFacts, places_of
from elastane.jobs.kinds import ONE_SIZE
from elastane.jobs.states import State
from elastane.service.control.active_job import LiveJob, slots_of
from elastane.service.control.cluster_state import ClusterState
from elastane.service.control.core_sharing import CPU, cores_of, memory_of
from elastane.service.control.job_measurements import JobMeasurements
from elastane.service.eta import curve_of, end_of
from elastane.service.messages import (
    Eta,
    EventRecord,
    ExitInfo,
    JobDetail,
    JobSummary,
    NodeInfo,
    PoolInfo,
    Step,
    WorkerInfo,
)
from elastane.service.run_kinds import kind_of
from elastane.service.scaling import Bounds
from elastane.service.store.rows import JobRow
from elastane.train.reports.wording import warming

_RUNNING = (State.RUNNING, State.RESIZING)
_LONGEST_NAME = 40


def summary(
    row: JobRow, learned: JobMeasurements, now_s: float, waiting: str = "", foreseen: Eta | None = None
) -> JobSummary:
    """A line of the queue; ``foreseen`` is the end of a job that does not train yet."""
    workers = row.spec.get("workers") or {}
    training = learned.training
    running = row.state in _RUNNING
    kind = kind_of(row)
    return JobSummary(
        id=row.id,
        name=row.name,
        tenant=row.tenant,
        owner=row.owner,
        state=row.state.value,
        kind=kind.value,
        klass=str(row.spec.get("class", "normal")),
        priority=int(row.spec.get("priority", 0)),
        workers=row.grant.workers if row.grant is not None else 0,
        min_workers=int(workers.get("min", 1)),
        max_workers=workers.get("max") if kind not in ONE_SIZE else int(workers.get("min", 1)),
        nodes=places_of(row.grant),
        submitted_s=row.submitted_s,
        started_s=row.first_start_s,
        ended_s=row.ended_s,
        attempt=row.attempt,
        progress=1.0 if row.state is State.SUCCEEDED else learned.fraction,
        batch=(training.batch or None) if training is not None else None,
        goodput=training.goodput if training is not None and running and training.batch else None,
        eta=None if row.terminal else end_of(learned, now_s, True) if running else foreseen,
        reason=row.reason or waiting or _warming(row, learned, now_s),
        held=row.held,
        pinned=row.pinned_workers,
    )


def _warming(row: JobRow, learned: JobMeasurements, now_s: float) -> str:
    """Why a job that has its place shows no step yet."""
    if learned.warming is None or row.state not in (State.STARTING, *_RUNNING):
        return ""
    worker, since_s = learned.warming
    return warming(worker[:_LONGEST_NAME], max(0.0, now_s - since_s))


def detail(
    row: JobRow,
    learned: JobMeasurements,
    now_s: float,
    *,
    waiting: str,
    foreseen: Eta | None,
    nodes: Mapping[str, Node],
    most: int,
    accelerator: str,
    life: Sequence[EventRecord],
    processes: Sequence[WorkerFacts],
) -> JobDetail:
    """The message with everything about one job."""
    chosen = row.grant.workers if row.grant is not None else 0
    return JobDetail(
        **summary(row, learned, now_s, waiting, foreseen).model_dump(),
        spec=dict(row.spec),
        directory=row.directory,
        kind_reason=row.kind_reason,
        code_from=_code_from(row),
        code=row.code,
        exit=_exit(row),
        training=learned.training,
        curve=curve_of(learned, nodes, most, chosen, accelerator),
        life=[_step(record) for record in life if record.kind == "state"],
        processes=[WorkerInfo(name=w.name, node=w.node, pid=w.pid, doing=w.doing) for w in processes],
    )


def _exit(row: JobRow) -> ExitInfo | None:
    if row.exit is None:
        return None
    return ExitInfo(kind=row.exit["kind"], code=row.exit["code"], signal=row.exit["signal"])


def _code_from(row: JobRow) -> str:
    """Not the whole digest: who knows it can have the files."""
    given = row.code_from or {}
    if "package" not in given:
        return "shared directory" if given else ""
    inner = given.get("subdirectory")
    return f"package {str(given['package'])[:12]}" + (f", in {inner}" if inner else "")


def _step(record: EventRecord) -> Step:
    body = record.body
    return Step(
        at_s=record.at_s,
        source=body["from"],
        target=body["to"],
        cause=body["cause"],
        detail=body.get("detail", ""),
    )


def node_infos(cluster: ClusterState, jobs: Sequence[LiveJob]) -> list[NodeInfo]:
    """All nodes, with who is on them."""
    held: dict[str, dict[str, int]] = {}
    used: Counter[str] = Counter()
    for job in jobs:
        for name, count in places_of(job.row.grant).items():
            held.setdefault(name, {})[job.id] = count
            used[name] += slots_of(job.spec, count)
    return [
        _node(cluster, name, node, used[name], held.get(name, {})) for name, node in cluster.known().items()
    ]


def _node(cluster: ClusterState, name: str, node: Node, used: int, jobs: Mapping[str, int]) -> NodeInfo:
    facts, how = cluster.facts(name), cluster.standing(name)
    devices = node.gpu_type != CPU
    return NodeInfo(
        id=name,
        slots=node.gpus,
        used=used,
        accelerator=node.gpu_type,
        state=how.state,
        since_s=how.moment_s if how.state == "lost" else None,
        until_s=how.moment_s if how.state == "leaving" else None,
        why=how.why,
        address=facts.address,
        accelerators=node.gpus if devices else 0,
        accelerator_memory_gb=node.gpu_memory_gb if devices else None,
        cores=cores_of(node, facts) or None,
        memory_gb=round(memory_of(node, facts), 1) or None,
        pool=facts.pool,
        jobs=dict(jobs),
    )


def pool_info(name: str, pool: Pool, bounds: Bounds, wanted: int) -> PoolInfo:
    """A pool as it is, with what its owner has set."""
    return PoolInfo(
        name=name,
        accelerator=pool.node.gpu_type,
        slots=pool.node.gpus,
        now=pool.now,
        wanted=wanted,
        least=bounds.least,
        most=bounds.most,
        idle_s=bounds.idle_s,
        price_per_hour=pool.price_per_hour,
        budget_per_hour=bounds.budget_per_hour,
    )
