"""Convolutional, residual and separable networks by their sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from elastane.predict.calibration.networks import Residual
from elastane.predict.job import TrainingJob

Blocks = tuple[tuple[int, int], ...]
"""Channels out of each block, and its stride."""


def _job(layers: Sequence[nn.Module], size: int, classes: int, sgd: bool) -> TrainingJob:
    return TrainingJob(
        nn.Sequential(*layers),
        lambda n: (torch.randn(n, 3, size, size), torch.randint(0, classes, (n,))),
        lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        lambda parameters: (
            torch.optim.SGD(parameters, lr=1e-2, momentum=0.9)
            if sgd
            else torch.optim.AdamW(parameters, lr=1e-3)
        ),
    )


@dataclass(frozen=True)
class Plain:
    """Stages of equal convolutions with pooling between them, and fully connected layers, as VGG and LeNet have."""

    stages: tuple[tuple[int, int], ...]
    """Channels and number of convolutions."""
    head: tuple[int, ...]
    size: int = 32
    kernel: int = 3
    pad: bool = True
    smooth: bool = False
    """Tanh and mean pooling, in place of ReLU and the largest."""
    sgd: bool = False

    def __call__(self) -> TrainingJob:
        """The job."""
        layers: list[nn.Module] = []
        width, side, padding = 3, self.size, self.kernel // 2 if self.pad else 0
        for wider, count in self.stages:
            for _ in range(count):
                layers += [nn.Conv2d(width, wider, self.kernel, padding=padding), self._bend()]
                width, side = wider, side + 2 * padding - self.kernel + 1
            layers.append(nn.AvgPool2d(2) if self.smooth else nn.MaxPool2d(2))
            side //= 2
        layers.append(nn.Flatten())
        for c_in, c_out in pairwise((width * side * side, *self.head)):
            layers += [nn.Linear(c_in, c_out), nn.Tanh() if self.smooth else nn.ReLU()]
        return _job([*layers, nn.Linear(self.head[-1], 10)], self.size, 10, self.sgd)

    def _bend(self) -> nn.Module:
        return nn.Tanh() if self.smooth else nn.ReLU(inplace=True)


@dataclass(frozen=True)
class Residuals:
    """A first convolution, perhaps pooled, and residual blocks."""

    stem: tuple[int, int, int]
    """Channels, kernel and stride of the first convolution."""
    blocks: Blocks
    size: int = 32
    pool: bool = False
    classes: int = 10
    sgd: bool = False

    def __call__(self) -> TrainingJob:
        """The job."""
        layers = _stem(*self.stem)
        if self.pool:
            layers.append(nn.MaxPool2d(2))
        width = self.stem[0]
        for wider, stride in self.blocks:
            layers.append(Residual(width, wider, stride))
            width = wider
        return _job([*layers, *_mean(width, self.classes)], self.size, self.classes, self.sgd)


@dataclass(frozen=True)
class Separable:
    """A first convolution, and convolutions by channel each followed by one of single pixels, as in MobileNet."""

    stem: tuple[int, int, int]
    blocks: Blocks
    size: int = 32
    classes: int = 10
    sgd: bool = False

    def __call__(self) -> TrainingJob:
        """The job."""
        layers, width = _stem(*self.stem), self.stem[0]
        for wider, stride in self.blocks:
            layers += [
                *(nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False), nn.BatchNorm2d(width)),
                *(nn.ReLU(), nn.Conv2d(width, wider, 1, bias=False), nn.BatchNorm2d(wider), nn.ReLU()),
            ]
            width = wider
        return _job([*layers, *_mean(width, self.classes)], self.size, self.classes, self.sgd)


def _stem(width: int, kernel: int, stride: int) -> list[nn.Module]:
    return [nn.Conv2d(3, width, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(width), nn.ReLU()]


def _mean(width: int, classes: int) -> tuple[nn.Module, ...]:
    return nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, classes)
