"""Computes the pause of every change of a job's workers, from the events that the job reported."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from elastane.train.reports.events import Ended, Event, Resized, WorkerLost

RECOVER, START = "recover", "start"


@dataclass(frozen=True, slots=True)
class Pause:
    """One change of a job's workers: its moment (Unix seconds), its kind, and the seconds without training."""

    at_s: float
    kind: str
    before: int
    after: int
    pause_s: float


def pauses_of(events: Iterable[Event]) -> list[Pause]:
    """Returns the changes of one job in order; a start counts only where all workers had been lost together."""
    found: list[Pause] = []
    workers, lost_s = 0, None
    for event in events:
        match event:
            case WorkerLost():
                lost_s = event.at_s if lost_s is None else lost_s
            case Ended():
                lost_s = None  # what follows is another attempt, which began when slots were free
            case Resized(kind="start"):
                if lost_s is not None:  # no worker survived to report how long it took
                    found.append(Pause(event.at_s, RECOVER, workers, event.after, event.at_s - lost_s))
                workers, lost_s = event.after, None
            case Resized():
                found.append(Pause(event.at_s, event.kind, event.before, event.after, event.pause_s))
                workers, lost_s = event.after, None
    return found
