"""A ``Check`` asks one question of a machine; its ``Finding`` says what was found, and whether that was expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

Fact = float | str


class State(Enum):
    """Whether a value is what was expected."""

    OK = "ok"
    ODD = "odd"
    ABSENT = "-"
    """This machine has not what the check needs."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    state: State
    value: str
    expected: str = ""
    facts: Mapping[str, Fact] = field(default_factory=dict)
    """The figures, for whoever compares machines."""


@dataclass(frozen=True, slots=True)
class Setting:
    """What is measured on, and how much."""

    devices: tuple[str, ...]
    """Names of the devices (``visible_as``)."""
    megabytes: tuple[int, ...] = (1, 25, 100, 400)
    repeats: int = 10
    seconds: float = 5.0
    """Of training, where something is measured beside it or by it."""
    patience_s: float = 60.0
    speeds: bool = True
    """Whether times and rates are judged; else only what is right or wrong, since small sizes say little."""

    @property
    def pair(self) -> tuple[str, ...]:
        """Two of them, or the only one."""
        return self.devices[:2]


@dataclass(frozen=True, slots=True)
class Check:
    """A question, by the number that reports call it by."""

    number: int
    title: str
    ask: Callable[[Setting], Finding]


def judged(good: bool, value: str, expected: str, **facts: Fact) -> Finding:
    """A value that was compared with what was expected."""
    return Finding(State.OK if good else State.ODD, value, expected, facts)


def absent(why: str) -> Finding:
    """The check cannot be made on this machine."""
    return Finding(State.ABSENT, f"not available here: {why}")
