"""Contains what one job does to the control plane: that job is set aside, and everything else goes on."""

from __future__ import annotations

import logging
from dataclasses import replace

from elastane.policies.view import Info
from elastane.service.control.active_job import LiveJob
from elastane.service.control.crash_suspects import Suspects
from elastane.service.control.engine_driver import EngineDriver
from elastane.service.control.job_measurements import JobMeasurements, fit_together
from elastane.service.control.ledger import Ledger
from elastane.service.store import StaleControlPlane, StoreError

log = logging.getLogger("elastane")

SERVICE_WIDE = (StaleControlPlane, StoreError)
"""Failures that are no single job's."""
_EVERYTHING = ~Info.NONE
_LONGEST_WORDS = 200


def unreadable(error: Exception) -> str:
    """Why a job is set aside, for its owner."""
    words = " ".join(str(error).split())[:_LONGEST_WORDS].encode("utf-8", "backslashreplace").decode()
    return f"its reports cannot be read ({words or type(error).__name__})"


class Containment:
    """Sets jobs aside that nothing can be made of."""

    def __init__(self, ledger: Ledger, driver: EngineDriver, suspects: Suspects) -> None:
        self._ledger, self._driver, self._suspects = ledger, driver, suspects

    def set_aside(self, job: LiveJob, error: Exception) -> None:
        """Forget what was learned of a job; if it has processes they end, and it has failed."""
        log.error("job %s is set aside", job.id, exc_info=error)
        job.learned = JobMeasurements(job.row.kind)
        row = replace(job.row, training={}, profile={})
        if job.holding and not job.leaving:
            row = replace(row, ending="cancel", reason=unreadable(error))
        with self._ledger.changing() as t:
            t.jobs.save_job(row)
            job.row = row
        self._driver.ensure(job)

    def set_aside_unreadable(self, accelerators: tuple[str, ...]) -> bool:
        """Find the jobs that no view can be made of; whether there were any."""
        found = False
        for job in list(self._ledger.live.values()):
            try:
                with self._suspects.looking_at(job.id):
                    fit_together([job.learned])
                    job.view(job.facts(1, accelerators), _EVERYTHING)
            except Exception as error:  # whatever was made of its reports
                self.set_aside(job, error)
                found = True
        return found
