"""Twelve small networks that no calibration draws: two each of CNN, residual, separable, MLP, LSTM, transformer."""

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


def lenet() -> TrainingJob:
    """Few channels, wide kernels, and fully connected layers."""
    return _image_job(
        *(nn.Conv2d(3, 12, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(12, 32, 5), nn.Tanh(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(800, 160), nn.Tanh(), nn.Linear(160, 84), nn.Tanh(), nn.Linear(84, 10)),
    )


def resnet12() -> TrainingJob:
    """Five residual blocks, wider and on larger images."""
    stem = (nn.Conv2d(3, 24, 5, 2, 2, bias=False), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2))
    blocks = [
        Residual(24, 40, 1),
        Residual(40, 40, 1),
        Residual(40, 80, 2),
        Residual(80, 80, 1),
        Residual(80, 112, 2),
    ]
    return _image_job(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(112, 10), size=64)


def mobile_wide() -> TrainingJob:
    """Separable convolutions with many channels on small images."""
    stem = (nn.Conv2d(3, 40, 3, 1, 1, bias=False), nn.BatchNorm2d(40), nn.ReLU())
    body = (_inverted(40, 2, 80), _inverted(80, 1, 80), _inverted(80, 2, 160), _inverted(160, 1, 160))
    return _image_job(*stem, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(160, 10))


def mlp6() -> TrainingJob:
    """Six fully connected layers with normalisation, trained by SGD."""
    layers = [each for a, b in pairwise((300, 640, 640, 320, 320, 160)) for each in _normed(a, b)]
    return TrainingJob(
        nn.Sequential(*layers, nn.Linear(160, 20)),
        lambda n: (torch.randn(n, 300), torch.randint(0, 20, (n,))),
        lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
        lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9),
    )


def _normed(c_in: int, c_out: int) -> tuple[nn.Module, ...]:
    return nn.Linear(c_in, c_out), nn.LayerNorm(c_out), nn.GELU()


def lstm1() -> TrainingJob:
    """One wide LSTM layer over 20 words."""
    return _words_job(Recurrent(800, 224, 1, gated=True), 800, 20)


def transformer3() -> TrainingJob:
    """Three narrow transformer layers over 64 words, without dropout."""
    return _words_job(Attentive(600, 112, 3, 4, 0.0), 600, 64)


NETWORKS: dict[str, JobFactory] = {
    "vgg8": vgg8,
    "lenet": lenet,
    "resnet8": resnet8,
    "resnet12": resnet12,
    "mobile": mobile,
    "mobile_wide": mobile_wide,
    "mlp4": mlp4,
    "mlp6": mlp6,
    "lstm2": lstm2,
    "lstm1": lstm1,
    "transformer2": transformer2,
    "transformer3": transformer3,
}
BATCHES = (4, 16, 64)
