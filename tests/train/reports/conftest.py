"""A run as it might have been: it grows, loses a worker, adapts its batch and ends."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest

from elastane.models.goodput import BatchLimits
from elastane.models.throughput import ThroughputParams
from elastane.train.reports.events import (
    Ended,
    Evaluated,
    Event,
    Fitted,
    Rebatched,
    Resized,
    Saved,
    Started,
    Stepped,
    Straggler,
    Warned,
    WorkerJoined,
    WorkerLost,
)

START_S = 1_700_000_000.0

Window = Callable[..., Stepped]

CHANGES = {
    30: Resized(
        0, 2, "grow", 1, 2, 300, 0.012, {"agree": 0.002, "switch": 0.004, "first_step": 0.006}, shadow=True
    ),
    90: Resized(
        0, 3, "grow", 2, 4, 1400, 0.094, {"agree": 0.002, "build": 0.05, "state": 0.04, "first_step": 0.002}
    ),
    150: Resized(
        0, 4, "recover", 4, 3, 3400, 0.41, {"detect": 0.12, "plan": 0.02, "build": 0.2}, redone_steps=1
    ),
    200: Resized(0, 5, "shrink", 3, 2, 4600, 0.031, {"agree": 0.002, "build": 0.02, "first_step": 0.009}),
}


@pytest.fixture(scope="session")
def run() -> tuple[Event, ...]:
    """A run of four minutes."""
    return tuple(made_up_run(240))


@pytest.fixture(scope="session")
def window() -> Window:
    """Builds the figures of one second: seconds since the start, steps done, workers, batch."""
    return made_up_window


def made_up_window(
    at: float, step: int = 10, workers: int = 2, batch: int = 128, seconds: int = 240
) -> Stepped:
    noise = 200.0 + 10.0 * at
    efficiency = (noise + 128) / (noise + batch)
    rate = 900.0 * workers**0.9 * (1.0 + 0.02 * math.sin(at))
    return Stepped(
        START_S + at, step=step, epoch=int(at) // 40, workers=workers, batch=batch,
        steps=max(1, round(rate / batch)), epochs=6, step_s=batch / rate,
        progress=step * 0.9, fraction=at / seconds, generation=1, nodes=1,
        per_worker=batch // workers, loss=2.3 * math.exp(-at / 60) + 0.05, metrics={"accuracy": at / 300},
        compute_s=0.08 / workers, sync_s=0.02, samples_per_s=rate, noise=noise, gain=1.2, efficiency=efficiency,
        goodput=rate * efficiency,
    )  # fmt: skip


def made_up_run(seconds: int) -> Iterator[Event]:
    """One window a second, and everything that can happen besides."""
    yield Started(START_S, "digits-7", "digits.py", "adaptive", 1, 128, 7, {"torch": "2.13.0"})
    yield Resized(START_S + 0.4, 1, "start", 0, 1, 0, 0.4, {"fork": 0.3, "build": 0.1})
    step, workers, batch = 0, 1, 128
    for at in range(1, seconds):
        if at in CHANGES:
            change = CHANGES[at]
            if change.kind == "recover":
                yield WorkerLost(START_S + at - 0.5, "w3", "killed by signal 9", step)
            workers = change.after
            yield from _changed(at, change, step)
        if at in (60, 120):
            yield Rebatched(START_S + at, step, batch, batch * 4, "goodput + 23 %")
            batch *= 4
        step += made_up_window(at, step, workers, batch).steps
        yield made_up_window(at, step, workers, batch, seconds)
        yield from _now_and_then(at, step)
    yield Ended(START_S + seconds, "finished", "", step, float(seconds))


def _changed(at: int, change: Resized, step: int) -> Iterator[Event]:
    yield Resized(
        START_S + at, change.generation, change.kind, change.before, change.after, step, change.pause_s,
        change.breakdown, change.shadow, change.redone_steps,
    )  # fmt: skip
    if change.kind == "grow":
        yield WorkerJoined(START_S + at, f"w{change.after - 1}", step)


def _now_and_then(at: int, step: int) -> Iterator[Event]:
    if at % 50 == 0:
        yield Saved(START_S + at, step, 8_000_000, 0.003, 0.12)
    if at % 40 == 0:
        yield Evaluated(START_S + at, at // 40, step, {"accuracy": 0.9 + at / 3000})
    if at == 70:
        params = ThroughputParams(0.01, 0.0001, 0.02, 0.001, 0.005, 0.0005, 2.0)
        yield Fitted(START_S + at, params, 900.0, BatchLimits(128, 4096, 8, 512), 2)
    if at == 110:
        yield Straggler(START_S + at, "w2", 310.0, 900.0)
    if at == 100:
        yield Warned(
            START_S + at, "checkpoint step-900 is torn and was passed over; the one of step 800 was used"
        )
