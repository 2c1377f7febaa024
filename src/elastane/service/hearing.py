"""What the engine says about jobs and nodes, taken in: stored before the engine may forget it."""

from __future__ import annotations

from dataclasses import replace

from elastane.engines.contract import Over, Report, Running, Told
from elastane.jobs.states import State
from elastane.lookahead.physics import core_share
from elastane.service.holding import Holding
from elastane.service.live import LiveJob, places_of
from elastane.service.running import after_end, after_running, overlap
from elastane.service.store import Transaction

_STORE_TRAINING_S = 2.0
"""How often what jobs report is stored; it can be read again from their own reports."""


class Hearing(Holding):
    """A control plane that listens."""

    def _take(self, reports: list[Report]) -> None:
        """What the engine says; ends and starts are stored before it may forget them."""
        ended = []
        changes = [r for r in reports if isinstance(r, Running | Over)]
        share = self._share()
        for report in reports:
            job = self.live.get(report.attempt.job)
            if job is not None and job.attempt == report.attempt and isinstance(report, Told):
                self._hear(job, report, share)
        if changes:
            with self.store.transaction() as t:
                for report in changes:
                    job = self.live.get(report.attempt.job)
                    if job is not None and job.attempt == report.attempt:
                        self._change(t, job, report)
            ended = [r.attempt for r in changes if isinstance(r, Over)]
        for attempt in ended:
            self.engine.forget(attempt)
        for job_id in [i for i, job in self.live.items() if job.row.terminal]:
            del self.live[job_id]

    def _hear(self, job: LiveJob, report: Told, share: float) -> None:
        if report.number > job.row.seen:
            job.row = replace(job.row, seen=report.number)
            if job.learned.hear(report.event, share):
                self._unsaved.add(job.id)

    def _share(self) -> float:
        busy = sum(job.row.grant.workers * job.worker.gpus for job in self.live.values() if job.row.grant)
        return core_share(self.settings.cores, busy)

    def _change(self, t: Transaction, job: LiveJob, report: Report) -> None:
        if isinstance(report, Running):
            settled = job.row.state is State.RUNNING or report.workers == places_of(job.row.grant)
            # A report from before the last change does not mean that the places of that change are empty.
            job.places = dict(report.workers) if settled else overlap(job.places, report.workers)
            if job.row.state is State.STARTING:
                job.learned.start_s = max(0.0, report.at_s - job.row.last_change_s)
            outcome = after_running(job, report)
            self.poke("settled")
        else:
            assert isinstance(report, Over)
            outcome = after_end(job, report)
            job.places = {}
            self.poke("finish")
        if outcome is not None:
            self.follow(t, job, outcome)

    def _store_training(self, *, force: bool = False) -> None:
        now = self.clock()
        if not self._unsaved or (not force and 0.0 <= now - self._saved_s < _STORE_TRAINING_S):
            return
        with self.store.transaction() as t:
            for job_id in sorted(self._unsaved):
                job = self.live.get(job_id)
                if job is not None:
                    job.row = replace(
                        job.row, training=job.learned.training_json(), profile=job.learned.profile_json()
                    )
                    t.save_training(job.row)
        self._unsaved.clear()
        self._saved_s = now

    def _look_at_nodes(self) -> None:
        nodes = self.engine.nodes()
        if nodes.keys() != self._nodes.keys():
            with self.store.transaction() as t:
                for name in sorted(nodes.keys() - self._nodes.keys()):
                    t.append_event("node", None, {"node": name, "state": "up"})
                for name in sorted(self._nodes.keys() - nodes.keys()):
                    t.append_event("node", None, {"node": name, "state": "lost"})
            for job in self.live.values():
                job.places = {node: count for node, count in job.places.items() if node in nodes}
            self.poke("node")
        self._nodes = dict(nodes)
