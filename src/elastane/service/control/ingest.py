"""Takes in the engine's reports on jobs and nodes: each is stored before the engine may forget it."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

from elastane.engines.contract import Engine, Over, Report, Running, Told, places_of
from elastane.jobs.states import State
from elastane.service.control.active_job import LiveJob
from elastane.service.control.cluster_state import ClusterState
from elastane.service.control.containment import SERVICE_WIDE, Containment, unreadable
from elastane.service.control.crash_suspects import Suspects
from elastane.service.control.ledger import Clock, Ledger
from elastane.service.control.state_after_end import after_end, after_running, is_set_aside, overlap
from elastane.service.control.wakeup import Wakeup
from elastane.service.store import Transaction
from elastane.train.exit_cause import given_up

_STORE_TRAINING_S = 2.0
"""How often what jobs report is stored; it can be read again from their own reports."""
_TURN = 100
"""Reports that are heard before anybody else has a turn."""
_AHEAD_S = 60.0
"""How far ahead of ours the clock of whoever reports may be."""


class ReportIngest:
    """Takes in what an engine reports.  What one job says can cost that job only."""

    def __init__(
        self,
        ledger: Ledger,
        engine: Engine,
        cluster: ClusterState,
        containment: Containment,
        suspects: Suspects,
        wakeup: Wakeup,
        clock: Clock,
    ) -> None:
        self._ledger, self._engine, self._cluster = ledger, engine, cluster
        self._containment, self._suspects = containment, suspects
        self._wakeup, self._clock = wakeup, clock
        self._untaken: list[Report] = []
        self._unsaved: set[str] = set()
        self._saved_s = 0.0

    async def take_in_turns(self) -> None:
        """What the engine says, so much at a time: in between those are answered who ask."""
        # Kept until they are stored: the engine says nothing twice.
        self._untaken = [*self._untaken, *self._engine.reports()]
        while self._untaken:
            self._take_some()
            if self._untaken:
                await asyncio.sleep(0)

    def take(self, reports: list[Report]) -> None:
        """Take in these reports, all at once."""
        self._untaken = [*self._untaken, *reports]
        while self._untaken:
            self._take_some()

    def _take_some(self) -> None:
        """A turn's reports; ends and starts are stored before the engine may forget them."""
        reports = self._untaken[:_TURN]
        changes = [r for r in reports if isinstance(r, Running | Over)]
        machines = self._cluster.machines()
        busy = machines.busy((places_of(job.row.grant), job.worker.gpus) for job in self._ledger.live.values())
        for report in reports:
            job = self._of(report)
            if job is not None and isinstance(report, Told):
                share = machines.share(job.places, busy)
                self._hear(job, report, share, self._cluster.type_of(job.places))
        if changes:
            self._store_changes(changes)
        self._untaken = self._untaken[_TURN:]
        for report in changes:
            if isinstance(report, Over):
                self._engine.forget(report.attempt)
        self._ledger.drop_ended()

    def _of(self, report: Report) -> LiveJob | None:
        """The job that a report is about, if it is about its latest attempt."""
        job = self._ledger.live.get(report.attempt.job)
        return job if job is not None and job.attempt == report.attempt else None

    def _hear(self, job: LiveJob, report: Told, share: float, accelerator: str | None) -> None:
        if report.number <= job.row.seen or is_set_aside(job.row):
            return
        job.row = replace(job.row, seen=report.number)
        try:
            with self._suspects.looking_at(job.id):
                worth = job.learned.hear(report.event, share, accelerator)
        except Exception as error:  # whatever a job reports
            self._containment.set_aside(job, error)
            return
        if worth:
            self._unsaved.add(job.id)

    def _store_changes(self, changes: list[Running | Over]) -> None:
        """In one transaction; if that fails, one by one, so that it costs only the job whose change it is."""
        try:
            with self._ledger.changing() as t:
                for report in changes:
                    job = self._of(report)
                    if job is not None:
                        self._change(t, job, report)
        except SERVICE_WIDE:
            raise
        except Exception as error:
            if len(changes) == 1:
                self._give_up(changes[0], error)
                return
            for report in changes:
                self._store_changes([report])

    def _give_up(self, report: Running | Over, error: Exception) -> None:
        """A change that cannot be stored: its job is set aside, or has failed if that was its end."""
        job = self._of(report)
        if job is None:
            return
        self._containment.set_aside(job, error)
        if isinstance(report, Over):
            plain = Over(report.attempt, job.row.seen, given_up(unreadable(error)), self._clock())
            with self._ledger.changing() as t:
                self._change(t, job, plain)

    def _change(self, t: Transaction, job: LiveJob, report: Running | Over) -> None:
        report = replace(report, at_s=self._moment(report.at_s))
        if isinstance(report, Running):
            before = job.places
            settled = job.row.state is State.RUNNING or report.workers == places_of(job.row.grant)
            # A report from before the last change does not mean that the places of that change are empty.
            job.places = dict(report.workers) if settled else overlap(job.places, report.workers)
            if job.row.state is State.STARTING:
                job.learned.start_s = max(0.0, report.at_s - job.row.last_change_s)
            outcome = after_running(job, report)
            if outcome is not None or job.places != before:  # a job may say what is known as often as it likes
                self._wakeup.poke("settled")
        else:
            outcome = after_end(job, report)
            job.places = {}
            self._wakeup.poke("finish")
        if outcome is not None:
            self._ledger.follow(t, job, outcome)

    def store_training(self, *, force: bool = False) -> None:
        """Store what jobs have reported of their training, now and then or (``force``) at once."""
        now = self._clock()
        if not self._unsaved or (not force and 0.0 <= now - self._saved_s < _STORE_TRAINING_S):
            return
        self._save_training(
            [job for each in sorted(self._unsaved) if (job := self._ledger.live.get(each)) is not None]
        )
        self._unsaved.clear()
        self._saved_s = now

    def _save_training(self, jobs: list[LiveJob]) -> None:
        try:
            with self._ledger.changing() as t:
                for job in jobs:
                    training, profile = job.learned.training_json(), job.learned.profile_json()
                    job.row = replace(job.row, training=training, profile=profile)
                    t.jobs.save_training(job.row)
        except SERVICE_WIDE:
            raise
        except Exception as error:
            if len(jobs) == 1:
                self._containment.set_aside(jobs[0], error)
                return
            for job in jobs:
                self._save_training([job])

    def _moment(self, at_s: float) -> float:
        """A time that was reported; what cannot have been yet is now."""
        now_s = self._clock()
        return at_s if math.isfinite(at_s) and 0.0 <= at_s <= now_s + _AHEAD_S else now_s

    def look_at_nodes(self) -> bool:
        """Notice nodes that have come, gone or changed; workers on those that were away are gone with them."""
        look = self._cluster.look()
        if look.changed:
            there = self._cluster.answering.keys() - look.restarted
            for job in self._ledger.live.values():
                if not job.places.keys() <= there:
                    job.places = {node: count for node, count in job.places.items() if node in there}
            self._wakeup.poke("node")
        return look.changed
