"""A ResNet-50 on every device of the catalog: seconds, and the same answer twice."""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.figures import Figures
from elastane.predict import TrainingJob

TIMES = 3


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1 beside a short cut."""

    def __init__(self, c_in: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.body = nn.Sequential(
            nn.Conv2d(c_in, width, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, out, 1, bias=False),
            nn.BatchNorm2d(out),
        )
        plain = c_in == out and stride == 1
        self.short = nn.Identity() if plain else nn.Conv2d(c_in, out, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """The block."""
        return functional.relu(self.body(x) + self.short(x))


def resnet50() -> TrainingJob:
    """The model of He et al. with SGD, 224² images."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    layers.append(nn.MaxPool2d(3, 2, 1))
    c_in = 64
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for index in range(count):
            layers.append(Bottleneck(c_in, width, stride if index == 0 else 1))
            c_in = 4 * width
    return TrainingJob(
        nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000)),
        lambda n: (torch.randn(n, 3, 224, 224), torch.randint(0, 1000, (n,))),
        lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    )


def catalog_speed(figures: Figures) -> None:
    """The command a user types, three times, each from the start of Python to its last line."""
    command = [sys.executable, "-m", "elastane", "predict", "step", f"{__name__}:resnet50", "-b", "32"]
    walls, told = [], []
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(TIMES):
        began = time.monotonic()
        done = subprocess.run([*command, "--device", "all", "--json"], check=True, capture_output=True)
        walls.append(time.monotonic() - began)
        told.append(done.stdout)
    spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used.ru_utime
    # Others' work on a shared machine only ever adds.
    figures.at_most("ResNet-50 on all catalog devices, seconds on the wall", min(walls), 10.0, "gate", "s")
    each = ", ".join(f"{wall:.1f}" for wall in walls)
    figures.note(f"wall {each} s, {spent / TIMES:.1f} CPU seconds, most of them PyTorch's import")
    figures.at_most("other answers the second and third time", float(len(set(told)) - 1), 0.0, "gate")
