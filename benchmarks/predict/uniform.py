"""What guards the sampler of ``calibrate``: convolutions at uniformly random sizes have to make it worse.

The same profile, with its convolutions (forward and backward) replaced by ones measured at sizes drawn as Justus et
al. draw them; everything else, also how operators add up to a step, stays.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from elastane.codec import decoded, encoded
from elastane.predict.calibration.calibrate import joined
from elastane.predict.calibration.measuring_process import in_child
from elastane.predict.calibration.timing import Bench, MeasuredStep, clock
from elastane.predict.job import TrainingJob
from elastane.predict.operators import Kind
from elastane.predict.profile import Profile

SECONDS = 60.0
LAYERS = 6
"""Convolutions measured by one process."""
MOST_FLOPS = 4e9
"""Of one convolution and its backward: more would take the time of many."""
CONVOLUTIONS = (Kind.CONVOLUTION, Kind.CONVOLUTION_BACKWARD)

Sizes = tuple[int, int, int, int, int, int]
"""Batch, image side, channels in and out, kernel side, stride."""


def uniform_profile(profile: Profile) -> Profile:
    """The profile as it would be had convolutions been measured at uniformly random sizes."""
    draw, steps = random.Random(0), list[MeasuredStep]()
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        sizes = [_sizes(draw) for _ in range(LAYERS)]
        steps.append(_measured(sizes).at(profile.tick_s))
    others = tuple(each for each in profile.measured if each.kind not in CONVOLUTIONS)
    drawn = tuple(each for each in joined(steps) if each.kind in CONVOLUTIONS)
    return replace(profile, measured=(*others, *drawn))


def _sizes(draw: random.Random) -> Sizes:
    """Side, kernel, stride and channels by the published recipe; what takes too long is drawn again."""
    while True:
        batch, side = draw.randint(1, 64), draw.randint(1, 512)
        kernel, stride = draw.randint(1, min(7, side)), draw.randint(1, 4)
        c_in, c_out = (draw.randint(1, max(10_000 // side, 1)) for _ in range(2))
        if 6.0 * batch * (side / stride) ** 2 * kernel**2 * c_in * c_out <= MOST_FLOPS:
            return batch, side, c_in, c_out, kernel, stride


def _measured(sizes: Sequence[Sizes]) -> MeasuredStep:
    def work() -> object:
        torch.manual_seed(0)
        bench = Bench(_job(sizes), 1, clock())
        bench.measure(3)
        return encoded(bench.result())

    return decoded(MeasuredStep, in_child(work))


def _job(sizes: Sequence[Sizes]) -> TrainingJob:
    """Layers beside each other, each with an input that wants its gradient."""

    def batch(_size: int) -> list[Tensor]:
        return [torch.randn(n, c_in, side, side, requires_grad=True) for n, side, c_in, _, _, _ in sizes]

    def loss(model: nn.ModuleList, data: list[Tensor]) -> Tensor:
        return torch.stack([layer(x).sum() for layer, x in zip(model, data, strict=True)]).sum()

    layers = [
        nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2) for _, _, c_in, c_out, kernel, stride in sizes
    ]
    return TrainingJob(nn.ModuleList(layers), batch, loss)
