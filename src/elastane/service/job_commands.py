"""Changes jobs on behalf of people: cancel, suspend, resume, scale, move.  What is not stored has not happened."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from elastane.engines.contract import Engine
from elastane.errors import ElastaneError
from elastane.jobs.kinds import ONE_SIZE, Kind
from elastane.jobs.states import Event, InvalidTransition, State
from elastane.service.control.active_job import LiveJob, slots_of
from elastane.service.control.cluster_state import ClusterState
from elastane.service.control.engine_driver import EngineDriver
from elastane.service.control.ledger import Clock, Ledger
from elastane.service.control.requested_places import room_now, words
from elastane.service.control.state_after_end import Outcome
from elastane.service.control.type_sizes import most_slots, slots_by_type
from elastane.service.job_queries import JobQueries
from elastane.service.messages import JobSummary
from elastane.service.protocol import Conflict, NotFound, Principal
from elastane.service.run_kinds import is_command, kind_of
from elastane.service.store import Store
from elastane.service.store.rows import JobRow
from elastane.service.wording import counted

_HOLDS = (State.STARTING, State.RUNNING, State.RESIZING)


class JobCommands:
    """Changes active jobs; ``queries`` says how they stand afterwards.

    ``release`` looks again at a job that was set aside, ``poke`` says what a decision should answer.
    """

    def __init__(
        self,
        ledger: Ledger,
        store: Store,
        engine: Engine,
        cluster: ClusterState,
        driver: EngineDriver,
        release: Callable[[JobRow], None],
        poke: Callable[[str], None],
        clock: Clock,
        queries: JobQueries,
    ) -> None:
        self._ledger, self._store, self._engine, self._cluster = ledger, store, engine, cluster
        self._driver, self._release, self._poke, self._clock = driver, release, poke, clock
        self._queries = queries

    def cancel(self, who: Principal, job: str) -> JobSummary:
        """End a job for good; also one whose stored row could not be read at the start."""
        live = self._unread(job) if job in self._ledger.unread else self._live(job)
        words = f"cancelled by {who.user}"
        now = self._clock()
        if live.row.state is not State.STOPPING:
            row = replace(self._moved(live, Event.CANCEL), reason=words)
            row = replace(row, ended_s=now, held=False) if row.terminal else replace(row, ending="cancel")
            self._store_change(live, Outcome(row, ((Event.CANCEL, words),)), "cancel")
        return self._queries.summary_of(live)

    def suspend(self, who: Principal, job: str) -> JobSummary:
        """Save a job and put it on hold."""
        live = self._live(job)
        words = f"put on hold by {who.user}"
        row, steps = live.row, tuple[tuple[Event, str], ...]()
        if live.row.state in _HOLDS:
            if is_command(live.row):
                raise Conflict(f"job {job} is a command: it cannot be saved, only cancelled")
            row = replace(self._moved(live, Event.SUSPEND), ending="suspend")
            steps = ((Event.SUSPEND, words),)
        elif live.row.state not in (State.QUEUED, State.SUSPENDED, State.SUSPENDING, State.LOST):
            raise Conflict(f"cannot suspend a job that is {live.row.state.value}")
        self._store_change(live, Outcome(replace(row, held=True), steps), "suspend")
        return self._queries.summary_of(live)

    def resume(self, who: Principal, job: str) -> JobSummary:
        """Take a job off hold and off its node, so that it competes again; also one that was set aside at the start."""
        if job in self._ledger.unread and who.role == "admin":  # its owner may be who wants us to die over it
            self._release(self._queries.row(job))
        live = self._live(job)
        pinned = live.row.pinned_workers if live.row.pinned_node is None else None
        row = replace(live.row, held=False, pinned_node=None, pinned_workers=pinned)
        self._store_change(live, Outcome(row), "resume")
        return self._queries.summary_of(live)

    def scale(self, who: Principal, job: str, workers: int | None) -> JobSummary:  # noqa: ARG002
        """Pin a job's number of workers, or (None) leave it to the policy again."""
        live = self._live(job)
        if workers is not None:
            total = most_slots(slots_by_type(self._cluster.known().values()), live.spec.accelerators)
            least, most = live.spec.workers.min, live.spec.max_workers
            if (kind := kind_of(live.row)) in ONE_SIZE and workers != least:
                what = "a command" if kind is Kind.COMMAND else "rigid"
                raise ElastaneError(f"workers: job {job} is {what}, it keeps its {counted(least, 'worker')}")
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
        """Pin a job to a node."""
        live, nodes = self._live(job), self._engine.nodes()
        if node not in nodes:
            raise NotFound(f"there is no node {node} (there are {', '.join(sorted(nodes))})")
        if is_command(live.row) and live.row.grant is not None:
            raise Conflict(f"job {job} is a command: it cannot be moved while it runs")
        how, wanted = self._cluster.standing(node), live.spec.accelerators
        if how.state in ("unfit", "leaving"):
            raise Conflict(
                f"node {node} is {how.state}{f' ({how.why})' if how.why else ''}: nothing is moved there"
            )
        if wanted and nodes[node].gpu_type not in wanted:
            raise ElastaneError(
                f"node {node} has {nodes[node].gpu_type}, the job takes {' or '.join(wanted)} only"
            )
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
        """The answer to a scale or move: done at once if there is room, else with the jobs that stand in its way."""
        jobs, nodes = list(self._ledger.live.values()), self._engine.nodes()
        live.waiting = "" if room_now(live, jobs, nodes) else words(live, jobs, nodes)
        return self._queries.summary_of(live)

    def _live(self, job: str) -> LiveJob:
        live = self._ledger.live.get(job)
        if live is None:
            row = self._queries.row(job)
            if not row.terminal:
                words = self._ledger.unread.get(job, "it is not looked after now")
                raise Conflict(f"job {job} can only be cancelled: {words}")
            raise Conflict(f"job {job} has ended ({row.state.value})")
        return live

    def _unread(self, job: str) -> LiveJob:
        """A job without what cannot be read of it: enough to end it, and whatever processes it has."""
        live = LiveJob.unlooked(self._queries.row(job))
        self._ledger.add(live)
        return live

    def _moved(self, live: LiveJob, event: Event) -> JobRow:
        try:
            return live.moved(event, self._clock())
        except InvalidTransition as error:
            raise Conflict(str(error)) from None

    def _store_change(self, live: LiveJob, outcome: Outcome, trigger: str) -> None:
        before = live.row
        try:
            with self._store.transaction() as t:
                self._ledger.follow(t, live, outcome)
        except BaseException:
            live.row = before  # what is not stored has not happened
            raise
        self._ledger.drop_ended()
        self._driver.ensure(live)
        self._poke(trigger)
