"""``elastane eta`` says when a job ends, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from elastane.cli.live import connection, options, terminal, times, wait_for_end

if TYPE_CHECKING:
    from elastane.service.messages import Eta, JobSummary

HELP = "When a job will end, as a range, and what that rests on."


def eta_words(eta: Eta | None, now_s: float) -> str:
    """The range as seen from now; a dash where nothing can be said."""
    known = [] if eta is None else [each for each in (eta.low_s, eta.mid_s, eta.high_s) if each is not None]
    return times.until(min(known), max(known), now_s) if known else "–"


def end_words(eta: Eta | None, now_s: float) -> str:
    """The range with what it rests on, or why there is none."""
    words = eta_words(eta, now_s)
    if words == "–":
        return f"not known{_why(eta)}"
    return words + (f" ({terminal.clean(eta.basis)})" if eta and eta.basis else "")


def _why(eta: Eta | None) -> str:
    reason = terminal.clean(eta.basis).removeprefix("unknown").removeprefix(":").strip() if eta else ""
    return f": {reason}" if reason else ""


def command(id: str = options.JOB, as_json: bool = options.AS_JSON) -> None:
    """Prints when a job is expected to end."""
    job = connection.connect().job(id)
    if as_json:
        typer.echo(terminal.document({"id": job.id, "state": job.state, "eta": job.eta}))
        return
    typer.echo(terminal.clean(f"{job.id} ({job.name}) ") + _sentence(job, times.now_s()))


def _sentence(job: JobSummary, now_s: float) -> str:
    if wait_for_end.has_ended(job):
        return f"{job.state} {times.ago(job.ended_s, now_s)}" if job.ended_s else f"has {job.state}"
    known = eta_words(job.eta, now_s) != "–"
    return f"ends {end_words(job.eta, now_s)}" if known else f"has no known end yet{_why(job.eta)}"
