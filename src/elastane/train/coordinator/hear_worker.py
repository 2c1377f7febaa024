"""Tells the coordinator what a worker's message means."""

from __future__ import annotations

from elastane.train.coordinator.actions import Action
from elastane.train.coordinator.elastic_coordinator import Coordinator
from elastane.train.coordinator.messages import (
    Apart,
    Built,
    CaughtUp,
    Done,
    Entered,
    Failed,
    FromWorker,
    Lagging,
    Leave,
    Left,
    LoopBegins,
    Parts,
    Ready,
    Strayed,
    WorkerBeat,
)

_LONGEST_WHY = 500
_LONGEST_S = 1e12
_OfSteps = Entered | Failed | Strayed | LoopBegins | Left | Leave | Done


def seconds(value: object) -> float:
    """A duration that a worker measured; what is none counts as not measured."""
    return float(value) if isinstance(value, int | float) and 0.0 <= value < _LONGEST_S else 0.0


def told(coordinator: Coordinator, name: str, message: FromWorker, now: float) -> list[Action]:
    """What the coordinator makes of a worker's message."""
    match message:
        case WorkerBeat(step, doing, cpu_s):
            return coordinator.beat(name, step, doing, now, cpu_s)
        case Parts(samples):
            return coordinator.parts(name, samples, now)
        case Entered() | Failed() | Strayed() | LoopBegins() | Left() | Leave() | Done():
            return _told_of_steps(coordinator, name, message, now)
        case Ready(signature, stream, device, stored):
            return coordinator.ready(name, signature, stream, now, device, stored)
        case Built(generation, lacking):
            return coordinator.built(name, generation, now, lacking[:_LONGEST_WHY])
        case CaughtUp(generation):
            return coordinator.caught_up(name, generation, now)
        case Lagging(generation, why):
            return coordinator.lagging(name, generation, why, now)
        case Apart(generation, why):
            return coordinator.apart(name, generation, why[:_LONGEST_WHY], now)
        case _:  # said at its hello, or passed on
            return []


def _told_of_steps(coordinator: Coordinator, name: str, message: _OfSteps, now: float) -> list[Action]:
    match message:
        case Entered(generation, step):
            return coordinator.entered(name, generation, step, now)
        case Failed(generation, applied, why):
            return coordinator.failed(name, generation, applied, why, now)
        case Strayed():
            return coordinator.strayed(name, now)
        case LoopBegins(generation):
            return coordinator.loop_begins(name, generation, now)
        case Left():
            return coordinator.left(name, now)
        case Leave():
            return coordinator.resize(coordinator.target, now, [name])
        case Done(step):
            return coordinator.done(name, step, now)
