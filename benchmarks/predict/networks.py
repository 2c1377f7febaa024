"""Six small networks that no calibration draws: CNN, residual, separable, MLP, LSTM, transformer."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from elastane.predict.calibration.networks import Attentive, Recurrent, Residual
from elastane.predict.job import JobFactory, TrainingJob


def _image_job(*layers: nn.Module, size: int = 32) -> TrainingJob:
    return TrainingJob(
        nn.Sequential(*layers),
        lambda n: (torch.randn(n, 3, size, size), torch.randint(0, 10, (n,))),
        lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    )


def vgg8() -> TrainingJob:
    """Plain convolutions and pooling, as VGG has them, in eight layers."""
    layers: list[nn.Module] = []
    width = 3
    for wider in (32, 64, 128):
        for c_in in (width, wider):
            layers += [nn.Conv2d(c_in, wider, 3, padding=1), nn.ReLU(inplace=True)]
        layers.append(nn.MaxPool2d(2))
        width = wider
    return _image_job(*layers, nn.Flatten(), nn.Linear(128 * 16, 256), nn.ReLU(), nn.Linear(256, 10))


def resnet8() -> TrainingJob:
    """Three residual blocks."""
    stem = (nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    blocks = (Residual(16, 16, 1), Residual(16, 32, 2), Residual(32, 64, 2))
    return _image_job(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


def _inverted(width: int, stride: int, wider: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(width, width, 3, stride, 1, groups=width, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, wider, 1, bias=False),
        nn.BatchNorm2d(wider),
        nn.ReLU(),
    )


def mobile() -> TrainingJob:
    """Separable convolutions on larger images."""
    stem = (nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU())
    body = (_inverted(16, 1, 32), _inverted(32, 2, 64), _inverted(64, 1, 64), _inverted(64, 2, 128))
    return _image_job(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10), size=64)


def mlp4() -> TrainingJob:
    """Four fully connected layers."""
    sizes = (784, 512, 512, 256)
    layers = [each for a, b in pairwise(sizes) for each in (nn.Linear(a, b), nn.ReLU())]
    return TrainingJob(
        nn.Sequential(*layers, nn.Linear(256, 10)),
        lambda n: (torch.randn(n, 784), torch.randint(0, 10, (n,))),
        lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    )


def _words_job(model: nn.Module, words: int, length: int) -> TrainingJob:
    return TrainingJob(
        model,
        lambda n: torch.randint(0, words, (n, length)),
        lambda model, x: functional.cross_entropy(model(x).flatten(0, 1), x.flatten()),
        lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    )


def lstm2() -> TrainingJob:
    """Two LSTM layers over 40 words."""
    return _words_job(Recurrent(2000, 160, 2, gated=True), 2000, 40)


def transformer2() -> TrainingJob:
    """Two transformer layers over 40 words."""
    return _words_job(Attentive(2000, 160, 2, 4, 0.1), 2000, 40)


NETWORKS: dict[str, JobFactory] = {
    "vgg8": vgg8,
    "resnet8": resnet8,
    "mobile": mobile,
    "mlp4": mlp4,
    "lstm2": lstm2,
    "transformer2": transformer2,
}
BATCHES = (4, 16, 64)
