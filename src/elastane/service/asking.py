"""The control plane as its API sees it: checks what is asked, stores it, and answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from elastane import __version__
from elastane.errors import ElastaneError
from elastane.jobs import JobSpec, parse_spec
from elastane.jobs.loading import dump_json
from elastane.jobs.spec import Kind
from elastane.jobs.states import Event, InvalidTransition, State
from elastane.policies.contract import Policy
from elastane.policies.registry import make_policy
from elastane.service.control import ControlPlane
from elastane.service.deciding import ShadowPolicy
from elastane.service.explaining import explain
from elastane.service.facade import Conflict, NotFound, Principal, Which
from elastane.service.intake import Intake, NewJob
from elastane.service.learning import Learned
from elastane.service.live import LiveJob, slots_of
from elastane.service.logfiles import log_files, log_path
from elastane.service.messages import (
    EventRecord,
    JobDetail,
    JobSummary,
    LogFile,
    NodeInfo,
    PolicyInfo,
    QuotaInfo,
    ServerInfo,
    Submitted,
    Why,
)
from elastane.service.running import Outcome
from elastane.service.store.rows import JobRow
from elastane.service.telling import detail, node_infos, summary

_HOLDS = (State.STARTING, State.RUNNING, State.RESIZING, State.STAGING)


class LiveService:
    """Implements ``facade.Service`` over a control plane."""

    def __init__(self, plane: ControlPlane, warnings: Sequence[str] = ()) -> None:
        self._plane = plane
        self._store = plane.store
        self._intake = Intake(plane)
        self._started_s = plane.clock()
        self._warnings = list(warnings)

    # About everything.

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

    # Jobs.

    async def submit(
        self, who: Principal, spec: Mapping[str, Any], directory: str, key: str | None
    ) -> Submitted:
        """Check, store, answer."""
        known = await self._of_key(who.user, key) if key else None
        if known is not None:
            return Submitted(id=known.id, name=known.name, repeated=True)
        row = await self._intake.take(self._looked_at(who, spec, directory, key))
        return Submitted(id=row.id, name=row.name, warnings=self._doubts(row.kind))

    async def _of_key(self, user: str, key: str) -> JobRow | None:
        """What this request key stands for; of two that come at once the second waits for the first."""
        under_way = self._intake.under_way(user, key)
        if under_way is not None:
            return await asyncio.shield(under_way)
        job = self._store.job_of_key(user, key)
        return None if job is None else self._row(job)

    def _looked_at(self, who: Principal, spec: Mapping[str, Any], directory: str, key: str | None) -> NewJob:
        wanted = self._checked(who, spec)
        place = str((Path(directory) / wanted.workdir).resolve()) if wanted.workdir else directory
        looked = self._plane.engine.examine(wanted.kind.value, wanted.command, place, dict(wanted.env))
        if looked.missing:
            raise ElastaneError(f"command: {looked.missing}")
        most = wanted.workers.max
        if wanted.kind is Kind.AUTO and looked.kind == "rigid" and most not in (None, wanted.workers.min):
            looked = replace(looked, why=f"{looked.why}; it keeps its {wanted.workers.min} workers")
        return NewJob(who.user, key, wanted, json.loads(dump_json(wanted)), place, looked.kind, looked.why)

    def _checked(self, who: Principal, values: Mapping[str, Any]) -> JobSpec:
        given = dict(values)
        given.setdefault("tenant", who.tenant)
        spec = parse_spec(given)
        # A node that is away for a while is no reason to refuse a job.
        nodes = self._plane.known_nodes().values()
        types = sorted({node.gpu_type for node in nodes})
        fitting = [n for n in nodes if not spec.accelerators or n.gpu_type in spec.accelerators]
        if not fitting:
            raise ElastaneError(
                f"accelerators: the cluster has {', '.join(types)}, not {', '.join(spec.accelerators)}"
            )
        per_worker = max(spec.worker.gpus, 1e-9)
        room = sum(int(node.gpus / per_worker + 1e-9) for node in fitting)
        if room < spec.workers.min:
            slots = sum(node.gpus for node in fitting)
            raise ElastaneError(
                f"workers.min: {spec.workers.min} workers with {spec.worker.gpus:g} slots each do not fit into "
                f"the cluster's {slots} slots on {len(fitting)} nodes; ask for at most {room}"
            )
        return spec

    def _doubts(self, kind: str) -> list[str]:
        if kind == "rigid":
            return ["it is rigid: it is never moved or resized, and starts over if its node is lost"]
        return []

    def jobs(
        self, which: Which, *, owner: str | None = None, tenant: str | None = None, limit: int = 1000
    ) -> list[JobSummary]:
        """Lines of the queue."""
        now = self._plane.clock()
        lines: list[JobSummary] = []
        if which != "ended":
            live = sorted(self._plane.live.values(), key=lambda j: (j.row.grant is None, j.row.number))
            lines += [
                summary(j.row, j.learned, now, j.waiting)
                for j in live
                if owner in (None, j.row.owner) and tenant in (None, j.row.tenant)
            ]
        if which != "active" and len(lines) < limit:
            rows = self._store.ended(owner=owner, tenant=tenant, limit=limit - len(lines))
            lines += [summary(row, _learned(row), now) for row in rows]
        return lines[:limit]

    def job(self, job: str) -> JobDetail:
        """Everything about one job."""
        plane, live = self._plane, self._plane.live.get(job)
        row = live.row if live is not None else self._row(job)
        learned = live.learned if live is not None else _learned(row)
        nodes = plane.engine.nodes()
        total = sum(node.gpus for node in nodes.values())
        most = live.request(total).max_workers if live is not None else total
        processes = plane.engine.processes(live.attempt) if live is not None and live.holding else []
        return detail(
            row,
            learned,
            plane.clock(),
            waiting=live.waiting if live is not None else "",
            nodes=nodes,
            most=most,
            life=self._store.events(0, 1000, job=row.id),
            processes=processes,
        )

    def _row(self, job: str) -> JobRow:
        row = self._store.job(job)
        if row is None:
            raise NotFound(f"there is no job {job}")
        return row

    def _live(self, job: str) -> LiveJob:
        live = self._plane.live.get(job)
        if live is None:
            row = self._row(job)
            raise Conflict(f"job {job} has ended ({row.state.value})")
        return live

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
            return Why(id=job, state=row.state.value, reason=row.reason or f"it has {row.state.value}")
        return explain(self._plane, live, instead=instead)

    # Changes to jobs.

    def cancel(self, who: Principal, job: str) -> JobSummary:
        """End it for good."""
        live = self._live(job)
        words = f"cancelled by {who.user}"
        now = self._plane.clock()
        if live.row.state is not State.STOPPING:
            row = replace(self._moved(live, Event.CANCEL), reason=words)
            row = replace(row, ended_s=now, held=False) if row.terminal else replace(row, ending="cancel")
            self._store_change(live, Outcome(row, ((Event.CANCEL, words),)), "cancel")
        return self._line(live)

    def suspend(self, who: Principal, job: str) -> JobSummary:
        """Save it and put it on hold."""
        live = self._live(job)
        words = f"put on hold by {who.user}"
        row, steps = live.row, tuple[tuple[Event, str], ...]()
        if live.row.state in _HOLDS:
            if live.row.kind == "rigid":
                raise Conflict(f"job {job} is rigid: it cannot be saved, only cancelled")
            row = replace(self._moved(live, Event.SUSPEND), ending="suspend")
            steps = ((Event.SUSPEND, words),)
        elif live.row.state not in (State.QUEUED, State.SUSPENDED, State.SUSPENDING, State.LOST):
            raise Conflict(f"cannot suspend a job that is {live.row.state.value}")
        self._store_change(live, Outcome(replace(row, held=True), steps), "suspend")
        return self._line(live)

    def resume(self, who: Principal, job: str) -> JobSummary:  # noqa: ARG002 (the audit log has it)
        """Let it compete again."""
        live = self._live(job)
        pinned = live.row.pinned_workers if live.row.pinned_node is None else None
        row = replace(live.row, held=False, pinned_node=None, pinned_workers=pinned)
        self._store_change(live, Outcome(row), "resume")
        return self._line(live)

    def scale(self, who: Principal, job: str, workers: int | None) -> JobSummary:  # noqa: ARG002
        """Pin its size, or leave it to the policy again."""
        live = self._live(job)
        if workers is not None:
            total = sum(node.gpus for node in self._plane.known_nodes().values())
            least, most = live.spec.workers.min, live.spec.max_workers
            if live.row.kind == "rigid" and workers != least:
                raise Conflict(f"job {job} is rigid: it keeps its {least} workers")
            if workers < least or (most is not None and workers > most):
                limits = f"at least {least}" if most is None else f"{least} to {most}"
                raise ElastaneError(f"workers: job {job} was submitted for {limits} workers, not {workers}")
            if slots_of(live.spec, workers) > total:
                raise ElastaneError(f"workers: {workers} workers do not fit into the cluster's {total} slots")
        self._store_change(live, Outcome(replace(live.row, pinned_workers=workers, pinned_node=None)), "scale")
        return self._line(live)

    def move(self, who: Principal, job: str, node: str) -> JobSummary:  # noqa: ARG002
        """Pin it to a node."""
        live, nodes = self._live(job), self._plane.engine.nodes()
        if node not in nodes:
            raise NotFound(f"there is no node {node} (there are {', '.join(sorted(nodes))})")
        if live.row.kind == "rigid" and live.row.grant is not None:
            raise Conflict(f"job {job} is rigid: it cannot be moved while it runs")
        held = live.row.grant.workers if live.row.grant else live.spec.workers.min
        workers = min(held, int(nodes[node].gpus / max(live.spec.worker.gpus, 1e-9)))
        if workers < live.spec.workers.min:
            raise ElastaneError(
                f"node {node} has {nodes[node].gpus} slots, too few for {live.spec.workers.min} workers"
            )
        row = replace(live.row, pinned_node=node, pinned_workers=workers)
        self._store_change(live, Outcome(row), "move")
        return self._line(live)

    def _moved(self, live: LiveJob, event: Event) -> JobRow:
        try:
            return live.moved(event, self._plane.clock())
        except InvalidTransition as error:
            raise Conflict(str(error)) from None

    def _store_change(self, live: LiveJob, outcome: Outcome, trigger: str) -> None:
        before = live.row
        try:
            with self._store.transaction() as t:
                self._plane.follow(t, live, outcome)
        except BaseException:
            live.row = before  # what is not stored has not happened
            raise
        if live.row.terminal:
            self._plane.live.pop(live.id, None)
        self._plane.ensure(live)
        self._plane.poke(trigger)

    def _line(self, live: LiveJob) -> JobSummary:
        return summary(live.row, live.learned, self._plane.clock(), live.waiting)

    # Logs.

    def logs(self, job: str) -> list[LogFile]:
        """Its log files, in order."""
        return log_files(self._folder(job))

    def log_path(self, job: str, attempt: int, worker: str) -> Path:
        """Where one of them lies."""
        return log_path(self._folder(job), attempt, worker)

    def _folder(self, job: str) -> Path:
        return self._plane.settings.home / "jobs" / self._row(job).id

    # The cluster.

    def nodes(self) -> list[NodeInfo]:
        """All nodes, with who is on them."""
        plane = self._plane
        return node_infos(plane.known_nodes(), plane.engine.nodes(), plane.draining, list(plane.live.values()))

    def drain(self, who: Principal, node: str, draining: bool) -> NodeInfo:  # noqa: ARG002
        """Let a node run empty, or take work again."""
        if node not in self._plane.known_nodes():
            raise NotFound(
                f"there is no node {node} (there are {', '.join(sorted(self._plane.known_nodes()))})"
            )
        changed = self._plane.draining | {node} if draining else self._plane.draining - {node}
        with self._store.transaction() as t:
            t.set_setting("draining", sorted(changed))
            t.append_event("node", None, {"node": node, "state": "draining" if draining else "up"})
        self._plane.draining = frozenset(changed)
        self._plane.poke("node")
        return next(info for info in self.nodes() if info.id == node)

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

    def set_policy(self, who: Principal, written: str) -> PolicyInfo:  # noqa: ARG002
        """Decide by another policy from now on."""
        policy = _live_policy(written)
        with self._store.transaction() as t:
            t.set_setting("policy", written)
            t.append_event("policy", None, {"policy": policy.label()})
        self._plane.policy, self._plane.rounds.memory = policy, None
        self._plane.poke("policy")
        return self.policy()

    def set_shadow(self, who: Principal, written: str | None) -> PolicyInfo:  # noqa: ARG002
        """Let another policy say what it would have done."""
        shadow = ShadowPolicy(_live_policy(written)) if written is not None else None
        with self._store.transaction() as t:
            t.set_setting("shadow", written)
        self._plane.shadow = shadow
        return self.policy()

    def quotas(self) -> list[QuotaInfo]:
        """Of all tenants, with what they hold."""
        return [replace_used(quota, self._used(quota.tenant)) for quota in self._store.quotas()]

    def set_quota(
        self,
        who: Principal,  # noqa: ARG002
        tenant: str,
        slots: int | None,
        weight: float | None,
        lends: bool | None,
    ) -> QuotaInfo:
        """What a tenant may hold."""
        old = self._store.quota(tenant)
        with self._store.transaction() as t:
            quota = t.set_quota(
                tenant,
                slots,
                weight=old.weight if weight is None else weight,
                lends=old.lends if lends is None else lends,
            )
        self._plane.poke("quota")
        return replace_used(quota, self._used(tenant))

    def _used(self, tenant: str) -> int:
        live = [j for j in self._plane.live.values() if j.row.tenant == tenant and j.row.grant is not None]
        return sum(slots_of(j.spec, j.row.grant.workers) for j in live if j.row.grant)


def replace_used(quota: QuotaInfo, used: int) -> QuotaInfo:
    """The quota with what is in use now."""
    return quota.model_copy(update={"used": used})


def _live_policy(written: str) -> Policy:
    policy = make_policy(written)
    if policy.needs.oracle:
        raise ElastaneError(f"policy {policy.label()} needs to know the future; it is for simulations only")
    return policy


def _learned(row: JobRow) -> Learned:
    return Learned.restored(row.kind, row.training, row.profile)
