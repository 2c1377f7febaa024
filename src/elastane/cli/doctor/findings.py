"""A ``Finding`` is one thing that was looked at: what it is like, whether that is well, and the line that mends it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    """Whether something has to be done."""

    GOOD = "ok"
    NOTE = "note"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something looked at; ``remedy`` is a command or a line to write where."""

    topic: str
    told: str
    state: State = State.GOOD
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """Returns the finding as JSON values, for ``--json``."""
        return {"topic": self.topic, "told": self.told, "state": self.state.value, "remedy": self.remedy}


def note(topic: str, told: str, remedy: str = "") -> Finding:
    """Good enough, but somebody should know."""
    return Finding(topic, told, State.NOTE, remedy)


def wrong(topic: str, told: str, remedy: str) -> Finding:
    """Something does not work like this."""
    return Finding(topic, told, State.WRONG, remedy)
