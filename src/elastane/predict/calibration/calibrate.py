"""``calibrate``: a profile of this machine within a given time."""

from __future__ import annotations

import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from itertools import islice
from statistics import median

import torch

from elastane.predict.calibration.networks import networks
from elastane.predict.calibration.timing import Bench, Clock, MeasuredStep, clock
from elastane.predict.capture.isolation import untouched_randomness
from elastane.predict.devices import Device, Link
from elastane.predict.profile import Measured, Profile, WholeStep

SECONDS = 100.0
ROUNDS = 3
AT_MOST = 60
"""Networks: more would tell little that is new."""

Progress = Callable[[float, str], None]


def calibrate(seconds: float = SECONDS, seed: int = 0, progress: Progress = lambda _done, _text: None) -> Profile:
    """Measure this machine for about so many seconds; ``progress`` hears the share done.

    As many networks are drawn as half of the time allows to build and measure once; the rest of the time goes to
    further rounds over all of them, so that a disturbance hits all alike.
    """
    began, ticks = time.monotonic(), clock()
    with untouched_randomness():
        torch.manual_seed(seed)
        device = probe_device(ticks)
        benches: list[Bench] = []
        for job, batch in islice(networks(seed), AT_MOST):
            benches.append(Bench(job, batch, ticks))
            benches[-1].measure(2)
            spent = time.monotonic() - began
            progress(min(spent / seconds, 1.0), f"{len(benches)} networks")
            if spent > 0.5 * seconds:
                break
        for bench in _again(benches, began, seconds):
            bench.measure(1)
            progress(min((time.monotonic() - began) / seconds, 1.0), "measuring again")
    return profile_of([bench.result() for bench in benches], device)


def _again(benches: list[Bench], began: float, seconds: float) -> Iterable[Bench]:
    for _ in range(ROUNDS):
        for bench in benches:
            if time.monotonic() - began > seconds:
                return
            yield bench


def profile_of(steps: Iterable[MeasuredStep], device: Device) -> Profile:
    """Timings of equal operators joined to their median."""
    seen, wholes = defaultdict(list), []
    for step in steps:
        wholes.append(WholeStep(sum(step.seconds), step.calls, step.whole_s))
        for operator, seconds in zip(step.operators, step.seconds, strict=True):
            seen[operator].append(seconds)
    measured = tuple(
        Measured(each.name, each.kind, each.phase, each.flops, each.bytes, each.dims, median(times))
        for each, times in seen.items()
    )
    return Profile(
        device=device,
        made_at_s=time.time(),
        torch=str(torch.__version__),
        threads=torch.get_num_threads(),
        host=platform.node(),
        measured=measured,
        steps=tuple(wholes),
    )


def probe_device(ticks: Clock) -> Device:
    """What this machine's processor reaches: matrix products for its peak, copies for its bandwidth."""
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
