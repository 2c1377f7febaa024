"""Work that is only pretended: how much there is, how fast it goes, and how far one attempt of it has come.

The engine that has it done is ``fake``; nothing here knows of other attempts, of nodes or of what is due when.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import Enum, auto

from elastane.cluster import Grant
from elastane.engines.contract import Launch, Report
from elastane.train.reports.events import Resized, ResizeKind, Stepped

Places = dict[str, int]
"""Workers by node."""

_KEPT = 256
"""Reports of an attempt that can be told again to the next control plane."""


@dataclass(frozen=True, slots=True)
class FakeWork:
    """What there is to do, and how fast: a step computes its batch in equal shares and then synchronises.

    A job says it in its environment: ``FAKE_SAMPLES=6400``, ``FAKE_SYNC_S=0.01``, and so on.
    """

    samples: float = 3200.0
    batch: float = 32.0
    sample_s: float = 0.01
    sync_s: float = 0.0
    slots: float = 1.0
    """Slots that one worker takes."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> FakeWork:
        """As the job says."""
        said = {f.name: environment.get(f"FAKE_{f.name.upper()}") for f in fields(cls)}
        return cls(**{name: float(text) for name, text in said.items() if text is not None})

    def compute_s(self, workers: int, speed: float = 1.0) -> float:
        """Seconds that a step computes, on accelerators of this speed."""
        return self.sample_s * self.batch / workers / speed

    def pause_s(self, workers: int, nodes: int) -> float:
        """Seconds that a step synchronises; twice as long between nodes."""
        return self.sync_s * (min(nodes, 2) if workers > 1 else 0)

    def rate(self, workers: int, nodes: int, speed: float = 1.0) -> float:
        """Samples per second: the speed law."""
        return self.batch / (self.compute_s(workers, speed) + self.pause_s(workers, nodes)) if workers else 0.0


@dataclass(frozen=True, slots=True)
class Delays:
    """How long things take, and how often a job says how it fares."""

    start_s: float = 1.0
    resize_s: float = 1.0
    leave_s: float = 1.0
    window_s: float = 1.0


class Phase(Enum):
    """Where an attempt is."""

    STARTING = auto()
    RUNNING = auto()
    MOVING = auto()
    LEAVING = auto()
    OVER = auto()


@dataclass(slots=True, eq=False)
class Run:
    """One attempt, as it really is."""

    launch: Launch
    work: FakeWork
    number: int
    done: float
    as_of_s: float
    phase: Phase = Phase.STARTING
    grant: Grant | None = None
    wish: Places = field(default_factory=dict)
    held: Places = field(default_factory=dict)
    """Who trains."""
    taken: Places = field(default_factory=dict)
    """Who is there: those who train, those who come and those who have not left yet."""
    step: int = 0
    safe: float = 0.0
    """What is done for certain, should it end badly."""
    speed: float = 1.0
    """Of the accelerators it trains on, relative to what the job says of its work."""
    turn: int = 0
    """Raised when what was going to happen will not."""
    asked: bool = True
    """Whether the present control plane knows of it."""
    kept: deque[Report] = field(default_factory=lambda: deque(maxlen=_KEPT))

    @property
    def one_size(self) -> bool:
        """Whether it has to have all its workers."""
        return self.launch.kind == "command"

    def rate(self) -> float:
        """Samples per second now."""
        if self.phase is not Phase.RUNNING:
            return 0.0
        return self.work.rate(sum(self.held.values()), len(self.held), self.speed)

    def advance(self, at_s: float) -> None:
        """Compute the work that was done until a time."""
        self.done += self.rate() * max(0.0, at_s - self.as_of_s)
        self.as_of_s = at_s

    def settle(self, places: Places, pause_s: float, hurt: bool, at_s: float) -> Resized:
        """Train with these from now on."""
        before, after = sum(self.held.values()), sum(places.values())
        kind = _kind(self.phase, before, after, hurt)
        self.advance(at_s)
        self.held, self.phase = dict(places), Phase.RUNNING
        return Resized(at_s, self.turn, kind, before, after, self.step, pause_s)

    def window(self, at_s: float) -> Stepped:
        """Report the training of the last window."""
        self.advance(at_s)
        work, workers, nodes = self.work, sum(self.held.values()), len(self.held)
        compute_s, sync_s = work.compute_s(workers, self.speed), work.pause_s(workers, nodes)
        before, self.step, self.safe = self.step, int(self.done / work.batch), self.done
        return Stepped(
            at_s,
            step=self.step,
            epoch=0,
            workers=workers,
            batch=int(work.batch),
            steps=self.step - before,
            step_s=compute_s + sync_s,
            progress=self.done / work.batch,
            fraction=min(1.0, self.done / work.samples),
            nodes=nodes,
            per_worker=max(1, math.ceil(work.batch / workers)),
            compute_s=compute_s,
            sync_s=sync_s,
            samples_per_s=self.rate(),
        )


def union(one: Places, other: Places) -> Places:
    """Workers by node that either has."""
    return {node: max(one.get(node, 0), other.get(node, 0)) for node in {**one, **other}}


def change(before: Places, after: Places) -> Places:
    """Workers by node that came, or (negative) went."""
    return {node: after.get(node, 0) - before.get(node, 0) for node in {**before, **after}}


def _kind(phase: Phase, before: int, after: int, hurt: bool) -> ResizeKind:
    if phase is Phase.STARTING:
        return "start"
    if hurt:
        return "recover"
    return "grow" if after > before else "shrink" if after < before else "move"
