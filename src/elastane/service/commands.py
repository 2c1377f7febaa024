"""What people change: jobs, nodes, policies, quotas.  What is not stored has not happened."""

from __future__ import annotations

from dataclasses import replace

from elastane.errors import ElastaneError
from elastane.jobs import parse_spec
from elastane.jobs.states import Event, InvalidTransition, State
from elastane.policies.registry import make_live_policy
from elastane.service.control.active_job import LiveJob, places_of, slots_of
from elastane.service.control.job_measurements import Learned
from elastane.service.control.policy_runner import ShadowPolicy
from elastane.service.control.requested_places import room_now, words
from elastane.service.control.transitions import Outcome
from elastane.service.messages import (
    JobSummary,
    NodeInfo,
    PolicyInfo,
    QuotaInfo,
)
from elastane.service.presenters import summary
from elastane.service.protocol import Conflict, NotFound, Principal
from elastane.service.queries import Looking, replace_used
from elastane.service.store.rows import JobRow
from elastane.service.why import waits_for
from elastane.service.wording import counted

_HOLDS = (State.STARTING, State.RUNNING, State.RESIZING, State.STAGING)


class Steering(Looking):
    """Changes to what is there already."""

    def cancel(self, who: Principal, job: str) -> JobSummary:
        """End it for good; also one that could not be read when we started."""
        live = self._unread(job) if job in self._plane.unread else self._live(job)
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
                raise ElastaneError(f"workers: job {job} is rigid, it keeps its {counted(least, 'worker')}")
            if workers < least or (most is not None and workers > most):
                limits = f"at least {least}" if most is None else f"{least} to {most}"
                raise ElastaneError(f"workers: job {job} was submitted for {limits} workers, not {workers}")
            if slots_of(live.spec, workers) > total:
                raise ElastaneError(
                    f"workers: {workers} workers do not fit into the cluster's {counted(total, 'slot')}"
                )
        self._store_change(live, Outcome(replace(live.row, pinned_workers=workers, pinned_node=None)), "scale")
        return self._wished(live)

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
                f"node {node} has {counted(nodes[node].gpus, 'slot')}, too few for {live.spec.workers.min} workers"
            )
        row = replace(live.row, pinned_node=node, pinned_workers=workers)
        self._store_change(live, Outcome(row), "move")
        return self._wished(live)

    def _wished(self, live: LiveJob) -> JobSummary:
        """What becomes of a job that was scaled or moved: at once if there is room, else for whom it waits."""
        plane = self._plane
        jobs, nodes = list(plane.live.values()), plane.engine.nodes()
        live.waiting = "" if room_now(live, jobs, nodes) else words(live, jobs, nodes)
        return self._line(live)

    def _live(self, job: str) -> LiveJob:
        live = self._plane.live.get(job)
        if live is None:
            row = self._row(job)
            if not row.terminal:
                words = self._plane.unread.get(job, "it is not looked after now")
                raise Conflict(f"job {job} can only be cancelled: {words}")
            raise Conflict(f"job {job} has ended ({row.state.value})")
        return live

    def _unread(self, job: str) -> LiveJob:
        """A job without what cannot be read of it: enough to end it, and whatever processes it has."""
        row = replace(self._row(job), training={}, profile={})
        live = LiveJob(row, parse_spec({"command": "true"}), Learned(row.kind), places_of(row.grant))
        self._plane.ledger.add(live)
        return live

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
        self._plane.ledger.drop_ended()
        self._plane.ensure(live)
        self._plane.poke(trigger)

    def _line(self, live: LiveJob) -> JobSummary:
        ends = self._foreseen().get(live.id)
        line = summary(live.row, live.learned, self._plane.clock(), live.waiting, ends)
        return line.model_copy(update={"waits_for": waits_for(self._plane, live)})

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
        self._plane.cluster.drain(frozenset(changed))
        self._plane.poke("node")
        return next(info for info in self.nodes() if info.id == node)

    def set_policy(self, who: Principal, written: str) -> PolicyInfo:  # noqa: ARG002
        """Decide by another policy from now on."""
        policy = make_live_policy(written)
        with self._store.transaction() as t:
            t.set_setting("policy", written)
            t.append_event("policy", None, {"policy": policy.label()})
        self._plane.decisions.use_policy(policy)
        self._plane.poke("policy")
        return self.policy()

    def set_shadow(self, who: Principal, written: str | None) -> PolicyInfo:  # noqa: ARG002
        """Let another policy say what it would have done."""
        shadow = ShadowPolicy(make_live_policy(written)) if written is not None else None
        with self._store.transaction() as t:
            t.set_setting("shadow", written)
        self._plane.decisions.use_shadow(shadow)
        return self.policy()

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
