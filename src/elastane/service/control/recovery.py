"""Takes up the jobs of the last control plane, but for those that this one cannot hold or that killed others."""

from __future__ import annotations

import logging
from collections import Counter

from elastane.engines.contract import Engine
from elastane.errors import ElastaneError
from elastane.jobs.states import HOLDING
from elastane.service.control.active_job import LiveJob
from elastane.service.control.containment import Containment
from elastane.service.control.crash_suspects import FAILED, Suspects
from elastane.service.control.ledger import Clock, Ledger
from elastane.service.control.state_after_end import LONGEST_BACKOFF_S, overlap, retry_at_s
from elastane.service.store.rows import JobRow
from elastane.service.wording import counted

log = logging.getLogger("elastane")


class Recovery:
    """From active rows in the store to jobs in the ledger.  ``problems`` is what people should know about it."""

    def __init__(self, ledger: Ledger, containment: Containment, suspects: Suspects, clock: Clock) -> None:
        self._ledger, self._containment = ledger, containment
        self._suspects, self._clock = suspects, clock
        self.problems: list[str] = []

    def take_up_jobs(self) -> None:
        """Hold all jobs again that have not ended."""
        rows = self._ledger.store.jobs.active()
        self._suspects.keep_only({row.id for row in rows})
        for row in rows:
            self._take_up(row)

    def release(self, row: JobRow) -> None:
        """Look at a job again that was set aside; if it still cannot be read, it stays out."""
        self._suspects.release(row.id)
        self._take_up(row)

    def judge_suspects(self, accelerators: tuple[str, ...]) -> None:
        """Set aside whom two starts in a row died over; if it is not known over whom, look at one after the other."""
        for job in list(self._ledger.live.values()):
            if self._suspects.strikes(job.id) >= FAILED:
                problem = ElastaneError("Elastane died twice while it looked at them")
                self._containment.set_aside(job, problem)
        if self._suspects.nobody:
            self._containment.set_aside_unreadable(accelerators)

    def find_workers(self, engine: Engine) -> None:
        """See where workers still are: what has not left yet is nowhere in the store."""
        for job in self._ledger.live.values():
            if job.holding:
                there = Counter(worker.node for worker in engine.processes(job.attempt))
                job.places = overlap(job.places, there)

    def _take_up(self, row: JobRow) -> None:
        """Hold a job again, unless it can be read no more or a start died over it."""
        if self._suspects.strikes(row.id):
            self._set_aside(row)
            return
        try:
            with self._suspects.looking_at(row.id):
                job = LiveJob.of(row)
                # A clock that was set back since then must not keep it waiting.
                job.retry_s = min(retry_at_s(row), self._clock() + LONGEST_BACKOFF_S)
                self._ledger.add(job)
        except Exception as error:  # whatever an earlier version, or a job, left there
            words = " ".join(str(error).split())[:200]
            self._leave_out(
                row, f"is left alone until the next start: what is stored of it cannot be read ({words})"
            )

    def _set_aside(self, row: JobRow) -> None:
        """Without looking at it; with two deaths on its account its processes, if it has any, are ended."""
        if self._suspects.strikes(row.id) >= FAILED and row.state in HOLDING:
            self._ledger.add(LiveJob.unlooked(row))
            return
        deaths = counted(self._suspects.strikes(row.id), "start")
        when = "" if self._suspects.strikes(row.id) >= FAILED else "the next start tries it again; "
        self._leave_out(
            row,
            f"is set aside: {deaths} of Elastane died while looking at it; "
            f"{when}an administrator's 'elastane resume {row.id}' does so now",
        )

    def _leave_out(self, row: JobRow, why: str) -> None:
        log.warning("job %s %s", row.id, why)
        self._ledger.leave_out(row, f"it {why}")
        self.problems.append(f"job {row.id} {why}")
