"""Rows and live jobs as the messages that people and programs get."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from elastane.cluster import Node
from elastane.engines.contract import WorkerFacts, places_of
from elastane.jobs.kinds import ONE_SIZE
from elastane.jobs.states import State
from elastane.service.control.active_job import LiveJob, slots_of
from elastane.service.control.job_measurements import Learned
from elastane.service.eta import curve_of, end_of
from elastane.service.messages import Eta, EventRecord, JobDetail, JobSummary, NodeInfo, Step, WorkerInfo
from elastane.service.run_kinds import kind_of
from elastane.service.store.rows import JobRow
from elastane.train.reports.wording import warming

_RUNNING = (State.RUNNING, State.RESIZING)
_LONGEST_NAME = 40


def summary(
    row: JobRow, learned: Learned, now_s: float, waiting: str = "", foreseen: Eta | None = None
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


def _warming(row: JobRow, learned: Learned, now_s: float) -> str:
    """Why a job that has its place shows no step yet."""
    if learned.warming is None or row.state not in (State.STARTING, *_RUNNING):
        return ""
    worker, since_s = learned.warming
    return warming(worker[:_LONGEST_NAME], max(0.0, now_s - since_s))


def detail(
    row: JobRow,
    learned: Learned,
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
        code=row.code,
        training=learned.training,
        curve=curve_of(learned, nodes, most, chosen, accelerator),
        life=[_step(record) for record in life if record.kind == "state"],
        processes=[WorkerInfo(name=w.name, node=w.node, pid=w.pid, doing=w.doing) for w in processes],
    )


def _step(record: EventRecord) -> Step:
    body = record.body
    return Step(
        at_s=record.at_s,
        source=body["from"],
        target=body["to"],
        cause=body["cause"],
        detail=body.get("detail", ""),
    )


def node_infos(
    known: Mapping[str, Node], alive: Mapping[str, Node], draining: frozenset[str], jobs: Sequence[LiveJob]
) -> list[NodeInfo]:
    """All nodes, with who is on them."""
    infos = []
    for name, node in known.items():
        held = {job.id: places_of(job.row.grant).get(name, 0) for job in jobs}
        used = sum(slots_of(j.spec, count) for j in jobs if (count := held[j.id]))
        infos.append(
            NodeInfo(
                id=name,
                slots=node.gpus,
                used=used,
                accelerator=node.gpu_type,
                state="lost" if name not in alive else "draining" if name in draining else "up",
                jobs={job: count for job, count in held.items() if count},
            )
        )
    return infos
