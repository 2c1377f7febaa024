"""A ResNet-50 on every device of the catalog: seconds, and the same answer twice."""

from __future__ import annotations

import time

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.figures import Figures
from elastane.predict import Machine, TrainingJob, capture, catalog, estimate_step


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
    """Capture and predict, twice."""

    def predicted() -> list[float]:
        captured = capture(resnet50, 32)
        return [estimate_step(captured, Machine.from_catalog(each)).seconds.middle for each in catalog()]

    began, computing = time.monotonic(), time.process_time()
    first = predicted()
    spent = time.process_time() - computing
    # On a shared machine the clock on the wall counts others' work as well.
    figures.at_most("ResNet-50 on all catalog devices, CPU seconds", spent, 10.0, "gate", "s")
    figures.note(f"{time.monotonic() - began:.1f} s on the wall")
    differing = float(sum(a != b for a, b in zip(first, predicted(), strict=True)))
    figures.at_most("devices with another answer the second time", differing, 0.0, "gate")
