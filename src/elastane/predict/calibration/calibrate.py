"""``calibrate``: a profile of this machine within a given time."""

from __future__ import annotations

import math
import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from statistics import median

import torch

from elastane.codec import decoded, encoded
from elastane.predict.calibration.child import in_child
from elastane.predict.calibration.networks import network
from elastane.predict.calibration.timing import Bench, Clock, MeasuredStep, clock
from elastane.predict.capturing import capture
from elastane.predict.devices import Device, Link
from elastane.predict.profile import Measured, Profile, WholeStep

SECONDS = 100.0
PASSES = 3
AT_MOST = 72
"""Networks: more would tell little that is new."""

Progress = Callable[[float, str], None]


def calibrate(
    seconds: float = SECONDS, seed: int = 0, progress: Progress = lambda _done, _text: None
) -> Profile:
    """Measure this machine for about so many seconds; ``progress`` hears the share done.

    Networks are drawn until half of the time is over; the other half measures the same ones again, so that a
    disturbance of minutes does not fall on some of them alone.
    """
    began, ticks = time.monotonic(), clock()
    _prepare()
    device = decoded(Device, in_child(lambda: encoded(probe_device(ticks))))
    rounds: list[list[MeasuredStep]] = []
    count = AT_MOST
    for share in (0.5, 1.0):
        steps: list[MeasuredStep] = []
        for index in range(count):
            steps.append(_measured(seed, index, ticks))
            spent = time.monotonic() - began
            progress(min(spent / seconds, 1.0), f"{len(steps)} networks, pass {len(rounds) + 1}")
            if spent > share * seconds:
                break
        rounds.append(steps)
        count = len(steps)
    return profile_of(_typical(rounds), device)


def _prepare() -> None:
    """Let PyTorch import here what every child would import again; a capture computes nothing, so no threads start."""
    for index in range(3):
        capture(lambda index=index: network(0, index)[0], 1)  # type: ignore[misc]


def _measured(seed: int, index: int, ticks: Clock) -> MeasuredStep:
    def work() -> object:
        torch.manual_seed(index)
        job, batch = network(seed, index)
        bench = Bench(job, batch, ticks)
        bench.measure(PASSES)
        return encoded(bench.result())

    return decoded(MeasuredStep, in_child(work))


def _typical(rounds: Sequence[Sequence[MeasuredStep]]) -> Iterator[MeasuredStep]:
    """Between two measurements: a run goes through good minutes and bad ones, so the better is not the truth."""
    for one, other in zip_longest(*rounds):
        if other is None or len(other.seconds) != len(one.seconds):
            yield one
        else:
            seconds = tuple(math.sqrt(a * b) for a, b in zip(one.seconds, other.seconds, strict=True))
            yield replace(one, seconds=seconds, whole_s=math.sqrt(one.whole_s * other.whole_s))


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
