"""Derives the state of a job after an end: what its exit code, or another cause of an end, makes of it.

Pure functions from an engine's report to the next row; ``after_end`` is the table of causes, ``after_running`` the
other kind of report.  What an exit code is called is ``train/exit_cause.py``'s, and its ``Cause`` the engine's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from elastane.codec import encoded
from elastane.engines.contract import Cause, Over, Running
from elastane.jobs.kinds import Kind
from elastane.jobs.states import Event, State
from elastane.service.control.active_job import LiveJob
from elastane.service.store.rows import JobRow

BACKOFF_S, LONGEST_BACKOFF_S = 2.0, 60.0
_UNSAVED = "a command cannot be saved"
MOST_LOSSES = 20
"""Attempts in a row that were lost without a step between them, after which something is wrong with the job."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The next row, by which events, and when it may be tried again."""

    row: JobRow
    steps: tuple[tuple[Event, str], ...] = ()
    retry_in_s: float = 0.0


def retry_at_s(row: JobRow) -> float:
    """Until when a job waits that failed and is to be tried again; 0 for any other."""
    if row.state is not State.QUEUED or not row.failures or not row.reason:
        return 0.0
    return row.last_change_s + backoff_s(row.failures)


def is_set_aside(row: JobRow) -> bool:
    """Whether its processes are being ended without anybody having cancelled it: it has failed."""
    return row.ending == "cancel" and row.state is not State.STOPPING


def backoff_s(failures: int) -> float:
    """How long to wait after so many failures."""
    return min(LONGEST_BACKOFF_S, BACKOFF_S * 2.0 ** (failures - 1))


def after_running(job: LiveJob, report: Running) -> Outcome | None:
    """All workers of a grant run."""
    event = {
        State.STARTING: Event.STARTED,
        State.RESIZING: Event.RESIZED,
        State.LOST: Event.RECOVER,
    }.get(job.row.state)
    if job.row.ending:  # it has been told to leave: what was on its way when it was told means nothing
        event = None
    kind, why = report.kind or job.row.kind, report.why_kind or job.row.kind_reason
    if event is None:
        return Outcome(replace(job.row, kind=kind, kind_reason=why)) if kind != job.row.kind else None
    words = ", ".join(f"{count} on {node}" for node, count in report.workers.items())
    # Time does not run backwards for a ledger, whoever's clock is behind.
    row = job.moved(event, max(report.at_s, job.row.as_of_s))
    seen = max(row.seen, report.number)  # said again later it would be about a change that is over
    return Outcome(replace(row, kind=kind, kind_reason=why, seen=seen), ((event, words),))


def after_end(job: LiveJob, report: Over) -> Outcome:
    """An attempt has ended: what that means depends on why, and on what was wanted."""
    state = job.row.state
    if report.cause is Cause.FINISHED:
        return _end(job, report, Event.FINISH, "")
    if is_set_aside(job.row):
        return _end(job, report, Event.FAIL, job.row.reason)
    if state is State.LOST:
        return _lost(job, report)
    if state is State.STOPPING and job.row.verdict == "reject":
        return _end(job, report, Event.REJECT, job.row.reason)
    if state is State.STOPPING:
        return _end(job, report, Event.STOPPED, job.row.reason or "cancelled")
    if state is State.SUSPENDING and report.cause in (Cause.SUSPENDED, Cause.CANCELLED, Cause.LOST):
        if job.kind is Kind.COMMAND:  # it gave up its place, and with it all it had done
            row = replace(_freed(job, report, Event.LOSE), state=State.QUEUED)
            return Outcome(row, ((Event.LOSE, _UNSAVED), (Event.REQUEUE, "starts over")))
        row = _freed(job, report, Event.SAVED)
        return Outcome(row, ((Event.SAVED, report.detail),))
    if report.cause in (Cause.LOST, Cause.SUSPENDED, Cause.CANCELLED):
        return _lost(job, report)
    if report.cause is not Cause.UNSTARTABLE and job.row.failures < job.spec.retries:
        failures = job.row.failures + 1
        row = replace(_freed(job, report, Event.CRASH), failures=failures, reason=report.detail)
        back = backoff_s(failures)
        row = replace(row, state=State.QUEUED)
        return Outcome(row, ((Event.CRASH, report.detail), (Event.REQUEUE, f"attempt {failures} failed")), back)
    words = f"out of memory: {report.detail}" if report.cause is Cause.OUT_OF_MEMORY else report.detail
    return _end(job, report, Event.FAIL, words)


def _lost(job: LiveJob, report: Over) -> Outcome:
    """None of its doing: it goes on from its checkpoint, free of charge."""
    restarts = job.row.restarts + 1
    if restarts > MOST_LOSSES and not job.learned.fractions:
        return _end(
            job, report, Event.FAIL, f"lost {restarts} times without making any progress: {report.detail}"
        )
    again = (Event.REQUEUE, "starts over" if job.kind is Kind.COMMAND else "goes on from its checkpoint")
    if job.row.state is State.LOST:  # as everybody knows already
        return Outcome(replace(_freed(job, report, Event.REQUEUE), restarts=restarts), (again,))
    row = replace(_freed(job, report, Event.LOSE), state=State.QUEUED, restarts=restarts)
    return Outcome(row, ((Event.LOSE, report.detail), again))


def _end(job: LiveJob, report: Over, event: Event, reason: str) -> Outcome:
    row = replace(_freed(job, report, event), reason=reason, ended_s=report.at_s, code=report.code, held=False)
    return Outcome(row, ((event, reason),))


def _freed(job: LiveJob, report: Over, event: Event) -> JobRow:
    return replace(
        job.moved(event, max(report.at_s, job.row.as_of_s)),
        grant=None,
        ending="",
        seen=report.number,
        exit=encoded(report.exit),
    )


def overlap(places: Mapping[str, int], others: Mapping[str, int]) -> dict[str, int]:
    """Workers by node that either may still have."""
    return {node: max(places.get(node, 0), others.get(node, 0)) for node in {*places, *others}}
