"""Waits for a job to end, and says which exit code its end stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from elastane.cli.live import terminal, times
from elastane.cli.live.exit_codes import ExitCode

if TYPE_CHECKING:
    from elastane.client.client import Client
    from elastane.service.messages import JobDetail, JobSummary

_EVERY_S = 1.0


def has_ended(job: JobSummary) -> bool:
    """Whether a job has reached a final state."""
    from elastane.jobs.states import TERMINAL

    return job.state in {state.value for state in TERMINAL}


def wait(client: Client, id: str, changed: Callable[[JobDetail], None] | None = None) -> JobDetail:
    """The job once it has ended; ``changed`` hears of every new state and size on the way."""
    seen = None
    while True:
        job = client.job(id)
        if changed is not None and (job.state, job.workers) != seen:
            seen = job.state, job.workers
            changed(job)
        if has_ended(job):
            return job
        times.pause(_EVERY_S)


def tell(job: JobDetail) -> None:
    """One line about a change, for people who watch."""
    workers = f" with {times.counted(job.workers, 'worker')}" if job.workers else ""
    reason = f": {job.reason}" if job.reason else ""
    terminal.say(f"{job.id} ({job.name}) {job.state}{workers}{reason}")


def code_of_end(job: JobSummary) -> ExitCode:
    """The exit code for a job's final state."""
    from elastane.jobs.states import State

    ends = {State.SUCCEEDED: ExitCode.OK, State.CANCELLED: ExitCode.JOB_CANCELLED}
    return next((code for state, code in ends.items() if state.value == job.state), ExitCode.JOB_FAILED)
