"""What the control plane answers when somebody only looks."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from elastane import __version__
from elastane.engines.local.paths import Layout
from elastane.jobs.states import State
from elastane.service.control.active_job import LiveJob, slots_of
from elastane.service.control.job_measurements import Learned
from elastane.service.control.plane import ControlPlane
from elastane.service.eta_waiting import Ground, foresee
from elastane.service.job_logs import log_files, log_path
from elastane.service.messages import (
    Eta,
    EventRecord,
    JobDetail,
    JobSummary,
    LogFile,
    NodeInfo,
    PolicyInfo,
    QuotaInfo,
    ServerInfo,
    Why,
)
from elastane.service.presenters import detail, node_infos, summary
from elastane.service.protocol import NotFound, Which
from elastane.service.same_machine import this_machine
from elastane.service.store.rows import JobRow
from elastane.service.why import explain, waits_for

log = logging.getLogger("elastane")
_LOOK_AGAIN_S = 1.0


class Looking:
    """Questions about jobs, the cluster and the service itself."""

    def __init__(self, plane: ControlPlane, warnings: Sequence[str] = ()) -> None:
        self._plane = plane
        self._store = plane.store
        self._started_s = plane.clock()
        self._warnings = list(warnings)
        self._looked_s = -math.inf
        self._ahead: Mapping[str, Eta] = {}

    def info(self) -> ServerInfo:
        """Who answers, and what there is."""
        nodes = self._plane.engine.nodes()
        counts = {state.value: count for state, count in self._store.count_by_state().items()}
        return ServerInfo(
            version=__version__,
            home=str(self._plane.settings.home),
            started_s=self._started_s,
            policy=self._plane.policy.label(),
            slots=sum(node.gpus for node in nodes.values()),
            nodes=len(nodes),
            jobs=counts,
            warnings=[*self._warnings, *self._plane.problems, *filter(None, [self._plane.rounds.problem])],
            machine=this_machine(),
        )

    def events(self, after: int, limit: int = 1000) -> Sequence[EventRecord]:
        """The event log after an entry."""
        return self._store.events(after, limit)

    async def wait_for_events(self, after: int, timeout_s: float) -> bool:
        """Until there is an entry after this one."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while self._store.last_event_seq() <= after:
            left = deadline - loop.time()
            if left <= 0:
                return False
            try:
                async with asyncio.timeout(left), self._plane.changed:
                    await self._plane.changed.wait()
            except TimeoutError:
                return False
        return True

    def gauges(self) -> Mapping[str, float | Mapping[str, float]]:
        """Figures for Prometheus."""
        plane = self._plane
        nodes = plane.engine.nodes()
        held = sum(slots_of(j.spec, j.row.grant.workers) for j in plane.live.values() if j.row.grant)
        return {
            "elastane_slots": float(sum(node.gpus for node in nodes.values())),
            "elastane_slots_used": float(held),
            "elastane_nodes": float(len(nodes)),
            "elastane_jobs{state}": {
                state.value: float(count) for state, count in self._store.count_by_state().items()
            },
            "elastane_decisions_total": float(plane.rounds.count),
            "elastane_decision_ms": plane.rounds.last_ms or 0.0,
            "elastane_job_goodput{job}": {
                j.id: float(t.goodput)
                for j in plane.live.values()
                if (t := j.learned.training) is not None and t.goodput is not None and j.row.grant
            },
            "elastane_job_workers{job}": {
                j.id: float(j.row.grant.workers) for j in plane.live.values() if j.row.grant
            },
        }

    def jobs(
        self, which: Which, *, owner: str | None = None, tenant: str | None = None, limit: int = 1000
    ) -> list[JobSummary]:
        """Lines of the queue."""
        now = self._plane.clock()
        lines: list[JobSummary] = []
        if which != "ended":
            ends = self._foreseen()
            live = sorted(self._plane.live.values(), key=lambda j: (j.row.grant is None, j.row.number))
            lines += [
                _line(j, now, ends.get(j.id))
                for j in live
                if owner in (None, j.row.owner) and tenant in (None, j.row.tenant)
            ]
            lines += self._left_out(owner, tenant)
        if which != "active" and len(lines) < limit:
            rows = self._store.ended(owner=owner, tenant=tenant, limit=limit - len(lines))
            lines += [summary(row, _learned(row), now) for row in rows]
        return lines[:limit]

    def _left_out(self, owner: str | None, tenant: str | None) -> list[JobSummary]:
        """Jobs that are stored but could not be read when we started."""
        rows = [(self._row(job), why) for job, why in self._plane.unread.items()]
        now_s = self._plane.clock()
        return [
            summary(replace(row, spec={}), Learned(row.kind), now_s, why)
            for row, why in rows
            if owner in (None, row.owner) and tenant in (None, row.tenant)
        ]

    def job(self, job: str) -> JobDetail:
        """Everything about one job."""
        plane, live = self._plane, self._plane.live.get(job)
        row = live.row if live is not None else self._row(job)
        unread = plane.unread.get(job, "")
        learned = live.learned if live is not None else Learned(row.kind) if unread else _learned(row)
        row = replace(row, spec={}) if unread else row
        nodes = plane.engine.nodes()
        total = sum(node.gpus for node in nodes.values())
        most = live.request(total).max_workers if live is not None else total
        processes = plane.engine.processes(live.attempt) if live is not None and live.holding else []
        return detail(
            row,
            learned,
            plane.clock(),
            waiting=live.waiting if live is not None else unread,
            foreseen=self._foreseen().get(row.id) if live is not None else None,
            nodes=nodes,
            most=most,
            life=self._store.events(0, 1000, job=row.id),
            processes=processes,
        ).model_copy(update={"waits_for": waits_for(plane, live) if live is not None else []})

    def _foreseen(self) -> Mapping[str, Eta]:
        """Ends of jobs that do not train yet; looked for at most once in a while, however many ask."""
        plane = self._plane
        now_s = plane.clock()
        still = {j.id for j in plane.live.values() if j.row.state not in (State.RUNNING, State.RESIZING)}
        if not 0.0 <= now_s - self._looked_s < _LOOK_AGAIN_S or self._ahead.keys() != still:
            ground = Ground(plane.engine.nodes(), plane.settings.cores, now_s)
            self._looked_s, self._ahead = now_s, foresee(plane.live.values(), ground)
        return self._ahead

    def _row(self, job: str) -> JobRow:
        row = self._store.job(job)
        if row is None:
            raise NotFound(f"there is no job {job}")
        return row

    def owner_of(self, job: str) -> tuple[str, str]:
        """(owner, tenant) of a job."""
        row = self._row(job)
        return row.owner, row.tenant

    def life(self, job: str) -> list[EventRecord]:
        """The job's part of the event log."""
        return list(self._store.events(0, 10_000, job=self._row(job).id))

    def why(self, job: str, *, instead: bool = False) -> Why:
        """What binds it."""
        live = self._plane.live.get(job)
        if live is None:
            row = self._row(job)
            return Why(id=job, state=row.state.value, reason=self._why_not_live(row))
        return explain(self._plane, live, instead=instead)

    def _why_not_live(self, row: JobRow) -> str:
        return self._plane.unread.get(row.id) or row.reason or f"it has {row.state.value}"

    def logs(self, job: str) -> list[LogFile]:
        """Its log files, in order."""
        return log_files(self._layout, self._row(job).id)

    def log_path(self, job: str, attempt: int, worker: str) -> Path:
        """Where one of them lies."""
        return log_path(self._layout, self._row(job).id, attempt, worker)

    @property
    def _layout(self) -> Layout:
        return Layout(self._plane.settings.home)

    def nodes(self) -> list[NodeInfo]:
        """All nodes, with who is on them."""
        plane = self._plane
        return node_infos(plane.known_nodes(), plane.engine.nodes(), plane.draining, list(plane.live.values()))

    def policy(self) -> PolicyInfo:
        """How decisions are made."""
        plane, shadow = self._plane, self._plane.shadow
        return PolicyInfo(
            policy=plane.policy.label(),
            title=plane.policy.title,
            period_s=plane.settings.interval_s or plane.policy.needs.period_s,
            decisions=plane.rounds.count,
            last_ms=plane.rounds.last_ms,
            problem=plane.rounds.problem,
            shadow=shadow.policy.label() if shadow is not None else None,
            shadow_differs=shadow.differs if shadow is not None else 0,
            shadow_decisions=shadow.decisions if shadow is not None else 0,
            shadow_last=shadow.last if shadow is not None else "",
        )

    def quotas(self) -> list[QuotaInfo]:
        """Of all tenants, with what they hold."""
        return [replace_used(quota, self._used(quota.tenant)) for quota in self._store.quotas()]

    def _used(self, tenant: str) -> int:
        live = [j for j in self._plane.live.values() if j.row.tenant == tenant and j.row.grant is not None]
        return sum(slots_of(j.spec, j.row.grant.workers) for j in live if j.row.grant)


def replace_used(quota: QuotaInfo, used: int) -> QuotaInfo:
    """The quota with what is in use now."""
    return quota.model_copy(update={"used": used})


def _line(job: LiveJob, now_s: float, end: Eta | None) -> JobSummary:
    """A line of the queue; without what was learned of a job where that makes no sense: others want to see theirs."""
    try:
        return summary(job.row, job.learned, now_s, job.waiting, end)
    except Exception:
        log.exception("job %s is shown without what it reported", job.id)
        return summary(job.row, Learned(job.row.kind), now_s, job.waiting, end)


def _learned(row: JobRow) -> Learned:
    return Learned.restored(row.kind, row.training, row.profile)
