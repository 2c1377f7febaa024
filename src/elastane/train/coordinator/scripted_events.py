"""Scripted events happen to a job on the way, as its owner wrote them: resizes, and faults made on purpose."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from elastane.train.coordinator.actions import Action
from elastane.train.coordinator.contract import Decider
from elastane.train.errors import TrainError


@dataclass(frozen=True, slots=True)
class Wish:
    """Something to be done ``at`` seconds after training began, or once it has made ``at`` steps."""

    at: float
    action: str
    """``resize``, ``kill``, ``kill-leader`` or ``stop`` (freeze)."""
    workers: int = 0
    steps: bool = False
    settled: bool = False
    """Not before the last change of members is complete."""


def parse_wishes(resize: str | None, chaos: Sequence[str]) -> tuple[Wish, ...]:
    """``1:30s,4:60s`` and ``kill:45s`` as wishes; ``kill:500steps`` counts steps instead of seconds."""
    wishes = []
    for part in (resize or "").split(","):
        if part.strip():
            count, at, steps = _parts(part, "--resize", "WORKERS:TIME, as in 4:60s or 4:500steps")
            if not count.isdigit() or int(count) < 1:
                raise TrainError(f"--resize: {count!r} is not a number of workers")
            wishes.append(Wish(at, "resize", int(count), steps))
    for part in ",".join(chaos).split(","):
        if part.strip():
            action, at, steps = _parts(part, "--chaos", "WHAT:TIME, as in kill:45s or kill:500steps")
            if action not in ("kill", "kill-leader", "stop"):
                raise TrainError(f"--chaos: {action!r} is not one of kill, kill-leader, stop")
            wishes.append(Wish(at, action, steps=steps))
    return tuple(sorted(wishes, key=lambda wish: wish.at))


def _parts(text: str, option: str, form: str) -> tuple[str, float, bool]:
    what, _, when = text.strip().partition(":")
    number = when.removesuffix("steps").removesuffix("s")
    try:
        return what, float(number), when.endswith("steps")
    except ValueError:
        raise TrainError(f"{option}: {text.strip()!r} is not {form}") from None


class Stage(Protocol):
    """What scripted events act on; a ``CoordinationServer``."""

    @property
    def coordinator(self) -> Decider:
        """Who decides over the job."""
        ...

    @property
    def now_s(self) -> float:
        """Seconds on the coordinator's clock."""
        ...

    def perform(self, actions: list[Action]) -> None:
        """Carry out what the coordinator decided."""
        ...

    def signal(self, worker: str, number: int) -> None:
        """Send a signal to a worker's process."""
        ...


async def grant_all(stage: Stage, wishes: Iterable[Wish], chance: random.Random) -> None:
    """Make every wish come true at its time, one after the other; the clock starts when training does."""
    while stage.coordinator.current is None:
        await asyncio.sleep(0.02)
    began_s = time.monotonic()
    for wish in wishes:
        while not _is_due(stage.coordinator, wish, time.monotonic() - began_s):
            await asyncio.sleep(0.01)
        victim = grant(stage, wish, chance)
        while wish.settled and victim and stage.coordinator.workers[victim].alive:
            await asyncio.sleep(0.01)


def _is_due(coordinator: Decider, wish: Wish, elapsed_s: float) -> bool:
    due = (coordinator.step if wish.steps else elapsed_s) >= wish.at
    return due and (not wish.settled or coordinator.settled)


def grant(stage: Stage, wish: Wish, chance: random.Random) -> str | None:
    """Resize, or break something on purpose; returns the worker that was hit."""
    coordinator = stage.coordinator
    if wish.action == "resize":
        stage.perform(coordinator.resize(wish.workers, stage.now_s))
        return None
    members = coordinator.current.members if coordinator.current else ()
    if not members:
        return None
    victim = members[0] if wish.action == "kill-leader" else chance.choice(members)
    stage.signal(victim, signal.SIGSTOP if wish.action == "stop" else signal.SIGKILL)
    return victim
