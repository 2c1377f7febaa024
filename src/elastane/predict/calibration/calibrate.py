"""Measures a profile of this machine within a given time."""

from __future__ import annotations

import math
import os
import platform
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np
import torch

from elastane.codec import decoded, encoded
from elastane.predict.calibration.measuring_process import in_child
from elastane.predict.calibration.networks import network
from elastane.predict.calibration.reference_work import Clock
from elastane.predict.calibration.timing import Bench, MeasuredStep, clock
from elastane.predict.capturing import capture
from elastane.predict.composition import WholeStep
from elastane.predict.costs.monotone import Monotone
from elastane.predict.costs.ratio import RatioModel
from elastane.predict.devices import Device, Link
from elastane.predict.job import JobFactory, TrainingJob
from elastane.predict.profile import Measured, Profile

SECONDS = 100.0
PASSES = 3
SHARES = (0.46, 0.92)
"""Fractions of the time at which the passes over all networks end; the rest is for fitting."""
FOLDS = 10
"""Folds of the cross-validation: few networks are left out at a time, since a model of fewer is a worse one."""
AT_MOST = 84
"""Networks at most: more would add little."""

Progress = Callable[[float, str], None]


def calibrate(
    seconds: float = SECONDS,
    seed: int = 0,
    progress: Progress = lambda _done, _text: None,
    own: Sequence[tuple[JobFactory, int]] = (),
) -> Profile:
    """Measures this machine for about so many seconds; ``progress`` gets the fraction done.

    ``own`` are jobs of the user's with their batches, measured before all others.
    Networks are drawn until half of the time is over; the other half measures the same ones again in another order,
    so that a disturbance of minutes does not fall on some of them alone.
    """
    began, ticks = time.monotonic(), clock()

    def drawn(index: int) -> tuple[TrainingJob, int]:
        """Makes the network of a number; numbers below 0 are the user's jobs."""
        return (own[index][0](), own[index][1]) if index < 0 else network(seed, index)

    prepare()
    device = decoded(Device, in_child(lambda: encoded(probe_device(ticks))))
    rounds: list[dict[int, MeasuredStep]] = []
    order = [*range(-len(own), 0), *range(AT_MOST)]
    for share in SHARES:
        steps: dict[int, MeasuredStep] = {}
        for index in order:
            steps[index] = measure_drawn(partial(drawn, index), ticks)
            spent = time.monotonic() - began
            progress(min(spent / seconds, 1.0), f"{len(steps)} networks, pass {len(rounds) + 1}")
            if spent > share * seconds:
                break
        rounds.append(steps)
        order = random.Random(seed).sample(sorted(steps), len(steps))
    return profile_of(rounds, device)


def prepare() -> None:
    """Imports here what every child process would import again; a capture computes nothing, so no threads start."""
    for index in range(3):
        capture(lambda index=index: network(0, index)[0], 1)  # type: ignore[misc]


def measure_drawn(drawn: Callable[[], tuple[TrainingJob, int]], ticks: Clock) -> MeasuredStep:
    """Makes and measures a network in a child process, so that nothing changes in this one."""

    def work() -> object:
        torch.manual_seed(0)
        bench = Bench(*drawn(), ticks)
        bench.measure(PASSES)
        return encoded(bench.result())

    return decoded(MeasuredStep, in_child(work))


def profile_of(rounds: Sequence[Mapping[int, MeasuredStep]], device: Device) -> Profile:
    """Makes the profile: all times scaled to the usual tick, those of equal operators joined to their median."""
    heard = np.array([each.tick_s for steps in rounds for each in steps.values()])
    usual = float(np.median(heard))
    steps = [_typical([each[index].at(usual) for each in rounds if index in each]) for index in rounds[0]]
    return Profile(
        device=device,
        made_at_s=time.time(),
        torch=str(torch.__version__),
        threads=torch.get_num_threads(),
        host=platform.node(),
        measured=joined(steps),
        steps=whole_steps(steps, device),
        tick_s=usual,
        drift_sd=round(float(np.quantile(np.abs(np.log(heard / usual)), 0.68)), 4),
    )


def _typical(times: Sequence[MeasuredStep]) -> MeasuredStep:
    """Averages several measurements of a step: a run has good minutes and bad ones, so the best is not typical."""
    alike = [each for each in times if len(each.seconds) == len(times[0].seconds)]
    seconds = np.exp(np.mean(np.log([each.seconds for each in alike]), axis=0))
    whole = math.exp(sum(math.log(each.whole_s) for each in alike) / len(alike))
    return replace(times[0], seconds=tuple(float(each) for each in seconds), whole_s=whole)


def joined(steps: Iterable[MeasuredStep]) -> tuple[Measured, ...]:
    """Joins the timings of equal operators (name and sizes) to their median."""
    seen = defaultdict(list)
    for step in steps:
        for operator, seconds in zip(step.operators, step.seconds, strict=True):
            seen[operator].append(seconds)
    return tuple(
        Measured(each.name, each.kind, each.phase, each.flops, each.bytes, each.dims, median(times))
        for each, times in seen.items()
    )


def whole_steps(steps: Sequence[MeasuredStep], device: Device) -> tuple[WholeStep, ...]:
    """Returns every network with the prediction of a model not fitted to it; without one for too few networks."""
    plain = [WholeStep(sum(each.seconds), each.calls, each.whole_s) for each in steps]
    if len(steps) < FOLDS:
        return tuple(plain)
    for fold in range(FOLDS):
        known = joined(each for place, each in enumerate(steps) if place % FOLDS != fold)
        model = Monotone(RatioModel.fit([each.timing(device) for each in known]))
        for place in range(fold, len(steps), FOLDS):
            times = model.times(steps[place].operators, device)
            plain[place] = replace(plain[place], predicted_s=times.total, predicted_sd=times.own_sd)
    return tuple(plain)


def probe_device(ticks: Clock) -> Device:
    """Measures this machine's processor: matrix products for its peak, copies for its bandwidth."""
    side, words = 512, 8_000_000
    one, source = torch.randn(side, side), torch.randn(words)
    target = torch.empty_like(source)
    product_s = _best(lambda: torch.mm(one, one), ticks)
    copy_s = _best(lambda: target.copy_(source), ticks)
    tiny = torch.zeros(1)
    call_s = _best(lambda: [tiny.add_(1.0) for _ in range(1000)], ticks) / 1000
    return Device(
        name="local",
        memory_gb=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9,
        bandwidth_gb_per_s=2 * 4 * words / copy_s / 1e9,
        peak_tflops={"fp32": 2.0 * side**3 / product_s / 1e12},
        launch_us=call_s * 1e6,
        source="measured here",
        as_of=time.strftime("%Y-%m-%d"),
        arch=platform.machine(),
        link=Link(intra_gb_per_s=5.0, inter_gb_per_s=1.0, latency_us=30.0),
    )


def _best(work: Callable[[], object], ticks: Clock, times: int = 7) -> float:
    def once() -> float:
        began = ticks()
        work()
        return max(ticks() - began, 1e-9)

    once()
    return min(once() for _ in range(times))
