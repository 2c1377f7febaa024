"""Writes a line for everything that happens, from training events and from the states of jobs and nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elastane.jobs.states import TERMINAL
from elastane.kit.durations import duration
from elastane.service.messages import JobSummary, NodeInfo
from elastane.train.reports.events import Event, Rebatched, Resized
from elastane.train.reports.wording import milliseconds, workers

_LOST = "lost"
_SUSPENDED = "suspended"
_ENDED = frozenset(state.value for state in TERMINAL)


@dataclass(frozen=True, slots=True)
class Line:
    """A sentence and its moment, in Unix seconds."""

    at_s: float
    text: str


def line_of(job: str, event: Event, *, again: bool = False) -> Line | None:
    """Describes a training event in one line, or None for minor ones; ``again``: the job has trained before."""
    match event:
        case Resized(kind="start"):
            goes_on = f" again, on from step {event.step:,}," if again else ""
            return Line(event.at_s, f"{job} trains{goes_on} with {workers(event.after)}")
        case Resized(kind="recover"):
            redone = f", {event.redone_steps} step{'s' * (event.redone_steps != 1)} done again"
            words = f"{job} trains again with {workers(event.after)} after {milliseconds(event.pause_s)}"
            return Line(event.at_s, words + redone)
        case Resized(kind="move"):
            size = workers(event.after)
            return Line(event.at_s, f"{job} moved to other slots, {size}, in {milliseconds(event.pause_s)}")
        case Resized():
            verb = "grew" if event.kind == "grow" else "shrank"
            change = f"{event.before}→{event.after}"
            return Line(event.at_s, f"{job} {verb} {change} in {milliseconds(event.pause_s)}")
        case Rebatched():
            return Line(event.at_s, f"{job} changed its batch {event.before:,}→{event.after:,}")
    return None


class Narrator:
    """Keeps the last state of jobs and nodes, to report what has changed."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._lost_s: dict[str, float] = {}

    def about_jobs(self, jobs: Iterable[JobSummary], now_s: float) -> list[Line]:
        """Returns a line for each job that has been suspended or has ended."""
        lines = []
        for job in jobs:
            before, self._states[job.id] = self._states.get(job.id), job.state
            if job.state == before:
                continue
            if job.state == _SUSPENDED:
                lines.append(Line(now_s, f"{job.name} is saved and waits: others get its slots"))
            elif job.state in _ENDED:
                end_s = job.ended_s or now_s
                why = f": {job.reason}" if job.reason else ""
                lines.append(
                    Line(end_s, f"{job.name} {job.state} after {duration(end_s - job.submitted_s)}{why}")
                )
        return lines

    def about_nodes(self, nodes: Sequence[NodeInfo], now_s: float) -> list[Line]:
        """Returns a line for each node that was lost and is back."""
        lines = []
        for node in nodes:
            if node.state == _LOST:
                self._lost_s.setdefault(node.id, now_s)
            elif node.id in self._lost_s:
                away_s = now_s - self._lost_s.pop(node.id)
                lines.append(Line(now_s, f"{node.id} is back after {duration(away_s)} with a new agent"))
        return lines
