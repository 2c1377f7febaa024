"""What sizes do to a calibrated machine: more is never predicted to take less, uneven channels cost what they cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.figures import Figures
from elastane.predict import Machine, capture, estimate_step
from elastane.predict.calibration.timing import measure_step
from elastane.predict.job import TrainingJob
from elastane.predict.profile import Profile

PAIRS = (((64, 64), (63, 65)), ((32, 64), (31, 66)), ((128, 128), (127, 129)))
"""Channels of two convolutions, even and uneven, of nearly the same FLOPs."""
REPEATS = 5


def convolutions(width: int, depth: int, wider: int = 0) -> TrainingJob:
    """Convolutions between ``width`` and ``wider`` channels, to and fro."""
    wider = wider or width
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1), nn.ReLU()]
    for place in range(depth):
        sizes = (width, wider) if place % 2 == 0 else (wider, width)
        layers += [nn.Conv2d(*sizes, 3, padding=1), nn.ReLU()]
    last = wider if depth % 2 else width
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(last, 10)]
    return _job(nn.Sequential(*layers), (3, 16, 16))


def dense(width: int, depth: int) -> TrainingJob:
    """Fully connected layers of equal width."""
    layers = [each for _ in range(depth) for each in (nn.Linear(width, width), nn.ReLU())]
    return _job(nn.Sequential(*layers, nn.Linear(width, 10)), (width,))


def _job(model: nn.Module, shape: tuple[int, ...]) -> TrainingJob:
    return TrainingJob(
        model,
        lambda n: (torch.randn(n, *shape), torch.randint(0, 10, (n,))),
        lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        lambda parameters: torch.optim.SGD(parameters, lr=1e-2),
    )


def sizes_matter(figures: Figures, profile: Profile) -> None:
    """Both, on a calibrated machine."""
    machine = Machine.local(profile)
    worst = max(
        _worst_fall(machine, convolutions, 64, (16, 32, 48, 64, 96, 128)),
        *(_worst_fall(machine, dense, width, (16, 32, 64, 128, 256, 512, 1024)) for width in (64, 256, 512)),
    )
    figures.at_most("more work is predicted to take less by at most", 100 * worst, 5.0, "gate", "%")
    _uneven(figures, machine)


def _predicted(machine: Machine, job: TrainingJob, batch: int) -> float:
    return estimate_step(capture(job, batch), machine).seconds.middle


def _worst_fall(
    machine: Machine, make: Callable[[int, int], TrainingJob], width: int, widths: Sequence[int]
) -> float:
    """Over batches, widths and depths, each growing alone."""
    rows = (
        [_predicted(machine, make(width, 3), batch) for batch in (2, 4, 8, 16, 32, 64)],
        [_predicted(machine, make(each, 3), 16) for each in widths],
        [_predicted(machine, make(width, depth), 16) for depth in (1, 2, 3, 4, 6, 8)],
    )
    return max(0.0, *(1.0 - later / earlier for row in rows for earlier, later in pairwise(row)))


def _uneven(figures: Figures, machine: Machine) -> None:
    """By how much uneven channels are slower, measured in turns and predicted."""
    measured, predicted = [], []
    for pair in PAIRS:
        jobs = [partial(convolutions, width, 4, wider) for width, wider in pair]
        seen = [[step / tick for step, tick in (measure_step(job, 16) for job in jobs)] for _ in range(REPEATS)]
        measured.append(float(np.median([uneven / even for even, uneven in seen])))
        times = [_predicted(machine, job(), 16) for job in jobs]
        predicted.append(times[1] / times[0])
        figures.note(
            f"channels {pair[1]} for {pair[0]}: measured {100 * measured[-1] - 100:+.0f} %, "
            f"predicted {100 * predicted[-1] - 100:+.0f} %"
        )
    off = max(abs(said / seen - 1.0) for said, seen in zip(predicted, measured, strict=True))
    figures.at_most(
        "slower by uneven channels, predicted against measured, largest error", 100 * off, 15.0, "goal", "%"
    )
