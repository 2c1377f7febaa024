"""Answers questions about jobs: the queue, one job in detail, why it waits, what it wrote."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from elastane.cluster import Node
from elastane.engines.local.paths import Layout
from elastane.service.control.active_job import LiveJob
from elastane.service.control.cluster_state import ClusterState
from elastane.service.control.job_measurements import JobMeasurements
from elastane.service.control.type_sizes import most_slots, slots_by_type
from elastane.service.expected_ends import ExpectedEnds
from elastane.service.job_logs import log_files, log_path
from elastane.service.messages import Eta, EventRecord, JobDetail, JobSummary, LogFile, Why
from elastane.service.presenters import detail, summary
from elastane.service.protocol import NotFound, Which
from elastane.service.store import Store
from elastane.service.store.rows import JobRow
from elastane.service.why import Known, explain, waits_for

log = logging.getLogger("elastane")


class JobQueries:
    """Reads jobs, in memory and stored, and changes nothing; ``home`` has their logs."""

    def __init__(
        self, known: Known, store: Store, cluster: ClusterState, home: Path, ends: ExpectedEnds
    ) -> None:
        self._known, self._store, self._cluster, self._ends = known, store, cluster, ends
        self._ledger, self._engine, self._clock = known.ledger, known.engine, known.clock
        self._layout = Layout(home)

    def jobs(
        self, which: Which, *, owner: str | None = None, tenant: str | None = None, limit: int = 1000
    ) -> list[JobSummary]:
        """Lines of the queue: active jobs in its order, then ended ones, the latest first."""
        now = self._clock()
        lines: list[JobSummary] = []
        if which != "ended":
            ends = self._ends.of_waiting()
            live = sorted(self._ledger.live.values(), key=lambda j: (j.row.grant is None, j.row.number))
            lines += [
                _line(j, now, ends.get(j.id))
                for j in live
                if owner in (None, j.row.owner) and tenant in (None, j.row.tenant)
            ]
            lines += self._left_out(owner, tenant)
        if which != "active" and len(lines) < limit:
            rows = self._store.jobs.ended(owner=owner, tenant=tenant, limit=limit - len(lines))
            lines += [summary(row, _learned(row), now) for row in rows]
        return lines[:limit]

    def _left_out(self, owner: str | None, tenant: str | None) -> list[JobSummary]:
        """Jobs that are stored but could not be read when we started."""
        rows = [(self.row(job), why) for job, why in self._ledger.unread.items()]
        now_s = self._clock()
        return [
            summary(replace(row, spec={}), JobMeasurements(row.kind), now_s, why)
            for row, why in rows
            if owner in (None, row.owner) and tenant in (None, row.tenant)
        ]

    def job(self, job: str) -> JobDetail:
        """Everything about one job, by its exact id."""
        live = self._ledger.live.get(job)
        row = live.row if live is not None else self.row(job)
        unread = self._ledger.unread.get(job, "")
        learned = live.learned if live is not None else JobMeasurements(row.kind) if unread else _learned(row)
        row = replace(row, spec={}) if unread else row
        nodes = _that_fit(self._engine.nodes(), live)
        slots = slots_by_type(nodes.values())
        most = live.request(live.most(slots)).max_workers if live is not None else most_slots(slots, ())
        accelerator = self._cluster.type_of(live.places) if live is not None and live.places else None
        processes = self._engine.processes(live.attempt) if live is not None and live.holding else []
        return detail(
            row,
            learned,
            self._clock(),
            waiting=live.waiting if live is not None else unread,
            foreseen=self._ends.of_waiting().get(row.id) if live is not None else None,
            nodes=nodes,
            most=most,
            accelerator=accelerator or "",
            life=self._store.log.events(0, 1000, job=row.id),
            processes=processes,
        ).model_copy(update={"waits_for": waits_for(self._known, live) if live is not None else []})

    def owner_of(self, job: str) -> tuple[str, str]:
        """(owner, tenant) of a job."""
        row = self.row(job)
        return row.owner, row.tenant

    def life(self, job: str) -> list[EventRecord]:
        """The job's part of the event log."""
        return list(self._store.log.events(0, 10_000, job=self.row(job).id))

    def why(self, job: str, *, instead: bool = False) -> Why:
        """The reason that binds a job: why it waits, or is not larger."""
        live = self._ledger.live.get(job)
        if live is None:
            row = self.row(job)
            return Why(id=job, state=row.state.value, reason=self._why_not_live(row))
        return explain(self._known, live, instead=instead)

    def _why_not_live(self, row: JobRow) -> str:
        return self._ledger.unread.get(row.id) or row.reason or f"it has {row.state.value}"

    def logs(self, job: str) -> list[LogFile]:
        """Its log files, in order."""
        return log_files(self._layout, self.row(job).id)

    def log_path(self, job: str, attempt: int, worker: str) -> Path:
        """The path of one log file; always below the job's own directory."""
        return log_path(self._layout, self.row(job).id, attempt, worker)

    def summary_of(self, live: LiveJob) -> JobSummary:
        """The line of the queue of one active job, with the jobs that hold what it waits for."""
        ends = self._ends.of_waiting().get(live.id)
        line = summary(live.row, live.learned, self._clock(), live.waiting, ends)
        return line.model_copy(update={"waits_for": waits_for(self._known, live)})

    def row(self, job: str) -> JobRow:
        """What is stored of a job."""
        row = self._store.jobs.job(job)
        if row is None:
            raise NotFound(f"there is no job {job}")
        return row


def _line(job: LiveJob, now_s: float, end: Eta | None) -> JobSummary:
    """A line of the queue; without what was learned of a job where that makes no sense: others want to see theirs."""
    try:
        return summary(job.row, job.learned, now_s, job.waiting, end)
    except Exception:
        log.exception("job %s is shown without what it reported", job.id)
        return summary(job.row, JobMeasurements(job.row.kind), now_s, job.waiting, end)


def _that_fit(nodes: Mapping[str, Node], job: LiveJob | None) -> dict[str, Node]:
    """Nodes of accelerator types that a job takes."""
    wanted = job.spec.accelerators if job is not None else ()
    return {name: node for name, node in nodes.items() if not wanted or node.gpu_type in wanted}


def _learned(row: JobRow) -> JobMeasurements:
    return JobMeasurements.restored(row.kind, row.training, row.profile)
