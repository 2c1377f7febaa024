"""Fully connected, recurrent and attentive networks by their sizes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from elastane.predict.calibration.networks import Attentive, Recurrent
from elastane.predict.job import TrainingJob


@dataclass(frozen=True)
class Layers:
    """Fully connected layers, plain with ReLU, or normalised with GELU."""

    sizes: tuple[int, ...]
    classes: int = 10
    normed: bool = False
    sgd: bool = False

    def __call__(self) -> TrainingJob:
        """The job."""
        layers = [each for c_in, c_out in pairwise(self.sizes) for each in self._layer(c_in, c_out)]
        return TrainingJob(
            nn.Sequential(*layers, nn.Linear(self.sizes[-1], self.classes)),
            lambda n: (torch.randn(n, self.sizes[0]), torch.randint(0, self.classes, (n,))),
            lambda model, batch: functional.cross_entropy(model(batch[0]), batch[1]),
            lambda parameters: (
                torch.optim.SGD(parameters, lr=1e-2, momentum=0.9)
                if self.sgd
                else torch.optim.AdamW(parameters, lr=1e-3)
            ),
        )

    def _layer(self, c_in: int, c_out: int) -> tuple[nn.Module, ...]:
        linear = nn.Linear(c_in, c_out)
        return (linear, nn.LayerNorm(c_out), nn.GELU()) if self.normed else (linear, nn.ReLU())


@dataclass(frozen=True)
class Words:
    """What both kinds of language models have: words, width, layers and length of a sentence."""

    words: int
    width: int
    layers: int
    length: int

    def _job(self, model: nn.Module) -> TrainingJob:
        return TrainingJob(
            model,
            lambda n: torch.randint(0, self.words, (n, self.length)),
            lambda model, x: functional.cross_entropy(model(x).flatten(0, 1), x.flatten()),
            lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
        )


@dataclass(frozen=True)
class Lstm(Words):
    """An LSTM over words."""

    def __call__(self) -> TrainingJob:
        """The job."""
        return self._job(Recurrent(self.words, self.width, self.layers, gated=True))


@dataclass(frozen=True)
class Transformer(Words):
    """Transformer layers over words."""

    heads: int = 4
    dropout: float = 0.0

    def __call__(self) -> TrainingJob:
        """The job."""
        return self._job(Attentive(self.words, self.width, self.layers, self.heads, self.dropout))
