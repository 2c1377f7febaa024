"""The digits that ship with scikit-learn, divided the same way for every script that learns them."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import TensorDataset

_TRAIN = 1500


@dataclass(frozen=True)
class Digits:
    """Images of 8 × 8 grey values between 0 and 1, and which digit each shows."""

    train: TensorDataset
    test: tuple[Tensor, Tensor]

    def accuracy(self, model: nn.Module) -> float:
        """The share of test images that a model reads right."""
        model.eval()
        with torch.no_grad():
            right = model(self.test[0]).argmax(1) == self.test[1]
        return float(right.float().mean())


def load() -> Digits:
    """The first 1500 to learn from, the rest to test with."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32) / 16.0
    labels = torch.tensor(data.target)
    return Digits(TensorDataset(images[:_TRAIN], labels[:_TRAIN]), (images[_TRAIN:], labels[_TRAIN:]))
