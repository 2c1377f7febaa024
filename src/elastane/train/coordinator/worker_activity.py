"""An activity is what a worker is doing, as it says itself with every beat."""

from __future__ import annotations

from enum import StrEnum


class Activity(StrEnum):
    """Where the training thread of a worker is."""

    WARMING = "warming"
    """It has not come to its first step: imports, builds its model."""
    OUTSIDE = "outside"
    """In the script, between steps; or in the optimizer, for which it waits for nobody."""
    COMPUTING = "computing"
    WAITING = "waiting"
    """For the other members of its group."""
    EVALUATING = "evaluating"
    RUNNING = "running"
    """A process of a plain job, of which nothing more is known."""
