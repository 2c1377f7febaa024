"""Jobs about to end keep their place: to suspend and restart one would take longer than to let it finish.

What a job says of its progress is only its word, so an attempt is protected for as long as a few restarts take.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from elastane.scheduling.facts import JobFacts
from elastane.service.control.job_measurements import JobMeasurements
from elastane.service.store.rows import JobRow

_DOUBT = 2.0
"""How many times longer than expected an end may take before a node is taken away."""
_RESTARTS = 3.0
"""How long the end of an attempt may take, in times that a suspension and a restart would."""


class LiveJob(Protocol):
    """What has to be known here of an ``active_job.LiveJob``."""

    row: JobRow
    learned: JobMeasurements
    finish: Finish


@dataclass(slots=True)
class Finish:
    """Since when an attempt has been about to end; one whose worker dies then is about to end nevertheless."""

    attempt: int = -1
    since_s: float | None = None

    def near(self, job: LiveJob, now_s: float) -> bool:
        """Whether the job should be left alone until it is done."""
        if job.row.attempt != self.attempt:
            self.attempt, self.since_s = job.row.attempt, None
        again_s = job.learned.restart.estimate().mean + job.learned.start_s
        if self.since_s is None:
            left_s = seconds_left(job.learned, now_s)
            if left_s is None or left_s > again_s:
                return False
            self.since_s = now_s
        return now_s - self.since_s <= _RESTARTS * again_s


def seconds_left(learned: JobMeasurements, now_s: float) -> float | None:
    """Seconds to its end at the pace of its latest windows; None when nobody can tell."""
    if len(learned.fractions) < 2:
        return None
    (began_s, begun), (seen_s, done) = learned.fractions[0], learned.fractions[-1]
    if done <= begun or seen_s <= began_s:
        return None
    return max(0.0, (1.0 - done) * (seen_s - began_s) / (done - begun) - max(0.0, now_s - seen_s))


def left_alone(job: LiveJob, facts: JobFacts, now_s: float, until_s: float = math.inf) -> JobFacts:
    """State a job that runs and is about to end as one that must not be preempted; any other as it is.

    One of its nodes may be taken away at ``until_s``: who would not be done by then has to move.
    """
    row = job.row
    asked = row.pinned_workers is not None or row.pinned_node is not None or row.held
    if row.grant is None or asked or not job.finish.near(job, now_s):
        return facts
    left_s = seconds_left(job.learned, now_s) if until_s < math.inf else 0.0
    if left_s is None or now_s + left_s * _DOUBT >= until_s:
        return facts
    return replace(facts, request=replace(facts.request, preemptible=False))
