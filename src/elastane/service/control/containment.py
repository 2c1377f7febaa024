"""What one job does to the control plane costs that job only: it is set aside, and everything else goes on."""

from __future__ import annotations

import logging
import math
from dataclasses import replace

from elastane.engines.contract import Report
from elastane.policies.view import Info
from elastane.service.control.active_job import LiveJob
from elastane.service.control.job_measurements import Learned, fit_together
from elastane.service.control.state import Holding
from elastane.service.store import StaleControlPlane, StoreError

log = logging.getLogger("elastane")

SERVICE_WIDE = (StaleControlPlane, StoreError)
"""Failures that are no single job's."""
EVERYTHING = ~Info.NONE
_AHEAD_S = 60.0
_LONGEST_WORDS = 200


def unreadable(error: Exception) -> str:
    """Why a job is set aside, for its owner."""
    words = " ".join(str(error).split())[:_LONGEST_WORDS].encode("utf-8", "backslashreplace").decode()
    return f"its reports cannot be read ({words or type(error).__name__})"


class Containing(Holding):
    """A control plane that goes on without a job it cannot make sense of."""

    _untaken: list[Report] = []  # noqa: RUF012 (replaced, never changed)

    def set_aside(self, job: LiveJob, error: Exception) -> None:
        """Forget what was learned of a job; if it has processes they end, and it has failed."""
        log.error("job %s is set aside", job.id, exc_info=error)
        job.learned = Learned(job.row.kind)
        self._unsaved.discard(job.id)
        row = replace(job.row, training={}, profile={})
        if job.holding and not job.leaving:
            row = replace(row, ending="cancel", reason=unreadable(error))
        with self.changing() as t:
            t.save_job(row)
            job.row = row
        self.ensure(job)

    def set_aside_unreadable(self) -> bool:
        """Find the jobs that no view can be made of; whether there were any."""
        found = False
        for job in list(self.live.values()):
            try:
                with self.suspects.looking_at(job.id):
                    fit_together([job.learned])
                    job.view(job.facts(1, self.accelerator()), EVERYTHING)
            except Exception as error:  # whatever was made of its reports
                self.set_aside(job, error)
                found = True
        return found

    def _moment(self, at_s: float) -> float:
        """A time that was reported; what cannot have been yet is now."""
        now_s = self.clock()
        return at_s if math.isfinite(at_s) and 0.0 <= at_s <= now_s + _AHEAD_S else now_s
